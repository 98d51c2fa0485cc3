"""The grid's TOML, and the cells that it asks for."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from pathlib import Path

import pytest

from mlcl import store
from mlcl.errors import ConfigError, MLCLError
from mlcl.grid import load_grid, plan_grids
from mlcl.grid.plan import Head
from mlcl.recipe import resolve

from .conftest import Write

AXES = """
[axes]
"stream.scenario" = ["il", "cl"]
"learner.optimizer.lr" = [1e-3, 1e-4]
"""


def test_methods_seeds_axes(write: Write) -> None:
    grid = load_grid(write('methods = ["lwf", "agcn++"]\nseeds = [0, 5]\n' + AXES))
    assert len(grid.cells) == 2 * 2 * 4
    assert len({cell.print for cell in grid.cells}) == 16
    for cell in grid.cells:
        recipe = resolve(cell.tree)
        assert list(recipe.learners) == [cell.method]
        assert recipe.head.seed == cell.seed
        assert recipe.stream.scenario == cell.settings["stream.scenario"]
        assert recipe.learners[cell.method].optimizer.lr == cell.settings["learner.optimizer.lr"]
        assert recipe.learners[cell.method].backbone.name == "tiny"


def test_an_axis_is_for_the_methods_that_have_it(write: Write) -> None:
    grid = load_grid(write('methods = ["fine-tuning", "lwf"]\n[axes]\nlambda1 = [0.1, 0.2]\n'))
    assert Counter(cell.method for cell in grid.cells) == {"fine-tuning": 1, "lwf": 2}


def test_a_methods_own_list_overrules_the_shared_one(write: Write) -> None:
    text = 'methods = ["joint-full", "lwf"]\n' + AXES + '[method.joint-full]\n"stream.scenario" = ["il"]\n'
    cells = load_grid(write(text)).cells
    assert {c.settings["stream.scenario"] for c in cells if c.method == "joint-full"} == {"il"}
    assert {c.settings["stream.scenario"] for c in cells if c.method == "lwf"} == {"il", "cl"}


def test_cases_are_taken_as_they_are_written(write: Write) -> None:
    text = 'methods = ["agcn++"]\n[[case]]\n[[case]]\nlambda3 = 0.0\nreadout = "dot"\n'
    plain, other = load_grid(write(text)).cells
    assert (plain.settings, other.settings) == ({}, {"lambda3": 0.0, "readout": "dot"})
    assert other.tree["method"]["agcn++"]["readout"] == "dot"


def test_the_same_run_said_twice_is_one_cell(write: Write) -> None:
    text = 'methods = ["agcn++"]\n[[case]]\n[[case]]\nlambda3 = 100.0\n'
    (cell,) = load_grid(write(text)).cells  # 100 is the default
    assert cell.settings == {}


def test_a_cell_is_what_it_learns_not_what_its_grid_is_called(write: Write) -> None:
    here = load_grid(write('methods = ["lwf"]\n', "one")).cells[0]
    there = load_grid(write('methods = ["lwf"]\n', "two")).cells[0]
    assert here.print == there.print
    assert here.print != load_grid(write('methods = ["lwf"]\nseeds = [1]\n')).cells[0].print


@pytest.mark.parametrize("budget", [1, 3])
def test_every_method_gets_the_same_budget(write: Write, budget: int) -> None:
    text = (
        f'methods = ["fine-tuning", "agcn++"]\nbudget = {budget}\n[axes]\n'
        '"learner.optimizer.lr" = [1e-3, 1e-4, 1e-5]\n[method."agcn++"]\nlambda3 = [0.0, 1.0, 10.0]\n'
    )
    grid = load_grid(write(text))
    assert Counter(cell.method for cell in grid.cells) == {"fine-tuning": budget, "agcn++": budget}
    assert [cell.name for cell in grid.cells] == [cell.name for cell in load_grid(write(text)).cells]


def test_the_budget_is_for_each_thing_that_is_to_have_a_winner(write: Write) -> None:
    text = 'methods = ["lwf"]\nbudget = 1\n' + AXES + '[select]\nper = ["stream.scenario"]\n'
    cells = load_grid(write(text)).cells
    assert [c.settings["stream.scenario"] for c in cells] == ["il", "cl"]
    assert len({c.settings["learner.optimizer.lr"] for c in cells}) == 1  # the same draw for both


def test_order(write: Write) -> None:
    text = 'methods = ["lwf", "fine-tuning"]\nseeds = [1, 0]\norder = ["stream.scenario", "method"]\n' + AXES
    cells = load_grid(write(text)).cells
    assert [c.settings["stream.scenario"] for c in cells] == ["il"] * 8 + ["cl"] * 8
    assert [c.method for c in cells[:8]] == ["lwf"] * 4 + ["fine-tuning"] * 4
    by_seed = load_grid(write('methods = ["lwf"]\nseeds = [1, 0]\n' + AXES)).cells
    assert [c.seed for c in by_seed] == [1] * 4 + [0] * 4


def test_what_the_search_alone_needs_is_not_in_the_recipe(write: Write) -> None:
    grid = load_grid(write('methods = ["lwf"]\n[search]\n"stream.validation" = 0.25\n[select]\n'))
    assert grid.cells[0].tree["stream"]["validation"] == 0.25
    assert grid.base["stream"]["validation"] == 0.0


def test_settings_given_by_hand_win(write: Write) -> None:
    path = write('methods = ["lwf"]\n[set]\n"loop.batch_size" = 4\n[search]\n"stream.limit" = 9\n')
    grid = load_grid(path, ["loop.batch_size=2", "stream.limit=7"])
    assert grid.cells[0].tree["loop"]["batch_size"] == 2
    assert grid.cells[0].tree["stream"]["limit"] == 7


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "methods: name at least one"),
        ('methods = ["lwf"]\nseed = 3\n', "seed: unknown key; did you mean 'seeds'?"),
        ('methods = ["lwf"]\nseeds = []\n', "seeds: at least one"),
        ('methods = ["lwf"]\nworkers = 0\n', "workers: at least 1"),
        ('methods = ["lfw"]\n', "no method 'lfw'; did you mean 'lwf'?"),
        ('methods = ["lwf"]\naxes = 3\n', "axes: expected a table, got 3"),
        ('methods = ["lwf"]\n[axes]\nlambda1 = 0.1\n', "lambda1: expected a list of values, got 0.1"),
        ('methods = ["lwf"]\n[axes]\nlamda1 = [0.1]\n', "'lamda1' is a setting of none of the methods"),
        ('methods = ["lwf"]\n[axes]\nlambda1 = ["x"]\n', "lambda1: expected a number, got 'x'"),
        ('methods = ["lwf"]\n[method.er]\nreplay = [1]\n', 'method."er": is not among methods'),
        ('methods = ["lwf"]\n[method.lwf]\nlamda1 = [1]\n', "'lamda1': did you mean 'lambda1'?"),
        ('methods = ["lwf"]\n[[case]]\nreadout = "dot"\n', "case 1 (readout) fits none of the methods"),
        ('methods = ["lwf"]\nbudget = 9\n[axes]\nlambda1 = [0.1]\n', "the axes give lwf only 1"),
        ('methods = ["lwf"]\norder = ["sead"]\n', "order: did you mean 'seed'?"),
        ('methods = ["lwf"]\n[select]\nper = ["stream.scenario"]\n', "'stream.scenario' is no axis"),
        ('methods = ["lwf"]\n[select]\nmetric = "map"\n', "select.metric: got 'map'; did you mean 'mAP'?"),
        ('methods = ["lwf"]\nwinners = "nowhere"\n', "winners: nowhere: no such file; run that grid first"),
        ('methods = ["lwf"]\n[set]\n"loop.batchsize" = 1\n', "unknown key; did you mean 'batch_size'?"),
    ],
)
def test_a_slip_is_named(write: Write, text: str, message: str) -> None:
    with pytest.raises(MLCLError) as error:
        load_grid(write(text))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


WINNER = {"mean": 0.5, "deviation": None, "seeds": 1, "tried": 2, "of": 2}


def test_winners_are_where_another_grid_begins(write: Write, tmp_path: Path) -> None:
    found = [
        {"method": "lwf", "per": {"stream.scenario": "il"}, "searched": {"lambda1": 0.3}, **WINNER},
        {"method": "lwf", "per": {"stream.scenario": "cl"}, "searched": {"lambda1": 0.7}, **WINNER},
        {"method": "er", "per": {}, "searched": {"learner.optimizer.lr": 0.5}, **WINNER},
    ]
    (tmp_path / "runs" / "search").mkdir(parents=True)
    store.write_json(tmp_path / "runs" / "search" / "grid.json", {"winners": found})
    text = 'methods = ["lwf", "er", "ewc"]\nwinners = "search"\n[axes]\n"stream.scenario" = ["il", "cl"]\n'
    grid = load_grid(write(text), root=tmp_path / "runs")
    chosen = {(c.method, c.settings["stream.scenario"]): c.tree["method"][c.method] for c in grid.cells}
    assert chosen["lwf", "il"]["lambda1"] == 0.3
    assert chosen["lwf", "cl"]["lambda1"] == 0.7
    assert chosen["er", "il"]["optimizer"]["lr"] == chosen["er", "cl"]["optimizer"]["lr"] == 0.5
    assert grid.lacking == ("search has no winner for ewc",)
    unnamed = load_grid(write(text.split("\n", 1)[1]), root=tmp_path / "runs")
    assert {c.method for c in unnamed.cells} == {"lwf", "er"}


def test_several_files_are_checked_together(write: Write, tmp_path: Path) -> None:
    first = write('methods = ["lwf"]\n[select]\n', "first")
    second = write('methods = ["lwf"]\nwinners = "first"\n', "second")
    assert [g.head.name for g in plan_grids([first, second], tmp_path)] == ["first", "second"]
    with pytest.raises(ConfigError, match="winners: first does not come before it"):
        plan_grids([second, first], tmp_path)
    with pytest.raises(ConfigError, match="first: the name, and so the folder, of two grids"):
        plan_grids([first, first], tmp_path)
    slip = write('methods = ["lwf"]\nwinners = "first"\n[axes]\nlamda1 = [1.0]\n', "slip")
    with pytest.raises(ConfigError, match="lamda1"):
        plan_grids([first, slip], tmp_path)


PAGE = (Path(__file__).parents[2] / "docs" / "grid.md").read_text()
BLOCKS = re.findall(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=[block.split("\n", 1)[0] for block in BLOCKS])
def test_the_pages_grids(block: str, tmp_path: Path) -> None:
    path = tmp_path / block.split("\n", 1)[0].removeprefix("# ")
    path.write_text(block)
    assert load_grid(path, without_winners=True).cells


def test_the_grids_of_the_real_figures_are_sound(monkeypatch: pytest.MonkeyPatch) -> None:
    root = Path(__file__).parents[2]
    monkeypatch.chdir(root)
    names = ("search", "final", "variants", "seeds", "paper", "smoke")
    grids = plan_grids([root / "benchmarks" / "coco128" / f"{name}.toml" for name in names], Path("nowhere"))
    search, final, *_ = grids
    tried = Counter(cell.method for cell in search.cells)
    assert set(tried.values()) == {6}
    assert set(tried) == {cell.method for cell in final.cells}
    assert all(cell.tree["stream"]["validation"] for cell in search.cells)
    assert not any(cell.tree["stream"]["validation"] for cell in final.cells)


def test_every_key_is_on_the_page() -> None:
    told = re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)
    assert set(told) == {field.name for field in dataclasses.fields(Head)}
