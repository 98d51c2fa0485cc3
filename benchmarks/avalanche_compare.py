"""The same network, images and loss in Avalanche's training loop and in ours: images a second.

    pip install --no-deps --target .avalanche avalanche-lib dill
    PYTHONPATH=.avalanche python benchmarks/avalanche_compare.py [--out FILE.json] [--quick]

Fine-tuning is Avalanche's Naive, lwf its LwF (softmax distillation, ours is per class: the same passes of the
network). Images are uint8 in memory and are not augmented, on either side. Avalanche comes without
autocast, so its network gets ours: both columns have bfloat16. Downloaders and loggers that Avalanche imports
and this comparison does not use are stood in for where they are not installed.
"""

from __future__ import annotations

import argparse
import copy
import importlib.abc
import importlib.machinery
import importlib.util
import json
import statistics
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from loop import CLASSES, Pixels, stream, wait
from step import SETTINGS, clock, make
from torch.nn import functional as F

from mlcl import Experiment
from mlcl.experiment import LoopConfig
from mlcl.nn.backbone import Backbone
from mlcl.store import provenance

UNUSED = ("gdown", "wandb", "pytorchcv", "qpsolvers", "GPUtil", "tensorboard", "torchvision", "torchmetrics")
UNUSED += ("psutil", "tqdm", "torch.utils.tensorboard")


class StandIn(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Modules whose every name is a class that takes anything and does nothing."""

    def __init__(self, names: set[str]):
        self.names = names

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        ours = any(name == known or name.startswith(f"{known}.") for known in self.names)
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if ours else None

    def create_module(self, spec: Any) -> types.ModuleType:
        module: Any = types.ModuleType(spec.name)

        def stand_in(name: str) -> type:
            if name.startswith("__"):
                raise AttributeError(name)
            return type(name, (), {"__init__": lambda self, *a, **k: None})

        module.__getattr__ = stand_in
        return module  # type: ignore[no-any-return]

    def exec_module(self, module: types.ModuleType) -> None: ...


def missing(name: str) -> bool:
    try:
        importlib.import_module(name)
    except Exception:  # a torchvision that does not fit torch raises other kinds
        for half in [known for known in sys.modules if known == name or known.startswith(f"{name}.")]:
            del sys.modules[half]
        return True
    return False


class Model(torch.nn.Module):
    """What both sides train: backbone and linear head, under autocast."""

    def __init__(self, setting: str, device: str):
        super().__init__()
        name, side, _ = SETTINGS[setting]
        config = Backbone.Config(name=name, size=side, weights="" if name == "tiny" else "random")
        self.backbone = Backbone(config, torch.Generator().manual_seed(0))
        self.fc = torch.nn.Linear(self.backbone.width, CLASSES)
        self.kind = device

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast(self.kind, torch.bfloat16):
            out: torch.Tensor = self.fc(self.backbone(x))
            return out


def avalanche(method: str, setting: str, device: str, batches: int, workers: int) -> float:
    """Images a second of the second experience, from the first batch to the last."""
    from avalanche.benchmarks import benchmark_from_datasets
    from avalanche.benchmarks.utils import AvalancheDataset
    from avalanche.core import SupervisedPlugin
    from avalanche.training.plugins import EvaluationPlugin, LwFPlugin
    from avalanche.training.supervised import Naive

    _, side, size = SETTINGS[setting]
    images, chance = batches * size, np.random.default_rng(1)
    pixels = Pixels(images, side)
    x = pixels.load(np.arange(images))
    y = torch.from_numpy((chance.random((images, CLASSES)) < 0.1).astype(np.float32))

    class Clock(SupervisedPlugin):  # type: ignore[misc]
        def before_training_epoch(self, strategy: Any, **kwargs: Any) -> None:
            wait(device)
            self.began = clock(device)

        def after_training_epoch(self, strategy: Any, **kwargs: Any) -> None:
            wait(device)
            self.seconds = clock(device) - self.began

    data = [AvalancheDataset([torch.utils.data.TensorDataset(x, y)]) for _ in range(2)]
    model, timer = Model(setting, device).to(device), Clock()
    lwf = LwFPlugin(alpha=1.0, temperature=2.0)

    def remember(agent: Any, experience: Any) -> None:
        lwf.lwf.prev_model = copy.deepcopy(agent.model)
        lwf.lwf.prev_classes_by_task[0] = set(range(CLASSES - 4))  # its own way reads one label an image

    lwf.lwf.post_adapt = remember
    loss: Callable[..., torch.Tensor] = F.binary_cross_entropy_with_logits
    strategy = Naive(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=1e-5),
        criterion=loss,
        train_mb_size=size,
        device=device,
        plugins=[timer, *([lwf] if method == "lwf" else [])],
        evaluator=EvaluationPlugin(),
    )
    for experience in benchmark_from_datasets(train=data).train_stream:
        strategy.train(experience, num_workers=workers, drop_last=False)
    return images / timer.seconds


def ours(method: str, setting: str, device: str, batches: int, **options: Any) -> float:
    """Images a second of the second task, in Experiment's loop."""
    _, side, size = SETTINGS[setting]
    work = stream(batches * size, side)
    still = {"augment": {"crop": 1.0, "flip": False}}
    learner = make(method, device, setting, (), **still, **options)
    experiment = Experiment(work, learner, config=LoopConfig(batch_size=size))
    for task in work:
        learner.begin_task(task)
        experiment.progress.task, experiment.progress.step = task.index, 0
        wait(device)
        began = clock(device)
        for batch in experiment._remaining(task):
            experiment._learn(batch)
        wait(device)
        seconds = clock(device) - began
    return batches * size / seconds


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path)
    parser.add_argument("--setting", choices=sorted(SETTINGS))
    parser.add_argument("--batches", type=int, default=0)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    setting = options.setting or ("lite0" if device == "cuda" else "small")
    batches = options.batches or (8 if options.quick else 100 if device == "cuda" else 20)
    absent = {name for name in UNUSED if missing(name)}
    sys.meta_path.insert(0, StandIn(absent))
    rounds = 1 if options.quick else 2
    candidates: dict[str, Callable[[], float]] = {}
    for method in ("fine-tuning", "lwf"):
        for workers in (0, 4) if device == "cuda" else (0,):  # their own time is not in this process's
            name = f"{method}: avalanche, {workers} workers"
            candidates[name] = lambda m=method, w=workers: avalanche(m, setting, device, batches, w)
        candidates[f"{method}: mlcl"] = lambda m=method: ours(m, setting, device, batches)
        if device == "cuda":
            candidates[f"{method}: mlcl, recorded"] = lambda m=method: ours(
                m, setting, device, batches, record=True
            )
    speeds: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(rounds):  # they take turns, so that a busy machine slows all alike
        for name, run in candidates.items():
            speeds[name].append(run())
    result = {name: round(statistics.median(values), 1) for name, values in speeds.items()}
    ratio = {
        method: round(
            max(v for n, v in result.items() if n.startswith(f"{method}: mlcl"))
            / max(v for n, v in result.items() if n.startswith(f"{method}: avalanche")),
            2,
        )
        for method in ("fine-tuning", "lwf")
    }
    import avalanche as package

    whole = {
        "device": device,
        "setting": setting,
        "batches a task": batches,
        "images a second": result,
    }
    whole |= {"mlcl's best / avalanche's best": ratio, "avalanche": package.__version__}
    text = json.dumps(whole | {"stood in for": sorted(absent), "made": provenance()}, indent=1)
    print(text)
    if options.out:
        options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
