"""Backbones of timm and transformers: optional packages, imported when they are asked for."""

from __future__ import annotations

import difflib
import importlib
import inspect
import math
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from mlcl.errors import ConfigError, DataError, MissingExtra, nearest
from mlcl.nn.weights import first_line


class Timm(nn.Module):
    """Any timm model that has `forward_features`."""

    def __init__(self, name: str, *, size: int, pretrained: bool):
        super().__init__()
        timm = _optional("timm", "timm")
        if not timm.is_model(name.partition(".")[0]):
            close = difflib.get_close_matches(name, timm.list_models(), n=3)
            hint = nearest(name, close) if close else "see timm.list_models()"
            raise ConfigError(f"backbone.name: timm has no model {name!r}; {hint}")
        with _hub(f"timm:{name}", "set backbone.weights to a file ('random' starts untrained)"):
            fixed = timm.get_pretrained_cfg(name).fixed_input_size  # such a model is built for one size
            options = {"img_size": size} if size and fixed else {}
            self.model: Any = timm.create_model(name, pretrained=pretrained, num_classes=0, **options)
        known = self.model.pretrained_cfg
        self.size: int = size or known["input_size"][-1]
        self.mean, self.std = _grey_levels(known["mean"]), _grey_levels(known["std"])
        self.width: int = self.model.num_features
        infos = getattr(self.model, "feature_info", None) or []
        found = [self.model.get_submodule(info["module"]) for info in infos]
        self.stages = [stage for stage in found if any(True for _ in stage.parameters())]

    def maps(self, x: Tensor) -> Tensor:
        return as_map(self.model.forward_features(x), self.width)

    def pyramid(self, x: Tensor) -> list[Tensor]:
        maps: list[Tensor] = self.model.forward_intermediates(x, indices=3, intermediates_only=True)
        return maps


class HuggingFace(nn.Module):
    """An image model of transformers, from the hub or from a local folder."""

    def __init__(self, name: str, *, size: int, pretrained: bool):
        super().__init__()
        transformers = _optional("transformers", "hf")
        with _hub(f"hf:{name}", "name a local folder (hf:/PATH)"):
            known, _ = transformers.ImageProcessingMixin.get_image_processor_dict(name)
            config = transformers.AutoConfig.from_pretrained(name)
            auto = transformers.AutoModel
            self.model: Any = auto.from_pretrained(name) if pretrained else auto.from_config(config)
        self.model.pooler = nn.Identity()  # Backbone pools; a trained pooler would stay without gradient
        own = known.get("crop_size") or known["size"]
        if isinstance(own, dict):
            own = own.get("height") or own["shortest_edge"]
        self.size: int = size or own
        self.mean, self.std = _grey_levels(known["image_mean"]), _grey_levels(known["image_std"])
        widths = getattr(config, "hidden_sizes", None) or [getattr(config, "hidden_size", 0)]
        if not widths[-1]:
            raise ConfigError(f"backbone hf:{name}: a {config.model_type} model is no plain image encoder")
        self.width: int = widths[-1]
        self.stages = next((list(m) for m in self.model.modules() if isinstance(m, nn.ModuleList)), [])
        takes = inspect.signature(self.model.forward).parameters
        self.options = {"interpolate_pos_encoding": True} if "interpolate_pos_encoding" in takes else {}

    def maps(self, x: Tensor) -> Tensor:
        return as_map(self.model(x, **self.options).last_hidden_state, self.width)

    def pyramid(self, x: Tensor) -> list[Tensor]:
        hidden = self.model(x, output_hidden_states=True, **self.options).hidden_states
        return [as_map(h, h.shape[-1] if h.ndim == 3 else h.shape[1]) for h in hidden[-3:]]


def as_map(x: Tensor, width: int) -> Tensor:
    """(B, D, h, w), from maps with D second or last, or from tokens (B, n + h*h, D), n special ones first.

    >>> as_map(torch.zeros(1, 5 + 14 * 14, 384), 384).shape
    torch.Size([1, 384, 14, 14])
    """
    if x.ndim == 3:
        side = math.isqrt(x.shape[1])
        return x[:, x.shape[1] - side * side :].mT.reshape(len(x), width, side, side)
    return x if x.shape[1] == width else x.permute(0, 3, 1, 2)


def _grey_levels(values: list[float]) -> tuple[float, ...]:
    return tuple(255 * value for value in values)


def _optional(package: str, extra: str) -> ModuleType:
    what = f"a backbone.name that begins with '{extra}:'"
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        raise MissingExtra(what, (error.name or package).partition(".")[0], extra) from error
    except Exception as error:  # a torchvision that does not fit torch fails with RuntimeError, and others
        raise ConfigError(
            f"{what} needs the package {package}, which is installed but does not import "
            f"({first_line(error)}): install a {package} and a torchvision that fit torch {torch.__version__}"
        ) from error


@contextmanager
def _hub(name: str, instead: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # a hub client fails in as many ways as it has layers
        raise DataError(
            f"backbone {name}: not to be had from the hub or the folder ({first_line(error)}): "
            f"check the name and the connection, or {instead}"
        ) from error
