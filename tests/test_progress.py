"""What is shown while something is learnt."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console
from torch import Tensor

from mlcl import Samples, Task
from mlcl.progress import Display
from mlcl.types import Images

TERMS = {"cls": torch.tensor(0.61234), "dst": torch.tensor(0.123456), "gph": torch.tensor(0.000123456)}


class Nothing(Images):
    def __len__(self) -> int:
        return 0

    def load(self, indices: Any) -> Tensor:
        raise AssertionError


def task(index: int, names: tuple[str, ...]) -> Task:
    none = Samples(Nothing(), np.zeros(0, int), np.zeros((0, 0), np.uint8), np.zeros((0, 0), bool))
    return Task(index, 0, len(names), names, none, none)


def evaluation(score: float | None, classes: int) -> dict[str, Any]:
    tests = [
        {"test": 1, "mAP": 0.9, "ap": {"a": 0.9}},
        {"test": 2, "mAP": score, "ap": dict.fromkeys(range(classes))},
    ]
    return {"after_task": 2, "tests": tests, "findings": {}}


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("time.perf_counter", clock)
    return clock


def make(width: int = 80, terminal: bool = True, method: str = "agcn++") -> tuple[Display, io.StringIO]:
    file = io.StringIO()
    console = Console(file=file, width=width, force_terminal=terminal, color_system=None)
    return Display(console, method), file


def bars(display: Display, width: int) -> list[str]:
    """As they stand on a terminal of this width."""
    console = Console(file=io.StringIO(), width=width, color_system=None)
    with console.capture() as capture:
        console.print(display.bars.get_renderable())
    return capture.get().splitlines()


@pytest.mark.parametrize("width", [80, 120])
def test_the_live_line_says_it_all(clock: Clock, width: int) -> None:
    display, _ = make(width, method="fine-tuning")
    display.task(task(1, ("cat", "dog")), tasks=6, batches=21, done=0)
    for _ in range(12):
        clock.now += 0.3
        display.batch(TERMS, images=16)
    (line,) = bars(display, width)
    for part in ("fine-tuning task 2/6", "12/21", "cls 0.612 dst 0.123 gph 0.000123", "53 img/s"):
        assert part in line
    assert "…" not in line
    assert len(line) <= width
    display.testing(64, of=400)
    display.testing(64, of=400)
    assert "fine-tuning testing" in bars(display, width)[1]
    assert "128/400" in bars(display, width)[1]


def test_a_resumed_task_begins_where_it_was(clock: Clock) -> None:
    display, _ = make()
    display.task(task(0, ("cat",)), tasks=2, batches=20, done=15)
    clock.now += 1
    display.batch(TERMS, images=16)
    (line,) = bars(display, 80)
    assert "16/20" in line
    assert "16 img/s" in line  # of those learnt now


def test_losses_are_read_now_and_then(clock: Clock) -> None:
    """To read one waits for the device."""
    reads = 0

    class Counted:
        def __float__(self) -> float:
            nonlocal reads
            reads += 1
            return 0.5

    for terminal, expected in ((True, 4), (False, 0)):
        reads = 0
        display, _ = make(terminal=terminal)
        display.task(task(0, ("cat",)), tasks=1, batches=100, done=0)
        for _ in range(100):
            clock.now += 0.01
            display.batch({"cls": Counted()}, images=1)  # type: ignore[dict-item]
        assert reads == expected


@pytest.mark.parametrize("terminal", [True, False])
def test_a_line_stays_of_each_task(clock: Clock, terminal: bool) -> None:
    display, file = make(width=60, terminal=terminal)
    with display:
        display.task(task(1, ("cat", "[red]dog", "cow", "bird")), tasks=6, batches=2, done=0)
        display.batch(TERMS, images=16)
        display.batch(TERMS, images=4)
        display.testing(400, of=400)
        clock.now += 7.4
        display.learnt(task(1, ("cat", "[red]dog", "cow", "bird")), evaluation(0.4567, 8))
        assert bars(display, 60) == []
    said = [line for line in file.getvalue().splitlines() if "mAP" in line]
    wanted = "      agcn++  task 2  mAP  45.7 on 8 classes  20 images in 7 s with testing; "
    assert said[-1].endswith(wanted + "new: cat, [red]dog, cow, ...")  # one line, whatever the width
    if not terminal:
        assert file.getvalue() == f"{wanted}new: cat, [red]dog, cow, ...\n"


@pytest.mark.parametrize(
    ("found", "words"), [(None, "not tested"), (evaluation(None, 3), "mAP     – on 3 classes")]
)
def test_no_score_is_no_number(clock: Clock, found: Any, words: str) -> None:
    display, file = make(terminal=False)
    display.task(task(1, ("cat",)), tasks=6, batches=2, done=0)
    display.learnt(task(1, ("cat",)), found)
    assert file.getvalue().startswith(f"      agcn++  task 2  {words}")
