"""Reads a split file, and refuses one that was changed or cut."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mlcl.data.artefact import FORMAT, HEAD, PARTS, REST, Split, digest, quoted
from mlcl.data.table import UNKNOWN
from mlcl.data.text import file_errors
from mlcl.errors import DataError, nearest


def read_file(path: Path | str) -> Split:
    """A split as `write` wrote it; one that was changed or cut is refused."""
    path = Path(path).expanduser()
    with file_errors(path):
        data = path.read_bytes()
    head, _, rest = data.replace(b"\r\n", b"\n").partition(b"\n")  # git may have turned line ends around
    kind, _, version = head.partition(b"\t")
    if kind != HEAD.encode():
        raise DataError(f"{path}: not a split; make one by: mlcl data build SOURCE --out {path.name}")
    if version != str(FORMAT).encode():
        raise DataError(
            f"{path}: split format {version.decode(errors='replace')}, this version reads {FORMAT}"
        )
    checksum, _, body = rest.partition(b"\n")
    try:
        text = body.decode()
    except UnicodeDecodeError:
        text = ""
    if checksum != f"sha256\t{digest(text)}".encode():
        raise DataError(f"{path}: {_complaint(body)}; get it again, or make it anew: mlcl data build")
    return _Reader(path).read(text)


def _complaint(body: bytes) -> str:
    lines = body.split(b"\n")
    announced = lines[0].partition(b"\t")[2]
    starts = tuple(f"{part}\t".encode() for part in PARTS)
    there = sum(line.startswith(starts) for line in lines[:-1])
    if announced.isdigit() and there < int(announced):
        return f"cut short: {there:,} of {int(announced):,} images are there"
    return "changed after it was written (wrong checksum)"


class _Reader:
    """The checksum is right, so what is wrong here was made by another program."""

    def __init__(self, path: Path):
        self.path = path
        self.line = 2
        self.head: dict[str, str] = {}
        self.made: dict[str, str] = {}
        self.notes: list[str] = []
        self.tasks: list[tuple[str, ...]] = []
        self.dropped: dict[str, str] = {}
        self.rows: list[tuple[int, int, str, str]] = []
        self.labels = bytearray()
        self.seen: set[str] = set()
        self.columns: dict[str, tuple[int, int]] = {}  # cell -> column and mark

    def read(self, text: str) -> Split:
        for line in text.split("\n")[:-1]:
            self.line += 1
            kind, *cells = line.split("\t")
            if kind in PARTS:
                self._image(PARTS.index(kind), cells)
            else:
                self._fact(kind, cells)
        if not self.rows or "name" not in self.head or self.head.get("images") != str(len(self.rows)):
            raise self._wrong(f"the end; {len(self.rows):,} images, name {self.head.get('name')!r}")
        parts, tasks, refs, files = zip(*self.rows, strict=True)
        labels = np.frombuffer(bytes(self.labels), np.int8).reshape(len(refs), -1)
        return Split(
            self.head["name"], tuple(self.tasks), refs, files, np.array(parts, np.int8),
            np.array(tasks, np.int32), labels, self.dropped, tuple(self.notes), self.made,
        )  # fmt: skip

    def _fact(self, kind: str, cells: Sequence[str]) -> None:
        values = [self._plain(cell) for cell in cells]
        expected = {"images": 1, "name": 1, "made": 2, "note": 1, "dropped": 2}
        if kind == "task":
            if len(values) < 2 or values[0] != str(len(self.tasks) + 1) or self.rows:
                raise self._wrong("tasks are numbered from 1, have classes, and come before the images")
            self.tasks.append(tuple(values[1:]))
            names = [name for task in self.tasks for name in task]
            if len(set(names)) < len(names):
                raise self._wrong("a class twice")
            self.columns = {
                sign + quoted(name): (column, mark)
                for column, name in enumerate(names)
                for sign, mark in (("", 1), ("-", 0), ("?", UNKNOWN))
            }
        elif len(values) != expected.get(kind):
            raise self._wrong(f"a line {kind!r} of {len(values)} cells")
        elif kind == "note":
            self.notes.append(values[0])
        elif kind == "made":
            self.made[values[0]] = values[1]
        elif kind == "dropped":
            self.dropped[values[0]] = values[1]
        else:
            self.head[kind] = values[0]

    def _image(self, part: int, cells: Sequence[str]) -> None:
        if len(cells) < 3 or not cells[0].isdecimal() or not 1 <= int(cells[0]) <= len(self.tasks):
            raise self._wrong(f"expected a task from 1 to {len(self.tasks)}, an image, its file, its labels")
        ref = self._plain(cells[1])
        if ref in self.seen:
            raise self._wrong(f"{ref} is in the split already")
        self.seen.add(ref)
        self.rows.append((part, int(cells[0]) - 1, ref, self._plain(cells[2]) or ref))
        named = cells[3:]
        rest = 0
        if named and named[0] == REST:
            rest, named = UNKNOWN, named[1:]
        width = len(self.columns) // 3
        row = bytearray([rest % 256]) * width
        for cell in named:
            if cell not in self.columns:
                names = [name for task in self.tasks for name in task]
                raise self._wrong(f"no class {cell!r} in its tasks; {nearest(cell.lstrip('?-'), names)}")
            column, mark = self.columns[cell]
            row[column] = mark % 256
        self.labels += row

    def _plain(self, cell: str) -> str:
        if not cell.startswith('"'):
            return cell
        try:
            value: Any = json.loads(cell)
        except ValueError:
            value = None
        if not isinstance(value, str):
            raise self._wrong(f"not a quoted name: {cell}")
        return value

    def _wrong(self, what: str) -> DataError:
        return DataError(f"{self.path}, line {self.line}: {what}")
