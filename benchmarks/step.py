"""One step of a method against its floor, and against the number of classes; everything in one run.

    python benchmarks/step.py [--out FILE.json] [--backbone NAME] [--size PIXELS] [--batch IMAGES] [--quick]

The floor is the student's forward and backward pass plus the expert's forward pass and nothing else, on the
same batch: no augmentation, no graph, no optimiser.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from mlcl import losses
from mlcl.config import from_tree
from mlcl.learner import GradientLearner, frozen_copy, learner
from mlcl.nn.backbone import Backbone
from mlcl.nn.head import GrowingLinear
from mlcl.store import provenance
from mlcl.types import Batch, Task

WIDTHS = (36, 4)  # classes of the task before and of this one


def make(method: str, device: str, backbone: dict[str, Any], widths: tuple[int, ...]) -> GradientLearner:
    kind = learner(method)
    tree: dict[str, Any] = {"backbone": backbone, "precision": "bfloat16"}
    made = kind(from_tree(kind.Config, tree), device=device)
    assert isinstance(made, GradientLearner)
    start = 0
    for index, width in enumerate(widths):
        names = tuple(f"class {c}" for c in range(start, start + width))
        made.begin_task(Task(index, start, start + width, names, None, None))  # type: ignore[arg-type]
        start += width
    return made


def make_batch(device: str, count: int, side: int, classes: int, new: int) -> Batch:
    chance = torch.Generator().manual_seed(0)
    x = torch.randint(256, (count, 3, side, side), dtype=torch.uint8, generator=chance)
    y = (torch.rand(count, classes, generator=chance) < 0.1).float()
    known = torch.zeros(count, classes, dtype=torch.bool)
    known[:, -new:] = True
    return Batch(x, y, known).to(device)


def floor(device: str, backbone: Backbone, classes: int, batch: Batch) -> Callable[[], None]:
    chance = torch.Generator().manual_seed(0)
    net = torch.nn.Sequential(backbone, GrowingLinear(backbone.width))
    net[1].grow(classes, chance)
    net.to(device)
    expert = frozen_copy(net)

    def step() -> None:
        net.train()
        with torch.autocast(device, torch.bfloat16):
            with torch.no_grad():
                expert(batch.x)
            loss = losses.bce(net(batch.x), batch.y, batch.known)
        loss.backward()  # type: ignore[no-untyped-call]
        for p in net.parameters():
            p.grad = None

    return step


def bare(net: GradientLearner, batch: Batch) -> Callable[[], None]:
    """What fine-tuning needs at least: forward, backward and the optimiser."""

    def step() -> None:
        net.net.train()
        with net.autocast():
            loss = losses.bce(net.net(batch.x), batch.y, batch.known)
        assert net.optimizer is not None
        net.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        net.optimizer.step()

    return step


def side_by_side(
    steps: dict[str, Callable[[], Any]], device: str, rounds: int, repeat: int
) -> dict[str, float]:
    """Median milliseconds a step; the candidates take turns, so that a busy machine slows all alike."""

    def wait() -> None:
        if device == "cuda":
            torch.cuda.synchronize()

    for step in steps.values():
        for _ in range(3):
            step()
    times: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(rounds):
        for name, step in steps.items():
            wait()
            began = time.perf_counter()
            for _ in range(repeat):
                step()
            wait()
            times[name].append(1000 * (time.perf_counter() - began) / repeat)
    return {name: statistics.median(values) for name, values in times.items()}


def measure(options: argparse.Namespace, device: str) -> dict[str, Any]:
    weights = "random" if options.backbone.startswith("timm:") else ""
    config = {"name": options.backbone, "size": options.size, "weights": weights}
    rounds, repeat = (3, 2) if options.quick else (7, 10)
    batch = make_batch(device, options.batch, options.side or options.size, sum(WIDTHS), WIDTHS[-1])
    network = Backbone(from_tree(Backbone.Config, config), torch.Generator().manual_seed(0))
    learners = {name: make(name, device, config, WIDTHS) for name in options.methods}
    steps: dict[str, Callable[[], Any]] = {"floor": floor(device, network, sum(WIDTHS), batch)}
    steps["bare fine-tuning"] = bare(make("fine-tuning", device, config, WIDTHS), batch)
    steps |= {name: lambda made=made: made.observe(batch) for name, made in learners.items()}
    result: dict[str, Any] = {"ms": side_by_side(steps, device, rounds, repeat)}
    result["ratio to the floor"] = {n: ms / result["ms"]["floor"] for n, ms in result["ms"].items()}
    by_classes = {}
    for classes in options.classes:
        grown = make("agcn++", device, config, (classes - 4, 4))
        wide = make_batch(device, options.batch, options.side or options.size, classes, 4)
        by_classes[f"{classes} classes"] = lambda grown=grown, wide=wide: grown.observe(wide)
    if by_classes:
        result["agcn++ ms by classes"] = side_by_side(by_classes, device, max(2, rounds // 2), repeat)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path)
    parser.add_argument("--backbone", default="efficientnet-lite0")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--side", type=int, default=0, help="of the images, before the backbone resizes them")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--methods", nargs="*", default=["fine-tuning", "lwf", "agcn", "agcn++"])
    parser.add_argument("--classes", nargs="*", type=int, default=[40, 1000])
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    result = {"setting": {k: v for k, v in vars(options).items() if k not in ("out", "quick")}}
    result |= measure(options, device) | {"made": provenance()}
    text = json.dumps(result, indent=1, default=str)
    print(text)
    if options.out:
        options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
