"""What counting labels costs a batch: ours, and the way of the released AGCN, written from its description.

    python benchmarks/bookkeeping.py [--out FILE.json]

That way, at every batch: read the task's CSV again, find the batch's rows by file name, add their
co-occurrences, pass the matrix on through a pickle file. Ours: labels come with the batch, counts stay on the
device, and the propagation matrix follows from them. Sizes are those of Split-COCO's last task.
"""

from __future__ import annotations

import argparse
import csv
import json
import pickle
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from step import clock

from mlcl.acm import ACM, propagation
from mlcl.store import provenance

ROWS, OLD, NEW, BATCH = 6507, 36, 4, 32


def write_table(path: Path, y: np.ndarray) -> list[str]:
    names = [f"train2014/COCO_train2014_{row:012d}.jpg" for row in range(len(y))]
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["path", *(f"class {c}" for c in range(y.shape[1]))])
        writer.writerows([name, *labels] for name, labels in zip(names, y.tolist(), strict=True))
    return names


def through_files(table: Path, matrix: Path, names: list[str]) -> None:
    wanted = set(names)
    with table.open(newline="") as file:
        rows = [row for row in csv.reader(file) if row[0] in wanted]
    y = np.array([row[1:] for row in rows], float)
    counts = pickle.loads(matrix.read_bytes()) + y.T @ y  # our own file of a moment ago
    matrix.write_bytes(pickle.dumps(counts))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    chance, classes = np.random.default_rng(0), OLD + NEW
    labels = (chance.random((ROWS, classes)) < 0.07).astype(int)
    acm = ACM(device=device)
    for width in (OLD, NEW):
        acm.grow(width)
    weights = torch.eye(classes, device=device)
    y = torch.from_numpy(labels[:BATCH]).float().to(device)
    known = torch.ones_like(y, dtype=torch.bool)

    def ours() -> None:
        acm.update(y, known)
        weights.copy_(propagation(acm.matrix(), "soft", acm.widths))

    with tempfile.TemporaryDirectory() as folder:
        table, matrix = Path(folder) / "task.csv", Path(folder) / "matrix.pkl"
        names = write_table(table, labels)
        matrix.write_bytes(pickle.dumps(np.zeros((classes, classes))))
        ways: dict[str, Callable[[], None]] = {
            "mlcl": ours,
            "through CSV and pickle": lambda: through_files(table, matrix, names[:BATCH]),
        }
        times: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(12):
            for name, way in ways.items():
                began = clock(device)
                for _ in range(5):
                    way()
                if device == "cuda":
                    torch.cuda.synchronize()
                times[name].append(1000 * (clock(device) - began) / 5)
    ms = {name: round(statistics.median(values[2:]), 4) for name, values in times.items()}
    result = {
        "device": device,
        "classes": classes,
        "rows of the task": ROWS,
        "batch": BATCH,
        "ms a batch": ms,
    }
    result["ratio"] = round(ms["through CSV and pickle"] / ms["mlcl"], 1)
    text = json.dumps(result | {"made": provenance()}, indent=1)
    print(text)
    if options.out:
        options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
