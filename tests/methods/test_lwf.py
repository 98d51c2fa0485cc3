"""Learning without forgetting, by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

X = np.array([[10, 20, 30], [5, 0, 10]])
FEATURE = X / 10
THEN = np.array([[0.3, -0.2, 0.1], [0.0, 0.4, -0.1]])  # the head as the first task left it
NOW = np.array([[0.1, 0.1, 0.0], [0.2, 0.2, 0.1], [-0.3, 0.1, 0.2]])


def sigmoid(z: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-z))


def cross_entropy(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    return -(p * np.log(q) + (1 - p) * np.log(1 - q))


def after_one_task(toy: Any, **options: Any) -> Any:
    learner = toy.learner("lwf", **options)
    learner.begin_task(toy.task(0, 0, 2))
    learner.net.head.weight.data = torch.tensor(THEN, dtype=torch.float32)
    learner.begin_task(toy.task(1, 2, 3))
    learner.net.head.weight.data = torch.tensor(NOW, dtype=torch.float32)
    return learner


def test_first_task_is_classification_alone(toy: Any) -> None:
    learner = toy.learner("lwf", lambda1=0.15)
    learner.begin_task(toy.task(0, 0, 2))
    learner.net.head.weight.data = torch.tensor(THEN, dtype=torch.float32)
    y = np.array([[1, 0], [0, 0]])
    terms = learner.observe(toy.batch(X, y))
    assert terms.keys() == {"cls"}
    assert terms["cls"].item() == pytest.approx(cross_entropy(y, sigmoid(FEATURE @ THEN.T)).mean(), rel=1e-5)


@pytest.mark.parametrize("scenario", ["il", "cl"])
def test_the_two_terms(toy: Any, scenario: str) -> None:
    """Old columns are distilled whether their labels are known or not."""
    y = np.array([[1, 0, 1], [0, 1, 0]])
    known = np.array([[scenario == "cl", scenario == "cl", True]] * 2)
    learner = after_one_task(toy, lambda1=0.3, lambda2=0.7)
    terms = learner.observe(toy.batch(X, y, known))
    now, then = sigmoid(FEATURE @ NOW.T), sigmoid(FEATURE @ THEN.T)
    assert terms["cls"].item() == pytest.approx(0.3 * cross_entropy(y, now)[known].mean(), rel=1e-5)
    assert terms["dst"].item() == pytest.approx(0.7 * cross_entropy(then, now[:, :2]).mean(), rel=1e-5)


def test_gradient(toy: Any) -> None:
    """d dst / d z = (p - p') / entries; the new row moves by its labels alone."""
    learner = after_one_task(toy, lambda1=0.3, lambda2=0.7, lr=1.0)
    y = np.array([[0, 0, 1], [0, 0, 0]])
    learner.observe(toy.batch(X, y, [[0, 0, 1]] * 2))
    now, then = sigmoid(FEATURE @ NOW.T), sigmoid(FEATURE @ THEN.T)
    slope = np.concatenate([0.7 * (now[:, :2] - then) / 4, 0.3 * (now[:, 2:] - y[:, 2:]) / 2], axis=1)
    moved = learner.net.head.weight.detach().numpy() - NOW
    assert moved == pytest.approx(-slope.T @ FEATURE, abs=1e-6)


def test_the_expert_is_the_network_as_the_last_task_left_it_and_stays_so(toy: Any) -> None:
    learner = after_one_task(toy, lr=1.0)
    for _ in range(3):
        learner.observe(toy.batch(X, [[0, 0, 1]] * 2))
    assert learner.expert.head.weight.numpy() == pytest.approx(THEN, abs=1e-7)
    assert not any(p.requires_grad for p in learner.expert.parameters())
    assert not learner.expert.training
    left = learner.net.head.weight.detach().clone()
    learner.begin_task(toy.task(2, 3, 4))
    assert torch.equal(learner.expert.head.weight, left)
    assert learner.old == 3
