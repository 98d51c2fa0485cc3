"""What a run shows while it learns: a live line on a terminal, a line a task elsewhere."""

from __future__ import annotations

import math
import time
from types import TracebackType

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from mlcl.config import Tree
from mlcl.experiment import Watcher
from mlcl.learner import Terms
from mlcl.report.words import points
from mlcl.types import Task


class Display(Watcher):
    """One bar a task: loss terms by name, images a second, time left."""

    def __init__(self, console: Console, method: str):
        self.console = console
        self.method = method
        self.bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=max(4, min(24, console.width - 76))),  # the words come first
            TextColumn("{task.completed:.0f}/{task.total:.0f}"),
            TextColumn("[dim]{task.fields[terms]}"),
            TextColumn("[cyan]{task.fields[speed]}"),
            TimeRemainingColumn(compact=True),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self.bar: TaskID | None = None
        self.began = 0.0
        self.images = 0
        self.shown = 0.0
        self.test: TaskID | None = None

    def __enter__(self) -> Display:
        self.bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bars.stop()

    def task(self, task: Task, tasks: int, batches: int, done: int) -> None:
        self._clear()
        self.bar = self._add(f"task {task.index + 1}/{tasks}", batches, done)
        self.began, self.images, self.shown = time.perf_counter(), 0, 0.0

    def batch(self, terms: Terms, images: int) -> None:
        assert self.bar is not None
        self.images += images
        self.bars.advance(self.bar)
        now = time.perf_counter()
        if self.bars.disable or now - self.shown < 0.25:  # reading a loss waits for the device
            return
        self.shown = now
        self.bars.update(
            self.bar,
            terms=" ".join(f"{name} {float(term):.3g}" for name, term in terms.items()),
            speed=f"{self.images / max(now - self.began, 1e-3):.0f} img/s",
        )

    def testing(self, images: int, of: int) -> None:
        if self.test is None:
            self.test = self._add("testing", of)
        self.bars.advance(self.test, images)

    def learnt(self, task: Task, evaluation: Tree | None) -> None:
        seconds = time.perf_counter() - self.began
        self._clear()
        names = ", ".join(task.names[:3]) + (", ..." if len(task.names) > 3 else "")
        result = "not tested"
        if evaluation is not None:
            last = evaluation["tests"][-1]
            score = math.nan if last["mAP"] is None else last["mAP"]
            result = f"mAP {points(score):>5} on {len(last['ap'])} classes"
        self.console.print(
            f"[bold]{self.method:>12}[/]  task {task.index + 1}  {result}  [dim]{self.images} images in "
            f"{seconds:.0f} s with testing; new: {escape(names)}",
            highlight=False,
            soft_wrap=True,
        )

    def _add(self, what: str, total: int, done: int = 0) -> TaskID:
        return self.bars.add_task(
            f"[bold]{self.method}[/] {what}", total=total, completed=done, terms="", speed=""
        )

    def _clear(self) -> None:
        for bar in (self.bar, self.test):
            if bar is not None:
                self.bars.remove_task(bar)
        self.bar = self.test = None
