"""NUS-WIDE: the official files (one file a concept), and the two CSV forms in which it goes around."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Literal

import numpy as np

from mlcl.data.columns import Reading
from mlcl.data.forms import Given, read_sheets
from mlcl.data.gather import TEST, TRAIN, FileConfig, Rows, clean, folder, gather
from mlcl.data.marks import PARTS
from mlcl.data.sheet import open_sheet
from mlcl.data.source import Source
from mlcl.data.table import LabelTable
from mlcl.data.text import file_errors, read_lines
from mlcl.errors import DataError


class NusWide(Source, name="nus-wide"):
    """NUS-WIDE from its official files (image lists, one label file a concept), or from a CSV of it."""

    @dataclass(frozen=True, kw_only=True)
    class Config(FileConfig):
        annotations: str = ""  # folder of ImageList, Groundtruth, ..., or a CSV; empty: the root
        images: str = "auto"  # folder under the root; auto: Flickr or images if there is one, else the root
        labels: Literal["auto", "AllLabels", "TrainTestLabels"] = "auto"  # which of the official ones

    def table(self) -> LabelTable:
        config = self.config
        root = folder(config.root, "root")
        given = Path(config.annotations).expanduser() if config.annotations else root
        if given.is_file():
            rows = _listed_csv(given)
        else:
            annotations = folder(str(given), "annotations")
            rows = _numbered_csv(annotations, root) or _official(annotations, config.labels)
        side = config.images
        if side == "auto":
            side = next((n for n in ("Flickr", "images") if (root / n).is_dir()), "")
        if side and not all(ref.startswith(f"{side}/") for ref in rows.refs[:1]):
            rows.paths = [f"{side}/{path}" for path in rows.paths or rows.refs]
        return gather(rows, "nus-wide", root, config)


def _official(annotations: Path, labels: str) -> Rows:
    def lists(part: str) -> list[tuple[str, str]]:
        path = _find(annotations, f"ImageList/{part}Imagelist.txt", f"{part}Imagelist.txt")
        return [(clean(line), f"{path}, line {number}") for number, line in read_lines(path)]

    truth = {
        kind: next((p for p in (annotations / "Groundtruth" / kind, annotations / kind) if p.is_dir()), None)
        for kind in ("TrainTestLabels", "AllLabels")
    }
    kind = labels if labels != "auto" else next((k for k, place in truth.items() if place), "")
    place = truth.get(kind)
    if place is None:
        raise DataError(f"{annotations}: no folder Groundtruth/{kind or 'TrainTestLabels (or AllLabels)'}")
    concepts = _concepts(annotations, place)
    train, test = lists("Train"), lists("Test")
    if kind == "TrainTestLabels":
        images = train + test
        parts = np.repeat(np.array((TRAIN, TEST), np.int8), (len(train), len(test)))
        halves = [_columns(place, concepts, f"_{p}", len(i)) for p, i in (("Train", train), ("Test", test))]
        matrix = np.concatenate(halves)
    else:
        images = lists("")
        part_of = {name: TEST for name, _ in test} | {name: TRAIN for name, _ in train}
        for name, where in images:
            if name not in part_of:
                raise DataError(f"{where}: {name} is in neither TrainImagelist.txt nor TestImagelist.txt")
        parts = np.array([part_of[name] for name, _ in images], np.int8)
        matrix = _columns(place, concepts, "", len(images))
    return Rows(concepts, [name for name, _ in images], matrix, parts, lambda row: images[row][1])


def _concepts(annotations: Path, labels: Path) -> tuple[str, ...]:
    listed = [p for p in ("ConceptsList/Concepts81.txt", "Concepts81.txt") if (annotations / p).is_file()]
    if listed:
        return tuple(line for _, line in read_lines(annotations / listed[0]))
    names = {path.stem.removeprefix("Labels_") for path in labels.glob("Labels_*.txt")}
    return tuple(sorted({name.removesuffix("_Train").removesuffix("_Test") for name in names}))


def _columns(place: Path, concepts: Sequence[str], suffix: str, count: int) -> np.ndarray:
    """(count, C) int8 from one file a concept, one 0 or 1 a line."""
    matrix = np.empty((count, len(concepts)), np.int8)
    for column, concept in enumerate(concepts):
        path = place / f"Labels_{concept}{suffix}.txt"
        with file_errors(path):
            marks = np.frombuffer(path.read_bytes().translate(None, b" \t\r\n"), np.uint8) - ord("0")
        if (marks > 1).any() or len(marks) != count:
            lines = read_lines(path)
            for number, line in lines:
                if line not in ("0", "1"):
                    raise DataError(f"{path}, line {number}: expected 0 or 1, got {line[:20]!r}")
            raise DataError(f"{path}: {len(lines):,} labels, but the image list has {count:,} images")
        matrix[:, column] = marks
    return matrix


def _listed_csv(path: Path) -> Rows:
    """`filepath,"['clouds', 'sky']",train`: one row an image, its concepts in one cell."""
    return read_sheets([Given(open_sheet(path))], Reading())


def _numbered_csv(annotations: Path, root: Path) -> Rows | None:
    """classification_trainval.csv and _test.csv: one column a concept; an image is its line in the list."""
    places = [annotations / "classification_labels", annotations]
    found = next((p for p in places if (p / "classification_test.csv").is_file()), None)
    if found is None:
        return None
    train = _find(found, "classification_trainval.csv", "classification_train.csv")
    given = []
    for path, part in ((train, "train"), (found / "classification_test.csv", "test")):
        sheet = open_sheet(path, header="yes")  # whose first column goes by several names, or none
        sheet = replace(sheet, header=("path", *sheet.header[1:]))
        given.append(Given(sheet, PARTS[part], f"{part}/"))
    rows = read_sheets(given, Reading())
    rows.refs, rows.paths = _by_photo(rows, annotations, root)
    return rows


def _by_photo(rows: Rows, annotations: Path, root: Path) -> tuple[list[str], list[str]]:
    """Line numbers -> the official names, and the files that bear the same Flickr photo number."""
    lists = {
        part: read_lines(_find(annotations, f"ImageList/{name}Imagelist.txt", f"{name}Imagelist.txt"))
        for part, name in (("train", "Train"), ("test", "Test"))
    }
    file_of = {}
    for path in (root / "images").glob("*.*"):
        fields = path.stem.split("_")  # 0_2124494179_b039ddccac_m.jpg or 0001_2124494179.jpg
        if len(fields) > 1:
            file_of[fields[1]] = path.name
    refs, paths = [], []
    for row, ref in enumerate(rows.refs):
        part, number = ref.split("/", 1)
        if not number.isdecimal() or int(number) >= len(lists[part]):
            raise DataError(
                f"{rows.place(row)}: expected the number of a line of the {part} image list "
                f"(0 to {len(lists[part]) - 1:,}), got {number!r}"
            )
        name = clean(lists[part][int(number)][1])
        photo = PurePosixPath(name).stem.split("_")[-1]
        refs.append(name)
        paths.append(file_of.get(photo, name))
    return refs, paths


def _find(root: Path, *names: str) -> Path:
    found = next((root / name for name in names if (root / name).is_file()), None)
    if found is None:
        raise DataError(f"{root}: no {' or '.join(names)}")
    return found
