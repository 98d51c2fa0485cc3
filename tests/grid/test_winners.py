"""Of many settings, the best of each method."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mlcl.errors import MLCLError
from mlcl.grid import load_grid
from mlcl.grid.winners import Select, average, find_winners, read_winners, write_recipes
from mlcl.recipe import load_recipe

from .conftest import Write


def row(method: str, value: float | None, seed: int = 0, **settings: Any) -> dict[str, Any]:
    summary = None if value is None else {"mAP": {"mean_over_tests": value, "final": value / 2}}
    return {"method": method, "seed": seed, "settings": settings, "summary": summary}


def test_average_is_over_seeds() -> None:
    rows = [
        row("lwf", 0.4, 0, a=1),
        row("lwf", 0.6, 1, a=1),
        row("lwf", 0.1, 0, a=2),
        row("lwf", None, 1, a=2),
    ]
    one, two = average(rows, "mAP", "mean_over_tests")
    assert one["mean"] == pytest.approx(0.5)
    assert one["deviation"] == pytest.approx(0.02**0.5)
    assert (one["seeds"], two["seeds"], two["deviation"]) == (2, 1, None)


def test_the_best_of_each_method_and_of_each_thing_it_is_best_for() -> None:
    rows = [
        row("lwf", 0.4, scenario="il", lr=1), row("lwf", 0.5, scenario="il", lr=2),
        row("lwf", 0.9, scenario="cl", lr=1), row("lwf", None, scenario="cl", lr=2),
        row("er", 0.2, scenario="il", lr=1),
    ]  # fmt: skip
    il, cl, er = find_winners(Select(per=("scenario",)), rows)
    assert (il.method, il.per, il.searched, il.tried, il.of) == ("lwf", {"scenario": "il"}, {"lr": 2}, 2, 2)
    assert (cl.searched, cl.tried, cl.of) == ({"lr": 1}, 1, 2)  # the other one failed: said, not hidden
    assert (er.name, il.name) == ("er-il", "lwf-il")


def test_winners_are_recipes_of_a_few_lines(write: Write, tmp_path: Path) -> None:
    grid = load_grid(
        write(
            'methods = ["lwf", "er"]\n[axes]\n"learner.optimizer.lr" = [0.1, 0.2]\n'
            '[search]\n"stream.limit" = 9\n[select]\n'
        )
    )
    assert grid.select is not None
    key = "learner.optimizer.lr"
    rows = [row("lwf", 0.3, **{key: 0.1}), row("lwf", 0.4, **{key: 0.2}), row("er", 0.2, **{key: 0.1})]
    winners = find_winners(grid.select, rows)
    write_recipes(grid, grid.select, winners, tmp_path / "tuned")
    text = (tmp_path / "tuned" / "lwf.toml").read_text()
    assert text.startswith("# lwf: the best of 2 settings by mAP mean_over_tests in the grid g, 0.4000")
    assert len(text.splitlines()) < 12
    recipe = load_recipe(str(tmp_path / "tuned" / "lwf.toml"))
    assert recipe.learners["lwf"].optimizer.lr == 0.2
    assert (recipe.stream.limit, recipe.stream.way) == (0, 2)  # the search's own settings are gone


def test_winners_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(MLCLError, match="run that grid first"):
        read_winners(tmp_path)
    (tmp_path / "grid.json").write_text('{"winners": []}')
    with pytest.raises(MLCLError, match="no winners in it"):
        read_winners(tmp_path)
    (tmp_path / "grid.json").write_text('{"winners": [{"x": 1}]}')
    with pytest.raises(MLCLError, match=r"not the grid\.json of a grid"):
        read_winners(tmp_path)
