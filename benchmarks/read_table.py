"""How long a large table of labels takes: random rows are written, read and checked, and dealt to tasks.

    python benchmarks/read_table.py [--rows 1000000] [--classes 80] [--out benchmarks/results/read_table.json]

Table and stream are what a run needs; the rest is what `mlcl data build` does besides, and the reading of
what it wrote. Each part has a process of its own, so that its memory is its own.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from mlcl import split, store
from mlcl.data.source import source
from mlcl.stream import StreamConfig, build


def write(path: Path, rows: int, classes: int) -> None:
    chance = np.random.default_rng(0)
    with path.open("wb") as file:
        file.write(b"path," + b",".join(b"class %d" % c for c in range(classes)) + b"\n")
        for start in range(0, rows, 10_000):
            count = min(10_000, rows - start)
            cells = np.full((count, 2 * classes), ord(","), np.uint8)
            cells[:, 1::2] = ord("0") + (chance.random((count, classes)) < 0.04)
            names = (b"images/%04d/%08d.jpg" % (row // 1000, row) for row in range(start, start + count))
            file.write(
                b"".join(name + line.tobytes() + b"\n" for name, line in zip(names, cells, strict=True))
            )


def measured(what: str, path: Path) -> dict[str, float]:
    """One part, in a process of its own: seconds on the wall and of the processor, and its memory at most."""
    run = subprocess.run(
        [sys.executable, __file__, "--part", what, str(path)], capture_output=True, text=True
    )
    if run.returncode:
        sys.exit(run.stderr)
    figures: dict[str, float] = json.loads(run.stdout)
    print(f"{what:<22}" + "   ".join(f"{name} {value:.2f}" for name, value in figures.items()))
    return figures


def part(what: str, path: Path) -> None:
    kind = source("csv")
    origin = kind(kind.Config(annotations=str(path), missing="keep"))
    file = path.with_suffix(".split")
    began = time.perf_counter(), time.process_time()
    if what == "table and stream":
        build(origin.table(), StreamConfig())
    elif what == "table and split file":
        split.make_from(origin, StreamConfig()).write(file)
    else:
        split.load(file, path.parent, data={"missing": "keep"})
    wall, processor = time.perf_counter() - began[0], time.process_time() - began[1]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6  # with PyTorch, which takes 0.2 GB
    figures = {"seconds": wall, "seconds_of_the_processor": processor, "gigabytes": memory}
    print(json.dumps({name: round(value, 2) for name, value in figures.items()}))


def main(rows: int, classes: int, out: Path | None) -> None:
    provenance = {**store.provenance(), "command": ["read_table.py"]}
    result: dict[str, Any] = {"provenance": provenance, "rows": rows, "classes": classes}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "labels.csv"
        write(path, rows, classes)
        print(f"{rows:,} rows x {classes} classes, {path.stat().st_size / 1e6:,.0f} MB")
        for what in ("table and stream", "table and split file", "stream of that file"):
            result[what] = measured(what, path)
        result["megabytes of the split file"] = round(path.with_suffix(".split").stat().st_size / 1e6)
    if out is not None:
        store.write_json(out, result)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--classes", type=int, default=80)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--part", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.part:
        part(arguments.part[0], Path(arguments.part[1]))
    else:
        main(arguments.rows, arguments.classes, arguments.out)
