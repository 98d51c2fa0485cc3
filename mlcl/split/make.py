"""From a source to a split, and from a split to a stream."""

from __future__ import annotations

import dataclasses
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from mlcl.config import from_tree, to_tree
from mlcl.data.artefact import TEST, TRAIN, VALIDATION, Split
from mlcl.data.images import FileImages
from mlcl.data.source import Source, source
from mlcl.errors import DataError
from mlcl.stream import LARGER, NOWHERE, Placement, StreamConfig, build, place
from mlcl.types import Stream

MASKS = ("scenario", "partial")  # of what is placed, what is marked: decided where the split is used
_ABSOLUTE = re.compile(r"[/\\]|[A-Za-z]:[/\\]")
PLACES = ("root", "cache", "features", "size", "outside", "missing")  # nor is what only concerns the files


def make(name: str, stream: StreamConfig | None = None, **data: Any) -> Split:
    """The split of the source `name` under its settings: make("coco", StreamConfig(top=40), root="coco")."""
    kind = source(name)
    return make_from(kind(from_tree(kind.Config, data, "data")), stream or StreamConfig())


def make_from(origin: Source, stream: StreamConfig) -> Split:
    table = origin.table()
    if not isinstance(table.images, FileImages):
        raise DataError(f"{origin.name}: its images are no files of their own, which is what a split names")
    files = table.images.refs
    fixed = next((file for file in files if _ABSOLUTE.match(file)), None)
    if fixed is not None:
        raise DataError(
            f"{origin.name}: {fixed} is an absolute path, and a split is loaded wherever the images are; "
            "write paths relative to one folder, and name that: data.root"
        )
    placed = place(table, stream)
    dropped = {**table.dropped, **_left_out(placed, table.owner)}
    table = placed.table
    _refuse_empty(placed)
    kept = np.flatnonzero(placed.owner != NOWHERE)
    rows = sorted(kept.tolist(), key=lambda row: table.refs[row])
    edges = np.cumsum((0, *placed.widths))
    names = table.class_names
    return Split(
        table.name,
        tuple(tuple(names[a:b]) for a, b in pairwise(edges)),
        [table.refs[row] for row in rows],
        [files[row] for row in rows],
        np.where(table.test, TEST, np.where(placed.held, VALIDATION, TRAIN))[rows].astype(np.int8),
        placed.owner[rows].astype(np.int32),
        table.labels[rows],
        dropped,
        tuple(table.notes),
        _made(origin, stream),
    )


def load(
    path: Path | str, root: Path | str = ".", *, data: dict[str, Any] | None = None, **stream: Any
) -> Stream:
    """The stream of a split file over a folder of images: load("coco40.split", "coco", scenario="cl")."""
    kind = source("split")
    config = from_tree(kind.Config, {"file": str(path), "root": str(root), **(data or {})}, "data")
    return build(kind(config).table(), from_tree(StreamConfig, stream, "stream"))


def _left_out(placed: Placement, before: np.ndarray | None) -> dict[str, str]:
    """Why an image that the source gave has no place; `before` is the source's own split."""
    table = placed.table
    reasons = {}
    for row in np.flatnonzero(placed.owner == NOWHERE).tolist():
        if not (table.labels[row] == 1).any():
            reason = "shows no class of the stream"
        elif before is not None and before[row] == NOWHERE:
            reason = "in no task of the source's own split"
        else:
            reason = "left out by stream.limit"
        reasons[table.refs[row]] = reason
    return reasons


def _refuse_empty(placed: Placement) -> None:
    """Such a split could be written, but no stream could be made of it."""
    table = placed.table
    train = ~table.test & ~placed.held
    first = 0
    for task, width in enumerate(placed.widths):
        names = ", ".join(table.class_names[first : first + width])
        first += width
        if not (train & (placed.owner == task)).any():
            raise DataError(f"{table.name}: task {task + 1} ({names}) has no training image; {LARGER}")
    if not (table.test & (placed.owner == 0)).any():
        names = ", ".join(table.class_names[: placed.widths[0]])
        raise DataError(f"{table.name}: task 1 ({names}) has no test image; {LARGER}")


def _made(origin: Source, stream: StreamConfig) -> dict[str, str]:
    """What was asked for. Of paths only the last name: where people keep their files is theirs to know."""
    said = {"data.source": origin.name}
    for field in dataclasses.fields(origin.config):
        value = getattr(origin.config, field.name)
        if value != field.default and field.name not in PLACES:
            said[f"data.{field.name}"] = _words(value)
    for key, value in to_tree(stream).items():
        if key not in MASKS and value != []:
            said[f"stream.{key}"] = _words(value)
    return said


def _words(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(_words, value))
    if isinstance(value, bool):
        return str(value).lower()
    return re.split(r"[/\\]", value.rstrip("/\\"))[-1] if isinstance(value, str) else str(value)
