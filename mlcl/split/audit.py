"""Looks at every file and every label of a split, and tells what it finds."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from mlcl.data.artefact import PARTS, TEST, TRAIN, Split
from mlcl.data.decode import LIMIT, decode
from mlcl.data.images import cores, inside, read
from mlcl.data.splitfile import files_of
from mlcl.data.table import UNKNOWN, LabelTable
from mlcl.errors import DataError

Progress = Callable[[int, int], None]  # images done, of how many
Kind = Literal["label", "source", "file", "repaired", "leak", "twice"]
KINDS: dict[Kind, str] = {  # as the summary says it
    "label": "labels that contradict the split",
    "source": "other than in the source",
    "file": "files that cannot be used",
    "leak": "the same picture where it must not be: in two tasks, or trained on and tested on",
    "repaired": "files that are cut short, and shown as far as they go",
    "twice": "the same picture twice on one side",
}
HARMLESS: tuple[Kind, ...] = ("repaired", "twice")
SIZE = 64  # pixels; small, but every byte of a file is read for it
AT_ONCE = 256


@dataclass(frozen=True)
class Finding:
    kind: Kind
    says: str  # one line, with the names of the images

    @property
    def harmless(self) -> bool:
        return self.kind in HARMLESS


def audit(
    split: Split,
    root: Path | str,
    *,
    flat: bool = False,
    outside: bool = False,
    progress: Progress = lambda done, of: None,
) -> list[Finding]:
    """All that is wrong, or odd, with the labels and with the files under `root`."""
    found, digests = _files(split, Path(root), flat, outside, progress)
    return [*labels(split), *found, *_repeats(split, digests)]


def labels(split: Split) -> list[Finding]:
    """What can be told without the images."""
    found = []
    edges = split.edges
    train, test = split.part == TRAIN, split.part == TEST
    known = split.labels != UNKNOWN
    for row in np.flatnonzero(~known.any(axis=1)).tolist():
        found.append(f"{_who(split, row)}: nothing is known of it")
    for task, names in enumerate(split.tasks):
        mine = slice(edges[task], edges[task + 1])
        members = np.flatnonzero(train & (split.task == task))
        shows = (split.labels[members, mine] == 1).any(axis=1)
        classes = ", ".join(names)
        for row in members[~shows & known[members].any(axis=1)].tolist():
            found.append(f"{_who(split, row)}: shows none of the task's classes ({classes})")
        if not len(members):
            found.append(f"task {task + 1} ({classes}): no training image")
        reach = test & (split.task <= task)
        for column, name in enumerate(names, edges[task]):
            if len(members) and not (split.labels[members, column] == 1).any():
                found.append(f"class {name}: no image of task {task + 1} shows it; it cannot be learnt")
            if not (split.labels[reach, column] == 1).any():
                found.append(
                    f"class {name}: no test image up to task {task + 1} shows it; it has no score then"
                )
    return [Finding("label", says) for says in found]


def compare(split: Split, table: LabelTable) -> list[Finding]:
    """Where a split and a table of labels do not say the same of an image."""
    found = []
    row_of = {ref: row for row, ref in enumerate(table.refs)}
    theirs = table.columns(split.class_names).labels
    for row, ref in enumerate(split.refs):
        if ref not in row_of:
            found.append(f"{_who(split, row)}: {table.name} does not have it")
            continue
        other = theirs[row_of[ref]]
        odd = [split.class_names[column] for column in np.flatnonzero(split.labels[row] != other)]
        if odd:
            found.append(f"{_who(split, row)}: {table.name} says otherwise of {', '.join(odd)}")
        if (split.part[row] == TEST) != table.test[row_of[ref]]:
            side = "testing" if table.test[row_of[ref]] else "training"
            found.append(f"{_who(split, row)}: {table.name} has it for {side}")
    known = {*split.refs, *split.dropped}
    found += [f"{ref}: only {table.name} has it" for ref in table.refs if ref not in known]
    return [Finding("source", says) for says in found]


def _files(
    split: Split, root: Path, flat: bool, outside: bool, progress: Progress
) -> tuple[list[Finding], dict[int, bytes]]:
    files = files_of(split, flat)
    found: list[Finding] = []
    digests: dict[int, bytes] = {}

    def look(row: int) -> tuple[bytes | None, list[Finding]]:
        repairs: list[Finding] = []
        name, who = files[row], _who(split, row)
        try:
            data = read(inside(root, name, outside, name), name)
            digest = hashlib.blake2b(data, digest_size=16).digest()
            decode(
                data,
                SIZE,
                name,
                limit=LIMIT,
                note=lambda s: repairs.append(Finding("repaired", f"{who}: {s}")),
            )
        except DataError as error:
            return None, [Finding("file", f"{who}: {str(error).removeprefix(f'{name}: ')}")]
        return digest, repairs

    with ThreadPoolExecutor(min(8, cores())) as pool:
        for start in range(0, len(split), AT_ONCE):
            rows = range(start, min(start + AT_ONCE, len(split)))
            for row, (digest, odd) in zip(rows, pool.map(look, rows), strict=True):
                found += odd
                if digest is not None:
                    digests[row] = digest
            progress(rows.stop, len(split))
    return found, digests


def _repeats(split: Split, digests: dict[int, bytes]) -> list[Finding]:
    """Files of the same content: across tasks or sides a leak, else a picture that counts twice."""
    same: dict[bytes, list[int]] = defaultdict(list)
    for row, digest in digests.items():
        same[digest].append(row)
    found = []
    for rows in same.values():
        if len(rows) < 2:
            continue
        sides = {int(split.part[row]) for row in rows}
        trained = {int(split.task[row]) for row in rows if split.part[row] == TRAIN}
        kind: Kind = "leak" if len(sides) > 1 or len(trained) > 1 else "twice"
        both = (split.labels[rows[0]] != UNKNOWN) & (split.labels[rows[1:]] != UNKNOWN)
        differ = (both & (split.labels[rows[0]] != split.labels[rows[1:]])).any()
        found.append(
            Finding(kind, _listed([_who(split, row) for row in rows]) + ("; labels differ" if differ else ""))
        )
    return found


def _who(split: Split, row: int) -> str:
    return f"{split.refs[row]} ({PARTS[split.part[row]]} {split.task[row] + 1})"


def _listed(names: Sequence[str], most: int = 8) -> str:
    return " = ".join(names[:most]) + (f" = and {len(names) - most:,} more" if len(names) > most else "")
