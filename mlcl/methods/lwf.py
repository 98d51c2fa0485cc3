"""Learning without Forgetting, with the weights of AGCN++, so that it is AGCN++ without its graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mlcl import losses
from mlcl.errors import ConfigError
from mlcl.learner import GradientLearner, Terms
from mlcl.types import Batch


class LwF(GradientLearner, name="lwf"):
    """Distils what the network said of the old classes before the task began."""

    keep_expert = True
    recordable = True

    @dataclass(frozen=True, kw_only=True)
    class Config(GradientLearner.Config):
        lambda1: float = 0.15  # classification
        lambda2: float = 0.85  # distillation

        def __post_init__(self) -> None:
            if self.lambda1 < 0 or self.lambda2 < 0:
                raise ConfigError("lambda1 and lambda2: cannot be negative")

    config: Any

    def losses(self, batch: Batch) -> Terms:
        return self.distilled(self.net(batch.x), batch)

    def distilled(self, logits: Tensor, batch: Batch) -> Terms:
        """Classification, and from the second task on distillation of the old classes; logits (B, S)."""
        cls = self.classification(logits, batch.y, batch.known)
        if self.expert is None:
            return {"cls": cls}
        with torch.no_grad():
            soft = self.expert(batch.x).float().sigmoid()
        return {
            "cls": self.config.lambda1 * cls,
            "dst": self.config.lambda2 * losses.distillation(logits[:, : self.old], soft),
        }
