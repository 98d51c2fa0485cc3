"""One cell: an ordinary run folder of one method, and a function of its recipe alone.

So it can run anywhere: `ray.remote(run_cell).remote(cell.tree, folder)` is all that another machine needs.
"""

from __future__ import annotations

import gc
import json
import time
import traceback
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mlcl import store
from mlcl.acm import distance
from mlcl.config import Tree, from_tree, write_toml
from mlcl.data.source import source
from mlcl.data.table import LabelTable
from mlcl.errors import MLCLError
from mlcl.experiment import Experiment, Interrupted, set_threads
from mlcl.recipe import resolve
from mlcl.report.describe import describe_stream
from mlcl.stream import StreamConfig, build
from mlcl.types import Stream


def run_cell(
    tree: Tree, folder: Path, interrupted: Callable[[], bool] = lambda: False, checkpoints: bool = True
) -> None:
    """Learns one cell, going on where it stopped. `mlcl run --resume` reads the folder as well."""
    began = time.monotonic()
    recipe = resolve(tree)
    (method,) = recipe.learners
    set_threads(recipe.head.threads)
    stream = _stream(*(json.dumps(recipe.tree()[table], sort_keys=True) for table in ("data", "stream")))
    if not (folder / "stream.json").exists():  # the last of the three: all or nothing
        store.write_text(folder / "config.toml", write_toml(recipe.tree()))
        store.write_json(folder / "run.json", store.provenance())
        store.write_json(folder / "stream.json", describe_stream(stream, recipe.stream.scenario))
    experiment = Experiment(
        stream, recipe.build_learner(method), config=recipe.loop, seed=recipe.head.seed,
        folder=folder / method if checkpoints else None, interrupted=interrupted,
    )  # fmt: skip
    if checkpoints:
        experiment.resume()
    try:
        results = experiment.run()
        if not checkpoints:
            store.write_json(folder / method / "results.json", results)
    finally:  # after a stop too: the seconds of all sittings add up
        spent = time.monotonic() - began + (seconds(folder) or 0)
        store.write_json(folder / "seconds.json", {"seconds": round(spent, 2)})


def attempt(tree: Tree, folder: Path, interrupted: Callable[[], bool], checkpoints: bool = True) -> Tree:
    """What became of it: `error`, `stopped`, and whether this process is fit for another cell.

    A bug in one method must not stop the grid, and a GPU that it broke for this process not the next cell.
    """
    error, stopped, fit = None, False, True
    try:
        run_cell(tree, folder, interrupted, checkpoints)
        (folder / "error.txt").unlink(missing_ok=True)
    except Interrupted:
        stopped = True
    except MLCLError as said:
        error = str(said)
    except Exception as bug:
        store.write_text(folder / "error.txt", traceback.format_exc())
        first = str(bug).split("\n", 1)[0]
        error = f"{type(bug).__name__}: {first} (the trace is in error.txt of its folder)"
        fit = not torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    if fit:
        _tidy()
    return {"error": error, "stopped": stopped, "fit": fit}


def outcome(folder: Path, method: str) -> Tree | None:
    """What a grid keeps of a cell that has learnt its whole stream: a few kilobytes."""
    path = folder / method / "results.json"
    if not path.exists():
        return None
    results = store.read_json(path)
    done, _, of = results["learnt"].partition(" of ")
    if done != of:
        return None
    evaluations = results["evaluations"]
    kept: Tree = {
        "summary": results["summary"],
        "after": [evaluation["after_task"] for evaluation in evaluations],
        "mAP": [[test["mAP"] for test in evaluation["tests"]] for evaluation in evaluations],
    }
    estimated = evaluations[-1]["findings"].get("acm")
    oracle = store.read_json(folder / "stream.json")["oracle"]
    if estimated is not None and oracle is not None:
        kept["acm"] = acm_distances(np.array(estimated), np.array(oracle))
    rounded: Tree = _rounded(kept)
    return rounded


def acm_distances(estimated: np.ndarray, oracle: np.ndarray) -> dict[str, float]:
    """(C, C) each: root mean square entry off the diagonal, beside what knowing nothing would give."""
    guesses = {
        "estimated": estimated,
        "identity": np.eye(len(oracle)),
        "random": np.random.default_rng(0).random(oracle.shape),
        "mean": np.full(oracle.shape, oracle[~np.eye(len(oracle), dtype=bool)].mean()),
    }
    truth = torch.from_numpy(oracle)
    return {name: distance(torch.from_numpy(guess), truth)["rms"] for name, guess in guesses.items()}


def seconds(folder: Path) -> float | None:
    """How long the cell took, over all its sittings."""
    path = folder / "seconds.json"
    return float(store.read_json(path)["seconds"]) if path.exists() else None


# a process learns many cells of one data set: labels are read and tasks are dealt once
@lru_cache(maxsize=1)
def _table(data: str) -> LabelTable:
    tree: dict[str, Any] = json.loads(data)
    kind = source(tree.pop("source"))
    return kind(from_tree(kind.Config, tree, "data")).table()


@lru_cache(maxsize=2)
def _stream(data: str, stream: str) -> Stream:
    return build(_table(data), from_tree(StreamConfig, json.loads(stream), "stream"))


def _tidy() -> None:
    """The next cell of this process finds the memory free."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _rounded(value: Any) -> Any:
    """Six digits say all that a test set can."""
    if isinstance(value, dict):
        return {key: _rounded(below) for key, below in value.items()}
    if isinstance(value, list):
        return [_rounded(below) for below in value]
    return round(value, 6) if isinstance(value, float) else value
