"""ER with relabelling: what was not known of a remembered image is filled by the model as it is today.

The answers come from the stored image itself, the loss from an augmented view of it: a soft answer on the
same view has no gradient at all. Filled entries are a term of their own: in one mean with the known ones,
which are far fewer, they would drown them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from mlcl.errors import ConfigError
from mlcl.learner import Terms
from mlcl.methods.replay import Replay
from mlcl.types import Batch


class Relabelled(Replay, name="er-relabel"):
    """Replays images whose unknown labels the model of today fills."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Replay.Config):
        answers: Literal["soft", "hard"] = "soft"  # probabilities, or yes and no
        relabel: float = 1.0  # weight of the filled labels; 0 = experience replay

        def __post_init__(self) -> None:
            super().__post_init__()
            if self.relabel < 0:
                raise ConfigError(f"relabel: {self.relabel} is negative")

    def losses(self, batch: Batch) -> Terms:
        if not len(self.memory):
            return {"cls": self.classification(self.net(batch.x), batch.y, batch.known)}
        stored = self.fetched(self.memory.sample(self.config.replay, self.seen, self.generator))
        filled = fill(stored, self.answers(stored.x), self.config.answers == "hard")
        old = self.augment(stored, self.generator)
        logits = torch.split(self.net(torch.cat([batch.x, old.x])), [len(batch), len(old)])
        return {
            "cls": self.classification(logits[0], batch.y, batch.known),
            "replay": self.classification(logits[1], filled, old.known),
            "relabel": self.config.relabel * self.classification(logits[1], filled, ~old.known),
        }

    @torch.no_grad()
    def answers(self, x: Tensor) -> Tensor:
        """(B, S) probabilities, statistics at rest."""
        self.net.eval()
        p: Tensor = self.net(x).float().sigmoid()
        self.net.train()
        return p


def fill(batch: Batch, p: Tensor, hard: bool) -> Tensor:
    """(B, S) labels: what is known, and elsewhere the answers p, as they are or as yes and no.

    >>> batch = Batch(torch.zeros(1), torch.tensor([[0.0, 0.0]]), torch.tensor([[True, False]]))
    >>> p = torch.tensor([[0.9, 0.75]])
    >>> fill(batch, p, hard=False), fill(batch, p, hard=True)
    (tensor([[0.0000, 0.7500]]), tensor([[0., 1.]]))
    """
    return batch.y.where(batch.known, (p > 0.5).to(p) if hard else p)
