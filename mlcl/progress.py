"""What a run shows while it learns: a live line on a terminal, a line a task elsewhere."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from mlcl.config import Tree
from mlcl.experiment import Watcher
from mlcl.learner import Terms
from mlcl.types import Task


class Display(Watcher):
    """One bar a task: loss terms by name, images a second, time left."""

    def __init__(self, console: Console, method: str):
        self.console = console
        self.method = method
        self.bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.completed:.0f}/{task.total:.0f} {task.fields[unit]}"),
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
        names = ", ".join(task.names[:6]) + (", ..." if len(task.names) > 6 else "")
        self._clear()
        self.bar = self.bars.add_task(
            f"[bold]{self.method}[/] task {task.index + 1}/{tasks} {names}",
            total=batches, completed=done, unit="batches", terms="", speed="",
        )  # fmt: skip
        self.began, self.images = time.perf_counter(), 0

    def batch(self, terms: Terms, images: int) -> None:
        assert self.bar is not None
        self.images += images
        self.bars.advance(self.bar)
        now = time.perf_counter()
        if now - self.shown < 0.25:  # reading a loss waits for the device: not every batch
            return
        self.shown = now
        self.bars.update(
            self.bar,
            terms="  ".join(f"{name} {float(term):.4f}" for name, term in terms.items()),
            speed=f"{self.images / (now - self.began):.0f} images/s",
        )

    def testing(self, images: int, of: int) -> None:
        if self.test is None:
            name = f"[bold]{self.method}[/] testing"
            self.test = self.bars.add_task(name, total=of, unit="images", terms="", speed="")
        self.bars.advance(self.test, images)

    def scored(self, task: Task, evaluation: Tree) -> None:
        learnt = (time.perf_counter() - self.began) or 1e-9
        self._clear()
        last = evaluation["tests"][-1]
        self.console.print(
            f"[bold]{self.method:>12}[/]  task {task.index + 1}  mAP {100 * (last['mAP'] or 0):5.1f} "
            f"over {last['test']} task{'s' if last['test'] > 1 else ''}'s classes"
            f"  [dim]{self.images} images, {self.images / learnt:.0f}/s, {learnt:.0f} s with testing",
            highlight=False,
        )

    def _clear(self) -> None:
        for bar in (self.bar, self.test):
            if bar is not None:
                self.bars.remove_task(bar)
        self.bar = self.test = None
