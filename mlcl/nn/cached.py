"""A frozen backbone's features in the place of images: worked out once, whatever learns from them later."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mlcl.data.features import featurise
from mlcl.data.fill import Progress, ignore
from mlcl.data.table import LabelTable
from mlcl.errors import ConfigError
from mlcl.nn.backbone import Backbone


def featurised(
    table: LabelTable,
    config: Backbone.Config,
    folder: Path,
    *,
    seed: int = 0,
    device: str = "cpu",
    progress: Progress = ignore,
) -> LabelTable:
    """The same table over features (B, D); `seed` is the learner's, for weights that are drawn."""
    backbone = Backbone(config, torch.Generator().manual_seed(seed)).to(device).eval()

    def encode(x: Tensor) -> Tensor:
        features: Tensor = backbone(x.to(device))
        return features

    images = featurise(table.images, table.refs, folder, encode, key(backbone), progress=progress)
    return dataclasses.replace(table, images=images)


def key(backbone: Backbone) -> str:
    """All that the features depend on beside the images; the weights by their content."""
    digest = hashlib.sha256()
    for name, value in sorted(backbone.network.state_dict().items()):
        digest.update(f"{name} {tuple(value.shape)} {value.dtype}".encode())
        digest.update(value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    config = backbone.config
    return f"{config.name}, {backbone.size} px, {config.pool}, weights {digest.hexdigest()[:16]}"


def frozen_backbone(learners: Mapping[str, Any]) -> Backbone.Config:
    """The one backbone of all these methods; one that would change it, or augment images, is refused."""
    first: Backbone.Config | None = None
    for name, config in learners.items():
        where = f'data.features: method "{name}"'
        backbone = getattr(config, "backbone", None)
        if not isinstance(backbone, Backbone.Config):
            raise ConfigError(f"{where} has no backbone; leave data.features out")
        augment = getattr(config, "augment", None)
        need = []
        if hasattr(config, "optimizer") and backbone.trainable != "none":
            need.append('learner.backbone.trainable = "none"')
        if augment is not None and augment.crop != 1:
            need.append("learner.augment.crop = 1")
        if augment is not None and augment.flip:
            need.append("learner.augment.flip = false")
        if need:
            raise ConfigError(f"{where} must leave backbone and images as they are; set {', '.join(need)}")
        here = dataclasses.replace(backbone, trainable="none", norm="frozen")
        if first is not None and here != first:
            raise ConfigError(f"{where} has another backbone than the methods before it; run it by itself")
        first = here
    assert first is not None
    return first
