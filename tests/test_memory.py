"""Replay memories against the formulas, decision by decision."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch

from mlcl.memory import PartitioningReservoir, Reservoir
from mlcl.types import Batch


def chance(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def stream(labels: Any, known: Any = None, first: int = 0, side: int = 1) -> Batch:
    """Image n is all n (its red and green say which one), so that it is found again in a memory."""
    y = torch.as_tensor(np.asarray(labels), dtype=torch.float32)
    number = torch.arange(first, first + len(y))
    x = torch.stack([number // 256, number % 256, torch.zeros_like(number)], 1).to(torch.uint8)
    x = x[:, :, None, None].expand(-1, -1, side, side)
    everything = torch.ones(y.shape, dtype=torch.bool)
    return Batch(x, y, everything if known is None else torch.as_tensor(known, dtype=torch.bool))


def numbers(memory: Reservoir) -> list[int]:
    """Which images it holds."""
    if memory.x is None:
        return []
    x = memory.x[: len(memory), :, 0, 0].long()
    return (x[:, 0] * 256 + x[:, 1]).tolist()


def fed(memory: Reservoir, labels: Any, generator: torch.Generator, size: int = 32) -> Reservoir:
    for start in range(0, len(labels), size):
        memory.add(stream(labels[start : start + size], first=start), generator)
    return memory


MEMORIES = [lambda capacity: Reservoir(capacity), lambda capacity: PartitioningReservoir(capacity, 0.5)]


@pytest.mark.parametrize("make", MEMORIES)
def test_never_more_than_its_capacity(make: Any) -> None:
    memory, generator = make(7), chance()
    labels = (torch.rand(60, 3, generator=generator) < 0.5).float()
    for start in range(0, 60, 4):
        memory.add(stream(labels[start : start + 4], first=start), generator)
        assert len(memory) == min(7, start + 4)
        assert len(memory.y) == len(memory.known) == len(memory)
        assert memory.x.shape[0] == 7
        assert memory.x.dtype == torch.uint8
        assert memory.x.device.type == "cpu"
    assert len(set(numbers(memory))) == 7


@pytest.mark.parametrize("capacity", [1, 9])
@pytest.mark.parametrize("make", MEMORIES)
def test_an_image_keeps_its_labels(make: Any, capacity: int) -> None:
    """Labels of image n are n in binary; whatever is replaced, twice in a batch too, they stay with it."""
    memory = fed(make(capacity), np.arange(64)[:, None] >> np.arange(6) & 1, chance(), size=20)
    for number, y in zip(numbers(memory), memory.y, strict=True):
        assert [number >> bit & 1 for bit in range(6)] == y.int().tolist()


def test_every_streamed_image_is_equally_likely_to_be_kept() -> None:
    """Chi-square over 40 images and 2,000 streams, each of which keeps 8."""
    kept, generator, streams = np.zeros(40), chance(1), 2000
    labels = np.zeros((40, 1))
    for _ in range(streams):
        memory = Reservoir(8)
        memory.add(stream(labels), generator)
        kept[numbers(memory)] += 1
    expected = streams * 8 / 40
    # draws without replacement vary less than independent ones, by 1 - 8/40
    chi2 = ((kept - expected) ** 2 / expected / (1 - 8 / 40)).sum() * 39 / 40
    assert 16 < chi2 < 73  # of 39 degrees of freedom, .1 % on either side


def test_the_same_whatever_the_batch_size() -> None:
    labels = (torch.rand(50, 3, generator=chance(3)) < 0.5).float()
    a, b = (fed(Reservoir(8), labels, chance(4), size) for size in (1, 25))
    assert numbers(a) == numbers(b)


def test_a_sample_has_no_image_twice() -> None:
    memory = fed(Reservoir(20), np.ones((20, 2)), chance())
    batch = memory.sample(15, 2, chance(1))
    which = batch.x[:, 1, 0, 0].tolist()
    assert len(set(which)) == 15
    assert len(memory.sample(99, 2, chance(1))) == 20


def test_what_was_unknown_stays_unknown() -> None:
    """D19: the mask at the time of storing; columns that came later were not known then."""
    memory = Reservoir(4)
    memory.add(stream([[1, 1]], [[True, False]]), chance())
    memory.add(stream([[1, 0, 1]], [[False, False, True]], first=1), chance())
    batch = memory.batch(torch.tensor([0, 1]), 4)
    assert batch.known.tolist() == [[True, False, False, False], [False, False, True, False]]
    assert batch.y.tolist() == [[1, 0, 0, 0], [0, 0, 1, 0]]  # and no label that was not known


def test_a_memory_of_two_thousand_images() -> None:
    """128 px, 80 classes: under 120 MB."""
    memory = Reservoir(2000)
    memory.add(stream(np.zeros((1, 80)), side=128), chance())
    assert memory.x is not None
    labels = 2000 * (memory.y.nbytes + memory.known.nbytes)
    assert memory.x.nbytes + labels < 120e6
    assert memory.x.nbytes == 2000 * 3 * 128 * 128


@pytest.mark.parametrize("make", MEMORIES)
def test_goes_on_from_its_state(make: Any) -> None:
    labels = (torch.rand(60, 3, generator=chance(3)) < 0.5).float()
    straight, resumed = make(8), make(8)
    generator = chance(5)
    fed(straight, labels[:30], generator)
    resumed.load(copy.deepcopy(straight.state()))
    for memory in (straight, resumed):
        fed(memory, labels[30:], chance(6))
    assert numbers(straight) == numbers(resumed)
    assert torch.equal(straight.y, resumed.y)


# Partitioning reservoir sampling


def partitioned(capacity: int, rho: float, held: Any, counts: Any) -> PartitioningReservoir:
    """A full memory that holds images of these labels, after a stream that showed each class so often."""
    memory = PartitioningReservoir(capacity, rho)
    memory.add(stream(held), chance())
    assert len(memory) == capacity
    memory.counts = np.array(counts, float)
    return memory


def test_quotas() -> None:
    """p_i = n_i^rho / sum_j n_j^rho; a class not streamed yet has none."""
    memory = partitioned(1, 0.5, [[1, 1, 0]], [16, 4, 0])
    assert memory.quotas() == pytest.approx([4 / 6, 2 / 6, 0])
    memory.rho = -1.0
    assert memory.quotas() == pytest.approx([(1 / 16) / (1 / 16 + 1 / 4), (1 / 4) / (1 / 16 + 1 / 4), 0])


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        # rho 0: p = 1/2 each, m_i = 2. n = (8, 5): s of class 0 = 2/8, of class 1 = 2/5
        ([1, 0, 0], 2 / 8),
        ([0, 1, 0], 2 / 5),
        # both: w = softmax(-8, -5) = (e^-3, 1) / (1 + e^-3)
        ([1, 1, 0], (math.exp(-3) * 2 / 8 + 2 / 5) / (math.exp(-3) + 1)),
        ([0, 0, 0], 0.0),  # no known positive: never, once the memory is full
        ([0, 0, 1], 1.0),  # the first of its class: always
    ],
)
def test_sample_in(labels: list[int], expected: float) -> None:
    memory = partitioned(4, 0.0, [[1, 0, 0], [0, 1, 0], [1, 0, 0], [0, 1, 0]], [8, 5, 0])
    accepted, generator, tries = 0, chance(2), 4000
    for _ in range(tries):
        before = memory.counts.copy()
        accepted += memory.place(torch.tensor(labels, dtype=torch.bool), generator) is not None
        assert memory.counts.tolist() == (before + labels).tolist()  # after the decision, taken or not
        memory.counts = before
    deviation = math.sqrt(expected * (1 - expected) / tries)
    assert abs(accepted / tries - expected) <= 4 * deviation


def test_large_counts_do_not_vanish_in_the_softmax() -> None:
    """exp(-10,000) is 0 in any float; the rarest of the image's classes decides all the same."""
    memory = partitioned(2, 0.0, [[1, 0], [0, 1]], [20_000, 10_000])
    kept, tries = 0, 20_000
    generator = chance(3)
    for _ in range(tries):
        kept += memory._replaced(np.array([True, True]), generator) is not None
    assert abs(kept / tries - 1 / 10_000) < 3e-4


def evicted(memory: PartitioningReservoir, tries: int = 400) -> dict[int, float]:
    """How often each place is given up."""
    generator = chance(7)
    places = [memory._out(generator) for _ in range(tries)]
    return {place: places.count(place) / tries for place in sorted(set(places))}


def test_sample_out_draws_the_class_that_is_most_over_its_quota() -> None:
    """l = (5, 1, 0), p = 1/2 each of two: delta = (2, -2), softmax: class 1's only image goes 1.8 %."""
    held = [[1, 0, 0]] * 5 + [[0, 1, 0]]
    share = evicted(partitioned(6, 0.0, held, [9, 9, 0]), 4000)
    last = math.exp(-2) / (math.exp(2) + math.exp(-2))
    assert abs(share.get(5, 0) - last) < 4 * math.sqrt(last * (1 - last) / 4000)
    assert all(abs(share[place] - (1 - last) / 5) < 0.03 for place in range(5))  # ties are drawn


def test_sample_out_spares_images_that_show_what_is_short() -> None:
    """Of class 0's images those go that show none of the classes under their quota."""
    held = [[1, 1, 0], [1, 0, 0], [1, 0, 1], [1, 0, 0], [1, 1, 0], [1, 0, 0], [1, 0, 0]]
    # l = (7, 2, 1), p = 1/3: delta = (3.7, -1.3, -2.3): classes 1 and 2 are short
    share = evicted(partitioned(7, 0.0, held, [9, 9, 9]))
    often = sum(share.get(place, 0) for place in (1, 3, 5, 6))
    assert often > 0.98  # classes 1 and 2 themselves are drawn in under 2 %


def test_sample_out_takes_what_leaves_the_least_gap() -> None:
    """Among images that spare alike, the one without which the shares are nearest their quotas.

    l = (4, 3), p = (1/2, 1/2), delta = (.5, -.5): class 1 is short. If class 0 is drawn, images 0, 1 (class 0
    alone) come first. If class 1 is drawn: images 2, 3 show both, image 4 class 1 alone; none of them lacks
    class 1, so all spare alike. Without image 4: l = (4, 2), gap |4-3| + |2-3| = 2. Without image 2:
    l = (3, 2), gap 1. So 2 or 3 goes, and never 4.
    """
    held = [[1, 0], [1, 0], [1, 1], [1, 1], [0, 1]]
    share = evicted(partitioned(5, 0.0, held, [9, 9]), 4000)
    assert 4 not in share
    zero = math.exp(0.5) / (math.exp(0.5) + math.exp(-0.5))
    assert abs(share[0] + share[1] - zero) < 0.04


def chances(held: np.ndarray, p: np.ndarray) -> np.ndarray:
    """How likely each place is to be given up, from the description, by loops."""
    images, classes = held.shape
    kept = held.sum(0)
    delta = kept - p * kept.sum()
    present = [k for k in range(classes) if kept[k]]
    total = sum(math.exp(delta[k]) for k in present)
    result = np.zeros(images)
    for k in present:
        short = [i for i in range(classes) if delta[i] <= 0]
        showing = [z for z in range(images) if held[z, k]]
        spared = {z: sum(1 - held[z, i] for i in short) for z in showing}
        gap = {}
        for z in showing:
            if spared[z] == max(spared.values()):
                left = kept - held[z]
                gap[z] = sum(abs(left[i] - p[i] * left.sum()) for i in range(classes))
        best = [z for z, value in gap.items() if value <= min(gap.values()) + 1e-9]
        for z in best:
            result[z] += math.exp(delta[k]) / total / len(best)
    return result


@pytest.mark.parametrize("seed", range(8))
def test_sample_out_of_any_memory(seed: int) -> None:
    """Uneven quotas and images of several classes; what is drawn is what the formulas say, by loops."""
    rng = np.random.default_rng(seed)
    held = (rng.random((9, 4)) < 0.45).astype(int)
    counts = rng.integers(1, 60, 4)
    share = evicted(partitioned(9, 1.0, held, counts), 1000)
    expected = chances(held, counts / counts.sum())
    assert sum(abs(share.get(place, 0) - expected[place]) for place in range(9)) / 2 < 0.07


def test_only_known_positives_count() -> None:
    memory = PartitioningReservoir(2, 0.0)
    memory.add(stream([[1, 1]], [[True, False]]), chance())
    assert memory.counts.tolist() == [1, 0]
    assert memory.y.tolist() == [[True, False]]


def test_a_memory_full_of_images_without_a_positive_still_takes_one() -> None:
    memory = partitioned(3, 0.0, [[0], [0], [0]], [0])
    memory.add(stream([[1]], first=9), chance())
    assert memory.y.sum() == 1
    assert sorted(numbers(memory))[-1] == 9


@pytest.mark.parametrize("rho", [0.0, 0.5, 1.0])
def test_shares_follow_n_to_the_rho_on_a_long_tailed_stream(rho: float) -> None:
    """Five classes, each half as frequent as the one before, with chance companions."""
    rng = np.random.default_rng(0)
    frequency = 0.5 ** np.arange(5)
    labels = np.zeros((4000, 5), bool)
    labels[np.arange(4000), rng.choice(5, 4000, p=frequency / frequency.sum())] = True
    labels |= rng.random(labels.shape) < 0.02
    memory = fed(PartitioningReservoir(100, rho), labels.astype(np.float32), chance(1), 50)
    held = memory.y.numpy().sum(0)
    wished = labels.sum(0) ** rho / (labels.sum(0) ** rho).sum()
    assert np.abs(held / held.sum() - wished).max() < 0.05
    plain = fed(Reservoir(100), labels.astype(np.float32), chance(1), 50).y.numpy().sum(0)
    if rho == 0:  # a plain reservoir has the stream's shares: the rarest class hardly shows
        assert plain[4] / plain.sum() < 0.12 < held[4] / held.sum()


def test_deciding_does_not_depend_on_the_batch() -> None:
    labels = (torch.rand(80, 4, generator=chance(3)) < 0.4).float()
    a, b = (fed(PartitioningReservoir(10, 0.0), labels, chance(4), size) for size in (1, 40))
    assert numbers(a) == numbers(b)
    assert isinstance(a, PartitioningReservoir)
    assert isinstance(b, PartitioningReservoir)
    assert a.counts.tolist() == b.counts.tolist()
