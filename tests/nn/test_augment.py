"""Random crops and flips."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from mlcl.errors import ConfigError
from mlcl.nn.augment import Augment
from mlcl.types import Batch

SIZE = 16


def chance(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def noise(images: int = 8, height: int = SIZE, width: int = SIZE) -> Tensor:
    return torch.randint(0, 256, (images, 3, height, width), dtype=torch.uint8, generator=chance(5))


def batch(x: Tensor) -> Batch:
    return Batch(x, torch.ones(len(x), 2), torch.ones(len(x), 2, dtype=torch.bool))


def augment(crop: float = 0.7, flip: bool = True, size: int = SIZE) -> Augment:
    return Augment(Augment.Config(crop=crop, flip=flip), size)


def ramp(images: int, side: int = SIZE) -> Tensor:
    """Red says where a pixel was from left to right, green from top to bottom."""
    at = torch.arange(side, dtype=torch.float32) * 255 / (side - 1)
    x = torch.zeros(images, 3, side, side)
    x[:, 0], x[:, 1] = at[None, None, :], at[None, :, None]
    return x


def test_depends_on_its_generator_alone() -> None:
    x, before = noise(), torch.get_rng_state()
    a, b, c = (augment()(batch(x), chance(seed)).x for seed in (1, 1, 2))
    assert torch.equal(a, b)
    assert not torch.equal(a, c)
    assert torch.equal(torch.get_rng_state(), before)


def test_draws_go_on() -> None:
    generator = chance(1)
    a, b = (augment()(batch(noise()), generator).x for _ in range(2))
    assert not torch.equal(a, b)


def test_leaves_its_input_and_the_labels_alone() -> None:
    x = noise()
    before, given = x.clone(), batch(x)
    result = augment()(given, chance())
    assert torch.equal(x, before)
    assert result.y is given.y
    assert result.known is given.known


@pytest.mark.parametrize(("height", "width", "size"), [(16, 16, 16), (20, 30, 16), (9, 7, 16), (40, 40, 16)])
def test_shape_and_range(height: int, width: int, size: int) -> None:
    x = noise(32, height, width)
    out = augment(crop=0.3, size=size)(batch(x), chance()).x
    assert out.shape == (32, 3, size, size)
    assert torch.isfinite(out).all()
    assert out.min() >= 0
    assert out.max() <= 255.01
    white = augment(crop=0.3, size=size)(batch(torch.full_like(x, 255)), chance()).x
    assert (white - 255).abs().max() < 0.01  # a crop never reaches beyond the image


def test_neither_is_the_identity() -> None:
    x = noise(4, 20, 30)
    assert augment(crop=1.0, flip=False)(batch(x), chance()).x is x


def test_flip_alone_mirrors_half_of_the_images() -> None:
    x = noise(400, 8, 8)
    out = augment(crop=1.0, size=8)(batch(x), chance()).x
    same = ((out - x).abs().amax((1, 2, 3)) < 0.01).sum().item()
    mirrored = ((out - x.flip(-1)).abs().amax((1, 2, 3)) < 0.01).sum().item()
    assert same + mirrored == 400
    assert 150 < mirrored < 250


def test_crop_alone_never_mirrors() -> None:
    out = augment(flip=False)(batch(ramp(200)), chance()).x
    assert (out[:, 0, :, 1:] > out[:, 0, :, :-1]).all()  # left stays left
    assert (out[:, 1, 1:, :] > out[:, 1, :-1, :]).all()  # top stays top


def test_never_upside_down() -> None:
    out = augment()(batch(ramp(200)), chance()).x
    assert (out[:, 1, 1:, :] > out[:, 1, :-1, :]).all()
    mirrored = (out[:, 0, 0, 0] > out[:, 0, 0, -1]).float().mean()
    assert 0.35 < mirrored < 0.65


@pytest.mark.parametrize("crop", [0.5, 0.8])
def test_crops_are_square_and_anywhere(crop: float) -> None:
    out = augment(crop=crop, flip=False, size=64)(batch(ramp(500, 64)), chance()).x
    wide = (out[:, 0, 0, -1] - out[:, 0, 0, 0]) / 255
    high = (out[:, 1, -1, 0] - out[:, 1, 0, 0]) / 255
    assert torch.allclose(wide, high, atol=0.01)  # at the border half a pixel is reflected
    assert crop - 0.03 < wide.min() < crop + 0.05
    assert 0.95 < wide.max() <= 1
    left, right = out[:, 0, 0, 0] / 255, 1 - out[:, 0, 0, -1] / 255
    room = 1 - crop
    for margin in (left, right):  # the crop reaches both sides, and has all of the room between
        assert margin.min() < 0.02
        assert margin.max() > 0.8 * room
    assert abs((left - right).mean().item()) < 0.05


def test_images_are_moved_one_by_one() -> None:
    out = augment()(batch(ramp(50)), chance()).x
    assert len(torch.unique(out.flatten(1), dim=0)) == 50


def test_features_pass_through() -> None:
    x = torch.randn(4, 10)
    assert augment()(batch(x), chance()).x is x


@pytest.mark.parametrize("crop", [0.0, 0.05, 1.1, -1.0])
def test_a_crop_must_be_a_share(crop: float) -> None:
    with pytest.raises(ConfigError, match=r"augment\.crop: .* is not within 0\.1 and 1"):
        Augment.Config(crop=crop)
