"""Every recipe that comes with mlcl: it is what its name says, and its methods learn."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from mlcl import LabelTable, build
from mlcl.config import merge
from mlcl.experiment import batches
from mlcl.recipe import Recipe, find, load_recipe, recipes, resolve
from mlcl.types import Images

TABLES = [name for name in recipes() if name.startswith("paper/") and len(load_recipe(name).learners) > 2]
ALONE = [name for name in recipes() if name not in TABLES and name.startswith(("paper/", "tuned/"))]


class Pixels(Images):
    def __init__(self, count: int):
        chance = np.random.default_rng(0)
        self.x = torch.from_numpy(chance.integers(0, 256, (count, 3, 12, 12), dtype=np.uint8))

    def __len__(self) -> int:
        return len(self.x)

    def load(self, indices: np.ndarray) -> Tensor:
        return self.x[torch.as_tensor(np.asarray(indices))]


@lru_cache
def stand_in(name: str) -> LabelTable:
    """For Split-COCO 40 classes with their tasks, for NUS-WIDE 30 without; four images for each class."""
    classes = 30 if "wide" in name else 40
    rows = np.arange(4 * classes)
    labels = np.zeros((len(rows), classes), np.int8)
    labels[rows, rows % classes] = labels[rows, (rows * 7 + 1) % classes] = 1
    names = tuple(f"class {c}" for c in range(classes))
    table = LabelTable(
        "stand-in", names, [f"image {row}" for row in rows], labels, rows >= 2 * classes, Pixels(len(rows))
    )
    return table if "wide" in name else replace(table, owner=(rows % classes) // 4, widths=(4,) * 10)


def small(recipe: Recipe) -> Recipe:
    """The recipe with a tiny network and no file that it would have to find."""
    tree = recipe.tree()
    tree["data"] = {"source": "scenes"}
    less = {"backbone": {"name": "tiny", "size": 16}, "embeddings": "random", "fisher_images": 2}
    for name, method in tree["method"].items():
        tree["method"][name] = merge(method, {key: less[key] for key in less if key in method})
    return resolve(tree)


@pytest.mark.parametrize("name", ALONE)
def test_two_steps(name: str) -> None:
    recipe = small(load_recipe(name))
    stream = build(stand_in(name), recipe.stream)
    for method in recipe.learners:
        learner = recipe.build_learner(method)
        for task in islice(learner.view(stream), 2):
            learner.begin_task(task)
            for batch in islice(batches(task.train, np.arange(len(task.train)), 4), 1):
                assert all(torch.isfinite(term) for term in learner.observe(batch).values())
            learner.end_task(task, batches(task.train, np.arange(4), 4))
        assert torch.isfinite(learner.predict(stream[0].test.batch([0]).x)).all()


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_its_rows(name: str) -> None:
    table = load_recipe(name)
    build(stand_in(name), table.stream)
    rows = [row for row in recipes() if row.startswith(f"{name}/")]
    for row in rows:
        alone = load_recipe(row)
        (method,) = alone.learners
        assert row.endswith(f"/{method}")
        assert alone.learners[method] == table.learners[method]
        assert (alone.stream, alone.loop) == (table.stream, table.loop)
    assert not rows or {row.rpartition("/")[2] for row in rows} == set(table.learners)


def test_every_row_of_the_papers_tables_is_there() -> None:
    printed = json.loads((Path(__file__).parents[1] / "benchmarks" / "paper.json").read_text())
    for data, scenarios in printed["main"].items():
        for scenario, rows in scenarios.items():
            ours = load_recipe(f"paper/{data}-{scenario}")
            assert {name.lower().replace("agem", "a-gem") for name in rows} == set(ours.learners)
            assert ours.stream.scenario == scenario
            for method in ours.learners:
                assert find(f"paper/{data}-{scenario}/{method}").is_file()
    for title, rows in printed["n_way"].items():
        data, way, scenario = title.split()
        ours = load_recipe(f"paper/{data}-{way}-{scenario}")
        assert {name.lower().replace("agem", "a-gem") for name in rows} == set(ours.learners)
        assert ours.stream.way == int(way.split("-")[0])
    for title, (without, with_relation) in printed["ablation_lambda"].items():
        data, scenario = title.split()
        whole = load_recipe(f"paper/{data}-{scenario}/agcn++").learners["agcn++"]
        assert [whole.lambda1, whole.lambda2, whole.lambda3] == with_relation["lambda"]
        ablated = load_recipe(f"paper/ablation/no-relation-{data}-{scenario}").learners["agcn++"]
        assert [ablated.lambda1, ablated.lambda2, ablated.lambda3] == without["lambda"]


def test_tasks_are_those_of_the_paper() -> None:
    def widths(name: str) -> list[int]:
        stream = build(stand_in(name), load_recipe(name).stream)
        return [task.stop - task.start for task in stream]

    assert widths("paper/split-coco-il") == [4] * 10
    assert widths("paper/split-coco-8-way-cl") == [8] * 5
    assert widths("paper/split-coco-uneven-il") == [7, 4, 1, 6, 2, 2, 5, 7, 3, 3]
    assert widths("paper/split-wide-cl") == [3] * 7
    assert widths("paper/split-wide-7-way-cl") == [7] * 3


def test_no_value_is_written_twice() -> None:
    """A row says which method it is, and a variant what differs: nothing that it extends says as well."""
    root = find("scenes").parent
    for path in root.rglob("*.toml"):
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
        if "extends" not in tree or path.parent.name == "tuned":
            continue
        below = tomllib.loads((path.parent / tree["extends"]).read_text(encoding="utf-8"))
        for table, value in tree.items():
            if isinstance(value, dict) and table != "method":
                for key, said in value.items():
                    if not isinstance(said, dict):
                        assert below.get(table, {}).get(key) != said, f"{path}: {table}.{key} is said below"
