"""The sheet of images: what the learner is told looks other than what is kept from it."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from mlcl import StreamConfig, build
from mlcl.data.table import LabelTable
from mlcl.split import contact_sheet
from mlcl.split.contact import HIDDEN, LEGEND, MARKED, MOST, _chips, _lay_out, _tiles
from mlcl.types import Images, Stream

HEADER = 104


class Grey(Images):
    """Shades without a colour in them."""

    def __init__(self, count: int, broken: Sequence[int] = ()):
        self.count = count
        self.broken = dict.fromkeys(broken, "empty file")

    def __len__(self) -> int:
        return self.count

    def load(self, indices: Any) -> Tensor:
        return torch.full((len(indices), 3, 16, 16), 77, dtype=torch.uint8)


def toys(classes: int = 4, images: int = 80, broken: Sequence[int] = (), **config: Any) -> Stream:
    chance = np.random.default_rng(0)
    labels = (chance.random((images, classes)) < 0.5).astype(np.int8)
    refs = [f"{n}" for n in range(images)]
    names = tuple(f"class {n}" for n in range(classes))
    table = LabelTable("toys", names, refs, labels, np.arange(images) % 4 == 0, Grey(images, broken))
    return build(table, StreamConfig(**{"way": 2, **config}))


def pixels(data: bytes, colour: str) -> int:
    """Below the legend, of exactly this colour."""
    image = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))[HEADER:]
    wanted = [int(colour[k : k + 2], 16) for k in (1, 3, 5)]
    return int((image == wanted).all(axis=-1).sum())


def test_what_is_told_and_what_is_not() -> None:
    il, cl, none = (contact_sheet(toys(**c)) for c in ({}, {"scenario": "cl"}, {"partial": 0.0}))
    assert pixels(il, MARKED) > 1000
    assert pixels(il, HIDDEN) > 100
    assert pixels(cl, MARKED) > pixels(il, MARKED)
    assert pixels(cl, HIDDEN) < pixels(il, HIDDEN)
    train_only = contact_sheet(toys(partial=0.0), test=0)
    assert pixels(train_only, MARKED) == 0
    assert pixels(none, MARKED) > 0  # the test images
    assert len(LEGEND) == 3


def test_the_same_for_the_same_seed() -> None:
    stream = toys()
    assert contact_sheet(stream) == contact_sheet(stream)
    assert contact_sheet(stream, seed=1) != contact_sheet(stream)


def test_size_follows_what_is_asked_for() -> None:
    stream = toys()
    few, more = (Image.open(io.BytesIO(contact_sheet(stream, train=n))) for n in (2, 6))
    assert more.width - few.width == 4 * (168 + 14)
    one = Image.open(io.BytesIO(contact_sheet(stream, tasks=1)))
    assert one.height < Image.open(io.BytesIO(contact_sheet(stream))).height


def test_chips() -> None:
    """y is read where it is known; of a class to come is said only that it is there; unknown has a mark."""
    stream = toys()
    full = stream.full
    assert full is not None
    row = int(full.rows[0])
    full.y[0], full.known[0] = [1, 0, 1, 1], [True, True, True, False]
    chips = _chips(stream, np.array([1, 1], np.uint8), np.array([False, True]), row)
    assert chips == [("marked", "class 1"), ("hidden", "class 0"), ("hidden", "class 2")]
    chips = _chips(stream, np.array([0, 0, 1, 0], np.uint8), np.array([False, False, True, False]), row)
    assert chips == [("marked", "class 2"), ("hidden", "class 0"), ("unknown", "? class 3")]
    full.known[0] = False  # of a table that itself does not know
    chips = _chips(stream, np.zeros(4, np.uint8), np.zeros(4, bool), row)
    assert chips == [("unknown", "? class 0"), ("unknown", "? class 1"), ("unknown", "? and 2 more")]


def test_of_a_broken_image_nothing_is_told() -> None:
    stream = toys(broken=range(80))
    tile = next(_tiles(stream, stream[1].train, np.array([0]), 64))
    assert tile.broken == "empty file"
    assert tile.known == 0
    assert {sort for sort, _ in tile.chips} == {"hidden"}
    assert pixels(contact_sheet(stream), MARKED) == 0


def test_many_labels_are_counted_instead() -> None:
    stream = toys(classes=60, way=60, images=40)
    tile = next(_tiles(stream, stream[0].train, np.array([0]), 168))
    count = len(tile.chips)
    assert count > MOST
    height = _lay_out(tile, 168)
    assert len(tile.chips) == len(tile.places) == MOST
    assert tile.chips[-1][1] == f"and {count - MOST + 1} more"
    assert all(0 <= x < 168 and y < height for x, y in tile.places)
    assert contact_sheet(stream)


def test_a_task_with_fewer_images_than_asked_for() -> None:
    assert contact_sheet(toys(images=24), train=20, test=9)
