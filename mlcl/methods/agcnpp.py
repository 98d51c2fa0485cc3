"""AGCN++: a graph over the classes, grown task by task, whose nodes are the image as each class sees it.

The parts stand elsewhere, each readable alone: class_nodes (PLE), GCN and GraphReadout in mlcl.nn.graph, the
correlation matrix in mlcl.acm, the losses in GraphLearner. D1 to D10 are the decisions of docs/decisions.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from mlcl.methods.agcn import GraphLearner, Output
from mlcl.nn.backbone import Backbone
from mlcl.nn.graph import GCN, GraphReadout, Readout, class_nodes
from mlcl.nn.head import GrowingLinear


class AugmentedGraphNet(nn.Module):
    """CNN, PLE, GCN and readout: sigmoid(y_cal + y_gph)."""

    weights: Tensor  # (S, S) propagation matrix

    def __init__(self, config: AGCNpp.Config, generator: torch.Generator):
        super().__init__()
        self.backbone = Backbone(config.backbone, generator)
        width = self.backbone.width
        out = width if config.readout == "dot" else config.graph_width
        self.fc = GrowingLinear(width)
        self.gcn = GCN(width, config.hidden, out, generator)
        self.readout = GraphReadout(config.readout, out, 0.0 if config.start == "silent" else out**-0.5)
        self.node_scale = config.node_scale
        self.register_buffer("weights", torch.zeros(0, 0))

    def grow(self, width: int, generator: torch.Generator) -> None:
        self.fc.grow(width, generator)
        self.readout.grow(width, generator)
        self.weights = torch.eye(len(self.fc.weight), device=self.weights.device)

    def forward(self, x: Tensor, expert: Tensor | None = None, old: int = 0) -> Output:
        """`expert` (B, D) is the expert's feature behind the nodes of the first `old` classes."""
        feature = self.backbone(x)
        theta: Tensor = self.fc.weight
        if self.node_scale == "unit":  # a node as large as the feature, whatever the size of Theta
            theta = theta / theta.detach().square().mean(dim=1, keepdim=True).sqrt().clamp_min(1e-6)
        graph = self.gcn(class_nodes(theta, feature, expert, old), self.weights)
        y_gph = self.readout(graph, feature)
        return Output(self.fc(feature) + y_gph, feature, graph, y_gph)


class AGCNpp(GraphLearner, name="agcn++"):
    """The paper's method: partial label encoder, augmented correlation matrix, GCN, and an expert."""

    @dataclass(frozen=True, kw_only=True)
    class Config(GraphLearner.Config):
        graph_width: int = 1024  # of G; with `dot` it is the backbone's
        start: Literal["silent", "random"] = "silent"  # new rows of the diagonal readout: 0, or drawn
        node_scale: Literal["unit", "theta"] = (
            "unit"  # rows of Theta scaled to 1 in the nodes, or as they are
        )
        readout: Readout = "diagonal"  # D1
        old_nodes: Literal["expert", "student"] = "expert"  # D2

    net: AugmentedGraphNet

    def build(self) -> AugmentedGraphNet:
        return AugmentedGraphNet(self.config, self.generator)

    def forward(self, x: Tensor, expert_feature: Tensor | None) -> Output:
        if self.config.old_nodes == "student":
            expert_feature = None
        out: Output = self.net(x, expert_feature, self.old)
        return out

    def logits(self, x: Tensor) -> Tensor:
        if self.config.old_nodes == "student" or self.expert is None:
            return self.forward(x, None).logits
        return self.forward(x, self.expert.backbone(x)).logits
