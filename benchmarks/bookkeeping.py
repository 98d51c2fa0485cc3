"""Keeping the correlation matrix: what the released AGCN does at every batch against what mlcl does.

    python benchmarks/bookkeeping.py [--out FILE.json] [--batch IMAGES] [--rows ROWS] [--tasks T ...]

The released program (ICME 2022) is not run: what it does at every batch was written down, and is written
anew here from that description. It reads the task's label file from its beginning, twice, and searches all
rows for each image of the batch; loads its counts from pickle files, adds to them label by label in Python,
and dumps them; then loads everything again, derives the matrix entry by entry, and dumps that too. mlcl keeps
counts as tensors where the labels are. Both get the same batches and take turns on one thread, and must come
to the same matrix (with the released factor 1/2 on Q); the result says how far they are apart.
"""

from __future__ import annotations

import argparse
import csv
import json
import pickle
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mlcl.acm import ACM, propagation
from mlcl.store import provenance

WIDTH = 4  # classes a task
PASS = 65_072  # training images of Split-COCO


def reader() -> str:
    """pandas reads the file where it is installed, as in the released program; else the standard library."""
    try:
        import pandas
    except ModuleNotFoundError:
        return "csv"
    return f"pandas {pandas.__version__}"


def read_rows(path: Path) -> list[list[Any]]:
    if reader() == "csv":
        with path.open(newline="") as file:
            return [[name, *map(int, labels)] for name, *labels in csv.reader(file)]
    import pandas

    rows: list[list[Any]] = pandas.read_csv(path, header=None).to_numpy().tolist()
    return rows


class Released:
    """State lives in files; every sum is a loop."""

    def __init__(self, folder: Path, labels: Path, old: int):
        self.folder, self.labels, self.old = folder, labels, old
        self._dump("hard", {"co": np.zeros((WIDTH, WIDTH)), "count": np.full(WIDTH, 1e-6)})
        soft = {"co": np.zeros((old, WIDTH)), "count": np.full(WIDTH, 1e-10), "images": 1e-10}
        self._dump("soft", soft | {"sum": np.full(old, 1e-10)})
        self._dump("before", {"full": torch.eye(old), "weights": torch.eye(old)})

    def step(self, names: list[str], soft: Tensor) -> Tensor:
        self._hard(names)
        self._soft(names, soft.tolist())
        return self._matrix()

    def _hard(self, names: list[str]) -> None:
        counts = self._load("hard")
        rows = read_rows(self.labels)
        for name in names:
            for row in rows:
                if row[0] == name:
                    for i in range(WIDTH):
                        if row[i + 1] == 1:
                            counts["count"][i] += 1
                            for j in range(WIDTH):
                                if j != i and row[j + 1] == 1:
                                    counts["co"][i][j] += 1
        self._dump("hard", counts)

    def _soft(self, names: list[str], soft: list[list[float]]) -> None:
        counts = self._load("soft")
        rows = read_rows(self.labels)
        for name, answers in zip(names, soft, strict=True):
            for row in rows:
                if row[0] == name:
                    counts["images"] += 1
                    for i in range(self.old):
                        counts["sum"][i] += answers[i]
                    for j in range(WIDTH):
                        if row[j + 1] == 1:
                            counts["count"][j] += 1
                            for i in range(self.old):
                                counts["co"][i][j] += answers[i]
        self._dump("soft", counts)

    def _matrix(self) -> Tensor:
        """The full matrix; the weights that the network takes from it are derived and dumped beside it."""
        old, size = self.old, self.old + WIDTH
        before, soft = self._load("before"), self._load("soft")
        full, weights = np.zeros((size, size)), np.zeros((size, size))
        for i in range(old):
            for j in range(old):
                full[i][j] = before["full"][i][j]
                weights[i][j] = before["weights"][i][j]
        for j in range(WIDTH):
            for i in range(old):
                r = soft["co"][i][j] / soft["count"][j]
                share, mean = soft["count"][j] / soft["images"], soft["sum"][i] / soft["images"]
                full[i][old + j], full[old + j][i] = r, r * share / mean / 2
        hard = self._load("hard")
        for i in range(WIDTH):
            for j in range(WIDTH):
                full[old + i][old + j] = hard["co"][i][j] / hard["count"][j] if i != j else 1
        for rows, columns, bound in (
            (slice(old), slice(old, None), 0.3),
            (slice(old, None), slice(old), 0.3),
            (slice(old, None), slice(old, None), 0.4),
        ):
            block = (full[rows, columns] >= bound).astype(float)
            weights[rows, columns] = block * 0.25 / (block.sum(0, keepdims=True) + 1e-6)
        matrix = torch.from_numpy(full)
        self._dump("weights", torch.from_numpy(weights).float())
        self._dump("full", matrix.float())
        return matrix

    def _load(self, name: str) -> Any:
        with (self.folder / f"{name}.pkl").open("rb") as file:
            return pickle.load(file)

    def _dump(self, name: str, value: Any) -> None:
        with (self.folder / f"{name}.pkl").open("wb") as file:
            pickle.dump(value, file, pickle.HIGHEST_PROTOCOL)


class Ours:
    """What a step of AGCN and AGCN++ does for its matrix."""

    def __init__(self, old: int, device: str):
        self.widths = [WIDTH] * (old // WIDTH) + [WIDTH]
        self.acm = ACM(halve=True, device=device)
        for width in self.widths:
            self.acm.grow(width)

    def step(self, y: Tensor, valid: Tensor) -> Tensor:
        self.acm.update(y, valid)
        matrix = self.acm.matrix()
        propagation(matrix, "official", self.widths)
        return matrix


def measure(task: int, rows: int, batch: int, batches: int, device: str) -> dict[str, Any]:
    """Milliseconds a batch in task number `task` (from 0), both on the same batches."""
    chance = np.random.default_rng(task)
    old = task * WIDTH
    hard = chance.random((rows, WIDTH)) < 0.3
    hard[~hard.any(axis=1), 0] = True
    names = [f"COCO_train2014_{i:012d}.jpg" for i in range(rows)]
    soft = torch.from_numpy(chance.random((rows, old))) ** 4
    y = torch.cat([soft, torch.from_numpy(hard).double()], dim=1)
    times: dict[str, list[float]] = {"released": [], "mlcl": []}
    with tempfile.TemporaryDirectory() as folder:
        labels = Path(folder, "train.csv")
        with labels.open("w", newline="") as file:
            csv.writer(file).writerows([n, *r] for n, r in zip(names, hard.astype(int).tolist(), strict=True))
        theirs, ours = Released(Path(folder), labels, old), Ours(old, device)
        order = chance.permutation(rows)[: batch * batches].reshape(batches, batch)
        for take in order:
            mine = y[torch.from_numpy(take)].to(device)
            valid = torch.ones_like(mine, dtype=torch.bool)
            began = time.perf_counter()
            a = theirs.step([names[i] for i in take], soft[torch.from_numpy(take)])
            halfway = time.perf_counter()
            b = ours.step(mine, valid)
            if device == "cuda":
                torch.cuda.synchronize()
            ended = time.perf_counter()
            times["released"].append(1000 * (halfway - began))
            times["mlcl"].append(1000 * (ended - halfway))
    ms = {name: statistics.median(values) for name, values in times.items()}
    return {
        "task": task + 1,
        "ms a batch": ms,
        "ratio": ms["released"] / ms["mlcl"],
        "minutes a pass over Split-COCO": {n: v * (PASS / batch) / 60_000 for n, v in ms.items()},
        "largest difference of an entry": float((a - b.cpu())[:, old:].abs().max()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path)
    parser.add_argument("--batch", type=int, default=8, help="the released program's own")
    parser.add_argument("--rows", type=int, default=6_507, help="of a task's label file; Split-COCO's mean")
    parser.add_argument("--tasks", type=int, nargs="*", default=[2, 5, 10])
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_num_threads(1)
    batches = 5 if options.quick else 40
    result: dict[str, Any] = {
        "setting": {"batch": options.batch, "rows": options.rows, "batches": batches, "reader": reader()},
        "by task": [measure(t - 1, options.rows, options.batch, batches, device) for t in options.tasks],
        "made": provenance(),
    }
    text = json.dumps(result, indent=1, default=str)
    print(text)
    if options.out:
        options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
