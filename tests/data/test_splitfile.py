"""A split file as a source: its tasks stand, its files are looked for, and paths are checked."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlcl.data.artefact import Split
from mlcl.data.source import source
from mlcl.data.table import LabelTable
from mlcl.errors import ConfigError, DataError
from mlcl.stream import NOWHERE, StreamConfig, build

SPLIT = Split(
    "toys",
    (("cat", "dog"), ("car",)),
    ["a.jpg", "b.jpg", "c.jpg", "d.jpg", "e.jpg", "f.jpg", "g.jpg"],
    ["a.jpg", "b.jpg", "in/c.jpg", "in/d.jpg", "in/e.jpg", "f.jpg", "g.jpg"],
    np.array([0, 0, 0, 1, 2, 1, 2], np.int8),
    np.array([0, 1, 1, 0, 0, 1, 1], np.int32),
    np.array([[1, 0, 0], [1, 0, 1], [0, 1, 1], [0, 1, -1], [0, 1, 0], [0, 0, 1], [0, 0, 1]], np.int8),
    {"z.jpg": "no such file"},
    ("an older note",),
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    SPLIT.write(tmp_path / "toys.split")
    for file in SPLIT.files:
        path = tmp_path / "images" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return tmp_path


def read(root: Path, **settings: Any) -> LabelTable:
    kind = source("split")
    given = {"file": str(root / "toys.split"), "root": str(root / "images"), **settings}
    return kind(kind.Config(**given)).table()


def fates(table: LabelTable) -> dict[str, tuple[str, int]]:
    stream = build(table, StreamConfig())
    return {
        table.refs[row]: (part, task.index)
        for task in reversed(stream)
        for part, samples in (("train", task.train), ("test", task.test))
        for row in samples.rows
    }


def test_the_tasks_stand(root: Path) -> None:
    table = read(root)
    assert (table.name, table.class_names, table.widths) == ("toys", ("cat", "dog", "car"), (2, 1))
    assert table.labels.tolist() == SPLIT.labels.tolist()
    assert table.notes == ("an older note",)
    assert table.dropped == {"z.jpg": "no such file"}
    assert fates(table) == {
        "a.jpg": ("train", 0), "b.jpg": ("train", 1), "c.jpg": ("train", 1), "e.jpg": ("test", 0),
        "g.jpg": ("test", 1),
    }  # fmt: skip


def test_tested_on_the_validation_part(root: Path) -> None:
    """The test images are then neither learnt nor tested on, nor counted, nor dealt anew."""
    table = read(root, test_on="validation")
    chosen = fates(table)
    assert {ref for ref, (part, _) in chosen.items() if part == "test"} == {"d.jpg", "f.jpg"}
    assert {ref for ref, (part, _) in chosen.items() if part == "train"} == {"a.jpg", "b.jpg", "c.jpg"}
    assert table.positives().tolist() == [2, 1, 2]
    for part in ("test", "validation"):
        table = read(root, test_on=part)
        anew = build(table, StreamConfig(split="deal", way=2))
        used = {table.refs[row] for task in anew for s in (task.train, task.test) for row in s.rows}
        assert used == {"a.jpg", "b.jpg", "c.jpg"} | (
            {"e.jpg", "g.jpg"} if part == "test" else {"d.jpg", "f.jpg"}
        )


def test_the_same_cache_serves_both_parts(root: Path) -> None:
    assert list(read(root).refs) == list(read(root, test_on="validation").refs) == list(SPLIT.refs)


def test_a_part_that_is_not_there(root: Path) -> None:
    dataclasses.replace(SPLIT, part=np.where(SPLIT.part == 1, 0, SPLIT.part).astype(np.int8)).write(
        root / "toys.split"
    )
    with pytest.raises(DataError, match=r"toys\.split: no validation images; data\.test_on may be: test"):
        read(root, test_on="validation")


def test_missing_images(root: Path) -> None:
    (root / "images/in/c.jpg").unlink()
    with pytest.raises(DataError, match=r"toys\.split, c\.jpg: no file for 1 of 7 images under .*: c\.jpg"):
        read(root)
    table = read(root, missing="drop")
    assert fates(table)["b.jpg"] == ("train", 1)
    assert "c.jpg" not in table.refs
    assert table.dropped == {"c.jpg": "no such file", "z.jpg": "no such file"}
    assert (table.owner != NOWHERE).tolist() == [True, True, False, True, False, True]
    assert len(read(root, missing="keep")) == 7


def test_all_images_in_one_folder(root: Path) -> None:
    for letter in "cde":
        (root / f"images/in/{letter}.jpg").rename(root / f"images/{letter}.jpg")
    with pytest.raises(DataError, match="no file for 3 of 7 images"):
        read(root)
    table = read(root, flat=True)
    assert table.images.refs == list(SPLIT.refs)  # type: ignore[attr-defined]
    assert fates(table) == fates(read(root, missing="keep"))


@pytest.mark.parametrize("path", ["../a.jpg", "/etc/passwd", "in/../../a.jpg", "C:\\a.jpg"])
def test_paths_do_not_climb_out(root: Path, path: str) -> None:
    dataclasses.replace(SPLIT, files=[path, *SPLIT.files[1:]]).write(root / "toys.split")
    for missing in ("error", "keep"):
        with pytest.raises(
            DataError, match=r"toys\.split, a\.jpg: .* leaves the image folder .*outside = true"
        ):
            read(root, missing=missing)
    assert len(read(root, missing="keep", outside=True)) == 7


def test_links_do_not_lead_out(root: Path) -> None:
    (root / "far.jpg").touch()
    (root / "images/a.jpg").unlink()
    (root / "images/a.jpg").symlink_to(root / "far.jpg")
    with pytest.raises(DataError, match=r"a\.jpg: .*link that leaves"):
        read(root)
    assert len(read(root, outside=True)) == 7


def test_settings(root: Path) -> None:
    with pytest.raises(ConfigError, match=r"data\.file: say which split"):
        read(root, file="")
    kind = source("split")
    homeless = kind(kind.Config(file=str(root / "toys.split")))
    with pytest.raises(ConfigError, match=r"data\.root: say which folder"):
        homeless.table()
    with pytest.raises(ConfigError, match=r"stream\.way: toys comes with its own tasks"):
        build(read(root), StreamConfig(way=1))
