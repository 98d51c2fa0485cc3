"""VOC's format: difficult objects, sets of images, and damaged files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mlcl.data.source import source
from mlcl.data.table import LabelTable
from mlcl.errors import DataError


def thing(name: str, difficult: str = "0") -> str:
    part = "<part><name>head</name></part>"
    return f"<object><name>{name}</name><difficult>{difficult}</difficult>{part}</object>"


OBJECTS = {
    "1": thing("dog") + thing("dog", "1"),
    "2": thing("cat", "1"),
    "3": thing("cat") + thing("dog", "1"),
    "4": "",
}


def devkit(root: Path, objects: dict[str, str], **sets: str) -> Path:
    for folder in ("Annotations", "ImageSets/Main", "JPEGImages"):
        (root / folder).mkdir(parents=True)
    for name, content in objects.items():
        text = f"<annotation><filename>{name}.jpg</filename>{content}</annotation>"
        (root / "Annotations" / f"{name}.xml").write_text(text)
        (root / "JPEGImages" / f"{name}.jpg").touch()
    for name, images in sets.items():
        (root / "ImageSets/Main" / f"{name}.txt").write_text(
            "".join(f"{image}\n" for image in images.split())
        )
    return root


def read(root: Path, **settings: Any) -> LabelTable:
    kind = source("voc")
    return kind(kind.Config(root=str(root), **settings)).table()


@pytest.mark.parametrize(("difficult", "mark"), [("unknown", -1), ("positive", 1), ("negative", 0)])
def test_2007(tmp_path: Path, difficult: str, mark: int) -> None:
    root = devkit(tmp_path / "VOC2007", OBJECTS, trainval="1 2", train="1", val="2", test="3 4")
    table = read(root, difficult=difficult)
    assert (table.name, table.class_names) == ("voc2007", ("cat", "dog"))
    assert list(table.refs) == ["1.jpg", "2.jpg", "3.jpg", "4.jpg"]
    assert table.labels.tolist() == [[0, 1], [mark, 0], [1, mark], [0, 0]]
    assert table.test.tolist() == [False, False, True, True]


def test_2012_whose_test_is_not_annotated(tmp_path: Path) -> None:
    root = devkit(tmp_path / "VOC2012", OBJECTS, trainval="1 2 3", train="1", val="2 3", test="2012_000001")
    table = read(root)
    assert list(table.refs) == ["1.jpg", "2.jpg", "3.jpg"]
    assert table.test.tolist() == [False, True, True]


def test_sets_of_one_class_have_a_second_column(tmp_path: Path) -> None:
    root = devkit(tmp_path / "own", OBJECTS, val="3")
    (root / "ImageSets/Main/cat_train.txt").write_text("1 -1\n2  1\n")
    assert list(read(root, train_set="cat_train").refs) == ["1.jpg", "2.jpg", "3.jpg"]


def test_repeated_image_and_other_suffix(tmp_path: Path) -> None:
    root = devkit(tmp_path / "own", OBJECTS, train="1 1", val="3")
    (root / "Annotations/1.xml").write_text(
        f"<annotation><filename>1.png</filename>{thing('dog')}</annotation>"
    )
    (root / "JPEGImages/1.png").touch()
    table = read(root)
    assert list(table.refs) == ["1.png", "3.jpg"]
    assert table.notes == ("1 repeated row left out: 1.png",)


DAMAGED = {
    "not xml": ({"1": "<object>"}, "1.xml, line 1, column .*not valid XML"),
    "an object without name": (
        {"1": "<object><difficult>0</difficult></object>"},
        "1.xml: object 1 has no name",
    ),
    "a strange difficult": ({"1": thing("cat", "maybe")}, r"1\.xml: object 1 \(cat\): difficult is 0 or 1"),
    "no object at all": ({"1": "", "3": ""}, "not a single class"),
}


@pytest.mark.parametrize(("objects", "message"), DAMAGED.values(), ids=DAMAGED)
def test_damaged(tmp_path: Path, objects: dict[str, str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(devkit(tmp_path / "own", {**OBJECTS, **objects}, train="1", val="3"))


def test_missing(tmp_path: Path) -> None:
    root = devkit(tmp_path / "own", OBJECTS, train="1 9", val="3")
    with pytest.raises(DataError, match=r"train\.txt, line 2: no annotation .*9\.xml"):
        read(root)
    with pytest.raises(DataError, match=r"nothing\.txt: no such file"):
        read(root, train_set="nothing")
    with pytest.raises(DataError, match="no ImageSets/Main"):
        read(tmp_path)
    (root / "JPEGImages/3.jpg").unlink()
    (root / "ImageSets/Main/train.txt").write_text("1\n")
    with pytest.raises(DataError, match=r"val\.txt, line 1: no file for 1 of 2 images"):
        read(root)
    (root / "ImageSets/Main/val.txt").write_text("1\n")
    with pytest.raises(DataError, match=r"val\.txt, line 1: 1\.jpg is for training and for testing"):
        read(root)
    with pytest.raises(DataError, match=r"1\.xml: no class 'dog' in data\.classes; did you mean 'dogs'"):
        read(root, classes=("dogs", "cats"))
