"""A folder tree of images: text files, metadata, folders as labels; and what does not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mlcl.data.source import source
from mlcl.data.table import LabelTable
from mlcl.errors import DataError


def grow(root: Path, files: dict[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return root


def read(root: Path, **settings: Any) -> LabelTable:
    kind = source("folder")
    return kind(kind.Config(root=str(root), **settings)).table()


def said(table: LabelTable) -> dict[str, str]:
    """What each image shows; a ? before what is unknown."""
    spelled = {1: "{}", 0: "", -1: "?{}"}
    return {
        ref: " ".join(
            word
            for name, mark in zip(table.class_names, row, strict=True)
            if (word := spelled[mark].format(name))
        )
        for ref, row in zip(table.refs, table.labels.tolist(), strict=True)
    }


WANTED = {"a.jpg": "cat dog", "sub/b.png": "dog"}

IMAGES = {"a.jpg": "", "sub/b.png": ""}
JSON_LINES = """{"file_name": "a.jpg", "labels": ["cat", "dog"]}
{"file_name": "sub/b.png", "labels": ["dog"]}"""

SAME: dict[str, dict[str, str | bytes]] = {
    "text beside each": {"a.txt": "cat\ndog\n", "sub/b.txt": "dog"},
    "text with the whole name": {"a.jpg.txt": "cat;dog", "sub/b.png.txt": "dog"},
    "text of windows": {"a.txt": b"\xef\xbb\xbfcat\r\n\r\n dog ", "sub/b.txt": "dog"},
    "what macOS leaves": {
        "a.txt": "cat;dog",
        "sub/b.txt": "dog",
        "._a.jpg": "",
        ".DS_Store": "",
        "__MACOSX/c.jpg": "",
        ".git/d.jpg": "",
    },
    "metadata.csv": {"metadata.csv": "file_name,labels\na.jpg,cat;dog\nsub/b.png,dog\n"},
    "metadata.csv, wide": {"metadata.csv": "file_name,cat,dog\na.jpg,1,1\nsub/b.png,0,1\n"},
    "metadata.jsonl": {"metadata.jsonl": JSON_LINES},
    "metadata in each folder": {
        "metadata.csv": "file_name,labels\na.jpg,cat;dog\n",
        "sub/metadata.csv": "file_name,labels\nb.png,dog\n",
    },
}


@pytest.mark.parametrize("files", SAME.values(), ids=SAME)
def test_forms(tmp_path: Path, files: dict[str, str | bytes]) -> None:
    assert said(read(grow(tmp_path, {**IMAGES, **files}))) == WANTED


def test_parts_by_folder(tmp_path: Path) -> None:
    files = {"train/a.jpg": "", "train/a.txt": "cat", "test/b.jpg": "", "test/b.txt": "cat"}
    table = read(grow(tmp_path, files))
    assert dict(zip(table.refs, table.test, strict=True)) == {"train/a.jpg": False, "test/b.jpg": True}
    (tmp_path / "metadata.csv").write_text("file_name,label\ntrain/a.jpg,cat\ntest/b.jpg,cat\n")
    assert read(tmp_path).test.tolist() == [False, True]
    (tmp_path / "metadata.csv").unlink()
    for part, name in (("train", "a"), ("test", "b")):
        (tmp_path / part / "metadata.csv").write_text(f"file_name,label\n{name}.jpg,cat\n")
    assert sorted(zip(read(tmp_path).refs, read(tmp_path).test, strict=True)) == [
        ("test/b.jpg", True),
        ("train/a.jpg", False),
    ]


def test_folders_as_labels(tmp_path: Path) -> None:
    root = grow(tmp_path, {"train/pet/cat/a.jpg": "", "train/pet/b.jpg": "", "test/cat/c.jpg": ""})
    table = read(root, labels="folders")
    assert said(table) == {
        "test/cat/c.jpg": "cat",
        "train/pet/b.jpg": "pet",
        "train/pet/cat/a.jpg": "cat pet",
    }


def test_unknown_and_empty(tmp_path: Path) -> None:
    files = {"a.jpg": "", "a.txt": "cat\n?dog", "b.jpg": "", "b.txt": "", "c.jpg": "", "c.txt": "dog"}
    assert said(read(grow(tmp_path, files))) == {"a.jpg": "cat ?dog", "b.jpg": "", "c.jpg": "dog"}


def test_images_without_a_label(tmp_path: Path) -> None:
    root = grow(tmp_path, {"a.jpg": "", "a.txt": "cat", "b.jpg": "", "README.txt": "of the data"})
    with pytest.raises(DataError, match=r"1 image without a text file: b\.jpg; label them"):
        read(root)
    table = read(root, unlabelled="drop")
    assert said(table) == {"a.jpg": "cat"}
    assert table.dropped == {"b.jpg": "without a text file"}
    assert "text files beside no image: README.txt" in table.notes
    assert said(read(root, unlabelled="empty")) == {"a.jpg": "cat", "b.jpg": ""}
    with pytest.raises(DataError, match="2 images without a folder of a label"):
        read(root, labels="folders")
    (root / "metadata.csv").write_text("file_name,label\na.jpg,cat\n")
    with pytest.raises(DataError, match=r"1 image without metadata: b\.jpg"):
        read(root)
    assert said(read(root, unlabelled="drop")) == {"a.jpg": "cat"}
    with pytest.raises(DataError, match="does not go with metadata"):
        read(root, unlabelled="empty")


def test_yolo(tmp_path: Path) -> None:
    root = grow(tmp_path, {"a.jpg": "", "a.txt": "1 0.5 0.5 0.1 0.1\n0 0.2 0.2 0.1 0.1\n"})
    with pytest.raises(DataError, match=r"a\.txt, line 1: a box as YOLO writes it.*data\.classes"):
        read(root)
    assert said(read(root, classes=("cat", "dog", "cow"))) == {"a.jpg": "cat dog"}


DAMAGED: dict[str, tuple[dict[str, str | bytes], str]] = {
    "no image": ({"a.txt": "cat"}, "no image in it"),
    "nothing but images": ({"cat/a.jpg": ""}, "neither a text file .*data.labels"),
    "one text, two images": ({"a.jpg": "", "a.png": "", "a.txt": "cat"}, r"a\.txt: beside two images"),
    "not utf-8": ({"a.jpg": "", "a.txt": b"cat\nh\xf6rse"}, r"a\.txt, line 2: not utf-8"),
    "binary": ({"a.jpg": "", "a.txt": b"\x89PNG\0\0"}, r"a\.txt: not a text file"),
    "texts without a label": ({"a.jpg": "", "a.txt": "\n"}, "not a single class"),
    "metadata of no file": (
        {"a.jpg": "", "metadata.csv": "file_name,label\na.jpg,cat\nb.jpg,cat\n"},
        r"metadata\.csv, line 3: no file for 1 of 2",
    ),
    "metadata out of the root": (
        {"a.jpg": "", "metadata.csv": "file_name,label\na.jpg,cat\n../b.jpg,cat\n"},
        r"metadata\.csv, line 3: .* leaves",
    ),
    "metadata cut short": (
        {"a.jpg": "", "metadata.jsonl": '{"file_name": "a.jpg", "labels": ["c'},
        r"metadata\.jsonl, line 1: not valid JSON",
    ),
}


@pytest.mark.parametrize(("files", "message"), DAMAGED.values(), ids=DAMAGED)
def test_damaged(tmp_path: Path, files: dict[str, str | bytes], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(grow(tmp_path, files))


def test_no_metadata(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no metadata\.csv"):
        read(grow(tmp_path, {"a.jpg": ""}), labels="metadata")


def test_links_to_folders(tmp_path: Path) -> None:
    far = grow(tmp_path / "far", {"a.jpg": "", "a.txt": "cat"})
    root = grow(tmp_path / "root", {"b.jpg": "", "b.txt": "dog"})
    (root / "link").symlink_to(far)
    (root / "circle").symlink_to(root)
    assert said(read(root)) == {"b.jpg": "dog"}
    assert said(read(root, outside=True)) == {"b.jpg": "dog", "link/a.jpg": "cat"}
