"""Elastic weight consolidation, by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch


def sigmoid(z: Any) -> Any:
    return 1 / (1 + np.exp(-z))


W = np.array([[0.1, -0.2, 0.3], [0.0, 0.5, -0.1]])
X = np.array([[10, 20, 30], [5, 0, 10], [0, 10, 20]])
Y = np.array([[1, 0], [0, 1], [1, 1]])
KNOWN = np.array([[1, 1], [1, 0], [0, 1]], bool)


def learnt(toy: Any, weight: np.ndarray = W, batch: Any = None, **options: Any) -> Any:
    """After a first task that ended at this weight."""
    learner = toy.learner("ewc", **options)
    batch = toy.batch(X, Y, KNOWN) if batch is None else batch
    task = toy.task(0, 0, len(weight), batch)
    learner.begin_task(task)
    learner.net.head.weight.data = torch.tensor(weight, dtype=torch.float32)
    learner.end_task(task, [batch])
    return learner


def by_hand(weight: np.ndarray, x: np.ndarray, y: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Mean over images of the squared gradient of that image's masked mean."""
    f = x / 10
    total = np.zeros_like(weight)
    for image in range(len(x)):
        slope = (sigmoid(f[image] @ weight.T) - y[image]) * known[image] / max(known[image].sum(), 1)
        total += np.outer(slope, f[image]) ** 2
    return total / len(x)


def test_fisher(toy: Any) -> None:
    fisher = learnt(toy).fisher["head.weight"].numpy()
    assert fisher == pytest.approx(by_hand(W, X, Y, KNOWN), rel=1e-5)


def test_fisher_is_of_single_images_and_not_of_the_batch(toy: Any) -> None:
    """Two images pull in opposite directions: their mean gradient is 0, and still the weight matters."""
    batch = toy.batch([[10, 0, 0], [10, 0, 0]], [[1], [0]])
    learner = learnt(toy, np.zeros((1, 3)), batch)
    assert learner.fisher["head.weight"].tolist() == [[0.25, 0, 0]]
    assert learner.fisher["head.bias"].tolist() == [0.25]


def test_fisher_of_parts_is_the_same(toy: Any) -> None:
    """More images than fit one reading of 32."""
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 30, (70, 3)), rng.integers(0, 2, (70, 2))
    known = rng.random((70, 2)) < 0.7
    fisher = learnt(toy, batch=toy.batch(x, y, known)).fisher["head.weight"].numpy()
    assert fisher == pytest.approx(by_hand(W, x, y, known), rel=1e-4)


def test_fisher_images_come_from_all_of_the_task(toy: Any) -> None:
    """The first half of the table shows nothing: the first images alone would say that nothing matters."""
    x = np.zeros((60, 3), int)
    x[30:] = 10
    fisher = learnt(toy, batch=toy.batch(x, np.ones((60, 2))), fisher_images=20).fisher["head.weight"]
    assert (fisher > 0).all()


def test_penalty_and_its_gradient(toy: Any) -> None:
    learner = learnt(toy, strength=4.0)
    fisher, anchor = learner.fisher["head.weight"].numpy(), W
    learner.begin_task(toy.task(1, 2, 3))
    moved = np.array([[0.1, 0.0, -0.2], [0.3, 0.1, 0.0]])
    new = np.array([[9.0, 9.0, 9.0]])  # the new row has no anchor
    learner.net.head.weight.data = torch.tensor(np.concatenate([anchor + moved, new]), dtype=torch.float32)
    expected = 4.0 / 2 * (fisher * moved**2).sum()
    terms = learner.losses(toy.batch(X, np.zeros((3, 3)), [[0, 0, 1]] * 3))
    assert terms["ewc"].item() == pytest.approx(expected, rel=1e-4)
    (slope,) = torch.autograd.grad(terms["ewc"], learner.net.head.weight)
    assert slope[:2].numpy() == pytest.approx(4.0 * fisher * moved, rel=1e-4)
    assert (slope[2] == 0).all()


def test_no_spring_before_the_first_task_ends(toy: Any) -> None:
    learner = toy.learner("ewc")
    learner.begin_task(toy.task(0, 0, 2))
    assert learner.observe(toy.batch(X, Y)).keys() == {"cls"}


def test_online_fisher_decays(toy: Any) -> None:
    """F = gamma F + F_t, with rows that the old F does not have yet; the anchor is where the task ended."""
    learner = learnt(toy, gamma=0.5)
    first = learner.fisher["head.weight"].numpy()
    weight = np.concatenate([W + 0.1, [[0.2, 0.0, -0.1]]])
    y, known = np.array([[0, 0, 1]] * 3), np.array([[0, 0, 1]] * 3, bool)
    batch = toy.batch(X, y, known)
    task = toy.task(1, 2, 3, batch)
    learner.begin_task(task)
    learner.net.head.weight.data = torch.tensor(weight, dtype=torch.float32)
    learner.end_task(task, [batch])
    expected = by_hand(weight, X, y, known)
    expected[:2] += 0.5 * first
    assert learner.fisher["head.weight"].numpy() == pytest.approx(expected, rel=1e-4)
    assert learner.anchor["head.weight"].numpy() == pytest.approx(weight, rel=1e-6)
