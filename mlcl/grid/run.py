"""One grid after the other, through one pool of processes.

The workers go from grid to grid without waiting for the slowest cell, save where a grid begins with the
winners of one that is not finished.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from mlcl.errors import ConfigError, MLCLError
from mlcl.grid.book import Book, Tell
from mlcl.grid.plan import Cell, Grid, Head, load_grid, read_head
from mlcl.grid.pool import End, Job, work_through


def run_grids(
    files: Sequence[Path],
    root: Path,
    *,
    settings: Sequence[str] = (),
    workers: int = 0,
    tell: Tell = lambda cell, row: None,
    stop: Callable[[], bool] = lambda: False,
) -> list[Path]:
    """Runs what is not finished; returns the grids' folders, ROOT/NAME, each with its grid.json.

    Raises Interrupted if `stop` says so, when everything is saved.
    """
    plan_grids(files, root, settings)  # a slip in the last file must not surface when the first is done
    heads = [read_head(file) for file in files]
    queue = _Queue(files, heads, root, settings, tell)
    queue.fill()
    queue.fill(late=True)  # what is finished already may be what another one waits for
    work_through(queue.next_job, workers or max(head.workers for head in heads), stop)
    if queue.failed:
        raise ConfigError("; ".join(queue.failed.values()))
    return [root / head.name for head in heads]


def plan_grids(files: Sequence[Path], root: Path, settings: Sequence[str] = ()) -> list[Grid]:
    """The grids as they would run; without the winners' settings, where they are not known yet."""
    heads = [read_head(file) for file in files]
    names = [head.name for head in heads]
    if doubled := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigError(f"{', '.join(doubled)}: the name, and so the folder, of two grids")
    grids = []
    for place, (file, head) in enumerate(zip(files, heads, strict=True)):
        if head.winners in names[place:]:
            raise ConfigError(f"{file}: winners: {head.winners} does not come before it")
        grids.append(load_grid(file, settings, root=root, without_winners=head.winners in names))
    return grids


class _Queue:
    """The cells that may run now, grid by grid in the order given."""

    def __init__(
        self, files: Sequence[Path], heads: Sequence[Head], root: Path, settings: Sequence[str], tell: Tell
    ):
        self.grids = [(file, head.name, head.winners) for file, head in zip(files, heads, strict=True)]
        self.books: dict[str, Book] = {}  # by name, of the grids that are planned
        self.failed: dict[str, str] = {}  # by name, of those that cannot be
        self.root, self.settings, self.tell = root, settings, tell

    def fill(self, late: bool = False) -> None:
        """Plans every grid whose winners are known."""
        ours = [name for _, name, _ in self.grids]
        for file, name, winners in self.grids:
            if name in self.books or name in self.failed:
                continue
            if winners in ours and not (winners in self.books and self.books[winners].done):
                continue
            try:
                grid = load_grid(file, self.settings, root=self.root)
                self.books[name] = Book(grid, self.root / name, self.tell)
            except MLCLError as error:
                if not late:
                    raise
                self.failed[name] = str(error)  # the others are running, and go on

    def next_job(self) -> tuple[Job, End] | None:
        for _, name, _ in self.grids:
            book = self.books.get(name)
            if book is not None and book.waiting:
                cell, folder = book.take()
                return (cell.tree, folder, book.grid.head.checkpoints), partial(self._end, book, cell)
        return None

    def _end(self, book: Book, cell: Cell, error: str | None, stopped: bool) -> None:
        book.end(cell, error, stopped)
        if book.done and not stopped:
            self.fill(late=True)
