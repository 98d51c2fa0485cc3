"""The check of a split: every file, every label, and pictures that are where they must not be."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from mlcl.data.artefact import Split
from mlcl.data.table import LabelTable
from mlcl.split.audit import Finding, audit, compare, labels
from mlcl.types import Images

REFS = [f"{letter}.png" for letter in "abcdefgh"]
GOOD = Split(
    "toys",
    (("cat", "dog"), ("car",)),
    REFS,
    REFS,
    np.array([0, 0, 0, 0, 2, 2, 1, 1], np.int8),
    np.array([0, 0, 1, 1, 0, 1, 0, 1], np.int32),
    np.array(
        [[1, 0, 0], [0, 1, 0], [1, 0, 1], [0, -1, 1], [1, 1, 0], [0, 1, 1], [1, 0, 0], [0, 0, 1]], np.int8
    ),
)


def picture(path: Path, shade: int) -> None:
    pixels = np.random.default_rng(shade).integers(0, 255, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for shade, ref in enumerate(REFS):
        picture(tmp_path / ref, shade)
    return tmp_path


def say(found: list[Finding]) -> list[tuple[str, str]]:
    return [(finding.kind, finding.says) for finding in found]


def changed(**given: Any) -> Split:
    return dataclasses.replace(GOOD, **given)


def test_nothing_wrong(root: Path) -> None:
    seen: list[tuple[int, int]] = []
    assert audit(GOOD, root, progress=lambda done, of: seen.append((done, of))) == []
    assert seen == [(8, 8)]


# ---- files


def test_every_file_is_read_to_its_end(root: Path) -> None:
    (root / "a.png").unlink()
    (root / "b.png").write_bytes(b"")
    (root / "c.png").write_bytes(b"<html>404</html>")
    whole = (root / "d.png").read_bytes()
    (root / "d.png").write_bytes(whole[: int(len(whole) * 0.8)])
    (root / "e.png").write_bytes(whole[: int(len(whole) * 0.2)])
    found = {finding.says.split(" ")[0]: finding for finding in audit(GOOD, root)}
    assert found.keys() == {"a.png", "b.png", "c.png", "d.png", "e.png"}
    assert found["a.png"].says == f"a.png (train 1): no such file in {root}"
    assert found["b.png"].says == "b.png (train 1): empty file (0 bytes)"
    assert found["c.png"].says.startswith("c.png (train 2): not an image of a known format")
    assert found["d.png"].says.startswith("d.png (train 2): repaired: ")
    assert found["e.png"].says.startswith("e.png (test 1): cut short: ")
    assert {ref for ref, finding in found.items() if finding.kind == "file"} == found.keys() - {"d.png"}
    assert found["d.png"].harmless
    assert not found["a.png"].harmless


def test_paths_stay_inside(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "x.png"
    picture(elsewhere, 99)
    (root / "a.png").unlink()
    (root / "a.png").symlink_to(elsewhere)
    climbing = changed(files=["a.png", "../b.png", str(elsewhere), *REFS[3:]])
    found = say(audit(climbing, root))
    assert [kind for kind, _ in found] == ["file"] * 3
    assert "link that leaves" in found[0][1]
    assert "leaves the image folder" in found[1][1]
    assert "leaves the image folder" in found[2][1]
    found = say(audit(climbing, root, outside=True))
    assert [(kind, says[:5]) for kind, says in found] == [("file", "b.png"), ("leak", "a.png")]


def test_all_in_one_folder(root: Path) -> None:
    deep = changed(files=[f"some/where/{ref}" for ref in REFS])
    assert len(audit(deep, root)) == 8
    assert audit(deep, root, flat=True) == []


# ---- the same picture twice


@pytest.mark.parametrize(
    ("copies", "kind", "says"),
    [
        ("ab", "twice", "a.png (train 1) = b.png (train 1)"),
        ("ac", "leak", "a.png (train 1) = c.png (train 2)"),
        ("ae", "leak", "a.png (train 1) = e.png (test 1)"),
        ("df", "leak", "d.png (train 2) = f.png (test 2)"),
        ("ag", "leak", "a.png (train 1) = g.png (validation 1)"),
        ("eg", "leak", "e.png (test 1) = g.png (validation 1)"),
        ("ef", "twice", "e.png (test 1) = f.png (test 2)"),  # test sets are cumulative anyway
        ("abe", "leak", "a.png (train 1) = b.png (train 1) = e.png (test 1)"),
    ],
)
def test_the_same_content(root: Path, copies: str, kind: str, says: str) -> None:
    for letter in copies[1:]:
        (root / f"{letter}.png").write_bytes((root / f"{copies[0]}.png").read_bytes())
    same = GOOD.labels.copy()
    for letter in copies:
        same[REFS.index(f"{letter}.png")] = 1
    assert say(audit(changed(labels=same), root)) == [(kind, says)]


def test_the_same_picture_with_other_labels(root: Path) -> None:
    (root / "b.png").write_bytes((root / "a.png").read_bytes())
    assert say(audit(GOOD, root)) == [("twice", "a.png (train 1) = b.png (train 1); labels differ")]
    silent = GOOD.labels.copy()
    silent[1] = [-1, 1, -1]  # what one does not know is no contradiction
    silent[0] = [1, -1, 0]
    assert say(audit(changed(labels=silent), root)) == [("twice", "a.png (train 1) = b.png (train 1)")]


def test_a_placeholder_for_what_is_gone(root: Path) -> None:
    for ref in REFS:
        (root / ref).write_bytes((root / "a.png").read_bytes())
    ((kind, says),) = say(audit(GOOD, root))
    assert kind == "leak"
    assert says.count("=") == 7


def test_a_long_list_is_cut(tmp_path: Path) -> None:
    refs = [f"{n:02}.png" for n in range(12)]
    for ref in refs:
        picture(tmp_path / ref, 1)
    split = Split(
        "s", (("cat",),), refs, refs, np.array([0] * 11 + [2], np.int8), np.zeros(12, np.int32),
        np.ones((12, 1), np.int8),
    )  # fmt: skip
    assert say(audit(split, tmp_path))[0][1].endswith("= 07.png (train 1) = and 4 more")


# ---- labels


@pytest.mark.parametrize(
    ("row", "marks", "says"),
    [
        (1, [0, 0, 1], ["b.png (train 1): shows none of the task's classes (cat, dog)",
                        "class dog: no image of task 1 shows it; it cannot be learnt"]),
        (1, [0, -1, 1], ["b.png (train 1): shows none of the task's classes (cat, dog)",
                         "class dog: no image of task 1 shows it; it cannot be learnt"]),
        (1, [-1, -1, -1], ["b.png (train 1): nothing is known of it",
                           "class dog: no image of task 1 shows it; it cannot be learnt"]),
        (4, [1, 0, 0], ["class dog: no test image up to task 1 shows it; it has no score then"]),
        (5, [0, 1, 0], ["class car: no test image up to task 2 shows it; it has no score then"]),
        (7, [0, 0, 0], []),
    ],
)  # fmt: skip
def test_labels(row: int, marks: list[int], says: list[str]) -> None:
    table = GOOD.labels.copy()
    table[row] = marks
    assert say(labels(changed(labels=table))) == [("label", line) for line in says]


def test_a_task_without_training_images() -> None:
    assert ("label", "task 2 (car): no training image") in say(
        labels(changed(task=np.array([0] * 8, np.int32)))
    )


# ---- against a source


class Unseen(Images):
    def __len__(self) -> int:
        return 9

    def load(self, indices: Any) -> Any:
        raise AssertionError("only labels are compared")


def test_against_a_table() -> None:
    order = [5, 3, 1, 0, 2, 4, 6, 7]
    names = ("car", "cat", "dog")
    columns = [2, 0, 1]  # of another order, as the rows are
    same = GOOD.labels[order][:, columns]
    test = GOOD.part[order] == 2
    refs = [REFS[n] for n in order]

    def table(labels: Any = same, test: Any = test, refs: Any = refs) -> LabelTable:
        return LabelTable(
            "labels.csv", names, [*refs, "z.png"], np.vstack([labels, same[:1]]), test, Unseen()
        )

    test = np.append(test, False)
    dropped = changed(dropped={"z.png": "shows no class of the stream"})
    assert compare(dropped, table(test=test)) == []
    assert say(compare(GOOD, table(test=test))) == [("source", "z.png: only labels.csv has it")]
    other = same.copy()
    other[3] = [1, 1, 1]
    says = "a.png (train 1): labels.csv says otherwise of dog, car"
    assert say(compare(dropped, table(other, test))) == [("source", says)]
    renamed = ["y.png" if ref == "c.png" else ref for ref in refs]
    assert say(compare(dropped, table(refs=renamed, test=test))) == [
        ("source", "c.png (train 2): labels.csv does not have it"),
        ("source", "y.png: only labels.csv has it"),
    ]
    turned = test.copy()
    turned[[0, 1]] ^= True
    assert say(compare(dropped, table(test=turned))) == [
        ("source", "d.png (train 2): labels.csv has it for testing"),
        ("source", "f.png (test 2): labels.csv has it for training"),
    ]
