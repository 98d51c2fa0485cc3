"""PASCAL VOC 2007 and 2012, and whatever is annotated in its format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree

import numpy as np

from mlcl.data.gather import TEST, TRAIN, FileConfig, Rows, folder, gather
from mlcl.data.source import Source
from mlcl.data.table import UNKNOWN, LabelTable
from mlcl.data.text import file_errors, read_lines
from mlcl.errors import DataError, nearest

Value = Literal["unknown", "positive", "negative"]
MARKS = {"positive": 1, "unknown": UNKNOWN, "negative": 0}


class Voc(Source, name="voc"):
    """PASCAL VOC 2007 or 2012, or one's own images annotated in its format (XML and ImageSets/Main)."""

    @dataclass(frozen=True, kw_only=True)
    class Config(FileConfig):
        train_set: str = ""  # file in ImageSets/Main; empty: trainval, or train where test is not annotated
        test_set: str = ""  # empty: test, or val
        difficult: Value = "unknown"  # what a class is that an image shows in difficult objects only
        classes: tuple[str, ...] = ()  # empty: all that occur, by alphabet

    def table(self) -> LabelTable:
        config = self.config
        root = folder(config.root, "root")
        sets = root / "ImageSets" / "Main"
        if not sets.is_dir():
            raise DataError(f"{root}: no ImageSets/Main; data.root is the folder VOC2007 or VOC2012 itself")
        annotated = _has_test(root)
        images: list[tuple[str, str]] = []  # name, and where it is listed
        counts = []
        for given, usual in ((config.train_set, ("train", "trainval")), (config.test_set, ("val", "test"))):
            path = sets / f"{given or usual[annotated]}.txt"
            listed = [(line.split()[0], f"{path}, line {number}") for number, line in read_lines(path)]
            images += listed
            counts.append(len(listed))
        found = [_objects(root / "Annotations" / f"{name}.xml", place) for name, place in images]
        names = config.classes or tuple(sorted({name for objects in found for name, _ in objects.marks}))
        labels = np.zeros((len(images), len(names)), np.int8)
        for row, objects in enumerate(found):
            for name, difficult in sorted(objects.marks, key=lambda mark: not mark[1]):  # clear ones last
                if name not in names:
                    known = nearest(name, names)
                    raise DataError(f"{objects.path}: no class {name!r} in data.classes; {known}")
                labels[row, names.index(name)] = MARKS[config.difficult] if difficult else 1
        files = [f"{name}{objects.suffix}" for (name, _), objects in zip(images, found, strict=True)]
        rows = Rows(
            names,
            files,
            labels,
            np.repeat(np.array((TRAIN, TEST), np.int8), counts),
            lambda row: images[row][1],
            paths=[f"JPEGImages/{file}" for file in files],
        )
        return gather(rows, root.resolve().name.lower(), root, config)


@dataclass(frozen=True)
class _Objects:
    path: Path
    marks: Sequence[tuple[str, bool]]  # class, difficult
    suffix: str


def _objects(path: Path, place: str) -> _Objects:
    if not path.is_file():
        raise DataError(f"{place}: no annotation {path}")
    with file_errors(path):
        try:
            tree = ElementTree.parse(path).getroot()
        except ElementTree.ParseError as error:
            line, column = error.position
            raise DataError(f"{path}, line {line}, column {column}: not valid XML: {error}") from None
    marks = []
    for number, thing in enumerate(tree.iterfind("object"), 1):
        name = (thing.findtext("name") or "").strip()
        if not name:
            raise DataError(f"{path}: object {number} has no name")
        difficult = (thing.findtext("difficult") or "0").strip()
        if difficult not in ("0", "1"):
            raise DataError(f"{path}: object {number} ({name}): difficult is 0 or 1, got {difficult!r}")
        marks.append((name, difficult == "1"))
    return _Objects(path, marks, Path((tree.findtext("filename") or "").strip()).suffix or ".jpg")


def _has_test(root: Path) -> bool:
    """VOC 2012 lists its test images, but their annotations were never published."""
    path = root / "ImageSets" / "Main" / "test.txt"
    if not path.is_file():
        return False
    lines = read_lines(path)
    return bool(lines) and (root / "Annotations" / f"{lines[0][1].split()[0]}.xml").is_file()
