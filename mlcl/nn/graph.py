"""The partial label encoder (PLE), the graph convolution (GCN), and the readout to one logit a class."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mlcl.nn.head import GrowingLinear

Readout = Literal["diagonal", "dot", "mean"]


def heard_nodes(
    weights: Tensor, theta: Tensor, feature: Tensor, expert: Tensor | None = None, old: int = 0
) -> Tensor:
    """A H with the nodes of PLE, H = Theta (.) cat(p, q): one node a class, different for every image.

    weights A (S, S), theta (S, D), feature (B, D) -> (B, S, D). The first `old` classes take the expert's
    feature (B, D). As A (Theta (.) f) = (A Theta) (.) f, A meets Theta once and not every image.

    >>> alone, theta = torch.eye(2), torch.tensor([[1.0, 2.0], [3.0, 0.5]])
    >>> feature = torch.tensor([[5.0, 8.0]])
    >>> heard_nodes(alone, theta, feature).tolist()
    [[[5.0, 16.0], [15.0, 4.0]]]
    >>> heard_nodes(alone, theta, feature, expert=torch.tensor([[7.0, 1.0]]), old=1).tolist()
    [[[7.0, 2.0], [15.0, 4.0]]]
    """
    if expert is None or old == 0:
        heard = weights @ theta
        return heard * feature.to(heard.dtype)[:, None, :]
    before, heard = weights[:, :old] @ theta[:old], weights[:, old:] @ theta[old:]
    p, q = expert.to(heard.dtype)[:, None, :], feature.to(heard.dtype)[:, None, :]
    return torch.addcmul(before * p, heard, q)


class GCN(nn.Module):
    """G = A f(A H W1) W2 with a leaky ReLU between, no biases, image by image.

    The output G (B, S, out) is made only where all of it is needed: `forward` stops before W2.
    """

    def __init__(self, features: int, hidden: int, out: int, generator: torch.Generator):
        super().__init__()
        self.first = nn.Parameter(_uniform(features, hidden, generator))
        self.second = nn.Parameter(_uniform(hidden, out, generator))

    def forward(self, heard: Tensor, weights: Tensor) -> Tensor:
        """A H (B, S, D), A (S, S): row i hears column j -> A f(A H W1) (B, S, hidden)."""
        return weights @ F.leaky_relu(heard @ self.first, 0.2)

    def output(self, hidden: Tensor) -> Tensor:
        """G (B, S, out)."""
        return hidden @ self.second


class GraphReadout(nn.Module):
    """Graph representation G = U W2 (B, S, D) -> (B, S) logits, from U: U (W2 r) needs no G.

    diagonal: each class has weights for its own node; dot: the node meets the image's feature, as in AGCN;
    mean: the node's mean.
    """

    def __init__(self, kind: Readout, features: int, scale: float = 0.0):
        super().__init__()
        self.kind = kind
        self.rows = GrowingLinear(features, scale) if kind == "diagonal" else None

    def grow(self, width: int, generator: torch.Generator) -> None:
        if self.rows is not None:
            self.rows.grow(width, generator)

    def forward(self, hidden: Tensor, second: Tensor, feature: Tensor) -> Tensor:
        """hidden U (B or 1, S, hidden), second W2 (hidden, D), feature (B, D)."""
        wide = feature.dtype  # sums are not in bfloat16: it would tie images that the network tells apart
        if self.rows is not None:
            return (hidden * (self.rows.weight @ second.T)).sum(dim=-1, dtype=wide) + self.rows.bias
        if self.kind == "mean":
            return (hidden * second.mean(dim=1).to(hidden)).sum(dim=-1, dtype=wide)
        spoken = feature @ second.T
        if len(hidden) > 1:
            return (hidden * spoken[:, None, :]).sum(dim=-1, dtype=wide)
        with torch.autocast(feature.device.type, enabled=False):  # one graph for all images
            return spoken.to(wide) @ hidden[0].to(wide).T


def _uniform(rows: int, columns: int, generator: torch.Generator) -> Tensor:
    drawn: Tensor = (torch.rand(rows, columns, generator=generator) * 2 - 1) * columns**-0.5
    return drawn
