"""How near the estimated label graph comes to the true one, which the drawn scenes know, as data grows.

    python benchmarks/acm_convergence.py [--out benchmarks/results/acm-convergence.json]
        [--picture docs/pictures/acm-convergence.png] [--learn 500 1000 2000 4000] [--threads 1]

Root mean square of the differences off the diagonal, in three settings, each with less knowledge:

    images at random   every image with all labels, dealt to tasks at random: the estimator alone
    CL stream          an image enters a task only if it shows one of its classes, as in the paper
    AGCN++ in IL       as well, of old classes nobody tells: the expert's answers count (it learns the default
                       recipe's stream with that recipe's settings; minutes)

With --learn and nothing after it, AGCN++ does not learn, and what the JSON says of it stays.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mlcl import Experiment, load_recipe, store
from mlcl.acm import ACM, distance
from mlcl.data import scenes
from mlcl.data.table import LabelTable
from mlcl.stream import StreamConfig, build
from mlcl.types import Images

SIZES = (100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000)
SEEDS = range(5)
WIDTHS = (4,) * 6
NAMES = ("images at random", "CL stream", "AGCN++ in IL")


class Undrawn(Images):
    """Labels are all that counts here."""

    def __init__(self, count: int):
        self.count = count

    def __len__(self) -> int:
        return self.count

    def load(self, indices: Any) -> torch.Tensor:
        raise AssertionError


def rms(a: torch.Tensor) -> float:
    return distance(a, torch.from_numpy(scenes.oracle()))["rms"]


def at_random(seed: int, count: int) -> float:
    labels = torch.from_numpy(scenes.sample_labels(seed, count)).double()
    acm = ACM()
    for stop, part in zip(accumulate(WIDTHS), labels.tensor_split(len(WIDTHS)), strict=True):
        acm.grow(WIDTHS[len(acm.widths)])
        acm.update(part[:, :stop], torch.ones(len(part), stop, dtype=torch.bool))
    return rms(acm.matrix())


def in_cl(seed: int, count: int) -> float:
    labels = scenes.sample_labels(seed, count + 200)
    test = np.arange(len(labels)) >= count  # every stream has a test set; no label of it is counted
    refs = [f"scene {k}" for k in range(len(labels))]
    images = Undrawn(len(labels))
    table = LabelTable("scenes", scenes.CONCEPTS, refs, labels.astype(np.int8), test, images)
    acm = ACM()
    for task in build(table, StreamConfig(scenario="cl", way=4)):
        acm.grow(task.stop - task.start)
        acm.update(torch.from_numpy(task.train.y).double(), torch.from_numpy(task.train.known))
    return rms(acm.matrix())


def learnt(count: int, threads: int) -> float:
    torch.set_num_threads(threads)
    loop = {"evaluate": "last"}
    recipe = load_recipe("scenes", [{"methods": ["agcn++"], "data": {"train": count}, "loop": loop}])
    experiment = Experiment(recipe.build_stream(), recipe.build_learner("agcn++"), config=recipe.loop)
    found = experiment.run()["evaluations"][-1]["findings"]["acm"]
    return rms(torch.tensor(found, dtype=torch.float64))


def curve(measure: Callable[[int, int], float]) -> dict[str, dict[str, float]]:
    found = {}
    for size in SIZES:
        values = [measure(seed, size) for seed in SEEDS]
        found[str(size)] = {
            "rms": round(float(np.mean(values)), 5),
            "deviation": round(float(np.std(values)), 5),
        }
    return found


def draw(result: dict[str, Any], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4), dpi=150, layout="constrained")
    axes = figure.subplots()
    for name, mark, colour in zip(NAMES, "o^s", ("#0369b4", "#a87b00", "#00825f"), strict=True):
        points = result["rms"].get(name)
        if points:
            sizes, values = [int(size) for size in points], [point["rms"] for point in points.values()]
            axes.plot(sizes, values, marker=mark, color=colour, markersize=5)
            axes.annotate(name, (sizes[-1], values[-1]), (8, 0), textcoords="offset points",
                          va="center", color=colour)  # fmt: skip
    nothing = result["identity"]
    axes.axhline(nothing, color="#777777", linewidth=1, linestyle=":")
    axes.annotate("no relations at all", (600_000, nothing), (0, 4), textcoords="offset points",
                  ha="right", color="#555555")  # fmt: skip
    axes.set(xscale="log", yscale="log", xlabel="training images in the stream",
             ylabel="RMS distance to the true P(i | j)", xlim=(80, 700_000))  # fmt: skip
    axes.set_xticks([100, 1000, 10_000, 100_000], ["100", "1,000", "10,000", "100,000"])
    axes.set_yticks([0.01, 0.02, 0.05, 0.1, 0.2], ["0.01", "0.02", "0.05", "0.1", "0.2"])
    axes.minorticks_off()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/acm-convergence.json"))
    parser.add_argument("--picture", type=Path, default=Path("docs/pictures/acm-convergence.png"))
    parser.add_argument("--learn", type=int, nargs="*", default=[500, 1000, 2000, 4000])
    parser.add_argument("--threads", type=int, default=1)
    chosen = parser.parse_args()
    before = store.read_json(chosen.out)["rms"] if chosen.out.exists() else {}
    expert = dict(before.get(NAMES[2], {}))
    for count in chosen.learn:
        expert[str(count)] = {"rms": round(learnt(count, chosen.threads), 5)}
        print(f"{NAMES[2]}, {count} images: {expert[str(count)]['rms']}", flush=True)
    curves = {NAMES[0]: curve(at_random), NAMES[1]: curve(in_cl)}
    if expert:
        curves[NAMES[2]] = {size: expert[size] for size in sorted(expert, key=int)}
    origin = store.provenance()
    result = {
        "what": "root mean square distance of the estimated ACM to the oracle, by training images",
        "seeds": len(SEEDS),
        "mlcl": origin["mlcl"],
        "torch": origin["torch"],
        "identity": round(rms(torch.eye(len(scenes.CONCEPTS), dtype=torch.float64)), 5),
        "rms": curves,
    }
    store.write_json(chosen.out, result)
    draw(result, chosen.picture)
    for name, points in curves.items():
        print(f"{name:>18}  " + "  ".join(f"{size}: {point['rms']:.4f}" for size, point in points.items()))


if __name__ == "__main__":
    main()
