"""The augmented correlation matrix against numbers counted by hand."""

from __future__ import annotations

import copy
import io
import itertools
import math
from typing import Literal

import numpy as np
import pytest
import torch
from torch import Tensor

from mlcl.acm import ACM, distance, propagation, same_task
from mlcl.data import scenes
from mlcl.data.table import LabelTable
from mlcl.stream import StreamConfig, build
from mlcl.types import Images


def f64(rows: list[list[float]]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def everything(y: Tensor) -> Tensor:
    return torch.ones(y.shape, dtype=torch.bool)


def learn(acm: ACM, width: int, y: Tensor, valid: Tensor | None = None) -> Tensor:
    acm.grow(width)
    acm.update(y, everything(y) if valid is None else valid)
    return acm.matrix()


def random_batch(seed: int, images: int, classes: int, soft: int = 0) -> tuple[Tensor, Tensor]:
    """Labels and what is valid of them; the first `soft` columns are probabilities."""
    chance = torch.Generator().manual_seed(seed)
    y = (torch.rand(images, classes, generator=chance) < 0.4).float()
    y[:, :soft] = torch.rand(images, soft, generator=chance)
    return y, torch.rand(images, classes, generator=chance) < 0.8


# Task 1: two classes, five images. N = (4, 3), together 2.
FIRST = f64([[1, 0], [1, 1], [1, 1], [0, 1], [1, 0]])
A1 = [[1, 2 / 3], [2 / 4, 1]]


def close(a: Tensor, expected: list[list[float]], tolerance: float = 1e-5) -> None:
    assert a.shape == (len(expected), len(expected))
    assert (a - f64(expected)).abs().max() < tolerance, a


def test_first_task_is_hard_statistics() -> None:
    close(learn(ACM(), 2, FIRST), A1)


def test_four_blocks_il() -> None:
    """Old columns are the expert's probabilities: R = sum z_i y_j / N_j, Q = sum z_i y_j / sum z_i."""
    acm = ACM()
    learn(acm, 2, FIRST)
    y = f64([
        [0.5, 0.1, 1, 0],
        [0.9, 0.3, 1, 1],
        [0.2, 0.8, 0, 1],
        [0.4, 0.6, 1, 0],
    ])  # fmt: skip
    r = [[(0.5 + 0.9 + 0.4) / 3, (0.9 + 0.2) / 2], [(0.1 + 0.3 + 0.6) / 3, (0.3 + 0.8) / 2]]
    q = [[1.8 / 2.0, 1.0 / 1.8], [1.1 / 2.0, 1.1 / 1.8]]
    b = [[1, 1 / 2], [1 / 3, 1]]
    close(
        learn(acm, 2, y),
        [[*A1[0], *r[0]], [*A1[1], *r[1]], [*q[0], *b[0]], [*q[1], *b[1]]],
    )


def test_four_blocks_cl() -> None:
    """All labels are hard: every new block is N_ij / N_j, Old-Old is task 1's nevertheless."""
    acm = ACM()
    learn(acm, 2, FIRST)
    y = f64([
        [1, 0, 1, 0],
        [1, 1, 1, 1],
        [0, 0, 0, 1],
        [1, 0, 1, 0],
        [0, 1, 0, 1],
    ])  # fmt: skip
    close(
        learn(acm, 2, y),
        [
            [*A1[0], 3 / 3, 1 / 3],
            [*A1[1], 1 / 3, 2 / 3],
            [3 / 3, 1 / 2, 1, 1 / 3],
            [1 / 3, 2 / 2, 1 / 3, 1],
        ],
    )


def test_bayes_rule() -> None:
    """Q_ji = R_ij N_j / sum_x z_i."""
    acm = ACM()
    learn(acm, 3, random_batch(1, 20, 3)[0])
    y, _ = random_batch(2, 40, 5, soft=3)
    a = learn(acm, 2, y)
    r, q = a[:3, 3:], a[3:, :3]
    n, z = y[:, 3:].double().sum(0), y[:, :3].double().sum(0)
    assert torch.allclose(q, (r * n / z[:, None]).T, atol=1e-6)
    assert not torch.allclose(q, r.T, atol=0.05)


def test_growth_keeps_old_old() -> None:
    acm = ACM()
    grown = learn(acm, 3, random_batch(1, 30, 3)[0])
    for task, width in enumerate((2, 1, 4), start=2):
        before = grown
        old = len(before)
        acm.grow(width)
        a = acm.matrix()  # before the first batch: no relation between old and new
        assert torch.equal(a[:old, :old], before)
        assert torch.equal(a[old:, old:], torch.eye(width, dtype=torch.float64))
        assert (a[:old, old:] == 0).all()
        assert (a[old:, :old] == 0).all()
        acm.update(*random_batch(task, 30, old + width, soft=old))
        grown = acm.matrix()
        assert torch.equal(grown[:old, :old], before)
        assert (grown[:old, old:] > 0).any()
    assert grown.shape == (10, 10)
    assert acm.widths == [3, 2, 1, 4]


def test_a_task_without_a_batch() -> None:
    acm = ACM()
    first = learn(acm, 2, FIRST)
    acm.grow(1)
    acm.grow(1)
    a = acm.matrix()
    assert torch.equal(a[:2, :2], first)
    assert torch.equal(a[2:, 2:], torch.eye(2, dtype=torch.float64))


@pytest.mark.parametrize("size", [1, 7, 32])
def test_batches_are_as_one_pass(size: int) -> None:
    once, online = ACM(), ACM()
    for task in range(3):
        y, valid = random_batch(task, 50, 2 * task + 2, soft=2 * task)
        once.grow(2)
        online.grow(2)
        once.update(y, valid)
        for start in range(0, len(y), size):
            online.update(y[start : start + size], valid[start : start + size])
        assert (once.matrix() - online.matrix()).abs().max() < 1e-12


def test_ranks_add_their_counts() -> None:
    """What a data-parallel run does: the sums of all ranks, added, are the counts of everything."""
    whole, ranks = ACM(), [ACM(), ACM()]
    for acm in (whole, *ranks):
        learn(acm, 3, random_batch(9, 20, 3)[0])
        acm.grow(2)
    y, valid = random_batch(3, 9, 5, soft=3)
    whole.update(y, valid)
    ranks[0].update(y[:4], valid[:4])
    ranks[1].update(y[4:], valid[4:])
    ranks[0].co += ranks[1].co
    ranks[0].seen += ranks[1].seen
    assert (whole.matrix() - ranks[0].matrix()).abs().max() < 1e-12


def test_partially_known_columns() -> None:
    """An image counts for P(i | j) if j is there and i is known, and only then."""
    y = f64([[1, 1], [0, 1], [1, 1], [1, 0], [1, 1]])
    valid = torch.tensor([[1, 1], [1, 1], [0, 1], [1, 1], [1, 0]], dtype=torch.bool)
    # P(0 | 1): images 0, 1 of those with class 1 known (0, 1, 2) know class 0. P(1 | 0): images 0 and 3.
    close(learn(ACM(), 2, y, valid), [[1, 1 / 2], [1 / 2, 1]])


@pytest.mark.parametrize("bad", [math.nan, math.inf, 1.0])
def test_unknown_labels_are_never_read(bad: float) -> None:
    y, valid = random_batch(4, 30, 4)
    assert torch.equal(
        learn(ACM(), 4, torch.where(valid, y, 0.0), valid), learn(ACM(), 4, torch.where(valid, y, bad), valid)
    )


def test_a_class_that_never_shows() -> None:
    a = learn(ACM(), 2, f64([[1, 0], [1, 0]]))
    close(a, [[1, 0], [0, 1]])


def test_no_blocks_between_tasks() -> None:
    """The ablation: what is inherited has none either."""
    whole, cut = ACM(), ACM(inter_task=False)
    for task in range(3):
        y, _ = random_batch(task, 40, 2 * task + 2, soft=2 * task)
        full, a = learn(whole, 2, y), learn(cut, 2, y)
    inside = same_task([2, 2, 2])
    assert torch.equal(a[inside], full[inside])
    assert (a[~inside] == 0).all()
    assert (full[~inside] > 0).all()


def test_halve() -> None:
    """Half of Q, once: it does not halve again with every batch, or when it is inherited."""
    plain, half = ACM(), ACM(halve=True)
    for task in range(3):
        y, _ = random_batch(task, 40, 2 * task + 2, soft=2 * task)
        for acm in (plain, half):
            acm.grow(2)
            acm.update(y[:20], everything(y[:20]))
            acm.matrix()
            acm.update(y[20:], everything(y[20:]))
    factor = torch.ones(6, 6, dtype=torch.float64)
    factor[2:, :2] = factor[4:, 2:4] = 0.5
    assert torch.allclose(half.matrix(), plain.matrix() * factor, atol=1e-12)


def test_recount() -> None:
    acm = ACM(old_old="recount")
    learn(acm, 2, FIRST)
    acm.grow(1)
    close(acm.matrix()[:2, :2], A1)  # nothing to count yet
    y = f64([[1, 1, 1], [1, 0, 1], [1, 0, 0], [1, 0, 1]])
    acm.update(y, everything(y))
    close(acm.matrix(), [[1, 1 / 1, 1], [1 / 4, 1, 1 / 3], [3 / 4, 1, 1]])


def test_recount_keeps_what_it_has_not_met() -> None:
    acm = ACM(old_old="recount")
    learn(acm, 2, FIRST)
    acm.grow(1)
    y = f64([[1, 0, 1], [1, 0, 1]])  # nothing to say of P(. | class 1)
    acm.update(y, everything(y))
    close(acm.matrix()[:2, :2], [[1, A1[0][1]], [0, 1]])


def test_state_round_trip() -> None:
    acm = ACM()
    learn(acm, 3, random_batch(1, 20, 3)[0])
    learn(acm, 2, *random_batch(2, 20, 5, soft=3))
    buffer = io.BytesIO()
    torch.save(acm.state(), buffer)
    buffer.seek(0)
    other = ACM()
    other.load(torch.load(buffer, weights_only=True))
    assert torch.equal(acm.matrix(), other.matrix())
    state = copy.deepcopy(acm.state())
    for a in (acm, other):  # goes on alike, in the middle of a task and into the next one
        a.update(*random_batch(3, 20, 5, soft=3))
        learn(a, 2, *random_batch(4, 20, 7, soft=5))
    assert torch.equal(acm.matrix(), other.matrix())
    third = ACM()
    third.load(state)
    third.update(*random_batch(5, 20, 5))
    assert not torch.equal(state["co"], third.co)  # it was cloned: a state is not changed by who loads it


def test_counts_keep_their_precision_under_autocast() -> None:
    y, valid = random_batch(1, 300, 4, soft=2)
    plain = learn(ACM(), 4, y, valid)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(learn(ACM(), 4, y, valid), plain)


def test_distance() -> None:
    a = f64([[1, 0.5, 0], [0.25, 1, 0], [0, 0, 1]])
    b = f64([[9, 0.1, 0], [0.25, 1, 0.3], [0, 0, 1]])  # the diagonal says nothing
    gap = distance(a, b)
    assert gap["frobenius"] == pytest.approx(0.5)
    assert gap["rms"] == pytest.approx(0.5 / math.sqrt(6))
    assert distance(a, a) == {"frobenius": 0.0, "rms": 0.0}
    assert distance(f64([[1]]), f64([[1]])) == {"frobenius": 0.0, "rms": 0.0}


# Propagation. Row i hears column j: A is not symmetric, so that a transposed result differs.
A = f64([
    [1.0, 0.8, 0.35, 0.0],
    [0.5, 1.0, 0.2, 0.0],
    [0.1, 0.6, 1.0, 0.0],
    [0.45, 0.0, 0.9, 1.0],
])  # fmt: skip


def test_soft() -> None:
    p = propagation(A, "soft", [4])
    expected = torch.zeros(4, 4, dtype=torch.float64)
    for i in range(4):
        total = sum(float(A[i, j]) for j in range(4) if j != i)
        for j in range(4):
            expected[i, j] = 0.75 if i == j else 0.25 * float(A[i, j]) / total
    assert torch.allclose(p, expected, atol=1e-12)
    assert torch.allclose(p.sum(1), torch.ones(4, dtype=torch.float64))


def test_soft_row_without_neighbours() -> None:
    p = propagation(torch.eye(3, dtype=torch.float64), "soft", [3])
    assert torch.equal(p, 0.75 * torch.eye(3, dtype=torch.float64))


def test_soft_share_of_neighbours() -> None:
    p = propagation(A, "soft", [4], neighbours=0.4)
    assert torch.allclose(p.diagonal(), torch.full((4,), 0.6, dtype=torch.float64))
    assert torch.allclose(p.sum(1), torch.ones(4, dtype=torch.float64))


def symmetric(a: list[list[float]]) -> list[list[float]]:
    """D^-1/2 a D^-1/2, D the row sums."""
    d = [sum(row) for row in a]
    return [[a[i][j] / math.sqrt(d[i] * d[j]) for j in range(len(a))] for i in range(len(a))]


def test_threshold() -> None:
    """Binary at .4 first; then a row shares .25 among what is left, .75 to itself; then symmetric."""
    shared = [
        [0.75, 0.25, 0, 0],
        [0.25, 0.75, 0, 0],
        [0, 0.25, 0.75, 0],
        [0.125, 0, 0.125, 0.75],
    ]
    close(propagation(A, "threshold", [4]), symmetric(shared), 1e-12)


def test_threshold_row_without_neighbours() -> None:
    a = f64([[1, 0.9], [0.1, 1]])
    close(propagation(a, "threshold", [2]), symmetric([[0.75, 0.25], [0, 0.75]]), 1e-12)


def test_threshold_includes_its_limit() -> None:
    for value, there in ((0.4, True), (0.39, False)):
        p = propagation(f64([[1, value], [0, 1]]), "threshold", [2])
        assert bool(p[0, 1] > 0) is there


def test_shares_are_exact_at_the_limit() -> None:
    """Two of five are .4, in float32 too: the small count that guards a division takes nothing off."""
    acm = ACM()
    a = learn(acm, 2, f64([[1, 1], [1, 1], [0, 1], [0, 1], [0, 1]]))
    assert a[0, 1] == 0.4
    assert propagation(a.float(), "threshold", [2])[0, 1] > 0


def test_official() -> None:
    """Block by block: .4, self weight 1 and symmetric inside a task; .3 and shared by row across tasks."""
    b1 = symmetric([[1, 0.25], [0.25, 1]])
    b2 = symmetric([[1, 0], [0.25, 1]])
    close(
        propagation(A, "official", [2, 2]),
        [
            [*b1[0], 0.25, 0],  # R: .35 is enough across tasks, .2 is not
            [*b1[1], 0, 0],
            [0, 0.25, *b2[0]],  # Q: .1 no, .6 yes
            [0.25, 0, *b2[1]],
        ],
        1e-12,
    )


def test_official_across_three_tasks() -> None:
    """R and Q of task 3 share over all old classes at once; Old-Old is what task 2 had."""
    a = torch.full((3, 3), 0.35, dtype=torch.float64)
    a.fill_diagonal_(1)
    close(propagation(a, "official", [1, 1, 1]), [[1, 0.25, 0.25], [0.25, 1, 0.25], [0.125, 0.125, 1]], 1e-12)


def test_identity() -> None:
    assert torch.equal(propagation(A, "identity", [4]), torch.eye(4, dtype=torch.float64))


@pytest.mark.parametrize("kind", ["soft", "threshold", "official", "identity"])
def test_propagation_leaves_the_acm_alone_and_is_finite(kind: str) -> None:
    for a, widths in ((A, [1, 3]), (torch.eye(4, dtype=torch.float64), [2, 2]), (f64([[1]]), [1])):
        before = a.clone()
        p = propagation(a, kind, widths)  # type: ignore[arg-type]
        assert torch.equal(a, before)
        assert p.shape == a.shape
        assert torch.isfinite(p).all()
        assert (p >= 0).all()
        assert (p.diagonal() > 0).all()


def estimate(images: int, widths: tuple[int, ...]) -> float:
    """How far from the truth after `images` scenes in CL, dealt out to tasks of these widths.

    The images are NOT filtered by task. In a real stream an image enters a task only if it shows one of
    its classes, and P(new | old) is then taken among those images alone: Q comes out too large however
    much data there is. That is the protocol's bias, and not what this test is about.
    """
    labels = torch.from_numpy(scenes.sample_labels(7, images)).double()
    acm = ACM()
    for stop, part in zip(itertools.accumulate(widths), labels.chunk(len(widths)), strict=True):
        acm.grow(widths[len(acm.widths)])
        for batch in part[:, :stop].split(64):
            acm.update(batch, everything(batch))
    return distance(acm.matrix(), torch.from_numpy(np.asarray(scenes.oracle())))["rms"]


def test_estimate_converges_to_the_truth() -> None:
    few, some, many = (estimate(images, (4,) * 6) for images in (300, 3_000, 30_000))
    assert many < 0.5 * some < 0.25 * few
    assert many < 0.02


class Undrawn(Images):
    def __init__(self, count: int):
        self.count = count

    def __len__(self) -> int:
        return self.count

    def load(self, indices: object) -> Tensor:
        raise AssertionError("labels are enough")


def estimate_in_a_stream(images: int, scenario: Literal["il", "cl"]) -> float:
    """The same as tasks come: an image enters one only if it shows one of its classes."""
    labels = scenes.sample_labels(7, images + 200).astype(np.int8)
    refs = [f"scene {k}" for k in range(len(labels))]
    test = np.arange(len(labels)) >= images
    table = LabelTable("scenes", scenes.CONCEPTS, refs, labels, test, Undrawn(len(labels)))
    acm = ACM()
    for task in build(table, StreamConfig(scenario=scenario, way=4)):
        acm.grow(task.stop - task.start)
        acm.update(torch.from_numpy(task.train.y).double(), torch.from_numpy(task.train.known))
    return distance(acm.matrix(), torch.from_numpy(scenes.oracle()))["rms"]


def test_estimate_in_a_stream_nears_the_truth_as_far_as_the_protocol_lets_it() -> None:
    nothing = distance(torch.eye(24), torch.from_numpy(scenes.oracle()))["rms"]
    few, some, many = (estimate_in_a_stream(images, "cl") for images in (200, 2_000, 20_000))
    assert many < 0.95 * some < 0.8 * few < nothing
    blind = estimate_in_a_stream(20_000, "il")  # of old classes nobody tells, and here no expert guesses
    assert many < blind < nothing
