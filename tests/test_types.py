"""Batches, samples and streams: shapes, masks, and what joins them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from mlcl import Batch, Samples, Stream, Task
from mlcl.types import Images


class Squares(Images):
    """Image k is filled with k; the images in `bad` turn out to be broken when they are loaded."""

    def __init__(self, count: int, bad: tuple[int, ...] = ()):
        self.count, self.bad = count, bad
        self.broken: dict[int, str] = {}

    def __len__(self) -> int:
        return self.count

    def load(self, indices: Any) -> Tensor:
        self.broken |= {int(k): "broken" for k in indices if int(k) in self.bad}
        return torch.tensor([int(k) for k in indices], dtype=torch.uint8)[:, None, None, None].expand(
            -1, 3, 2, 2
        )


def samples(images: Images, rows: list[int], columns: int, first: int = 0) -> Samples:
    """Every label is 1, and those from column `first` on are known."""
    shape = len(rows), columns
    known = np.zeros(shape, bool)
    known[:, first:] = True
    return Samples(images, np.array(rows), np.ones(shape, np.uint8), known)


@pytest.fixture
def stream() -> Stream:
    """Two tasks, classes a and b, then c."""
    images = Squares(10)
    first = Task(0, 0, 2, ("a", "b"), samples(images, [0, 1, 2], 2), samples(images, [8], 2))
    second = Task(1, 2, 3, ("c",), samples(images, [3, 4], 3, first=2), samples(images, [8, 9], 3))
    return Stream(("a", "b", "c"), [first, second], "letters", full=samples(images, [0, 1, 2, 3, 4], 3))


def test_batch() -> None:
    batch = Batch(
        torch.zeros(5, 3, 4, 4, dtype=torch.uint8), torch.zeros(5, 2), torch.ones(5, 2, dtype=torch.bool)
    )
    assert (len(batch), batch.seen) == (5, 2)
    moved = batch.to("cpu")
    assert all(torch.equal(getattr(moved, name), getattr(batch, name)) for name in ("x", "y", "known"))
    assert replace(batch, of=9).to("cpu").of == 9


def test_samples_are_taken_by_their_place_in_the_set() -> None:
    part = samples(Squares(10), [7, 2, 5], 4, first=3)
    batch = part.batch([2, 0])
    assert batch.x[:, 0, 0, 0].tolist() == [5, 7]
    assert batch.x.dtype == torch.uint8
    assert batch.y.dtype == torch.float32
    assert batch.y.tolist() == [[0, 0, 0, 1]] * 2  # what is not known is not told
    assert batch.known.tolist() == [[False, False, False, True]] * 2
    assert len(part) == 3
    assert part.batch(np.array([], dtype=int)).x.shape == (0, 3, 2, 2)


def test_a_batch_owns_its_mask() -> None:
    part = samples(Squares(3), [0, 1, 2], 2)
    part.batch([0]).known.fill_(False)
    assert part.known.all()


def test_of_a_broken_image_nothing_is_known() -> None:
    """Also in the batch in which that is found out, and of no other image."""
    part = samples(Squares(10, bad=(2,)), [7, 2, 5], 2)
    batch = part.batch([0, 1, 2])
    assert batch.known.tolist() == [[True, True], [False, False], [True, True]]
    assert batch.y.tolist() == [[1, 1], [0, 0], [1, 1]]


@pytest.mark.parametrize(("rows", "y", "known"), [((3,), (3, 2), (3, 3)), ((2,), (3, 2), (3, 2))])
def test_parts_that_do_not_fit_are_a_bug(rows: Any, y: Any, known: Any) -> None:
    with pytest.raises(AssertionError):
        Samples(Squares(3), np.zeros(rows, int), np.zeros(y, np.uint8), np.zeros(known, bool))


def test_a_stream_is_a_sequence_of_tasks(stream: Stream) -> None:
    assert len(stream) == 2
    assert [task.names for task in stream] == [("a", "b"), ("c",)]
    assert stream[-1] is stream[1]
    assert list(stream[1:]) == [stream[1]]
    assert [(task.new.start, task.new.stop) for task in stream] == [(0, 2), (2, 3)]
    with pytest.raises(AssertionError):
        Stream(("a", "b"), stream.tasks)  # a class that no task brings, or one too many
    with pytest.raises(AssertionError):
        Stream((), [])


def test_joint_keeps_what_each_task_knew(stream: Stream) -> None:
    (task,) = joint = stream.joint()
    assert (joint.class_names, joint.name) == (stream.class_names, stream.name)
    assert (task.index, task.start, task.stop, task.names) == (0, 0, 3, ("a", "b", "c"))
    assert task.train.rows.tolist() == [0, 1, 2, 3, 4]
    yes, no = True, False
    assert task.train.known.tolist() == [[yes, yes, no]] * 3 + [[no, no, yes]] * 2
    assert task.train.y[:3, 2].tolist() == [0, 0, 0]
    assert task.test is stream[1].test


def test_joint_with_all_labels(stream: Stream) -> None:
    (task,) = stream.joint(full=True)
    assert task.train is stream.full
    assert task.train.known.all()
    without = Stream(stream.class_names, stream.tasks)
    with pytest.raises(AssertionError, match="without full labels"):
        without.joint(full=True)
