"""A network small enough to compute by hand: the feature of an image is its pixel, then comes the method."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import mlcl.learner
import mlcl.methods.agcn
import mlcl.methods.agcnpp
import mlcl.methods.scr
from mlcl.config import from_tree
from mlcl.nn.backbone import Backbone
from mlcl.types import Batch, Samples, Task, TensorImages

WIDTH = 3


class Pixels(nn.Module):
    """(B, 3, 1, 1) -> (B, 3): the pixel itself, in tens."""

    Config = Backbone.Config
    width, size = WIDTH, 1

    def __init__(self, config: Any = None, generator: torch.Generator | None = None):
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return x[:, :, 0, 0].float() / 10


class Toy:
    """What the tests of methods build with."""

    @staticmethod
    def learner(method: str, seed: int = 0, **options: Any) -> Any:
        """Without augmentation; a step moves nothing unless `lr` says so (plain gradient descent)."""
        kind = mlcl.learner.learners()[method]
        lr = options.pop("lr", 0.0)
        tree = {
            "augment": {"crop": 1.0, "flip": False},
            "optimizer": {"name": "sgd", "lr": lr, "head_lr": lr, "momentum": 0.0},
            **options,
        }
        return kind(from_tree(kind.Config, tree), seed=seed)

    @staticmethod
    def batch(pixels: Any, y: Any, known: Any = None) -> Batch:
        x = torch.as_tensor(np.asarray(pixels), dtype=torch.uint8)[:, :, None, None]
        labels = torch.as_tensor(np.asarray(y), dtype=torch.float32)
        all_known = torch.ones(labels.shape, dtype=torch.bool)
        return Batch(x, labels, all_known if known is None else torch.as_tensor(np.asarray(known)).bool())

    @staticmethod
    def task(index: int, start: int, stop: int, batch: Batch | None = None) -> Task:
        """Its training set is the batch."""
        if batch is None:
            batch = Toy.batch(np.zeros((1, 3)), np.zeros((1, stop)))
        labels, known = batch.y.numpy().astype(np.uint8), batch.known.numpy()
        samples = Samples(TensorImages(batch.x), np.arange(len(batch)), labels, known)
        return Task(index, start, stop, tuple(f"class {c}" for c in range(start, stop)), samples, samples)

    @staticmethod
    def fill(net: nn.Module, seed: int = 0) -> None:
        """Every parameter is set by its name and shape alone, whatever was drawn before."""
        for name, parameter in net.named_parameters():
            key = [seed, *name.encode(), *parameter.shape]
            drawn = np.random.default_rng(key).uniform(-1, 1, tuple(parameter.shape))
            parameter.data = torch.tensor(drawn, dtype=parameter.dtype)


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> type[Toy]:
    for module in (mlcl.learner, mlcl.methods.agcn, mlcl.methods.agcnpp, mlcl.methods.scr):
        monkeypatch.setattr(module, "Backbone", Pixels)
    return Toy
