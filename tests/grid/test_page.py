"""docs/results/split-coco.md from raw results: every figure in its place, and what is absent is said."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from mlcl.recipe import load_recipe, resolve

ROOT = Path(__file__).parents[2]
METRICS = ("mAP", "CP", "CR", "CF1", "OP", "OR", "OF1")


@pytest.fixture(scope="module")
def page() -> ModuleType:
    path = ROOT / "benchmarks" / "coco128" / "page.py"
    spec = importlib.util.spec_from_file_location("split_coco_page", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def row(method: str, value: float | None, seed: int = 0, **settings: Any) -> dict[str, Any]:
    every = {"final": value, "mean_over_tests": value, "forgetting_absolute": 0.05}
    scores: dict[str, Any] = {"summary": None, "error": "not run yet"}
    if value is not None:
        scores = {"summary": dict.fromkeys(METRICS, every), "error": None, "after": [1, 2]}
        scores["mAP"] = [[value], [value, value]]
    return {"method": method, "seed": seed, "settings": settings, "seconds": 30.0, "folder": "f", **scores}


@pytest.fixture
def found(page: ModuleType, tmp_path: Path) -> Any:
    il, cl = {"stream.scenario": "il"}, {"stream.scenario": "cl"}
    lwf = {**row("lwf", 0.52, **il), "acm": dict.fromkeys(("estimated", "mean", "identity", "random"), 0.25)}
    recipe = resolve({"methods": ["lwf"], "plugins": [], "learner": {"precision": "bfloat16"}}).tree()
    made = {"gpu": "a GPU", "torch": "2.0", "date": "2026-11-19T20:00:00", "command": ["run.py", "/a/place"]}
    tasks = [{"classes": ["a"], "train": 3000, "test": 10}, {"classes": ["b"], "train": 2000, "test": 1020}]
    head = {"format": 1, "recipe": recipe, "made": made, "tasks": tasks, "lacking": []}
    winner = {"method": "lwf", "per": {}, "searched": {"learner.optimizer.lr": 0.25}, "tried": 2, "of": 2}
    contents = {
        "search": [row("lwf", 0.4), row("lwf", 0.3)],
        "final": [lwf, row("joint-full", 0.6, **il), row("er", None, **il), row("lwf", 0.58, **cl)],
        "seeds": [row("lwf", 0.54, 1, **il)],
        "variants": [row("agcn++", 0.4), row("agcn++", 0.42, readout="dot")],
    }
    for name, cells in contents.items():
        grid = {**head, "name": name, "cells": cells, "winners": [winner] if name == "search" else []}
        (tmp_path / name).mkdir()
        (tmp_path / name / "grid.json").write_text(json.dumps(grid))
    (tmp_path / "results").mkdir()
    page.take(tmp_path, tmp_path / "results")
    return page.Found(tmp_path / "results")


def test_the_tables(page: ModuleType, found: Any) -> None:
    il = page.scores(found, "il").splitlines()
    assert il[2].split(" | ")[:4] == ["| joint-full", "60.00", "–", "60.00"]  # the best first
    assert il[3].split(" | ") == [
        "| LwF", "53.00 ± 1.41", "19.95", "53.00 ± 1.41", "5.00 ± 0.00", "41.16",
        "53.00 ± 1.41", "21.69", "53.00 ± 1.41", "40.68", "2 |",
    ]  # fmt: skip
    assert il[-1] == "Not finished in the time that the machine was lent for: ER."
    assert "| LwF | 58.00 | 40.87 |" in page.scores(found, "cl")
    assert "| joint-full | 60.00 |" in page.scores(found, "cl")  # the same run counts for both
    assert page.settings(found).splitlines()[2] == "| LwF | `optimizer.lr = 0.25` | 40.00 | 30.00 | 2 of 2 |"
    assert "| `readout = dot` | 42.00 | +2.00 | 1 |" in page.variants(found)
    assert page.paper_settings(found) == page.NOT_RUN
    assert page.acm(found).splitlines()[2:] == ["| LwF | IL | 0.2500 | 0.2500 | 0.2500 | 0.2500 |"]
    assert page.short(found).splitlines()[2].startswith("| LwF | 40.00 | 40.00 |")  # its best setting alone
    made = page.made(found, "final", "seeds")
    assert "5,000 for training in 2 tasks, seen once; 1,020 others to test on" in made
    assert "a GPU, PyTorch 2.0, 2026-11-19; 4 runs" in made
    assert "1,020 others to choose by" in page.made(found, "search")
    assert page.made(found, "paper") == page.NOT_RUN


def test_every_block_is_filled_and_the_page_says_nothing_of_the_machines_places(
    page: ModuleType, found: Any, tmp_path: Path
) -> None:
    text = page.filled(page.PAGE.read_text(encoding="utf-8"), found)
    assert not page.re.search(r"-->\n<!-- end -->", text)
    for path in (tmp_path / "results").iterdir():
        assert "/a/place" not in path.read_text()


def test_the_pictures(page: ModuleType, found: Any, tmp_path: Path) -> None:
    page.pictures(found, tmp_path)
    for scenario in ("il", "cl"):
        assert (tmp_path / f"split-coco-{scenario}.png").read_bytes().startswith(b"\x89PNG")


def test_the_recipes_are_what_was_run(page: ModuleType, found: Any, tmp_path: Path) -> None:
    for name in ("paper", "tuned"):
        for path in page.TUNED.parent.joinpath(name).glob("*.toml"):
            (tmp_path / name).mkdir(exist_ok=True)
            (tmp_path / name / path.name).write_text(path.read_text())
    page.recipes(found, tmp_path / "tuned")
    ours = load_recipe(str(tmp_path / "tuned" / "split-coco" / "lwf.toml"))
    ran = page.put(found.grids["search"]["recipe"], {"learner.optimizer.lr": 0.25}, "lwf")
    ran["method"]["lwf"]["backbone"]["size"] = 224  # the search may run smaller
    assert ours.tree()["method"]["lwf"] == ran["method"]["lwf"]


def test_the_committed_page_is_made_from_the_committed_results(page: ModuleType) -> None:
    assert page.main(["check"]) == 0
