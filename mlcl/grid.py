"""Many runs from one TOML: methods x seeds x settings, as parallel processes on one machine.

    recipe = "scenes"                      what every run starts from
    methods = ["lwf", "agcn++"]
    seeds = [0, 1, 2]
    [axes]                                 every combination of these ...
    "stream.scenario" = ["il", "cl"]
    [method."agcn++"]                      ... and of these for one method
    lambda3 = [0.0, 100.0]
    [[case]]                               ... with each of these sets of settings, where a list is too much
    propagation = "identity"
    [set]                                  fixed for all
    "loop.batch_size" = 8
    [select]                               then the best setting of each method becomes a recipe
    per = ["stream.scenario"]

A cell is an ordinary run folder below `cells/`: finished ones are left alone, broken ones are told of and
do not stop the rest. A cell is a function of its recipe, so it can run anywhere (`run_cell`).
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import traceback
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from mlcl import store
from mlcl.config import Tree, from_tree, merge, override, read_toml, write_toml
from mlcl.data.source import source
from mlcl.data.table import LabelTable
from mlcl.errors import ConfigError, MLCLError
from mlcl.experiment import Experiment, set_threads
from mlcl.recipe import load_recipe, resolve
from mlcl.stream import build


@dataclass(frozen=True, kw_only=True)
class Select:
    """Which setting is a method's best: the highest mean over seeds."""

    metric: str = "mAP"
    summary: str = "mean_over_tests"
    per: tuple[str, ...] = ()  # axes that are not searched over: one winner for each of their values


@dataclass(frozen=True, kw_only=True)
class Head:
    name: str = "grid"
    recipe: str = "scenes"
    methods: tuple[str, ...] = ()
    seeds: tuple[int, ...] = (0,)
    workers: int = 1
    plugins: tuple[str, ...] = ()


@dataclass(frozen=True)
class Cell:
    method: str
    seed: int
    settings: Mapping[str, Any]  # what the axes say, by key
    tree: Tree = field(repr=False)  # the whole recipe

    @property
    def name(self) -> str:
        words = [f"{key.rpartition('.')[2]}={value}" for key, value in self.settings.items()]
        plain = re.sub(r"[^\w=.+-]+", "-", "_".join([self.method, *words]))[:100]
        print_ = hashlib.sha256(json.dumps(self.tree, sort_keys=True).encode()).hexdigest()[:8]
        return f"{plain}_seed={self.seed}_{print_}"


@dataclass(frozen=True)
class Grid:
    head: Head
    cells: tuple[Cell, ...]
    select: Select | None


def load_grid(path: Path) -> Grid:
    tree = read_toml(path)
    where = f"{path}: "
    axes, own, cases = tree.pop("axes", {}), tree.pop("method", {}), tree.pop("case", [{}])
    settings, chosen = tree.pop("set", {}), tree.pop("select", None)
    head = from_tree(Head, tree, where)
    if not head.methods:
        raise ConfigError(f"{where}methods: name at least one")
    for method in own:
        if method not in head.methods:
            raise ConfigError(f'{where}method."{method}": is not among methods')
    for keys in (axes, *own.values()):
        for key, values in keys.items():
            if not isinstance(values, list) or not values:
                raise ConfigError(f"{where}{key}: expected a list of values, got {values!r}")
    select = None if chosen is None else from_tree(Select, chosen, f"{where}select")
    return Grid(head, tuple(_cells(head, axes, own, cases, settings)), select)


def run_cell(tree: Tree, folder: Path) -> Tree:
    """Learns one cell, going on where it stopped; returns its summary."""
    recipe = resolve(tree)
    set_threads(recipe.head.threads)
    (method,) = recipe.learners
    if not (folder / "run.json").exists():
        store.write_text(folder / "config.toml", write_toml(recipe.tree()))
        store.write_json(folder / "run.json", store.provenance())
    stream = build(_table(json.dumps(tree.get("data", {}), sort_keys=True)), recipe.stream)
    experiment = Experiment(
        stream,
        recipe.build_learner(method),
        config=recipe.loop,
        seed=recipe.head.seed,
        folder=folder / method,
    )
    experiment.resume()
    summary: Tree = experiment.run()["summary"]
    return summary


def run_grid(grid: Grid, folder: Path, tell: Any = lambda cell, summary, error: None) -> list[Tree]:
    """Runs what is not finished; writes grid.json after every cell, and the winners at the end."""
    rows: dict[str, Tree] = {}
    waiting = []
    for cell in grid.cells:
        done = _finished(folder / "cells" / cell.name / cell.method)
        if done is None:
            waiting.append(cell)
        else:
            rows[cell.name] = _row(cell, done)
            tell(cell, done, None)
    with ProcessPoolExecutor(grid.head.workers, mp_context=get_context("spawn")) as pool:
        jobs = {pool.submit(_attempt, cell.tree, folder / "cells" / cell.name): cell for cell in waiting}
        for job in as_completed(jobs):
            cell = jobs[job]
            try:
                summary, error = job.result()
            except Exception as crash:  # the process itself died, of memory perhaps
                summary, error = None, repr(crash)
            rows[cell.name] = _row(cell, summary, error)
            tell(cell, summary, error)
            ordered = [rows[c.name] for c in grid.cells if c.name in rows]
            store.write_json(folder / "grid.json", {"name": grid.head.name, "cells": ordered})
    ordered = [rows[cell.name] for cell in grid.cells]
    store.write_json(folder / "grid.json", {"name": grid.head.name, "cells": ordered})
    if grid.select is not None:
        write_winners(grid, ordered, folder)
    return ordered


def average(rows: list[Tree], metric: str, summary: str) -> list[Tree]:
    """Rows that differ by seed alone become one, with mean, deviation (n - 1) and count."""
    groups: dict[str, list[Tree]] = {}
    for row in rows:
        if row["summary"] is not None and row["summary"][metric][summary] is not None:
            key = json.dumps([row["method"], row["settings"]], sort_keys=True)
            groups.setdefault(key, []).append(row)
    out = []
    for members in groups.values():
        values = np.array([row["summary"][metric][summary] for row in members])
        deviation = float(values.std(ddof=1)) if len(values) > 1 else None
        first = members[0]
        out.append(
            {"method": first["method"], "settings": first["settings"], "mean": float(values.mean()),
             "deviation": deviation, "seeds": len(values)}
        )  # fmt: skip
    return out


def write_winners(grid: Grid, rows: list[Tree], folder: Path) -> list[Tree]:
    """winners.json, and for each winner a recipe under tuned/."""
    assert grid.select is not None
    best: dict[str, Tree] = {}
    for row in average(rows, grid.select.metric, grid.select.summary):
        fixed = {key: row["settings"][key] for key in grid.select.per if key in row["settings"]}
        words = [str(value) for value in fixed.values()]
        name = re.sub(r"[^\w.+-]+", "-", "-".join([row["method"], *words]))
        if name not in best or row["mean"] > best[name]["mean"]:
            best[name] = row
    for name, row in best.items():
        tree: Tree = {"methods": [row["method"]]}
        for key, value in row["settings"].items():
            tree = override(tree, f"{_full(key, row['method'])}={json.dumps(value)}")
        note = (
            f"# The best of {row['method']}'s settings by {grid.select.metric} {grid.select.summary} in the "
            f"grid {grid.head.name}: {row['mean']:.4f} over {row['seeds']} seed(s).\n"
        )
        store.write_text(folder / "tuned" / f"{name}.toml", note + write_toml(tree))
    winners = list(best.values())
    store.write_json(folder / "winners.json", winners)
    return winners


def _cells(head: Head, axes: Tree, own: Tree, cases: list[Tree], settings: Tree) -> Iterator[Cell]:
    base = [f"{key}={json.dumps(value)}" for key, value in settings.items()]
    first: Tree = {"plugins": list(head.plugins), "methods": list(head.methods)}
    recipe = load_recipe(head.recipe, [first, *base])
    whole = recipe.tree()
    for seed in head.seeds:
        for method in head.methods:
            shared = {key: values for key, values in axes.items() if _has(whole, _full(key, method))}
            mine = {**shared, **own.get(method, {})}
            for *values, case in itertools.product(*mine.values(), cases):
                if not all(_has(whole, _full(key, method)) for key in case):
                    continue  # a case of another method's settings
                chosen = {**dict(zip(mine, values, strict=True)), **case}
                tree = merge(whole, {"methods": [method], "seed": seed, "name": head.name})
                tree["method"] = {method: whole["method"][method]}
                for key, value in chosen.items():
                    tree = override(tree, f"{_full(key, method)}={json.dumps(value)}")
                resolve(tree)  # a slip must not surface after hours of other cells
                yield Cell(method, seed, chosen, tree)


def _full(key: str, method: str) -> str:
    """An axis names a key of the recipe, or one of the method's own settings."""
    root = key.split(".")[0]
    if root in {"data", "stream", "loop", "seed", "device", "threads"}:
        return key
    return f'method."{method}".{key.removeprefix("learner.")}'


def _has(tree: Tree, full: str) -> bool:
    node: Any = tree
    for key in re.findall(r'"[^"]*"|[^.]+', full):
        key = key.strip('"')
        if not isinstance(node, Mapping) or key not in node:
            return False
        node = node[key]
    return True


@lru_cache(maxsize=1)
def _table(data: str) -> LabelTable:
    """A process learns many cells of one data set: read it once."""
    tree = json.loads(data)
    kind = source(tree.pop("source"))
    return kind(from_tree(kind.Config, tree, "data")).table()


def _attempt(tree: Tree, folder: Path) -> tuple[Tree | None, str | None]:
    try:
        return run_cell(tree, folder), None
    except MLCLError as error:
        return None, str(error)
    except Exception:  # a bug in one method must not stop the grid; its trace is kept
        store.write_text(folder / "error.txt", traceback.format_exc())
        return None, f"failed; see {folder / 'error.txt'}"


def _finished(folder: Path) -> Tree | None:
    path = folder / "results.json"
    if not path.exists():
        return None
    results = store.read_json(path)
    done, _, of = results["learnt"].partition(" of ")
    summary: Tree = results["summary"]
    return summary if done == of else None


def _row(cell: Cell, summary: Tree | None, error: str | None = None) -> Tree:
    row = {"method": cell.method, "seed": cell.seed, "settings": dict(cell.settings), "folder": cell.name}
    return {**row, "summary": summary, "error": error}
