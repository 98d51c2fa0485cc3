"""Split files: what is written is read, byte for byte the same; what was changed or cut is refused."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from mlcl.data.artefact import PARTS, Split
from mlcl.data.artefact_reader import read_file
from mlcl.errors import DataError

TEXT = """\
images	4
name	toys
made	stream.top	3
note	1 image without a file left out: z.jpg
task	1	cat	dog
task	2	traffic light
dropped	y.jpg	shows no class of the stream
dropped	z.jpg	no such file
test	1	a.jpg	val/a.jpg	dog
train	1	b.jpg		cat	?traffic light
train	2	c.jpg		?	-cat	traffic light
validation	2	d.jpg		cat	traffic light
"""


def toys() -> Split:
    return Split(
        "toys",
        (("cat", "dog"), ("traffic light",)),
        ["a.jpg", "b.jpg", "c.jpg", "d.jpg"],
        ["val/a.jpg", "b.jpg", "c.jpg", "d.jpg"],
        np.array([2, 0, 0, 1], np.int8),
        np.array([0, 0, 1, 1], np.int32),
        np.array([[0, 1, 0], [1, 0, -1], [0, -1, 1], [1, 0, 1]], np.int8),
        {"z.jpg": "no such file", "y.jpg": "shows no class of the stream"},
        ("1 image without a file left out: z.jpg",),
        {"stream.top": "3"},
    )


def signed(body: str) -> str:
    return f"mlcl split\t1\nsha256\t{hashlib.sha256(body.encode()).hexdigest()}\n{body}"


def same(a: Split, b: Split) -> None:
    for field in dataclasses.fields(Split):
        mine, theirs = getattr(a, field.name), getattr(b, field.name)
        if isinstance(mine, np.ndarray):
            assert mine.dtype == theirs.dtype
            assert mine.tolist() == theirs.tolist()
        else:
            assert (dict(mine) if isinstance(mine, dict) else tuple(mine)) == (
                dict(theirs) if isinstance(theirs, dict) else tuple(theirs)
            )


def file(tmp_path: Path, content: str | bytes) -> Path:
    path = tmp_path / "toys.split"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_it_reads_as_it_says() -> None:
    unsparing = TEXT.replace(
        "train\t2\tc.jpg\t\t?\t-cat\ttraffic light", "train\t2\tc.jpg\t\t?dog\ttraffic light"
    )
    assert toys().text() == signed(unsparing)  # of two ways to say it, the one with fewer words


def test_both_ways_to_say_it_are_read(tmp_path: Path) -> None:
    same(read_file(file(tmp_path, signed(TEXT))), toys())


def test_what_is_written_is_read(tmp_path: Path) -> None:
    toys().write(tmp_path / "deep" / "er" / "toys.split")
    again = read_file(tmp_path / "deep" / "er" / "toys.split")
    same(again, toys())
    assert again.text() == toys().text()
    assert again.widths == (2, 1)
    assert [path.name for path in (tmp_path / "deep" / "er").iterdir()] == ["toys.split"]


def test_mostly_unknown_labels_stay_short() -> None:
    labels = np.full((1, 40), -1, np.int8)
    labels[0, 4:8] = [1, 0, 0, 1]
    names = tuple(f"class {n}" for n in range(40))
    split = Split("s", (names,), ["a"], ["a"], np.zeros(1, np.int8), np.zeros(1, np.int32), labels)
    line = split.text().splitlines()[-1]
    assert line == "train\t1\ta\t\t?\tclass 4\t-class 5\t-class 6\tclass 7"


names = st.text(min_size=1, max_size=6)


@st.composite
def splits(draw: st.DrawFn) -> Split:
    classes = draw(st.lists(names, min_size=1, max_size=6, unique=True))
    cut = draw(st.integers(1, len(classes)))
    tasks = tuple(part for part in (tuple(classes[:cut]), tuple(classes[cut:])) if part)
    refs = sorted(draw(st.lists(names, min_size=1, max_size=8, unique=True)))
    n = len(refs)
    marks = st.lists(st.sampled_from([0, 1, -1]), min_size=len(classes), max_size=len(classes))
    return Split(
        draw(names),
        tasks,
        refs,
        draw(st.lists(names, min_size=n, max_size=n)),
        np.array(draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)), np.int8),
        np.array(draw(st.lists(st.integers(0, len(tasks) - 1), min_size=n, max_size=n)), np.int32),
        np.array(draw(st.lists(marks, min_size=n, max_size=n)), np.int8).reshape(n, len(classes)),
        draw(st.dictionaries(names, st.text(max_size=5), max_size=3)),
        tuple(draw(st.lists(st.text(max_size=8), max_size=2))),
        draw(st.dictionaries(names, st.text(max_size=5), max_size=3)),
    )


@given(splits())
@settings(max_examples=150, deadline=None)
def test_any_names_and_labels_survive(tmp_path_factory: pytest.TempPathFactory, split: Split) -> None:
    """Tabs, quotes, line ends of every alphabet, half a surrogate pair: all of it is a name."""
    path = tmp_path_factory.mktemp("s") / "a.split"
    split.write(path)
    same(read_file(path), split)


def test_line_ends_of_windows_are_no_change(tmp_path: Path) -> None:
    same(read_file(file(tmp_path, signed(TEXT).replace("\n", "\r\n"))), toys())


# ---- refused


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_any_change_is_refused(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    whole = signed(TEXT).encode()
    place = data.draw(st.integers(0, len(whole) - 1))
    other = data.draw(st.integers(0, 255).filter(lambda byte: byte != whole[place]))
    changed = whole[:place] + bytes([other]) + whole[place + 1 :]
    path = file(tmp_path_factory.mktemp("s"), changed)
    with pytest.raises(DataError, match=re.escape(str(path))) as caught:
        read_file(path)
    assert "\n" not in str(caught.value)


def test_any_cut_is_refused(tmp_path: Path) -> None:
    whole = signed(TEXT).encode()
    for length in range(len(whole)):
        with pytest.raises(DataError, match=r"toys\.split: (not a split|split format|cut short|changed)"):
            read_file(file(tmp_path, whole[:length]))


def test_a_cut_file_says_how_much_is_there(tmp_path: Path) -> None:
    whole = signed(TEXT)
    with pytest.raises(DataError, match=r"cut short: 2 of 4 images are there; get it again, or make it anew"):
        read_file(file(tmp_path, whole[: whole.index("train\t2") + 9]))


def test_one_changed_label_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"changed after it was written \(wrong checksum\)"):
        read_file(file(tmp_path, signed(TEXT).replace("b.jpg\t\tcat", "b.jpg\t\tdog")))


FOREIGN: dict[str, tuple[str | bytes, str]] = {
    "nothing": ("", "not a split; make one by: mlcl data build"),
    "a csv": ("path,label\na.jpg,cat\n", "not a split"),
    "a picture": (b"\x89PNG\r\n\x1a\n\0\0", "not a split"),
    "a later format": (signed(TEXT).replace("split\t1", "split\t2"), "split format 2, this version reads 1"),
    "not text": (signed(TEXT).encode() + b"\xff", "changed after"),
}


@pytest.mark.parametrize(("content", "message"), FOREIGN.values(), ids=FOREIGN)
def test_what_is_no_split(tmp_path: Path, content: str | bytes, message: str) -> None:
    with pytest.raises(DataError, match=rf"toys\.split: {message}"):
        read_file(file(tmp_path, content))


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.split: no such file"):
        read_file(tmp_path / "none.split")
    with pytest.raises(DataError, match="cannot be read: Is a directory"):
        read_file(tmp_path)


# with a right checksum: written by another program
WRONG: dict[str, tuple[tuple[str, str], str]] = {
    "an unknown class": (
        ("val/a.jpg\tdog", "val/a.jpg\tdig"),
        "line 11: no class 'dig' .*did you mean 'dog'",
    ),
    "an unknown class, absent": (("?\t-cat", "?\t-cow"), "line 13: no class '-cow'"),
    "a third task": (("train\t2", "train\t3"), "line 13: expected a task from 1 to 2"),
    "an image twice": (("\tc.jpg", "\tb.jpg"), r"line 13: b\.jpg is in the split already"),
    "task 0": (("train\t1", "train\t0"), "line 12: expected a task from 1 to 2"),
    "no file": (("train\t1\tb.jpg\t\tcat\t?traffic light", "train\t1\tb.jpg"), "line 12: expected a task"),
    "an unknown part": (("train\t1", "trian\t1"), "line 12: a line 'trian' of 5 cells"),
    "a blank line": (("note", "\nnote"), "line 6: a line '' of 0 cells"),
    "tasks out of order": (("task\t2", "task\t3"), "line 8: tasks are numbered from 1"),
    "a task without a class": (("task\t2\ttraffic light", "task\t2"), "line 8: tasks are numbered"),
    "a class twice": (("task\t2\ttraffic light", "task\t2\tcat"), "line 8: a class twice"),
    "a quote never closed": (("\tc.jpg", '\t"c.jpg'), 'line 13: not a quoted name: "c.jpg'),
    "a note of two cells": (("note\t1 image", "note\t1\timage"), "line 6: a line 'note' of 2 cells"),
    "too few images": (("images\t4", "images\t5"), "line 14: the end; 4 images"),
    "no name": (("name\ttoys\n", ""), "line 13: the end; 4 images, name None"),
}


@pytest.mark.parametrize(("change", "message"), WRONG.values(), ids=WRONG)
def test_wrong_though_signed(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    assert change[0] in TEXT
    with pytest.raises(DataError, match=rf"toys\.split, {message}") as caught:
        read_file(file(tmp_path, signed(TEXT.replace(*change))))
    assert "\n" not in str(caught.value)


# ---- writing


def test_what_is_no_split_is_not_written_over(tmp_path: Path) -> None:
    path = file(tmp_path, "my thesis")
    with pytest.raises(DataError, match=r"toys\.split: exists, and is no split; name another file"):
        toys().write(path)
    assert path.read_text() == "my thesis"
    path.write_text("")
    with pytest.raises(DataError, match="exists"):
        toys().write(path)


def test_an_older_split_is(tmp_path: Path) -> None:
    path = file(tmp_path, "mlcl split\t1\nold\n")
    toys().write(path)
    same(read_file(path), toys())


def test_what_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match=r"cannot be written: (Not a directory|File exists)"):
        toys().write(tmp_path / "file" / "a.split")


def test_parts_are_words_of_the_format() -> None:
    assert PARTS == ("train", "validation", "test")


def test_shapes_must_fit() -> None:
    with pytest.raises(AssertionError):
        dataclasses.replace(toys(), refs=["a.jpg"])
    wide: Any = np.zeros((4, 5), np.int8)
    with pytest.raises(AssertionError):
        dataclasses.replace(toys(), labels=wide)
