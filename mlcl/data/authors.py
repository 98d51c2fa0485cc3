"""The split files that the paper's authors published: Split-COCO and Split-WIDE, as a zip or unpacked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from mlcl.data.coco import images_folder, read_instances
from mlcl.data.columns import Reading
from mlcl.data.forms import Given, read_sheets
from mlcl.data.gather import FileConfig, Rows, counted, folder, gather, listing
from mlcl.data.sheet import open_sheet
from mlcl.data.source import Source
from mlcl.data.table import UNKNOWN, LabelTable
from mlcl.data.tasktree import Split, read_split
from mlcl.errors import ConfigError, DataError

SPLIT_COCO = (
    "person", "bicycle", "car", "motorcycle", "airplane", "bus", "train", "truck", "traffic light", "bench",
    "bird", "cat", "dog", "backpack", "umbrella", "handbag", "tie", "sports ball", "skateboard", "surfboard",
    "tennis racket", "bottle", "cup", "fork", "knife", "spoon", "bowl", "chair", "couch", "potted plant",
    "bed", "dining table", "toilet", "tv", "laptop", "cell phone", "sink", "book", "clock", "vase",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class AuthorsConfig(FileConfig):
    annotations: str = ""  # the zip, or the folder that has task0/train.csv in it
    full_labels: str = ""  # where CL finds the labels of earlier tasks: see docs/data.md


class SplitCoco(Source, name="split-coco"):
    """The authors' Split-COCO (their zip or its folder) over the images of COCO 2014."""

    @dataclass(frozen=True, kw_only=True)
    class Config(AuthorsConfig):
        train_images: str = "auto"  # folder under the root; auto: train2014 if there is one, else the root
        test_images: str = "auto"  # the same for val2014

    def table(self) -> LabelTable:
        config = self.config
        root = folder(config.root, "root")
        split = read_split(_given(config))
        sides = (
            images_folder(root, config.train_images, "train2014"),
            images_folder(root, config.test_images, "val2014"),
        )
        paths = [sides[part] + ref for ref, part in zip(split.refs, split.test, strict=True)]
        return _finished(split, SPLIT_COCO, "split-coco", paths, root, config)


class SplitWide(Source, name="split-wide"):
    """The authors' Split-WIDE (their zip or its folder); they number the images, and name no class."""

    @dataclass(frozen=True, kw_only=True)
    class Config(AuthorsConfig):
        class_names: tuple[str, ...] = ()  # in the order of the columns; empty: class 1, class 2, ...
        file_name: str = "{id}.jpg"  # of image {id}, under the root

    def table(self) -> LabelTable:
        config = self.config
        root = folder(config.root, "root")
        if "{id}" not in config.file_name:
            raise ConfigError(f"data.file_name: has no {{id}} in it: {config.file_name!r}")
        split = read_split(_given(config))
        names = config.class_names or tuple(f"class {n + 1}" for n in range(sum(split.widths)))
        paths = [config.file_name.replace("{id}", ref) for ref in split.refs]
        return _finished(split, names, "split-wide", paths, root, config)


def with_labels(table: LabelTable, other: LabelTable) -> LabelTable:
    """The table with what it does not know taken from another one, image by image, class by class.

    What both know must be equal: if not, the two do not speak of the same images.
    """
    labels = _filled(table, other.class_names, other.refs, other.labels, other.name)
    return replace(table, labels=labels)


def _filled(
    table: LabelTable, names: Sequence[str], refs: Sequence[str], labels: np.ndarray, where: str
) -> np.ndarray:
    absent = [name for name in table.class_names if name not in names]
    if absent:
        raise DataError(f"{where}: no class {listing(absent)}, which {table.name} has")
    row_of = {ref: row for row, ref in enumerate(refs)}
    short = np.flatnonzero((table.labels == UNKNOWN).any(axis=1))
    images = [table.refs[int(row)] for row in short]
    lost = [ref for ref in images if ref not in row_of]
    if lost:
        raise DataError(f"{where}: nothing of {counted(len(lost), 'image')} of {table.name}: {listing(lost)}")
    mine = table.labels[short]
    columns = [names.index(name) for name in table.class_names]
    theirs = labels[[row_of[ref] for ref in images]][:, columns]
    differ = ((mine != theirs) & (mine != UNKNOWN) & (theirs != UNKNOWN)).any(axis=1)
    if differ.any():
        odd = [images[int(place)] for place in np.flatnonzero(differ)]
        raise DataError(
            f"{where}: other labels than {table.name} for {counted(len(odd), 'image')}: {listing(odd)}"
        )
    filled = table.labels.copy()
    filled[short] = np.where(mine == UNKNOWN, theirs, mine)
    return filled


def _finished(
    split: Split, names: Sequence[str], name: str, paths: Sequence[str], root: Path, config: Any
) -> LabelTable:
    if len(names) != sum(split.widths):
        raise DataError(
            f"{config.annotations}: {sum(split.widths)} columns of labels, but {len(names)} class names"
        )
    rows = Rows(names, split.refs, split.labels, split.test, split.places.__getitem__, paths)
    table = gather(rows, name, root, config)
    owner = np.array([split.owner[ref] for ref in table.refs])
    table = replace(table, owner=owner, widths=split.widths)
    if config.full_labels:
        table = replace(table, labels=_filled(table, *_full_labels(Path(config.full_labels).expanduser())))
    return table


def _full_labels(path: Path) -> tuple[Sequence[str], Sequence[str], np.ndarray, str]:
    """Of COCO's instances_train2014.json (or the folder that has it), or of any table of labels."""
    if path.is_dir():
        path = path / "instances_train2014.json"
    if path.suffix == ".json":
        instances = read_instances(path)
        return instances.class_names, instances.refs, instances.labels, str(path)
    rows = read_sheets([Given(open_sheet(path))], Reading())
    return rows.class_names, rows.refs, rows.labels, str(path)


def _given(config: Any) -> Path:
    if not config.annotations:
        raise ConfigError("data.annotations: say which zip or folder, such as Split-COCO.zip")
    return Path(config.annotations).expanduser()
