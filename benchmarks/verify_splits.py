"""Reads the authors' Split-COCO and Split-WIDE, counts, and compares every label with an independent source.

    python benchmarks/verify_splits.py FOLDER [--out benchmarks/results/verify_splits.json]

FOLDER has Split-COCO.zip, Split-WIDE.zip and splitcoco128/index.npz (full labels of COCO's images). None of
it is part of this project. Exits with 1 if anything differs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mlcl import split, store
from mlcl.data.authors import with_labels
from mlcl.data.source import Source, source
from mlcl.data.table import UNKNOWN, LabelTable
from mlcl.stream import StreamConfig, build
from mlcl.types import Images, Samples, Stream

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


def origin(name: str, folder: Path) -> Source:
    kind = source(name)
    settings = {"root": str(folder), "annotations": str(folder / FILES[name]), "missing": "keep"}
    return kind(kind.Config(**settings))


def read_index(folder: Path) -> LabelTable:
    with np.load(folder / "splitcoco128/index.npz") as file:
        names, labels = file["name"].tolist(), file["labels"].astype(np.int8)
        classes, test = tuple(file["classes"].tolist()), file["split"] == 1
    return LabelTable("index.npz", classes, names, labels, test, NoImages(len(names)))


class Report:
    """What was found, beside what was expected; printed as it comes."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def equal(self, name: str, found: Any, expected: Any) -> None:
        self._add(name, found, expected, found == expected)

    def at_least(self, name: str, found: float, least: float) -> None:
        self._add(name, found, f"at least {least}", found >= least)

    def at_most(self, name: str, found: float, most: float) -> None:
        self._add(name, found, f"at most {most}", found <= most)

    def _add(self, name: str, found: Any, expected: Any, good: bool) -> None:
        shown = f" ({expected})" if str(expected).startswith("at ") else ""
        print(f"  {name:<52} {found}{shown}{'' if good else f'   EXPECTED {expected}'}")
        self.rows.append({"what": name, "found": found, "expected": expected, "good": good})


def counts(report: Report, table: LabelTable, stream: Stream) -> None:
    trained = np.concatenate([task.train.rows for task in stream])
    train, test = ([len(getattr(t, part)) for t in stream] for part in ("train", "test"))
    report.equal("training images of each task", train, list(TRAIN[table.name]))
    report.equal("test images up to each task", test, list(TEST[table.name]))
    report.equal("training images in two tasks", len(trained) - len(np.unique(trained)), 0)


def labels(report: Report, table: LabelTable, index: LabelTable) -> None:
    row_of = {ref: row for row, ref in enumerate(index.refs)}
    both = np.array([row for row, ref in enumerate(table.refs) if ref in row_of])
    truth = index.columns(table.class_names).labels[[row_of[table.refs[row]] for row in both]]
    assert table.owner is not None
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
    report.equal("training rows equal to the index", int(equal[~test].sum()), 65072)
    report.equal("... with so many labels known", sorted(set(known[~test].tolist())), [4])
    report.equal("test rows equal, over all ten test sets", int(sum(as_read)), 129225)
    filled = int((full == truth).all(axis=1).sum())
    report.equal("rows equal once CL's labels are filled in", filled, 88915)


def balance(stream: Stream, full: np.ndarray) -> dict[str, float]:
    """`full`: (N, C) all labels of the images, in the stream's order of classes."""
    sizes = np.array([len(task.train) for task in stream])
    widths = np.array([task.stop - task.start for task in stream])
    share = []
    for task in stream:
        elsewhere = np.delete(full[task.train.rows], np.r_[task.new], axis=1).any(axis=1)
        share.append(1 - elsewhere.mean())
    rates = sizes / widths
    return {
        "images": int(sizes.sum()),
        "largest/smallest task": round(float(rates.max() / rates.min()), 3),
        "share of specific images": round(float(np.average(share, weights=sizes)), 4),
        "in the task that has the smallest share": round(float(min(share)), 4),
    }


def dealt(report: Report, table: LabelTable, stream: Stream) -> None:
    """The authors' training images, dealt by them and by this package."""
    theirs = balance(stream, table.labels == 1)
    again = build(table, StreamConfig(split="deal"))
    ours = balance(again, table.labels == 1)
    for name, figures in (("authors'", theirs), ("ours", ours)):
        print(f"  dealt, {name:<9}", ", ".join(f"{what} {value}" for what, value in figures.items()))
    trained = np.concatenate([task.train.rows for task in again])
    could = ~table.test & (table.labels == 1).any(axis=1)
    report.equal("dealt: images in two tasks", len(trained) - len(np.unique(trained)), 0)
    report.equal("dealt: images lost that could be placed", int(could.sum()) - len(trained), 0)
    name = "largest/smallest task"
    report.at_most(f"dealt: {name}", ours[name], theirs[name])
    for name in ("share of specific images", "in the task that has the smallest share"):
        report.at_least(f"dealt: {name}", ours[name], theirs[name])


def written_down(report: Report, name: str, folder: Path, stream: Stream, refs: Sequence[str]) -> None:
    """As a split file, and read again: the same images in the same tasks, with the same labels."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "a.split"
        split.make_from(origin(name, folder), StreamConfig()).write(path)
        report.at_most("as a file, megabytes", round(path.stat().st_size / 1e6, 2), 20)
        again = split.load(path, folder, data={"missing": "keep"})
        names = split.read(path).refs

    def seen(samples: Samples, refs: Sequence[str]) -> dict[str, bytes]:
        marks = np.where(samples.known, samples.y, 2).astype(np.uint8)
        return {refs[row]: line.tobytes() for row, line in zip(samples.rows, marks, strict=True)}

    for part in ("train", "test"):
        pairs = [
            (seen(getattr(task, part), names), seen(getattr(stream[task.index], part), refs))
            for task in again
        ]
        what = f"as a file, {part} sets that are the same, rows and labels"
        report.equal(what, sum(a == b for a, b in pairs), len(stream))


def main(folder: Path, out: Path | None) -> int:
    index = read_index(folder)
    result: dict[str, Any] = {"provenance": {**store.provenance(), "command": ["verify_splits.py", "FOLDER"]}}
    for name in FILES:
        start = time.perf_counter()
        table = origin(name, folder).table()
        seconds = time.perf_counter() - start
        print(f"{name}: read in {seconds:.1f} s; {'; '.join(table.notes) or 'nothing odd'}")
        stream = build(table, StreamConfig())
        report = Report()
        counts(report, table, stream)
        if name == "split-coco":
            labels(report, table, index)
            dealt(report, with_labels(table, index), stream)
        written_down(report, name, folder, stream, table.refs)
        result[name] = report.rows
    good = all(row["good"] for name in FILES for row in result[name])
    print("all as expected" if good else "DIFFERENT")
    if out is not None:
        store.write_json(out, result)
    return 0 if good else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    sys.exit(main(arguments.folder, arguments.out))
