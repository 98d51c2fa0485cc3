"""Recipes: one experiment as TOML."""

from __future__ import annotations

import dataclasses
import tomllib
from pathlib import Path
from typing import Any

import pytest
import torch

from mlcl import learners, recipe
from mlcl.config import write_toml
from mlcl.data.source import sources
from mlcl.errors import ConfigError
from mlcl.recipe import DEFAULT, Recipe, find, load_recipe, recipes, resolve

TINY = {"backbone": {"name": "tiny"}}


def write(folder: Path, text: str, name: str = "r.toml") -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return str(path)


def again(loaded: Recipe, folder: Path) -> Recipe:
    """As a run writes it beside its results, and reads it to go on."""
    return load_recipe(write(folder, write_toml(loaded.tree()), "config.toml"))


@pytest.mark.parametrize("name", recipes())
def test_every_shipped_recipe_loads(name: str, tmp_path: Path) -> None:
    loaded = load_recipe(name)
    assert loaded.learners
    assert again(loaded, tmp_path).tree() == loaded.tree()
    first = find(name).read_text(encoding="utf-8").split("\n", 1)[0]
    assert first.startswith("# ")  # what `mlcl recipes` shows of it
    assert len(first) > 20


def test_the_default_is_shipped() -> None:
    assert DEFAULT in recipes()
    assert load_recipe().tree() == load_recipe(DEFAULT).tree()


def test_a_recipe_of_every_method_survives_toml(tmp_path: Path) -> None:
    names = sorted(learners())
    loaded = resolve({"methods": names, "learner": {"optimizer": {"lr": 1e-4}}})
    assert list(loaded.learners) == names
    assert again(loaded, tmp_path).tree() == loaded.tree()
    for name in names:
        assert again(loaded, tmp_path).learners[name] == loaded.learners[name]


def test_the_tree_spells_everything_out() -> None:
    tree = resolve({"methods": ["lwf"]}).tree()
    assert tree["data"]["source"] == "scenes"
    assert tree["stream"]["partial"] == 1.0
    assert tree["loop"]["batch_size"] == 32
    assert tree["method"]["lwf"]["optimizer"]["name"] == "adam"
    assert tree["methods"] == ["lwf"]
    assert set(tree["method"]) == {"lwf"}


def test_shared_settings_go_to_the_methods_that_have_them() -> None:
    loaded = resolve(
        {
            "methods": ["fine-tuning", "lwf", "agcn++"],
            "learner": {"lambda1": 0.3, "optimizer": {"lr": 1e-4, "head_lr": 1e-2}},
            "method": {"agcn++": {"lambda1": 0.4, "optimizer": {"lr": 5e-5}}},
        }
    )
    fine, lwf, agcn = (loaded.learners[name] for name in ("fine-tuning", "lwf", "agcn++"))
    assert not hasattr(fine, "lambda1")
    assert (lwf.lambda1, agcn.lambda1) == (0.3, 0.4)
    assert (fine.optimizer.lr, lwf.optimizer.lr, agcn.optimizer.lr) == (1e-4, 1e-4, 5e-5)
    assert agcn.optimizer.head_lr == 1e-2  # one setting of a table overrules that setting alone


def test_a_shared_setting_that_nobody_has_today_is_dropped_but_checked() -> None:
    """`--method` on somebody's recipe must not fail for what another method of it needs."""
    loaded = resolve({"methods": ["fine-tuning"], "learner": {"capacity": 10}})
    assert not hasattr(loaded.learners["fine-tuning"], "capacity")
    with pytest.raises(ConfigError, match=r"learner\.capacity: expected a whole number, got 'x'"):
        resolve({"methods": ["fine-tuning"], "learner": {"capacity": "x"}})


def test_settings_of_a_method_that_does_not_run_are_dropped_but_checked() -> None:
    loaded = resolve({"methods": ["fine-tuning"], "method": {"lwf": {"lambda1": 0.3}}})
    assert list(loaded.learners) == ["fine-tuning"]
    with pytest.raises(ConfigError, match=r'method\."lwf"\.lambda9: unknown key; did you mean'):
        resolve({"methods": ["fine-tuning"], "method": {"lwf": {"lambda9": 0.3}}})


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"sead": 1}, "r: sead: unknown key; did you mean 'seed'?"),
        ({"steam": {}}, "r: steam: unknown key; did you mean 'stream'?"),
        ({"extend": "x.toml"}, "r: extend: unknown key; did you mean 'extends'?"),
        ({"seed": "1"}, "r: seed: expected a whole number, got '1'"),
        ({"seed": -1}, "r: seed: -1 is negative"),
        ({"threads": -1}, "r: threads: -1 is negative"),
        ({"threads": 100_000}, "r: threads: 100000 are more than 1024"),
        ({"name": "../up"}, "r: name: '../up' cannot name a folder"),
        ({"name": ""}, "r: name: '' cannot name a folder"),
        ({"extends": "x.toml"}, "r: extends: belongs into a recipe file"),
        ({"methods": ["lwf", "er", "lwf"]}, "r: methods: 'lwf' is named twice"),
        ({"methods": ["AGCN++"]}, "no method 'AGCN++'; did you mean 'agcn++'?"),
        ({"device": "gpu"}, "r: device: got 'gpu'; "),
        ({"methods": "lwf"}, "r: methods: expected a list, got 'lwf'; write [\"lwf\"]"),
        ({"methods": "er,lwf"}, 'r: methods: expected a list, got \'er,lwf\'; write ["er", "lwf"]'),
        ({"methods": []}, "r: methods: name at least one"),
        ({"methods": ["lfw"]}, "no method 'lfw'; did you mean 'lwf'?"),
        ({"data": {"source": "scene"}}, "no data source 'scene'; did you mean 'scenes'?"),
        ({"data": {"source": 5}}, "no data source '5'; "),
        ({"data": {"sise": 1}}, "r: data.sise: unknown key; "),
        ({"data": "scenes"}, "r: data: expected a table, got 'scenes'"),
        ({"stream": []}, "r: stream: expected a table, got []"),
        ({"stream": {"scenario": "ill"}}, "r: stream.scenario: got 'ill'; did you mean 'il'?"),
        ({"stream": {"wey": 3}}, "r: stream.wey: unknown key; did you mean 'way'?"),
        ({"stream": {"way": 0}}, "r: stream: a task needs at least one class"),
        ({"loop": {"batch_size": 0}}, "r: loop.batch_size: must be at least 1, got 0"),
        ({"loop": {"batchsize": 8}}, "r: loop.batchsize: unknown key; did you mean 'batch_size'?"),
        ({"learner": 3}, "r: learner: expected a table, got 3"),
        ({"learner": {"optimiser": {}}}, "r: learner.optimiser: unknown key; did you mean 'optimizer'?"),
        ({"learner": {"optimizer": {"lrr": 1}}}, "r: learner.optimizer.lrr: unknown key; did you mean 'lr'?"),
        ({"learner": {"lambda3": "x"}}, "r: learner.lambda3: expected a number, got 'x'"),
        ({"method": 3}, "r: method: expected a table, got 3"),
        ({"method": {"agcn++": 3}}, 'r: method."agcn++": expected a table, got 3'),
        ({"method": {"agcnpp": {}}}, "no method 'agcnpp'; did you mean 'agcn"),
        ({"method": {"agcn++": {"lamda3": 1}}}, 'r: method."agcn++".lamda3: unknown key; did you mean'),
        ({"method": {"agcn++": {"halve": 1}}}, 'r: method."agcn++".halve: expected true or false, got 1'),
    ],
)
def test_a_slip_is_named(tree: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        resolve(tree, "r")
    assert str(error.value).startswith(message)


def test_load_names_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, "[stream]\nwey = 3\n")
    with pytest.raises(ConfigError) as error:
        load_recipe(path)
    assert str(error.value).startswith(f"{path}: stream.wey: unknown key")


def test_settings_win_over_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, 'methods = ["lwf"]\n[stream]\nway = 2\nscenario = "il"\n')
    loaded = load_recipe(path, [{"stream": {"scenario": "cl"}}, "stream.way=3", "methods=['fine-tuning']"])
    assert (loaded.stream.scenario, loaded.stream.way) == ("cl", 3)
    assert list(loaded.learners) == ["fine-tuning"]
    assert load_recipe(path, ["stream.way=3", "stream.way=5"]).stream.way == 5  # the later one wins
    assert load_recipe(path).stream.way == 2


def test_the_public_name_is_this_function() -> None:
    import mlcl

    assert mlcl.load_recipe is load_recipe
    assert recipe.load_recipe is load_recipe


# ---- extends


def test_extends_is_a_chain_beside_each_file(tmp_path: Path) -> None:
    base = 'name = "base"\nmethods = ["lwf"]\n[stream]\nway = 2\npartial = 0.5\n'
    middle = 'extends = "base.toml"\n[stream]\nway = 3\nscenario = "cl"\n'
    write(tmp_path, base, "shared/base.toml")
    write(tmp_path, middle, "shared/middle.toml")
    top = write(tmp_path, 'extends = "shared/middle.toml"\nname = "top"\n[stream]\nway = 6\n', "top.toml")
    loaded = load_recipe(top)
    assert loaded.head.name == "top"
    assert list(loaded.learners) == ["lwf"]
    assert (loaded.stream.way, loaded.stream.scenario, loaded.stream.partial) == (6, "cl", 0.5)
    assert "extends" not in loaded.tree()


@pytest.mark.parametrize("length", [1, 2, 3])
def test_extends_in_a_circle(tmp_path: Path, length: int) -> None:
    files = [write(tmp_path, f'extends = "{(n + 1) % length}.toml"\n', f"{n}.toml") for n in range(length)]
    with pytest.raises(ConfigError, match=rf"0\.toml: extends itself, by way of {length - 1}\.toml"):
        load_recipe(files[0])


def test_extends_what_is_not_there(tmp_path: Path) -> None:
    path = write(tmp_path, 'extends = "bse.toml"\n')
    with pytest.raises(ConfigError, match=r"r\.toml: extends: no file .*bse\.toml"):
        load_recipe(path)
    with pytest.raises(ConfigError, match=r"r\.toml: extends: expected a string, got 3"):
        load_recipe(write(tmp_path, "extends = 3\n"))


def test_a_slip_in_what_is_extended(tmp_path: Path) -> None:
    write(tmp_path, "name = \n", "base.toml")
    with pytest.raises(ConfigError, match=r"base\.toml: not valid TOML"):
        load_recipe(write(tmp_path, 'extends = "base.toml"\n'))


# ---- find


def test_no_such_recipe() -> None:
    message = r"no recipe file or shipped recipe 'scene'; did you mean 'scenes'\?"
    with pytest.raises(ConfigError, match=message):
        load_recipe("scene")


def test_a_folder_is_no_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="folder, not a recipe; go on with a run by: mlcl run --resume"):
        load_recipe(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / DEFAULT).mkdir()  # a folder of images may well have a shipped recipe's name
    assert load_recipe().head.name == load_recipe(DEFAULT).head.name


# ---- what a recipe builds


def test_device(monkeypatch: pytest.MonkeyPatch) -> None:
    def device(wanted: str, cuda: bool) -> str:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
        return resolve({"device": wanted}).device()

    assert [device("auto", False), device("auto", True)] == ["cpu", "cuda"]
    assert [device("cpu", False), device("cpu", True)] == ["cpu", "cpu"]
    assert device("cuda", True) == "cuda"
    with pytest.raises(ConfigError, match="device: PyTorch finds no CUDA device"):
        device("cuda", False)


def test_build_learner() -> None:
    loaded = resolve({"seed": 3, "device": "cpu", "methods": ["fine-tuning", "lwf"], "learner": TINY})
    lwf, twin = loaded.build_learner("lwf"), loaded.build_learner("lwf")
    assert lwf.name == "lwf"
    assert lwf.config == loaded.learners["lwf"]
    assert torch.equal(lwf.generator.get_state(), twin.generator.get_state())
    other = dataclasses.replace(loaded, head=dataclasses.replace(loaded.head, seed=4)).build_learner("lwf")
    assert not torch.equal(lwf.generator.get_state(), other.generator.get_state())


def test_the_written_recipe_is_toml() -> None:
    tree = load_recipe().tree()
    assert tomllib.loads(write_toml(tree)) == tree


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("import json\n\nimport nothing_of_this_name\n", "line 3: ModuleNotFoundError: No module named"),
        ("x = 1\ny = = 2\n", "line 2: SyntaxError: invalid syntax"),
        (
            "from mlcl import Learner\nclass Mine(Learner, name='lwf'): pass\n",
            "two methods are called 'lwf', of",
        ),
        ("from mlcl.data.source import Source\nclass Mine(Source, name='csv'): pass\n", "two data sources"),
    ],
)
def test_what_is_wrong_with_a_plugin_is_said_in_one_line(tmp_path: Path, text: str, says: str) -> None:
    learners(), sources()  # mlcl's own are registered: no other test sees the false ones
    (plugin := tmp_path / "mine.py").write_text(text)
    for _ in range(2):  # nothing of the first attempt is left
        with pytest.raises(ConfigError) as error:
            resolve({"plugins": [str(plugin)], "methods": ["lwf"], "data": {"source": "csv"}})
        assert says in str(error.value)
        assert "\n" not in str(error.value)
