"""What one cell of a label file says: a mark, a list of labels, a part of the data."""

from __future__ import annotations

import ast
from typing import Any, Literal

from mlcl.data.table import UNKNOWN

Part = Literal["train", "test", "val", ""]  # the last: nothing says which

PRESENT_WORDS = "1 1.0 true yes y t x + present positive"
ABSENT_WORDS = "0 0.0 false no n f absent negative"
UNKNOWN_WORDS = "? -1 -1.0 nan na n/a none null unknown"
MARKS = {
    "": UNKNOWN,
    **dict.fromkeys(PRESENT_WORDS.split(), 1),
    **dict.fromkeys(ABSENT_WORDS.split(), 0),
    **dict.fromkeys(UNKNOWN_WORDS.split(), UNKNOWN),
}
STRANGE = 2
# one byte a cell, for the rows whose cells are all of one character
MARK_OF_BYTE = bytes(
    MARKS.get(chr(c).lower(), STRANGE) % 256 if 32 < c < 127 else STRANGE for c in range(256)
)

PARTS: dict[str, Part] = {
    **dict.fromkeys(("train", "training", "trainval"), "train"),
    **dict.fromkeys(("test", "testing", "eval", "evaluation"), "test"),
    **dict.fromkeys(("val", "valid", "validation", "dev"), "val"),
}


def mark(cell: str) -> int | None:
    """1, 0, or -1 for unknown; None for what is none of the words.

    >>> [mark(cell) for cell in ("1", " Yes", "0.0", "", "?", "-1", "0.7")]
    [1, 1, 0, -1, -1, -1, None]
    """
    return MARKS.get(cell.strip().lower())


def label_names(cell: Any, separator: str = "auto") -> list[str]:
    """The labels in one cell: separated by `;`, else by `|`, else by `,`; or written as a list.

    >>> label_names("cat; dog"), label_names("['clouds', 'sky']"), label_names("")
    (['cat', 'dog'], ['clouds', 'sky'], [])
    """
    if not isinstance(cell, str):
        return [str(name).strip() for name in cell]
    cell = cell.strip()
    if cell.startswith("[") and cell.endswith("]"):
        names = ast.literal_eval(cell)
        return [str(name).strip() for name in names]
    if separator == "auto":
        separator = next((c for c in ";|," if c in cell), ";")
    return [name for part in cell.split(separator) if (name := part.strip())]


def part_of(ref: str) -> Part:
    """By the first folder of the path, if it is called train, test, val or the like."""
    first, slash, _ = ref.partition("/")
    return PARTS.get(first.lower(), "") if slash else ""
