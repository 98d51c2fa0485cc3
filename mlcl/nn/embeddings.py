"""A vector for every label name, from real text where it is to be had."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from mlcl.errors import ConfigError, DataError, nearest
from mlcl.nn import minilm

Table = dict[str, np.ndarray]  # lower-case word -> (E,)


class Embeddings:
    """`glove:FILE` (.npz with names and vectors, or a text file of words), `minilm`, or `random`."""

    def __init__(self, spec: str):
        kind, _, path = spec.partition(":")
        if kind == "random" and not path:
            self.width = 300
            self._table: Callable[[Sequence[str]], Table] = lambda names: {n: _drawn(n) for n in names}
        elif kind == "minilm" and not path:
            minilm.packaged()  # said at once if it is not there
            self.width = minilm.WIDTH
            self._table = _said
        elif kind == "glove" and path:
            file = Path(path).expanduser()
            self.width = _width(file)
            self._table = lambda names: _looked_up(file, names)
        else:
            raise ConfigError(
                f"embeddings: {nearest(spec, ['random', 'minilm', 'glove:FILE'])}; got {spec!r}"
            )

    def __call__(self, names: Sequence[str]) -> Tensor:
        """(len(names), E) float32."""
        table = self._table(names)
        return torch.from_numpy(np.stack([table[name] for name in names]).astype(np.float32))


def _drawn(name: str) -> np.ndarray:
    seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
    return np.random.default_rng(seed).standard_normal(300) * 0.4  # about GloVe's own scale


def _said(names: Sequence[str]) -> Table:
    model = minilm.MiniLM()  # 90 MB: read for the names of a task, and let go
    return {name: model(name.replace("_", " ")).numpy() for name in names}


def _looked_up(path: Path, names: Sequence[str]) -> Table:
    """Each name itself, or the mean of those of its words that the file knows."""
    parts = {name: name.lower().replace("-", " ").replace("_", " ").split() for name in names}
    wanted = {word for name in names for word in (name.lower(), *parts[name])}
    table = _read(path, wanted)
    found = {}
    for name in names:
        words = [name.lower()] if name.lower() in table else [w for w in parts[name] if w in table]
        if not words:
            raise DataError(f"{path}: no vector for class {name!r} or any of its words")
        found[name] = np.mean([table[word] for word in words], axis=0)
    return found


def _width(path: Path) -> int:
    """Of the file's vectors; a text file is read whole only when names are looked up."""
    vectors = _archive(path) if path.suffix == ".npz" else _text(path)
    for _, vector in vectors:
        return len(vector)
    raise DataError(f"{path}: holds no word vectors")


def _read(path: Path, wanted: Collection[str]) -> Table:
    """The wanted words; of several that differ in case the first."""
    table: Table = {}
    for word, vector in _archive(path) if path.suffix == ".npz" else _text(path, wanted):
        table.setdefault(word, vector)
    return table


def _archive(path: Path) -> Iterator[tuple[str, np.ndarray]]:
    try:
        with np.load(path, allow_pickle=False) as file:
            names, vectors = file["names"], file["vectors"]
    except (OSError, KeyError, ValueError) as error:
        raise DataError(f"{path}: not an .npz file with `names` and `vectors`: {error}") from None
    if vectors.ndim != 2 or len(names) != len(vectors):
        raise DataError(f"{path}: `vectors` must have a row for each of the {len(names)} names")
    yield from zip((str(name).lower() for name in names), vectors, strict=True)


def _text(path: Path, wanted: Collection[str] | None = None) -> Iterator[tuple[str, np.ndarray]]:
    """Lines of a word and its numbers, as GloVe and word2vec write them; only wanted ones are parsed."""
    width = 0
    try:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                line = line.rstrip()
                blanks = line.count(" ")
                if number == 1 and blanks == 1:
                    continue  # word2vec's header: count and width
                width = width or blanks
                if not line or blanks < width:
                    raise DataError(f"{path}, line {number}: {blanks} numbers, the lines before have {width}")
                word, *values = line.rsplit(" ", width) if blanks > width else [line.partition(" ")[0]]
                word = word.lower()
                if wanted is None or word in wanted:
                    yield word, np.array(values or line.split(" ")[1:], np.float32)
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: not a file of word vectors (.npz, or text): {error}") from None
