"""What a learner knows, as numbers: average precision, the seven metrics of the paper, forgetting.

Everything is a fraction in 0..1, and nan where a number has no meaning: never a made-up 0.
Shapes: N images in a test set, C classes, T tasks.

`known` says which labels of a test set exist. Where it is False, neither the score nor the target is
read, in any metric. Where the paper leaves a choice (D11-D16):

- A score equal to the threshold is a prediction.
- A class that is never predicted has precision 0.
- A class without a positive is left out of mAP, CP, CR, CF1 and F1. It stays in OP, OR and OF1, which
  pool all classes: predicting it is an error there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlcl.errors import DataError

METRICS = ("mAP", "CP", "CR", "CF1", "OP", "OR", "OF1", "F1")


def average_precision(scores: np.ndarray, targets: np.ndarray, known: np.ndarray | None = None) -> np.ndarray:
    """(N, C) probabilities, 0/1 and bool -> (C,) AP of each class, nan for a class without a positive.

    The mean, over a class's positives, of the precision among the images that score at least as high.
    That is scikit-learn's definition, ties included.

    >>> scores = np.array([[0.9, 0.5], [0.8, 0.5], [0.7, 0.5]])
    >>> targets = np.array([[1, 0], [0, 1], [1, 0]])
    >>> average_precision(scores, targets).round(3).tolist()  # (1/1 + 2/3) / 2, 1/3
    [0.833, 0.333]
    """
    scores, positive, known = _checked(scores, targets, known)
    ap = np.full(scores.shape[1], np.nan)
    for c in np.flatnonzero(positive.any(axis=0)):
        # Sorting values and looking the positives up is several times faster than an argsort, and
        # images that tie count together on both sides without further care.
        everyone = np.sort(scores[:, c][known[:, c]])
        hits = np.sort(scores[:, c][positive[:, c]])
        at_least = len(everyone) - np.searchsorted(everyone, hits)
        hits_at_least = len(hits) - np.searchsorted(hits, hits)
        ap[c] = np.mean(hits_at_least / at_least)
    return ap


def evaluate(
    scores: np.ndarray,
    targets: np.ndarray,
    known: np.ndarray | None = None,
    threshold: float | np.ndarray = 0.5,
) -> dict[str, float]:
    """(N, C) as in `average_precision` and a threshold, or (C,) of them -> METRICS.

    CF1 is the harmonic mean of CP and CR, as in the paper; F1 is the mean of each class's own F1.

    >>> scores = np.array([[0.9, 0.6], [0.8, 0.2], [0.1, 0.7], [0.6, 0.3]])
    >>> targets = np.array([[1, 0], [1, 1], [0, 1], [0, 0]])  # 2 of 3 predictions right, 1 of 2
    >>> {name: round(value, 3) for name, value in evaluate(scores, targets).items()}
    {'mAP': 0.875, 'CP': 0.583, 'CR': 0.75, 'CF1': 0.656, 'OP': 0.6, 'OR': 0.75, 'OF1': 0.667, 'F1': 0.65}
    """
    ap = average_precision(scores, targets, known)
    scores, positive, known = _checked(scores, targets, known)
    # In the precision of the scores: a float32 0.7 must reach a threshold of 0.7, however it is given.
    predicted = known & (scores >= np.asarray(threshold, dtype=scores.dtype))
    n_correct = (predicted & positive).sum(axis=0)
    n_predicted, n_positive = predicted.sum(axis=0), positive.sum(axis=0)

    counts = n_positive > 0
    correct, guessed, actual = n_correct[counts], n_predicted[counts], n_positive[counts]
    cp = _mean(correct / np.maximum(guessed, 1))
    cr = _mean(correct / actual)
    op = float(n_correct.sum() / max(n_predicted.sum(), 1))
    or_ = float(n_correct.sum() / n_positive.sum()) if counts.any() else math.nan
    f1 = _mean(2 * correct / (guessed + actual))
    values = (_mean(ap[counts]), cp, cr, _harmonic(cp, cr), op, or_, _harmonic(op, or_), f1)
    return dict(zip(METRICS, values, strict=True))


@dataclass(frozen=True)
class Scores:
    """One learner on one test set."""

    metrics: dict[str, float]  # by the names in METRICS
    ap: dict[str, float]  # by class name, in stream order; nan for a class without a positive

    @classmethod
    def of(
        cls,
        scores: np.ndarray,
        targets: np.ndarray,
        class_names: Sequence[str],
        known: np.ndarray | None = None,
        threshold: float | np.ndarray = 0.5,
    ) -> Scores:
        """(N, C) as in `evaluate`, with the names of the C columns.

        >>> Scores.of(np.array([[0.9, 0.2]]), np.array([[1, 0]]), ["cat", "dog"]).left_out
        ('dog',)
        """
        ap = average_precision(scores, targets, known).tolist()
        return cls(evaluate(scores, targets, known, threshold), dict(zip(class_names, ap, strict=True)))

    @property
    def left_out(self) -> tuple[str, ...]:
        """The classes without a positive, which mAP, CP, CR, CF1 and F1 do not cover."""
        return tuple(name for name, ap in self.ap.items() if math.isnan(ap))

    def to_json(self) -> dict[str, Any]:
        """One flat level of metrics, then `ap` by class name and the names `left_out`; None for nan."""
        return {**none_for_nan(self.metrics), "ap": none_for_nan(self.ap), "left_out": list(self.left_out)}


def forgetting(a: np.ndarray) -> dict[str, float]:
    """a (T, T), a[l, j] measured after task l on test set j -> what was lost of the earlier test sets.

    The mean over j < T - 1 of three readings of the paper's formula (D11); below 0 it improved:

    - absolute: the best of a[j..T-2, j], minus a[T-1, j]. The paper's text.
    - relative_max: that, as a share of the best.
    - relative_first: a[j, j] - a[T-1, j], as a share of a[j, j]. The code released with AGCN.

    nan after one task (nothing could be forgotten yet), and nan if a value is missing that the
    definition asks for, as in a joint learner: no average over what happens to be there. A test set
    whose reference is 0 has no share to lose and is left out of that mean. For the forgetting after
    an earlier task t pass a[: t + 1, : t + 1].

    >>> a = np.array([[0.8, np.nan, np.nan], [0.9, 0.5, np.nan], [0.6, 0.4, 0.7]])
    >>> {name: round(value, 3) for name, value in forgetting(a).items()}  # .3 and .1 lost
    {'absolute': 0.2, 'relative_max': 0.267, 'relative_first': 0.225}
    """
    last = _last_task(a)
    first, final = np.diag(a)[:last], a[last, :last]
    best = np.array([a[j:last, j].max() for j in range(last)])
    return {
        "absolute": _mean(best - final),
        "relative_max": _mean_share_lost(best, final),
        "relative_first": _mean_share_lost(first, final),
    }


def aggregate(a: np.ndarray) -> dict[str, float]:
    """a (T, T), as in `forgetting` -> the three numbers that are called "the" mAP (D12).

    - final: the last learner on the last test set, all classes.
    - mean_over_tests: the last learner, mean over the T cumulative test sets. The paper's tables.
    - incremental: the mean of a[t, t]; nan for a joint learner, which has only the last row.

    >>> a = np.array([[0.8, np.nan, np.nan], [0.9, 0.5, np.nan], [0.6, 0.4, 0.7]])
    >>> {name: round(value, 3) for name, value in aggregate(a).items()}  # .7, 1.7 / 3, 2.0 / 3
    {'final': 0.7, 'mean_over_tests': 0.567, 'incremental': 0.667}
    """
    last = _last_task(a)
    return {
        "final": float(a[last, last]),
        "mean_over_tests": _mean(a[last]),
        "incremental": _mean(np.diag(a)),
    }


def summarise(a: np.ndarray) -> dict[str, float | None]:
    """The (T, T) matrix of one metric -> one flat row for JSON, None for nan.

    >>> for name, value in summarise(np.array([[0.8, np.nan], [0.6, 0.5]])).items():
    ...     print(name, round(value, 3))
    final 0.5
    mean_over_tests 0.55
    incremental 0.65
    forgetting_absolute 0.2
    forgetting_relative_max 0.25
    forgetting_relative_first 0.25
    """
    return none_for_nan(aggregate(a) | {f"forgetting_{form}": value for form, value in forgetting(a).items()})


def none_for_nan(values: Mapping[str, float]) -> dict[str, float | None]:
    """JSON has no nan.

    >>> none_for_nan({"final": 0.5, "incremental": math.nan})
    {'final': 0.5, 'incremental': None}
    """
    return {name: None if math.isnan(value) else value for name, value in values.items()}


def _checked(
    scores: np.ndarray, targets: np.ndarray, known: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(N, C) each: floating scores, known positives, known entries."""
    scores, targets = np.asarray(scores), np.asarray(targets)
    known = np.ones(targets.shape, dtype=bool) if known is None else np.asarray(known, dtype=bool)
    if scores.ndim != 2 or not scores.shape == targets.shape == known.shape:
        shapes = f"{scores.shape}, {targets.shape} and {known.shape}"
        raise DataError(f"scores, targets and known must be of one shape, (images, classes), got {shapes}")
    # -1 often means absent, and a diverged learner says nan: both would pass as plausible numbers.
    if (odd := known & (targets != 0) & (targets != 1)).any():
        raise DataError(f"targets must be 0 or 1 where known, got {targets[odd][0]}")
    if (odd := known & np.isnan(scores)).any():
        column = odd.any(axis=0).argmax()
        raise DataError(f"scores must be numbers, got nan in column {column}: has the learner diverged?")
    # Hard 0/1 predictions are scores too, but a threshold of 0.5 must not become an integer with them.
    scores = scores if scores.dtype.kind == "f" else scores.astype(np.float64)
    return scores, known & (targets == 1), known


def _last_task(a: np.ndarray) -> int:
    assert a.shape == (len(a), len(a)) != (0, 0), f"not a (T, T) matrix: {a.shape}"
    return len(a) - 1


def _mean(values: np.ndarray) -> float:
    """nan for nothing, without numpy's warning."""
    return float(values.mean()) if values.size else math.nan


def _harmonic(p: float, r: float) -> float:
    return 0.0 if p + r == 0 else 2 * p * r / (p + r)


def _mean_share_lost(reference: np.ndarray, final: np.ndarray) -> float:
    some = reference != 0
    return _mean((reference[some] - final[some]) / reference[some])
