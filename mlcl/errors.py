"""Everything that can go wrong by a user's doing, as one tree.

MLCLError
├── ConfigError      a recipe, a `--set`, an option
├── DataError        a label file, an image, a split
├── MissingExtra     an optional package that is not installed
└── RunError         a run folder, a checkpoint, the disk

The command line catches MLCLError only, prints its one line and exits with 2. Whatever else
escapes is a bug and shows its trace.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class MLCLError(Exception):
    """Says what is wrong, where, what is allowed, and what to do, in one line."""


class ConfigError(MLCLError):
    pass


class DataError(MLCLError):
    pass


class MissingExtra(MLCLError):
    def __init__(self, what: str, package: str, extra: str):
        super().__init__(
            f"{what} needs the package {package}, which is not installed: pip install 'mlcl[{extra}]'"
        )


class RunError(MLCLError):
    pass


def nearest(name: str, valid: Iterable[str]) -> str:
    """The tail of an error about an unknown name.

    >>> nearest("lamda3", ["lambda2", "lambda3", "readout"])
    "did you mean 'lambda3'? (valid: lambda2, lambda3, readout)"
    >>> nearest("xyz", ["il", "cl"])
    'valid: il, cl'
    """
    names = list(valid)
    close = difflib.get_close_matches(name, names, n=1)
    listing = ", ".join(names)
    return f"did you mean '{close[0]}'? (valid: {listing})" if close else f"valid: {listing}"
