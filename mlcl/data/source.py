"""Where label tables come from: a source reads one kind of data set, and registers itself by its name."""

from __future__ import annotations

import importlib
import pkgutil
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from mlcl.data.table import LabelTable
from mlcl.errors import ConfigError, nearest, refuse_twins

_SOURCES: dict[str, type[Source]] = {}


class Source(ABC):
    """A subclass with `name=` is found by `--data NAME`; its first docstring line is its help."""

    name: ClassVar[str]

    @dataclass(frozen=True, kw_only=True)
    class Config:
        pass

    def __init__(self, config: Any):
        self.config = config

    def __init_subclass__(cls, name: str = "") -> None:
        if name:
            refuse_twins("data source", name, cls, _SOURCES.get(name))
            cls.name = name
            _SOURCES[name] = cls

    @abstractmethod
    def table(self) -> LabelTable:
        """Reads and checks all labels. Images are decoded later, when asked for."""


def sources() -> dict[str, type[Source]]:
    import mlcl.data

    for module in pkgutil.iter_modules(mlcl.data.__path__):  # each source registers itself
        if not module.ispkg:
            importlib.import_module(f"mlcl.data.{module.name}")
    return dict(sorted(_SOURCES.items()))


def source(name: str) -> type[Source]:
    known = sources()
    if name not in known:
        raise ConfigError(f"no data source {name!r}; {nearest(name, known)}")
    return known[name]
