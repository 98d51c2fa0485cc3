"""SCR: supervised contrastive replay, carried over to several labels an image.

Images are drawn together as far as their known labels overlap; a class is where its remembered positives
lie, and Platt's logistic fit on the memory turns closeness into a probability.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mlcl.errors import ConfigError
from mlcl.learner import State, Terms
from mlcl.methods.replay import Replay
from mlcl.nn.backbone import Backbone
from mlcl.types import Batch, Task


class ContrastiveNet(nn.Module):
    """A backbone with a projection that only the loss sees."""

    def __init__(self, backbone: Backbone, projection: int):
        super().__init__()
        self.backbone = backbone
        width = backbone.width
        self.project = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, projection))

    def grow(self, width: int, generator: torch.Generator) -> None:
        """Classes are means of features: there is nothing to grow."""

    def forward(self, x: Tensor) -> Tensor:
        return F.normalize(self.project(self.backbone(x)), dim=1)


class SCR(Replay, name="scr"):
    """Supervised contrastive replay: classes are the means of their remembered images' features."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Replay.Config):
        temperature: float = 0.1  # of the contrast: small = only the closest images count
        projection: int = 128  # numbers an image, for the loss alone

        def __post_init__(self) -> None:
            super().__post_init__()
            if self.temperature <= 0:
                raise ConfigError(f"temperature: must be above 0, got {self.temperature}")
            if self.projection < 1:
                raise ConfigError(f"projection: at least one number, got {self.projection}")

    net: ContrastiveNet

    def __init__(self, config: Config | None = None, *, seed: int = 0, device: str = "cpu"):
        super().__init__(config, seed=seed, device=device)
        self.means = torch.zeros(0, self.net.backbone.width, device=self.device)  # (S, D)
        self.platt = torch.zeros(2, 0, device=self.device)  # slope and offset of each class

    def build(self) -> ContrastiveNet:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(torch.randint(2**31, (), generator=self.generator)))
            return ContrastiveNet(Backbone(self.config.backbone, self.generator), self.config.projection)

    def begin_task(self, task: Task) -> None:
        super().begin_task(task)
        self._resize()

    def observe(self, batch: Batch) -> Terms:
        self.raw = batch  # the second view needs the pixels before augmentation
        terms = super().observe(batch)
        del self.raw  # images stay nowhere but in the memory
        return terms

    def losses(self, batch: Batch) -> Terms:
        views = [batch, self.augment(self.raw.to(self.device), self.generator)]
        if len(self.memory):
            places = torch.randperm(len(self.memory), generator=self.generator)[: self.config.replay]
            old = self.fetched(self.memory.batch(places, self.seen))
            views += [self.augment(old, self.generator), self.augment(old, self.generator)]
        z = self.net(torch.cat([view.x for view in views]))
        y, known = (torch.cat([getattr(view, name) for view in views]) for name in ("y", "known"))
        return {"con": contrast(z, y, known, self.config.temperature)}

    @torch.no_grad()
    def end_task(self, task: Task, batches: Iterable[Batch]) -> None:
        """Where the classes lie now, and how sure closeness makes."""
        if not len(self.memory):
            return
        self.net.eval()
        memory = self.memory.batch(torch.arange(len(self.memory)), self.seen)
        parts = torch.split(memory.x, 64)
        with self.autocast():  # as prediction will see them
            features = torch.cat([self.net.backbone(x.to(self.device)).float() for x in parts])
        features = F.normalize(features, dim=1)
        known = memory.known.to(self.device).float()
        y = memory.y.to(self.device) * known
        self.means = F.normalize(y.T @ features, dim=1)
        self.platt = platt(features @ self.means.T, y, known)

    def logits(self, x: Tensor) -> Tensor:
        feature = F.normalize(self.net.backbone(x).float(), dim=1)
        with torch.autocast(feature.device.type, enabled=False):  # bfloat16 has some 70 cosines in all
            cosine = feature @ self.means.T
        return cosine * self.platt[0] + self.platt[1]

    def state(self) -> State:
        return super().state() | {"means": self.means, "platt": self.platt}

    def load(self, state: State) -> None:
        super().load(state)
        self.means, self.platt = state["means"].to(self.device), state["platt"].to(self.device)

    def _resize(self) -> None:
        # until the task's end a new class is nowhere, and as likely as not
        more = self.seen - len(self.means)
        self.means = F.pad(self.means, (0, 0, 0, more))
        self.platt = F.pad(self.platt, (0, more))


def contrast(z: Tensor, y: Tensor, known: Tensor, temperature: float) -> Tensor:
    """z (M, P) of length 1, y and known (M, S): InfoNCE weighted by the overlap of labels known of both.

    >>> z = torch.eye(3)[[0, 0, 1]]
    >>> y, known = torch.tensor([[1.0], [1.0], [0.0]]), torch.ones(3, 1, dtype=torch.bool)
    >>> round(contrast(z, y, known, 1.0).item(), 4)  # log(1 + e^-1)
    0.3133
    """
    k = known.float()
    y = y.where(known, 0.0)
    both = y @ y.T  # labels that both show: known of both by themselves
    either = y @ k.T + k @ y.T - both
    weight = both / either.clamp_min(1)
    weight = weight.fill_diagonal_(0)
    with torch.autocast(z.device.type, enabled=False):  # exp(1 / temperature) is beyond bfloat16's digits
        similar = (z.float() @ z.float().T) / temperature
    itself = torch.eye(len(z), dtype=torch.bool, device=z.device)
    log_share = similar - similar.masked_fill(itself, -torch.inf).logsumexp(dim=1, keepdim=True)
    total = weight.sum(dim=1)
    each = -(weight * log_share.masked_fill(itself, 0)).sum(dim=1) / total.clamp_min(1e-12)
    partnered = total > 0  # a row without a partner says nothing
    return each.where(partnered, 0.0).sum() / partnered.sum().clamp_min(1)


def platt(scores: Tensor, y: Tensor, known: Tensor, steps: int = 30, ridge: float = 1e-3) -> Tensor:
    """(N, S) each -> (2, S) slope and offset of a logistic fit a class, by Newton's method, in float64.

    A class with no positive or no negative keeps slope 0; Platt's smoothed targets keep the others finite.
    """
    s, y, k = scores.double(), y.double(), known.double()
    positive, negative = (y * k).sum(0), ((1 - y) * k).sum(0)
    target = torch.where(y > 0.5, (positive + 1) / (positive + 2), 1 / (negative + 2))
    offset = torch.log((positive + 1) / (negative + 1))
    fit = torch.stack([torch.zeros_like(offset), offset])
    for _ in range(steps):
        p = (s * fit[0] + fit[1]).sigmoid()
        error, weight = k * (p - target), k * (p * (1 - p)).clamp_min(1e-6)
        g0, g1 = (error * s).sum(0) + ridge * fit[0], error.sum(0)
        h00, h01, h11 = (weight * s * s).sum(0) + ridge, (weight * s).sum(0), weight.sum(0) + 1e-9
        determinant = (h00 * h11 - h01 * h01).clamp_min(1e-12)
        step = torch.stack([(h11 * g0 - h01 * g1) / determinant, (h00 * g1 - h01 * g0) / determinant])
        fit = fit - step.clamp(-20, 20)
    useful = (positive > 0) & (negative > 0)
    silent = torch.stack([torch.zeros_like(offset), offset])
    return torch.where(useful, fit, silent).to(scores.dtype)
