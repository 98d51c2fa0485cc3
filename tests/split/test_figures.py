"""The numbers of a split, by hand, and its picture."""

from __future__ import annotations

import dataclasses
import io
from itertools import pairwise

import numpy as np
import pytest
from PIL import Image

from mlcl.data.artefact import Split
from mlcl.split import Figures, picture

REFS = list("abcdefgh")
SPLIT = Split(
    "toys",
    (("cat", "dog"), ("car",)),
    REFS,
    REFS,
    np.array([0, 0, 0, 0, 0, 2, 2, 1], np.int8),
    np.array([0, 0, 0, 1, 1, 0, 1, 0], np.int32),
    np.array(
        [[1, 1, 0], [1, 0, 1], [1, 0, -1], [0, 0, 1], [1, 1, 1], [1, 0, 0], [0, 1, 1], [1, 0, 0]], np.int8
    ),
    {"x": "no such file", "y": "shows no class of the stream", "z": "no such file"},
)


def test_by_hand() -> None:
    figures = Figures.of(SPLIT)
    assert figures.train.tolist() == [3, 2]
    assert figures.validation.tolist() == [1, 0]
    assert figures.test.tolist() == [1, 1]
    assert figures.positives.tolist() == [[3, 1, 1], [1, 1, 2]]
    assert figures.tested.tolist() == [1, 1, 1]
    assert figures.labels.tolist() == [5 / 3, 2.0]
    assert figures.own.tolist() == [4 / 3, 1.0]
    assert figures.specific.tolist() == [1, 1]  # a, d
    assert figures.mixed.tolist() == [1, 1]  # b, e; of c it is not known
    assert figures.share_of_specific() == 0.5
    assert figures.known.tolist() == [pytest.approx(8 / 9), 1.0]
    assert figures.balance(SPLIT.widths) == pytest.approx(2 / 1.5)
    assert list(figures.dropped.items()) == [("no such file", 2), ("shows no class of the stream", 1)]


def test_as_a_table() -> None:
    assert Figures.of(SPLIT).text(SPLIT).splitlines() == [
        "class\tits task\ttrain 1\ttrain 2\ttest",
        "cat\t1\t3\t1\t1",
        "dog\t1\t1\t1\t1",
        "car\t2\t1\t2\t1",
    ]


def test_where_nothing_is_known_of_other_tasks() -> None:
    """As in the authors' own files: nobody can say which image is mixed."""
    labels = SPLIT.labels.copy()
    labels[:3, 2] = -1
    labels[3:5, :2] = -1
    figures = Figures.of(dataclasses.replace(SPLIT, labels=labels))
    assert figures.specific.tolist() == figures.mixed.tolist() == [0, 0]
    assert figures.share_of_specific() is None


def random_split(classes: int, tasks: int, images: int = 300) -> Split:
    chance = np.random.default_rng(0)
    names = [f"class of a rather long name, ${n}$" for n in range(classes)]
    edges = np.linspace(0, classes, tasks + 1).astype(int)
    groups = tuple(tuple(names[a:b]) for a, b in pairwise(edges))
    labels = (chance.random((images, classes)) < 0.1).astype(np.int8)
    refs = [f"{n:04}" for n in range(images)]
    return Split(
        "a $ name _ of ^ its own", groups, refs, refs, chance.integers(0, 3, images).astype(np.int8),
        chance.integers(0, tasks, images).astype(np.int32), labels, {"x": "a $reason$"},
    )  # fmt: skip


def test_the_same_picture_for_the_same_split() -> None:
    image = Image.open(io.BytesIO(picture(SPLIT)))
    assert picture(SPLIT) == picture(SPLIT)
    assert (image.width, image.mode) == (1690, "RGBA")
    assert picture(dataclasses.replace(SPLIT, dropped={})) != picture(SPLIT)


def test_a_picture_of_many_classes() -> None:
    image = Image.open(io.BytesIO(picture(random_split(300, 100))))
    assert 1500 < image.height < 3000
    assert Image.open(io.BytesIO(picture(random_split(1, 1)))).height > 400
