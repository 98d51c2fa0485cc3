"""Elastic weight consolidation, the online kind: weights that mattered are held by springs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from mlcl import losses
from mlcl.errors import ConfigError
from mlcl.learner import GradientLearner, State, Terms
from mlcl.types import Batch, Task


class EWC(GradientLearner, name="ewc"):
    """Penalises moving a weight by its Fisher information, estimated from single images' gradients."""

    recordable = True

    @dataclass(frozen=True, kw_only=True)
    class Config(GradientLearner.Config):
        strength: float = 1e4  # lambda; its best value varies by orders of magnitude between data sets
        gamma: float = 0.9  # how much of the earlier tasks' information is kept
        fisher_images: int = 256  # of each task

        def __post_init__(self) -> None:
            if self.strength < 0:
                raise ConfigError(f"strength: {self.strength} is negative")
            if not 0 <= self.gamma <= 1:
                raise ConfigError(f"gamma: {self.gamma} is not within 0 and 1")
            if self.fisher_images < 1:
                raise ConfigError(f"fisher_images: at least one, got {self.fisher_images}")

    def __init__(self, config: Config | None = None, *, seed: int = 0, device: str = "cpu"):
        super().__init__(config, seed=seed, device=device)
        self.fisher: dict[str, Tensor] = {}
        self.anchor: dict[str, Tensor] = {}

    def losses(self, batch: Batch) -> Terms:
        terms = {"cls": self.classification(self.net(batch.x), batch.y, batch.known)}
        if self.fisher:
            terms["ewc"] = self.config.strength / 2 * self.penalty()
        return terms

    def penalty(self) -> Tensor:
        """sum F (theta - theta*)^2 over what existed; new rows of the head have no anchor."""
        parts = []
        for name, p in self.net.named_parameters():
            if name in self.fisher:
                known = self.anchor[name]
                moved = p[: len(known)] - known
                parts.append((self.fisher[name] * moved.square()).sum())
        return torch.stack(parts).sum()

    def end_task(self, task: Task, batches: Iterable[Batch]) -> None:
        # drawn from all of the task: a table's first images may be all of one kind
        places = torch.randperm(len(task.train), generator=self.generator)[: self.config.fisher_images]
        fresh = fisher(
            self, (task.train.batch(part.numpy()) for part in torch.split(places, 32) if len(part))
        )
        for name, value in fresh.items():
            if name in self.fisher:
                value[: len(self.fisher[name])] += self.config.gamma * self.fisher[name]
        self.fisher = fresh
        self.anchor = {n: p.detach().clone() for n, p in self.net.named_parameters() if n in fresh}

    def state(self) -> State:
        return super().state() | {"fisher": self.fisher, "anchor": self.anchor}

    def load(self, state: State) -> None:
        super().load(state)
        self.fisher, self.anchor = (
            {name: value.to(self.device, copy=True) for name, value in state[key].items()}
            for key in ("fisher", "anchor")
        )


def fisher(learner: GradientLearner, batches: Iterable[Batch]) -> dict[str, Tensor]:
    """The mean of single images' squared gradients: that of a batch's mean gradient would be far smaller."""
    net = learner.net
    net.eval()  # statistics of a single image mean nothing
    named = {name: p for name, p in net.named_parameters() if p.requires_grad}
    total = {name: torch.zeros_like(p) for name, p in named.items()}
    count = 0
    for batch in batches:
        batch = batch.to(learner.device)
        for x, y, known in zip(*(torch.split(t, 1) for t in (batch.x, batch.y, batch.known)), strict=True):
            gradients = torch.autograd.grad(
                losses.bce(net(x), y, known), list(named.values()), allow_unused=True
            )
            for name, gradient in zip(named, gradients, strict=True):
                if gradient is not None:
                    total[name] += gradient.square()
        count += len(batch)
    return {name: value / max(count, 1) for name, value in total.items()}
