"""OCDM: the drop is the one that the divergence asks for, and rare classes survive a long tail."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from mlcl.memory import Reservoir
from mlcl.methods.ocdm import BalancedReservoir, without_each
from mlcl.types import Batch


def batch(*labels: tuple[int, ...], classes: int) -> Batch:
    y = torch.zeros(len(labels), classes)
    for row, shown in enumerate(labels):
        y[row, list(shown)] = 1
    x = torch.zeros(len(labels), 3, 2, 2, dtype=torch.uint8)
    return Batch(x, y, torch.ones_like(y, dtype=torch.bool))


def divergence(target: np.ndarray, held: np.ndarray) -> float:
    """KL(target || shares), as it is written."""
    kept = np.maximum(held.sum(axis=0).astype(float), 1e-9)
    shares = kept / held.sum()
    return float(sum(p * np.log(p / q) for p, q in zip(target, shares, strict=True) if p > 0))


def test_each_drop_against_the_formula() -> None:
    chance = np.random.default_rng(0)
    for _ in range(20):
        held = chance.random((12, 5)) < 0.4
        held[0] = True  # no class is empty
        held[1:3] = [[True] * 5, [False] * 5]
        target = chance.dirichlet(np.ones(5))
        mine = without_each(held, target)
        for i in range(len(held)):
            assert mine[i] == pytest.approx(
                divergence(target, np.delete(held, i, axis=0)), rel=1e-9, abs=1e-12
            )


def test_by_hand() -> None:
    """Memory of three: a, a, b full; then b comes, and an a must go, since a, b, b is no better than a, b."""
    memory, chance = BalancedReservoir(3, 0.0), torch.Generator().manual_seed(0)
    memory.add(batch((0,), (0,), (1,), classes=2), chance)
    assert memory.add(batch((0,), classes=2), chance)[0] != 2  # the only b stays, whichever a goes
    assert memory.y.sum(dim=0).tolist() == [2, 1]
    memory.add(batch((0, 1), classes=2), chance)
    # without an a: a, b, ab = (2, 2), which is the wish; every other drop leaves it worse
    assert memory.y.sum(dim=0).tolist() == [2, 2]


def test_a_new_class_enters_at_once() -> None:
    memory, chance = BalancedReservoir(2, 0.0), torch.Generator().manual_seed(0)
    memory.add(batch(*[(0,)] * 10, classes=1), chance)
    (place,) = memory.add(batch((1,), classes=2), chance)
    assert place is not None
    assert memory.y.sum(dim=0).tolist() == [1, 1]


def test_a_plain_reservoir_drowns_what_this_one_keeps() -> None:
    """One image in fifty shows the rare class: here it ends with a third of the memory."""
    draw = np.random.default_rng(1)
    shown = [(0,) if r < 0.7 else (1,) if r < 0.98 else (2,) for r in draw.random(1500)]
    shares = []
    for memory in (BalancedReservoir(30, 0.0), Reservoir(30)):
        chance = torch.Generator().manual_seed(0)
        for first in range(0, len(shown), 50):
            memory.add(batch(*shown[first : first + 50], classes=3), chance)
        shares.append(memory.y.float().mean(dim=0))
    assert torch.allclose(shares[0], torch.full((3,), 1 / 3), atol=0.04)
    assert shares[1][2] < 0.15


@pytest.mark.parametrize("rho", [0.5, 1.0])
def test_rho_asks_for_the_streams_own_shares(rho: float) -> None:
    memory, chance = BalancedReservoir(40, rho), torch.Generator().manual_seed(0)
    draw = np.random.default_rng(2)
    for _ in range(20):
        memory.add(batch(*[(0,) if r < 0.9 else (1,) for r in draw.random(40)], classes=2), chance)
    wished = memory.counts**rho / (memory.counts**rho).sum()
    assert memory.y.float().mean(dim=0).numpy() == pytest.approx(wished, abs=0.03)


def test_the_batch_size_changes_nothing() -> None:
    draw = np.random.default_rng(3)
    shown = [tuple(np.flatnonzero(row)) for row in draw.random((60, 4)) < 0.3]
    memories = []
    for size in (1, 60):
        memory, chance = BalancedReservoir(10, 0.0), torch.Generator().manual_seed(0)
        for first in range(0, 60, size):
            memory.add(batch(*shown[first : first + size], classes=4), chance)
        memories.append(memory)
    assert torch.equal(memories[0].y, memories[1].y)


def test_unknown_labels_count_for_nothing() -> None:
    memory, chance = BalancedReservoir(4, 0.0), torch.Generator().manual_seed(0)
    shown = batch((0, 1), classes=2)
    memory.add(Batch(shown.x, shown.y, torch.tensor([[True, False]])), chance)
    assert memory.counts.tolist() == [1, 0]
    assert memory.quotas().tolist() == [1, 0]


def test_nothing_known_at_all() -> None:
    """Images without a known positive fill the memory, and are the first to make room."""
    memory, chance = BalancedReservoir(3, 0.0), torch.Generator().manual_seed(0)
    memory.add(batch(*[()] * 8, classes=2), chance)
    assert len(memory) == 3
    memory.add(batch((1,), (0,), classes=2), chance)
    assert memory.y.sum(dim=0).tolist() == [1, 1]
    assert memory.add(batch((), (0, 1), (), classes=2), chance)[2] is None
    assert memory.y.sum(dim=0).tolist() == [2, 2]
