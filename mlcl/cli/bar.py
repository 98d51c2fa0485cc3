"""A bar for what takes long and counts images."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def counting(console: Any, title: str) -> Iterator[Callable[[int, int], None]]:
    """A live bar on a terminal, elsewhere a line every tenth; nothing where nothing is done."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    bar = Progress(
        TextColumn(title), BarColumn(), MofNCompleteColumn(), TaskProgressColumn(), TimeRemainingColumn(),
        console=console, transient=True, disable=not console.is_terminal,
    )  # fmt: skip
    job = None
    tenth = -1

    def progress(done: int, of: int) -> None:
        nonlocal job, tenth
        if job is None:
            job = bar.add_task(title, total=of)
        bar.update(job, completed=done, total=of)
        if not console.is_terminal and of and done * 10 // of > tenth:
            tenth = done * 10 // of
            console.print(f"{title}: {done:,} of {of:,}", highlight=False, markup=False)

    with bar:
        yield progress
