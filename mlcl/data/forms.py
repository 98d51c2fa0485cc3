"""The two forms of a label sheet, wide (one column a class) and long (a column of labels), read into Rows."""

from __future__ import annotations

import bisect
from abc import ABC, abstractmethod
from array import array
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Literal

import numpy as np

from mlcl.data.columns import Columns, Reading
from mlcl.data.gather import TEST, TRAIN, UNDECIDED, Rows, clean, counted
from mlcl.data.marks import MARK_OF_BYTE, PARTS, STRANGE, Part, label_names, mark, part_of
from mlcl.data.sheet import Sheet
from mlcl.data.table import UNKNOWN
from mlcl.errors import DataError, nearest

_VALIDATION = 2
_CODES = {"train": TRAIN, "test": TEST, "val": _VALIDATION, "": UNDECIDED % 256}

Add = Callable[[str, Sequence[Any], int, int], None]  # path, cells, part, number


@dataclass(frozen=True)
class Given:
    """A sheet; its images' part, where no column says it; and what goes before its paths."""

    sheet: Sheet
    part: Part | Literal["by folder"] = ""
    base: str = ""


def read_sheets(given: Sequence[Given], reading: Reading) -> Rows:
    """All sheets as one; they must be of one form."""
    marks: _Marks | None = None
    notes = []
    for one in given:
        columns = Columns.find(one.sheet, reading)
        if columns.unused:
            notes.append(f"{one.sheet.path.name}: columns not used: {', '.join(columns.unused)}")
        kind = _Wide if columns.form == "wide" else _Long
        marks = marks or kind(reading)
        if not isinstance(marks, kind):
            raise DataError(f"{one.sheet.path}: in {columns.form} form, but {given[0].sheet.path} is not")
        marks.read(one, columns)
    assert marks is not None
    class_names, labels = marks.labels()
    parts = np.frombuffer(bytes(marks.parts), np.int8).copy()
    notes += settle_validation(parts)
    return Rows(class_names, marks.refs, labels, parts, marks.place, notes=notes + marks.notes)


def settle_validation(parts: np.ndarray) -> list[str]:
    """A stream holds out validation images of its own, so a file's are put to use: in place."""
    validation = parts == _VALIDATION
    if not validation.any():
        return []
    tested = bool((parts == TEST).any())
    parts[validation] = TRAIN if tested else TEST
    use = "trained on, as there are test images" if tested else "tested on, as there are no test images"
    return [f"{counted(validation.sum(), 'image')} marked as validation: {use}"]


class _Marks(ABC):
    def __init__(self, reading: Reading):
        self.reading = reading
        self.refs: list[str] = []
        self.parts = bytearray()
        self.numbers = array("q")  # where each image was read first
        self.notes: list[str] = []
        self._sheets: list[Sheet] = []
        self._starts: list[int] = []

    def place(self, row: int) -> str:
        sheet = self._sheets[bisect.bisect_right(self._starts, row) - 1]
        return sheet.at(self.numbers[row])

    def read(self, given: Given, columns: Columns) -> None:
        sheet = given.sheet
        self._sheets.append(sheet)
        self._starts.append(len(self.refs))
        add = self.adder(sheet, columns)
        path, split, width = columns.path, columns.split, columns.width
        by_folder = given.part == "by folder" and split is None
        code = _CODES.get(given.part, UNDECIDED % 256)
        for number, cells in sheet.rows:
            if len(cells) != width:
                cells = _fit(cells, width, sheet.at(number))
            ref = clean(cells[path]) if isinstance(cells[path], str) else ""
            if not ref:
                raise DataError(f"{sheet.at(number)}: no path of an image")
            if split is not None:
                code = _part(cells[split], sheet.at(number))
            ref = given.base + ref
            add(ref, cells, _CODES[part_of(ref)] if by_folder else code, number)

    @abstractmethod
    def adder(self, sheet: Sheet, columns: Columns) -> Add: ...

    @abstractmethod
    def labels(self) -> tuple[tuple[str, ...], np.ndarray]:
        """The classes, and (N, C) int8."""


class _Wide(_Marks):
    def __init__(self, reading: Reading):
        super().__init__(reading)
        self._names: tuple[str, ...] = ()
        self._data = bytearray()

    def adder(self, sheet: Sheet, columns: Columns) -> Add:
        at = dict(columns.classes)
        self._names = self._names or tuple(at)
        if at.keys() != set(self._names):
            odd = sorted(at.keys() ^ set(self._names))
            raise DataError(f"{sheet.path}: not the classes of {self._sheets[0].path}: {', '.join(odd)}")
        places = [at[name] for name in self._names]
        take: Callable[[Sequence[Any]], Sequence[Any]]
        if places == list(range(places[0], places[-1] + 1)):
            take = itemgetter(slice(places[0], places[-1] + 1))
        else:
            take = itemgetter(*places)  # at least two, or the first case
        count, names, data = len(places), self._names, self._data
        refs, parts, numbers = self.refs, self.parts, self.numbers

        def add(ref: str, row: Sequence[Any], part: int, number: int) -> None:
            cells = take(row)
            try:
                codes = b"" if "" in cells else "".join(cells).encode().translate(MARK_OF_BYTE)
            except TypeError:  # not all of them strings
                codes = b""
            if len(codes) != count or STRANGE in codes:  # if as many bytes as cells, then one each
                codes = bytes(_mark(cell, sheet.at(number), names[i]) % 256 for i, cell in enumerate(cells))
            data.extend(codes)
            refs.append(ref)
            parts.append(part)
            numbers.append(number)

        return add

    def labels(self) -> tuple[tuple[str, ...], np.ndarray]:
        return self._names, np.frombuffer(self._data, np.int8).reshape(len(self.refs), len(self._names))


class _Long(_Marks):
    def __init__(self, reading: Reading):
        super().__init__(reading)
        self._row_of: dict[str, int] = {}
        self._column_of = {name: column for column, name in enumerate(reading.classes)}
        self._entries = array("q"), array("q"), array("b")  # row, column, mark
        self._entry_places: list[tuple[int, Sheet]] = []
        self._entry_numbers = array("q")

    def adder(self, sheet: Sheet, columns: Columns) -> Add:
        rows, places, marks = self._entries
        self._entry_places.append((len(rows), sheet))

        def add(ref: str, cells: Sequence[Any], part: int, number: int) -> None:
            row = self._row_of.setdefault(ref, len(self.refs))
            if row == len(self.refs):
                self.refs.append(ref)
                self.parts.append(part)
                self.numbers.append(number)
            elif self.parts[row] != part:
                raise DataError(
                    f"{sheet.at(number)}: {ref} is for training and for testing (see {self.place(row)}); "
                    "an image may be one of them only"
                )
            value = 1
            if columns.value is not None:
                value = _mark(cells[columns.value], sheet.at(number), "value")
            for name, known in self._named(cells[columns.label], sheet, number):
                rows.append(row)
                places.append(self._column(name, sheet, number))
                marks.append(value if known else UNKNOWN)
                self._entry_numbers.append(number)

        return add

    def labels(self) -> tuple[tuple[str, ...], np.ndarray]:
        found = tuple(self._column_of)
        names = self.reading.classes or tuple(sorted(found))
        order = np.array([names.index(name) for name in found], np.int64)
        rest = UNKNOWN if self.reading.unlisted == "unknown" else 0
        labels = np.full((len(self.refs), len(names)), rest, np.int8)
        rows, columns, marks = (np.frombuffer(entry, entry.typecode) for entry in self._entries)
        columns = order[columns]
        labels[rows, columns] = marks
        for entry in np.flatnonzero(labels[rows, columns] != marks)[:1]:
            sheet = next(sheet for start, sheet in reversed(self._entry_places) if start <= entry)
            raise DataError(
                f"{sheet.at(self._entry_numbers[entry])}: {self.refs[rows[entry]]} is said to show "
                f"{names[columns[entry]]!r} and not to show it; delete one of the two rows"
            )
        self._note_lookalikes(names)
        return names, labels

    def _named(self, cell: Any, sheet: Sheet, number: int) -> list[tuple[str, bool]]:
        try:
            names = label_names(cell, self.reading.label_separator)
        except (ValueError, SyntaxError):
            raise DataError(f"{sheet.at(number)}: not a list of labels: {cell!r}") from None
        return [(name[1:].strip(), False) if name.startswith("?") else (name, True) for name in names]

    def _column(self, name: str, sheet: Sheet, number: int) -> int:
        classes = self.reading.classes
        if not name:
            raise DataError(f"{sheet.at(number)}: a label without a name")
        if not classes:
            return self._column_of.setdefault(name, len(self._column_of))
        if name in self._column_of:
            return self._column_of[name]
        if name.isdecimal() and int(name) < len(classes):  # as exported where classes are numbered
            return int(name)
        raise DataError(f"{sheet.at(number)}: no class {name!r} in data.classes; {nearest(name, classes)}")

    def _note_lookalikes(self, names: Sequence[str]) -> None:
        alike: dict[str, list[str]] = defaultdict(list)
        for name in names:
            alike[" ".join(name.lower().replace("_", " ").split())].append(name)
        for group in alike.values():
            if len(group) > 1:
                self.notes.append(f"classes that may be one: {', '.join(map(repr, group))}")


def _mark(cell: Any, place: str, column: str) -> int:
    found = mark(cell) if isinstance(cell, str) else None
    if found is None:
        raise DataError(
            f"{place}: column {column!r} has {cell!r}; a mark is 1 or 0 (yes/no, true/false, x), blank where "
            f"unknown; if it is no class, leave it out: data.ignore = [{column!r}]"
        )
    return found


def _part(cell: Any, place: str) -> int:
    part = PARTS.get(str(cell).strip().lower())
    if part is None:
        raise DataError(f"{place}: part of the data {cell!r}; {nearest(str(cell), PARTS)}")
    return _CODES[part]


def _fit(cells: Sequence[Any], width: int, place: str) -> Sequence[Any]:
    if len(cells) > width and not any(cells[width:]):
        return cells[:width]
    raise DataError(
        f"{place}: {len(cells)} cells, but the first line has {width}; "
        "is the line cut short, or a separator within a name not quoted?"
    )
