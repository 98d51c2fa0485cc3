"""Losses over partly known labels: means over the entries that count, zero where none does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from mlcl.errors import ConfigError

Reduction = Literal["mean", "sum"]  # over classes; over images it is always the mean


def masked_mean(values: Tensor, known: Tensor) -> Tensor:
    """
    >>> import torch
    >>> masked_mean(torch.tensor([1.0, 3.0, 9.0]), torch.tensor([True, True, False]))
    tensor(2.)
    """
    # where() and not a product: a masked entry may be infinite or not a number
    return values.where(known, 0.0).sum() / known.sum().clamp_min(1)


def bce(logits: Tensor, y: Tensor, known: Tensor, reduction: Reduction = "mean") -> Tensor:
    """Classification: binary cross-entropy over known entries, all (B, S)."""
    # before the loss too: a gradient of 0 times a label that is not a number would be none either
    logits, y = logits.where(known, 0.0), y.where(known, 0.0)
    values = F.binary_cross_entropy_with_logits(logits, y, reduction="none")
    return _reduced(values, known, reduction)


def asl(
    logits: Tensor,
    y: Tensor,
    known: Tensor,
    gamma_positive: float = 0.0,
    gamma_negative: float = 4.0,
    clip: float = 0.05,
    reduction: Reduction = "mean",
) -> Tensor:
    """Classification, asymmetric loss: easy entries weigh less, negatives below `clip` nothing.

    -[y (1-p)^g+ log p + (1-y) p_m^g- log(1-p_m)] with p_m = max(p - clip, 0), over known entries, all (B, S).
    """
    z, y = logits.where(known, 0.0), y.where(known, 0.0)
    z = z.to(torch.promote_types(z.dtype, torch.float32))  # powers of p are beyond bfloat16's digits
    # powers as exponentials of logarithms: no root or quotient at 0, so no gradient that is not a number
    positive = (gamma_positive * F.logsigmoid(-z)).exp() * F.logsigmoid(z)
    if clip:
        p = z.sigmoid() - clip
        counts = p > 0
        p = p.where(counts, 0.5)  # before the power too, for the gradient's sake
        negative = (p**gamma_negative * torch.log1p(-p)).where(counts, 0.0)
    else:
        negative = (gamma_negative * F.logsigmoid(z)).exp() * F.logsigmoid(-z)
    return _reduced(-(y * positive + (1 - y) * negative), known, reduction)


class Loss:
    """The classification term of every method that descends."""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        kind: Literal["bce", "asl"] = "bce"  # asl: the asymmetric loss; the others below are its own
        gamma_positive: float = 0.0  # how little an easy positive weighs
        gamma_negative: float = 4.0  # how little an easy negative weighs
        clip: float = 0.05  # negatives below this probability weigh nothing

        def __post_init__(self) -> None:
            if self.gamma_positive < 0 or self.gamma_negative < 0:
                raise ConfigError("loss.gamma_positive and loss.gamma_negative: cannot be negative")
            if not 0 <= self.clip < 1:
                raise ConfigError(f"loss.clip: {self.clip} is not within 0 and 1")

    def __init__(self, config: Config):
        self.config = config

    def __call__(self, logits: Tensor, y: Tensor, known: Tensor, reduction: Reduction = "mean") -> Tensor:
        c = self.config
        if c.kind == "bce":
            return bce(logits, y, known, reduction)
        return asl(logits, y, known, c.gamma_positive, c.gamma_negative, c.clip, reduction)


def distillation(logits: Tensor, soft: Tensor, reduction: Reduction = "mean") -> Tensor:
    """Binary cross-entropy against an expert's probabilities, both (B, old)."""
    values = F.binary_cross_entropy_with_logits(logits, soft, reduction="none")
    return values.sum() / len(values) if reduction == "sum" else values.mean()


def _reduced(values: Tensor, known: Tensor, reduction: Reduction) -> Tensor:
    if reduction == "sum":
        return values.where(known, 0.0).sum() / len(values)
    return masked_mean(values, known)
