"""Grids through the pool: what fails, dies or is stopped takes nothing with it, and goes on the next time."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from mlcl.config import Tree
from mlcl.experiment import Interrupted
from mlcl.grid import Cell, load_grid, run_cell, run_grids
from mlcl.grid.book import read_grid
from mlcl.grid.cell import attempt, outcome
from mlcl.grid.pool import work_through

from .conftest import Write

SEARCH = """
methods = ["fine-tuning", "wrong", "dying"]
[search]
"stream.validation" = 0.2
[select]
"""
FINAL = """
winners = "search"
seeds = [0, 1]
checkpoints = false
"""


@pytest.fixture
def flag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MLCL_TEST_FLAG", str(tmp_path / "flag"))
    return tmp_path / "flag"


def test_stopped_buggy_and_killed_grids_go_on(write: Write, tmp_path: Path, flag: Path) -> None:
    """One test, since every process costs seconds: it imports PyTorch."""
    files, root = [write(SEARCH, "search"), write(FINAL, "final")], tmp_path / "runs"
    told: list[str] = []

    def tell(cell: Cell, row: Tree) -> None:
        told.append(cell.method)

    with pytest.raises(Interrupted):
        run_grids(files, root, workers=2, tell=tell, stop=lambda: bool(told))
    errors = {row["method"]: row["error"] for row in read_grid(root / "search")["cells"]}
    assert errors["dying"] == "not run yet"
    assert not flag.exists()
    assert not (root / "final").exists()

    told.clear()
    folders = run_grids(files, root, tell=tell)
    assert sorted(told) == ["dying", "fine-tuning", "fine-tuning", "fine-tuning", "wrong"]
    search, final = (read_grid(folder) for folder in folders)
    rows = {row["method"]: row for row in search["cells"]}
    assert rows["fine-tuning"]["error"] is None
    assert rows["wrong"]["error"] == "ZeroDivisionError: one (the trace is in error.txt of its folder)"
    assert "and more" in (root / "search" / "cells" / rows["wrong"]["folder"] / "error.txt").read_text()
    assert rows["dying"]["error"] == (
        "its process died (signal 9; out of memory?); run the grid again to go on with it"
    )
    # the other grid began with the winners of this one, and is of the whole stream
    assert [(row["method"], row["seed"], row["error"]) for row in final["cells"]] == [
        ("fine-tuning", 0, None),
        ("fine-tuning", 1, None),
    ]
    assert final["recipe"]["stream"]["validation"] == 0.0
    assert not list((root / "final").rglob("*.pt"))

    run_grids(files[:1], root)
    again = {row["method"]: row for row in read_grid(root / "search")["cells"]}
    assert again["dying"]["error"] is None
    assert again["dying"]["summary"] == rows["fine-tuning"]["summary"]  # they are alike, but for the death
    assert again["fine-tuning"] == rows["fine-tuning"]


# ---- one cell, in this process


def test_a_cell_is_a_run_folder_and_its_outcome_a_few_kilobytes(write: Write, tmp_path: Path) -> None:
    (cell,) = load_grid(write('methods = ["agcn++"]\n')).cells
    run_cell(cell.tree, tmp_path / "c")
    assert {path.name for path in (tmp_path / "c").iterdir()} == {
        "config.toml", "run.json", "stream.json", "seconds.json", "agcn++",
    }  # fmt: skip
    kept = outcome(tmp_path / "c", "agcn++")
    assert kept is not None
    full = json.loads((tmp_path / "c" / "agcn++" / "results.json").read_text())
    assert kept["after"] == [1, 2]
    assert [len(row) for row in kept["mAP"]] == [1, 2]
    assert kept["mAP"][1][1] == pytest.approx(full["evaluations"][1]["tests"][1]["mAP"], abs=1e-6)
    assert kept["summary"]["mAP"]["final"] == kept["mAP"][1][1]
    assert set(kept["acm"]) == {"estimated", "identity", "random", "mean"}
    assert 0 < kept["acm"]["estimated"] < 1
    assert len(json.dumps(kept)) < 4000


def test_a_cell_that_is_stopped_goes_on_in_the_middle(write: Write, tmp_path: Path) -> None:
    (cell,) = load_grid(write('methods = ["fine-tuning"]\n')).cells
    batches = iter([False, False, True])
    assert attempt(cell.tree, tmp_path / "c", lambda: next(batches)) == {
        "error": None, "stopped": True, "fit": True,
    }  # fmt: skip
    assert outcome(tmp_path / "c", "fine-tuning") is None
    run_cell(cell.tree, tmp_path / "c")
    run_cell(cell.tree, tmp_path / "straight")
    assert outcome(tmp_path / "c", "fine-tuning") == outcome(tmp_path / "straight", "fine-tuning")


def test_a_users_error_is_one_line_without_a_trace(write: Write, tmp_path: Path) -> None:
    (cell,) = load_grid(write('methods = ["fine-tuning"]\n[set]\n"data.images" = 3\n')).cells
    said = attempt(cell.tree, tmp_path / "c", lambda: False)
    assert "has no" in said["error"]
    assert not (tmp_path / "c" / "error.txt").exists()


def test_nothing_to_do_starts_no_process() -> None:
    def none() -> None:
        return None

    began = time.monotonic()
    work_through(none, 4)
    assert time.monotonic() - began < 0.5
