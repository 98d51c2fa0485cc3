"""The words that everything speaks: Batch, Samples, Task, Stream.

Shapes, in one notation everywhere: B images in a batch, N images in a set, S classes seen so far,
C classes in all, D features, T tasks, H x W pixels.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import overload

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """Images with what is known of their labels. `y` means nothing where `known` is False."""

    x: Tensor  # (B, 3, H, W) uint8
    y: Tensor  # (B, S) float, 0 or 1
    known: Tensor  # (B, S) bool
    of: int = 0  # images of the batch that this is one process's share of; 0: it is whole

    def __len__(self) -> int:
        return len(self.x)

    @property
    def seen(self) -> int:
        return self.y.shape[1]

    def to(self, device: torch.device | str) -> Batch:
        """On the device; from pinned memory a GPU fetches it while the host goes on."""
        ahead = torch.device(device).type == "cuda"
        x, y, known = (t.to(device, non_blocking=ahead) for t in (self.x, self.y, self.known))
        return Batch(x, y, known, self.of)

    def pinned(self) -> Batch:
        """In memory that a GPU reads by itself."""
        x, y, known = (t if t.is_cuda else t.pin_memory() for t in (self.x, self.y, self.known))
        return Batch(x, y, known, self.of)


class Images(ABC):
    """A sequence of images, decoded when asked for. Must be safe to call from threads."""

    broken: Mapping[int, str] = MappingProxyType({})  # which could not be decoded so far, and why
    repaired: Mapping[int, str] = MappingProxyType({})  # which are shown though a part is missing

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def load(self, indices: Sequence[int] | np.ndarray) -> Tensor:
        """(len(indices), 3, H, W) uint8. A broken image is plain grey, and noted in `broken`."""

    def identity(self) -> str:
        """What the pixels depend on beside the files; a cache of others is refused. Empty: no cache."""
        return ""

    def stamps(self) -> np.ndarray | None:
        """(N, 2) int64: each file's bytes and time of change, -1 where it is gone; None without files."""
        return None


class TensorImages(Images):
    """Images that are in memory already: (N, 3, H, W) uint8.

    >>> TensorImages(torch.zeros(5, 3, 8, 8, dtype=torch.uint8)).load([4, 0]).shape
    torch.Size([2, 3, 8, 8])
    """

    def __init__(self, x: Tensor):
        self.x = x

    def __len__(self) -> int:
        return len(self.x)

    def load(self, indices: Sequence[int] | np.ndarray) -> Tensor:
        return self.x[torch.as_tensor(np.asarray(indices, np.int64))]


@dataclass(frozen=True)
class Samples:
    """Images beside their labels; the columns are the classes seen so far, in stream order."""

    images: Images
    rows: np.ndarray  # (N,) which of the images
    y: np.ndarray  # (N, S) uint8
    known: np.ndarray  # (N, S) bool

    def __post_init__(self) -> None:
        assert self.y.shape == self.known.shape, (self.y.shape, self.known.shape)
        assert len(self.rows) == len(self.y)

    def __len__(self) -> int:
        return len(self.rows)

    def batch(self, indices: Sequence[int] | np.ndarray) -> Batch:
        """The samples at these places in the set. Of a broken image nothing is known."""
        take = np.asarray(indices, dtype=np.int64)
        x = self.images.load(self.rows[take])
        known = self.known[take]
        if self.images.broken:
            known = known & ~np.isin(self.rows[take], list(self.images.broken))[:, None]
        y = np.where(known, self.y[take], 0).astype(np.float32)
        return Batch(x, torch.from_numpy(y), torch.from_numpy(known.copy()))


@dataclass(frozen=True)
class Task:
    """One month of work: its new classes own the columns [start, stop)."""

    index: int
    start: int
    stop: int
    names: tuple[str, ...]  # of the new classes
    train: Samples
    test: Samples  # cumulative: every test image up to this task, all seen columns

    @property
    def new(self) -> slice:
        return slice(self.start, self.stop)


class Stream(Sequence[Task]):
    """Tasks in order, over one fixed order of classes."""

    def __init__(
        self,
        class_names: Sequence[str],
        tasks: Sequence[Task],
        name: str = "stream",
        full: Samples | None = None,  # all training images with all labels, for the upper bound alone
        notes: Sequence[str] = (),  # what was repaired, decided or left out on the way here, a sentence each
    ):
        assert tasks
        assert tasks[-1].stop == len(class_names)
        self.class_names = tuple(class_names)
        self.tasks = tuple(tasks)
        self.name = name
        self.full = full
        self.notes = tuple(notes)

    def joint(self, full: bool = False) -> Stream:
        """Everything at once, as one task: each image keeps what its own task knew, or gets all labels."""
        if full:
            assert self.full is not None, "this stream was built without full labels"
            train = self.full
        else:
            train = _concatenate([task.train for task in self.tasks], len(self.class_names))
        task = Task(0, 0, len(self.class_names), self.class_names, train, self.tasks[-1].test)
        return Stream(self.class_names, [task], self.name, self.full, self.notes)

    def __len__(self) -> int:
        return len(self.tasks)

    @overload
    def __getitem__(self, i: int) -> Task: ...
    @overload
    def __getitem__(self, i: slice) -> Sequence[Task]: ...
    def __getitem__(self, i: int | slice) -> Task | Sequence[Task]:
        return self.tasks[i]


def _concatenate(parts: Sequence[Samples], columns: int) -> Samples:
    assert all(part.images is parts[0].images for part in parts)

    def widen(labels: np.ndarray) -> np.ndarray:
        return np.pad(labels, ((0, 0), (0, columns - labels.shape[1])))

    return Samples(
        parts[0].images,
        np.concatenate([part.rows for part in parts]),
        np.concatenate([widen(part.y) for part in parts]),
        np.concatenate([widen(part.known) for part in parts]),
    )
