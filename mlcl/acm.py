"""The augmented correlation matrix (ACM) and the propagation matrices derived from it.

Entry (i, j) is P(class i | class j). When a task brings new classes the matrix grows by three blocks:

    A_t = [ A_{t-1}  R ]      R: old given new     B: new given new
          [ Q        B ]      Q: new given old (Bayes' rule)

All three are one formula over labels that the expert completes where the annotator left gaps:

    co_ij = sum_x y_i y_j     seen_ij = sum_x [i is known] y_j     A_ij = co_ij / seen_ij

With every label known, seen_ij is N_j, and Q_ji = co_ij / sum_x y_i is R_ij N_j / sum_x y_i: Bayes' rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal

import torch
from torch import Tensor

Propagation = Literal["soft", "threshold", "official", "identity"]


class ACM:
    """Counts accumulate online and are sums, so ranks can add theirs; Old-Old is inherited."""

    def __init__(
        self,
        *,
        epsilon: float = 1e-6,
        inter_task: bool = True,
        old_old: Literal["inherited", "recount"] = "inherited",
        halve: bool = False,
        device: torch.device | str = "cpu",
    ):
        self.epsilon = epsilon  # the least count that divides, so that nothing is ever divided by zero
        self.inter_task = inter_task  # False: no block between classes of two tasks (the ablation)
        self.old_old = old_old
        self.halve = halve  # the released code's factor 1/2 on Q
        self.widths: list[int] = []
        self.old = torch.zeros(0, 0, dtype=torch.float64, device=device)  # A_{t-1}
        self._forget_counts()

    def grow(self, width: int) -> None:
        """A new task of `width` classes: what was counted so far becomes Old-Old."""
        self.old = self.matrix()
        self.widths.append(width)
        self._forget_counts()

    def update(self, y: Tensor, valid: Tensor) -> None:
        """y (B, S): hard labels, or the expert's probabilities; valid (B, S): is there either of them."""
        y = torch.where(valid, y.detach(), 0.0).to(torch.float64)  # a product would let a nan through
        known = valid.to(torch.float64)
        # an inherited block is not counted again, so the cost goes with the new classes alone
        start = 0 if self.old_old == "recount" else len(self.old)
        self.co[:, start:] += y.T @ y[:, start:]
        self.co[start:, :start] = self.co[:start, start:].T
        self.seen[:, start:] += known.T @ y[:, start:]
        self.seen[start:, :start] += known[:, start:].T @ y[:, :start]

    def matrix(self) -> Tensor:
        """(S, S) float64, A_t."""
        old, before = len(self.old), self.old
        if self.old_old == "recount":
            before = torch.where(self.seen[:old, :old] > 0, self._share(slice(old), slice(old)), before)
        a = torch.empty_like(self.co)
        a[:old, :old] = before
        a[:, old:] = self._share(slice(None), slice(old, None))
        a[old:, :old] = self._share(slice(old, None), slice(old))
        if self.halve:
            a[old:, :old] /= 2
        if not self.inter_task:
            task = _tasks(tuple(self.widths), a.device)
            a *= task[:, None] == task
        return a.fill_diagonal_(1)

    def state(self) -> dict[str, Any]:
        return {"widths": list(self.widths), "old": self.old, "co": self.co, "seen": self.seen}

    def load(self, state: dict[str, Any]) -> None:
        device = self.old.device
        self.widths = list(state["widths"])
        self.old, self.co, self.seen = (state[key].clone().to(device) for key in ("old", "co", "seen"))

    def _share(self, rows: slice, columns: slice) -> Tensor:
        share: Tensor = self.co[rows, columns] / self.seen[rows, columns].clamp_min(self.epsilon)
        return share.clamp_(0, 1)

    def _forget_counts(self) -> None:
        size = sum(self.widths)
        self.co = torch.zeros(size, size, dtype=torch.float64, device=self.old.device)
        self.seen = torch.zeros_like(self.co)


def propagation(a: Tensor, kind: Propagation, widths: Sequence[int], neighbours: float = 0.25) -> Tensor:
    """(S, S) ACM -> (S, S) weights by which node i (row) hears node j (column)."""
    off = a.clone().fill_diagonal_(0)
    if kind == "identity":
        return torch.zeros_like(a).fill_diagonal_(1)
    if kind == "soft":
        return _share(off, neighbours).fill_diagonal_(1 - neighbours)
    if kind == "threshold":
        return _symmetric(_share((off >= 0.4).to(off), neighbours).fill_diagonal_(1 - neighbours))
    return _official(off, _tasks(tuple(widths), a.device), neighbours)


def same_task(widths: Sequence[int]) -> Tensor:
    """(S, S) bool: do both classes belong to one task.

    >>> same_task([1, 2]).int().tolist()
    [[1, 0, 0], [0, 1, 1], [0, 1, 1]]
    """
    task = _tasks(tuple(widths), torch.device("cpu"))
    return task[:, None] == task


@lru_cache(maxsize=4)  # goes to the device once a task and not at every step
def _tasks(widths: tuple[int, ...], device: torch.device) -> Tensor:
    """(S,) the task of each class."""
    return torch.repeat_interleave(torch.arange(len(widths)), torch.tensor(widths, dtype=torch.long)).to(
        device
    )


def distance(a: Tensor, oracle: Tensor) -> dict[str, float]:
    """How far an estimate is from the truth, off the diagonal: Frobenius norm and root mean square entry.

    >>> gap = distance(torch.eye(2), torch.tensor([[1.0, 0.6], [0.8, 1.0]]))
    >>> {name: round(value, 3) for name, value in gap.items()}
    {'frobenius': 1.0, 'rms': 0.707}
    """
    gap = a.double() - oracle.double()
    gap.fill_diagonal_(0)
    entries = max(1, gap.numel() - len(gap))
    norm = float(gap.square().sum().sqrt())
    return {"frobenius": norm, "rms": norm / entries**0.5}


def _share(weights: Tensor, total: float) -> Tensor:
    # a row without neighbours stays empty
    return weights * (total / weights.sum(dim=1, keepdim=True).clamp_min(1e-6))


def _symmetric(a: Tensor) -> Tensor:
    root = a.sum(dim=1).clamp_min(1e-12).rsqrt()
    return root[:, None] * a * root[None, :]


def _official(off: Tensor, task: Tensor, neighbours: float) -> Tensor:
    """The released AGCN's recipe, block by block: thresholds .4 inside a task and .3 across, a self weight
    of 1, symmetric normalisation inside a task only."""
    same = task[:, None] == task
    inside = _share(((off >= 0.4) & same).to(off), neighbours).fill_diagonal_(1)
    across = ((off >= 0.3) & ~same).to(off)
    q = _share(across.tril(), neighbours)  # a new class shares over all old ones
    r = across.triu()  # an old class over the new ones of each task
    links = torch.zeros_like(r).index_add_(1, task, r)  # (S, S >= tasks)
    return _symmetric(inside) + q + r * (neighbours / links.clamp_min(1e-6))[:, task]
