"""Experience replay: a few old images beside every batch, each with what was known of it (ER, PRS)."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from mlcl.errors import ConfigError
from mlcl.learner import GradientLearner, State, Terms
from mlcl.memory import PartitioningReservoir, Reservoir
from mlcl.types import Batch


class Replay(GradientLearner):
    """What every method with a memory shares."""

    shareable = False  # each process would remember other images

    @dataclass(frozen=True, kw_only=True)
    class Config(GradientLearner.Config):
        capacity: int = 2000  # images
        replay: int = 32  # of them beside each batch

        def __post_init__(self) -> None:
            if self.capacity < 1 or self.replay < 1:
                raise ConfigError("capacity and replay: at least one image each")

    def __init__(self, config: Config | None = None, *, seed: int = 0, device: str = "cpu"):
        super().__init__(config, seed=seed, device=device)
        self.memory = self.build_memory()

    def build_memory(self) -> Reservoir:
        return Reservoir(self.config.capacity)

    def replayed(self) -> Batch:
        """Old images, augmented anew."""
        old = self.memory.sample(self.config.replay, self.seen, self.generator)
        return self.augment(self.fetched(old), self.generator)

    def fetched(self, old: Batch) -> Batch:
        """On the device; a GPU reads pinned memory by itself, and the host goes on."""
        return (old.pinned() if self.device.type == "cuda" else old).to(self.device)

    def observe(self, batch: Batch) -> Terms:
        terms = super().observe(batch)
        self.remember(batch)
        return terms

    def remember(self, batch: Batch) -> None:
        """Offers the memory the batch just learnt, as it came, not augmented."""
        self.memory.add(batch, self.generator)

    def state(self) -> State:
        return super().state() | {"memory": self.memory.state()}

    def load(self, state: State) -> None:
        super().load(state)
        self.memory.load(state["memory"])


class ER(Replay, name="er"):
    """Replays images of the past, each as likely to be remembered as any other."""

    def losses(self, batch: Batch) -> Terms:
        if not len(self.memory):
            return {"cls": self.classification(self.net(batch.x), batch.y, batch.known)}
        old = self.replayed()
        logits = self.net(torch.cat([batch.x, old.x]))
        new = len(batch)
        return {
            "cls": self.classification(logits[:new], batch.y, batch.known),
            "replay": self.classification(logits[new:], old.y, old.known),
        }


class PRS(ER, name="prs"):
    """Replays from a memory in which rare classes do not drown in frequent ones."""

    @dataclass(frozen=True, kw_only=True)
    class Config(ER.Config):
        rho: float = -0.03  # quotas go with n^rho: 0 = all classes alike, 1 = as streamed

    def build_memory(self) -> PartitioningReservoir:
        return PartitioningReservoir(self.config.capacity, self.config.rho)
