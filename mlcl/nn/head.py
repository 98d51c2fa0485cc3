"""Layers that grow with the classes: new rows are drawn, old rows stay."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class GrowingLinear(nn.Module):
    """(B, D) -> (B, S), one row a class."""

    weight: nn.Parameter  # (S, D)
    bias: nn.Parameter  # (S,)

    def __init__(self, features: int, scale: float | None = None):
        super().__init__()
        self.scale = features**-0.5 if scale is None else scale  # of new rows; 0 starts them silent
        self.weight = nn.Parameter(torch.empty(0, features))
        self.bias = nn.Parameter(torch.empty(0))

    def grow(self, width: int, generator: torch.Generator) -> None:
        """Adds `width` rows, drawn uniformly within +- scale; their biases start at 0."""
        drawn = (torch.rand(width, self.weight.shape[1], generator=generator) * 2 - 1) * self.scale
        self.weight = nn.Parameter(torch.cat([self.weight.detach(), drawn.to(self.weight)]))
        self.bias = nn.Parameter(torch.cat([self.bias.detach(), self.bias.new_zeros(width)]))

    def forward(self, features: Tensor) -> Tensor:
        # not in bfloat16: its eight bits would tie images that the network tells apart
        with torch.autocast(features.device.type, enabled=False):
            return F.linear(features.to(self.weight.dtype), self.weight, self.bias)
