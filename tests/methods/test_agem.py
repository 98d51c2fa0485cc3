"""A-GEM, by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from mlcl.methods.agem import project


def test_projection() -> None:
    """Over two parameters at once: g.r = 1*(-2) + 3*1 + 0*2 - 4 = -3, r.r = 10."""
    g = [torch.tensor([[1.0, 3.0]]), torch.tensor([0.0, 4.0])]
    r = [torch.tensor([[-2.0, 1.0]]), torch.tensor([2.0, -1.0])]
    out = project(g, r)
    assert out[0].tolist() == [[pytest.approx(1 + 0.3 * -2), pytest.approx(3 + 0.3)]]
    assert out[1].tolist() == [pytest.approx(0.6), pytest.approx(4 - 0.3)]
    assert sum((a * b).sum().item() for a, b in zip(out, r, strict=True)) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("reference", [[2.0, 0.0], [0.0, 0.0], [1.0, -1.0]])
def test_agreeing_gradients_stay(reference: list[float]) -> None:
    g = torch.tensor([1.0, 1.0])
    assert torch.equal(project([g], [torch.tensor(reference)])[0], g)


def test_a_parameter_that_the_memory_does_not_touch() -> None:
    out = project([torch.tensor([1.0]), torch.tensor([5.0])], [torch.tensor([-2.0]), None])
    assert [t.item() for t in out] == [0, 5]


def sigmoid(z: Any) -> Any:
    return 1 / (1 + np.exp(-z))


def second_task(toy: Any, old_label: int) -> Any:
    """One remembered image of class 0; the head knows nothing."""
    learner = toy.learner("a-gem", lr=1.0, capacity=1)
    learner.begin_task(toy.task(0, 0, 1))
    learner.observe(toy.batch([[10, 20, 0]], [[old_label]]))
    learner.begin_task(toy.task(1, 1, 2))
    learner.net.head.weight.data.zero_()
    learner.net.head.bias.data.zero_()
    return learner


@pytest.mark.parametrize("old_label", [0, 1])
def test_a_step_of_the_second_task(toy: Any, old_label: int) -> None:
    """In CL the new image denies class 0, whose remembered image has (1) or has not (0) the label."""
    learner = second_task(toy, old_label)
    feature, old = np.array([3.0, 0.0, 0.0, 1.0]), np.array([1.0, 2.0, 0.0, 1.0])  # 1: for the bias
    g = np.stack([feature, -feature]) * 0.5 / 2  # p = 1/2; labels (0, 1); mean over two entries
    r = np.stack([old * (0.5 - old_label), np.zeros(4)])
    dot = (g * r).sum()
    expected = g if dot >= 0 else g - dot / (r * r).sum() * r
    assert (dot < 0) == (old_label == 1)
    learner.observe(toy.batch([[30, 0, 0]], [[0, 1]]))
    head = learner.net.head
    moved = np.concatenate([head.weight.detach().numpy(), head.bias.detach().numpy()[:, None]], axis=1)
    assert moved == pytest.approx(-expected, abs=1e-6)


def test_the_first_task_is_fine_tuning(toy: Any) -> None:
    learners = [toy.learner(method, lr=1.0) for method in ("a-gem", "fine-tuning")]
    for learner in learners:
        learner.begin_task(toy.task(0, 0, 2))
        toy.fill(learner.net)
        for pixel in (10, 20):
            learner.observe(toy.batch([[pixel, 1, 2]], [[1, 0]]))
    assert torch.equal(learners[0].net.head.weight, learners[1].net.head.weight)


def test_a_first_task_without_images(toy: Any) -> None:
    learner = toy.learner("a-gem")
    learner.begin_task(toy.task(0, 0, 1))
    learner.begin_task(toy.task(1, 1, 2))
    assert learner.observe(toy.batch([[1, 2, 3]], [[0, 1]])).keys() == {"cls"}
