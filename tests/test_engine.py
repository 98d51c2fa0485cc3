"""What keeps a GPU busy, as far as a machine without one can tell; the rest runs where there is one."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from mlcl import learners
from mlcl.config import from_tree
from mlcl.engine import WARM_UP, Kept, Later, Recorded
from mlcl.errors import ConfigError
from mlcl.learner import GradientLearner, learner
from mlcl.types import Batch, Images, Task

CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
TINY = {
    "backbone": {"name": "tiny"},
    "embeddings": "random",
    "hidden": 16,
    "graph_width": 16,
    "optimizer": {"lr": 1e-3},
}


def make(method: str, device: str = "cpu", **options: Any) -> GradientLearner:
    kind = learner(method)
    names = set(kind.Config.__dataclass_fields__)
    tree = {key: value for key, value in (TINY | options).items() if key in names}
    made = kind(from_tree(kind.Config, tree), device=device)
    assert isinstance(made, GradientLearner)
    return made


def task(index: int, start: int, stop: int) -> Task:
    names = tuple(f"class {c}" for c in range(start, stop))
    return Task(index, start, stop, names, None, None)  # type: ignore[arg-type]


def batch(classes: int, images: int = 8, seed: int = 0) -> Batch:
    chance = torch.Generator().manual_seed(seed)
    x = torch.randint(256, (images, 3, 32, 32), dtype=torch.uint8, generator=chance)
    y = (torch.rand(images, classes, generator=chance) < 0.4).float()
    return Batch(x, y, torch.ones(images, classes, dtype=torch.bool))


# ---- images that stay


class Counted(Images):
    def __init__(self, count: int = 6) -> None:
        self.x = torch.arange(count, dtype=torch.uint8)[:, None, None, None].expand(count, 3, 2, 2)
        self.asked: list[int] = []

    def __len__(self) -> int:
        return len(self.x)

    def load(self, indices: Any) -> Tensor:
        self.asked += np.asarray(indices).tolist()
        return self.x[torch.as_tensor(np.asarray(indices))]


@pytest.mark.parametrize(("held", "again"), [(6, 0), (2, 4), (0, 6)])
def test_kept_images_are_the_images(held: int, again: int) -> None:
    """Whatever fits: all, some, none; in any order, with repeats."""
    images = Counted()
    kept = Kept(images, torch.device("cpu"), held * 12 / 1e9)
    assert len(kept) == 6
    for rows in ([3, 1], [1, 0, 5, 3], [2, 4, 4, 2], [5, 4, 3, 2, 1, 0]):
        assert kept.load(rows)[:, 0, 0, 0].tolist() == rows
        assert torch.equal(kept.load(np.array(rows)), images.load(rows))
    images.asked.clear()
    kept.load([0, 1, 2, 3, 4, 5])
    assert len(images.asked) == again


# ---- numbers read later


def test_later_is_what_it_was() -> None:
    number = torch.tensor(2.0, requires_grad=True)
    later = Later({"a": number, "b": torch.tensor(3, dtype=torch.float64)})
    with torch.no_grad():
        number.zero_()
    assert later.read() == {"a": 2.0, "b": 3.0}


# ---- recorded steps


class Tape:
    """Stands in for a CUDA graph: replaying is the recorded call, its results put where they were."""

    def __init__(self) -> None:
        self.recorded: Recorded | None = None

    def replay(self) -> None:
        assert self.recorded is not None
        for name, number in self.recorded.step(*self.recorded.inputs).items():
            self.recorded.numbers[name].copy_(number)


@pytest.fixture
def tape(monkeypatch: pytest.MonkeyPatch) -> Tape:
    tape = Tape()

    @contextlib.contextmanager
    def graph(graph: Tape, capture_error_mode: str) -> Iterator[None]:
        yield

    monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda: tape)
    monkeypatch.setattr(torch.cuda, "graph", graph)
    monkeypatch.setattr(Recorded, "_aside", lambda self, inputs: self.step(*inputs))
    return tape


def test_a_recording_replays_in_its_places(tape: Tape) -> None:
    seen: list[tuple[int, ...]] = []
    places = set()

    def step(x: Tensor) -> dict[str, Tensor]:
        seen.append(tuple(x.shape))
        places.add(x.data_ptr())
        return {"sum": x.sum()}

    tape.recorded = recorded = Recorded(step, torch.device("cpu"))
    inputs = [torch.full((4,), float(i)) for i in range(WARM_UP + 3)]
    numbers = [recorded(x)["sum"] for x in inputs]
    assert [float(number) for number in numbers] == [4.0 * i for i in range(WARM_UP + 3)]  # none overwritten
    assert len(places) == WARM_UP + 1
    assert float(recorded(torch.ones(3))["sum"]) == 3  # the last batch of an epoch takes the ordinary way
    assert seen[-1] == (3,)
    assert float(recorded(inputs[1])["sum"]) == 4


def test_what_cannot_be_recorded_is_said(tape: Tape) -> None:
    calls = []

    def step(x: Tensor) -> dict[str, Tensor]:
        calls.append(x)
        if len(calls) > WARM_UP:
            raise RuntimeError("operation not permitted when stream is capturing\nmore")
        return {"sum": x.sum()}

    recorded = Recorded(step, torch.device("cpu"))
    for _ in range(WARM_UP):
        recorded(torch.ones(2))
    with pytest.raises(ConfigError, match=r"^record: .* \(operation not permitted .*\); set record = false$"):
        recorded(torch.ones(2))


RECORDABLE = sorted(name for name, kind in learners().items() if getattr(kind, "recordable", False))


def test_who_may_be_recorded() -> None:
    assert {"fine-tuning", "lwf", "agcn", "agcn++"} <= set(RECORDABLE)
    assert not {"er", "scr", "a-gem"} & set(RECORDABLE)  # their memories draw on the host


@pytest.mark.parametrize("method", RECORDABLE)
def test_a_recordable_step_keeps_its_tensors_in_place(method: str) -> None:
    """A replay writes where the recorded step wrote: what prediction and checkpoints read must be there."""
    made = make(method)
    for index in range(2):
        made.begin_task(task(index, 3 * index, 3 * index + 3))
        made.observe(batch(3 * index + 3))

    def places() -> dict[str, int]:
        tensors = dict(made.net.named_parameters()) | dict(made.net.named_buffers())
        if hasattr(made, "acm"):
            tensors |= {f"acm.{name}": getattr(made.acm, name) for name in ("old", "co", "seen")}
        return {name: tensor.data_ptr() for name, tensor in tensors.items()}

    before = places()
    made.observe(batch(6, seed=1))
    assert places() == before


@CUDA
@pytest.mark.parametrize("method", RECORDABLE)
def test_a_recorded_run_is_an_ordinary_run(method: str) -> None:
    """Two tasks, with odd batches between the replays; the tolerance is that of sums in another order."""
    runs = {}
    for record in (False, True):
        made = make(method, "cuda", record=record)
        terms: list[dict[str, float]] = []
        for index in range(2):
            made.begin_task(task(index, 3 * index, 3 * index + 3))
            for step in range(12):
                images = 5 if step % 6 == 5 else 8
                found = made.observe(batch(3 * index + 3, images, seed=step).pinned())
                terms.append(Later(found).read())
        assert record == (made._recorded is not None)
        runs[record] = terms, made.predict(batch(6, seed=99).x).cpu()
    for plain, replayed in zip(*(terms for terms, _ in runs.values()), strict=True):
        assert replayed == pytest.approx(plain, rel=0.02, abs=1e-4)
    torch.testing.assert_close(runs[True][1], runs[False][1], rtol=0.02, atol=2e-3)


@CUDA
@pytest.mark.parametrize("method", RECORDABLE)
def test_a_recordable_step_waits_for_nothing(method: str) -> None:
    made = make(method, "cuda")
    for index in range(2):
        made.begin_task(task(index, 3 * index, 3 * index + 3))
        made.observe(batch(3 * index + 3).pinned())
    given = batch(6).pinned()
    torch.cuda.set_sync_debug_mode("error")
    try:
        made.observe(given)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@CUDA
def test_images_stay_on_the_gpu() -> None:
    kept = Kept(Counted(), torch.device("cuda"), 1.0)
    assert kept.load([3, 1]).is_cuda
    assert kept.load([1, 5, 3])[:, 0, 0, 0].tolist() == [1, 5, 3]


# ---- compiled backbones


def test_compile_is_of_the_backbones(monkeypatch: pytest.MonkeyPatch) -> None:
    """The student's and the expert's, and nothing else; off by default."""
    compiled: list[torch.nn.Module] = []
    monkeypatch.setattr(torch.nn.Module, "compile", lambda self, *a, **k: compiled.append(self))
    for wanted in (False, True):
        made = make("agcn++", compile=wanted)
        for index in range(2):
            made.begin_task(task(index, 3 * index, 3 * index + 3))
        made.observe(batch(6))
        assert compiled == ([made.net.backbone, made.expert.backbone] if wanted else [])
    resumed = make("agcn++", compile=True)
    resumed.load(made.state())
    assert compiled[-2:] == [resumed.net.backbone, resumed.expert.backbone]


# ---- checkpoints between machines


def test_an_optimiser_goes_on_in_this_machines_way() -> None:
    saved, here = make("fine-tuning"), make("fine-tuning")
    saved.begin_task(task(0, 0, 3))
    saved.observe(batch(3))
    state = copy.deepcopy(saved.state())
    for group in state["optimizer"]["param_groups"]:
        group |= {"fused": True, "capturable": True}  # as a GPU would have saved it
    here.load(state)
    saved.observe(batch(3, seed=1))
    here.observe(batch(3, seed=1))
    for a, b in zip(saved.net.parameters(), here.net.parameters(), strict=True):
        assert torch.equal(a, b)
