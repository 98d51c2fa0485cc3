"""A-GEM: a step must not raise the loss on remembered images, to first order."""

from __future__ import annotations

import torch
from torch import Tensor

from mlcl.learner import Terms
from mlcl.methods.replay import Replay
from mlcl.types import Batch


class AGEM(Replay, name="a-gem"):
    """Turns a gradient that would raise the loss on remembered images."""

    def losses(self, batch: Batch) -> Terms:
        return {"cls": self.classification(self.net(batch.x), batch.y, batch.known)}

    def after_backward(self, batch: Batch) -> None:
        if not self.old or not len(self.memory):  # from the second task on
            return
        parameters = [p for p in self.net.parameters() if p.grad is not None]
        gradient = [p.grad for p in parameters if p.grad is not None]
        old = self.replayed()
        with self.autocast():
            loss = self.classification(self.net(old.x), old.y, old.known)
        reference = torch.autograd.grad(loss, parameters, allow_unused=True)
        for p, projected in zip(parameters, project(gradient, list(reference)), strict=True):
            p.grad = projected


def project(g: list[Tensor], r: list[Tensor | None]) -> list[Tensor]:
    """g - (g.r / r.r) r where g.r < 0, and g elsewhere; both as lists of one tensor a parameter.

    >>> project([torch.tensor([1.0, 1.0])], [torch.tensor([-2.0, 0.0])])
    [tensor([0., 1.])]
    >>> project([torch.tensor([1.0, 1.0])], [torch.tensor([2.0, 0.0])])
    [tensor([1., 1.])]
    """
    both = [(a, b) for a, b in zip(g, r, strict=True) if b is not None]
    flat_g, flat_r = (torch.cat([pair[k].flatten() for pair in both]) for k in (0, 1))
    # 0 where they agree: no branch, no waiting
    share = (flat_g @ flat_r / (flat_r @ flat_r).clamp_min(1e-30)).clamp_max(0)
    return [a if b is None else a - share * b for a, b in zip(g, r, strict=True)]
