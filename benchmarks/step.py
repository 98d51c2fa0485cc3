"""One step of a method against its floor, and against classes and tasks; ratios of one run, side by side.

    python benchmarks/step.py [--out FILE.json] [--quick]      two settings on a GPU, the small one on a CPU
    python benchmarks/step.py --sync                           GPU: where does a step wait for the device?
    python benchmarks/step.py --compile                        what torch.compile costs and gives (minutes)

The floor is the student's forward and backward pass plus the expert's forward pass and nothing else, on the
same batch: no augmentation, no graph, no optimiser. `recorded` is learner.record: the step as one CUDA graph;
its own floor is recorded as well.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import json
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from mlcl import losses
from mlcl.config import from_tree
from mlcl.engine import Recorded
from mlcl.learner import GradientLearner, frozen_copy, learner, learners
from mlcl.nn.backbone import Backbone
from mlcl.nn.efficientnet_lite import ConvNorm
from mlcl.nn.head import GrowingLinear
from mlcl.store import provenance
from mlcl.types import Batch, Task

Steps = dict[str, Callable[[], Any]]
WIDTHS = (36, 4)  # classes of the task before and of this one
SETTINGS = {  # backbone, side in pixels, images a batch
    "lite0": ("efficientnet-lite0", 224, 32),
    "resnet101": ("timm:resnet101", 448, 8),
    "small": ("efficientnet-lite0", 128, 16),  # what a CPU learns
    "tiny": ("tiny", 32, 32),
}


def make(method: str, device: str, setting: str, widths: tuple[int, ...], **options: Any) -> GradientLearner:
    """A method that has learnt nothing but has seen its tasks begin."""
    kind = learner(method)
    name, side, _ = SETTINGS[setting]
    tree = {"backbone": {"name": name, "size": side, "weights": "random"}, "precision": "bfloat16"}
    if name in ("tiny",):
        tree["backbone"] = {"name": name}
    made = kind(from_tree(kind.Config, tree | options), device=device)
    assert isinstance(made, GradientLearner)
    start = 0
    for index, width in enumerate(widths):
        names = tuple(f"class {c}" for c in range(start, start + width))
        made.begin_task(Task(index, start, start + width, names, None, None))  # type: ignore[arg-type]
        start += width
    return made


def make_batch(setting: str, widths: tuple[int, ...]) -> Batch:
    _, side, count = SETTINGS[setting]
    chance = torch.Generator().manual_seed(0)
    x = torch.randint(256, (count, 3, side, side), dtype=torch.uint8, generator=chance)
    y = (torch.rand(count, sum(widths), generator=chance) < 0.1).float()
    known = torch.zeros(y.shape, dtype=torch.bool)
    known[:, -widths[-1] :] = True
    return Batch(x, y, known)


def observes(
    method: str, device: str, setting: str, widths: tuple[int, ...], **options: Any
) -> Callable[[], Any]:
    made, batch = make(method, device, setting, widths, **options), make_batch(setting, widths).to(device)
    return lambda: made.observe(batch)


def floor(device: str, setting: str) -> Callable[..., dict[str, torch.Tensor]]:
    name, side, _ = SETTINGS[setting]
    size = {} if name == "tiny" else {"size": side, "weights": "random"}
    backbone = Backbone(from_tree(Backbone.Config, {"name": name} | size), torch.Generator().manual_seed(0))
    head = GrowingLinear(backbone.width)
    head.grow(sum(WIDTHS), torch.Generator().manual_seed(0))
    net = torch.nn.Sequential(backbone, head).to(device).train()
    expert = frozen_copy(net)
    parameters = list(net.parameters())

    def step(x: torch.Tensor, y: torch.Tensor, known: torch.Tensor) -> dict[str, torch.Tensor]:
        for p in parameters:
            p.grad = None
        with torch.autocast(device, torch.bfloat16):
            with torch.no_grad():
                expert(x)
            loss = losses.bce(net(x), y, known)
        loss.backward()  # type: ignore[no-untyped-call]
        return {"loss": loss.detach()}

    return step


def clock(device: str) -> float:
    """Seconds; on a CPU those of its work, which others on the machine do not lengthen: use one thread."""
    return time.perf_counter() if device == "cuda" else time.process_time()


def side_by_side(steps: Steps, device: str, rounds: int, repeat: int) -> dict[str, float]:
    """Median milliseconds a step; the candidates take turns, so that a busy machine slows all alike."""

    def wait() -> None:
        if device == "cuda":
            torch.cuda.synchronize()

    for step in steps.values():
        for _ in range(6 if device == "cuda" else 1):  # beyond the warm-up and the recording
            step()
    times: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(rounds):
        for name, step in steps.items():
            wait()
            began = clock(device)
            for _ in range(repeat):
                step()
            wait()
            times[name].append(1000 * (clock(device) - began) / repeat)
    return {name: round(statistics.median(values), 4) for name, values in times.items()}


def launches(step: Callable[[], Any], device: str) -> dict[str, Any]:
    """Of one step: kernels and copies, how long they take on the device, and which take longest."""
    from torch.profiler import ProfilerActivity, profile

    kinds = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device == "cuda" else [])]
    with profile(activities=kinds) as seen:
        step()
        if device == "cuda":
            torch.cuda.synchronize()
    if device == "cpu":
        return {"operators": sum(event.name.startswith("aten::") for event in seen.events())}
    on_device = [e for e in seen.events() if str(e.device_type).endswith("CUDA")]
    events = [e for e in on_device if not getattr(e, "is_user_annotation", False) and "#" not in e.name]
    total: dict[str, float] = {}
    for event in events:
        total[event.name[:70]] = total.get(event.name[:70], 0.0) + event.time_range.elapsed_us() / 1000
    longest = sorted(total.items(), key=lambda item: -item[1])[:12]
    return {
        "launches": len(events),
        "device_ms": round(sum(total.values()), 3),
        "longest_ms": {name: round(ms, 3) for name, ms in longest},
    }


@contextmanager
def folding(folds: bool) -> Iterator[None]:
    """Batch norms that learn, folded into their convolutions or not, whatever the device."""
    before = ConvNorm._folds
    ConvNorm._folds = lambda self, x: folds or not self._learns()  # type: ignore[method-assign]
    try:
        yield
    finally:
        ConvNorm._folds = before  # type: ignore[method-assign]


def with_folding(
    step: Callable[..., Any], inputs: tuple[torch.Tensor, ...], folds: bool
) -> Callable[[], Any]:
    def folded() -> Any:
        with folding(folds):
            return step(*inputs)

    return folded


def measure(setting: str, device: str, options: argparse.Namespace) -> dict[str, Any]:
    rounds, repeat = (3, 1) if options.quick else (5, 8) if device == "cuda" else (5, 2)
    cuda = device == "cuda"
    batch = make_batch(setting, WIDTHS).to(device)
    inputs = (batch.x, batch.y, batch.known)
    bare = floor(device, setting)
    steps: Steps = {"floor": lambda: bare(*inputs)}
    steps |= {name: observes(name, device, setting, WIDTHS) for name in options.methods}
    if cuda:
        recorded = Recorded(floor(device, setting), torch.device(device))
        steps["floor recorded"] = lambda: recorded(*inputs)
        able = [name for name in options.methods if learner(name).recordable]  # type: ignore[attr-defined]
        steps |= {f"{n} recorded": observes(n, device, setting, WIDTHS, record=True) for n in able}
    if options.compile:
        steps |= {f"{n} compiled": observes(n, device, setting, WIDTHS, compile=True) for n in ("agcn++",)}
    began = time.perf_counter()
    ms = side_by_side(steps, device, rounds, repeat)
    result: dict[str, Any] = {"ms": ms}
    if options.compile:
        result["seconds with compiling"] = round(time.perf_counter() - began, 1)
    result["to the floor"] = {n: round(v / ms["floor"], 3) for n, v in ms.items()}
    if cuda:
        own = {n: v for n, v in ms.items() if n.endswith("recorded")}
        result["to the recorded floor"] = {n: round(v / ms["floor recorded"], 3) for n, v in own.items()}
    result["one step"] = {n: launches(step, device) for n, step in steps.items() if "++" in n or "floor" in n}
    if SETTINGS[setting][0] == "efficientnet-lite0":
        ways = {"folded": with_folding(bare, inputs, True), "unfolded": with_folding(bare, inputs, False)}
        result["floor by batch norm, ms"] = side_by_side(ways, device, rounds, repeat)
    del steps
    gc.collect()  # recordings hold their memory
    grown = {
        f"{c} classes": (c - c // 10, c // 10) if c > 9 else (c // 2, c - c // 2) for c in options.classes
    }
    if SETTINGS[setting][0] == "efficientnet-lite0":
        grown |= {f"200 classes in {t} tasks": (200 // t,) * t for t in options.tasks}
    result["agcn++ by classes and tasks, ms"] = side_by_side(
        {name: observes("agcn++", device, setting, widths) for name, widths in grown.items()},
        device,
        rounds,
        repeat,
    )
    if cuda:
        result["agcn++ recorded by classes and tasks, ms"] = side_by_side(
            {n: observes("agcn++", device, setting, w, record=True) for n, w in grown.items()},
            device,
            rounds,
            repeat,
        )
    return result


def waits(setting: str, options: argparse.Namespace) -> dict[str, Any]:
    """Method -> the lines of a step that wait for the device, how often; batches are pinned, as in loops."""
    found: dict[str, Any] = {}
    for method in options.methods or learners():
        kind = learner(method)
        if not issubclass(kind, GradientLearner):
            continue
        made, batch = make(method, "cuda", setting, WIDTHS), make_batch(setting, WIDTHS).pinned()
        for _ in range(3):
            made.observe(batch)
        lines: dict[str, int] = {}
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
            for _ in range(3):
                made.observe(batch)
            torch.cuda.set_sync_debug_mode("default")
        for w in heard:
            if "synchroniz" in str(w.message):
                line = f"{Path(w.filename).name}:{w.lineno}"
                lines[line] = lines.get(line, 0) + 1
        found[method] = lines
    return found


def bars(results: dict[str, Any]) -> dict[str, Any]:
    """The issue's two bars on this script, as far as this run measured them."""
    found = {}
    for setting, result in results.items():
        ratios, grown = result["to the floor"], result["agcn++ by classes and tasks, ms"]
        found[f"{setting}: agcn++ / floor <= 1.10"] = min(
            ratios[name] for name in ("agcn++", "agcn++ recorded") if name in ratios
        )
        if {"40 classes", "1000 classes"} <= grown.keys():
            for name in ("agcn++", "agcn++ recorded"):
                if (key := f"{name} by classes and tasks, ms") in result:
                    share = result[key]["1000 classes"] / result[key]["40 classes"]
                    found[f"{setting}: {name}, 1,000 classes / 40 <= 1.3"] = round(share, 3)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path)
    parser.add_argument("--settings", nargs="*", choices=sorted(SETTINGS))
    parser.add_argument("--backbone", help="another setting: a backbone, with --side and --batch")
    parser.add_argument("--side", type=int, default=224, help="in pixels")
    parser.add_argument("--batch", type=int, default=32, help="images")
    parser.add_argument("--methods", nargs="*")
    parser.add_argument("--classes", nargs="*", type=int, default=[4, 40, 200, 1000])
    parser.add_argument("--tasks", nargs="*", type=int, default=[2, 10, 100])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--sync", action="store_true")
    options = parser.parse_args()
    if options.backbone:
        SETTINGS["given"] = (options.backbone, options.side, options.batch)
        options.settings = ["given"]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    timm = device == "cuda" and importlib.util.find_spec("timm") is not None
    settings = options.settings or (
        ["lite0", *(["resnet101"] if timm else [])] if device == "cuda" else ["small"]
    )
    began = time.perf_counter()
    if options.sync:
        if device == "cpu":
            parser.error("--sync: PyTorch finds no CUDA device on this machine")
        text = json.dumps({"waits in 3 steps": waits(settings[0], options)}, indent=1)
    else:
        options.methods = options.methods or ["fine-tuning", "lwf", "agcn", "agcn++"]
        results = {setting: measure(setting, device, options) for setting in settings}
        whole = {"bars": bars(results), "device": device, **results}
        whole |= {"seconds": round(time.perf_counter() - began, 1), "made": provenance()}
        text = json.dumps(whole, indent=1)
    print(text)
    if options.out:
        options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
