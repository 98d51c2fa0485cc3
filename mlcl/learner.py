"""The contract between the loop and every method, and the registry of methods.

A learner sees one task after the other, batch by batch, and must say at any time which of the classes
seen so far an image shows. It is never told the scenario: a mask says what is known of each label.
"""

from __future__ import annotations

import copy
import gc
import importlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from mlcl import ranks
from mlcl.engine import Recorded
from mlcl.errors import ConfigError, nearest, refuse_twins
from mlcl.losses import Loss
from mlcl.nn.augment import Augment
from mlcl.nn.backbone import Backbone
from mlcl.nn.head import GrowingLinear
from mlcl.types import Batch, Stream, Task

Terms = dict[str, Tensor]  # named loss terms
State = dict[str, Any]  # tensors, numbers, strings, lists, dicts: whatever torch.save keeps without pickle

_LEARNERS: dict[str, type[Learner]] = {}


class Learner(ABC):
    """All that the loop, the tagger and the tests know. `class Mine(Learner, name="mine")` registers it."""

    name: ClassVar[str]
    like_fine_tuning: ClassVar[bool] = False  # may equal fine-tuning (it has nothing against forgetting)
    shareable: ClassVar[bool] = False  # several processes may learn one stream together (mlcl.ranks)

    @dataclass(frozen=True, kw_only=True)
    class Config:
        pass

    def __init__(self, config: Any = None, *, seed: int = 0, device: str = "cpu"):
        self.config: Any = config if config is not None else self.Config()
        self.device = torch.device(device)
        self.generator = torch.Generator().manual_seed(seed)  # the only source of chance; part of the state
        self.widths: list[int] = []  # classes of each task so far

    def __init_subclass__(cls, name: str = "") -> None:
        if name:
            refuse_twins("method", name, cls, _LEARNERS.get(name))
            cls.name = name
            _LEARNERS[name] = cls

    @property
    def seen(self) -> int:
        return sum(self.widths)

    @property
    def old(self) -> int:
        """Columns that were there before the current task."""
        return sum(self.widths[:-1])

    def view(self, stream: Stream) -> Stream:
        """The stream as this learner gets it; the bounds see everything at once."""
        return stream

    def begin_task(self, task: Task) -> None:
        """Grow by the task's new classes."""
        self.widths.append(task.stop - task.start)

    @abstractmethod
    def observe(self, batch: Batch) -> Terms:
        """Learn one batch; returns the loss terms, detached, still on the device."""

    def end_task(self, task: Task, batches: Iterable[Batch]) -> None:  # noqa: B027  (optional)
        """Consolidate; `batches` passes over the task's training set once more if it is iterated."""

    @abstractmethod
    def predict(self, x: Tensor) -> Tensor:
        """(B, 3, H, W) uint8 -> (B, S) probabilities. Changes nothing."""

    def state(self) -> State:
        """All that prediction and further learning need."""
        return {"widths": list(self.widths), "generator": self.generator.get_state()}

    def load(self, state: State) -> None:
        """Into a learner fresh from its constructor."""
        self.widths = list(state["widths"])
        self.generator.set_state(state["generator"])

    def findings(self) -> Mapping[str, Any]:
        """What the report shows beyond scores, ready for JSON (a correlation matrix, say)."""
        return {}


def learners() -> dict[str, type[Learner]]:
    importlib.import_module("mlcl.methods")  # each method registers itself
    return dict(sorted(_LEARNERS.items()))


def learner(name: str) -> type[Learner]:
    known = learners()
    if name not in known:
        raise ConfigError(f"no method {name!r}; {nearest(name, known)}")
    return known[name]


@dataclass(frozen=True, kw_only=True)
class OptimizerConfig:
    """A fresh optimiser begins each task, as in the released AGCN code."""

    name: Literal["adam", "adamw", "sgd"] = "adam"  # adamw: weight decay beside the gradient
    lr: float = 1e-5  # of the backbone
    head_lr: float = 1e-3  # of everything after it
    betas: tuple[float, ...] = (0.9, 0.999)  # adam and adamw
    eps: float = 1e-8  # adam and adamw
    weight_decay: float = 0.0  # of all weights
    momentum: float = 0.9  # sgd only

    def __post_init__(self) -> None:
        for name in ("lr", "head_lr", "eps", "weight_decay", "momentum"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name}: {getattr(self, name)} is negative")
        if len(self.betas) != 2 or not all(0 <= beta < 1 for beta in self.betas):
            raise ConfigError(f"betas: expected two numbers from 0 to below 1, got {list(self.betas)}")


class Network(nn.Module):
    """A backbone and one growing linear head: (B, 3, H, W) -> (B, S) logits."""

    def __init__(self, backbone: Backbone):
        super().__init__()
        self.backbone = backbone
        self.head = GrowingLinear(backbone.width)

    def grow(self, width: int, generator: torch.Generator) -> None:
        self.head.grow(width, generator)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.backbone(x))
        return logits


class GradientLearner(Learner):
    """A learner that descends: write `losses`, and a hook where it is needed."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Learner.Config):
        backbone: Backbone.Config = field(default_factory=Backbone.Config)
        optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
        augment: Augment.Config = field(default_factory=Augment.Config)
        loss: Loss.Config = field(default_factory=Loss.Config)
        precision: Literal["float32", "bfloat16"] = "float32"  # of the network's forward pass
        compile: bool = False  # torch.compile of the backbone: minutes at the start, for long runs
        record: bool = False  # on a GPU: note the step's launches once a task, then replay them as one

    def __init__(self, config: Any = None, *, seed: int = 0, device: str = "cpu"):
        super().__init__(config, seed=seed, device=device)
        self.net = self.build().to(self.device)
        self.expert: Any = None  # the network as the last task left it, if `keep_expert`
        self.optimizer: torch.optim.Optimizer | None = None
        self.augment = Augment(self.config.augment, self.net.backbone.size)
        self.classification = Loss(self.config.loss)
        self._recorded: Recorded | None = None
        self._shared: nn.Module | None = None  # among several processes
        if self.config.compile:
            self.net.backbone.compile()

    keep_expert: ClassVar[bool] = False
    shareable = True
    recordable: ClassVar[bool] = False  # the step is launches on the device alone, so `record` may note it

    def build(self) -> Any:
        """The network before its first class; it must have `backbone` and `grow`."""
        return Network(Backbone(self.config.backbone, self.generator))

    @abstractmethod
    def losses(self, batch: Batch) -> Terms:
        """Named, weighted terms; their sum is descended. `batch` is augmented and on the device."""

    def after_backward(self, batch: Batch) -> None:
        """Gradients are there, the step is not taken yet."""

    def logits(self, x: Tensor) -> Tensor:
        """(B, S) as prediction uses them."""
        out: Tensor = self.net(x)
        return out

    def param_groups(self) -> list[dict[str, Any]]:
        """The backbone at `lr`, what stands on it at `head_lr`."""
        o = self.config.optimizer
        base = [p for p in self.net.backbone.parameters() if p.requires_grad]
        under = {id(p) for p in self.net.backbone.parameters()}
        rest = [p for p in self.net.parameters() if id(p) not in under]
        groups = [{"params": base, "lr": o.lr}, {"params": rest, "lr": o.head_lr}]
        return [group for group in groups if group["params"]]

    def begin_task(self, task: Task) -> None:
        if self.keep_expert and self.widths:
            self.expert = self._new_expert()
        super().begin_task(task)
        self.net.grow(self.widths[-1], self.generator)
        self.optimizer = self._new_optimizer()

    def observe(self, batch: Batch) -> Terms:
        theta = ranks.mine(self.augment.draw(batch, self.generator), batch.of)
        if self._recorded is not None:
            return self._recorded(batch.x, batch.y, batch.known, theta)
        batch = batch.to(self.device)
        return self._step(batch.x, batch.y, batch.known, theta.to(self.device, non_blocking=True), batch.of)

    def _step(self, x: Tensor, y: Tensor, known: Tensor, theta: Tensor, of: int = 0) -> Terms:
        """From pixels to moved weights, all of it on the device."""
        batch = self.augment.move(Batch(x, y, known, of), theta)
        if not self.net.training:
            self.net.train()
        with self.autocast():
            terms = self.losses(batch) if self._shared is None else self._shared(self.losses, batch)
        if of:  # gradients and terms are averaged over processes: a share counts by its images
            terms = {name: term * (len(batch) * ranks.size() / of) for name, term in terms.items()}
        assert self.optimizer is not None, "begin_task comes first"
        self.optimizer.zero_grad()
        torch.stack(list(terms.values())).sum().backward()  # type: ignore[no-untyped-call]
        self.after_backward(batch)
        self.optimizer.step()
        if self._shared is not None:
            ranks.average(ranks.statistics(self.net))
        return {name: term.detach() for name, term in terms.items()}

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        training = self.net.training
        self.net.eval()
        try:
            with self.autocast():
                return (
                    self.logits(x.to(self.device, non_blocking=self.device.type == "cuda")).float().sigmoid()
                )
        finally:
            self.net.train(training)

    def autocast(self) -> torch.autocast:
        """The precision that the recipe asks for."""
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.config.precision == "bfloat16")

    def state(self) -> State:
        return super().state() | {
            "net": self.net.state_dict(),
            "expert": None if self.expert is None else self.expert.state_dict(),
            "optimizer": None if self.optimizer is None else self.optimizer.state_dict(),
        }

    def load(self, state: State) -> None:
        for task, width in enumerate(state["widths"]):
            if state["expert"] is not None and task == len(state["widths"]) - 1:
                self.expert = self._new_expert()
                self.expert.load_state_dict(state["expert"])
            self.net.grow(width, self.generator)
        self.net.load_state_dict(state["net"])
        super().load(state)
        if state["optimizer"] is not None:
            self.optimizer = self._new_optimizer()
            saved, ways = state["optimizer"], {"fused", "capturable"} & self.optimizer.defaults.keys()
            here = {name: self.optimizer.defaults[name] for name in ways}  # not the saving machine's
            groups = [group | here for group in saved["param_groups"]]
            self.optimizer.load_state_dict(saved | {"param_groups": groups})

    def _new_expert(self) -> Any:
        expert: Any = frozen_copy(self.net)
        if self.config.compile:
            expert.backbone.compile()  # a copy is of the plain module
        return expert

    def _new_optimizer(self) -> torch.optim.Optimizer:
        """With it begins a new recording: the old one moves weights that are gone."""
        o, cuda = self.config.optimizer, self.device.type == "cuda"
        record = self.config.record and self.recordable and cuda and ranks.size() == 1
        self._recorded = Recorded(self._step, self.device) if record else None
        self._shared = None  # the old one goes first: it listens to the same weights
        if ranks.size() > 1:
            gc.collect()
            self._shared = ranks.shared(self.net)
        common = {"params": self.param_groups(), "lr": o.lr, "weight_decay": o.weight_decay}
        if o.name == "sgd":
            return torch.optim.SGD(**common, momentum=o.momentum)
        kind = torch.optim.Adam if o.name == "adam" else torch.optim.AdamW
        # fused: one launch a group; on a CPU a third of the time
        return kind(**common, betas=o.betas, eps=o.eps, fused=True, capturable=record)


def frozen_copy(net: nn.Module) -> nn.Module:
    """A copy that never learns: no gradients, statistics at rest."""
    return copy.deepcopy(net).requires_grad_(False).eval()
