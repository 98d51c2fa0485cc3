"""Which column of a label sheet is what: by the settings, else by what it is called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from mlcl.data.marks import PARTS, mark
from mlcl.data.sheet import Sheet
from mlcl.errors import DataError, nearest

PATH_NAMES = (
    "path", "file", "file_name", "filename", "filepath", "file_path", "image", "image_path", "img",
    "img_path", "image_id", "imageid",
)  # fmt: skip
LABEL_NAMES = (
    "label", "labels", "tag", "tags", "class", "classes", "class_name", "category", "categories", "labelname",
)  # fmt: skip
SPLIT_NAMES = ("split", "split_name", "subset", "partition", "phase")
VALUE_NAMES = ("value", "present", "confidence")


@dataclass(frozen=True)
class Reading:
    """How sheets are to be read; what is empty is found by the columns' names."""

    form: Literal["auto", "wide", "long"] = "auto"
    path_column: str = ""
    label_column: str = ""
    split_column: str = ""
    value_column: str = ""
    ignore: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    label_separator: str = "auto"
    unlisted: Literal["absent", "unknown"] = "absent"


@dataclass(frozen=True)
class Columns:
    form: Literal["wide", "long"]
    width: int  # cells a row
    path: int
    split: int | None
    label: int = -1  # long form
    value: int | None = None  # long form
    classes: tuple[tuple[str, int], ...] = ()  # wide form: name and column
    unused: tuple[str, ...] = ()

    @staticmethod
    def find(sheet: Sheet, reading: Reading) -> Columns:
        header = sheet.header or _invented(sheet, reading)
        where = _Finder(sheet, header)
        path = where.column(reading.path_column, PATH_NAMES, "path_column")
        if path is None:
            if not header[0]:
                raise DataError(f'{sheet.path}: no column is called path; name it: data.path_column = "..."')
            path = 0
        split = where.column(reading.split_column, SPLIT_NAMES, "split_column")
        label = None
        if reading.form != "wide":
            label = where.column(reading.label_column, LABEL_NAMES, "label_column")
        if label is not None:
            value = where.column(reading.value_column, VALUE_NAMES, "value_column")
            used = {path, split, label, value}
            unused = tuple(n for i, n in enumerate(header) if i not in used and n)
            return Columns("long", len(header), path, split, label, value, unused=unused)
        if reading.form == "long":
            raise DataError(
                f"{sheet.path}: no column of labels among {', '.join(header)}; "
                'name it: data.label_column = "..."'
            )
        taken = {header[i] for i in (path, split) if i is not None}
        classes = _class_columns(sheet, header, reading, taken)
        unused = tuple(n for n in header if n and n not in taken and n not in dict(classes))
        return Columns("wide", len(header), path, split, classes=classes, unused=unused)


@dataclass(frozen=True)
class _Finder:
    sheet: Sheet
    header: tuple[str, ...]

    def column(self, given: str, usual: Sequence[str], key: str) -> int | None:
        if given:
            if given not in self.header:
                raise DataError(
                    f"{self.sheet.path}: no column {given!r} (data.{key}); {nearest(given, self.header)}"
                )
            return self.header.index(given)
        lower = [name.lower() for name in self.header]
        return next((lower.index(name) for name in usual if name in lower), None)


def _class_columns(
    sheet: Sheet, header: tuple[str, ...], reading: Reading, taken: set[str]
) -> tuple[tuple[str, int], ...]:
    for name in (*reading.ignore, *reading.classes):
        if name not in header:
            raise DataError(f"{sheet.path}: no column {name!r}; {nearest(name, header)}")
    names = reading.classes or tuple(n for n in header if n and n not in taken and n not in reading.ignore)
    for name in names:
        if header.count(name) > 1:
            raise DataError(
                f"{sheet.path}: two columns are called {name!r}; rename one, or, if the file has no header: "
                'data.header = "no"'
            )
    for index, name in enumerate(header):
        # without a name: what pandas writes first and a separator at the line's end leaves last
        if not name and 0 < index < len(header) - 1:
            raise DataError(f"{sheet.path}: column {index + 1} has no name")
    if not names:
        raise DataError(
            f"{sheet.path}: neither a column of labels nor one column a class; only {', '.join(header)}"
        )
    return tuple((name, header.index(name)) for name in names)


def _invented(sheet: Sheet, reading: Reading) -> tuple[str, ...]:
    """A header for a file that has none."""
    cells: list[Any] = list(sheet.sample[1:])
    marks = all(isinstance(cell, str) and mark(cell) is not None for cell in cells)
    if reading.form == "wide" or (reading.form == "auto" and marks and len(cells) > 1):
        if len(cells) != len(reading.classes):
            raise DataError(
                f"{sheet.path}: no header and {len(cells)} columns of marks; name that many classes "
                f"(given: {len(reading.classes)}): data.classes = [...]"
            )
        return ("path", *reading.classes)
    if len(cells) == 1:
        return ("path", "label")
    if len(cells) == 2 and str(cells[1]).strip().lower() in PARTS:
        return ("path", "label", "split")
    raise DataError(
        f"{sheet.path}: no header, and {len(cells) + 1} columns; expected path,label or path,label,split; "
        "write a header as the first line"
    )
