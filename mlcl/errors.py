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
    >>> nearest("AGCN++", ["agcn", "agcn++"])
    "did you mean 'agcn++'? (valid: agcn, agcn++)"
    """
    names = list(valid)
    lower = {known.lower(): known for known in names}
    close = [lower[near] for near in difflib.get_close_matches(name.lower(), lower, n=1)]
    listing = ", ".join(names)
    return f"did you mean '{close[0]}'? (valid: {listing})" if close else f"valid: {listing}"


def refuse_twins(what: str, name: str, new: type, old: type | None) -> None:
    """A plugin never stands in silently for what mlcl brings, nor that for it."""
    modules = [] if old is None else sorted({old.__module__, new.__module__})
    if len(modules) == 2 and any(module.startswith("mlcl.") for module in modules):
        raise ConfigError(f"two {what}s are called {name!r}, of {modules[0]} and {modules[1]}; rename yours")
