"""Deep features: the pooled maps, and the random map's scale."""

from __future__ import annotations

import pytest
import torch

from mlcl.nn.backbone import Backbone
from mlcl.nn.deep import RandomReLU, deep_features, stage_maps


@pytest.fixture
def tiny() -> Backbone:
    return Backbone(Backbone.Config(name="tiny"), torch.Generator().manual_seed(0)).eval()


def pixels(count: int) -> torch.Tensor:
    chance = torch.Generator().manual_seed(1)
    return torch.randint(256, (count, 3, 32, 32), generator=chance, dtype=torch.uint8)


@torch.no_grad()
def test_stages_end_with_the_maps_of_the_whole_network(tiny: Backbone) -> None:
    x = pixels(2)
    maps = stage_maps(tiny, x)
    assert [m.shape[1:] for m in maps] == [(16, 16, 16), (32, 8, 8), (32, 4, 4), (32, 4, 4)]
    torch.testing.assert_close(maps[-1], tiny.maps(x))
    assert [m.shape[1] for m in stage_maps(Backbone(Backbone.Config(weights="random", size=32)), x)] == [
        112, 192, 320, 1280
    ]  # fmt: skip


@torch.no_grad()
def test_pooling(tiny: Backbone) -> None:
    x = pixels(3)
    last = tiny.maps(x)
    both = deep_features(tiny, x, "last", "mean+max")
    torch.testing.assert_close(both, torch.cat([last.mean((2, 3)), last.amax((2, 3))], 1))
    assert deep_features(tiny, x, "stages", "mean+max").shape == (3, 2 * (16 + 32 + 32 + 32))
    torch.testing.assert_close(deep_features(tiny, x, "stages", "max")[:, -32:], both[:, 32:])


@torch.no_grad()
def test_a_mirrored_image_has_the_same_features(tiny: Backbone) -> None:
    x = pixels(2)
    a, b = (deep_features(tiny, image, "stages", "mean", mirror=True) for image in (x, x.flip(-1)))
    torch.testing.assert_close(a, b)
    assert not torch.allclose(a, deep_features(tiny, x, "stages", "mean"), atol=1e-4)


def test_the_random_map_is_a_function_of_its_seed_and_scale() -> None:
    f = torch.randn(50, 4, generator=torch.Generator().manual_seed(0)) * 100 + 7
    one, same, other = RandomReLU(8, 1), RandomReLU(8, 1), RandomReLU(8, 2)
    for random in (one, same, other):
        random.fix(f)
    assert torch.equal(one(f), same(f))
    assert not torch.equal(one(f), other(f))
    assert one(f).min() == 0
    assert 0.1 < one(f).std() < 3  # whatever the features' own scale
    torch.testing.assert_close(one(f)[3:5], one(f[3:5]))
