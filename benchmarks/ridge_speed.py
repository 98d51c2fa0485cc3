"""Ridge on a stream as long as Split-COCO, from cached features, on two cores.

    python benchmarks/ridge_speed.py [--out FILE.json] [--features 3808] [--images 65072] [--threads 2]

The features are synthetic (noise around a mean of each label, float16, through the memory-mapped cache like
real ones): how long sums and factorisations take does not depend on what the numbers are. Ten tasks of four
classes with the official numbers of images, through the experiment loop; the learner has its defaults.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mlcl.config import from_tree
from mlcl.data.features import FeatureImages, featurise
from mlcl.experiment import Experiment, LoopConfig, batches, set_threads
from mlcl.methods.ridge import Ridge
from mlcl.store import provenance
from mlcl.types import Images, Samples, Stream, Task

SIZES = (11611, 6299, 6227, 6118, 6260, 6102, 6134, 6161, 6000, 4160)  # Split-COCO's tasks
WAY = 4
TESTS = 500  # images to test on at the end: prediction is not what is timed here


class Noise(Images):
    """Rows made from their numbers alone; in the place of a backbone's features."""

    def __init__(self, labels: np.ndarray, width: int):
        self.labels = labels
        self.means = np.random.default_rng(0).normal(size=(labels.shape[1], width)).astype(np.float32)

    def __len__(self) -> int:
        return len(self.labels)

    def identity(self) -> str:
        return "noise"

    def load(self, indices: Sequence[int] | np.ndarray) -> Tensor:
        take = np.asarray(indices)
        chance = np.random.default_rng(int(take[0]))
        noise = chance.standard_normal((len(take), self.means.shape[1]), dtype=np.float32)
        return torch.from_numpy(np.abs(noise + self.labels[take] @ self.means))


def make_stream(images: FeatureImages, labels: np.ndarray, sizes: Sequence[int]) -> Stream:
    """IL: each task marks its own four classes."""
    names = tuple(f"class {c}" for c in range(labels.shape[1]))
    tests = np.arange(TESTS)
    tasks, first = [], TESTS
    for index, size in enumerate(sizes):
        start, stop = index * WAY, (index + 1) * WAY
        rows = np.arange(first, first + size)
        known = np.zeros((size, stop), bool)
        known[:, start:] = True
        train = Samples(images, rows, labels[rows, :stop], known)
        test = Samples(images, tests, labels[tests, :stop], np.ones((TESTS, stop), bool))
        tasks.append(Task(index, start, stop, names[start:stop], train, test))
        first += size
    return Stream(names, tasks, "synthetic")


class Clocked(Ridge):
    """Notes when each task begins and ends."""

    def __init__(self, config: Any, **how: Any):
        super().__init__(config, **how)
        self.seconds: list[float] = []

    def begin_task(self, task: Task) -> None:
        self.seconds.append(-time.perf_counter())
        super().begin_task(task)

    def end_task(self, task: Task, batches: Any) -> None:
        super().end_task(task, batches)
        assert torch.isfinite(self.fit.weights).all()  # solved, so that it could predict now
        self.seconds[-1] += time.perf_counter()


def gigaflops(width: int) -> float:
    """The best of a few plain float64 products of the same shape, in this process, right now."""
    z, out = torch.randn(1024, width, dtype=torch.float64), torch.zeros(width, width, dtype=torch.float64)
    best = float("inf")
    for _ in range(5):
        began = time.perf_counter()
        out.addmm_(z.T, z)
        best = min(best, time.perf_counter() - began)
    return round(2 * len(z) * width**2 / best / 1e9, 1)


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    sizes = [max(1, round(size * options.images / sum(SIZES))) for size in SIZES]
    count = TESTS + sum(sizes)
    labels = (np.random.default_rng(1).random((count, WAY * len(sizes))) < 0.06).astype(np.uint8)
    noise = Noise(labels, options.features)
    refs = [str(i) for i in range(count)]
    cached = featurise(noise, refs, folder, lambda x: x, "noise", dtype="float16", batch=1024)
    stream = make_stream(cached, labels, sizes)
    learner = Clocked(from_tree(Clocked.Config, {"backbone": {"name": "tiny"}}))
    loop = LoopConfig(batch_size=options.batch, test_batch_size=TESTS, checkpoint_every=0, evaluate="last")
    speed = gigaflops(options.features)
    began, cpu = time.perf_counter(), os.times()
    Experiment(stream, learner, config=loop).run()
    wall, now = time.perf_counter() - began, os.times()
    extra = stream[8]  # once more, as an eleventh task of as many images as its classes
    began = time.perf_counter()
    task = Task(10, 40, 44, tuple(f"class {c}" for c in range(40, 44)), extra.train, extra.test)
    learner.begin_task(task)
    for batch in batches(widened(extra.train), np.arange(len(extra.train)), options.batch):
        learner.observe(batch)
    learner.end_task(task, [])
    return {
        "images": sum(sizes),
        "features": options.features,
        "classes": labels.shape[1],
        "seconds": round(wall, 1),
        "cpu seconds": round(now.user + now.system - cpu.user - cpu.system, 1),
        "seconds of each task": [round(s, 2) for s in learner.seconds[: len(sizes)]],
        f"seconds of one more task of {len(extra.train)} images": round(time.perf_counter() - began, 2),
        "peak memory in GB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
        "threads": torch.get_num_threads(),
        "float64 GFLOP/s of plain products beside it": [speed, gigaflops(options.features)],
        "load of the machine": round(os.getloadavg()[0], 1),
    }


def widened(samples: Samples) -> Samples:
    """The same images under four new classes."""
    y = np.pad(samples.y, ((0, 0), (0, 44 - samples.y.shape[1])))
    known = np.zeros_like(y, bool)
    y[:, 40:] = samples.y[:, -WAY:]
    known[:, 40:] = True
    return Samples(samples.images, samples.rows, y, known)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path)
    parser.add_argument("--features", type=int, default=3808)
    parser.add_argument("--images", type=int, default=sum(SIZES))
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    set_threads(options.threads)
    with tempfile.TemporaryDirectory() as folder:
        result = measure(options, Path(folder)) | {"made": provenance()}
    text = json.dumps(result, indent=1, default=str)
    print(text)
    if options.out:
        options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
