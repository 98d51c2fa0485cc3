"""Ridge on Split-COCO at 128 x 128 pixels: which features, which settings, and how far from the joint bound.

    python benchmarks/ridge_coco128.py --out FILE.json [--seconds 150] [--keep IMAGES] [--sets lite0-224 ...]

COCO128 names the folder (see coco128.py, whose `unpack` comes first). Features are worked out once a set,
kept in float16, and learnt by `ridge` itself through the experiment loop. Settings are chosen on training
images that are held out, never on test images. FILE.json is written after every run: one that is cut off
loses nothing.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from coco128 import Coco128
from torch import Tensor

from mlcl.config import from_tree
from mlcl.data.table import LabelTable
from mlcl.errors import MissingExtra
from mlcl.experiment import Experiment, LoopConfig
from mlcl.methods.ridge import Ridge
from mlcl.methods.ridge_acm import RidgeACM
from mlcl.nn.backbone import Backbone
from mlcl.nn.deep import deep_features
from mlcl.store import provenance
from mlcl.stream import StreamConfig, build
from mlcl.types import Images, Stream

VALIDATION = 0.1  # of the training images
SCENARIOS = ("il", "cl")
# tried in IL, on the first set of features: every combination, then the others one at a time
GRID = {"sharpness": [1.0, 1.5, 2.0], "past": [0.0, 0.5]}
OTHERS: list[dict[str, Any]] = [{"unknown": "zero"}, {"unknown": "hard"}, {"classwise": True}]
SETS = (
    "lite0-224", "lite2-320", "lite2-320+lite0-224", "lite2-320-mirror", "lite2-320-mirror+lite0-224",
    "lite1-320", "all", "lite2-384", "all",
)  # fmt: skip
RANDOM = (8192,)  # widths of the random map, on the best set
GMACS = {"lite0": 0.39 / 224**2, "lite1": 0.58 / 240**2, "lite2": 0.83 / 260**2}  # a pixel


class Held(Images):
    """Features in memory, in the place of images; which set, can be changed."""

    def __init__(self, count: int):
        self.count = count
        self.features = torch.zeros(count, 0)

    def __len__(self) -> int:
        return self.count

    def load(self, indices: Sequence[int] | np.ndarray) -> Tensor:
        return self.features[torch.as_tensor(np.asarray(indices), device=self.features.device)]


class JointRidge(Ridge):
    """The bound: all images at once with all labels."""

    def view(self, stream: Stream) -> Stream:
        return stream.joint(full=True)


class Bench:
    def __init__(self, options: argparse.Namespace):
        self.options = options
        self.began = time.perf_counter()
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        table = Coco128(Coco128.Config(keep=options.keep)).table()
        self.pixels = table.images
        self.held = Held(len(table))
        self.table: LabelTable = dataclasses.replace(table, images=self.held)
        self.streams = {
            (scenario, part): build(self.table, StreamConfig(scenario=scenario, validation=part))  # type: ignore[arg-type]
            for scenario in SCENARIOS
            for part in (0.0, VALIDATION)
        }
        self.sets: dict[str, Tensor] = {}
        self.pace = 2.7e-4 * options.pace  # seconds an image and giga-multiply-add, until it is measured
        self.report: dict[str, Any] = {
            "what": "ridge, Split-COCO at 128 x 128 pixels, 10 tasks of 4 classes, no replay; mAP in %",
            "grid": {"il, held out": GRID, "then one at a time": OTHERS, "validation": VALIDATION},
            "images": len(table),
            "features": {},
            "runs": [],
            "made": provenance(),
        }

    @property
    def spent(self) -> float:
        return time.perf_counter() - self.began

    def left(self, seconds: float, what: str) -> bool:
        """Is there time for something that takes so long on the GPU?"""
        fits = self.spent + seconds < self.options.seconds
        if not fits:
            self.say(f"no time for {what}")
        return fits

    def say(self, text: str) -> None:
        print(f"{self.spent:6.1f} s  {text}", flush=True)
        self.report["seconds"] = round(self.spent, 1)
        if self.options.out:
            partial = self.options.out.with_suffix(".partial")
            partial.write_text(json.dumps(self.report, indent=1, default=str) + "\n")
            partial.replace(self.options.out)

    def seconds(self, names: Sequence[str]) -> float:
        """How long working out these features will take."""
        return sum(self._work(name) for name in names) * self.pace * len(self.pixels)

    @staticmethod
    def _work(name: str) -> float:
        kind, size, *_ = name.split("-")
        return GMACS[kind] * int(size) ** 2

    def extract(self, name: str) -> None:
        """The features called `liteK-SIZE[-mirror]`, into memory."""
        kind, size, *mirror = name.split("-")
        began = time.perf_counter()
        plain = f"{kind}-{size}"
        if mirror and plain in self.sets:
            other = self._forward(kind, int(size), mirrored=True)
            self.sets[name] = ((self.sets[plain].float() + other.float()) / 2).half()
        else:
            self.sets[name] = self._forward(kind, int(size), mirrored=False)
        taken = time.perf_counter() - began
        self.pace = taken / (self._work(name) * len(self.pixels))
        about = {"width": self.sets[name].shape[1], "seconds": round(taken, 1)}
        self.report["features"][name] = about
        self.say(f"{name}: features {about}")

    @torch.inference_mode()
    def _forward(self, kind: str, size: int, mirrored: bool) -> Tensor:
        net = Backbone(Backbone.Config(name=f"efficientnet-{kind}", size=size)).to(self.device)
        net.requires_grad_(False).eval()
        step = self.options.chunk
        parts = []
        for a in range(0, len(self.pixels), step):
            x = self.pixels.load(np.arange(a, min(a + step, len(self.pixels)))).to(self.device)
            with torch.autocast(self.device, torch.float16, enabled=self.device == "cuda"):
                f = deep_features(net, x.flip(-1) if mirrored else x, "stages", "mean+max")
            parts.append(f[:, : self.options.features].half())
        return torch.cat(parts)

    def use(self, name: str) -> None:
        """Makes a set, or several side by side, what the streams hand out."""
        parts = [self.sets[part] for part in name.split("+")]
        self.held.features = torch.cat(parts, dim=1) if len(parts) > 1 else parts[0]

    def learn(
        self,
        label: str,
        scenario: str,
        settings: dict[str, Any],
        *,
        kind: type[Ridge] = Ridge,
        part: float = 0.0,
        seed: int = 0,
        every: bool = False,
    ) -> float:
        """One run, tested on held-out training images if `part` of them is held out; its final mAP."""
        began = time.perf_counter()
        kind = JointRidge if scenario == "joint" else kind
        config = from_tree(kind.Config, {"backbone": {"name": "tiny"}, **settings})
        learner = kind(config, seed=seed, device=self.device)
        stream = self.streams["il" if scenario == "joint" else scenario, part]
        tests: Literal["every", "last"] = "every" if every else "last"
        loop = LoopConfig(batch_size=4096, test_batch_size=4096, checkpoint_every=0, evaluate=tests)
        summary = Experiment(stream, learner, config=loop, seed=seed).run()["summary"]
        values = {
            f"{metric} {which}": round(100 * summary[metric][key], 2)
            for metric in ("mAP", "CF1", "OF1")
            for which, key in (("final", "final"), ("mean", "mean_over_tests"))
        }
        if every:
            values |= {key: round(100 * value, 2) for key, value in summary["mAP"].items()}
        run = {"method": "joint" if scenario == "joint" else kind.name, "features": label}
        run |= {"scenario": scenario, "tested on": "held-out training" if part else "test"}
        run |= {"settings": settings, "seed": seed, **values}
        run |= {
            "penalty": sorted(set(learner.fit.penalty.tolist())),
            "leverage": round(float(learner.fit.leverage.mean()), 3),
        }
        run["seconds"] = round(time.perf_counter() - began, 2)
        self.report["runs"].append(run)
        self.say(
            f"{label} {scenario} {run['tested on']} {settings}: {values['mAP final']} / {values['mAP mean']}"
        )
        return values["mAP final"]

    def choose(self, label: str) -> dict[str, Any]:
        """The best settings in IL on held-out training images."""
        tried: list[tuple[float, dict[str, Any]]] = []

        def attempt(settings: dict[str, Any]) -> None:
            tried.append((self.learn(label, "il", settings, part=VALIDATION), settings))

        for values in itertools.product(*GRID.values()):
            attempt(dict(zip(GRID, values, strict=True)))
        best = max(tried, key=lambda pair: pair[0])[1]
        for other in OTHERS:
            attempt({**best, **other})
        best = max(tried, key=lambda pair: pair[0])[1]
        self.report["chosen"] = best
        return best


def steps(bench: Bench, names: Sequence[str]) -> Iterator[None]:
    """Everything, what matters most first."""
    chosen: dict[str, Any] = {}
    scores: dict[str, float] = {}
    for name in names:
        parts = sorted(bench.sets if name == "all" else name.split("+"), reverse=True)
        name = "+".join(parts)
        new = [part for part in parts if part not in bench.sets]
        if name in scores or not bench.left(10 + bench.seconds(new), name):
            continue
        try:
            for part in new:
                bench.extract(part)
        except MissingExtra as error:  # weights that are not here are no reason to stop
            bench.say(f"{name} is left out: {error}")
            continue
        bench.use(name)
        if not chosen:
            chosen = bench.choose(name)
            bench.learn(name, "il", {"unknown": "zero"})
        scores[name] = bench.learn(name, "il", chosen, part=VALIDATION)
        for scenario in ("il", "cl", "joint"):
            bench.learn(name, scenario, chosen)
        yield
    best = max(scores, key=lambda name: scores[name])
    bench.report["best features, by held-out images"] = best
    bench.use(best)
    if bench.left(8, "forgetting, and the graph"):
        bench.learn(best, "il", chosen, every=True)
        for neighbours in (0.02, 0.1):
            settings = {**chosen, "neighbours": neighbours}
            bench.learn(best, "il", settings, kind=RidgeACM, part=VALIDATION)
        bench.learn(best, "il", settings, kind=RidgeACM)
    yield
    for width in bench.options.random:
        settings = {**chosen, "random": width}
        if not bench.left(4 + 9 * (width / 8192) ** 2, f"{width} random features"):
            return
        bench.learn(best, "il", settings, part=VALIDATION)
        for seed in range(3):
            for scenario in ("il", "cl", "joint"):
                if bench.left(2 + 3 * (width / 8192) ** 2, f"{width} random features, seed {seed}"):
                    bench.learn(best, scenario, settings, seed=seed)
        yield


ESTIMATE = (
    30 / 320**2
)  # seconds of feature extraction, by the square of the side, on one H200 that others use too


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path)
    parser.add_argument("--seconds", type=float, default=1e9, help="begin nothing that would end later")
    parser.add_argument("--keep", type=int, default=0, help="only so many images, for a dry run")
    parser.add_argument(
        "--pace", type=float, default=1.0, help="how many times an H200's time things take at first guess"
    )
    parser.add_argument("--chunk", type=int, default=512, help="images that go through the backbone at once")
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument("--features", type=int, help="only the first so many, for a dry run")
    parser.add_argument("--random", nargs="*", type=int, default=list(RANDOM))
    bench = Bench(parser.parse_args())
    torch.backends.cudnn.benchmark = True
    bench.say(f"{len(bench.pixels)} images on {bench.device}")
    for _ in steps(bench, bench.options.sets):
        pass
    bench.say("done")


if __name__ == "__main__":
    main()
