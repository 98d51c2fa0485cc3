"""Experience replay from a reservoir (ER) and from a partitioning one (PRS)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from mlcl.memory import PartitioningReservoir, Reservoir


def sigmoid(z: Any) -> Any:
    return 1 / (1 + np.exp(-z))


def bce(y: np.ndarray, z: np.ndarray) -> np.ndarray:
    return -(y * np.log(sigmoid(z)) + (1 - y) * np.log(1 - sigmoid(z)))


W = np.array([[0.1, -0.2, 0.3], [0.0, 0.5, -0.1], [0.2, 0.2, 0.2]])
OLD_X, OLD_Y = np.array([[10, 20, 30], [5, 0, 10]]), np.array([[1, 0], [0, 1]])
NEW_X, NEW_Y = np.array([[0, 10, 20]]), np.array([[0, 0, 1]])


@pytest.mark.parametrize("method", ["er", "prs"])
def test_the_two_terms(toy: Any, method: str) -> None:
    """What is remembered counts where it was known when it was stored (D19): old columns alone."""
    learner = toy.learner(method, capacity=2, replay=2)
    learner.begin_task(toy.task(0, 0, 2))
    assert learner.observe(toy.batch(OLD_X, OLD_Y)).keys() == {"cls"}  # the memory was empty
    learner.begin_task(toy.task(1, 2, 3))
    learner.net.head.weight.data = torch.tensor(W, dtype=torch.float32)
    terms = learner.losses(toy.batch(NEW_X, NEW_Y, [[0, 0, 1]]))
    new, old = NEW_X / 10 @ W.T, OLD_X / 10 @ W.T
    assert terms["cls"].item() == pytest.approx(bce(NEW_Y, new)[0, 2], rel=1e-5)
    assert terms["replay"].item() == pytest.approx(bce(OLD_Y, old[:, :2]).mean(), rel=1e-5)


def test_each_image_is_offered_once_and_not_augmented(toy: Any) -> None:
    learner = toy.learner("er", capacity=100, augment={"crop": 0.5, "flip": True})
    learner.begin_task(toy.task(0, 0, 2))
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (40, 3))
    for start in range(0, 40, 8):
        learner.observe(toy.batch(pixels[start : start + 8], np.ones((8, 2))))
    assert learner.memory.streamed == 40
    assert learner.memory.x[:40, :, 0, 0].tolist() == pixels.tolist()
    assert learner.memory.x.dtype == torch.uint8


def test_the_batch_in_hand_is_not_replayed_with_itself(toy: Any) -> None:
    """It is stored after its step, not before."""
    learner = toy.learner("er")
    learner.begin_task(toy.task(0, 0, 1))
    held = []
    losses = learner.losses
    learner.losses = lambda batch: (held.append(len(learner.memory)), losses(batch))[1]
    for _ in range(3):
        learner.observe(toy.batch([[1, 2, 3]] * 4, [[1]] * 4))
    assert held == [0, 4, 8]


def test_which_memory(toy: Any) -> None:
    er, prs = toy.learner("er", capacity=7), toy.learner("prs", capacity=9, rho=0.02)
    assert type(er.memory) is Reservoir
    assert er.memory.capacity == 7
    assert isinstance(prs.memory, PartitioningReservoir)
    assert (prs.memory.capacity, prs.memory.rho) == (9, 0.02)


def test_replay_is_the_number_of_images(toy: Any) -> None:
    learner = toy.learner("er", replay=3)
    learner.begin_task(toy.task(0, 0, 1))
    learner.observe(toy.batch([[1, 2, 3]] * 8, [[1]] * 8))
    assert len(learner.replayed()) == 3
