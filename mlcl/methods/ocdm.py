"""OCDM: replay from a memory whose classes are kept as close to a wished distribution as one drop allows.

Adapted: an image counts for its known positives only, one without any goes first, and images are decided on
one by one, so that the batch size changes nothing (the paper adds a whole batch, then drops as many).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from mlcl.memory import PartitioningReservoir
from mlcl.methods.replay import ER


class BalancedReservoir(PartitioningReservoir):
    """When full it drops, of all it holds and the new image, the one that leaves KL(target || held) least."""

    def place(self, labels: Tensor, generator: torch.Generator) -> int | None:
        y = labels.numpy()
        self.counts = self.counts + y  # before the decision: a class's first image makes it wished for
        if len(self) < self.capacity:
            return len(self)
        held = np.concatenate([self.y.numpy(), y[None]])
        best = np.flatnonzero(~held.any(axis=1))  # what shows nothing is no part of any distribution
        if not len(best):
            divergence = without_each(held, self.quotas())
            best = np.flatnonzero(divergence <= divergence.min() + 1e-9)
        dropped = int(best[int(torch.randint(len(best), (), generator=generator))])
        return None if dropped == len(self) else dropped


def without_each(held: np.ndarray, target: np.ndarray) -> np.ndarray:
    """held (N, S) bool, target (S,) -> (N,): KL(target || class shares of the others), without each image.

    It is sum_i p_i log p_i - sum_i p_i log l_i + log sum_i l_i, with l_i images of class i: dropping an image
    changes the second sum by the classes that it shows, so one product serves all images.

    >>> held = np.array([[1, 0], [1, 0], [0, 1]], bool)  # without the first: one image of each class
    >>> without_each(held, np.array([0.5, 0.5])).round(3) + 0.0
    array([ 0.   ,  0.   , 10.015])
    """
    shown = held.astype(float)  # once: products of booleans are slow
    kept = np.ones(len(shown)) @ shown

    def log(counts: np.ndarray) -> np.ndarray:
        # floored: the last image of a class is dear, not infinitely so
        logs: np.ndarray = np.log(np.maximum(counts, 1e-9))
        return logs

    wished = target > 0
    entropy = (target[wished] * np.log(target[wished])).sum()
    dearer = target * (log(kept) - log(kept - 1))
    total = np.log(np.maximum(kept.sum() - shown @ np.ones(len(kept)), 1))
    result: np.ndarray = entropy - target @ log(kept) + shown @ dearer + total
    return result


class OCDM(ER, name="ocdm"):
    """Replays from a memory that is kept near a wished distribution of classes."""

    @dataclass(frozen=True, kw_only=True)
    class Config(ER.Config):
        rho: float = 0.0  # the wish goes with n^rho: 0 = all classes alike, 1 = as streamed

    def build_memory(self) -> BalancedReservoir:
        return BalancedReservoir(self.config.capacity, self.config.rho)
