"""The table that every source is read into."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from mlcl.data.table import UNKNOWN, LabelTable
from mlcl.errors import DataError
from mlcl.types import Images


class Blank(Images):
    def __init__(self, count: int):
        self.count = count

    def __len__(self) -> int:
        return self.count

    def load(self, indices: Sequence[int] | np.ndarray) -> Tensor:
        return torch.zeros(len(indices), 3, 1, 1, dtype=torch.uint8)


LABELS = np.array([[1, 0, UNKNOWN], [1, 1, 0], [0, UNKNOWN, 1], [1, 1, 1]], np.int8)


def table(**changes: Any) -> LabelTable:
    given: dict[str, Any] = {
        "name": "toys",
        "class_names": ("cat", "dog", "cow"),
        "refs": ["a", "b", "c", "d"],
        "labels": LABELS,
        "test": np.array([False, False, False, True]),
        "images": Blank(4),
    }
    return LabelTable(**given | changes)


def test_columns_are_taken_by_name() -> None:
    some = table().columns(["cow", "cat"])
    assert some.class_names == ("cow", "cat")
    assert (some.labels == LABELS[:, [2, 0]]).all()
    assert len(some) == 4
    assert some.refs == ["a", "b", "c", "d"]


def test_a_split_is_not_that_of_other_columns() -> None:
    split = table(owner=np.array([0, 1, 1, 0]), widths=(2, 1))
    assert split.columns(["cow", "cat"]).owner is None
    assert split.columns(["cow", "cat"]).widths == ()


def test_no_such_column() -> None:
    message = r"toys: no class 'cet'; did you mean 'cat'\? \(valid: cat, dog, cow\)"
    with pytest.raises(DataError, match=message):
        table().columns(["dog", "cet"])


def test_positives_are_known_ones_of_training_images() -> None:
    assert table().positives().tolist() == [2, 1, 1]


def test_class_names_are_different() -> None:
    with pytest.raises(DataError, match="toys: two classes have the name 'cat'"):
        table(class_names=("cat", "dog", "cat"))


@pytest.mark.parametrize(
    "changes",
    [
        {"labels": LABELS[:3]},
        {"labels": LABELS[:, :2]},
        {"labels": LABELS.astype(np.uint8)},
        {"labels": LABELS.astype(bool)},
        {"test": np.array([False, True])},
        {"test": np.array([0, 0, 0, 1])},
        {"images": Blank(3)},
        {"refs": ["a"]},
    ],
)
def test_parts_that_do_not_fit_are_a_bug_of_the_source(changes: dict[str, Any]) -> None:
    with pytest.raises(AssertionError):
        table(**changes)
