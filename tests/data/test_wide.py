"""NUS-WIDE in small: the official layout, the two CSV forms, and what may be wrong with them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mlcl.data.source import source
from mlcl.data.table import LabelTable
from mlcl.errors import DataError

TRAIN = ["actor\\0001_11.jpg", "zoo\\0002_13.jpg"]
TEST = ["actor\\0003_12.jpg"]
ALL = [TRAIN[0], TEST[0], TRAIN[1]]
LABELS = {"clouds": "101", "sky": "110"}  # in the order of ALL
REFS = {"actor/0001_11.jpg": [1, 1], "zoo/0002_13.jpg": [1, 0], "actor/0003_12.jpg": [0, 1]}


def lines(path: Path, content: list[str] | str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\r\n" for line in content))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    lines(tmp_path / "ImageList/Imagelist.txt", ALL)
    lines(tmp_path / "ImageList/TrainImagelist.txt", [f"{name}  " for name in TRAIN])
    lines(tmp_path / "ImageList/TestImagelist.txt", TEST)
    lines(tmp_path / "ConceptsList/Concepts81.txt", list(LABELS))
    truth = tmp_path / "Groundtruth"
    for concept, marks in LABELS.items():
        lines(truth / f"AllLabels/Labels_{concept}.txt", marks)
        lines(truth / f"TrainTestLabels/Labels_{concept}_Train.txt", marks[0] + marks[2])
        lines(truth / f"TrainTestLabels/Labels_{concept}_Test.txt", marks[1])
    for name in ALL:
        path = tmp_path / "Flickr" / name.replace("\\", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return tmp_path


def read(root: Path, **settings: Any) -> LabelTable:
    kind = source("nus-wide")
    return kind(kind.Config(root=str(root), **settings)).table()


def said(table: LabelTable) -> dict[str, list[int]]:
    return {ref: row.tolist() for ref, row in zip(table.refs, table.labels, strict=True)}


@pytest.mark.parametrize("labels", ["auto", "AllLabels", "TrainTestLabels"])
def test_official(root: Path, labels: str) -> None:
    table = read(root, labels=labels)
    assert table.class_names == ("clouds", "sky")
    assert said(table) == REFS
    assert [ref for ref, test in zip(table.refs, table.test, strict=True) if test] == ["actor/0003_12.jpg"]


def test_no_list_of_concepts(root: Path) -> None:
    (root / "ConceptsList/Concepts81.txt").unlink()
    assert said(read(root)) == REFS


def test_missing_images_are_counted_and_left_out_on_request(root: Path) -> None:
    (root / "Flickr/zoo/0002_13.jpg").unlink()
    with pytest.raises(DataError, match=r"TrainImagelist\.txt, line 2: no file for 1 of 3 .*data\.missing"):
        read(root)
    table = read(root, missing="drop")
    assert table.dropped == {"zoo/0002_13.jpg": "no such file"}
    assert "1 image without a file left out: zoo/0002_13.jpg" in table.notes


def test_one_row_an_image(tmp_path: Path) -> None:
    content = (
        "filepath,label,split_name\nimages/1.jpg,\"['clouds', 'sky']\",train\nimages/2.jpg,['sky'],val\n"
    )
    (tmp_path / "nus_wid_data.csv").write_text(content)
    (tmp_path / "images").mkdir()
    for name in "12":
        (tmp_path / f"images/{name}.jpg").touch()
    table = read(tmp_path, annotations=str(tmp_path / "nus_wid_data.csv"))
    assert said(table) == {"images/1.jpg": [1, 1], "images/2.jpg": [0, 1]}
    assert table.test.tolist() == [False, True]
    (tmp_path / "bare.csv").write_text(content.replace("images/", ""))
    assert list(read(tmp_path, annotations=str(tmp_path / "bare.csv")).refs) == ["1.jpg", "2.jpg"]


@pytest.mark.parametrize("first", ["", "name"])
def test_one_column_a_concept(root: Path, first: str) -> None:
    for part, content in (("trainval", "0,1,1\n1,1,0\n"), ("test", "0,0,1\n")):
        path = root / f"classification_labels/classification_{part}.csv"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{first},clouds,sky\n{content}")
    (root / "Flickr").rename(root / "gone")
    (root / "images").mkdir()
    for number, photo in enumerate(("11", "12", "13")):
        (root / f"images/{number}_{photo}_a0b1_m.jpg").touch()
    table = read(root)
    assert said(table) == REFS
    assert table.test.tolist() == [False, False, True]
    (root / "images/1_12_a0b1_m.jpg").unlink()
    assert list(read(root, missing="drop").dropped) == ["actor/0003_12.jpg"]
    (root / "classification_labels/classification_test.csv").write_text("name,clouds,sky\n1,0,1\n")
    with pytest.raises(
        DataError, match=r"classification_test\.csv, line 2: expected the number .*0 to 0.*'1'"
    ):
        read(root)
    (root / "classification_labels/classification_trainval.csv").unlink()
    with pytest.raises(DataError, match="no classification_trainval"):
        read(root)


DAMAGED: dict[str, tuple[Callable[[Path], Any], str]] = {
    "a label that is none": (
        lambda r: lines(r / "Groundtruth/TrainTestLabels/Labels_sky_Train.txt", "12"),
        r"Labels_sky_Train\.txt, line 2: expected 0 or 1, got '2'",
    ),
    "a label too few": (
        lambda r: lines(r / "Groundtruth/TrainTestLabels/Labels_sky_Train.txt", "1"),
        r"Labels_sky_Train\.txt: 1 labels, but the image list has 2 images",
    ),
    "two labels a line": (
        lambda r: lines(r / "Groundtruth/TrainTestLabels/Labels_sky_Test.txt", ["1 0"]),
        r"Labels_sky_Test\.txt, line 1: expected 0 or 1, got '1 0'",
    ),
    "a concept without labels": (
        lambda r: lines(r / "ConceptsList/Concepts81.txt", ["clouds", "sea"]),
        r"Labels_sea_Train\.txt: no such file",
    ),
    "no image list": (
        lambda r: (r / "ImageList/TestImagelist.txt").unlink(),
        "no ImageList/TestImagelist.txt",
    ),
    "no labels": (lambda r: (r / "Groundtruth").rename(r / "truth"), "no folder Groundtruth/"),
    "an image for both": (
        lambda r: lines(r / "ImageList/TestImagelist.txt", TRAIN[:1]),
        r"TestImagelist\.txt, line 1: actor/0001_11\.jpg is for training and for testing",
    ),
    "an image out of the root": (
        lambda r: lines(r / "ImageList/TestImagelist.txt", ["..\\..\\x.jpg"]),
        r"TestImagelist\.txt, line 1: .* leaves",
    ),
}


@pytest.mark.parametrize(("damage", "message"), DAMAGED.values(), ids=DAMAGED)
def test_damaged(root: Path, damage: Callable[[Path], Any], message: str) -> None:
    damage(root)
    with pytest.raises(DataError, match=message):
        read(root)


def test_all_labels_need_both_lists(root: Path) -> None:
    lines(root / "ImageList/TestImagelist.txt", ["other\\1_1.jpg"])
    with pytest.raises(DataError, match=r"Imagelist\.txt, line 2: .* is in neither"):
        read(root, labels="AllLabels")
