"""The partial label encoder (PLE), the graph convolution (GCN), and the readout to one logit a class."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mlcl.nn.head import GrowingLinear

Readout = Literal["diagonal", "dot", "mean"]


def class_nodes(theta: Tensor, feature: Tensor, expert: Tensor | None = None, old: int = 0) -> Tensor:
    """PLE: H = Theta (.) cat(p, q), one node a class, different for every image.

    theta (S, D), feature (B, D) -> (B, S, D). The first `old` classes take the expert's feature (B, D).

    >>> theta = torch.tensor([[1.0, 2.0], [3.0, 0.5]])
    >>> class_nodes(theta, torch.tensor([[5.0, 8.0]])).tolist()
    [[[5.0, 16.0], [15.0, 4.0]]]
    >>> class_nodes(theta, torch.tensor([[5.0, 8.0]]), expert=torch.tensor([[7.0, 1.0]]), old=1).tolist()
    [[[7.0, 2.0], [15.0, 4.0]]]
    """
    if expert is None or old == 0:
        return theta * feature[:, None, :]
    return torch.cat([theta[:old] * expert[:, None, :], theta[old:] * feature[:, None, :]], dim=1)


class GCN(nn.Module):
    """G = A f(A H W1) W2 with a leaky ReLU between, no biases, image by image."""

    def __init__(self, features: int, hidden: int, out: int, generator: torch.Generator):
        super().__init__()
        self.first = nn.Parameter(_uniform(features, hidden, generator))
        self.second = nn.Parameter(_uniform(hidden, out, generator))

    def forward(self, nodes: Tensor, weights: Tensor) -> Tensor:
        """nodes (B, S, D), weights (S, S): row i hears column j -> (B, S, out)."""
        hidden = F.leaky_relu(weights @ (nodes @ self.first), 0.2)
        return weights @ (hidden @ self.second)


class GraphReadout(nn.Module):
    """(B, S, D) graph representation -> (B, S) logits.

    diagonal: each class has weights for its own node; dot: the node meets the image's feature, as in AGCN;
    mean: the node's mean.
    """

    def __init__(self, kind: Readout, features: int, scale: float):
        super().__init__()
        self.kind = kind
        self.rows = GrowingLinear(features, scale) if kind == "diagonal" else None

    def grow(self, width: int, generator: torch.Generator) -> None:
        if self.rows is not None:
            self.rows.grow(width, generator)

    def forward(self, graph: Tensor, feature: Tensor) -> Tensor:
        if self.rows is not None:
            return (graph * self.rows.weight).sum(dim=-1) + self.rows.bias
        if self.kind == "dot":
            return (graph @ feature[:, :, None]).squeeze(-1)
        return graph.mean(dim=-1)


def _uniform(rows: int, columns: int, generator: torch.Generator) -> Tensor:
    drawn: Tensor = (torch.rand(rows, columns, generator=generator) * 2 - 1) * columns**-0.5
    return drawn
