"""The authors' trees in small: the shape, junk and slips of the real zips, and what may be wrong with one."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlcl.data.authors import SPLIT_COCO, with_labels
from mlcl.data.source import source
from mlcl.data.table import LabelTable
from mlcl.errors import DataError, MLCLError
from mlcl.stream import StreamConfig, build

FILES = {  # two tasks, two classes and one
    "task0/train.csv": "a,1,0\r\nb,1,1\r\n",
    "task0/test.csv": "x,0,1\r\n",
    "task1/train.csv": "c,1\r\nd,1",
    "task1/test.csv": "x,0,1,1\r\ny,0,0,1\r\nz,1,0,0\r\ny,0,0,1\r\n",
}
FULL = {"a": [1, 0, 1], "b": [1, 1, 0], "c": [0, 1, 1], "d": [0, 0, 1]}


def write_zip(path: Path, files: dict[str, str | bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("__MACOSX/._Split-WIDE", b"\0\5\26\7")
        archive.writestr("Split-WIDE/.DS_Store", b"\0\0\0\1Bud1")
        for name, content in files.items():
            archive.writestr(f"Split-WIDE/{name}", content)
            archive.writestr(f"__MACOSX/Split-WIDE/{name.replace('/', '/._')}", b"\0\5\26\7")
            archive.writestr(f"__MACOSX/Split-WIDE/{name}", b"\0\5\26\7")
    return path


def read(tmp_path: Path, files: dict[str, str | bytes] | None = None, **settings: Any) -> LabelTable:
    kind = source("split-wide")
    path = write_zip(tmp_path / "Split.zip", {**FILES, **(files or {})})
    settings = {"root": str(tmp_path), "annotations": str(path), "missing": "keep", **settings}
    return kind(kind.Config(**settings)).table()


def test_tasks_row_by_row(tmp_path: Path) -> None:
    table = read(tmp_path)
    assert table.widths == (2, 1)
    assert dict(zip(table.refs, table.owner.tolist(), strict=True)) == {
        "a": 0, "b": 0, "c": 1, "d": 1, "x": 0, "y": 1, "z": 1,
    }  # fmt: skip
    assert table.labels[:4].tolist() == [[1, 0, -1], [1, 1, -1], [-1, -1, 1], [-1, -1, 1]]
    assert table.labels[4:].tolist() == [[0, 1, 1], [0, 0, 1], [1, 0, 0]]
    assert table.class_names == ("class 1", "class 2", "class 3")
    assert table.notes == ("1 repeated row left out: y",)


def test_the_stream_is_theirs(tmp_path: Path) -> None:
    table = read(tmp_path)
    stream = build(table, StreamConfig())
    assert [[table.refs[row] for row in task.train.rows] for task in stream] == [["a", "b"], ["c", "d"]]
    assert [{table.refs[row] for row in task.test.rows} for task in stream] == [{"x"}, {"x", "y", "z"}]
    assert stream[1].train.known.tolist() == [[False, False, True]] * 2
    assert stream[1].test.known.all()


def test_unpacked(tmp_path: Path) -> None:
    zipped = read(tmp_path)
    with zipfile.ZipFile(tmp_path / "Split.zip") as archive:
        archive.extractall(tmp_path / "tree")
    for place in ("tree", "tree/Split-WIDE"):
        table = read(tmp_path, annotations=str(tmp_path / place))
        assert list(table.refs) == list(zipped.refs)
        assert (table.labels == zipped.labels).all()


def test_names_and_files(tmp_path: Path) -> None:
    table = read(tmp_path, class_names=("sky", "sea", "sun"), file_name="img/{id}.png")
    assert table.class_names == ("sky", "sea", "sun")
    assert table.images.refs[0] == "img/a.png"
    with pytest.raises(DataError, match="3 columns of labels, but 1 class names"):
        read(tmp_path, class_names=("sky",))
    with pytest.raises(MLCLError, match=r"data\.file_name: has no \{id\}"):
        read(tmp_path, file_name="a.jpg")
    with pytest.raises(MLCLError, match=r"data\.annotations: say which"):
        read(tmp_path, annotations="")


def test_missing_images_keep_the_rest_in_its_tasks(tmp_path: Path) -> None:
    for ref in "abcxyz":
        (tmp_path / f"{ref}.jpg").touch()
    with pytest.raises(DataError, match=r"task1/train\.csv, line 2: no file for 1 of 7 images .*: d"):
        read(tmp_path, missing="error")
    table = read(tmp_path, missing="drop")
    assert dict(zip(table.refs, table.owner.tolist(), strict=True)) == {
        "a": 0, "b": 0, "c": 1, "x": 0, "y": 1, "z": 1,
    }  # fmt: skip


def test_cl_wants_labels_that_the_csvs_do_not_have(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"scenario cl, but nothing is known .*data\.full_labels"):
        build(read(tmp_path), StreamConfig(scenario="cl"))
    full = tmp_path / "full.csv"
    lines = [f"{ref},{','.join(map(str, row))}\n" for ref, row in reversed(FULL.items())]
    full.write_text("id,class 1,class 2,class 3\n" + "".join(lines))
    table = read(tmp_path, full_labels=str(full))
    assert table.labels[:4].tolist() == list(FULL.values())
    second = build(table, StreamConfig(scenario="cl"))[1]
    assert second.train.y.tolist() == [FULL["c"], FULL["d"]]
    assert second.train.known.all()


def test_labels_of_another_table(tmp_path: Path) -> None:
    table = read(tmp_path)
    full = tmp_path / "full.csv"
    kind = source("csv")

    def other(rows: dict[str, list[int]], names: str = "class 3,class 1,class 2") -> LabelTable:
        lines = [f"{ref},{row[2]},{row[0]},{row[1]}\n" for ref, row in rows.items()]
        full.write_text(f"id,{names}\n" + "".join(lines))
        return kind(kind.Config(annotations=str(full), missing="keep")).table()

    assert with_labels(table, other(FULL)).labels[:4].tolist() == list(FULL.values())
    with pytest.raises(DataError, match="full: other labels than split-wide for 1 image: a"):
        with_labels(table, other({**FULL, "a": [0, 0, 1]}))
    with pytest.raises(DataError, match="full: nothing of 1 image of split-wide: d"):
        with_labels(table, other({ref: row for ref, row in FULL.items() if ref != "d"}))
    with pytest.raises(DataError, match="full: no class class 3, which split-wide has"):
        with_labels(table, other(FULL, "sky,class 1,class 2"))


DAMAGED: dict[str, tuple[dict[str, str | bytes], str]] = {
    "a mark that is none": (
        {"task1/train.csv": "c,1\nd,2\n"},
        r"task1/train\.csv, line 2: expected .* got 'd,2'",
    ),
    "a blank mark": ({"task0/train.csv": "a,1,\n"}, r"task0/train\.csv, line 1: expected"),
    "two marks in one cell": ({"task0/train.csv": "a,1,0\nb,10,\n"}, r"task0/train\.csv, line 2: expected"),
    "a row cut short": (
        {"task0/train.csv": "a,1,0\nb,1"},
        r"task0/train\.csv, line 2: expected an image and 2",
    ),
    "no marks": ({"task0/train.csv": "a\n"}, r"line 1: expected an image and some times 0 or 1"),
    "a header": ({"task1/test.csv": "id,c,d,e\n"}, r"task1/test\.csv, line 1: expected"),
    "an empty file": ({"task0/test.csv": "\r\n"}, r"task0/test\.csv: empty"),
    "not utf-8": ({"task1/train.csv": b"c,1\n\xff,1\n"}, r"task1/train\.csv, line 2: not UTF-8"),
    "too few columns": ({"task1/test.csv": "x,0,1\n"}, r"task1/test\.csv: 2 columns of labels, expected 3"),
    "an image of two tasks": (
        {"task1/train.csv": "a,1\n"},
        r"task1/train\.csv, line 1: a is a training image of",
    ),
    "trained and tested": (
        {"task1/test.csv": "x,0,1,1\na,1,0,0\n"},
        r"task1/test\.csv, line 2: a is a training",
    ),
    "not cumulative": (
        {"task1/test.csv": "y,0,0,1\n"},
        r"task0/test\.csv, line 1: x is not in .*task1/test\.csv",
    ),
    "labels that change": (
        {"task1/test.csv": "x,1,1,1\n"},
        r"task0/test\.csv, line 1: x has other labels at",
    ),
    "a row twice, other labels": (
        {"task1/test.csv": "x,0,1,1\nx,0,1,0\n"},
        r"task1/test\.csv, line 2: x has other labels than at .*line 1",
    ),
    "a task too many": ({"task3/train.csv": "e,1\n"}, r"Split\.zip: no task2/train\.csv in it"),
    "a tree twice": ({"copy/task0/train.csv": "a,1,0\n"}, r"a second task0/train\.csv"),
}


@pytest.mark.parametrize(("files", "message"), DAMAGED.values(), ids=DAMAGED)
def test_damaged(tmp_path: Path, files: dict[str, str | bytes], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(tmp_path, files)


def spoil(path: Path, how: Callable[[bytearray], Any]) -> None:
    data = bytearray(path.read_bytes())
    how(data)
    path.write_bytes(data)


def test_damaged_zips(tmp_path: Path) -> None:
    path = tmp_path / "broken.zip"
    for content in (b"", b"PK\3\4", b"<html>not found</html>"):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"broken\.zip: a damaged zip, or none"):
            read(tmp_path, annotations=str(path))
    write_zip(path, FILES)
    place = path.read_bytes().index(b"a,1,0")
    spoil(path, lambda data: data.__setitem__(slice(place, place + 5), b"a,1,1"))
    with pytest.raises(DataError, match=r"broken\.zip: a damaged zip.*CRC"):
        read(tmp_path, annotations=str(path))
    write_zip(path, {"docs/readme.txt": "nothing here"})
    with pytest.raises(DataError, match=r"no task0/train\.csv in it"):
        read(tmp_path, annotations=str(path))
    with pytest.raises(DataError, match="no such file"):
        read(tmp_path, annotations=str(tmp_path / "none.zip"))


def test_a_zip_that_would_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlcl.data.tasktree.MOST_BYTES", 10)
    with pytest.raises(DataError, match="would unpack to"):
        read(tmp_path)


def test_split_coco_with_its_annotation(tmp_path: Path) -> None:
    """Ten tasks of four; every image shows the first class of its task, and a person."""
    files, images, annotations = {}, [], []
    for task in range(10):
        own = [f"COCO_train2014_{task}{n}.jpg" for n in range(2)]
        files[f"task{task}/train.csv"] = "".join(f"{name},1,0,0,0\r\n" for name in own)
        seen = [["1" if column == 4 * t else "0" for column in range(4 * task + 4)] for t in range(task + 1)]
        test = [f"COCO_val2014_{t}.jpg,{','.join(marks)}\r\n" for t, marks in enumerate(seen)]
        files[f"task{task}/test.csv"] = "".join(test)
        for name in own:
            identity = len(images) + 1
            images.append({"id": identity, "file_name": name})
            annotations += [
                {"id": 2 * identity + c, "image_id": identity, "category_id": column + 1}
                for c, column in enumerate({0, 4 * task})
            ]
    categories = [{"id": n + 1, "name": name} for n, name in enumerate((*SPLIT_COCO, "zebra"))]
    tree = {"images": images, "categories": categories, "annotations": annotations}
    (tmp_path / "instances_train2014.json").write_text(json.dumps(tree))
    path = write_zip(tmp_path / "Split-COCO.zip", files)
    (tmp_path / "train2014").mkdir()
    kind = source("split-coco")
    settings = {"root": str(tmp_path), "annotations": str(path), "missing": "keep"}
    table = kind(kind.Config(**settings)).table()
    assert table.class_names == SPLIT_COCO
    assert table.widths == (4,) * 10
    assert (table.images.refs[0], table.images.refs[-1]) == (
        "train2014/COCO_train2014_00.jpg",
        "COCO_val2014_9.jpg",
    )
    for place in (tmp_path, tmp_path / "instances_train2014.json"):
        full = kind(kind.Config(**settings, full_labels=str(place))).table()
        stream = build(full, StreamConfig(scenario="cl"))
        assert np.flatnonzero(stream[9].train.y[0]).tolist() == [0, 36]
        assert stream[9].train.known.all()
