"""What every method stands between."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from mlcl import Samples, Stream, Task, learners


def two_tasks(toy: Any) -> Stream:
    pixels = toy.batch(np.arange(12).reshape(4, 3), np.zeros((4, 1)))
    images = toy.task(0, 0, 1, pixels).train.images
    full = np.array([[1, 0, 1], [0, 1, 1], [1, 1, 0], [0, 0, 1]], np.uint8)
    known = np.array([[1, 1], [1, 1]], bool)
    first = Samples(images, np.array([0, 1]), full[:2, :2], known)
    second = Samples(images, np.array([2, 3]), full[2:], np.array([[0, 0, 1]] * 2, bool))
    tasks = [Task(0, 0, 2, ("a", "b"), first, first), Task(1, 2, 3, ("c",), second, second)]
    return Stream(("a", "b", "c"), tasks, full=Samples(images, np.arange(4), full, np.ones((4, 3), bool)))


def test_multi_task_keeps_what_each_task_knew(toy: Any) -> None:
    view = learners()["multi-task"]().view(two_tasks(toy))
    assert len(view) == 1
    batch = view[0].train.batch(np.arange(4))
    assert batch.known.int().tolist() == [[1, 1, 0], [1, 1, 0], [0, 0, 1], [0, 0, 1]]
    assert batch.y.tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 0], [0, 0, 1]]
    assert (view[0].start, view[0].stop) == (0, 3)


def test_joint_full_knows_all(toy: Any) -> None:
    batch = learners()["joint-full"]().view(two_tasks(toy))[0].train.batch(np.arange(4))
    assert batch.known.all()
    assert batch.y.tolist() == [[1, 0, 1], [0, 1, 1], [1, 1, 0], [0, 0, 1]]


def test_fine_tuning_sees_the_stream_as_it_is(toy: Any) -> None:
    stream = two_tasks(toy)
    assert learners()["fine-tuning"]().view(stream) is stream


@pytest.mark.parametrize("method", ["fine-tuning", "multi-task", "joint-full"])
def test_one_step_by_hand(toy: Any, method: str) -> None:
    """Two entries are known; the gradient of their mean moves their rows, and no other."""
    learner = toy.learner(method, lr=0.5)
    learner.begin_task(toy.task(0, 0, 3))
    learner.net.head.weight.data = torch.tensor([[0.1, 0.0, 0.2], [0.0, -0.3, 0.1], [0.5, 0.5, 0.5]])
    learner.net.head.bias.data = torch.tensor([0.0, 0.2, 0.0])
    before = learner.net.head.weight.detach().clone().numpy()
    terms = learner.observe(toy.batch([[10, 20, 30]], [[1, 0, 1]], [[1, 1, 0]]))
    feature = np.array([1.0, 2.0, 3.0])
    p = 1 / (1 + np.exp(-np.array([0.1 + 0.6, -0.6 + 0.3 + 0.2])))
    assert terms.keys() == {"cls"}
    assert terms["cls"].item() == pytest.approx(-(np.log(p[0]) + np.log(1 - p[1])) / 2, rel=1e-5)
    step = 0.5 * np.array([p[0] - 1, p[1], 0])[:, None] * feature / 2
    assert learner.net.head.weight.detach().numpy() == pytest.approx(before - step, abs=1e-6)
