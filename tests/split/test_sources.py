"""A split file of every source of files: made, checked, and loaded as the stream that the source gives."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from PIL import Image

from mlcl import StreamConfig, build, source, sources, split
from mlcl.errors import DataError
from mlcl.types import Stream

LETTERS = "abcdefghijkl"  # twelve images; every third is for testing
CLASSES = ("cat", "dog", "car")
LABELS = {
    letter: [name for bit, name in enumerate(CLASSES) if (n % 7 + 1) >> bit & 1]
    for n, letter in enumerate(LETTERS)
}
TRAIN = [letter for n, letter in enumerate(LETTERS) if n % 3]
TEST = [letter for n, letter in enumerate(LETTERS) if not n % 3]


def picture(path: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    shade = np.random.default_rng(sum(map(ord, path.stem))).integers(0, 255, (9, 9, 3), dtype=np.uint8)
    Image.fromarray(shade).save(path)
    return path.name


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def coco(root: Path, year: str) -> dict[str, Any]:
    for part, letters in (("train", TRAIN), ("val", TEST)):
        images = [
            {"id": ord(letter), "file_name": picture(root / f"{part}{year}" / f"{letter}.jpg")}
            for letter in letters
        ]
        boxes = [(ord(letter), CLASSES.index(name)) for letter in letters for name in LABELS[letter]]
        annotations = [{"id": n, "image_id": i, "category_id": c} for n, (i, c) in enumerate(boxes)]
        categories = [{"id": n, "name": name} for n, name in enumerate(CLASSES)]
        tree = {"images": images, "annotations": annotations, "categories": categories}
        write(root / f"annotations/instances_{part}{year}.json", json.dumps(tree))
    return {}


def voc(root: Path) -> dict[str, Any]:
    for letter, names in LABELS.items():
        picture(root / f"JPEGImages/{letter}.jpg")
        objects = "".join(f"<object><name>{name}</name></object>" for name in names)
        write(root / f"Annotations/{letter}.xml", f"<annotation>{objects}</annotation>")
    for part, letters in (("trainval", TRAIN), ("test", TEST)):
        write(root / f"ImageSets/Main/{part}.txt", "\n".join(letters))
    return {}


def wide(root: Path) -> dict[str, Any]:
    for part, letters in (("Train", TRAIN), ("Test", TEST)):
        files = [f"dir\\{picture(root / f'Flickr/dir/{letter}.jpg')}" for letter in letters]
        write(root / f"ImageList/{part}Imagelist.txt", "\n".join(files))
        for name in CLASSES:
            marks = [str(int(name in LABELS[letter])) for letter in letters]
            write(root / f"Groundtruth/TrainTestLabels/Labels_{name}_{part}.txt", "\n".join(marks))
    write(root / "ConceptsList/Concepts81.txt", "\n".join(CLASSES))
    return {}


def authors(root: Path) -> dict[str, Any]:
    """Their own tasks, the first of one class and the second of two; their labels are IL's."""
    owner = {letter: 0 if "cat" in names and n % 2 else 1 for n, (letter, names) in enumerate(LABELS.items())}
    with zipfile.ZipFile(root / "Split.zip", "w") as archive:
        for task, names in enumerate((CLASSES[:1], CLASSES[1:])):
            for part, letters, columns in (("train", TRAIN, names), ("test", TEST, CLASSES[: 1 + 2 * task])):
                mine = [c for c in letters if (owner[c] == task if part == "train" else owner[c] <= task)]
                rows = [f"{c}," + ",".join(str(int(name in LABELS[c])) for name in columns) for c in mine]
                archive.writestr(f"Split-WIDE/task{task}/{part}.csv", "\n".join(rows))
    for letter in LETTERS:
        picture(root / f"in/{letter}.jpg")
    return {"annotations": str(root / "Split.zip"), "file_name": "in/{id}.jpg", "class_names": CLASSES}


def table(root: Path) -> dict[str, Any]:
    lines = [
        f"{picture(root / f'{c}.jpg')},{';'.join(LABELS[c])},{'test' if c in TEST else 'train'}"
        for c in LETTERS
    ]
    write(root / "labels.csv", "\n".join(["path,labels,split", *lines]))
    return {"annotations": str(root / "labels.csv")}


def folder(root: Path) -> dict[str, Any]:
    for part, letters in (("train", TRAIN), ("test", TEST)):
        for letter in letters:
            picture(root / f"{part}/{letter}.jpg")
            write(root / f"{part}/{letter}.txt", "\n".join(LABELS[letter]))
    return {}


TREES: dict[str, tuple[str, Callable[[Path], dict[str, Any]]]] = {
    "coco 2014": ("coco", lambda root: coco(root, "2014")),
    "coco 2017": ("coco", lambda root: coco(root, "2017")),
    "voc": ("voc", voc),
    "nus-wide": ("nus-wide", wide),
    "split-wide": ("split-wide", authors),
    "csv": ("csv", table),
    "folder": ("folder", folder),
}


def test_no_source_is_forgotten() -> None:
    shipped = {name: kind for name, kind in sources().items() if kind.__module__.startswith("mlcl.")}
    of_files = {name for name, kind in shipped.items() if hasattr(kind.Config(), "root")}
    assert {name for name, _ in TREES.values()} | {"split", "split-coco"} == of_files


def seen(stream: Stream, refs: Any) -> list[Any]:
    return [
        sorted(
            (str(refs[row]), np.where(known, y, 9).tolist())
            for row, y, known in zip(samples.rows, samples.y, samples.known, strict=True)
        )
        for task in stream
        for samples in (task.train, task.test)
    ]


@pytest.mark.parametrize(("name", "make"), TREES.values(), ids=TREES)
def test_every_source(tmp_path: Path, name: str, make: Callable[[Path], dict[str, Any]]) -> None:
    root = tmp_path / "set"
    root.mkdir()
    settings = {"root": str(root), **make(root)}
    stream = StreamConfig() if name == "split-wide" else StreamConfig(way=2)
    made = split.make(name, stream, **settings)
    made.write(tmp_path / "a.split")
    assert len(made) == len(LETTERS)
    assert not made.dropped
    assert sorted(made.class_names) == sorted(CLASSES)
    assert [finding for finding in split.audit(made, root) if finding.kind != "label"] == []
    kind = source(name)
    read = kind(kind.Config(**settings)).table()
    loaded = split.load(tmp_path / "a.split", root)
    assert seen(loaded, made.refs) == seen(build(read, stream), read.refs)
    direct = {ref: row for row, ref in enumerate(read.refs)}
    rows = [direct[ref] for ref in made.refs]
    pixels = loaded[0].train.images.load(range(len(made)))
    assert (pixels == read.images.load(rows)).all()  # the same file behind each name


@st.composite
def damage(draw: st.DrawFn, data: bytes) -> bytes:
    """Bytes changed, cut off, put in, or cut out."""
    a, b = sorted(draw(st.tuples(st.integers(0, len(data)), st.integers(0, len(data)))))
    more = draw(
        st.sampled_from([b",", b'"', b"\n", b"\t", b"{", b"]", b"0", b"-1", b"\0", b"\xff", b"../", b"<"])
    )
    return draw(
        st.sampled_from(
            [data[:a] + more + data[a + 1 :], data[:a], data[:a] + more + data[a:], data[:a] + data[b:]]
        )
    )


@pytest.mark.parametrize(("name", "make"), TREES.values(), ids=TREES)
def test_any_damage_to_label_files(tmp_path: Path, name: str, make: Callable[[Path], dict[str, Any]]) -> None:
    """It is a table still, or one line that says where to look; no other error gets out."""
    settings_of = {"root": str(tmp_path), **make(tmp_path)}
    labels = [
        path
        for path in sorted(tmp_path.rglob("*"))
        if path.suffix in (".json", ".csv", ".txt", ".xml", ".zip")
    ]
    kind = source(name)

    @given(st.data())
    @settings(max_examples=40, deadline=None)
    def damaged(data: st.DataObject) -> None:
        path = data.draw(st.sampled_from(labels))
        whole = path.read_bytes()
        path.write_bytes(data.draw(damage(whole)))
        try:
            kind(kind.Config(**settings_of)).table()
        except DataError as error:
            assert str(tmp_path) in str(error) or error.args[0].startswith(tmp_path.name)  # noqa: PT017
            assert "\n" not in str(error)  # noqa: PT017
        finally:
            path.write_bytes(whole)

    damaged()
