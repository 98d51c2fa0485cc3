"""Tables as files: CSV in its dialects, JSON lines, Parquet; all become a header and numbered rows."""

from __future__ import annotations

import csv
import itertools
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from mlcl.data.text import file_errors, open_text
from mlcl.errors import ConfigError, DataError, MissingExtra

SEPARATORS = ",;\t|"
IMAGE_SUFFIXES = frozenset(
    ".jpg .jpeg .jfif .png .webp .gif .bmp .tif .tiff .ppm .pgm .avif .heic".split()  # noqa: SIM905
)

Header = Literal["auto", "yes", "no"]
Row = tuple[int, Sequence[Any]]  # its number in the file, and its cells: strings, or lists of labels


@dataclass(frozen=True)
class Sheet:
    """A file without a header has its first row as `sample`; `unit` is what the rows' numbers count."""

    path: Path
    header: tuple[str, ...]
    rows: Iterator[Row]
    unit: str = "line"
    sample: Sequence[Any] = ()

    def at(self, number: int) -> str:
        return f"{self.path}, {self.unit} {number}"


def open_sheet(path: Path, *, separator: str = "auto", encoding: str = "", header: Header = "auto") -> Sheet:
    """By the file's suffix: .parquet, .jsonl, and CSV for everything else."""
    suffix = path.suffix.lower()
    if suffix in (".parquet", ".pq"):
        return _parquet(path)
    if suffix in (".jsonl", ".ndjson"):
        return _jsonl(path, encoding)
    return _csv(path, separator, encoding, header)


def _csv(path: Path, separator: str, encoding: str, header: Header) -> Sheet:
    if separator == "auto":
        separator = _sniff(path, encoding)
    elif len(separator) != 1 or separator in '"\r\n':
        raise ConfigError(f'data.separator: one character or "auto", got {separator!r}')
    rows = _csv_rows(path, separator, encoding)
    first = next(rows, None)
    if first is None:
        raise DataError(f"{path}: empty; expected a header such as path,label and one row an image")
    looks_like_image = Path(first[1][0].strip()).suffix.lower() in IMAGE_SUFFIXES
    if header == "no" or (header == "auto" and looks_like_image):
        return Sheet(path, (), itertools.chain([first], rows), sample=first[1])
    return Sheet(path, tuple(name.strip() for name in first[1]), rows)


def _csv_rows(path: Path, separator: str, encoding: str) -> Iterator[tuple[int, list[str]]]:
    with open_text(path, encoding) as file:
        reader = csv.reader(file, delimiter=separator, strict=True)
        while True:
            number = reader.line_num + 1  # of the record's first line, in case a cell spans several
            try:
                row = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                reason = _CSV_REASONS.get(str(error).split(" (")[0], str(error))
                raise DataError(f"{path}, line {number}: {reason}") from None
            if number == 1 and row and re.fullmatch(r"sep=.?", separator.join(row)):
                continue  # a hint to Excel
            if any(row):
                yield number, row


_CSV_REASONS = {
    "unexpected end of data": 'a quote " is opened and never closed',
    "field larger than field limit": 'a quote " is opened and never closed (or a cell is over 128 kB)',
}


def _sniff(path: Path, encoding: str) -> str:
    """The first character that can separate and stands outside quotes: a name or a path is before it."""
    with open_text(path, encoding) as file:
        line = next((line for line in file if line.strip(" \t\r\n")), "")
    hint = re.match(r"sep=(.)", line)
    if hint:
        return hint[1]
    unquoted = re.sub(r'"[^"]*"', "", line)
    return next((c for c in unquoted if c in SEPARATORS), ",")


def _jsonl(path: Path, encoding: str) -> Sheet:
    records: list[tuple[int, dict[str, Any]]] = []
    with open_text(path, encoding) as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except ValueError as error:
                raise DataError(f"{path}, line {number}: not valid JSON: {error}") from None
            if not isinstance(record, dict):
                raise DataError(f"{path}, line {number}: expected an object {{...}}, got {line.strip()[:40]}")
            records.append((number, record))
    if not records:
        raise DataError(f'{path}: empty; expected lines such as {{"file_name": "a.jpg", "labels": ["cat"]}}')
    header = tuple(dict.fromkeys(key for _, record in records for key in record))
    return Sheet(path, header, ((n, [_cell(record.get(key)) for key in header]) for n, record in records))


def _parquet(path: Path) -> Sheet:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtra(f"reading {path.name}", "pyarrow", "parquet") from None
    with file_errors(path):
        try:
            file = pyarrow.parquet.ParquetFile(path)
        except pyarrow.ArrowInvalid as error:
            raise DataError(f"{path}: not a Parquet file: {str(error).splitlines()[0]}") from None

    def rows() -> Iterator[Row]:
        number = 0
        for batch in file.iter_batches():
            for cells in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                number += 1
                yield number, [_cell(cell) for cell in cells]

    return Sheet(path, tuple(file.schema_arrow.names), rows(), unit="row")


def _cell(value: Any) -> Any:
    if isinstance(value, list):
        return value
    return "" if value is None else str(value)
