"""A split as a small text file: to be committed, diffed, and loaded wherever the images are.

mlcl split  1
sha256  9f2c...                    of all other lines
images  92244                      so that a file cut short says so
name  coco2014
made  stream.top  40             how it was made, for the reader
note  2 images without annotation kept, as showing no class
task  1  person  bicycle  car  motorcycle
dropped  b.jpg  no such file       and every image that has no place in it
train  3  a.jpg  train2014/a.jpg  couch  ?bed

One fact a line, one image a line, sorted by name; cells are parted by tabs. An image is for `train`,
`validation` or `test`; then come its task, its name, its file (empty: the name), and its labels. A class that
it does not name is absent; `?bed` is unknown. Where `?` stands first, what it does not name is unknown, and
`-cup` is absent.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mlcl.data.table import UNKNOWN
from mlcl.data.text import file_errors
from mlcl.errors import DataError, nearest

FORMAT = 1
HEAD = "mlcl split"
PARTS = ("train", "validation", "test")
TRAIN, VALIDATION, TEST = range(3)

_REST = "?"  # nothing is known of the classes that the line does not name
# what would not come back from a line as it is, or would be read as a sign
_ODD = re.compile(r'^$|^["?-]|^\s|\s$|[\x00-\x1f\x7f\x85\u2028\u2029\ud800-\udfff]')


@dataclass(frozen=True)
class Split:
    """Who gets which image, with all that is known of it; the images are somewhere else."""

    name: str
    tasks: tuple[tuple[str, ...], ...]  # the classes of each
    refs: Sequence[str]  # (N) the images' names, sorted
    files: Sequence[str]  # (N) under the folder of images
    part: np.ndarray  # (N,) int8: TRAIN, VALIDATION, TEST
    task: np.ndarray  # (N,) int32, from 0; of a test image the first whose test set has it
    labels: np.ndarray  # (N, C) int8: 1 present, 0 absent, -1 unknown
    dropped: Mapping[str, str] = field(default_factory=dict)  # image -> why
    notes: tuple[str, ...] = ()
    made: Mapping[str, str] = field(default_factory=dict)  # setting -> value

    def __post_init__(self) -> None:
        assert len(self.refs) == len(self.files) == len(self.part) == len(self.task) == len(self.labels)
        assert self.labels.shape[1] == len(self.class_names)

    def __len__(self) -> int:
        return len(self.refs)

    @property
    def class_names(self) -> tuple[str, ...]:
        return tuple(name for names in self.tasks for name in names)

    @property
    def widths(self) -> tuple[int, ...]:
        return tuple(map(len, self.tasks))

    @property
    def edges(self) -> np.ndarray:
        """(T + 1,) task t owns the columns [edges[t], edges[t + 1])."""
        return np.cumsum((0, *self.widths))

    def text(self) -> str:
        """The same for the same split, whatever the order of rows that it was made from."""
        lines = [f"images\t{len(self)}", f"name\t{quoted(self.name)}"]
        lines += [f"made\t{quoted(key)}\t{quoted(value)}" for key, value in self.made.items()]
        lines += [f"note\t{quoted(note)}" for note in self.notes]
        for number, names in enumerate(self.tasks, 1):
            lines.append("\t".join((f"task\t{number}", *map(quoted, names))))
        for ref in sorted(self.dropped):
            lines.append(f"dropped\t{quoted(ref)}\t{quoted(self.dropped[ref])}")
        lines += self._images()
        body = "".join(f"{line}\n" for line in lines)
        return f"{HEAD}\t{FORMAT}\nsha256\t{_digest(body)}\n{body}"

    def write(self, path: Path | str) -> None:
        """All or nothing; a file that is no split is not written over."""
        path = Path(path)
        with file_errors(path, "cannot be written"):
            if path.exists() and not path.read_bytes()[:99].startswith(HEAD.encode()):
                raise DataError(f"{path}: exists, and is no split; name another file")
            path.parent.mkdir(parents=True, exist_ok=True)
            partial = path.with_name(f".{path.name}.partial")
            try:
                with partial.open("w", encoding="utf-8", newline="\n") as file:
                    file.write(self.text())
                    file.flush()
                    os.fsync(file.fileno())
                partial.replace(path)
            finally:
                partial.unlink(missing_ok=True)

    def _images(self) -> Iterator[str]:
        names = [quoted(name) for name in self.class_names]
        marks = {1: names, 0: [f"-{name}" for name in names], UNKNOWN: [f"?{name}" for name in names]}
        for ref, file, part, task, labels in zip(
            self.refs, self.files, self.part.tolist(), self.task.tolist(), self.labels, strict=True
        ):
            rest = UNKNOWN if 2 * np.count_nonzero(labels == UNKNOWN) > len(names) else 0
            cells = [PARTS[part], str(task + 1), quoted(ref), "" if file == ref else quoted(file)]
            cells += [_REST] if rest == UNKNOWN else []
            cells += [marks[mark][c] for c in np.flatnonzero(labels != rest) for mark in (int(labels[c]),)]
            yield "\t".join(cells)


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
    digest, _, body = rest.partition(b"\n")
    try:
        text = body.decode()
    except UnicodeDecodeError:
        text = ""
    if digest != f"sha256\t{_digest(text)}".encode():
        raise DataError(f"{path}: {_complaint(body)}; get it again, or make it anew: mlcl data build")
    return _Reader(path).read(text)


def quoted(name: str) -> str:
    r"""As a cell; what is odd in it as JSON writes it.

    >>> [quoted(name) for name in ("traffic light", "?", "a\tb")]
    ['traffic light', '"?"', '"a\\tb"']
    """
    return json.dumps(name) if _ODD.search(name) else name


def _complaint(body: bytes) -> str:
    lines = body.split(b"\n")
    announced = lines[0].partition(b"\t")[2]
    starts = tuple(f"{part}\t".encode() for part in PARTS)
    there = sum(line.startswith(starts) for line in lines[:-1])
    if announced.isdigit() and there < int(announced):
        return f"cut short: {there:,} of {int(announced):,} images are there"
    return "changed after it was written (wrong checksum)"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


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
        if named and named[0] == _REST:
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
