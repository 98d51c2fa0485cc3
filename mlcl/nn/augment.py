"""Random crops and flips, on whole batches, on the device; all chance is the learner's generator's."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from mlcl.errors import ConfigError
from mlcl.types import Batch


class Augment:
    """uint8 in, uint8 or float 0..255 out, at the network's own size."""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        crop: float = 0.7  # smallest side of a random square crop, as a share of the image; 1 = no crop
        flip: bool = True  # half of the images are mirrored

        def __post_init__(self) -> None:
            if not 0.1 <= self.crop <= 1:
                raise ConfigError(f"augment.crop: {self.crop} is not within 0.1 and 1")

    def __init__(self, config: Config, size: int):
        self.config = config
        self.size = size

    def __call__(self, batch: Batch, generator: torch.Generator) -> Batch:
        return self.move(batch, self.draw(batch, generator).to(batch.x.device, non_blocking=True))

    def draw(self, batch: Batch, generator: torch.Generator) -> Tensor:
        """(B, 2, 3) on the host: which part of each image is seen, mirrored or not; empty: as it is.

        B counts the whole batch, also where this process has a share of it: all draw the same.
        """
        if batch.x.ndim != 4 or (self.config.crop == 1 and not self.config.flip):
            return torch.empty(0)  # cached features have no pixels to move
        draw = torch.rand(batch.of or len(batch), 4, generator=generator)
        scale = 1 - (1 - self.config.crop) * draw[:, 0]
        theta = torch.zeros(len(draw), 2, 3)
        theta[:, 0, 0] = torch.where(draw[:, 3] < 0.5, -scale, scale) if self.config.flip else scale
        theta[:, 1, 1] = scale
        theta[:, :, 2] = (2 * draw[:, 1:3] - 1) * (1 - scale)[:, None]
        return theta

    def move(self, batch: Batch, theta: Tensor) -> Batch:
        """The batch as drawn; both on the device."""
        return replace(batch, x=self.images(batch.x, theta)) if len(theta) else batch

    def images(self, x: Tensor, theta: Tensor) -> Tensor:
        """(B, 3, H, W), (B, 2, 3) -> (B, 3, size, size)."""
        grid = F.affine_grid(theta, [len(x), 3, self.size, self.size], align_corners=False)
        return F.grid_sample(x.float(), grid, mode="bilinear", padding_mode="reflection", align_corners=False)
