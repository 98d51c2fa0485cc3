"""`mlcl grid` for a machine that lacks the command line's packages: run.py ROOT WORKERS GRID.toml ...

Ctrl-C, or the signal of `timeout -s INT`, stops it in order: what is finished is in each grid's grid.json.
"""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

from mlcl.config import Tree
from mlcl.experiment import Interrupted
from mlcl.grid import Cell, run_grids
from mlcl.grid.book import read_grid


def main(root: Path, workers: int, files: list[Path]) -> int:
    began, ended, stopping = time.monotonic(), 0, False

    def tell(cell: Cell, row: Tree) -> None:
        nonlocal ended
        ended += 1
        said = row["error"] or f"{100 * row['summary']['mAP']['mean_over_tests']:.1f}"
        clock = f"{time.monotonic() - began:4.0f} s"
        print(f"{clock}  {ended:3}  {row['folder']}  {said}  ({row['seconds'] or 0:.0f} s)", flush=True)

    def stop(number: int, frame: object) -> None:
        nonlocal stopping
        stopping = True

    signal.signal(signal.SIGINT, stop)
    try:
        folders = run_grids(files, root, workers=workers, tell=tell, stop=lambda: stopping)
    except Interrupted:
        return 130
    return int(any(row["error"] for folder in folders for row in read_grid(folder)["cells"]))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), [Path(name) for name in sys.argv[3:]]))
