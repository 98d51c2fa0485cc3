"""What became of a grid's cells, in one file that needs nothing else: FOLDER/grid.json."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from pathlib import Path

from mlcl import store
from mlcl.config import Tree
from mlcl.errors import RunError
from mlcl.grid import cell as cells
from mlcl.grid.plan import Cell, Grid
from mlcl.grid.winners import find_winners, write_recipes

FORMAT = 1
NOT_RUN = "not run yet"

Tell = Callable[[Cell, Tree], None]  # a cell's row, when it is finished or has failed


class Book:
    """The rows of one grid; grid.json is written anew whenever a cell ends."""

    def __init__(self, grid: Grid, folder: Path, tell: Tell = lambda cell, row: None):
        self.grid = grid
        self.folder = folder
        self.tell = tell
        self.rows: dict[str, Tree] = {}
        self.running = 0
        (folder / "cells").mkdir(parents=True, exist_ok=True)
        # found by what they are: the name may have changed with the grid's axes
        there = {path.name.rpartition("_")[2]: path.name for path in (folder / "cells").iterdir()}
        self.names = {cell.print: there.get(cell.print, cell.name) for cell in grid.cells}
        self.waiting: deque[Cell] = deque()
        for cell in grid.cells:
            if cells.outcome(self.place(cell), cell.method) is None:
                self.waiting.append(cell)
            else:
                self._settle(cell, None)
        self.save()

    @property
    def done(self) -> bool:
        return not self.waiting and not self.running

    def place(self, cell: Cell) -> Path:
        return self.folder / "cells" / self.names[cell.print]

    def take(self) -> tuple[Cell, Path]:
        cell = self.waiting.popleft()
        self.running += 1
        return cell, self.place(cell)

    def end(self, cell: Cell, error: str | None, stopped: bool) -> None:
        self.running -= 1
        if not stopped:
            self._settle(cell, error)
        self.save()

    def all_rows(self) -> list[Tree]:
        return [self.rows.get(cell.print) or self._row(cell, NOT_RUN) for cell in self.grid.cells]

    def save(self) -> None:
        rows, select = self.all_rows(), self.grid.select
        winners = find_winners(select, rows) if select else []
        made = [self.place(cell) / "run.json" for cell in self.grid.cells]
        runs = [store.read_json(path) for path in made if path.exists()]
        stream = [self.place(cell) / "stream.json" for cell in self.grid.cells]
        told: Tree = next((store.read_json(path) for path in stream if path.exists()), {})
        tree = {
            "format": FORMAT,
            "name": self.grid.head.name,
            "recipe": self.grid.base,
            "search": self.grid.search,
            "made": {} if not runs else {**runs[0], "until": max(run["date"] for run in runs)},
            "lacking": list(self.grid.lacking),
            "tasks": told.get("tasks", []),
            "winners": [winner.to_json() for winner in winners],
            "cells": rows,
        }
        write_grid(self.folder / "grid.json", tree)
        if select and winners:
            write_recipes(self.grid, select, winners, self.folder / "tuned")

    def _settle(self, cell: Cell, error: str | None) -> None:
        self.rows[cell.print] = self._row(cell, error)
        self.tell(cell, self.rows[cell.print])

    def _row(self, cell: Cell, error: str | None) -> Tree:
        place = self.place(cell)
        kept = None if error else cells.outcome(place, cell.method)
        return {
            "method": cell.method, "seed": cell.seed, "settings": dict(cell.settings), "error": error,
            "folder": self.names[cell.print], "seconds": cells.seconds(place), **(kept or {"summary": None}),
        }  # fmt: skip


def write_grid(path: Path, tree: Tree) -> None:
    """One line a cell, so that a diff can be read."""
    head = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in tree.items() if key != "cells"]
    lines = ",\n".join(json.dumps(row, allow_nan=False) for row in tree["cells"])
    body = ",\n".join([*head, f'"cells": [\n{lines}\n]'])
    store.write_text(path, f"{{\n{body}\n}}\n")


def read_grid(path: Path) -> Tree:
    """A grid.json, given itself or by its folder."""
    file = path / "grid.json" if path.is_dir() else path
    if not file.is_file():
        raise RunError(f"{file}: no such file; a grid's folder has a grid.json once `mlcl grid` has begun it")
    value = store.read_json(file)
    if not isinstance(value, dict) or "cells" not in value:
        raise RunError(f"{file}: not a grid.json (it has no cells)")
    if value.get("format") != FORMAT:
        raise RunError(f"{file}: grid format {value.get('format')}, this version reads {FORMAT}")
    return value
