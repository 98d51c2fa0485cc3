"""COCO's format: crowds, images without annotation, folders of a year, and damaged files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mlcl.data.coco import read_instances
from mlcl.data.source import source
from mlcl.data.table import LabelTable
from mlcl.errors import DataError, MLCLError

TREE: dict[str, Any] = {
    "images": [
        {"id": 9, "file_name": "a.jpg"},
        {"id": 5, "file_name": "b.jpg"},
        {"id": 7, "file_name": "c.jpg"},
    ],
    "categories": [{"id": 18, "name": "dog"}, {"id": 1, "name": "person"}, {"id": 3, "name": "car"}],
    "annotations": [
        {"id": 1, "image_id": 9, "category_id": 1, "iscrowd": 0, "segmentation": [[0.0, 1.0]]},
        {
            "id": 2,
            "image_id": 9,
            "category_id": 1,
            "iscrowd": 1,
            "segmentation": {"counts": [1], "size": [1, 1]},
        },
        {"id": 3, "image_id": 5, "category_id": 18, "iscrowd": 1},
        {"id": 4, "image_id": 5, "category_id": 3},
    ],
}
NAMES = ("person", "car", "dog")  # by category id


def read(root: Path, **settings: Any) -> LabelTable:
    kind = source("coco")
    return kind(kind.Config(**{"root": str(root), "missing": "keep", **settings})).table()


def write(path: Path, tree: Any = TREE) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(tree if isinstance(tree, str) else json.dumps(tree))
    return path


def renamed(old: str, new: str) -> Any:
    return json.loads(json.dumps(TREE).replace(old, new))


def official(root: Path, year: str = "2014") -> Path:
    write(root / f"annotations/instances_train{year}.json")
    write(root / f"annotations/instances_val{year}.json", renamed(".jpg", ".v.jpg"))
    return root


@pytest.mark.parametrize(("crowd", "mark"), [("positive", 1), ("unknown", -1), ("negative", 0)])
def test_crowds(tmp_path: Path, crowd: Any, mark: int) -> None:
    instances = read_instances(write(tmp_path / "i.json"), crowd=crowd)
    assert instances.class_names == NAMES
    assert instances.labels.tolist() == [[1, 0, 0], [0, 1, mark], [0, 0, 0]]  # a box beside a crowd stays
    assert instances.bare.tolist() == [False, False, True]


@pytest.mark.parametrize("year", ["2014", "2017"])
def test_official(tmp_path: Path, year: str) -> None:
    table = read(official(tmp_path, year))
    assert table.name == f"coco{year}"
    assert list(table.refs) == ["a.jpg", "b.jpg", "c.jpg", "a.v.jpg", "b.v.jpg", "c.v.jpg"]
    assert table.test.tolist() == [False] * 3 + [True] * 3
    assert table.class_names == NAMES
    assert table.notes == ("2 images without annotation kept, as showing no class: c.jpg, c.v.jpg",)


def test_images_without_annotation_left_out(tmp_path: Path) -> None:
    table = read(official(tmp_path), unannotated="drop")
    assert list(table.refs) == ["a.jpg", "b.jpg", "a.v.jpg", "b.v.jpg"]
    assert table.dropped == {"c.jpg": "no annotation", "c.v.jpg": "no annotation"}


def test_image_folders(tmp_path: Path) -> None:
    root = official(tmp_path)
    for folder, middle in (("train2014", ""), ("val2014", ".v")):
        (root / folder).mkdir()
        for letter in "abc":
            (root / folder / f"{letter}{middle}.jpg").touch()
    assert len(read(root, missing="error")) == 6
    (root / "val2014/b.v.jpg").unlink()
    with pytest.raises(DataError, match=r"instances_val2014\.json, image 5: no file for 1 of 6 .*b\.v\.jpg"):
        read(root, missing="error")
    assert list(read(root, missing="drop").dropped) == ["b.v.jpg"]


def test_own_files(tmp_path: Path) -> None:
    one = write(tmp_path / "own.json")
    table = read(tmp_path, train=str(one), test_share=0.5)
    assert table.name == "own"
    assert len(table) == 3
    write(tmp_path / "test/_annotations.coco.json")
    for folder in ("train", "test"):
        (tmp_path / folder).mkdir(exist_ok=True)
    settings = {"train_images": "train", "test_images": "test"}
    both = read(tmp_path, train=str(one), test=str(tmp_path / "test/_annotations.coco.json"), **settings)
    assert list(both.refs)[2:4] == ["train/c.jpg", "test/a.jpg"]  # equal names in two folders are two images


def damaged(**lists: Any) -> Any:
    return {**TREE, **lists}


def entry(kind: str, **changes: Any) -> Any:
    first, *rest = TREE[kind]
    changed = {key: value for key, value in {**first, **changes}.items() if value is not None}
    return damaged(**{kind: [changed, *rest]})


DAMAGED: dict[str, tuple[Any, str]] = {
    "cut short": (json.dumps(TREE)[:200], r"line 1, column \d+: not valid JSON .*cut short"),
    "empty": ("", "line 1, column 1: not valid JSON"),
    "a list": ("[]", "expected an object"),
    "not json": ("id,file\n", "not valid JSON"),
    "nested without end": ("[" * 200_000, "nested too deeply"),
    "no categories": (
        {k: v for k, v in TREE.items() if k != "categories"},
        "no list 'categories'.*instances_",
    ),
    "no images": (damaged(images=None), "no list 'images'"),
    "annotations are no objects": (damaged(annotations=[1]), "no list 'annotations' of objects"),
    "an image without id": (entry("images", id=None), "an image has no 'id'"),
    "an image without name": (entry("images", file_name=None), "image 9 has no 'file_name'"),
    "a category without name": (entry("categories", name=None), "category 18 has no 'name'"),
    "an annotation without image": (entry("annotations", image_id=None), "annotation 1 has no 'image_id'"),
    "of no image": (entry("annotations", image_id=77), "annotation 1 is of image 77, which is not"),
    "of no category": (entry("annotations", category_id=77), "annotation 1 is of category 77, which is not"),
    "an id twice": (entry("images", id=5), "more than one image has the id 5"),
    "a category twice": (entry("categories", id=1), "more than one category has the id 1"),
    "a name twice": (entry("categories", name="car"), "two classes are called 'car'"),
    "a file twice": (
        entry("images", file_name="b.jpg"),
        r"image 5: b\.jpg has other labels than at .*image 9",
    ),
    "no image at all": (damaged(images=[], annotations=[]), "not a single image"),
    "a path out of the root": (entry("images", file_name="../a.jpg"), "image 9: .* leaves"),
}


@pytest.mark.parametrize(("tree", "message"), DAMAGED.values(), ids=DAMAGED)
def test_damaged(tmp_path: Path, tree: Any, message: str) -> None:
    path = write(tmp_path / "odd.json", tree)
    with pytest.raises(DataError, match=message) as caught:
        read(tmp_path, train=str(path))
    assert "odd" in str(caught.value)


def test_wrong_settings(tmp_path: Path) -> None:
    with pytest.raises(MLCLError, match=r"data\.root: say which folder"):
        source("coco")(source("coco").Config()).table()
    with pytest.raises(DataError, match="no instances_train2014"):
        read(tmp_path)
    with pytest.raises(MLCLError, match=r"needs data\.train"):
        read(tmp_path, test="x.json")
    official(tmp_path)
    with pytest.raises(DataError, match=r"instances_train2017\.json: no such file"):
        read(tmp_path, year="2017")
    official(tmp_path, "2017")
    with pytest.raises(MLCLError, match=r"data\.year: .* has 2014 and 2017"):
        read(tmp_path)
    write(tmp_path / "annotations/instances_val2014.json", renamed('"car"', '"bus"'))
    with pytest.raises(DataError, match=r"val2014\.json: not the categories of .*: bus, car"):
        read(tmp_path, year="2014")
    write(tmp_path / "annotations/instances_val2014.json", TREE)
    with pytest.raises(DataError, match=r"val2014\.json, image 9: a\.jpg is for training and for testing"):
        read(tmp_path, year="2014")
