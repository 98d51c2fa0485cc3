"""Reads the authors' Split-COCO and Split-WIDE, counts, and compares every label with an independent source.

    python benchmarks/verify_splits.py FOLDER

FOLDER has Split-COCO.zip, Split-WIDE.zip and splitcoco128/index.npz (full labels of COCO's images). None of
it is part of this project. Exits with 1 if anything differs.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from mlcl.data.authors import with_labels
from mlcl.data.source import source
from mlcl.data.table import UNKNOWN, LabelTable
from mlcl.stream import StreamConfig, build
from mlcl.types import Images, Stream

# rows of the authors' files, less one: the last test set of Split-COCO has 27,173, two of the same image
TRAIN = {
    "split-coco": (11611, 6299, 6227, 6118, 6260, 6102, 6134, 6161, 6000, 4160),
    "split-wide": (32994, 20639, 20723, 8249, 24710, 23931, 13612),
}
TEST = {
    "split-coco": (2664, 5328, 7992, 10580, 13202, 15858, 18570, 21279, 24431, 27172),
    "split-wide": (5872, 11799, 17642, 23520, 29382, 35278, 41146),
}
FILES = {"split-coco": "Split-COCO.zip", "split-wide": "Split-WIDE.zip"}


class NoImages(Images):
    """Only labels are compared."""

    def __init__(self, count: int):
        self.count = count

    def __len__(self) -> int:
        return self.count

    def load(self, indices: Sequence[int] | np.ndarray) -> Tensor:
        return torch.zeros((len(indices), 3, 8, 8), dtype=torch.uint8)


def read(name: str, folder: Path) -> LabelTable:
    kind = source(name)
    settings = {"root": str(folder), "annotations": str(folder / FILES[name]), "missing": "keep"}
    return kind(kind.Config(**settings)).table()


def read_index(folder: Path) -> LabelTable:
    with np.load(folder / "splitcoco128/index.npz") as file:
        names, labels = file["name"].tolist(), file["labels"].astype(np.int8)
        classes, test = tuple(file["classes"].tolist()), file["split"] == 1
    return LabelTable("index.npz", classes, names, labels, test, NoImages(len(names)))


def compare(name: str, found: object, expected: object) -> bool:
    equal = found == expected
    print(f"  {name:<52} {found}{'' if equal else f'   EXPECTED {expected}'}")
    return equal


def counts(table: LabelTable, stream: Stream) -> bool:
    train = tuple(len(task.train) for task in stream)
    trained = np.concatenate([task.train.rows for task in stream])
    return all(
        (
            compare("training images of each task", train, TRAIN[table.name]),
            compare("test images up to each task", tuple(len(t.test) for t in stream), TEST[table.name]),
            compare("training images in two tasks", len(trained) - len(np.unique(trained)), 0),
        )
    )


def labels(table: LabelTable, index: LabelTable) -> bool:
    row_of = {ref: row for row, ref in enumerate(index.refs)}
    both = np.array([row for row, ref in enumerate(table.refs) if ref in row_of])
    truth = index.columns(table.class_names).labels[[row_of[table.refs[row]] for row in both]]
    mine, owner, test = table.labels[both], table.owner[both], table.test[both]
    equal = ((mine == truth) | (mine == UNKNOWN)).all(axis=1)
    known = (mine != UNKNOWN).sum(axis=1)
    edges = np.cumsum((0, *table.widths))
    tests = [test & (owner <= task) for task in range(len(table.widths))]
    as_read = [
        (mine[rows, :stop] == truth[rows, :stop]).all(axis=1).sum()
        for rows, stop in zip(tests, edges[1:], strict=True)
    ]
    full = with_labels(table, index).labels[both]
    return all(
        (
            compare("training rows equal to the index", int(equal[~test].sum()), 65072),
            compare("... with so many labels known", sorted(set(known[~test].tolist())), [4]),
            compare("test rows equal, over all ten test sets", int(sum(as_read)), 129225),
            compare(
                "rows equal once CL's labels are filled in", int((full == truth).all(axis=1).sum()), 88915
            ),
        )
    )


def balance(name: str, stream: Stream, full: np.ndarray) -> None:
    """`full`: (N, C) all labels of the images, in the stream's order of classes."""
    sizes = np.array([len(task.train) for task in stream])
    widths = np.array([task.stop - task.start for task in stream])
    share = []
    for task in stream:
        elsewhere = np.delete(full[task.train.rows], np.r_[task.new], axis=1).any(axis=1)
        share.append(1 - elsewhere.mean())
    rates = sizes / widths
    spread = f"{min(share):.1%} to {max(share):.1%} of a task"
    print(
        f"  {name:<10} {sizes.sum():,} images, largest/smallest task {rates.max() / rates.min():.3f}, "
        f"specific images {np.average(share, weights=sizes):.1%} ({spread})"
    )


def main(folder: Path) -> int:
    index = read_index(folder)
    good = True
    for name in FILES:
        start = time.perf_counter()
        table = read(name, folder)
        print(
            f"{name}: read in {time.perf_counter() - start:.1f} s; {'; '.join(table.notes) or 'nothing odd'}"
        )
        stream = build(table, StreamConfig())
        good &= counts(table, stream)
        if name == "split-coco":
            good &= labels(table, index)
            filled = with_labels(table, index)
            ours = build(filled, StreamConfig(split="deal"))
            print("  the same training images, dealt by the authors and by this package:")
            balance("authors'", stream, filled.labels == 1)
            balance("ours", ours, filled.labels == 1)
    print("all equal" if good else "DIFFERENT")
    return 0 if good else 1


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1])))
