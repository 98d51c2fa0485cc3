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
        if batch.x.ndim != 4 or (self.config.crop == 1 and not self.config.flip):
            return batch  # cached features have no pixels to move
        return replace(batch, x=self.images(batch.x, generator))

    def images(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """(B, 3, H, W) -> (B, 3, size, size)."""
        draw = torch.rand(len(x), 4, generator=generator).to(x.device)
        scale = 1 - (1 - self.config.crop) * draw[:, 0]
        centre = (2 * draw[:, 1:3] - 1) * (1 - scale)[:, None]
        mirror = torch.where(draw[:, 3] < 0.5, -1.0, 1.0) if self.config.flip else torch.ones_like(scale)
        theta = torch.zeros(len(x), 2, 3, device=x.device)
        theta[:, 0, 0], theta[:, 1, 1] = scale * mirror, scale
        theta[:, :, 2] = centre
        grid = F.affine_grid(theta, [len(x), 3, self.size, self.size], align_corners=False)
        return F.grid_sample(x.float(), grid, mode="bilinear", padding_mode="reflection", align_corners=False)
