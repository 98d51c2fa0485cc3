"""How long a large table of labels takes: random rows are written, read and checked, and dealt to tasks.

python benchmarks/read_table.py [ROWS [CLASSES]]      default: 1000000 80
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

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


class Clock:
    """Seconds on the wall and of the processor; on a busy machine they differ."""

    def __init__(self) -> None:
        self.last = time.perf_counter(), time.process_time()

    def stop(self, what: str) -> None:
        now = time.perf_counter(), time.process_time()
        wall, processor = now[0] - self.last[0], now[1] - self.last[1]
        print(f"{what:<7}{wall:6.1f} s, of the processor {processor:6.1f} s")
        self.last = now


def main(rows: int = 1_000_000, classes: int = 80) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "labels.csv"
        write(path, rows, classes)
        print(f"{rows:,} rows x {classes} classes, {path.stat().st_size / 1e6:,.0f} MB")
        kind = source("csv")
        clock = Clock()
        table = kind(kind.Config(annotations=str(path), missing="keep")).table()
        clock.stop("table")
        build(table, StreamConfig())
        clock.stop("stream")
        print(f"memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:6.2f} GB at most")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
