"""MS-COCO's own annotation (2014, 2017), and whatever is written in its format."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from mlcl.data.gather import TEST, TRAIN, UNDECIDED, FileConfig, Rows, clean, counted, folder, gather, listing
from mlcl.data.source import Source
from mlcl.data.table import UNKNOWN, LabelTable
from mlcl.data.text import open_text
from mlcl.errors import ConfigError, DataError

Value = Literal["positive", "unknown", "negative"]
MARKS = {"positive": 1, "unknown": UNKNOWN, "negative": 0}


class Coco(Source, name="coco"):
    """MS-COCO 2014 or 2017, or one's own images annotated in COCO's format (instances JSON)."""

    @dataclass(frozen=True, kw_only=True)
    class Config(FileConfig):
        year: Literal["auto", "2014", "2017"] = "auto"  # auto: the one whose files are there
        annotations: str = ""  # the folder of instances_*.json; empty: ROOT/annotations
        train: str = ""  # one's own JSON; empty: instances_train{year}.json
        test: str = ""  # empty: instances_val{year}.json
        train_images: str = "auto"  # folder under the root; auto: train{year} if there is one, else the root
        test_images: str = "auto"  # the same for val{year}
        crowd: Value = "positive"  # what a class is that an image shows as a crowd only
        unannotated: Literal["keep", "drop"] = "keep"  # images without any box; kept, they show no class
        test_share: float = 0.2  # of one's own JSON, where there is none for testing

    def table(self) -> LabelTable:
        config = self.config
        root = folder(config.root, "root")
        year, files = _files(config, root)
        parts = [read_instances(path, crowd=config.crowd) for path in files]
        rows = _joined(parts, files)
        sides = [
            images_folder(root, config.train_images, f"train{year}"),
            images_folder(root, config.test_images, f"val{year}"),
        ]
        rows.paths = [side + ref for part, side in zip(parts, sides, strict=False) for ref in part.refs]
        if not year:  # COCO's own names tell all images apart; others may begin anew in each folder
            rows.refs = list(rows.paths)
        bare = np.flatnonzero(np.concatenate([part.bare for part in parts]))
        if len(bare):
            names = [rows.refs[row] for row in bare]
            what = "left out" if config.unannotated == "drop" else "kept, as showing no class"
            rows.notes.append(f"{counted(len(bare), 'image')} without annotation {what}: {listing(names)}")
            if config.unannotated == "drop":
                rows.dropped.update(dict.fromkeys(names, "no annotation"))
                rows = rows.keep(np.setdiff1d(np.arange(len(rows.refs)), bare))
        name = f"coco{year}" if year else files[0].stem
        return gather(rows, name, root, config, config.test_share, files[0])


@dataclass(frozen=True)
class Instances:
    """One instances JSON: its images in the order of the file."""

    class_names: tuple[str, ...]  # in the order of their category ids
    refs: list[str]
    ids: list[Any]
    labels: np.ndarray  # (N, C) int8
    bare: np.ndarray  # (N,) bool: no annotation at all


def read_instances(path: Path, crowd: Value = "positive") -> Instances:
    """A crowd's box counts as the benchmarks count it: it shows its class (see docs/data.md)."""
    tree = _load(path)
    categories = sorted(_list(tree, "categories", path), key=lambda c: _key(c, "id", path, "a category"))
    column_of = {category["id"]: column for column, category in enumerate(categories)}
    class_names = tuple(str(_key(c, "name", path, f"category {c['id']}")) for c in categories)
    images = _list(tree, "images", path)
    ids = [_key(image, "id", path, "an image") for image in images]
    row_of = {identity: row for row, identity in enumerate(ids)}
    for what, keys in (("category", column_of), ("image", row_of)):
        total = categories if what == "category" else images
        if len(keys) != len(total):
            twice = Counter(entry["id"] for entry in total).most_common(1)[0][0]
            raise DataError(f"{path}: more than one {what} has the id {twice}")
    refs = [clean(str(_key(image, "file_name", path, f"image {image['id']}"))) for image in images]
    labels = np.zeros((len(refs), len(class_names)), np.int8)
    bare = np.ones(len(refs), bool)
    crowds = []
    for annotation in _list(tree, "annotations", path):
        who = f"annotation {annotation.get('id', '?')}"
        image, category = _key(annotation, "image_id", path, who), _key(annotation, "category_id", path, who)
        if image not in row_of:
            raise DataError(f"{path}: {who} is of image {image}, which is not among the images")
        if category not in column_of:
            raise DataError(f"{path}: {who} is of category {category}, which is not among the categories")
        row, column = row_of[image], column_of[category]
        bare[row] = False
        if annotation.get("iscrowd", 0):
            crowds.append((row, column))
        else:
            labels[row, column] = 1
    for row, column in crowds:
        if labels[row, column] != 1:
            labels[row, column] = MARKS[crowd]
    return Instances(class_names, refs, ids, labels, bare)


def _load(path: Path) -> dict[str, Any]:
    def slim(entry: dict[str, Any]) -> dict[str, Any]:
        # outlines are nine tenths of the file; dropped one by one, they never fill the memory
        entry.pop("segmentation", None)
        return entry

    with open_text(path) as file:
        try:
            tree = json.load(file, object_hook=slim)
        except json.JSONDecodeError as error:
            raise DataError(
                f"{path}, line {error.lineno}, column {error.colno}: not valid JSON ({error.msg}); "
                "was the download cut short?"
            ) from None
        except RecursionError:
            raise DataError(f"{path}: nested too deeply to be COCO's format") from None
    if not isinstance(tree, dict):
        raise DataError(f"{path}: expected an object with images, annotations and categories")
    return tree


def _list(tree: dict[str, Any], key: str, path: Path) -> list[dict[str, Any]]:
    value = tree.get(key)
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        hint = "; captions_*.json has none, take instances_*.json" if key == "categories" else ""
        raise DataError(f"{path}: no list {key!r} of objects{hint}")
    return value


def _key(entry: dict[str, Any], key: str, path: Path, what: str) -> Any:
    value = entry.get(key)
    if value is None or isinstance(value, list | dict):
        raise DataError(f"{path}: {what} has no {key!r}")
    return value


def _files(config: Any, root: Path) -> tuple[str, list[Path]]:
    if config.train:
        return "", [Path(p).expanduser() for p in (config.train, config.test) if p]
    if config.test:
        raise ConfigError("data.test: needs data.train beside it")
    place = Path(config.annotations).expanduser() if config.annotations else root / "annotations"
    years = [y for y in ("2014", "2017") if (place / f"instances_train{y}.json").is_file()]
    if config.year == "auto" and len(years) > 1:
        raise ConfigError(f"data.year: {place} has 2014 and 2017; say which")
    year = config.year if config.year != "auto" else "".join(years)
    if not year:
        raise DataError(
            f"{place}: no instances_train2014.json or instances_train2017.json; "
            "name the folder (data.annotations) or one's own files (data.train, data.test)"
        )
    return year, [place / f"instances_{part}{year}.json" for part in ("train", "val")]


def images_folder(root: Path, given: str, usual: str) -> str:
    """What goes before the file names, with its slash."""
    name = given
    if given == "auto":
        name = next((n for n in (usual, f"images/{usual}") if (root / n).is_dir()), "")
    return f"{name.rstrip('/')}/" if name else ""


def _joined(parts: Sequence[Instances], files: Sequence[Path]) -> Rows:
    names = parts[0].class_names
    for part, path in zip(parts, files, strict=True):
        if set(part.class_names) != set(names):
            odd = sorted(set(part.class_names) ^ set(names))
            raise DataError(f"{path}: not the categories of {files[0]}: {listing(odd)}")
    labels = [part.labels[:, [part.class_names.index(name) for name in names]] for part in parts]
    sizes = [len(part.refs) for part in parts]
    kinds = (TRAIN, TEST) if len(parts) > 1 else (UNDECIDED,)

    def place(row: int) -> str:
        index = int(row >= sizes[0])
        return f"{files[index]}, image {parts[index].ids[row - index * sizes[0]]}"

    return Rows(
        names,
        [ref for part in parts for ref in part.refs],
        np.concatenate(labels),
        np.repeat(np.array(kinds, np.int8), sizes),
        place,
    )
