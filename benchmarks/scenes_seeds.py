"""Does the default recipe keep its promise: AGCN++ above fine-tuning and under joint-full, for every seed?

    python benchmarks/scenes_seeds.py FOLDER [--out benchmarks/results/scenes-seeds.json] [--seeds 0 1 2]
        [--threads 1] [--set KEY=VALUE]

FOLDER keeps the runs; called again, it goes on where it was stopped. One thread by default, so that the
figures do not depend on what else the machine does. Exits with 1 if the order does not hold. The committed
figures have one more method: --set 'methods=["fine-tuning", "lwf", "agcn++", "joint-full"]'
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mlcl import store
from mlcl.acm import distance
from mlcl.report.data import Run

LOW, OURS, HIGH = "fine-tuning", "agcn++", "joint-full"
SCORES = ("final", "mean_over_tests", "incremental", "forgetting_absolute")


def learn(folder: Path, seed: int, threads: int, settings: list[str]) -> Run:
    """One `mlcl run`, from its beginning or from where it was stopped."""
    command = [sys.executable, "-m", "mlcl.cli", "run"]
    if (folder / "config.toml").exists():
        command += ["--resume", str(folder)]
    else:
        command += ["scenes", "--seed", str(seed), "--out", str(folder)]
        for setting in (f"threads={threads}", *settings):
            command += ["--set", setting]
    subprocess.run(command, check=True)
    return Run.read(folder)


def measured(run: Run) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for method in run.methods:
        scores = {key: method.results["summary"]["mAP"][key] for key in SCORES}
        found[method.name] = {
            key: None if value is None else round(value, 4) for key, value in scores.items()
        }
        if run.oracle is not None and method.acms():
            last = torch.from_numpy(method.acms()[len(run.tasks)])
            found[method.name]["acm_rms"] = round(distance(last, torch.from_numpy(run.oracle))["rms"], 4)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--set", action="append", default=[], dest="settings")
    chosen = parser.parse_args()
    seeds, origin = {}, {}
    for seed in chosen.seeds:
        run = learn(chosen.folder / f"seed-{seed}", seed, chosen.threads, chosen.settings)
        seeds[str(seed)] = measured(run)
        origin = {key: run.origin[key] for key in ("mlcl", "commit", "torch", "platform", "gpu")}
    mean = {
        name: {key: round(float(np.mean([seeds[s][name][key] for s in seeds])), 4) for key in SCORES[:2]}
        for name in seeds[str(chosen.seeds[0])]
    }
    key = "mean_over_tests"
    held = {s: each[LOW][key] < each[OURS][key] < each[HIGH][key] for s, each in seeds.items()}
    result = {
        "recipe": "scenes", "settings": chosen.settings, "threads": chosen.threads, **origin,
        "mean": mean, "order_holds": held, "seeds": seeds,
    }  # fmt: skip
    if chosen.out:
        store.write_json(chosen.out, result)
    for name, scores in mean.items():
        print(f"{name:>12}  " + "  ".join(f"{key} {100 * value:.1f}" for key, value in scores.items()))
    print(f"{LOW} < {OURS} < {HIGH}, by seed: {held}")
    sys.exit(not all(held.values()))


if __name__ == "__main__":
    main()
