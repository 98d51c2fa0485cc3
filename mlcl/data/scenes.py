"""The embedded default: drawn scenes whose true label graph is known.

A scene has one context. Given the context, each concept is there or not by a coin of its own, on the
condition that between FEWEST and MOST are there. So which concept implies which other is no estimate:
`oracle` sums it up exactly.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mlcl.data.pictograms.composition import picture
from mlcl.data.source import Source
from mlcl.data.table import LabelTable
from mlcl.errors import ConfigError, DataError
from mlcl.types import Images

FEWEST, MOST = 2, 6
_LABELS, _PICTURE = 0, 1  # streams of random numbers

CONTEXTS: dict[str, float] = {
    "street": 0.22,
    "park": 0.19,
    "home": 0.19,
    "kitchen": 0.15,
    "office": 0.13,
    "sea": 0.12,
}

_ELSEWHERE = 0.012
_TABLE: dict[str, dict[str, float]] = {
    "person": {"street": 0.58, "park": 0.62, "home": 0.44, "kitchen": 0.4, "office": 0.62, "sea": 0.52},
    "car": {"street": 0.72, "park": 0.06},
    "bus": {"street": 0.36},
    "bicycle": {"street": 0.32, "park": 0.34},
    "traffic light": {"street": 0.45},
    "house": {"street": 0.5, "park": 0.1, "sea": 0.12},
    "tree": {"street": 0.42, "park": 0.8, "sea": 0.3, "home": 0.04},
    "flower": {"park": 0.42, "home": 0.16, "kitchen": 0.1},
    "dog": {"park": 0.42, "street": 0.1, "home": 0.18, "sea": 0.1},
    "bird": {"park": 0.34, "sea": 0.42, "street": 0.06},
    "kite": {"park": 0.24, "sea": 0.3},
    "umbrella": {"sea": 0.45, "street": 0.16, "park": 0.06},
    "boat": {"sea": 0.72},
    "fish": {"sea": 0.5, "kitchen": 0.16},
    "cup": {"kitchen": 0.64, "office": 0.48, "home": 0.28},
    "bottle": {"kitchen": 0.5, "sea": 0.1, "home": 0.08},
    "apple": {"kitchen": 0.48, "office": 0.06, "park": 0.05},
    "pot": {"kitchen": 0.56},
    "cat": {"home": 0.45, "kitchen": 0.12, "street": 0.04},
    "chair": {"office": 0.5, "home": 0.42, "kitchen": 0.25},
    "lamp": {"home": 0.48, "office": 0.36},
    "clock": {"home": 0.26, "office": 0.26, "kitchen": 0.2},
    "laptop": {"office": 0.74, "home": 0.2},
    "book": {"home": 0.5, "office": 0.42},
}

CONCEPTS: tuple[str, ...] = tuple(_TABLE)
_PRIOR = np.array(list(CONTEXTS.values()))
_GIVEN = np.array(
    [[row.get(context, _ELSEWHERE) for row in _TABLE.values()] for context in CONTEXTS]
)  # contexts x C


def _tails(p: npt.NDArray[np.float64]) -> list[npt.NDArray[np.float64]]:
    """[j][..., n]: the chance to end with an allowed number, n concepts being there among the first j.

    `p` (..., C) are the coins of the concepts. n goes to MOST + 1, from where there is no way back.
    """
    n = np.arange(MOST + 2)
    tails = [np.broadcast_to(((n >= FEWEST) & (n <= MOST)).astype(np.float64), (*p.shape[:-1], len(n)))]
    for j in reversed(range(p.shape[-1])):
        later, coin = tails[0], p[..., j, None]
        heads = np.concatenate([later[..., 1:], np.zeros_like(later[..., :1])], axis=-1)
        tails.insert(0, coin * heads + (1 - coin) * later)
    return tails


_TAILS = np.stack(_tails(_GIVEN), axis=1)  # contexts x (C + 1) x (MOST + 2)
_ALLOWED = _TAILS[:, 0, 0]  # the chance that a context's coins give an allowed number


def sample_labels(seed: int, count: int) -> npt.NDArray[np.uint8]:
    """(count, C) labels. Row k depends on the seed and k only: a longer set begins with the shorter."""
    coins = np.random.default_rng([seed, _LABELS]).random((count, 1 + len(CONCEPTS)))
    context = np.minimum(np.searchsorted(np.cumsum(_PRIOR), coins[:, 0], side="right"), len(CONTEXTS) - 1)
    labels = np.zeros((count, len(CONCEPTS)), dtype=np.uint8)
    here = np.zeros(count, dtype=np.int64)  # how many so far
    for j in range(len(CONCEPTS)):
        chance = _GIVEN[context, j] * _TAILS[context, j + 1, here + 1] / _TAILS[context, j, here]
        labels[:, j] = coins[:, j + 1] < chance
        here += labels[:, j]
    return labels


def _joint() -> npt.NDArray[np.float64]:
    """(C, C): the chance that both concepts are in a scene."""
    each = np.arange(len(CONCEPTS))
    # a concept that is there for certain has the coin 1: so for every pair, and the diagonal for one
    certain = np.broadcast_to(
        _GIVEN[:, None, None], (len(CONTEXTS), *2 * (len(CONCEPTS),), len(CONCEPTS))
    ).copy()
    certain[:, each, :, each] = 1
    certain[:, :, each, each] = 1
    both = _GIVEN[:, :, None] * _GIVEN[:, None, :]
    both[:, each, each] = _GIVEN
    allowed = _tails(certain)[0][..., 0]
    joint: npt.NDArray[np.float64] = np.einsum("c,cij->ij", _PRIOR / _ALLOWED, both * allowed)
    return joint


def prior() -> npt.NDArray[np.float64]:
    """(C,): the true chance of each concept."""
    return np.diag(_joint()).copy()


def oracle() -> npt.NDArray[np.float64]:
    """(C, C): the true chance that concept i is there given that concept j is."""
    joint = _joint()
    return joint / np.diag(joint)


def _context(labels: npt.NDArray[np.bool_], rng: np.random.Generator) -> str:
    """One that these labels may have come from, by its true odds."""
    odds = _PRIOR / _ALLOWED * np.where(labels, _GIVEN, 1 - _GIVEN).prod(axis=1)
    place = int(np.searchsorted(np.cumsum(odds), rng.random() * odds.sum(), side="right"))
    return list(CONTEXTS)[min(place, len(CONTEXTS) - 1)]


def draw(labels: np.ndarray, seed: int, index: int, size: int = 128) -> npt.NDArray[np.uint8]:
    """(size, size, 3): the picture of these labels, the same for the same arguments."""
    there = np.asarray(labels) > 0
    if there.shape != (len(CONCEPTS),):
        raise DataError(f"labels of a scene: expected shape ({len(CONCEPTS)},), got {there.shape}")
    rng = np.random.default_rng([seed, _PICTURE, index])
    names = [name for name, here in zip(CONCEPTS, there, strict=True) if here]
    return picture(names, _context(there, rng), rng, size)


class SceneImages(Images):
    """Scenes, each drawn when it is first asked for and kept."""

    def __init__(self, labels: np.ndarray, seed: int, size: int, first: int = 0):
        self._labels, self._seed, self._size, self._first = labels, seed, size, first
        self._pixels = np.empty((len(labels), 3, size, size), dtype=np.uint8)
        self._drawn = np.zeros(len(labels), dtype=bool)
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._labels)

    def load(self, indices: Sequence[int] | np.ndarray) -> Tensor:
        """(len(indices), 3, size, size) uint8."""
        take = np.asarray(indices, dtype=np.int64)
        if not self._drawn[take].all():
            with self._lock:  # drawing holds the interpreter anyway, so taking turns costs nothing
                for k in take:
                    if not self._drawn[k]:
                        scene = draw(self._labels[k], self._seed, self._first + int(k), self._size)
                        self._pixels[k] = scene.transpose(2, 0, 1)
                        self._drawn[k] = True
        return torch.from_numpy(self._pixels[take])


class Scenes(Source, name="scenes"):
    """Drawn scenes of 24 concepts, made by the package itself; nothing is downloaded."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Source.Config):
        train: int = 2000  # images
        test: int = 400  # images
        size: int = 128  # pixels a side
        seed: int = 0  # of what is drawn

        def __post_init__(self) -> None:
            if self.train < 1 or self.test < 1 or self.size < 16:
                raise ConfigError("data: train and test need at least 1 image, size at least 16 pixels")

    def table(self) -> LabelTable:
        c = self.config
        labels = sample_labels(c.seed, c.train + c.test)
        refs = [f"scene {index}" for index in range(len(labels))]
        images = SceneImages(labels, c.seed, c.size)
        test = np.arange(len(labels)) >= c.train
        return LabelTable("scenes", CONCEPTS, refs, labels.astype(np.int8), test, images)
