"""mlcl data: build, check, show, from the command line."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from mlcl.cli import main
from mlcl.data import source
from mlcl.split import read

CLASSES = ("cat", "dog", "car", "bus")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """In a folder with photos/labels.csv and 40 images of noise."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    chance = np.random.default_rng(0)
    Path("photos").mkdir()
    labels = (chance.random((40, 4)) < 0.5).astype(int)
    labels[0] = 0
    rows = [[f"{n:02}.png", "test" if n % 4 == 1 else "train", *row] for n, row in enumerate(labels)]
    for n in range(40):
        noise = chance.integers(0, 255, (12, 12, 3), dtype=np.uint8)
        Image.fromarray(noise).save(f"photos/{n:02}.png")
    with Path("photos/labels.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["path", "split", *CLASSES], *rows])
    return tmp_path


BUILD = ("data", "build", "csv", "--set", "data.annotations=photos/labels.csv", "--set", "stream.way=2")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    def call(*arguments: str) -> tuple[int, str, str]:
        """Exit code, output, errors."""
        monkeypatch.setattr(sys, "argv", ["mlcl", *arguments])
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        out, err = capsys.readouterr()
        return code, out, err

    return call


@pytest.fixture
def built(here: Path, run: Any) -> Path:
    assert run(*BUILD, "--out", "toys.split")[0] == 0
    return here / "toys.split"


def test_build(here: Path, run: Any) -> None:
    code, out, _ = run(*BUILD, "--out", "toys.split")
    assert code == 0
    split = read("toys.split")
    assert split.tasks == (("cat", "dog"), ("car", "bus"))
    assert len(split) + len(split.dropped) == 40
    train = [str(n) for n in np.bincount(split.task[split.part == 0])]
    lines = out.splitlines()
    (first,) = [line for line in lines if line.startswith("1 ")]
    assert first.split()[1:4] == ["cat,", "dog", train[0]]
    assert f"left out: {len(split.dropped)} image" in out
    assert "shows no class of the stream" in out
    assert f"toys.split: written, {Path('toys.split').stat().st_size:,} bytes" in out
    for name, column in zip(split.class_names, split.labels.T, strict=True):
        (row,) = [line for line in lines if line.startswith(f"{name} ")]
        figures = [int(cell) for cell in row.split()[2:]]
        assert sum(figures[:2]) == (column[split.part == 0] == 1).sum()
        assert figures[2] == (column[split.part == 2] == 1).sum()


def test_a_narrow_terminal_breaks_names_and_no_figures(here: Path, run: Any, monkeypatch: Any) -> None:
    path = Path("photos/labels.csv")
    path.write_text(path.read_text().replace("cat", "a cat that has a rather long name"))
    monkeypatch.setenv("COLUMNS", "60")
    code, out, _ = run(*BUILD, "--out", "toys.split")
    assert code == 0
    assert "…" not in out
    (row,) = [line for line in out.splitlines() if line.startswith("bus ")]
    assert len(row.split()) == 5


def test_build_again(built: Path, run: Any) -> None:
    before = built.read_bytes()
    assert "toys.split: unchanged" in run(*BUILD, "--out", "toys.split")[1]
    assert built.read_bytes() == before
    assert "written anew" in run(*BUILD, "--set", "stream.seed=1", "--out", "toys.split")[1]
    assert built.read_bytes() != before


def test_build_from_a_recipe(here: Path, run: Any) -> None:
    Path("r.toml").write_text(
        '[data]\nsource = "csv"\nannotations = "photos/labels.csv"\n[stream]\nway = 2\nvalidation = 0.2\n'
    )
    code, out, _ = run("data", "build", "r.toml", "--set", "stream.seed=2", "--out", "a.split")
    assert code == 0
    assert "held out" in out
    split = read("a.split")
    assert (split.part == 1).any()
    assert split.made["stream.seed"] == "2"


def test_build_from_ones_own_source(here: Path, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "_SOURCES", source.sources())  # a copy: no other test sees this one
    Path("own.py").write_text(
        "from mlcl.data.tabular import Csv\n\n"
        'class Mine(Csv, name="mine"):\n    """My own."""\n\n'
        "    def table(self):\n        return super().table()\n"
    )
    arguments = ["mine" if word == "csv" else word for word in BUILD]
    assert run(*arguments, "--plugin", "own.py", "--out", "a.split")[0] == 0
    assert read("a.split").made["data.source"] == "mine"


WRONG = {
    "no such source": (("data", "build", "cvs", "--out", "a.split"), "'cvs'; did you mean 'csv'"),
    "a key of another table": ((*BUILD, "--set", "loop.epochs=2", "--out", "a.split"),
                               "--set loop.epochs=2: of a split, keys are data.* and stream.*"),
    "a mask": ((*BUILD, "--set", "stream.scenario=cl", "--out", "a.split"),
               "not part of a split; it is chosen where the split is used"),
    "an unknown key": ((*BUILD, "--set", "stream.wey=2", "--out", "a.split"), "did you mean 'way'"),
    "a drawn source": (("data", "build", "scenes", "--out", "a.split"), "no files of their own"),
    "over another file": ((*BUILD, "--out", "photos/labels.csv"), "exists, and is no split"),
    "no cache": (
        ("data", "check", "toys.split", "--root", "photos", "--cache", "nix"),
        "nix: no cache (it has no cache.json); correct the name",
    ),
    "no file": (("data", "check", "none.split", "--root", "photos"), "none.split: no such file"),
    "not a split": (("data", "check", "photos/labels.csv", "--root", "photos"), "not a split"),
    "no folder": (("data", "check", "toys.split", "--root", "photo"), "photo: no such folder"),
    "show what is none": (("data", "show", "photos/00.png"), "not a split"),
    "show with a wrong key": (("data", "show", "toys.split", "--root", "photos", "--set", "stream.wey=1"),
                              "did you mean 'way'"),
    "show without the images": (("data", "show", "toys.split", "--root", "."), "no file for"),
}  # fmt: skip


@pytest.mark.parametrize(("arguments", "says"), WRONG.values(), ids=WRONG)
def test_wrong(built: Path, run: Any, arguments: tuple[str, ...], says: str) -> None:
    code, _, err = run(*arguments)
    assert code == 2
    assert says in err
    assert err.count("\n") == 1
    assert not Path("a.split").exists()


def test_a_changed_split_is_refused_everywhere(built: Path, run: Any) -> None:
    built.write_text(built.read_text().replace("train\t1", "train\t2", 1))
    for arguments in (("check", "--root", "photos"), ("show",)):
        code, _, err = run("data", arguments[0], "toys.split", *arguments[1:])
        assert code == 2
        assert "toys.split: changed after it was written" in err
        assert err.count("\n") == 1


def test_check(built: Path, run: Any) -> None:
    code, out, _ = run("data", "check", "toys.split", "--root", "photos")
    assert code == 0
    assert "reading every image: " in out
    assert f"toys.split: {len(read(built))} images read, nothing wrong" in out


def test_check_finds(built: Path, run: Any) -> None:
    split = read(built)
    train, test = (next(ref for ref, p in zip(split.refs, split.part, strict=True) if p == k) for k in (0, 2))
    (here,) = {built.parent}
    (here / "photos" / test).write_bytes((here / "photos" / train).read_bytes())
    gone = split.refs[-1]
    (here / "photos" / gone).unlink()
    code, out, _ = run("data", "check", "toys.split", "--root", "photos", "--out", "findings.tsv")
    assert code == 1
    assert "files that cannot be used: 1" in out
    assert f"{gone} (train " in out
    assert "trained on and tested on: 1" in out.replace("\n", " ")
    assert "2 findings to look into" in out
    kinds = [line.split("\t")[0] for line in Path("findings.tsv").read_text().splitlines()]
    assert kinds == ["file", "leak"]


def test_check_against_the_source(built: Path, run: Any) -> None:
    options = ("--root", "photos", "--against", "csv", "--set", "data.annotations=photos/labels.csv")
    assert run("data", "check", "toys.split", *options)[0] == 0
    split = read(built)
    ref, marks = split.refs[0], split.labels[0]
    path = Path("photos/labels.csv")
    lines = path.read_text().splitlines()
    at = next(n for n, line in enumerate(lines) if line.startswith(ref))
    cells = lines[at].split(",")
    lines[at] = ",".join([*cells[:2], str(1 - marks[0]), *cells[3:]])
    path.write_text("\n".join(lines))
    code, out, _ = run("data", "check", "toys.split", *options)
    assert code == 1
    assert "other than in the source: 1" in out
    assert "labels says otherwise of cat" in out
    code, _, err = run("data", "check", "toys.split", "--root", "photos", "--set", "data.size=8")
    assert code == 2
    assert "--set goes with --against SOURCE" in err


def width(path: str) -> int:
    with Image.open(path) as image:
        return image.width


def test_show(built: Path, run: Any) -> None:
    code, out, _ = run("data", "show", "toys.split")
    assert code == 0
    assert "give --root FOLDER" in out
    assert sorted(path.name for path in built.parent.glob("*.png")) == ["toys.report.png"]
    code, out, _ = run("data", "show", "toys.split", "--root", "photos", "--out", "pictures", "--images", "3")
    assert code == 0
    names = {path.name for path in Path("pictures").iterdir()}
    assert names == {"toys.report.png", "toys.report.tsv", "toys.images.png"}
    assert (
        Path("pictures/toys.report.tsv")
        .read_text()
        .startswith("class\tits task\ttrain 1\ttrain 2\ttest\ncat\t1")
    )
    wide = width("pictures/toys.images.png")
    options = ("--set", "stream.scenario=cl", "--set", "data.size=32")
    assert run("data", "show", "toys.split", "--root", "photos", "--images", "4", *options)[0] == 0
    assert width("toys.images.png") == wide + 168 + 14


def test_list(run: Any) -> None:
    code, out, _ = run("data")
    assert code == 0
    names = [line.split()[0] for line in out.splitlines()]
    assert {"coco", "csv", "folder", "nus-wide", "split", "split-coco", "split-wide", "voc"} <= set(names)
    assert out == run("data", "list")[1]


@pytest.mark.parametrize("features", [False, True], ids=["pixels", "features"])
def test_the_second_run_reads_no_image(built: Path, run: Any, features: bool) -> None:
    """From a split file, through `mlcl run`, to the same results, though every image is gone."""
    Path("r.toml").write_text(
        'methods = ["fine-tuning"]\ndevice = "cpu"\n[data]\nsource = "split"\nfile = "toys.split"\n'
        'root = "photos"\nsize = 32\ncache = "pixels"\nmissing = "keep"\n[loop]\nbatch_size = 8\n'
        '[learner.backbone]\nname = "tiny"\ntrainable = "none"\n[learner.augment]\ncrop = 1\nflip = false\n'
    )
    options = ("--set", "data.features=features") if features else ()
    code, out, _ = run("run", "r.toml", "--out", "first", *options)
    assert code == 0
    assert f"filling the cache: {len(read(built))} of {len(read(built))}" in out
    filled = ["pixels", *["features"] * features]
    checked = ("data", "check", "toys.split", "--root", "photos", *(f"--cache={place}" for place in filled))
    assert run(*checked)[0] == 0
    rows = Path(filled[-1], "rows-00000.npy")
    whole = rows.read_bytes()
    rows.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    code, _, err = run(*checked)
    assert code == 2
    assert "rows-00000.npy: damaged (wrong checksum)" in err
    rows.write_bytes(whole)
    for path in Path("photos").glob("*.png"):
        path.unlink()
    if features:
        for path in Path("pixels").glob("rows-*.npy"):
            path.unlink()
        options = (*options, "--set", "data.cache=")
    code, out, _ = run("run", "r.toml", "--out", "second", *options)
    assert code == 0
    assert "filling" not in out
    results = [Path(folder, "fine-tuning", "results.json").read_text() for folder in ("first", "second")]
    assert results[0] == results[1]
    assert '"broken_images": 0' in results[0]


def test_a_run_tells_what_it_left_out(built: Path, run: Any) -> None:
    """By name: in hour nine as in minute one, a bad file is neither a crash nor a secret."""
    split = read(built)
    gone, empty, cut = split.refs[0], split.refs[1], split.refs[2]
    Path("photos", gone).unlink()
    Path("photos", empty).write_bytes(b"")
    whole = Path("photos", cut).read_bytes()
    Path("photos", cut).write_bytes(whole[: int(len(whole) * 0.85)])
    Path("r.toml").write_text(
        'methods = ["fine-tuning"]\ndevice = "cpu"\n[data]\nsource = "split"\nfile = "toys.split"\n'
        'root = "photos"\nsize = 16\nmissing = "drop"\n[learner.backbone]\nname = "tiny"\n'
    )
    code, out, _ = run("run", "r.toml", "--out", "run")
    assert code == 0
    assert f"note: 1 image without a file left out: {gone}" in out
    assert f"1 image could not be decoded and took no part, such as {empty}: empty file (0 bytes)" in out
    assert f"1 image shown in part, being cut short, such as {cut}: repaired: " in out
    listed = Path("run/images.tsv").read_text().splitlines()
    assert [line.split("\t")[0] for line in listed] == ["broken", "repaired"]
    assert listed[0] == f"broken\t{empty}: empty file (0 bytes)"
