"""The network equals the published one, and its shortcuts equal the plain operations."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mlcl.nn import weights
from mlcl.nn.efficientnet_lite import ConvNorm, EfficientNetLite, same_conv

REASON = "the reference network is a development dependency"


def reference(name: str, size: int | tuple[int, int], **options: Any) -> Any:
    """The published implementation, with batch norms that are far from their initial state."""
    package = pytest.importorskip("efficientnet_lite_pytorch", reason=REASON)
    torch.manual_seed(0)
    net = package.EfficientNet.from_name(name, image_size=size, drop_connect_rate=0, **options)
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias, std=0.3)
            nn.init.normal_(module.get_buffer("running_mean"), std=0.3)
            nn.init.uniform_(module.get_buffer("running_var"), 0.5, 2)
    return net


def ours(name: str, net: nn.Module) -> EfficientNetLite:
    own = EfficientNetLite(name)
    result = own.load_state_dict(own.rename(net.state_dict()), strict=False)
    assert result.missing_keys == []
    assert result.unexpected_keys == ["_fc.weight", "_fc.bias"]
    return own


# 64: every map's side is even down to 2; 65: odd; 50 x 67: both, and not square
CASES = [("efficientnet-lite0", 64), ("efficientnet-lite0", (50, 67)), ("efficientnet-lite0", 65)]
CASES += [("efficientnet-lite1", 65), ("efficientnet-lite2", 64)]


@pytest.mark.parametrize(("name", "size"), CASES)
def test_equals_the_reference(name: str, size: int | tuple[int, int]) -> None:
    net = reference(name, size).eval()
    own = ours(name, net).eval()
    height, width = (size, size) if isinstance(size, int) else size
    x = torch.randn(2, 3, height, width)
    with torch.inference_mode():
        maps, expected = own.maps(x), net.extract_features(x)
    assert expected.std() > 0.1
    torch.testing.assert_close(maps, expected, rtol=0, atol=1e-4)


def test_equals_the_reference_with_its_imagenet_weights() -> None:
    net = reference("efficientnet-lite0", 224)
    state = torch.load(weights.packaged("efficientnet-lite0", ""), weights_only=True)
    net.load_state_dict(state)
    own = ours("efficientnet-lite0", net.eval()).eval()
    x = torch.randn(2, 3, 224, 224).contiguous(memory_format=torch.channels_last)
    with torch.inference_mode():
        pooled = own.maps(x).mean((2, 3))
        torch.testing.assert_close(pooled, net.extract_features(x).mean((2, 3)), rtol=0, atol=1e-5)
        torch.testing.assert_close(net._fc(pooled), net(x), rtol=0, atol=1e-4)


def test_statistics_move_as_in_the_reference() -> None:
    net = reference("efficientnet-lite0", 64).train()
    own = ours("efficientnet-lite0", net).train()
    x = torch.randn(4, 3, 64, 64)
    own.maps(x)
    net.extract_features(x)
    expected = own.rename(net.state_dict())
    for key, tensor in own.state_dict().items():
        torch.testing.assert_close(tensor, expected[key], rtol=1e-3, atol=1e-4)


DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]  # each has its own way to pad


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("side", [(9, 9), (8, 8), (8, 9), (1, 2)])
@pytest.mark.parametrize(("k", "stride"), [(1, 1), (3, 1), (5, 1), (3, 2), (5, 2)])
def test_same_padding_is_tensorflows(k: int, stride: int, side: tuple[int, int], device: str) -> None:
    x, weight = torch.randn(2, 3, *side), torch.randn(4, 3, k, k)
    pads = []
    for length in reversed(side):  # F.pad counts from the last dimension
        total = max((-(-length // stride) - 1) * stride + k - length, 0)
        pads += [total // 2, total - total // 2]
    expected = F.conv2d(F.pad(x, pads), weight, None, stride)
    got = same_conv(x.to(device), weight.to(device), None, stride)
    torch.testing.assert_close(got.cpu(), expected, rtol=0, atol=1e-5 if device == "cpu" else 0.05)  # TF32


@pytest.mark.parametrize("active", [True, False])
def test_a_folded_norm_equals_a_norm(active: bool) -> None:
    """Value and every gradient, without autograd noticing that ReLU6 worked in place."""
    torch.manual_seed(0)
    layer = ConvNorm(3, 4, 3, stride=2, active=active).double().eval()
    nn.init.uniform_(layer.norm.weight, 0.5, 3)
    layer.norm.bias.data.normal_()
    assert layer.norm.running_mean is not None
    layer.norm.running_mean.normal_()
    x = torch.randn(2, 3, 8, 8, dtype=torch.float64, requires_grad=True)

    def gradients(y: Tensor) -> tuple[Tensor, ...]:
        return torch.autograd.grad((y * torch.arange(y.numel()).view_as(y)).sum(), [x, *layer.parameters()])

    y = layer.norm(same_conv(x, layer.conv.weight, None, 2))
    y = F.relu6(y) if active else y
    torch.testing.assert_close(layer(x), y)
    if active:
        assert set(y.unique().tolist()) >= {0.0, 6.0}
    for folded, plain in zip(gradients(layer(x)), gradients(y), strict=True):
        torch.testing.assert_close(folded, plain)


def changed(layer: ConvNorm) -> None:
    assert layer.norm.running_var is not None
    nn.init.uniform_(layer.norm.weight, 0.5, 3)
    nn.init.uniform_(layer.norm.running_var, 0.5, 2)


def test_as_on_a_gpu_unfolded_the_network_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    net = EfficientNetLite("efficientnet-lite0").double().eval()
    for layer in net.modules():
        if isinstance(layer, ConvNorm):
            changed(layer)
    x = torch.randn(2, 3, 32, 32, dtype=torch.float64)

    def learn() -> list[Tensor]:
        maps = net.maps(x)
        return [maps.detach(), *torch.autograd.grad(maps.square().mean(), list(net.parameters()))]

    folded = learn()
    monkeypatch.setattr(ConvNorm, "_folds", lambda self, x: False)
    for a, b in zip(folded, learn(), strict=True):
        torch.testing.assert_close(a, b)


def test_a_frozen_layer_is_folded_once_and_again_when_it_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = ConvNorm(3, 4, 3, active=False).eval().requires_grad_(False)
    x = torch.randn(2, 3, 8, 8)
    folds = []
    fold = ConvNorm._fold
    monkeypatch.setattr(ConvNorm, "_fold", lambda self: folds.append(1) or fold(self))

    def said() -> Tensor:
        assert layer.norm.running_mean is not None
        torch.testing.assert_close(layer(x), layer.norm(same_conv(x, layer.conv.weight, None, 1)))
        return layer(x)

    first = said()
    assert len(folds) == 1
    other = ConvNorm(3, 4, 3)
    changed(other)
    layer.load_state_dict(other.state_dict())
    assert not torch.allclose(first, said())
    assert len(folds) == 2
    layer.norm.weight.mul_(2)
    said()
    assert len(folds) == 3
    with torch.autocast("cpu", torch.bfloat16):
        assert layer(x).dtype == layer(x).dtype == torch.bfloat16
    assert len(folds) == 4
    assert set(layer.state_dict()) == set(other.state_dict())  # nothing of it is saved


def test_what_inference_mode_folded_may_be_trained_on() -> None:
    below, above = ConvNorm(3, 4, 3).eval().requires_grad_(False), ConvNorm(4, 4, 3).eval()
    x = torch.randn(2, 3, 8, 8)
    with torch.inference_mode():
        above(below(x))
    above(below(x)).sum().backward()
    assert above.conv.weight.grad is not None


def test_pyramid_is_the_last_three_resolutions() -> None:
    net = EfficientNetLite("efficientnet-lite0").eval()
    x = torch.randn(1, 3, 64, 64)
    with torch.inference_mode():
        levels = net.pyramid(x)
        assert [tuple(level.shape[1:]) for level in levels] == [(40, 8, 8), (112, 4, 4), (1280, 2, 2)]
        assert torch.equal(levels[-1], net.maps(x))
