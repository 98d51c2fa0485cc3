"""Text that people and spreadsheets wrote, opened so that every complaint names the file and the line."""

from __future__ import annotations

import codecs
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from mlcl.errors import ConfigError, DataError

_BOMS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


@contextlib.contextmanager
def open_text(path: Path, encoding: str = "") -> Iterator[TextIO]:
    """UTF-8 with or without its mark, UTF-16 with it, or the encoding given."""
    with file_errors(path):
        with path.open("rb") as file:
            start = file.read(4096)
        marked = next((name for bom, name in _BOMS.items() if start.startswith(bom)), "")
        encoding = marked or encoding or "utf-8"
        try:
            codecs.lookup(encoding)
        except LookupError:
            raise ConfigError(f"data.encoding: Python knows no encoding {encoding!r}; try utf-8") from None
        if start.startswith(b"PK\x03\x04"):
            raise DataError(f"{path}: a zip or an Excel workbook, not text; save it as CSV (UTF-8)")
        if b"\0" in start and not encoding.startswith(("utf-16", "utf-32")):
            raise DataError(f"{path}: not a text file (it has NUL bytes); save it as CSV (UTF-8)")
        try:
            with path.open(encoding=encoding, newline="") as file:
                yield file
        except UnicodeDecodeError:
            line = _first_bad_line(path, encoding)
            raise DataError(
                f"{path}, line {line}: not {encoding}; save the file as UTF-8, or name its encoding: "
                'data.encoding = "latin-1"'
            ) from None


@contextlib.contextmanager
def file_errors(path: Path, complaint: str = "cannot be read") -> Iterator[None]:
    """Turns the operating system's complaint into one line that names the file."""
    try:
        yield
    except FileNotFoundError:
        here = "" if path.is_absolute() else f" in {Path.cwd()}"
        raise DataError(f"{path}: no such file{here}") from None
    except OSError as error:
        raise DataError(f"{path}: {complaint}: {error.strerror or error}") from None


def read_lines(path: Path) -> list[tuple[int, str]]:
    """(line number, text) of each line that is not blank, without the space around it."""
    with open_text(path) as file:
        return [(number, line.strip()) for number, line in enumerate(file, 1) if line.strip()]


def _first_bad_line(path: Path, encoding: str) -> int:
    decoder = codecs.getincrementaldecoder(encoding)()
    good = 0
    with path.open("rb") as file:
        for line in file:
            try:
                decoder.decode(line)
            except UnicodeDecodeError:
                break
            good += 1
    return good + 1
