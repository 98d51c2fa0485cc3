"""Features of several depths: what a linear model on a frozen network sees more in than in the last layer."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from mlcl.nn.backbone import Backbone
from mlcl.nn.efficientnet_lite import Staged

Depth = Literal["last", "stages"]
Pool = Literal["mean", "max", "mean+max"]


def stage_maps(backbone: Backbone, x: Tensor) -> list[Tensor]:
    """The maps (B, D_i, h, w) of the last three stages and of what follows them.

    Networks that do not show their stages give the maps of their last three resolutions, or blocks.
    """
    network = backbone.network
    if not isinstance(network, Staged):
        return backbone.pyramid(x)
    x = network.stem(backbone.prepare(x))
    maps = []
    for stage in network.stages:
        x = stage(x)
        maps.append(x)
    return [*maps[-3:], network.head(x)]


def deep_features(backbone: Backbone, x: Tensor, depth: Depth, pool: Pool, mirror: bool = False) -> Tensor:
    """(B, 3, H, W) uint8 -> (B, D): map by map its mean, its maximum; `mirror`: averaged over both sides."""
    maps = stage_maps(backbone, x) if depth == "stages" else [backbone.maps(x)]
    parts = []
    for m in maps:
        if "mean" in pool:
            parts.append(m.mean((2, 3), dtype=torch.float32))
        if "max" in pool:
            parts.append(m.amax((2, 3)).float())
    features = torch.cat(parts, dim=1)
    if mirror:
        features = (features + deep_features(backbone, x.flip(-1), depth, pool)) / 2
    return features


class RandomReLU:
    """f (B, D) -> relu(W (f - mean) / std + b), W and b drawn once: what is linear in it is not in f."""

    def __init__(self, width: int, seed: int):
        self.width, self.seed = width, seed
        self.mean: Tensor | None = None  # (D,) of the features that came first; None until `fix`
        self.std: Tensor | None = None
        self._drawn: tuple[Tensor, Tensor] | None = None

    def fix(self, f: Tensor) -> None:
        """f (n, D) sets the scale for good."""
        self.mean = f.mean(dim=0)
        self.std = f.std(dim=0, correction=0)
        self.std = self.std.clamp_min(1e-3 * self.std.mean() + 1e-6)

    def __call__(self, f: Tensor) -> Tensor:
        assert self.mean is not None
        assert self.std is not None
        weights, offset = self._draw(f)
        return torch.relu(((f - self.mean) / self.std).clamp(-5, 5) @ weights + offset)

    def _draw(self, f: Tensor) -> tuple[Tensor, Tensor]:
        """A function of the seed, so that a checkpoint need not hold it."""
        if self._drawn is None:
            chance = torch.Generator().manual_seed(self.seed)
            weights = torch.randn(f.shape[1], self.width, generator=chance) / f.shape[1] ** 0.5
            self._drawn = weights.to(f), torch.randn(self.width, generator=chance).to(f)
        return self._drawn
