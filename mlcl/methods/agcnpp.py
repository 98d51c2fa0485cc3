"""AGCN++: a graph over the classes, grown task by task, whose nodes are the image as each class sees it.

The parts stand elsewhere, each readable alone: heard_nodes (PLE), GCN and GraphReadout in mlcl.nn.graph, the
correlation matrix in mlcl.acm, the losses in GraphLearner. D1 to D10 are the decisions of docs/decisions.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from mlcl.errors import ConfigError
from mlcl.methods.agcn import GraphLearner, Output
from mlcl.nn.backbone import Backbone
from mlcl.nn.embeddings import Embeddings
from mlcl.nn.graph import GCN, GraphReadout, Readout, heard_nodes
from mlcl.nn.head import GrowingLinear


class AugmentedGraphNet(nn.Module):
    """CNN, PLE, GCN and readout: sigmoid(y_cal + y_gph)."""

    weights: Tensor  # (S, S) propagation matrix
    nodes: Tensor  # (S, E) label embeddings, without PLE

    def __init__(self, config: AGCNpp.Config, embedded: int, generator: torch.Generator):
        """`embedded` is the width of label embeddings; 0: nodes come from PLE."""
        super().__init__()
        self.config = config
        self.backbone = Backbone(config.backbone, generator)
        width = self.backbone.width
        out = width if config.readout == "dot" else config.graph_width
        self.fc = GrowingLinear(width)
        self.gcn = GCN(embedded or width, config.hidden, out, generator)
        self.readout = GraphReadout(config.readout, out, 0.0 if config.start == "silent" else out**-0.5)
        self.register_buffer("nodes", torch.zeros(0, embedded))
        self.register_buffer("weights", torch.zeros(0, 0))

    def grow(self, width: int, generator: torch.Generator) -> None:
        self.fc.grow(width, generator)
        self.readout.grow(width, generator)
        self.nodes = torch.cat([self.nodes, self.nodes.new_zeros(width, self.nodes.shape[1])])
        self.weights = torch.eye(len(self.fc.weight), device=self.weights.device)

    def forward(self, x: Tensor, expert: Tensor | None = None, old: int = 0) -> Output:
        """`expert` (B, D) is the expert's feature behind the nodes of the first `old` classes."""
        feature = self.backbone(x)
        hidden = self.gcn(self.heard(feature, expert, old), self.weights)
        y_gph = self.readout(hidden, self.gcn.second, feature)
        return Output(self.fc(feature) + y_gph, feature, hidden, y_gph)

    def heard(self, feature: Tensor, expert: Tensor | None, old: int) -> Tensor:
        """A H: what each class hears of the nodes, (B or 1, S, ...)."""
        c = self.config
        if c.nodes == "embeddings":
            return (self.weights @ self.nodes)[None]
        theta: Tensor = self.fc.weight if c.theta == "learnt" else self.fc.weight.detach()
        if c.node_scale == "unit":  # a node as large as the feature, whatever the size of Theta
            theta = theta / theta.detach().square().mean(dim=1, keepdim=True).sqrt().clamp_min(1e-6)
        return heard_nodes(self.weights, theta, feature, expert, old)


class AGCNpp(GraphLearner, name="agcn++"):
    """The paper's method: a graph over the classes that grows with every task."""

    @dataclass(frozen=True, kw_only=True)
    class Config(GraphLearner.Config):
        graph_width: int = 1024  # of G; with `dot` it is the backbone's
        start: Literal["silent", "random"] = "silent"  # new rows of the diagonal readout: 0, or drawn
        node_scale: Literal["unit", "theta"] = (
            "unit"  # rows of Theta scaled to 1 in the nodes, or as they are
        )
        readout: Readout = "diagonal"  # D1
        old_nodes: Literal["expert", "student"] = "expert"  # D2
        theta: Literal["learnt", "constant"] = "learnt"  # D3: in the nodes
        nodes: Literal["ple", "embeddings"] = "ple"  # embeddings: the ablation without PLE, needs readout dot

        def __post_init__(self) -> None:
            super().__post_init__()
            if self.graph_width < 1:
                raise ConfigError(f"graph_width: a node has at least one number, got {self.graph_width}")
            if self.nodes == "embeddings" and self.readout != "dot":
                raise ConfigError(
                    f"nodes: 'embeddings' are the same for every image, so readout must be 'dot' (the node "
                    f"meets the image's feature), not {self.readout!r}"
                )

    net: AugmentedGraphNet

    def build(self) -> AugmentedGraphNet:
        embedded = 0
        if self.config.nodes == "embeddings":
            self.embeddings = Embeddings(self.config.embeddings)
            embedded = self.embeddings.width
        return AugmentedGraphNet(self.config, embedded, self.generator)

    def forward(self, x: Tensor, expert_feature: Tensor | None) -> Output:
        if not self.asks_expert:
            expert_feature = None
        out: Output = self.net(x, expert_feature, self.old)
        return out

    @property
    def asks_expert(self) -> bool:
        """Are nodes made of the expert's feature?"""
        c = self.config
        return self.expert is not None and c.nodes == "ple" and c.old_nodes == "expert"

    def logits(self, x: Tensor) -> Tensor:
        return self.forward(x, self.expert.backbone(x) if self.asks_expert else None).logits
