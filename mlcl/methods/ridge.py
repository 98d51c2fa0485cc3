"""Ridge: the features never learn, so the best linear model is a formula over sums, and nothing is forgotten.

Each task adds its images to the normal equations (mlcl.nn.normal), where every image stays as an example of
what the classes after it do not look like. Labels that nobody gave for earlier classes are said by the model
itself, as it was before the task.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from mlcl import ranks
from mlcl.data.features import featurise
from mlcl.data.fill import Progress, ignore
from mlcl.data.table import LabelTable
from mlcl.errors import ConfigError, DataError
from mlcl.learner import Learner, State, Terms
from mlcl.nn.backbone import Backbone
from mlcl.nn.deep import Depth, Pool, RandomReLU, deep_features
from mlcl.nn.normal import ROWS, Fit, NormalEquations, fill_in_past, solve
from mlcl.types import Batch, Task


class Ridge(Learner, name="ridge"):
    """Ridge regression on a frozen backbone: closed form, no replay, no gradient, no forgetting."""

    shareable = True

    @dataclass(frozen=True, kw_only=True)
    class Config:
        backbone: Backbone.Config = field(default_factory=Backbone.Config)  # of which only features are used
        depth: Depth = "stages"  # last: the last maps; stages: those of the last three stages as well
        pool: Pool = "mean+max"  # of each map
        mirror: bool = False  # features are the average of the image's and its mirror's: twice the time
        random: int = 0  # so many random ReLU features beside the others
        precision: Literal["float32", "bfloat16"] = "float32"  # of the backbone
        # A penalty counts as so many images that speak for weight zero. Generalised cross-validation takes
        # one of them, from the sums: from the middle it goes where the error falls.
        penalties: tuple[float, ...] = (100.0, 300.0, 1000.0, 3000.0, 1e4, 3e4, 1e5, 3e5)
        classwise: bool = False  # a penalty for each class
        # What unknown old columns are taken for: no; the model's own score; yes above the threshold.
        unknown: Literal["zero", "soft", "hard"] = "soft"
        sharpness: float = 1.5  # soft: power of the score, which quiets what is unsure
        threshold: float = 0.5  # hard
        past: float = 0.5  # share of earlier images' unknown new labels that is filled in, through sums
        unlearn: bool = False  # keep each task's sums, so that it can be forgotten

        def __post_init__(self) -> None:
            if not self.penalties or min(self.penalties) <= 0:
                raise ConfigError(f"penalties: {list(self.penalties)}; name at least one number above 0")
            for name, low, high in (("threshold", 0.0, 1.0), ("past", 0.0, 1.0), ("sharpness", 0.1, 10.0)):
                if not low <= getattr(self, name) <= high:
                    raise ConfigError(f"{name}: {getattr(self, name)} is not within {low:g} and {high:g}")
            if self.random < 0:
                raise ConfigError(f"random: {self.random} is negative")
            if self.unlearn and (self.unknown != "zero" or self.past):
                raise ConfigError(
                    "unlearn: what a task said of other tasks' images cannot be taken back; "
                    'set unknown = "zero" and past = 0'
                )

    def __init__(self, config: Any = None, *, seed: int = 0, device: str = "cpu"):
        super().__init__(config, seed=seed, device=device)
        self.backbone = Backbone(self.config.backbone, self.generator).requires_grad_(False).eval()
        self.backbone.to(self.device)
        self.map = RandomReLU(
            self.config.random, seed=int(torch.randint(2**62, (), generator=self.generator))
        )
        self.sums: NormalEquations | None = None  # None until a batch shows how many features there are
        self.before: NormalEquations | None = None  # the sums as the task began, if they are wanted
        self.parts: list[NormalEquations] = []  # each task's own sums, if it may be forgotten
        self.waiting: list[tuple[Tensor, Tensor, Tensor]] = []  # features (n, D), y and known (n, S)
        self.teacher = torch.zeros(0, 0, dtype=torch.float64)  # (D + 1, old): the model as the task began
        self.penalty = 0.0  # that of the teacher, in the middle of its classes'
        self._fit: Fit | None = None  # what the sums say, worked out when it is asked for

    @torch.no_grad()
    def features(self, x: Tensor) -> Tensor:
        """Images (B, 3, H, W), or features (B, D) that were worked out before -> (B, D)."""
        if x.ndim == 2:
            return x.to(self.device).float()
        c = self.config
        with torch.autocast(self.device.type, torch.bfloat16, enabled=c.precision == "bfloat16"):
            return deep_features(self.backbone, x.to(self.device), c.depth, c.pool, c.mirror)

    def cached(self, table: LabelTable, folder: Path | str, progress: Progress = ignore) -> LabelTable:
        """The table with features in the place of images, worked out once; learning decodes nothing then."""
        c, content = self.config, hashlib.sha256()
        for tensor in self.backbone.state_dict().values():
            content.update(tensor.cpu().numpy().tobytes())
        key = f"ridge {self.backbone.size} {c.depth} {c.pool} {c.mirror} {c.precision} {content.hexdigest()}"
        images = featurise(table.images, table.refs, folder, self.features, key, progress=progress)
        return replace(table, images=images)

    def begin_task(self, task: Task) -> None:
        if self.sums is not None:
            self._flush()
            self.teacher, self.penalty = self.fit.weights, float(self.fit.penalty.median())
        super().begin_task(task)
        if self.sums is not None:
            self.sums.grow(self.seen)
        self._fit = None
        self._begin()

    def observe(self, batch: Batch) -> Terms:
        batch = batch.to(self.device)
        # features are all that several processes have to exchange: the rest is little, and the same in each
        f, y, known = ranks.gathered(batch.of, self.features(batch.x), batch.y, batch.known)
        some = known.any(dim=1)  # of a broken image nothing is known: it is no example of anything
        f, y, known = f[some], y[some].where(known[some], 0.0), known[some]
        if self.sums is None:
            self.sums = NormalEquations(f.shape[1] + self.config.random, self.seen, self.device)
            self._begin()
        elif f.shape[1] != (width := self.sums.features - self.config.random):
            raise DataError(f"ridge: features of width {f.shape[1]}, those before had {width}")
        self.waiting.append((f, y, known))
        self._fit = None
        if sum(len(y) for _, y, _ in self.waiting) >= ROWS:
            self._flush(whole=False)
        return {"positives": y.sum() / max(1, len(y))}

    def end_task(self, task: Task, batches: Iterable[Batch]) -> None:
        if self.sums is None:
            return
        self._flush()
        if self.before is not None:
            if self.config.past and self.old:
                fill_in_past(self.sums, self.before, self.old, self.config.past, self.penalty)
            if self.config.unlearn:
                part = self.sums.clone()
                part.merge(self.before, sign=-1)
                self.parts.append(part)
            self.before = None
        self._fit = None

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        return self.probabilities(self.features(x)).float()

    def probabilities(self, f: Tensor) -> Tensor:
        """(B, D) -> (B, S)."""
        if self.sums is None:
            return f.new_full((len(f), self.seen), 0.5)  # nothing was learnt yet
        return self.fit.probabilities(self.design(f) @ self.fit.weights)

    def design(self, f: Tensor) -> Tensor:
        """(B, D) -> z (B, D + random + 1): features, their random map, and the constant."""
        return torch.cat(
            [f, *([self.map(f)] if self.map.width else []), f.new_ones(len(f), 1)], dim=1
        ).double()

    @property
    def fit(self) -> Fit:
        """What all images so far say, those that wait included."""
        assert self.sums is not None, "nothing was learnt yet"
        if self._fit is None:
            sums = self.sums
            if self.waiting and (self.map.mean is not None or not self.map.width):
                sums = sums.clone()
                self._add(sums, *self._gathered())
            self._fit = solve(sums, self.config.penalties, self.config.classwise)
        return self._fit

    def learnt(self, targets: Tensor) -> None:
        """Targets (B, S) went into the sums; for methods that count something else in them."""

    def targets(self, z: Tensor, y: Tensor, known: Tensor) -> Tensor:
        """(B, S) float64: labels where known; of old classes else what the model said as the task began."""
        c, old = self.config, self.teacher.shape[1]
        t = y.double().where(known, 0.0)
        if c.unknown == "zero" or not old:
            return t
        said = (z @ self.teacher).clamp_max(1)
        if c.unknown == "soft":  # a score below 0 stays: the model as it was learns nothing from its own no
            said = said.where(said < 0, said.clamp_min(0) ** c.sharpness)
        else:
            said = (said >= c.threshold).double()
        t[:, :old] = t[:, :old].where(known[:, :old], said)
        return t

    def forget(self, task: int) -> None:
        """Unlearns a task: what is left is as if its images had never been seen."""
        if not self.config.unlearn:
            raise ConfigError("unlearn: is off, so no task's own sums were kept; set it before learning")
        if not 0 <= task < len(self.parts):
            raise ConfigError(f"forget: no task {task}; {len(self.parts)} were learnt (the first is 0)")
        assert self.sums is not None
        self._flush()
        part = self.parts[task]
        for sums in (self.sums, self.before):
            if sums is not None:
                sums.merge(part, sign=-1)
        self.parts[task] = NormalEquations(part.features, part.columns, self.device)
        self._fit = None

    def unlearn(self, batch: Batch, task: int) -> None:
        """Unlearns images of a task, given with the labels that they were learnt with."""
        if not self.config.unlearn:
            raise ConfigError("unlearn: is off; set it before learning")
        assert self.sums is not None
        self._flush()
        batch = batch.to(self.device)
        rest = self.seen - batch.seen
        some = batch.known.any(dim=1)
        z = self.design(self.features(batch.x)[some])
        y, known = (torch.nn.functional.pad(t[some], (0, rest)) for t in (batch.y, batch.known))
        t = self.targets(z, y, known)
        self.sums.add(z, t, sign=-1)
        if task < len(self.parts):
            if self.before is not None:
                self.before.add(z, t, sign=-1)
            self.parts[task].add(z, t[:, : self.parts[task].columns], sign=-1)
        self._fit = None

    def merge(self, other: Ridge) -> None:
        """Adds what another learner saw of the same task: sums are all that ranks have to exchange."""
        for learner in (self, other):
            learner._flush()
        if other.sums is None:
            return
        if self.sums is None:
            self.sums = NormalEquations(other.sums.features, self.seen, self.device)
        self.sums.merge(other.sums)
        self._fit = None

    def state(self) -> State:
        features, y, known = self._gathered() if self.waiting else (None, None, None)
        return super().state() | {
            "backbone": self.backbone.state_dict(),
            "sums": None if self.sums is None else self.sums.tensors(),
            "before": None if self.before is None else self.before.tensors(),
            "parts": [part.tensors() for part in self.parts],
            "waiting": [features, y, known],
            "teacher": self.teacher,
            "penalty": self.penalty,
            "map": [self.map.seed, self.map.mean, self.map.std],
        }

    def load(self, state: State) -> None:
        super().load(state)
        self.backbone.load_state_dict(state["backbone"])
        kept = {key: state[key] and NormalEquations.of(state[key], self.device) for key in ("sums", "before")}
        self.sums, self.before = kept["sums"], kept["before"]
        self.parts = [NormalEquations.of(part, self.device) for part in state["parts"]]
        seed, mean, std = state["map"]
        self.map = RandomReLU(self.config.random, seed)
        if mean is not None:
            self.map.mean, self.map.std = mean.to(self.device), std.to(self.device)
        self.teacher, self.penalty = state["teacher"].to(self.device), state["penalty"]
        waiting = state["waiting"]
        self.waiting = [] if waiting[0] is None else [tuple(t.to(self.device) for t in waiting)]
        self._fit = None

    def _begin(self) -> None:
        """Keeps the sums as the task finds them, where something will be worked out from the difference."""
        if self.sums is not None and (self.config.past or self.config.unlearn):
            self.before = self.sums.clone()

    def _gathered(self) -> tuple[Tensor, Tensor, Tensor]:
        f, y, known = (torch.cat(parts) for parts in zip(*self.waiting, strict=True))
        return f, y, known

    def _add(self, sums: NormalEquations, f: Tensor, y: Tensor, known: Tensor) -> Tensor:
        """Adds to the sums; what was taken for the labels, (B, S)."""
        z = self.design(f)
        targets = self.targets(z, y, known)
        sums.add(z, targets)
        return targets

    def _flush(self, whole: bool = True) -> None:
        """Adds what waits, in parts of a size that does not depend on the batches'."""
        if not self.waiting or self.sums is None:
            return
        f, y, known = self._gathered()
        if self.map.width and self.map.mean is None:
            self.map.fix(f[:ROWS])
        end = len(f) if whole else len(f) // ROWS * ROWS
        for a in range(0, end, ROWS):
            part = slice(a, min(a + ROWS, end))
            self.learnt(self._add(self.sums, f[part], y[part], known[part]))
        self.waiting = [(f[end:], y[end:], known[end:])] if end < len(f) else []
