"""Losses over partly known labels: means over the entries that count, zero where none does."""

from __future__ import annotations

from typing import Literal

from torch import Tensor
from torch.nn import functional as F

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
    if reduction == "sum":
        return values.where(known, 0.0).sum() / len(values)
    return masked_mean(values, known)


def distillation(logits: Tensor, soft: Tensor, reduction: Reduction = "mean") -> Tensor:
    """Binary cross-entropy against an expert's probabilities, both (B, old)."""
    values = F.binary_cross_entropy_with_logits(logits, soft, reduction="none")
    return values.sum() / len(values) if reduction == "sum" else values.mean()
