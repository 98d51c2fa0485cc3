"""One's own tables: every dialect reads the same, and every damage is named with its file and line."""

from __future__ import annotations

import csv
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlcl.data.source import source
from mlcl.data.table import LabelTable
from mlcl.errors import ConfigError, DataError, MissingExtra, MLCLError


def read(path: Path, content: str | bytes | None = None, **changes: Any) -> LabelTable:
    if content is not None:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    kind = source("csv")
    return kind(kind.Config(**{"missing": "keep", "annotations": str(path), **changes})).table()


def marks(table: LabelTable) -> dict[str, dict[str, int]]:
    return {
        ref: dict(zip(table.class_names, map(int, row), strict=True))
        for ref, row in zip(table.refs, table.labels, strict=True)
    }


WANTED = {"a.jpg": {"cat": 1, "dog": 0}, "b.jpg": {"cat": 0, "dog": 1}}
WIDE = "path,cat,dog\na.jpg,1,0\nb.jpg,0,1\n"
LONG = "path,label\na.jpg,cat\nb.jpg,dog\n"

SAME = {
    "plain": WIDE,
    "windows line ends": WIDE.replace("\n", "\r\n"),
    "old mac line ends": WIDE.replace("\n", "\r"),
    "no end of the last line": WIDE.rstrip(),
    "blank lines": WIDE.replace("\n", "\n\n") + "\n\n",
    "lines of separators alone": WIDE + ",,\n",
    "byte order mark": b"\xef\xbb\xbf" + WIDE.encode(),
    "utf-16 as Excel writes it": WIDE.replace(",", "\t").encode("utf-16"),
    "semicolons": WIDE.replace(",", ";"),
    "tabs": WIDE.replace(",", "\t"),
    "bars": WIDE.replace(",", "|"),
    "a hint to Excel": "sep=;\n" + WIDE.replace(",", ";"),
    "quoted": '"path","cat","dog"\n"a.jpg","1","0"\n"b.jpg","0","1"\n',
    "spaces": "path , cat , dog\n a.jpg , 1 , 0\n b.jpg , 0 , 1\n",
    "words": "path,cat,dog\na.jpg,yes,NO\nb.jpg,False,true\n",
    "letters": "path,cat,dog\na.jpg,x,n\nb.jpg,F,T\n",
    "decimals": "path,cat,dog\na.jpg,1.0,0.0\nb.jpg,0.0,1.0\n",
    "the path last": "cat,dog,path\n1,0,a.jpg\n0,1,b.jpg\n",
    "an index as pandas writes it": ",path,cat,dog\n0,a.jpg,1,0\n1,b.jpg,0,1\n",
    "a separator at each line's end": "path,cat,dog,\na.jpg,1,0,\nb.jpg,0,1,\n",
    "more separators below": "path,cat,dog\na.jpg,1,0,,\nb.jpg,0,1\n",
    "windows paths": WIDE.replace("a.jpg", ".\\a.jpg"),
    "the first column by any name": WIDE.replace("path", "photograph"),
    "a row twice": WIDE + "a.jpg,1,0\n",
    "long": LONG,
    "long, the last label absent": "path,label,value\na.jpg,cat,1\na.jpg,dog,0\nb.jpg,dog,1\n",
    "long, other names": "ImageID,LabelName,Confidence\na.jpg,cat,1\nb.jpg,dog,1\nb.jpg,cat,0\n",
    "long, no header": "a.jpg,cat\nb.jpg,dog\n",
    "long, a label twice": LONG + "a.jpg,cat\n",
    "long, lists": 'path,labels\na.jpg,[\'cat\']\nb.jpg,"[""dog""]"\n',
    "long, other columns": "path,label,width\na.jpg,cat,640\nb.jpg,dog,480\n",
    "long, a semicolon after all": "path,label\na.jpg,cat;\nb.jpg,;dog\n",
}


@pytest.mark.parametrize("content", SAME.values(), ids=SAME)
def test_odd_but_clear(tmp_path: Path, content: str | bytes) -> None:
    assert marks(read(tmp_path / "labels.csv", content)) == WANTED


def test_no_header_wide(tmp_path: Path) -> None:
    table = read(tmp_path / "labels.txt", "a.jpg 1 0\nb.jpg 0 1\n", separator=" ", classes=("cat", "dog"))
    assert marks(table) == WANTED
    numbers = read(tmp_path / "l.csv", "7,1,0\n9,0,1\n", header="no", classes=("cat", "dog"))
    assert list(numbers.refs) == ["7", "9"]


def test_blank_is_unknown(tmp_path: Path) -> None:
    table = read(tmp_path / "labels.csv", "path,cat,dog\na.jpg,1,\nb.jpg,,?\nc.jpg,-1,nan\n")
    assert table.labels.tolist() == [[1, -1], [-1, -1], [-1, -1]]


def test_cells_that_add_up_to_one_byte_each(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="'10'"):
        read(tmp_path / "labels.csv", "path,cat,dog\na.jpg,10,\n")


def test_several_labels_in_a_cell(tmp_path: Path) -> None:
    content = 'path,labels\na.jpg,cat; dog\nb.jpg,"cat,dog"\nc.jpg,cat|?dog\nd.jpg,\n'
    table = read(tmp_path / "labels.csv", content)
    assert table.labels.tolist() == [[1, 1], [1, 1], [1, -1], [0, 0]]
    named = read(tmp_path / "l.csv", 'path,labels\na.jpg,"salt, pepper;oil"\n', label_separator=";")
    assert named.class_names == ("oil", "salt, pepper")


def test_unlisted_unknown(tmp_path: Path) -> None:
    content = "path,label,value\na.jpg,cat,1\nb.jpg,dog,0\nb.jpg,bird,\n"
    table = read(tmp_path / "labels.csv", content, unlisted="unknown")
    assert table.class_names == ("bird", "cat", "dog")
    assert table.labels.tolist() == [[-1, 1, -1], [-1, -1, 0]]


def test_order_of_rows_is_none_of_the_classes_business(tmp_path: Path) -> None:
    one = read(tmp_path / "one.csv", LONG)
    other = read(tmp_path / "other.csv", "path,label\nb.jpg,dog\na.jpg,cat\n")
    assert one.class_names == other.class_names
    assert marks(one) == marks(other)


def test_given_classes(tmp_path: Path) -> None:
    table = read(tmp_path / "wide.csv", WIDE, classes=("dog",))
    assert marks(table) == {"a.jpg": {"dog": 0}, "b.jpg": {"dog": 1}}
    assert "columns not used: cat" in table.notes[0]
    numbered = read(tmp_path / "long.csv", "path,label\na.jpg,1\nb.jpg,0;1\n", classes=("dog", "cat"))
    assert numbered.labels.tolist() == [[0, 1], [1, 1]]


def test_lookalikes_are_noted(tmp_path: Path) -> None:
    table = read(tmp_path / "labels.csv", "path,label\na.jpg,cat\nb.jpg,Cat\n")
    assert any("'Cat', 'cat'" in note for note in table.notes)


def test_splits(tmp_path: Path) -> None:
    content = "path,label,split\na.jpg,cat,train\nb.jpg,cat,Test\nc.jpg,cat,val\n"
    table = read(tmp_path / "labels.csv", content)
    assert table.test.tolist() == [False, True, False]
    assert "1 image marked as validation: trained on" in table.notes[0]
    table = read(tmp_path / "labels.csv", content.replace("Test", "train"))
    assert table.test.tolist() == [False, False, True]


def test_a_second_file_for_testing(tmp_path: Path) -> None:
    (tmp_path / "test.csv").write_text("path,dog,cat\nc.jpg,1,0\n")
    table = read(tmp_path / "train.csv", WIDE, test_annotations=str(tmp_path / "test.csv"))
    assert table.test.tolist() == [False, False, True]
    assert marks(table)["c.jpg"] == {"cat": 0, "dog": 1}


def test_share_by_hash(tmp_path: Path) -> None:
    names = [f"{n}.jpg" for n in range(2000)]
    table = read(tmp_path / "all.csv", "path,label\n" + "".join(f"{name},cat\n" for name in names))
    assert 0.17 < table.test.mean() < 0.23
    fewer = read(tmp_path / "odd.csv", "path,label\n" + "".join(f"{name},cat\n" for name in names[1::2]))
    assert fewer.test.tolist() == table.test[1::2].tolist()  # whatever else is in the file


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(st.sampled_from((1, 0, -1)), min_size=3, max_size=3), min_size=1, max_size=6),
    st.lists(
        st.text(st.characters(exclude_categories=("C", "Z")), min_size=1), min_size=3, max_size=3, unique=True
    ),
    st.sampled_from(",;\t|"),
    st.sampled_from(("utf-8", "utf-8-sig", "utf-16")),
)
def test_what_a_spreadsheet_writes_is_read(
    labels: list[list[int]], names: list[str], separator: str, encoding: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "labels.csv"
        with path.open("w", encoding=encoding, newline="") as file:
            writer = csv.writer(file, delimiter=separator)
            writer.writerow(["path", *(f"class {name}" for name in names)])
            for n, row in enumerate(labels):
                writer.writerow([f"{n}; of many, .jpg", *("" if mark < 0 else mark for mark in row)])
        table = read(path)
    assert table.class_names == tuple(f"class {name}" for name in names)
    assert table.labels.tolist() == labels


def test_many_rows(tmp_path: Path) -> None:
    chance = np.random.default_rng(0)
    labels = (chance.random((1000, 80)) < 0.1).astype(int)
    lines = [f"{n}.jpg," + ",".join(map(str, row)) for n, row in enumerate(labels)]
    table = read(tmp_path / "l.csv", "path," + ",".join(f"c{c}" for c in range(80)) + "\n" + "\n".join(lines))
    assert (table.labels == labels).all()


DAMAGED: dict[str, tuple[str | bytes, str]] = {
    "nothing": ("", r"labels\.csv: empty"),
    "blank lines alone": ("\n\n\n", r"labels\.csv: empty"),
    "a header alone": ("path,cat\n", "not a single image"),
    "a header of one column": ("path\na.jpg\n", "neither a column of labels nor one column a class"),
    "cut short": (
        "path,cat,dog\na.jpg,1,0\nb.jpg,0",
        r"labels\.csv, line 3: 2 cells, but the first line has 3",
    ),
    "a cell too many": ("path,cat\na.jpg,1\nb.jpg,1,0\n", "line 3: 3 cells"),
    "a comma in a path": ("path,cat\na, or b.jpg,1\n", "line 2: 3 cells"),
    "a quote never closed": ('path,label\na.jpg,"cat\nb.jpg,dog\n', "line 2: a quote .* never closed"),
    "text after a quote": ('path,label\na.jpg,"cat"s\n', "line 2: ',' expected after"),
    "no path": ("path,cat\na.jpg,1\n,1\n", "line 3: no path"),
    "a number as a mark": ("path,cat\na.jpg,1\nb.jpg,7\n", "line 3: column 'cat' has '7'"),
    "a share as a mark": ("path,cat\na.jpg,0.7\n", "line 2: column 'cat' has '0.7'"),
    "a word as a mark": ("path,cat,dog\na.jpg,maybe,1\n", "line 2: column 'cat' has 'maybe'"),
    "a column that is no class": ("path,width,cat\na.jpg,640,1\n", r"data\.ignore = \['width'\]"),
    "two columns of a name": ("path,cat,cat\na.jpg,1,0\n", "two columns are called 'cat'"),
    "a column without a name": ("path,cat,,dog\na.jpg,1,1,0\n", "column 3 has no name"),
    "no header, marks": ("a.jpg,1,0\n", r"no header and 2 columns of marks; .*data\.classes"),
    "no header, what is it": ("a.jpg,cat,dog,bird\n", "no header, and 4 columns"),
    "no column of paths": (",cat,dog\n0,1,0\n", "no column is called path"),
    "not utf-8": ("path,label\na.jpg,cat\nb.jpg,h\xf6rse\n".encode("latin-1"), "line 3: not utf-8"),
    "half a utf-16": (WIDE.encode("utf-16")[:-1], "not utf-16"),
    "utf-16 without its mark": (WIDE.encode("utf-16-le"), "NUL bytes"),
    "a workbook": (b"PK\x03\x04\x14\x00", "Excel workbook"),
    "binary": (bytes(range(256)), "NUL bytes"),
    "other labels twice": (WIDE + "a.jpg,1,1\n", r"line 4: a\.jpg has other labels than at .*line 2"),
    "train and test": (
        "path,cat,split\na.jpg,1,train\na.jpg,1,test\n",
        r"line 3: a\.jpg is for training and for testing \(see .*line 2\)",
    ),
    "train and test, long": (
        "path,label,split\na.jpg,cat,train\na.jpg,dog,test\n",
        r"line 3: a\.jpg is for training and for testing \(see .*line 2\)",
    ),
    "an unknown part": (
        "path,cat,split\na.jpg,1,trian\n",
        "line 2: part of the data 'trian'; did you mean 'train'",
    ),
    "a blank part": ("path,cat,split\na.jpg,1,\n", "line 2: part of the data ''"),
    "there and not there": (
        "path,label,value\na.jpg,cat,1\na.jpg,cat,0\n",
        r"line 2: a\.jpg is said to show 'cat' and not to show it",
    ),
    "a broken list": ('path,labels\na.jpg,"[\'cat\', \'dog""]"\n', "line 2: not a list of labels"),
    "a label without a name": ("path,labels\na.jpg,?\n", "line 2: a label without a name"),
    "out of the root": ("path,cat\n../a.jpg,1\n", r"labels\.csv, line 2: '\.\./a\.jpg' leaves"),
    "out of the root by Windows": ("path,cat\n..\\a.jpg,1\n", "line 2: .* leaves"),
    "an absolute path": ("path,cat\n/etc/a.jpg,1\n", "line 2: .* leaves"),
    "an absolute path of Windows": ("path,cat\nC:\\a.jpg,1\n", "line 2: .* leaves"),
    "an address": ("path,cat\nhttps://host/a.jpg,1\n", "line 2: .* is an address"),
    "a path with NUL": (b"path,cat\n" + b"x" * 5000 + b"\0.jpg,1\n", "line 2: .* no file name"),
    "all images without a label": ("path,label\na.jpg,\n", "not a single class"),
}


@pytest.mark.parametrize(("content", "message"), DAMAGED.values(), ids=DAMAGED)
def test_damaged(tmp_path: Path, content: str | bytes, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read(tmp_path / "labels.csv", content)
    assert "labels" in str(caught.value)
    assert "\n" not in str(caught.value)


JSON_LINES = {
    "not json": ('{"file_name": "a.jpg", "labels": ["cat"]}\n{"file_name"', "line 2: not valid JSON"),
    "not an object": ('["a.jpg"]\n', "line 1: expected an object"),
    "nothing": ("\n", "empty"),
    "no path": ('{"file_name": null, "labels": ["cat"]}\n', "line 1: no path"),
    "a list as a path": ('{"file_name": ["a.jpg"], "labels": ["cat"]}\n', "line 1: no path"),
    "a list as a mark": ('{"file_name": "a.jpg", "cat": [1]}\n', "line 1: column 'cat' has"),
}


@pytest.mark.parametrize(("content", "message"), JSON_LINES.values(), ids=JSON_LINES)
def test_damaged_json_lines(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read(tmp_path / "labels.jsonl", content)
    assert "labels.jsonl" in str(caught.value)


def test_json_lines(tmp_path: Path) -> None:
    rows = [{"file_name": "a.jpg", "labels": ["cat"]}, {"file_name": "b.jpg", "labels": ["dog"], "id": 3}]
    assert marks(read(tmp_path / "l.jsonl", "\n".join(map(json.dumps, rows)))) == WANTED
    wide = '{"file_name": "a.jpg", "cat": true, "dog": 0}\n{"file_name": "b.jpg", "cat": false, "dog": 1}\n'
    assert marks(read(tmp_path / "w.jsonl", wide)) == WANTED


def test_parquet(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "labels.parquet"
    columns = {"path": ["a.jpg", "b.jpg"], "cat": [True, False], "dog": [0.0, 1.0]}
    parquet.write_table(pyarrow.table(columns), path)
    assert marks(read(path)) == WANTED
    parquet.write_table(pyarrow.table({"path": ["a.jpg", "b.jpg"], "labels": [["cat"], ["dog"]]}), path)
    assert marks(read(path)) == WANTED
    parquet.write_table(pyarrow.table({**columns, "cat": [1, 7]}), path)
    with pytest.raises(DataError, match=r"labels\.parquet, row 2: column 'cat' has '7'"):
        read(path)
    with pytest.raises(DataError, match="not a Parquet file"):
        read(path, "path,cat\n")


def test_parquet_without_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match=r"mlcl\[parquet\]"):
        read(tmp_path / "labels.parquet", "")


SETTINGS: dict[str, tuple[dict[str, Any], str]] = {
    "no file named": ({"annotations": ""}, "data.annotations: say which file"),
    "no such file": ({"annotations": "none.csv"}, "none.csv: no such file"),
    "no such root": ({"root": "nowhere"}, "nowhere: no such folder"),
    "no such column": ({"path_column": "pth"}, "no column 'pth' .*did you mean 'path'"),
    "no such class": ({"classes": ("cta",)}, "no column 'cta'; did you mean 'cat'"),
    "nothing to ignore": ({"ignore": ("cow",)}, "no column 'cow'"),
    "two characters": ({"separator": ";;"}, "data.separator"),
    "no such encoding": ({"encoding": "utf-7000"}, "data.encoding"),
    "no column of labels": ({"form": "long"}, "no column of labels"),
    "two forms": ({"test_annotations": "long.csv"}, "in long form"),
    "other classes": ({"test_annotations": "other.csv"}, "not the classes of .*: bird, dog"),
}


@pytest.mark.parametrize(("changes", "message"), SETTINGS.values(), ids=SETTINGS)
def test_wrong_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("long.csv").write_text(LONG)
    Path("other.csv").write_text("path,cat,bird\nc.jpg,1,0\n")
    with pytest.raises(MLCLError, match=message):
        read(tmp_path / "labels.csv", WIDE, **changes)


def test_settings_out_of_range() -> None:
    for wrong in ({"size": 0}, {"test_share": 1.0}):
        with pytest.raises(ConfigError, match=next(iter(wrong))):
            source("csv").Config(**wrong)


def test_label_outside_the_given_classes(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"line 2: no class 'cat' .*did you mean 'cats'"):
        read(tmp_path / "labels.csv", LONG, classes=("cats", "dogs"))


def test_missing_files(tmp_path: Path) -> None:
    (tmp_path / "b.jpg").write_bytes(b"")
    with pytest.raises(DataError, match=r"labels\.csv, line 2: no file for 1 of 2 images .*: a\.jpg"):
        read(tmp_path / "labels.csv", WIDE, missing="error")
    table = read(tmp_path / "labels.csv", missing="drop")
    assert list(table.refs) == ["b.jpg"]
    assert table.dropped == {"a.jpg": "no such file"}
    assert "1 image without a file left out: a.jpg" in table.notes


def test_links(tmp_path: Path) -> None:
    (tmp_path / "far.jpg").write_bytes(b"")
    root = tmp_path / "root"
    root.mkdir()
    (root / "a.jpg").symlink_to(tmp_path / "far.jpg")
    (root / "b.jpg").write_bytes(b"")
    for missing in ("error", "keep"):
        with pytest.raises(DataError, match=r"line 2: .*link that leaves .*outside = true"):
            read(root / "labels.csv", WIDE, missing=missing)
    assert len(read(root / "labels.csv", missing="error", outside=True)) == 2
    assert len(read(root / "up.csv", "path,cat\n../far.jpg,1\n", missing="error", outside=True)) == 1
