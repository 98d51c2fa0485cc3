"""From a source to a split and back: the same stream, whoever made it and wherever the images lie."""

from __future__ import annotations

import csv
import dataclasses
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from PIL import Image

from mlcl import StreamConfig, build, source, split
from mlcl.errors import ConfigError, DataError
from mlcl.types import Stream

CLASSES = ("cat", "dog", "car", "bus", "bird", "boat")


def write(root: Path, seed: int = 0, count: int = 120, images: bool = False, shuffle: int = 0) -> Path:
    """A wide table of random labels, some of them unknown; a fifth of the images are for testing."""
    chance = np.random.default_rng(seed)
    labels = (chance.random((count, len(CLASSES))) < np.linspace(0.5, 0.15, len(CLASSES))).astype(int)
    labels[chance.random(labels.shape) < 0.05] = -1
    rows = [
        [f"in/{n:04}.png", "test" if n % 5 == 0 else "train", *("" if mark < 0 else mark for mark in row)]
        for n, row in enumerate(labels)
    ]
    if shuffle:
        rows = [rows[n] for n in np.random.default_rng(shuffle).permutation(count)]
    (root / "in").mkdir(parents=True, exist_ok=True)
    for n in range(count if images else 0):
        Image.new("RGB", (8, 8), (n % 256, n // 2 % 256, 99)).save(root / f"in/{n:04}.png")
    with (root / "labels.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["path", "split", *CLASSES], *rows])
    return root / "labels.csv"


def made(path: Path, **stream: Any) -> split.Split:
    config = StreamConfig(**{"way": 2, **stream})
    return split.make("csv", config, annotations=str(path), missing="keep")


def seen(stream: Stream, refs: Any) -> list[Any]:
    """All that a learner can see of it, whatever the order of rows."""
    return [
        (task.names, part, sorted(
            (refs[row], y[known].tolist(), known.tolist())
            for row, y, known in zip(samples.rows, samples.y, samples.known, strict=True)
        ))
        for task in stream
        for part, samples in (("train", task.train), ("test", task.test))
    ]  # fmt: skip


STREAMS: dict[str, dict[str, Any]] = {
    "plain": {},
    "uneven": {"widths": (3, 1, 2)},
    "frequent ones": {"top": 4, "order": "frequency"},
    "random order": {"order": "random", "seed": 3},
    "limited": {"limit": 40, "way": 3},
    "held out": {"validation": 0.25, "way": 3},
}


@pytest.mark.parametrize("scenario", ["il", "cl"])
@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS)
def test_the_same_stream_as_without_a_file(tmp_path: Path, stream: dict[str, Any], scenario: Any) -> None:
    path = write(tmp_path)
    made(path, **stream).write(tmp_path / "a.split")
    masks = {"scenario": scenario, "partial": 0.7, "seed": stream.get("seed", 0)}
    kind = source("csv")
    table = kind(kind.Config(annotations=str(path), missing="keep")).table()
    direct = build(table, StreamConfig(**{"way": 2, **stream, **masks}))
    data = {"missing": "keep", "test_on": "validation" if "validation" in stream else "test"}
    loaded = split.load(tmp_path / "a.split", tmp_path, data=data, **masks)
    assert seen(loaded, split.read(tmp_path / "a.split").refs) == seen(direct, table.refs)


def test_validation_leaves_the_test_images_as_they_are(tmp_path: Path) -> None:
    path = write(tmp_path)
    held, plain = made(path, validation=0.25), made(path)
    mine = {r: t for r, t, p in zip(held.refs, held.task, held.part, strict=True) if p == 2}
    theirs = {r: t for r, t, p in zip(plain.refs, plain.task, plain.part, strict=True) if p == 2}
    assert mine == theirs
    assert 18 < (held.part == 1).sum() <= 24  # a quarter, less what shows no class


@given(st.integers(0, 10**6), st.integers(1, 10**6), st.sampled_from(list(STREAMS.values())))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_disjoint_complete_deterministic_and_without_an_order(
    tmp_path: Path, seed: int, shuffle: int, stream: dict[str, Any]
) -> None:
    """Of every image that the table has: it is placed once, or it is said why not."""
    one = made(write(tmp_path, seed, 60), **stream)
    other = made(write(tmp_path, seed, 60, shuffle=shuffle), **stream)
    assert one.text() == other.text()
    kind = source("csv")
    table = kind(kind.Config(annotations=str(tmp_path / "labels.csv"), missing="keep")).table()
    assert sorted([*one.refs, *one.dropped]) == sorted(table.refs)
    labels = dict(zip(table.refs, table.columns(one.class_names).labels.tolist(), strict=True))
    edges = one.edges
    for ref, task, mine in zip(one.refs, one.task, one.labels.tolist(), strict=True):
        assert mine == labels[ref]
        assert 1 in mine[edges[task] : edges[task + 1]]
    for ref, why in one.dropped.items():
        assert why == ("left out by stream.limit" if 1 in labels[ref] else "shows no class of the stream")


def test_it_goes_where_the_images_go(tmp_path: Path) -> None:
    """Made here, committed, and loaded there: under another root, from another folder."""
    made(write(tmp_path / "here", images=True)).write(tmp_path / "repo" / "toys.split")
    shutil.move(tmp_path / "here" / "in", tmp_path / "there" / "in")
    shutil.rmtree(tmp_path / "here")
    stream = split.load(tmp_path / "repo" / "toys.split", tmp_path / "there", data={"size": 8})
    row = int(stream[0].train.rows[0])
    number = int(split.read(tmp_path / "repo" / "toys.split").refs[row][3:7])
    colour = torch.tensor([number, number // 2, 99], dtype=torch.uint8)
    assert (stream[0].train.batch([0]).x[0] == colour[:, None, None]).all()


def test_the_same_bytes_wherever_it_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing of the place where it was."""
    first = made(write(tmp_path / "alice" / "private"))
    second = made(write(tmp_path / "bob"))
    monkeypatch.chdir(tmp_path / "bob")
    assert first.text() == second.text() == made(Path("labels.csv")).text()
    assert str(tmp_path) not in first.text()
    assert "alice" not in first.text()
    assert first.made["data.annotations"] == "labels.csv"
    assert first.made["stream.way"] == "2"
    assert "stream.scenario" not in first.made


def test_notes_and_dropped_images_are_kept(tmp_path: Path) -> None:
    path = write(tmp_path, images=True)
    (tmp_path / "in/0003.png").unlink()
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines, lines[2]]))  # a row again
    kept = split.make("csv", StreamConfig(way=2), annotations=str(path), missing="drop")
    assert kept.dropped["in/0003.png"] == "no such file"
    assert any("repeated row" in note for note in kept.notes)
    assert "in/0003.png" not in kept.refs


def test_the_source_keeps_its_own_tasks(tmp_path: Path) -> None:
    """A split of a split is that split; so the authors' tasks can be written down as well."""
    first = made(write(tmp_path), validation=0.2)
    first.write(tmp_path / "a.split")
    settings = {"file": str(tmp_path / "a.split"), "root": str(tmp_path), "missing": "keep"}
    again = split.make("split", **settings)
    tested = first.part != 1
    assert list(again.refs) == [ref for ref, used in zip(first.refs, tested, strict=True) if used]
    assert again.task.tolist() == first.task[tested].tolist()
    assert again.tasks == first.tasks
    held = [ref for ref, used in zip(first.refs, tested, strict=True) if not used]
    assert {again.dropped[ref] for ref in held} == {"in no task of the source's own split"}


def test_three_lines_of_python(tmp_path: Path) -> None:
    path = write(tmp_path, images=True)
    split.make("csv", StreamConfig(way=3), annotations=str(path)).write(tmp_path / "toys.split")
    stream = split.load(tmp_path / "toys.split", tmp_path, scenario="cl")
    assert [task.names for task in stream] == [CLASSES[:3], CLASSES[3:]]


# ---- refused


def test_drawn_images_have_no_files() -> None:
    with pytest.raises(DataError, match="scenes: its images are no files of their own"):
        split.make("scenes", train=8, test=4)


def test_a_task_without_images(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("path,cat,dog,split\na.jpg,1,0,train\nb.jpg,0,1,test\n")
    with pytest.raises(DataError, match=r"labels: task 2 \(dog\) has no training image"):
        made(path, way=1)
    path.write_text("path,cat,dog,split\na.jpg,1,0,train\nb.jpg,0,1,test\nc.jpg,0,1,train\n")
    with pytest.raises(DataError, match=r"labels: task 1 \(cat\) has no test image"):
        made(path, way=1)


def test_a_path_that_is_right_in_one_place_only(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("path,cat,split\na.jpg,1,train\n/home/me/b.jpg,1,test\n")
    with pytest.raises(DataError, match=r"csv: /home/me/b\.jpg is an absolute path, .* data\.root"):
        split.make("csv", annotations=str(path), missing="keep", outside=True)


def test_cl_of_a_split_that_knows_only_its_own(tmp_path: Path) -> None:
    """A split of the authors' files has IL's labels, and says so instead of passing them for CL's."""
    made(write(tmp_path)).write(tmp_path / "a.split")
    known = split.read(tmp_path / "a.split")
    labels = known.labels.copy()
    for task, (a, b) in enumerate(pairwise(known.edges)):
        mine = (known.task == task) & (known.part == 0)
        labels[np.ix_(mine, np.r_[0:a, b : labels.shape[1]])] = -1
    dataclasses.replace(known, labels=labels).write(tmp_path / "a.split")
    assert len(split.load(tmp_path / "a.split", tmp_path, data={"missing": "keep"})) == 3
    with pytest.raises(DataError, match=r"scenario cl, but nothing is known of earlier classes in task 2"):
        split.load(tmp_path / "a.split", tmp_path, data={"missing": "keep"}, scenario="cl")


def test_wrong_settings(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"data\.anotations: unknown key; did you mean 'annotations'"):
        split.make("csv", anotations="labels.csv")
    with pytest.raises(ConfigError, match="no data source 'cvs'; did you mean 'csv'"):
        split.make("cvs")
    made(write(tmp_path)).write(tmp_path / "a.split")
    with pytest.raises(ConfigError, match=r"stream\.scenari: unknown key"):
        split.load(tmp_path / "a.split", tmp_path, data={"missing": "keep"}, scenari="cl")
    with pytest.raises(ConfigError, match=r"data\.falt: unknown key; did you mean 'flat'"):
        split.load(tmp_path / "a.split", tmp_path, data={"falt": True})
