"""From what a label file says of each image to a checked LabelTable: repeats, paths, files, test images."""

from __future__ import annotations

import hashlib
import os
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from mlcl.data.images import FileImages, inside
from mlcl.data.table import LabelTable
from mlcl.errors import ConfigError, DataError

TRAIN, TEST, UNDECIDED = 0, 1, -1


@dataclass(frozen=True, kw_only=True)
class FileConfig:
    """What all sources of image files share."""

    root: str = ""  # the folder of the images
    size: int = 256  # working resolution: every image is squashed to a square of so many pixels
    missing: Literal["error", "drop", "keep"] = "error"  # images without a file; keep = do not even look
    outside: bool = False  # allow paths and links that leave the root
    cache: str = ""  # a folder of pixels, filled once; later runs read no JPEG
    features: str = ""  # a folder of what the frozen backbone makes of the images; later runs need no pixels

    def __post_init__(self) -> None:
        if not 8 <= self.size <= 4096:
            raise ConfigError(f"data.size: {self.size} is not within 8 and 4096 pixels")


@dataclass
class Rows:
    """What a label file says of each image, before it is checked."""

    class_names: Sequence[str]
    refs: list[str]
    labels: np.ndarray  # (N, C) int8
    test: np.ndarray  # (N,) int8: TRAIN, TEST, UNDECIDED
    place: Callable[[int], str]  # where row n was read: "labels.csv, line 7"
    paths: Sequence[str] | None = None  # of the files under the root, where they are not the refs
    notes: list[str] = field(default_factory=list)
    dropped: dict[str, str] = field(default_factory=dict)

    def files(self) -> Sequence[str]:
        return self.refs if self.paths is None else self.paths

    def keep(self, rows: np.ndarray) -> Rows:
        place = self.place
        return Rows(
            self.class_names,
            [self.refs[row] for row in rows],
            self.labels[rows],
            self.test[rows],
            lambda row: place(int(rows[row])),
            None if self.paths is None else [self.paths[row] for row in rows],
            self.notes,
            self.dropped,
        )


def gather(
    rows: Rows, name: str, root: Path, config: FileConfig, test_share: float = 0.0, source: Path | None = None
) -> LabelTable:
    """Checks everything that needs no decoding; `test_share` is for images whose part nothing decides.

    `source` is what complaints about all of it name: the file, or else the root.
    """
    where = str(source or root)
    _check_names(rows.class_names, where)
    rows = _without_repeats(rows)
    _refuse_strange(root, rows.files(), config.outside, rows.place)
    if config.missing != "keep":
        rows = _with_files(rows, root, config)
    if not rows.refs:
        raise DataError(f"{where}: not a single image")
    undecided = np.flatnonzero(rows.test == UNDECIDED)
    test = rows.test == TEST
    if len(undecided):
        test[undecided] = [in_share(rows.refs[row], test_share) for row in undecided]
        rows.notes.append(f"{counted(test[undecided].sum(), 'test image')} chosen by the hash of their names")
    images = _images(root, rows.files(), config, rows.place)
    return LabelTable(
        name, tuple(rows.class_names), rows.refs, rows.labels, test, images,
        dropped=rows.dropped, notes=tuple(rows.notes),
    )  # fmt: skip


def clean(ref: str) -> str:
    """One spelling a file: `.\\a\\b.jpg`, `./a//b.jpg` and `a/b.jpg` are one."""
    ref = ref.strip()
    if "\\" in ref:
        ref = ref.replace("\\", "/")
    if "//" in ref and "://" not in ref:
        ref = re.sub("/+", "/", ref)
    while ref.startswith("./"):
        ref = ref[2:]
    return ref


def in_share(ref: str, share: float) -> bool:
    """Whether this image is one of the test images; no other image has a say in it."""
    digest = hashlib.blake2b(ref.encode("utf-8", "surrogateescape"), digest_size=4).digest()
    return int.from_bytes(digest, "big") < share * 2**32


def listing(names: Sequence[str], most: int = 5) -> str:
    return ", ".join(names[:most]) + (f", and {len(names) - most:,} more" if len(names) > most else "")


def counted(number: int, noun: str) -> str:
    """
    >>> counted(1, "image"), counted(1200, "image")
    ('1 image', '1,200 images')
    """
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def folder(path: str, key: str) -> Path:
    """A folder that a setting must name."""
    if not path:
        raise ConfigError(f"data.{key}: say which folder, such as --set data.{key}=FOLDER")
    found = Path(path).expanduser()
    if not found.is_dir():
        raise DataError(f"{found}: no such folder; correct data.{key}")
    return found


def _check_names(class_names: Sequence[str], where: str) -> None:
    if not class_names:
        raise DataError(f"{where}: not a single class")
    if "" in class_names:
        raise DataError(f"{where}: class {list(class_names).index('') + 1} has no name")
    if len(set(class_names)) != len(class_names):
        twice = next(n for n in class_names if list(class_names).count(n) > 1)
        raise DataError(f"{where}: two classes are called {twice!r}; rename one")


def _without_repeats(rows: Rows) -> Rows:
    """A row that says again what an earlier one said is left out; one that says otherwise is an error."""
    if len(set(rows.refs)) == len(rows.refs):
        return rows
    first: dict[str, int] = {}
    kept, repeated = [], []
    for row, ref in enumerate(rows.refs):
        earlier = first.setdefault(ref, row)
        if earlier == row:
            kept.append(row)
            continue
        if rows.test[row] != rows.test[earlier]:
            raise DataError(
                f"{rows.place(row)}: {ref} is for training and for testing (see {rows.place(earlier)}); "
                "an image may be one of them only"
            )
        if not np.array_equal(rows.labels[row], rows.labels[earlier]):
            raise DataError(
                f"{rows.place(row)}: {ref} has other labels than at {rows.place(earlier)}; "
                "delete the wrong one of the two"
            )
        repeated.append(ref)
    rows.notes.append(f"{counted(len(repeated), 'repeated row')} left out: {listing(repeated)}")
    return rows.keep(np.array(kept))


def _refuse_strange(root: Path, paths: Sequence[str], outside: bool, place: Callable[[int], str]) -> None:
    for row, path in enumerate(paths):
        if ".." in path or ":" in path or path[:1] == "/":  # rarely; then look closely
            if "://" in path:
                raise DataError(f"{place(row)}: {path} is an address, not a file; download the images first")
            inside(root, path, outside, place(row))


def _images(root: Path, paths: Sequence[str], config: FileConfig, place: Callable[[int], str]) -> FileImages:
    try:
        return FileImages(root, paths, config.size, outside=config.outside)
    except DataError:
        for row, path in enumerate(paths):
            inside(root, path, config.outside, place(row))  # says where the path was read
        raise


def _with_files(rows: Rows, root: Path, config: FileConfig) -> Rows:
    """Each folder is listed once: asking for each file would take minutes on a network disk."""
    paths = rows.files()
    wanted: dict[str, list[int]] = defaultdict(list)
    for row, path in enumerate(paths):
        wanted[path.rpartition("/")[0]].append(row)
    found = np.zeros(len(paths), bool)
    for parent, members in wanted.items():
        here = _files_of(root / parent)
        found[members] = [paths[row].rpartition("/")[2] in here for row in members]
    if found.all():
        return rows
    lost = np.flatnonzero(~found)
    names = [rows.refs[row] for row in lost]
    if config.missing == "error":
        where = rows.place(int(lost[0]))
        raise DataError(
            f"{where}: no file for {len(lost):,} of {len(paths):,} images under {root}: {listing(names)}; "
            'correct data.root, or leave them out: data.missing = "drop"'
        )
    rows.notes.append(f"{counted(len(lost), 'image')} without a file left out: {listing(names)}")
    rows.dropped.update(dict.fromkeys(names, "no such file"))
    return rows.keep(np.flatnonzero(found))


def _files_of(path: Path) -> set[str]:
    try:
        with os.scandir(path) as entries:
            return {entry.name for entry in entries if entry.is_file()}
    except OSError:
        return set()
