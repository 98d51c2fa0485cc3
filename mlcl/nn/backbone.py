"""From images to features: every backbone behind one class, with its own input size and normalisation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from mlcl.errors import ConfigError, nearest
from mlcl.nn import weights
from mlcl.nn.efficientnet_lite import SCALES, ConvNorm, EfficientNetLite, Staged
from mlcl.nn.hub import HuggingFace, Timm


@dataclass(frozen=True)
class Info:
    """One line of `mlcl backbones`; width and size are 0 where the model's own decides."""

    description: str
    width: int
    size: int
    extra: str = ""


BACKBONES = {
    "efficientnet-lite0": Info("ImageNet, 75.1 % top-1, 3.4 M parameters; installed with mlcl", 1280, 224),
    "efficientnet-lite1": Info("ImageNet, 76.7 % top-1, 4.1 M parameters", 1280, 240, "lite1"),
    "efficientnet-lite2": Info("ImageNet, 77.6 % top-1, 4.8 M parameters", 1280, 260, "lite2"),
    "tiny": Info("15 k parameters, untrained: for tests, not for results", 32, 32),
    "timm:NAME": Info("any timm model, such as timm:resnet101; weights from its hub", 0, 0, "timm"),
    "hf:NAME": Info("a transformers image model, from its hub or a local folder", 0, 0, "hf"),
}


class Tiny(Staged):
    """Three convolutions, for tests."""

    def __init__(self) -> None:
        widths = (3, 16, 32, 32)
        stages: list[nn.Module] = [ConvNorm(widths[i], widths[i + 1], 3, stride=2) for i in range(3)]
        super().__init__(nn.Identity(), stages, nn.Identity(), width=32, size=32)


Network = EfficientNetLite | Tiny | Timm | HuggingFace


class Backbone(nn.Module):
    """(B, 3, H, W) uint8, or float 0..255, of any size -> (B, D) features; features stay as they are."""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        name: str = "efficientnet-lite0"  # see `mlcl backbones`
        size: int = 0  # input side in pixels; 0 = the network's own
        pool: Literal["mean", "max", "mean+max"] = "mean"  # mean+max: side by side, twice as wide
        norm: Literal["frozen", "train"] = "frozen"  # batch-norm statistics
        trainable: str = "all"  # all, none, or last:K = the last K stages
        weights: str = ""  # a .pth or .safetensors file; random = untrained; empty = the built-in weights

        def __post_init__(self) -> None:
            if self.size < 0:
                raise ConfigError(f"backbone.size: {self.size} is no side in pixels (0: the network's own)")
            if not re.fullmatch(r"all|none|last:[1-9]\d*", self.trainable):
                raise ConfigError(f"backbone.trainable: got {self.trainable!r}; valid: all, none, last:K")

    def __init__(self, config: Config, generator: torch.Generator | None = None):
        super().__init__()
        self.config = config
        with _chance_from(generator):
            self.network = _network(config)
        self.network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.size = config.size or self.network.size
        self.width = self.network.width * (2 if config.pool == "mean+max" else 1)
        self._freeze()
        self.mean: Tensor
        self.std: Tensor
        self.register_buffer("mean", torch.tensor(self.network.mean).view(3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(self.network.std).view(3, 1, 1), persistent=False)
        self.train()

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim == 2:  # cached features, which are what this network made of the images
            return x
        return self.pool(self.maps(x))

    def maps(self, x: Tensor) -> Tensor:
        """(B, D0, h, w), before pooling."""
        return self.network.maps(self.prepare(x))

    def pyramid(self, x: Tensor) -> list[Tensor]:
        """The maps of the last three resolutions (of a transformer: blocks), finest first."""
        return self.network.pyramid(self.prepare(x))

    def pool(self, maps: Tensor) -> Tensor:
        """(B, D0, h, w) -> (B, D), in float32 under autocast too."""
        parts = []
        if "mean" in self.config.pool:
            parts.append(maps.mean((2, 3), dtype=torch.float32))
        if "max" in self.config.pool:
            parts.append(maps.amax((2, 3)).float())
        return torch.cat(parts, 1) if len(parts) > 1 else parts[0]

    def prepare(self, x: Tensor) -> Tensor:
        """Images at the network's size, normalised."""
        if x.ndim == 2:
            raise ConfigError(
                "data.features: this method needs maps of the images, not features; leave it out"
            )
        assert x.shape[1:-2] == (3,), f"images are (B, 3, H, W), not {tuple(x.shape)}"
        x = x.float()  # before the resize: uint8 has no kernel for it on every device, and would round
        side = self.size
        if x.shape[-2:] != (side, side):
            shrinks = min(x.shape[-2:]) > side or max(x.shape[-2:]) > side
            x = F.interpolate(x, (side, side), mode="bilinear", antialias=shrinks)
        return (x - self.mean).div_(self.std).contiguous(memory_format=torch.channels_last)

    def train(self, mode: bool = True) -> Backbone:
        """What is frozen stays in evaluation mode."""
        super().train(mode and self.config.trainable != "none")
        for module in self.modules():
            if isinstance(module, _BatchNorm):
                rests = module.weight is not None and not module.weight.requires_grad
                if rests or self.config.norm == "frozen":
                    module.eval()
        return self

    def _freeze(self) -> None:
        """Nothing before the first trainable stage asks for a gradient, so autograd records nothing there."""
        if self.config.trainable == "all":
            return
        first = None
        if self.config.trainable != "none":
            stages, count = list(self.network.stages), int(self.config.trainable.removeprefix("last:"))
            if count > len(stages):
                valid = f"last:1 to last:{len(stages)}, all, none" if stages else "all, none"
                raise ConfigError(
                    f"backbone.trainable: {self.config.name} has {len(stages)} stages, got "
                    f"{self.config.trainable!r}; valid: {valid}"
                )
            first = next(stages[-count].parameters())
        for parameter in self.network.parameters():  # in the order of the forward pass
            if parameter is first:
                break
            parameter.requires_grad_(False)


def _network(config: Backbone.Config) -> Network:
    """The network with its weights."""
    name, source = config.name, config.weights
    kind, _, foreign = name.partition(":")
    if kind == "hf" and foreign:
        if source not in ("", "random"):  # the names in such a file are not those of the model in memory
            raise ConfigError(f"backbone.weights: {source!r} with hf:; name its folder instead (hf:/PATH)")
        return HuggingFace(foreign, size=config.size, pretrained=not source)
    network: Network
    target: nn.Module
    if kind == "timm" and foreign:
        network = Timm(foreign, size=config.size, pretrained=not source)
        target = network.model
    elif name == "tiny":
        network = target = Tiny()
    elif name in SCALES:
        network = target = EfficientNetLite(name)
        source = source or str(weights.packaged(name, BACKBONES[name].extra))
    else:
        raise ConfigError(f"backbone.name: no backbone {name!r}; {nearest(name, BACKBONES)}")
    if source and source != "random":
        path = Path(source).expanduser()
        state = weights.read(path)
        if isinstance(network, EfficientNetLite) and "_conv_stem.weight" in state:
            state = network.rename(state)
        weights.fill(target, state, path, name)
    return network


@contextmanager
def _chance_from(generator: torch.Generator | None) -> Iterator[None]:
    """Initial weights depend on this generator alone, and torch's own notices nothing."""
    seed = int(torch.randint(2**62, (), generator=generator)) if generator is not None else 0
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would also reseed the GPU's
        yield
