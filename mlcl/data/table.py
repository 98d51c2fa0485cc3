"""LabelTable: images x class names x (1 / 0 / unknown), what every source is read into."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from mlcl.errors import DataError, nearest
from mlcl.types import Images

UNKNOWN = -1


@dataclass(frozen=True)
class LabelTable:
    """Row n: image `refs[n]`, its labels, and whether it is a test image."""

    name: str
    class_names: tuple[str, ...]
    refs: Sequence[str]  # N, what tells the images apart: a path, a file name
    labels: np.ndarray  # (N, C) int8: 1 present, 0 absent, -1 unknown
    test: np.ndarray  # (N,) bool
    images: Images  # N
    owner: np.ndarray | None = None  # (N,) each image's task, if the source comes with a split (-1: in none)
    widths: tuple[int, ...] = ()  # and then the classes of each task
    notes: tuple[str, ...] = ()  # what the source repaired or decided, a sentence each
    dropped: Mapping[str, str] = field(default_factory=dict)  # the images that it left out, and why

    def __post_init__(self) -> None:
        assert self.labels.shape == (len(self.refs), len(self.class_names)), self.labels.shape
        assert len(self.test) == len(self.refs) == len(self.images)
        assert self.labels.dtype.kind == "i", f"{self.labels.dtype} has no place for UNKNOWN"
        assert self.test.dtype == bool, f"~ of {self.test.dtype} is not `not`"
        if len(set(self.class_names)) < len(self.class_names):
            twice = [name for name, count in Counter(self.class_names).items() if count > 1]
            raise DataError(f"{self.name}: two classes have the name {twice[0]!r}")

    def __len__(self) -> int:
        return len(self.refs)

    def columns(self, names: Sequence[str]) -> LabelTable:
        """The same images with only these classes, in this order. A split of other columns is gone."""
        place = {name: column for column, name in enumerate(self.class_names)}
        for name in names:
            if name not in place:
                raise DataError(f"{self.name}: no class {name!r}; {nearest(name, self.class_names)}")
        labels = self.labels[:, [place[name] for name in names]]
        return replace(self, class_names=tuple(names), labels=labels, owner=None, widths=())

    def positives(self) -> np.ndarray:
        """(C,) training images that show each class."""
        count: np.ndarray = (self.labels[~self.test] == 1).sum(axis=0)
        return count
