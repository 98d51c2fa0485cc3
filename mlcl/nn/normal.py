"""Least squares from sums alone: what a closed-form learner keeps of its images.

With z = [features, 1] the sums are G = sum w z z', C = sum w z y' and sum w y y (its diagonal), all in
float64. They add up: over batches, over tasks, over ranks; and what was added can be taken out again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from mlcl.errors import RunError

ROWS = 1024  # rows that wait for one product; a product a batch would move G through memory each time
STRIP = 1024  # columns of G worked out at once; only what is on or below the diagonal is
SURE = 2.0  # logits; what sums say beyond that is too sure of itself, on real data
PROBES = 64  # random vectors that estimate a trace


class NormalEquations:
    """The sums of a linear model from D features to S columns."""

    def __init__(self, features: int, columns: int = 0, device: torch.device | str = "cpu"):
        # of a symmetric matrix only what is on and below the diagonal means anything
        self.gram: Tensor = torch.zeros(features + 1, features + 1, dtype=torch.float64, device=device)
        self.cross: Tensor = torch.zeros(features + 1, columns, dtype=torch.float64, device=device)
        self.square: Tensor = torch.zeros(columns, dtype=torch.float64, device=device)
        self.positive: Tensor = torch.zeros(columns, dtype=torch.float64, device=device)  # targets in 0..1

    def add(self, z: Tensor, y: Tensor, sign: float = 1.0) -> None:
        """z (B, D + 1), y (B, S); `sign` -1 takes them out again."""
        z, y = z.double(), y.double()
        for a in range(0, len(self.gram), STRIP):
            self.gram[a:, a : a + STRIP].addmm_(z[:, a:].T, z[:, a : a + STRIP], alpha=sign)
        self.cross.addmm_(z.T, y, alpha=sign)
        self.square += sign * y.square().sum(dim=0)
        self.positive += sign * y.clamp(0, 1).sum(dim=0)

    def grow(self, columns: int) -> None:
        """New classes: every image so far counts as one that does not show them."""
        more = columns - self.cross.shape[1]
        self.cross = torch.cat([self.cross, self.cross.new_zeros(len(self.cross), more)], dim=1)
        self.square = torch.cat([self.square, self.square.new_zeros(more)])
        self.positive = torch.cat([self.positive, self.positive.new_zeros(more)])

    def merge(self, other: NormalEquations, sign: float = 1.0) -> None:
        """Adds another's sums, such as another rank's; columns that it does not have yet stay."""
        columns = other.cross.shape[1]
        self.gram.add_(other.gram, alpha=sign)
        self.cross[:, :columns].add_(other.cross, alpha=sign)
        self.square[:columns].add_(other.square, alpha=sign)
        self.positive[:columns].add_(other.positive, alpha=sign)

    def clone(self) -> NormalEquations:
        return NormalEquations.of(self.tensors(), self.gram.device)

    @classmethod
    def of(cls, tensors: dict[str, Tensor], device: torch.device | str) -> NormalEquations:
        """From what `tensors` gave; a copy."""
        sums = cls(0)
        for name, tensor in tensors.items():
            setattr(sums, name, tensor.clone().to(device))
        return sums

    def tensors(self) -> dict[str, Tensor]:
        """The sums themselves, to be saved, or all-reduced in place."""
        names = ("gram", "cross", "square", "positive")
        return {name: getattr(self, name) for name in names}

    @property
    def features(self) -> int:
        return len(self.gram) - 1

    @property
    def columns(self) -> int:
        return self.cross.shape[1]

    @property
    def images(self) -> Tensor:
        """() how many rows."""
        n: Tensor = self.gram[-1, -1]
        return n


@dataclass(frozen=True)
class Fit:
    """What the sums say: scores are z @ weights, probabilities sigmoid(slope * score + offset)."""

    weights: Tensor  # (D + 1, S) float64
    slope: Tensor  # (S,)
    offset: Tensor  # (S,)
    prior: Tensor  # (S,) share of images that show the class, as far as anyone said so
    penalty: Tensor  # (S,) of those offered, the one that is used
    leverage: Tensor  # (S,) how much of its own score an image's target decides, on average

    def probabilities(self, scores: Tensor) -> Tensor:
        """Strictly rising with the score, in float32 too: beyond SURE, certainty grows with the logarithm."""
        logits = self.slope * scores + self.offset
        beyond = (logits.abs() - SURE).clamp_min(0)
        return (logits.clamp(-SURE, SURE) + logits.sign() * beyond.log1p()).sigmoid()


class _Attempt(NamedTuple):
    """One penalty; (S,) each, but weights (D + 1, S)."""

    error: Tensor  # generalised cross-validation's sum of squares
    weights: Tensor
    energy: Tensor  # the sum of s s, of scores s
    leverage: Tensor
    penalty: Tensor


def solve(sums: NormalEquations, penalties: Sequence[float], classwise: bool = False) -> Fit:
    """Ridge regression. A penalty speaks for weight zero as loudly as so many images speak for theirs.

    It weighs each feature by its variance, so that no feature counts more for being measured in other units.
    Of several the one with the least generalised cross-validation error is taken: for each class the best of
    all, or for all classes together the one to which the error falls from the middle of them. Everything is
    worked out from the sums; no image is needed.
    """
    assert penalties, "name one"
    ladder = sorted(penalties)
    if classwise:
        each = [_attempt(sums, penalty) for penalty in ladder]
        best = each[0]
        for new in each[1:]:
            better = new.error < best.error
            best = _Attempt(*(n.where(better, b) for n, b in zip(new, best, strict=True)))
    else:
        place = len(ladder) // 2
        best = _attempt(sums, ladder[place])
        for direction in (-1, 1):
            moved = False
            while 0 <= place + direction < len(ladder):
                new = _attempt(sums, ladder[place + direction])
                if new.error.sum() >= best.error.sum():
                    break
                best, place, moved = new, place + direction, True
            if moved:
                break
    slope, offset, prior = _calibrate(sums, best.weights, best.energy, best.leverage)
    return Fit(best.weights, slope, offset, prior, best.penalty, best.leverage)


def _attempt(sums: NormalEquations, penalty: float) -> _Attempt:
    images, columns = sums.images.clamp_min(1), sums.columns
    square = sums.gram.diagonal() / images
    # a constant feature is left what rounding leaves of its variance
    variance = (square - (sums.gram[-1] / images).square()).maximum(1e-12 * square).clamp_min(1e-12)
    variance[-1] = 1e-9  # the bias is free
    shrink = penalty * variance
    # trace of (G + R)^-1 G by Hutchinson's estimate: exactly it would be as dear as the solution
    chance = torch.Generator().manual_seed(0)
    probes = torch.randint(0, 2, (len(shrink), PROBES), generator=chance).to(shrink) * 2 - 1
    solved = torch.cholesky_solve(torch.cat([sums.cross, probes], dim=1), _factor(sums.gram, shrink))
    weights = solved[:, :columns]
    freedom = len(shrink) - (shrink[:, None] * probes * solved[:, columns:]).sum() / PROBES
    leverage = (freedom / images).clamp(0, 0.99)
    fitted = (weights * sums.cross).sum(dim=0)  # the sum of y s
    shrunk = (shrink[:, None] * weights.square()).sum(dim=0)  # by so much the sum of s s is less
    error = (sums.square - fitted - shrunk) / (1 - leverage).square()
    used = torch.full_like(error, penalty)
    return _Attempt(error, weights, fitted - shrunk, leverage.expand(columns), used)


def _factor(gram: Tensor, shrink: Tensor) -> Tensor:
    damped = gram.clone()
    damped.diagonal().add_(shrink)
    factor: Tensor
    factor, failed = torch.linalg.cholesky_ex(damped)  # reads the lower triangle alone
    if failed:
        what = "features that are not finite, or penalties that are too small"
        raise RunError(f"ridge: the normal equations have no solution in float64 ({what})")
    return factor


def _calibrate(
    sums: NormalEquations, weights: Tensor, energy: Tensor, leverage: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Platt's slope and offset without an image: scores of either kind are taken for normal, equally wide.

    Their means and their width follow from the sums. An image drew its own score towards its target by its
    leverage; that is taken off first, as leave-one-out would, with the mean leverage for each image's own.
    """
    images = sums.images.clamp_min(1)
    prior = (sums.positive / images).clamp(0, 1)
    mean = (weights * sums.gram[-1, :, None]).sum(dim=0) / images
    product = (weights * sums.cross).sum(dim=0) / images  # mean of y s
    square = sums.square / images
    out = 1 - leverage
    mean_out = (mean - leverage * prior) / out
    product_out = (product - leverage * square) / out
    energy_out = (energy / images - 2 * leverage * product + leverage.square() * square) / out.square()
    inside = (prior * (1 - prior)).clamp_min(1e-12)
    gap = (product_out - prior * mean_out) / inside  # between the means of the two kinds
    spread = energy_out - mean_out.square()
    # half of the spread at least is within the kinds: self-labels make sums that no two kinds would have
    width = (spread - inside * gap.square()).maximum(spread / 2).clamp_min(1e-12)
    useful = (prior > 0) & (prior < 1) & (gap > 0)
    slope = (gap / width).clamp_max(1e4)
    middle = mean_out + (0.5 - prior) * gap
    offset = torch.logit(prior.clamp(1e-9, 1 - 1e-9)) - slope * middle
    silent = torch.log((sums.positive.clamp_min(0) + 1) / (images - sums.positive).clamp_min(0).add(1))
    return slope.where(useful, 0.0), offset.where(useful, silent), prior


def fill_in_past(
    sums: NormalEquations, before: NormalEquations, old: int, share: float, penalty: float
) -> None:
    """Nobody asked the images before this task for its classes; fill that in, as far as sums can.

    The new columns are fitted with those images' weight as negatives lowered by `share`, and `share` of what
    they then say of each earlier image becomes its target: in sums, that is share * G_before @ weights.
    """
    lowered = sums.clone()
    lowered.merge(before, sign=-share)
    lowered.cross, lowered.square = lowered.cross[:, old:], lowered.square[old:]
    lowered.positive = lowered.positive[old:]
    weights = solve(lowered, [penalty]).weights
    said = symmetric(before.gram, weights)
    sums.cross[:, old:] += share * said
    sums.square[old:] += share**2 * (weights * said).sum(dim=0)
    sums.positive[old:] += share * said[-1].clamp_min(0)


def symmetric(lower: Tensor, x: Tensor) -> Tensor:
    """The product of a symmetric matrix, of which the lower triangle is given, with x."""
    product: Tensor = lower.tril() @ x + lower.tril(-1).T @ x
    return product
