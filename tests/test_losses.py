"""Losses over partly known labels."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from mlcl.losses import bce, distillation, masked_mean

BAD = [math.nan, math.inf, -math.inf]


def by_hand(logit: float, y: float) -> float:
    p = 1 / (1 + math.exp(-logit))
    return -(y * math.log(p) + (1 - y) * math.log(1 - p))


LOGITS = torch.tensor([[0.5, -1.0, 2.0], [3.0, 0.0, -0.5]])
Y = torch.tensor([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
KNOWN = torch.tensor([[True, False, True], [False, False, True]])
KNOWN_VALUES = [by_hand(0.5, 1), by_hand(2, 1), by_hand(-0.5, 0)]


def test_mean_is_over_known_entries() -> None:
    assert bce(LOGITS, Y, KNOWN).item() == pytest.approx(sum(KNOWN_VALUES) / 3, rel=1e-6)


def test_sum_is_over_known_classes_and_mean_over_all_images() -> None:
    assert bce(LOGITS, Y, KNOWN, "sum").item() == pytest.approx(sum(KNOWN_VALUES) / 2, rel=1e-6)


def test_mean_weighs_entries_and_not_images() -> None:
    values = torch.tensor([[1.0, 2.0], [10.0, 99.0]])
    known = torch.tensor([[True, True], [True, False]])
    assert masked_mean(values, known).item() == pytest.approx(13 / 3)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_distillation(reduction: str) -> None:
    soft = torch.tensor([[0.3, 0.9], [0.5, 0.0]])
    logits = LOGITS[:, :2]
    values = [
        by_hand(logit, z) for logit, z in zip(logits.flatten().tolist(), soft.flatten().tolist(), strict=True)
    ]
    expected = sum(values) / (4 if reduction == "mean" else 2)
    assert distillation(logits, soft, reduction).item() == pytest.approx(expected, rel=1e-6)  # type: ignore[arg-type]


def test_distillation_is_least_at_the_expert() -> None:
    soft = torch.tensor([[0.3, 0.9]])
    logits = torch.logit(soft).requires_grad_()
    distillation(logits, soft).backward()
    assert logits.grad is not None
    assert logits.grad.abs().max() < 1e-6


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("where", ["y", "logits"])
@pytest.mark.parametrize("bad", BAD)
def test_what_is_unknown_leaks_nowhere(reduction: str, where: str, bad: float) -> None:
    def run(fill: float) -> tuple[Tensor, Tensor]:
        y, logits = Y.clone(), LOGITS.clone()
        (y if where == "y" else logits)[~KNOWN] = fill
        logits.requires_grad_()
        loss = bce(logits, y, KNOWN, reduction)  # type: ignore[arg-type]
        loss.backward()
        assert logits.grad is not None
        return loss.detach(), logits.grad

    (clean, clean_grad), (loss, grad) = run(0.0), run(bad)
    assert torch.equal(clean, loss)
    assert torch.equal(clean_grad, grad)
    assert (grad[~KNOWN] == 0).all()
    assert (grad[KNOWN] != 0).all()


@pytest.mark.parametrize("bad", BAD)
def test_masked_mean_of_bad_values(bad: float) -> None:
    values = torch.tensor([1.0, bad, 5.0], requires_grad=True)
    mean = masked_mean(values, torch.tensor([True, False, True]))
    mean.backward()
    assert mean.detach() == 3
    assert values.grad is not None
    assert values.grad.tolist() == [0.5, 0, 0.5]


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_nothing_known_is_zero_and_still_has_a_gradient(reduction: str) -> None:
    logits = LOGITS.clone().requires_grad_()
    loss = bce(logits, torch.full_like(Y, math.nan), torch.zeros_like(KNOWN), reduction)  # type: ignore[arg-type]
    loss.backward()
    assert loss.detach() == 0
    assert logits.grad is not None
    assert (logits.grad == 0).all()


def test_large_logits_stay_finite() -> None:
    logits = torch.tensor([[-200.0, 200.0]], requires_grad=True)
    loss = bce(logits, torch.tensor([[1.0, 0.0]]), torch.ones(1, 2, dtype=torch.bool))
    loss.backward()
    assert loss.detach() == 200
    assert logits.grad is not None
    assert logits.grad.tolist() == [[-0.5, 0.5]]
