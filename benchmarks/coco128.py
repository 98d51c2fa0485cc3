"""Split-COCO at 128 x 128 as a source: `index.npz` and `images-*.bin` (WebP), the authors' own split.

    python benchmarks/coco128.py unpack FOLDER            decode all images once, to FOLDER/pixels.npy
    python benchmarks/coco128.py mlcl ARGUMENTS...        the command line, with the source `coco128` known

The folder is named by the environment variable COCO128. Its images are not part of this project.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from mlcl.data.source import Source
from mlcl.data.table import LabelTable
from mlcl.errors import DataError
from mlcl.types import Images

SIDE = 128


class Pixels(Images):
    """The unpacked file, mapped: all processes of a grid read the same 4.4 GB, and only what they need."""

    def __init__(self, folder: Path, rows: np.ndarray):
        # "c" and not "r": PyTorch warns of memory that it may not write to
        self.pixels = torch.from_numpy(np.load(folder / "pixels.npy", mmap_mode="c"))
        self.rows = torch.from_numpy(rows)

    def __len__(self) -> int:
        return len(self.rows)

    def load(self, indices: Sequence[int] | np.ndarray) -> Tensor:
        return self.pixels[self.rows[torch.as_tensor(np.asarray(indices))]]


class Coco128(Source, name="coco128"):
    """The authors' Split-COCO at 128 x 128 pixels (benchmarks only; 3,329 official test images absent)."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Source.Config):
        keep: int = 0  # only so many images, evenly spaced; 0 = all. For dry runs

    def table(self) -> LabelTable:
        folder = Path(os.environ.get("COCO128", ""))
        if not (folder / "pixels.npy").is_file():
            raise DataError(f"COCO128={folder}: no pixels.npy there; run: python {sys.argv[0]} unpack FOLDER")
        with np.load(folder / "index.npz") as file:
            index = {key: file[key] for key in ("name", "split", "task", "labels", "classes")}
        rows = np.arange(len(index["name"]))
        if self.config.keep:
            rows = rows[:: max(1, len(rows) // self.config.keep)]
        return LabelTable(
            "split-coco-128", tuple(map(str, index["classes"])), index["name"][rows].tolist(),
            index["labels"][rows].astype(np.int8), index["split"][rows] == 1, Pixels(folder, rows),
            owner=index["task"][rows].astype(int), widths=(4,) * 10,
        )  # fmt: skip


def unpack(folder: Path) -> None:
    with np.load(folder / "index.npz") as file:
        index = {key: file[key] for key in ("shard", "offset", "length")}
    partial = folder / "pixels.partial"
    np.lib.format.open_memmap(partial, "w+", np.uint8, (len(index["shard"]), 3, SIDE, SIDE))
    with ProcessPoolExecutor() as pool:
        jobs = []
        for shard in np.unique(index["shard"]):
            for rows in np.array_split(np.flatnonzero(index["shard"] == shard), 16):
                spans = list(zip(index["offset"][rows].tolist(), index["length"][rows].tolist(), strict=True))
                jobs.append(pool.submit(_decode, folder / f"images-{shard}.bin", spans, partial, rows))
        for job in jobs:
            job.result()
    partial.rename(folder / "pixels.npy")


def _decode(path: Path, spans: list[tuple[int, int]], out: Path, rows: np.ndarray) -> None:
    blob = np.memmap(path, np.uint8, "r")
    pixels = np.load(out, mmap_mode="r+")
    for row, (offset, length) in zip(rows, spans, strict=True):
        image = Image.open(io.BytesIO(blob[offset : offset + length].tobytes())).convert("RGB")
        pixels[row] = np.asarray(image).transpose(2, 0, 1)


if __name__ == "__main__":
    if sys.argv[1:2] == ["unpack"] and len(sys.argv) == 3:
        unpack(Path(sys.argv[2]))
    elif sys.argv[1:2] == ["mlcl"]:
        from mlcl.cli import main

        sys.argv = ["mlcl", *sys.argv[2:]]
        main()
    else:
        sys.exit(__doc__)
