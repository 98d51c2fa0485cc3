"""The loop's images a second against the bare step on the same device: what loading, logging and saving cost.

    python benchmarks/loop.py [--out FILE.json] [--quick]

The loop is Experiment's own, with a folder, a log and checkpoints; images are uint8 in memory, as from the
packed cache, so that no JPEG is measured. The bare step is `observe` on one batch that lies on the device.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from step import SETTINGS, clock, make

from mlcl import Experiment, Samples, Stream, Task
from mlcl.experiment import LoopConfig
from mlcl.store import provenance
from mlcl.types import Images

CLASSES = 40


class Pixels(Images):
    """Random images in memory, a few of them over and over."""

    def __init__(self, count: int, side: int, real: int = 512):
        self.count, chance = count, np.random.default_rng(0)
        self.x = torch.from_numpy(chance.integers(0, 256, (real, 3, side, side), dtype=np.uint8))

    def __len__(self) -> int:
        return self.count

    def load(self, indices: Any) -> torch.Tensor:
        return self.x[torch.as_tensor(np.asarray(indices)) % len(self.x)]


def stream(images: int, side: int) -> Stream:
    """Two tasks: of the second, old classes are not known, as in IL."""
    pixels, chance = Pixels(2 * images, side), np.random.default_rng(1)
    names, tasks = tuple(f"class {c}" for c in range(CLASSES)), []
    for index, (start, stop) in enumerate(((0, CLASSES - 4), (CLASSES - 4, CLASSES))):
        rows = np.arange(index * images, (index + 1) * images)
        y = (chance.random((images, stop)) < 0.1).astype(np.uint8)
        known = np.broadcast_to(np.arange(stop) >= start, y.shape).copy()
        train = Samples(pixels, rows, y, known)
        tasks.append(Task(index, start, stop, names[start:stop], train, train))
    return Stream(names, tasks, "random")


def wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def measure(method: str, setting: str, device: str, batches: int, **options: Any) -> dict[str, float]:
    _, side, size = SETTINGS[setting]
    work, learner = stream(batches * size, side), make(method, device, setting, (), **options)
    loops, steps = [], []
    with tempfile.TemporaryDirectory() as folder:
        config = LoopConfig(batch_size=size, test_batch_size=size)
        experiment = Experiment(work, learner, config=config, folder=Path(folder) / "run")
        for task in work:
            learner.begin_task(task)
            experiment.progress.task, experiment.progress.step = task.index, 0
            for batch in experiment._batches(task, np.arange(8 * size)):  # warm, and recorded
                learner.observe(batch)
            wait(device)
            began = clock(device)
            for batch in experiment._remaining(task):
                experiment._learn(batch)
            wait(device)
            loops.append(batches * size / (clock(device) - began))
            here = task.train.batch(np.arange(size)).to(device)
            wait(device)
            began = clock(device)
            for _ in range(batches):
                learner.observe(here)
            wait(device)
            steps.append(batches * size / (clock(device) - began))
    last = {"loop, images/s": loops[-1], "bare step, images/s": steps[-1]}  # with an expert, if there is one
    share = statistics.mean(a / b for a, b in zip(loops, steps, strict=True))
    return {name: round(value, 1) for name, value in last.items()} | {"loop / bare step": round(share, 3)}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path)
    parser.add_argument("--setting", choices=sorted(SETTINGS))
    parser.add_argument("--methods", nargs="*", default=["fine-tuning", "agcn++"])
    parser.add_argument("--batches", type=int, default=0)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    setting = options.setting or ("lite0" if device == "cuda" else "small")
    batches = options.batches or (10 if options.quick else 300 if device == "cuda" else 20)
    result: dict[str, Any] = {"device": device, "setting": setting, "batches a task": batches}
    for method in options.methods:
        result[method] = measure(method, setting, device, batches)
        if device == "cuda":
            result[f"{method} recorded"] = measure(method, setting, device, batches, record=True)
    text = json.dumps(result | {"bar": "loop / bare step >= 0.9", "made": provenance()}, indent=1)
    print(text)
    if options.out:
        options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
