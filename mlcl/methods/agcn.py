"""AGCN, the predecessor: a graph over fixed label embeddings gives each class its classifier.

GraphLearner is what AGCN and AGCN++ share: the correlation matrix, the expert, and the three losses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from mlcl import losses, ranks
from mlcl.acm import ACM, Propagation, propagation
from mlcl.errors import ConfigError
from mlcl.learner import GradientLearner, State, Terms
from mlcl.nn.backbone import Backbone
from mlcl.nn.embeddings import Embeddings
from mlcl.nn.graph import GCN, GraphReadout
from mlcl.types import Batch, Task


class Output(NamedTuple):
    logits: Tensor  # (B, S)
    feature: Tensor  # (B, D)
    hidden: Tensor  # (B or 1, S, hidden) what each class heard; the graph's output is gcn.output(hidden)
    graph_logits: Tensor  # (B, S) what the graph adds to the logits


class GraphLearner(GradientLearner):
    """Soft labels complete the correlation matrix; the expert's answers and its graph are kept."""

    keep_expert = True
    recordable = True

    @dataclass(frozen=True, kw_only=True)
    class Config(GradientLearner.Config):
        lambda1: float = 0.15  # classification
        lambda2: float = 0.85  # distillation of the old classes
        lambda3: float = 100.0  # keeping the old nodes' graph representation
        graph_lr: float = 3e-5  # of the graph convolution
        hidden: int = 1024  # numbers a node between the two layers
        relation: Literal["features", "logits"] = "features"  # D4: what lambda3 keeps
        reduction: losses.Reduction = "mean"  # D5
        soft_labels: Literal["sigmoid", "softmax"] = "sigmoid"  # D6, for the ACM
        halve: bool = False  # D7
        propagation: Propagation = "soft"  # D8
        old_old: Literal["inherited", "recount"] = "inherited"  # D10
        transpose: bool = False  # D9: False: node j sends to i with A_ij, P(i given j); True: with A_ji
        inter_task: bool = True  # False: the ablation without R and Q
        # of nodes that are label embeddings: glove:FILE, minilm (extra), or random: drawn from the name
        embeddings: str = "random"

        def __post_init__(self) -> None:
            if min(self.lambda1, self.lambda2, self.lambda3) < 0:
                raise ConfigError("lambda1, lambda2 and lambda3: cannot be negative")
            if self.hidden < 1:
                raise ConfigError(f"hidden: a node has at least one number, got {self.hidden}")

    embeddings: Embeddings | None = None  # if nodes are label embeddings

    def __init__(self, config: Any = None, *, seed: int = 0, device: str = "cpu"):
        super().__init__(config, seed=seed, device=device)
        c = self.config
        self.acm = ACM(inter_task=c.inter_task, old_old=c.old_old, halve=c.halve, device=self.device)

    def forward(self, x: Tensor, expert_feature: Tensor | None) -> Output:
        """The network's answer; `expert_feature` (B, D) is there from the second task on."""
        out: Output = self.net(x)
        return out

    def param_groups(self) -> list[dict[str, Any]]:
        graph = list(self.net.gcn.parameters())
        inside = {id(p) for p in graph}
        groups = super().param_groups()
        for group in groups:
            group["params"] = [p for p in group["params"] if id(p) not in inside]
        groups = [group for group in groups if group["params"]]
        return [*groups, {"params": graph, "lr": self.config.graph_lr}]

    def begin_task(self, task: Task) -> None:
        self.acm.grow(task.stop - task.start)
        super().begin_task(task)
        self._weigh()
        if self.embeddings is not None:
            with torch.no_grad():
                self.net.nodes[task.new] = self.embeddings(task.names).to(self.device)

    def losses(self, batch: Batch) -> Terms:
        c, old = self.config, self.old
        if self.expert is None:
            self._count(batch, None)
            out = self.forward(batch.x, None)
            return {"cls": self.classification(out.logits, batch.y, batch.known, c.reduction)}
        with torch.no_grad():
            before: Output = self.expert(batch.x)  # its nodes come from its own CNN (D2, depth 1)
        self._count(batch, before.logits)
        out = self.forward(batch.x, before.feature)
        soft = before.logits.float().sigmoid()
        terms = {
            "cls": c.lambda1 * self.classification(out.logits, batch.y, batch.known, c.reduction),
            "dst": c.lambda2 * losses.distillation(out.logits[:, :old], soft, c.reduction),
        }
        if c.lambda3:
            moved = self._relation(self.net, out) - self._relation(self.expert, before)
            terms["gph"] = c.lambda3 * (moved * moved).mean(dtype=torch.float32)
        return terms

    def logits(self, x: Tensor) -> Tensor:
        return self.forward(x, None if self.expert is None else self.expert.backbone(x)).logits

    def state(self) -> State:
        return super().state() | {"acm": self.acm.state()}

    def load(self, state: State) -> None:
        super().load(state)
        self.acm.load(state["acm"])

    def findings(self) -> Mapping[str, Any]:
        return {"acm": self.acm.matrix().tolist()}

    def _relation(self, net: Any, out: Output) -> Tensor:
        """What lambda3 keeps of the old classes, (B or 1, old, ...) (D4)."""
        if self.config.relation == "logits":
            return out.graph_logits[:, : self.old]
        kept: Tensor = net.gcn.output(out.hidden[:, : self.old])
        return kept

    @torch.no_grad()
    def _count(self, batch: Batch, expert_logits: Tensor | None) -> None:
        """One step of the ACM: hard labels where they are known, the expert's elsewhere."""
        y, valid = batch.y, batch.known
        if expert_logits is not None:
            z = expert_logits.float()
            soft = z.softmax(dim=1) if self.config.soft_labels == "softmax" else z.sigmoid()
            old = soft.shape[1]
            y = torch.cat([torch.where(valid[:, :old], y[:, :old], soft), y[:, old:]], dim=1)
            valid = torch.cat([torch.ones_like(valid[:, :old]), valid[:, old:]], dim=1)
        self.acm.update(*ranks.gathered(batch.of, y, valid))
        self._weigh()

    @torch.no_grad()
    def _weigh(self) -> None:
        a = self.acm.matrix().to(self.net.weights)
        if self.config.transpose:
            a = a.T
        self.net.weights.copy_(propagation(a, self.config.propagation, self.acm.widths))


class LabelGraphNet(nn.Module):
    """y = G . CNN(x), with G = GCN(A, embeddings): the graph writes the classifiers."""

    weights: Tensor  # (S, S) propagation matrix
    nodes: Tensor  # (S, E) label embeddings

    def __init__(self, config: AGCN.Config, width: int, generator: torch.Generator):
        super().__init__()
        self.backbone = Backbone(config.backbone, generator)
        self.gcn = GCN(width, config.hidden, self.backbone.width, generator)
        self.readout = GraphReadout("dot", self.backbone.width)
        self.register_buffer("nodes", torch.zeros(0, width))
        self.register_buffer("weights", torch.zeros(0, 0))

    def grow(self, width: int, generator: torch.Generator) -> None:
        self.nodes = torch.cat([self.nodes, self.nodes.new_zeros(width, self.nodes.shape[1])])
        self.weights = torch.eye(len(self.nodes), device=self.nodes.device)

    def forward(self, x: Tensor) -> Output:
        feature = self.backbone(x)
        hidden = self.gcn((self.weights @ self.nodes)[None], self.weights)
        logits = self.readout(hidden, self.gcn.second, feature)
        return Output(logits, feature, hidden, logits)


class AGCN(GraphLearner, name="agcn"):
    """The predecessor of AGCN++: a graph over fixed label embeddings."""

    net: LabelGraphNet

    def build(self) -> LabelGraphNet:
        self.embeddings = Embeddings(self.config.embeddings)
        return LabelGraphNet(self.config, self.embeddings.width, self.generator)

    def logits(self, x: Tensor) -> Tensor:
        out: Output = self.net(x)
        return out.logits
