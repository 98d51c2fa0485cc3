"""DER++: a remembered image comes back with its labels and with what the network once said of it.

Adapted: what was said is kept over the columns that existed at the time, known or not, and compared there
alone; labels count where they were known at the time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from mlcl.errors import ConfigError
from mlcl.learner import Terms
from mlcl.losses import masked_mean
from mlcl.memory import Reservoir
from mlcl.methods.replay import Replay
from mlcl.types import Batch


class DarkReservoir(Reservoir):
    """A reservoir that keeps logits beside the labels: images on the CPU, logits where they are made."""

    def __init__(self, capacity: int, device: torch.device):
        super().__init__(capacity)
        self.logits = torch.zeros(capacity, 0, device=device)  # (capacity, S); the first len(self) count
        self.columns = torch.zeros(capacity, dtype=torch.int64, device=device)  # how many existed at capture

    def add_with(self, batch: Batch, logits: Tensor, generator: torch.Generator) -> None:
        """`logits` (B, S) are what the network said of the batch."""
        # by place: of two images that went to one, the later is there now
        image = {place: i for i, place in enumerate(self.add(batch, generator)) if place is not None}
        if not image:
            return
        device, columns = self.logits.device, logits.shape[1]
        places, rows = (
            torch.tensor(list(t)).to(device, non_blocking=True) for t in (image.keys(), image.values())
        )
        self.logits[places, :columns] = logits.detach().to(self.logits)[rows]
        self.columns[places] = columns

    def spoken(self, places: Tensor) -> tuple[Tensor, Tensor]:
        """The logits at these places, (n, S), and which of them were spoken, (n, S) bool."""
        places = places.to(self.logits.device, non_blocking=True)
        order = torch.arange(self.logits.shape[1], device=self.logits.device)
        return self.logits[places], order < self.columns[places, None]

    def state(self) -> dict[str, Any]:
        held = len(self)
        return super().state() | {
            "logits": self.logits[:held].clone(),
            "columns": self.columns[:held].clone(),
        }

    def load(self, state: dict[str, Any]) -> None:
        super().load(state)
        held, seen = state["logits"].shape
        self.logits = self.logits.new_zeros(self.capacity, seen)
        self.logits[:held], self.columns[:held] = state["logits"], state["columns"]

    def _widen(self, seen: int) -> None:
        super()._widen(seen)
        self.logits = F.pad(self.logits, (0, max(0, seen - self.logits.shape[1])))


class DERpp(Replay, name="der++"):
    """Replays images with their labels, and with what was once said of them."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Replay.Config):
        alpha: float = 0.5  # weight of (logits - what was said)^2
        beta: float = 1.0  # weight of the replayed labels

        def __post_init__(self) -> None:
            super().__post_init__()
            if self.alpha < 0 or self.beta < 0:
                raise ConfigError("alpha and beta: cannot be negative")

    memory: DarkReservoir
    spoken: Tensor  # (B, S) of the batch in hand

    def build_memory(self) -> DarkReservoir:
        return DarkReservoir(self.config.capacity, self.device)

    def losses(self, batch: Batch) -> Terms:
        c, size = self.config, len(batch)
        if not len(self.memory):
            self.spoken = self.net(batch.x)
            return {"cls": self.classification(self.spoken, batch.y, batch.known)}
        # two draws, as in the paper: one to be said again, one to be labelled again
        places = torch.randperm(len(self.memory), generator=self.generator)[: c.replay]
        dark = self.augment(self.fetched(self.memory.batch(places, self.seen)), self.generator)
        target, existed = self.memory.spoken(places)
        old = self.replayed()
        now: Tensor = self.net(torch.cat([batch.x, dark.x, old.x]))
        self.spoken, again, labelled = torch.split(now, [size, len(dark), len(old)])
        return {
            "cls": self.classification(self.spoken, batch.y, batch.known),
            "dark": c.alpha * masked_mean((again.float() - target).square(), existed),
            "replay": c.beta * self.classification(labelled, old.y, old.known),
        }

    def remember(self, batch: Batch) -> None:
        self.memory.add_with(batch, self.spoken, self.generator)
