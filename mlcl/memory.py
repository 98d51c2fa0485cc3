"""Replay memories: images as uint8 on the CPU, with their labels and what was known when they were stored."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from mlcl.types import Batch


class Reservoir:
    """Every image of the stream is equally likely to be in it (Vitter's algorithm R)."""

    def __init__(self, capacity: int):
        self.capacity = capacity
        self.streamed = 0  # images offered so far
        self.x: Tensor | None = None  # (capacity, 3, H, W) uint8, allocated once; the first len(self) count
        self.y = torch.zeros(0, 0, dtype=torch.bool)  # (len, S) known positives
        self.known = torch.zeros(0, 0, dtype=torch.bool)

    def __len__(self) -> int:
        return len(self.y)

    def add(self, batch: Batch, generator: torch.Generator) -> list[int | None]:
        """Offers each image in turn; returns where each went, if anywhere (a later one may replace it)."""
        known = batch.known.cpu()
        y = (batch.y.cpu() > 0.5) & known
        self._widen(known.shape[1])
        places = []
        for labels, mask in zip(y, known, strict=True):
            place = self.place(labels, generator)
            self.streamed += 1
            if place is not None:
                self._label(place, labels, mask)
            places.append(place)
        kept = {place: image for image, place in enumerate(places) if place is not None}  # the last one stays
        if kept:  # only these are fetched, if images are on a GPU
            if self.x is None:
                self._allocate(batch.x[0])
            assert self.x is not None
            chosen = torch.tensor(list(kept.values()), device=batch.x.device)
            for place, image in zip(kept, batch.x.index_select(0, chosen).cpu(), strict=True):
                self.x[place] = image
        return places

    def place(self, labels: Tensor, generator: torch.Generator) -> int | None:
        """Where the next image goes, or None to let it pass; `labels` (S,) are its known positives."""
        if len(self) < self.capacity:
            return len(self)
        slot = int(torch.randint(self.streamed + 1, (), generator=generator))
        return slot if slot < self.capacity else None

    def sample(self, count: int, seen: int, generator: torch.Generator) -> Batch:
        """At most `count` different images, over `seen` columns."""
        chosen = torch.randperm(len(self), generator=generator)[:count]
        return self.batch(chosen, seen)

    def batch(self, places: Tensor, seen: int) -> Batch:
        assert self.x is not None, "nothing was stored yet"
        self._widen(seen)
        return Batch(self.x[places], self.y[places].float(), self.known[places])

    def state(self) -> dict[str, Any]:
        x = torch.zeros(0, dtype=torch.uint8) if self.x is None else self.x[: len(self)].clone()
        return {"x": x, "y": self.y, "known": self.known, "streamed": self.streamed}

    def load(self, state: dict[str, Any]) -> None:
        self.streamed, self.y, self.known = state["streamed"], state["y"].clone(), state["known"].clone()
        if len(self):
            self._allocate(state["x"][0])
            assert self.x is not None
            self.x[: len(self)] = state["x"]

    def _label(self, place: int, labels: Tensor, mask: Tensor) -> None:
        if place == len(self):
            self.y, self.known = torch.cat([self.y, labels[None]]), torch.cat([self.known, mask[None]])
        else:
            self.y[place], self.known[place] = labels, mask

    def _allocate(self, image: Tensor) -> None:
        self.x = torch.zeros(self.capacity, *image.shape, dtype=image.dtype)

    def _widen(self, seen: int) -> None:
        more = seen - self.y.shape[1]
        if more > 0:  # what came later was not known when the image was stored (D19)
            self.y, self.known = (torch.nn.functional.pad(t, (0, more)) for t in (self.y, self.known))


class PartitioningReservoir(Reservoir):
    """PRS: keeps the memory's share of class i near n_i^rho / sum_j n_j^rho, whatever the stream's tail."""

    def __init__(self, capacity: int, rho: float):
        super().__init__(capacity)
        self.rho = rho
        self.counts = np.zeros(0)  # (S,) streamed images that show each class

    def place(self, labels: Tensor, generator: torch.Generator) -> int | None:
        y = labels.numpy()
        place = len(self) if len(self) < self.capacity else self._replaced(y, generator)
        self.counts = self.counts + y  # after the decision, for every streamed image
        return place

    def quotas(self) -> np.ndarray:
        """(S,) p: the share of the memory that each class should have; 0 for a class not streamed yet."""
        streamed = self.counts > 0
        weight = np.where(streamed, np.where(streamed, self.counts, 1) ** self.rho, 0)
        total: np.ndarray = weight / max(weight.sum(), 1e-12)
        return total

    def state(self) -> dict[str, Any]:
        return super().state() | {"counts": torch.from_numpy(self.counts)}

    def load(self, state: dict[str, Any]) -> None:
        super().load(state)
        self.counts = state["counts"].numpy().copy()

    def _replaced(self, y: np.ndarray, generator: torch.Generator) -> int | None:
        """Sample-in: accepted with probability s. Sample-out: the place to overwrite."""
        classes = np.flatnonzero(y)
        if not len(classes):
            return None
        quota = self.capacity * self.quotas()[classes]
        n = self.counts[classes]
        weight = np.exp(n.min() - n)  # softmax(-n), with the minimum taken off so that nothing vanishes
        fits = np.minimum(1.0, quota / np.maximum(n, 1))
        fits[n == 0] = 1.0  # the first of its class
        if float(torch.rand((), generator=generator)) >= float((weight / weight.sum()) @ fits):
            return None
        return self._out(generator)

    def _out(self, generator: torch.Generator) -> int:
        held = self.y.numpy()
        kept = held.sum(axis=0).astype(float)  # l
        p = self.quotas()
        delta = kept - p * kept.sum()
        present = np.flatnonzero(kept)
        if not len(present):  # nothing but images without a positive
            return int(torch.randint(len(held), (), generator=generator))
        chance = torch.from_numpy(np.exp(delta[present] - delta[present].max()))
        k = present[int(torch.multinomial(chance, 1, generator=generator))]
        candidates = np.flatnonzero(held[:, k])
        short = delta <= 0  # q: classes that must not lose an image
        spared = (~held[candidates] & short).sum(axis=1)
        candidates = candidates[spared == spared.max()]
        without = kept - held[candidates]  # (candidates, S)
        gap = np.abs(without - p * without.sum(axis=1, keepdims=True)).sum(axis=1)
        best = candidates[gap <= gap.min() + 1e-9]
        return int(best[int(torch.randint(len(best), (), generator=generator))])

    def _widen(self, seen: int) -> None:
        super()._widen(seen)
        self.counts = np.pad(self.counts, (0, seen - len(self.counts)))
