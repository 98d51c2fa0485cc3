"""CSC: classes seen as places in the image, related by learnt graphs, and calibrated against over-confidence.

A 1x1 convolution says at every position how much of each class is there; its maximum is the first head. Each
class then is a node: what the image shows where that class is most active. Two graph layers relate the nodes,
one with weights learnt for all images, whose old block never changes again, and one with weights that each
image makes itself; the second head reads each node. The answer is the mean of both heads.

Adapted: a new class must not disturb what is said of the old ones at the moment when it comes. So links
between classes start at 0. The graph an image makes is weighed by the class that speaks (its row starts at 0;
tanh, not a sigmoid, so that 0 is silence), and looks at the image's own mean, not at that of a growing set of
nodes; each node hears itself with weight 1. Classification and distillation weigh as in AGCN++, so LwF is its
ablation.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mlcl.errors import ConfigError
from mlcl.learner import Terms
from mlcl.methods.lwf import LwF
from mlcl.nn.backbone import Backbone
from mlcl.nn.head import GrowingLinear
from mlcl.types import Batch


class GrowingGraph(nn.Module):
    """(S, S) weights by which class i (row) hears class j: the old block is kept, the rest is learnt."""

    kept: Tensor  # (old, old)

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kept", torch.zeros(0, 0))
        self.below = nn.Parameter(torch.zeros(0, 0))  # (new, old)
        self.right = nn.Parameter(torch.zeros(0, 0))  # (S, new)

    def grow(self, width: int) -> None:
        self.kept = self().detach()
        old = len(self.kept)
        self.below = nn.Parameter(self.kept.new_zeros(width, old))
        self.right = nn.Parameter(torch.eye(old + width, device=self.kept.device)[:, old:].clone())

    def forward(self) -> Tensor:
        return torch.cat([torch.cat([self.kept, self.below]), self.right], dim=1)


class ActivationGraphNet(nn.Module):
    """(B, 3, H, W) -> (B, S) logits, the mean of what the activations and what the graph say."""

    def __init__(self, config: CSC.Config, generator: torch.Generator):
        super().__init__()
        if config.backbone.pool != "mean":
            raise ConfigError(
                "csc reads the backbone's maps, it pools nothing: leave backbone.pool at 'mean'"
            )
        self.backbone = Backbone(config.backbone, generator)
        width, hidden = self.backbone.width, config.hidden
        self.activation = GrowingLinear(width)  # the 1x1 convolution
        self.project = nn.Parameter(_uniform(width, hidden, generator))
        self.first = nn.Parameter(_uniform(hidden, hidden, generator))
        self.second = nn.Parameter(_uniform(hidden, hidden, generator))
        self.general = GrowingGraph()
        self.speaker = GrowingLinear(2 * hidden, scale=0.0)  # makes the image's own graph
        self.readout = GrowingLinear(hidden)  # each class its own weights, on its own node

    def grow(self, width: int, generator: torch.Generator) -> None:
        for part in (self.activation, self.speaker, self.readout):
            part.grow(width, generator)
        self.general.grow(width)

    def forward(self, x: Tensor) -> Tensor:
        """The mean of both heads."""
        maps = self.backbone.maps(x).flatten(2).transpose(1, 2)  # (B, P, D), P positions
        active: Tensor = self.activation(maps)  # (B, P, S)
        projected = maps @ self.project
        graph = self.related(class_nodes(active, projected), projected.mean(dim=1))
        seen: Tensor = (graph * self.readout.weight).sum(dim=-1) + self.readout.bias
        return (active.amax(dim=1) + seen) / 2

    def related(self, nodes: Tensor, image: Tensor) -> Tensor:
        """nodes (B, S, H), image (B, H) -> (B, S, H): over the graph of all images, then its own."""
        nodes = F.leaky_relu(self.general() @ (nodes @ self.first), 0.2)
        of_node, of_image = self.speaker.weight.chunk(2, dim=1)  # (S, H) each
        own = nodes @ of_node.T + F.linear(image, of_image, self.speaker.bias)[:, None]
        own = own.tanh() + torch.eye(own.shape[-1], device=own.device)  # (B, hearer, speaker)
        return F.leaky_relu(own @ (nodes @ self.second), 0.2)


class CSC(LwF, name="csc"):
    """Class-activation nodes on learnt graphs, and a term against over-confidence."""

    @dataclass(frozen=True, kw_only=True)
    class Config(LwF.Config):
        entropy: float = 0.04  # weight of the mean of p log p
        hidden: int = 512  # numbers a node

        def __post_init__(self) -> None:
            super().__post_init__()
            if self.entropy < 0:
                raise ConfigError("entropy: cannot be negative")
            if self.hidden < 1:
                raise ConfigError(f"hidden: a node has at least one number, got {self.hidden}")

    net: ActivationGraphNet

    def build(self) -> ActivationGraphNet:
        return ActivationGraphNet(self.config, self.generator)

    def losses(self, batch: Batch) -> Terms:
        logits = self.net(batch.x)
        return self.distilled(logits, batch) | {"ent": self.config.entropy * confidence(logits)}


def class_nodes(active: Tensor, maps: Tensor) -> Tensor:
    """active (B, P, S), maps (B, P, H) -> (B, S, H): the maps, where each class is most active.

    >>> active = torch.tensor([[[0.0, 50.0], [0.0, -50.0]]])  # a class everywhere, one at the left
    >>> class_nodes(active, torch.tensor([[[2.0], [4.0]]])).tolist()
    [[[3.0], [2.0]]]
    """
    return active.softmax(dim=1).transpose(1, 2) @ maps


def confidence(logits: Tensor) -> Tensor:
    """The mean of p log p: -1/e where p is 1/e, and 0 where the answer is sure either way.

    >>> confidence(torch.logit(torch.tensor([[0.5, 0.25]])))  # -(log(2) / 2 + log(4) / 4) / 2
    tensor(-0.3466)
    """
    z = logits.float()
    return (z.sigmoid() * F.logsigmoid(z)).mean()


def _uniform(rows: int, columns: int, generator: torch.Generator) -> Tensor:
    drawn: Tensor = (torch.rand(rows, columns, generator=generator) * 2 - 1) * (3 / rows) ** 0.5
    return drawn
