"""Cached features: those of the encoder, made once, refused under another key."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from mlcl.data.features import FeatureImages, featurise
from mlcl.data.images import FileImages
from mlcl.data.packed import PackedImages, pack
from mlcl.errors import DataError
from mlcl.types import Samples

SIZE, COUNT, WIDTH = 8, 7, 5
REFS = [f"{k}.png" for k in range(COUNT)]


class Encoder:
    def __init__(self) -> None:
        self.linear = nn.Linear(3 * SIZE * SIZE, WIDTH)
        self.images = 0

    def __call__(self, x: Tensor) -> Tensor:
        self.images += len(x)
        encoded: Tensor = self.linear(x.reshape(len(x), -1).float() / 255)
        return encoded


@pytest.fixture
def images(tmp_path: Path) -> FileImages:
    rng = np.random.default_rng(0)
    (tmp_path / "images").mkdir()
    for ref in REFS:
        pixels = rng.integers(0, 255, (SIZE, SIZE, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "images" / ref)
    (tmp_path / "images" / "4.png").write_bytes(b"")
    return FileImages(tmp_path / "images", REFS, SIZE)


def test_features_are_the_encoders(images: FileImages, tmp_path: Path) -> None:
    encoder, folder = Encoder(), tmp_path / "features"
    cached = featurise(images, REFS, folder, encoder, "linear", batch=3, shard=4 * 4 * WIDTH)
    assert encoder.images == COUNT + 1  # one for the shape
    with torch.inference_mode():
        expected = encoder(images.load(range(COUNT)))
    features = cached.load(range(COUNT))
    assert features.dtype == torch.float32
    torch.testing.assert_close(features, expected)
    assert torch.equal(cached.load([6, 0]), features[[6, 0]])
    assert cached.broken == {4: "4.png: empty file (0 bytes)"}
    batch = Samples(cached, np.arange(COUNT), np.ones((COUNT, 2), np.uint8), np.ones((COUNT, 2), bool)).batch(
        [4, 5]
    )
    assert batch.x.shape == (2, WIDTH)
    assert batch.known.tolist() == [[False, False], [True, True]]
    cached.verify()


def test_the_second_time_nothing_is_encoded(images: FileImages, tmp_path: Path) -> None:
    encoder, folder = Encoder(), tmp_path / "features"
    first = featurise(images, REFS, folder, encoder, "linear").load(range(COUNT))
    count = encoder.images
    again = featurise(images, REFS, folder, encoder, "linear")
    assert encoder.images == count
    assert torch.equal(again.load(range(COUNT)), first)
    packed = pack(images, REFS, tmp_path / "pack")  # whether files or packed, they are the same images
    assert torch.equal(featurise(packed, REFS, folder, encoder, "linear").load([1]), first[[1]])
    assert encoder.images == count


def test_a_resumed_cache_is_the_same_to_the_bit(images: FileImages, tmp_path: Path) -> None:
    encoder, folder = Encoder(), tmp_path / "features"
    options = {"batch": 2, "shard": 3 * 4 * WIDTH}
    whole = featurise(images, REFS, folder, encoder, "linear", **options).load(range(COUNT))
    (folder / "rows-00001.json").unlink()
    assert torch.equal(
        featurise(images, REFS, folder, encoder, "linear", **options).load(range(COUNT)), whole
    )


def test_another_key_is_refused(images: FileImages, tmp_path: Path) -> None:
    folder = tmp_path / "features"
    featurise(images, REFS, folder, Encoder(), "linear weights=1")
    with pytest.raises(DataError, match=r"there '.*weights=1; float32', wanted '.*weights=2; float32'"):
        featurise(images, REFS, folder, Encoder(), "linear weights=2")
    with pytest.raises(DataError, match=r"wanted '.*float16'"):
        featurise(images, REFS, folder, Encoder(), "linear weights=1", dtype="float16")
    with pytest.raises(DataError, match=r"kind: there 'features', wanted 'pixels'"):
        pack(images, REFS, folder)
    with pytest.raises(DataError, match="holds features, not pixels"):
        PackedImages(folder)
    assert len(FeatureImages(folder)) == COUNT


def test_half_precision_takes_half_the_space(images: FileImages, tmp_path: Path) -> None:
    encoder = Encoder()
    half = featurise(images, REFS, tmp_path / "half", encoder, "linear", dtype="float16")
    full = featurise(images, REFS, tmp_path / "full", encoder, "linear")
    assert half.shards.dtype == np.float16
    assert half.load([0]).dtype == torch.float32
    torch.testing.assert_close(half.load(range(COUNT)), full.load(range(COUNT)), rtol=1e-3, atol=1e-3)


def test_features_that_are_no_numbers_are_told(images: FileImages, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="too large for float16; use float32"):
        featurise(images, REFS, tmp_path / "a", lambda x: torch.full((len(x), 2), 1e6), "k", dtype="float16")
    with pytest.raises(DataError, match="not finite"):
        featurise(images, REFS, tmp_path / "b", lambda x: torch.full((len(x), 2), torch.nan), "k")


def test_maps_keep_their_shape(images: FileImages, tmp_path: Path) -> None:
    cached = featurise(images, REFS, tmp_path / "maps", lambda x: x.float().mean(1), "grey")
    assert cached.load([0, 1]).shape == (2, SIZE, SIZE)
