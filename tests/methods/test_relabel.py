"""ER with relabelling by hand: which entries of a replayed image are filled, with what, at what weight."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from mlcl.config import from_tree
from mlcl.errors import ConfigError
from mlcl.losses import bce
from mlcl.methods.relabel import Relabelled
from mlcl.types import Batch, Task

UNKNOWN = math.nan


class Shade(nn.Module):
    """Says of class c the image's shade times its weight; in training one more, as if augmentation did it."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Identity()
        self.weight = nn.Parameter(torch.tensor([1.0, -1.0]))

    def forward(self, x: Tensor) -> Tensor:
        return x.float().mean((1, 2, 3))[:, None] * self.weight + float(self.training)


def learner(**settings: object) -> Relabelled:
    tree = {"backbone": {"name": "tiny"}, "augment": {"crop": 1.0, "flip": False}, "capacity": 4, **settings}
    made = Relabelled(from_tree(Relabelled.Config, tree))
    made.begin_task(Task(0, 0, 2, ("a", "b"), None, None))  # type: ignore[arg-type]
    made.net = Shade()
    made.optimizer = torch.optim.SGD(made.net.parameters(), lr=0.0)
    return made


def shown(shade: int, first: float, second: float) -> Batch:
    y = torch.tensor([[first, second]])
    return Batch(torch.full((1, 3, 4, 4), shade, dtype=torch.uint8), y.nan_to_num(), ~y.isnan())


@pytest.mark.parametrize(("answers", "target"), [("soft", 1 / (1 + math.exp(2))), ("hard", 0.0)])
def test_terms(answers: str, target: float) -> None:
    """Of shade 2 the first label is known, 1; at rest the net says -2 of the second, in training -1."""
    mine = learner(answers=answers, relabel=3.0)
    assert set(mine.observe(shown(2, 1, UNKNOWN))) == {"cls"}
    terms = mine.observe(shown(1, 0, 1))
    assert terms["replay"].item() == pytest.approx(math.log1p(math.exp(-3)), rel=1e-5)
    relabel = math.log1p(math.exp(-1)) + target  # bce of logit -1 is log(1 + e^-1) + its target
    assert terms["relabel"].item() == pytest.approx(3 * relabel, rel=1e-5)
    cls = (math.log1p(math.exp(2)) + math.log1p(math.exp(0)) - 0) / 2  # logits 2 and 0, labels 0 and 1
    assert terms["cls"].item() == pytest.approx(cls, rel=1e-5)


def test_no_gradient_through_the_answers() -> None:
    """A soft answer is a constant: the slope is that of the loss alone, (sigmoid(-1) - sigmoid(-2)) x 2."""
    mine = learner()
    mine.observe(shown(2, 1, UNKNOWN))
    mine.net.weight.grad = None
    mine.net.train()
    mine.losses(shown(0, 0, 0))["relabel"].backward()
    slope = (1 / (1 + math.exp(1)) - 1 / (1 + math.exp(2))) * 2
    assert mine.net.weight.grad is not None
    assert mine.net.weight.grad.tolist() == pytest.approx([0, slope], rel=1e-5)


def test_columns_of_later_tasks_are_filled_too() -> None:
    """What came after the image was stored is unknown of it, so the model answers there."""
    mine = learner()
    x = torch.full((1, 3, 4, 4), 2, dtype=torch.uint8)
    mine.memory.add(Batch(x, torch.tensor([[1.0]]), torch.tensor([[True]])), mine.generator)
    terms = mine.observe(shown(1, 0, 1))
    p = torch.tensor(-2.0).sigmoid()
    expected = bce(torch.tensor([[-1.0]]), p[None, None], torch.tensor([[True]]))
    assert terms["relabel"].item() == pytest.approx(expected.item(), rel=1e-5)


def test_all_known_leaves_nothing_to_fill() -> None:
    mine = learner()
    mine.observe(shown(2, 1, 0))
    assert mine.observe(shown(1, 0, 1))["relabel"].item() == 0


def test_answering_leaves_the_net_in_training() -> None:
    mine = learner()
    mine.net.train()
    mine.answers(torch.zeros(1, 3, 4, 4))
    assert mine.net.training


def test_negative_weight() -> None:
    with pytest.raises(ConfigError, match="relabel"):
        Relabelled.Config(relabel=-1)
