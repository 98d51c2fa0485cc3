"""A split as a tree of CSVs, task0/train.csv and so on, in a folder or a zip."""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mlcl.data.gather import TEST, TRAIN
from mlcl.data.table import UNKNOWN
from mlcl.data.text import file_errors
from mlcl.errors import DataError

MOST_BYTES = 1 << 28  # of one file in a zip; the authors' largest has 3 MB


@dataclass(frozen=True)
class Split:
    """A tree of task CSVs as one table; labels that its files do not give are unknown."""

    widths: tuple[int, ...]
    refs: list[str]
    labels: np.ndarray  # (N, C) int8
    test: np.ndarray  # (N,) int8
    owner: dict[str, int]  # a test image belongs to the first task whose test set has it
    places: list[str]  # where each row was read


@dataclass(frozen=True)
class _File:
    """One CSV: its rows' images, 0/1 labels and line numbers."""

    where: str
    refs: list[str]
    labels: np.ndarray
    lines: list[int]

    def at(self, row: int) -> str:
        return f"{self.where}, line {self.lines[row]}"


def read_split(path: Path) -> Split:
    """Reads task*/train.csv and task*/test.csv, and checks that they belong together."""
    trains, tests = _trains_and_tests(path)
    widths = tuple(file.labels.shape[1] for file in trains)
    trained = _owners(trains, widths)
    tested: dict[str, int] = {}
    for task, file in enumerate(tests):
        _check_width(file, sum(widths[: task + 1]))
        _check_cumulative(file, tests[task - 1] if task else None)
        for row, ref in enumerate(file.refs):
            if ref in trained:
                raise DataError(f"{file.at(row)}: {ref} is a training image, too")
            tested.setdefault(ref, task)
    files = [*trains, tests[-1]]
    labels = np.full((sum(len(file.refs) for file in files), sum(widths)), UNKNOWN, np.int8)
    row = 0
    for task, file in enumerate(files):
        first = sum(widths[:task]) if task < len(widths) else 0
        labels[row : row + len(file.refs), first : first + file.labels.shape[1]] = file.labels
        row += len(file.refs)
    count = len(tests[-1].refs)
    return Split(
        widths,
        [ref for file in files for ref in file.refs],
        labels,
        np.repeat(np.array((TRAIN, TEST), np.int8), (len(labels) - count, count)),
        trained | tested,
        [file.at(row) for file in files for row in range(len(file.refs))],
    )


def _owners(trains: Sequence[_File], widths: Sequence[int]) -> dict[str, int]:
    owner: dict[str, int] = {}
    for task, file in enumerate(trains):
        _check_width(file, widths[task])
        for row, ref in enumerate(file.refs):
            if owner.setdefault(ref, task) != task:
                raise DataError(f"{file.at(row)}: {ref} is a training image of an earlier task, too")
    return owner


def _check_width(file: _File, width: int) -> None:
    if file.labels.shape[1] != width:
        raise DataError(f"{file.where}: {file.labels.shape[1]} columns of labels, expected {width}")


def _check_cumulative(file: _File, before: _File | None) -> None:
    """A test set holds the one before it, with the same labels in the columns of both."""
    if before is None:
        return
    row_of = {ref: row for row, ref in enumerate(file.refs)}
    for row, ref in enumerate(before.refs):
        if ref not in row_of:
            raise DataError(f"{before.at(row)}: {ref} is not in {file.where}; test sets are cumulative")
        if not np.array_equal(before.labels[row], file.labels[row_of[ref]][: before.labels.shape[1]]):
            raise DataError(f"{before.at(row)}: {ref} has other labels at {file.at(row_of[ref])}")


def _trains_and_tests(path: Path) -> tuple[list[_File], list[_File]]:
    files: dict[tuple[int, str], _File] = {}
    for number, part, where, data in _csv_files(path):
        if (number, part) in files:
            raise DataError(f"{where}: a second task{number}/{part}.csv, beside {files[number, part].where}")
        files[number, part] = _read(where, data)
    if not files:
        raise DataError(f"{path}: no task0/train.csv in it")
    numbers = range(min(files)[0], max(files)[0] + 1)
    for number in numbers:
        for part in ("train", "test"):
            if (number, part) not in files:
                raise DataError(f"{path}: no task{number}/{part}.csv in it")
    return [files[n, "train"] for n in numbers], [files[n, "test"] for n in numbers]


def _csv_files(path: Path) -> Iterator[tuple[int, str, str, bytes]]:
    """Task number, part, name and content of each CSV; what macOS leaves behind is passed over."""
    with file_errors(path):
        if path.is_dir():
            for file in sorted(path.rglob("*.csv")):
                found = _task_of(file.relative_to(path).as_posix())
                if found:
                    yield *found, str(file), file.read_bytes()
            return
        try:
            with zipfile.ZipFile(path) as archive:
                for info in archive.infolist():
                    found = _task_of(info.filename)
                    if found and info.file_size > MOST_BYTES:
                        raise DataError(f"{path}: {info.filename} would unpack to {info.file_size:,} bytes")
                    if found:
                        yield *found, f"{path}/{info.filename}", archive.read(info)
        except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError) as error:
            raise DataError(f"{path}: a damaged zip, or none: {error}") from None


def _task_of(name: str) -> tuple[int, str] | None:
    parts = name.split("/")
    found = re.fullmatch(r"task(\d+)/(train|test)\.csv", "/".join(parts[-2:]))
    return (int(found[1]), found[2]) if found and "__MACOSX" not in parts else None


def _read(where: str, data: bytes) -> _File:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(f"{where}, line {line}: not UTF-8") from None
    refs, lines = [], []
    labels = bytearray()
    width = 0
    for line, text_line in enumerate(text.splitlines(), 1):
        cells = text_line.split(",")
        if not any(cells):
            continue
        width = width or len(cells) - 1
        marks = "".join(cells[1:])
        if not width or len(cells) - 1 != width or len(marks) != width or "" in cells or marks.strip("01"):
            raise DataError(
                f"{where}, line {line}: expected an image and {width or 'some'} times 0 or 1, "
                f"got {text_line[:60]!r}"
            )
        refs.append(cells[0].strip())
        lines.append(line)
        labels += marks.encode()
    if not refs:
        raise DataError(f"{where}: empty")
    table = np.frombuffer(bytes(labels), np.int8).reshape(len(refs), width) - ord("0")
    return _File(where, refs, table, lines)
