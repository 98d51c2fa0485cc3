"""The asymmetric loss over known entries, alone and as every method's classification term."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from mlcl import Learner, learners
from mlcl.config import from_tree, to_tree
from mlcl.errors import ConfigError
from mlcl.losses import Loss, asl, bce
from mlcl.types import Batch, Images, Samples, Task

METHODS = sorted(name for name, kind in learners().items() if "loss" in to_tree(kind.Config()))
LOGITS = torch.tensor([[0.5, -1.0, 2.0], [3.0, 0.0, -4.0]], dtype=torch.float64)
Y = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], dtype=torch.float64)
KNOWN = torch.tensor([[True, False, True], [True, True, True]])
GAMMAS = [(0.0, 0.0), (0.0, 4.0), (1.0, 2.0), (0.5, 0.5), (2.0, 1.5)]


def naive(z: Tensor, y: Tensor, plus: float, minus: float, clip: float) -> Tensor:
    """The formula as it is written."""
    p = z.sigmoid()
    p_m = (p - clip).clamp_min(0)
    return -(y * (1 - p) ** plus * p.log() + (1 - y) * p_m**minus * (1 - p_m).log())


def test_by_hand() -> None:
    """A positive at p = 0.5 costs log 2; a negative at p = 0.8 costs 0.75^4 log 4; one at 0.04 nothing."""
    z = torch.logit(torch.tensor([[0.5, 0.8, 0.04]]))
    loss = asl(z, torch.tensor([[1.0, 0.0, 0.0]]), torch.ones(1, 3, dtype=torch.bool))
    assert loss.item() == pytest.approx((math.log(2) + 0.75**4 * math.log(4)) / 3, rel=1e-5)


@pytest.mark.parametrize("clip", [0.0, 0.05])
@pytest.mark.parametrize(("plus", "minus"), GAMMAS)
def test_value_and_gradient_are_the_formulas(plus: float, minus: float, clip: float) -> None:
    mine, theirs = LOGITS.clone().requires_grad_(), LOGITS.clone().requires_grad_()
    loss = asl(mine, Y, KNOWN, plus, minus, clip)
    counts = KNOWN & ~((theirs.sigmoid() <= clip) & (Y == 0))  # where p_m = 0 the formula's root has no slope
    expected = naive(theirs[counts], Y[counts], plus, minus, clip).sum() / KNOWN.sum()
    loss.backward()
    expected.backward()
    assert mine.grad is not None
    assert theirs.grad is not None
    torch.testing.assert_close(loss, expected, rtol=1e-12, atol=0)
    torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-10, atol=0)


def test_sum_is_over_known_classes_and_mean_over_all_images() -> None:
    mean, total = (asl(LOGITS, Y, KNOWN, reduction=kind) for kind in ("mean", "sum"))  # type: ignore[arg-type]
    assert total.item() == pytest.approx(mean.item() * 5 / 2, rel=1e-12)


def test_without_gammas_and_clip_it_is_bce() -> None:
    torch.testing.assert_close(asl(LOGITS, Y, KNOWN, 0, 0, 0), bce(LOGITS, Y, KNOWN), rtol=1e-12, atol=0)
    config = Loss.Config(kind="asl", gamma_positive=0, gamma_negative=0, clip=0)
    loss = Loss(config)(LOGITS, Y, KNOWN, "sum")
    torch.testing.assert_close(loss, bce(LOGITS, Y, KNOWN, "sum"), rtol=1e-12, atol=0)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("where", ["y", "logits"])
def test_what_is_unknown_leaks_nowhere(where: str, bad: float) -> None:
    def run(fill: float) -> tuple[Tensor, Tensor]:
        y, logits = Y.clone(), LOGITS.clone()
        (y if where == "y" else logits)[~KNOWN] = fill
        loss = asl(logits.requires_grad_(), y, KNOWN)
        loss.backward()
        assert logits.grad is not None
        return loss.detach(), logits.grad

    (clean, clean_grad), (loss, grad) = run(0.0), run(bad)
    assert torch.equal(clean, loss)
    assert torch.equal(clean_grad, grad)
    assert (grad[~KNOWN] == 0).all()


@pytest.mark.parametrize("clip", [0.0, 0.05])
@pytest.mark.parametrize(("plus", "minus"), GAMMAS)
@pytest.mark.parametrize("y", [0.0, 1.0])
def test_finite_at_any_logit(y: float, plus: float, minus: float, clip: float) -> None:
    z = torch.tensor([[-1e4, -200.0, -30.0, -math.log(19), 0.0, 30.0, 200.0, 1e4]], requires_grad=True)
    loss = asl(z, torch.full_like(z, y), torch.ones_like(z, dtype=torch.bool), plus, minus, clip)
    loss.backward()
    assert torch.isfinite(loss)
    assert z.grad is not None
    assert torch.isfinite(z.grad).all()


def test_nothing_known_is_zero_and_still_has_a_gradient() -> None:
    z = LOGITS.clone().requires_grad_()
    loss = asl(z, torch.full_like(Y, math.nan), torch.zeros_like(KNOWN))
    loss.backward()
    assert loss.detach() == 0
    assert z.grad is not None
    assert (z.grad == 0).all()


def test_half_precision_logits_are_widened() -> None:
    z = LOGITS.to(torch.bfloat16)
    loss = asl(z, Y.float(), KNOWN)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, asl(z.float(), Y.float(), KNOWN), rtol=0, atol=0)


@pytest.mark.parametrize(
    "settings", [{"gamma_negative": -1}, {"gamma_positive": -0.5}, {"clip": 1.0}, {"clip": -0.1}]
)
def test_impossible_settings(settings: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="loss"):
        Loss.Config(kind="asl", **settings)


class Noise(Images):
    def __len__(self) -> int:
        return 8

    def load(self, indices: object) -> Tensor:
        raise AssertionError("the batches are given")


@pytest.mark.parametrize("method", METHODS)
def test_every_method_takes_it(method: str) -> None:
    """The same weights, the same batch, another classification term."""

    def first_step(kind: str) -> tuple[Learner, float]:
        config = learners()[method].Config
        tree = {"backbone": {"name": "tiny"}, "loss": {"kind": kind}}
        tree |= {name: 16 for name in ("hidden", "graph_width", "capacity") if name in to_tree(config())}  # type: ignore[misc]
        learner = learners()[method](from_tree(config, tree), seed=1)
        empty = np.zeros((0, 3), np.uint8)
        samples = Samples(Noise(), np.zeros(0, int), empty, empty.astype(bool))
        learner.begin_task(Task(0, 0, 3, ("a", "b", "c"), samples, samples))
        chance = torch.Generator().manual_seed(0)
        x = torch.randint(0, 256, (4, 3, 32, 32), generator=chance, dtype=torch.uint8)
        y = (torch.rand(4, 3, generator=chance) < 0.5).float()
        terms = learner.observe(Batch(x, y, torch.ones(4, 3, dtype=torch.bool)))
        return learner, terms["cls"].item() if "cls" in terms else math.nan

    (_, plain), (_, asymmetric) = first_step("bce"), first_step("asl")
    if math.isnan(plain):
        pytest.skip(f"{method} has no classification term")
    assert asymmetric < plain  # negatives weigh less
