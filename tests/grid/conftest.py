"""A data set of noise, methods that misbehave, and grid files over them."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import pytest

PLUGIN = '''
import os, signal
from dataclasses import dataclass
import numpy as np, torch
from mlcl.data.source import Source
from mlcl.data.table import LabelTable
from mlcl.methods.bounds import FineTuning
from mlcl.types import Images

class Noise(Images):
    def __init__(self, count):
        self.x = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (count, 3, 8, 8), dtype=np.uint8))
    def __len__(self):
        return len(self.x)
    def load(self, indices):
        return self.x[torch.as_tensor(np.asarray(indices))]

class NoiseSource(Source, name="noise"):
    """Noise."""
    @dataclass(frozen=True, kw_only=True)
    class Config(Source.Config):
        images: int = 60
    def table(self):
        n = self.config.images
        labels = (np.random.default_rng(1).random((n, 4)) < 0.5).astype(np.int8)
        names = ("a", "b", "c", "d")
        return LabelTable("noise", names, [f"{i}" for i in range(n)], labels, np.arange(n) % 3 == 0, Noise(n))

class Wrong(FineTuning, name="wrong"):
    """Has a bug."""
    def losses(self, batch):
        raise ZeroDivisionError("one\\\\nand more")

class Dying(FineTuning, name="dying"):
    """Is killed, as by the kernel when memory is short; not again where the flag is."""
    def losses(self, batch):
        if not os.path.exists(os.environ["MLCL_TEST_FLAG"]):
            open(os.environ["MLCL_TEST_FLAG"], "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().losses(batch)
'''

BASE = """
name = "noise"
methods = ["fine-tuning"]
plugins = ["{plugin}"]
[data]
source = "noise"
[stream]
way = 2
[loop]
batch_size = 8
[learner.backbone]
name = "tiny"
size = 16
"""


class Write(Protocol):
    def __call__(self, text: str, name: str = ...) -> Path: ...


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a grid file over the noise; `recipe` and `plugins` are there already."""
    plugin, base = tmp_path / "noise.py", tmp_path / "base.toml"
    plugin.write_text(PLUGIN.replace("\\\\n", "\\n"))
    base.write_text(BASE.format(plugin=plugin))

    def written(text: str, name: str = "g") -> Path:
        path = tmp_path / f"{name}.toml"
        path.write_text(f'name = "{name}"\nrecipe = "{base}"\nplugins = ["{plugin}"]\n{text}')
        return path

    return written
