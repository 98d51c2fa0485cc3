"""mlcl grid and mlcl table."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from mlcl import store
from mlcl.cli import app

ROW = {"seed": 0, "error": None, "folder": "f", "seconds": 2.0}
GRID = {
    "format": 1,
    "name": "toy",
    "lacking": ["search has no winner for ewc"],
    "winners": [{"method": "lwf", "per": {}, "searched": {"lambda1": 0.3}, "tried": 1, "of": 2}],
}


def summary(value: float) -> dict[str, dict[str, float]]:
    every = dict.fromkeys(("final", "mean_over_tests", "forgetting_absolute"), value)
    return dict.fromkeys(("mAP", "CF1", "OF1"), every)


def test_table(tmp_path: Path) -> None:
    cells = [
        {**ROW, "method": "lwf", "settings": {"x.lambda1": 0.3}, "summary": summary(0.5)},
        {**ROW, "method": "lwf", "settings": {"x.lambda1": 0.3}, "summary": summary(0.6), "seed": 1},
        {**ROW, "method": "er", "settings": {}, "summary": summary(0.7)},
        {**ROW, "method": "ewc", "settings": {}, "summary": None, "error": "a bug"},
        {**ROW, "method": "scr", "settings": {}, "summary": None, "error": "not run yet"},
    ]
    store.write_json(tmp_path / "grid.json", GRID | {"cells": cells})
    result = CliRunner().invoke(app, ["table", str(tmp_path)])
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert lines[0] == "toy: in percent, mean ± deviation over seeds"
    assert lines[2].split() == ["er", "70.0", "70.0", "70.0", "70.0", "70.0", "1"]  # the best one first
    assert lines[3].split()[:6] == ["lwf", "lambda1", "=", "0.3", "55.0", "±"]
    assert "best of 1 of 2: lwf: lambda1=0.3" in lines
    assert "failed: f: a bug" in lines
    assert "left out: search has no winner for ewc" in lines
    assert "1 of 5 not run yet" in lines


def test_plan_runs_nothing(tmp_path: Path) -> None:
    file = tmp_path / "toy.toml"
    file.write_text('name = "toy"\nmethods = ["lwf"]\nseeds = [0, 1]\n')
    result = CliRunner().invoke(app, ["grid", str(file), "--plan", "--out", str(tmp_path / "runs")])
    assert result.exit_code == 0
    assert result.output.startswith("toy: 2 cells\n  lwf_seed=0_")
    assert not (tmp_path / "runs").exists()


def test_what_is_no_grid(tmp_path: Path) -> None:
    store.write_json(tmp_path / "other.json", {"x": 1})
    for path, message in (
        (tmp_path / "nowhere", "no such file"),
        (tmp_path / "other.json", "not a grid.json (it has no cells)"),
    ):
        error = CliRunner().invoke(app, ["table", str(path)]).exception
        assert message in str(error)
    store.write_json(tmp_path / "later.json", GRID | {"cells": [], "format": 9})
    error = CliRunner().invoke(app, ["table", str(tmp_path / "later.json")]).exception
    assert "grid format 9, this version reads 1" in str(error)
