"""Ridge with the paper's graph over its scores: each class hears the classes that it is seen with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mlcl.acm import ACM, Propagation, propagation
from mlcl.errors import ConfigError
from mlcl.learner import State
from mlcl.methods.ridge import Ridge
from mlcl.types import Task


class RidgeACM(Ridge, name="ridge+acm"):
    """Ridge whose probabilities go once over the augmented correlation matrix."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Ridge.Config):
        propagation: Propagation = "soft"
        neighbours: float = 0.05  # weight of the other classes against a class's own score

        def __post_init__(self) -> None:
            super().__post_init__()
            if not 0 <= self.neighbours <= 1:
                raise ConfigError(f"neighbours: {self.neighbours} is not within 0 and 1")

    def __init__(self, config: Any = None, *, seed: int = 0, device: str = "cpu"):
        super().__init__(config, seed=seed, device=device)
        self.acm = ACM(device=self.device)

    def begin_task(self, task: Task) -> None:
        super().begin_task(task)
        self.acm.grow(self.widths[-1])

    def learnt(self, targets: Tensor) -> None:
        """Old labels are what the model said, as everywhere in the sums: the paper's soft labels."""
        self.acm.update(targets.clamp_min(0), torch.ones_like(targets, dtype=torch.bool))

    def probabilities(self, f: Tensor) -> Tensor:
        p = super().probabilities(f)
        weights = propagation(self.acm.matrix(), self.config.propagation, self.widths, self.config.neighbours)
        return (p @ weights.to(p).T).clamp(0, 1)

    def findings(self) -> Mapping[str, Any]:
        return {"acm": self.acm.matrix().tolist()}

    def state(self) -> State:
        return super().state() | {"acm": self.acm.state()}

    def load(self, state: State) -> None:
        super().load(state)
        self.acm.load(state["acm"])
