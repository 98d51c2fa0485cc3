"""The engine's benchmarks run, on the smallest network, and compare like with like."""

from __future__ import annotations

import argparse
import importlib
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

FOLDER = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(FOLDER))
    before = set(sys.modules)
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if Path(getattr(sys.modules[name], "__file__", None) or "").parent == FOLDER:
            del sys.modules[name]


def test_step(script: Any) -> None:
    step = script("step")
    options = argparse.Namespace(
        quick=True, methods=["lwf", "agcn++"], compile=False, classes=[4, 12], tasks=[]
    )
    result = step.measure("tiny", "cpu", options)
    assert set(result["ms"]) == {"floor", "lwf", "agcn++"}
    assert result["to the floor"]["floor"] == 1
    assert set(result["agcn++ by classes and tasks, ms"]) == {"4 classes", "12 classes"}
    assert result["one step"]["agcn++"]["operators"] > result["one step"]["floor"]["operators"]
    assert set(step.bars({"tiny": result})) == {"tiny: agcn++ / floor <= 1.10"}


def test_the_floor_descends_and_asks_the_expert(script: Any) -> None:
    """Or it would be too low a floor, and every ratio too high."""
    step = script("step")
    with torch.random.fork_rng():
        floor = step.floor("cpu", "tiny")
    batch = step.make_batch("tiny", step.WIDTHS)
    forwards: list[bool] = []
    hook = torch.nn.modules.module.register_module_forward_hook(
        lambda module, given, out: forwards.append(torch.is_grad_enabled())
        if isinstance(module, step.GrowingLinear) else None
    )  # fmt: skip
    try:
        assert np.isfinite(float(floor(batch.x, batch.y, batch.known)["loss"]))
    finally:
        hook.remove()
    assert sorted(forwards) == [False, True]


def test_loop(script: Any) -> None:
    result = script("loop").measure("fine-tuning", "tiny", "cpu", 8)
    assert all(value > 0 for value in result.values())


def test_both_ways_of_counting_count_the_same(script: Any, tmp_path: Path) -> None:
    bookkeeping = script("bookkeeping")
    y = (np.random.default_rng(0).random((20, 3)) < 0.5).astype(int)
    names = bookkeeping.write_table(tmp_path / "t.csv", y)
    (tmp_path / "m.pkl").write_bytes(pickle.dumps(np.zeros((3, 3))))
    for _ in range(2):
        bookkeeping.through_files(tmp_path / "t.csv", tmp_path / "m.pkl", names[:8])
    acm = bookkeeping.ACM()
    acm.grow(3)
    for _ in range(2):
        acm.update(torch.from_numpy(y[:8]).float(), torch.ones(8, 3, dtype=torch.bool))
    counts = pickle.loads((tmp_path / "m.pkl").read_bytes())
    assert counts.tolist() == acm.co.tolist()
