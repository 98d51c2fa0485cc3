"""Dataclasses to TOML and back, and what is said of a slip."""

from __future__ import annotations

import dataclasses
import math
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import hypothesis.strategies as st
import pytest
from hypothesis import given

from mlcl import learners, sources
from mlcl.config import from_tree, merge, override, read_toml, to_tree, write_toml
from mlcl.errors import ConfigError
from mlcl.experiment import LoopConfig
from mlcl.recipe import Head
from mlcl.stream import StreamConfig


@dataclass(frozen=True, kw_only=True)
class Inner:
    rate: float = 0.5
    name: str = "plain"

    def __post_init__(self) -> None:
        if self.rate > 1:
            raise ConfigError(f"rate: {self.rate} is above 1")


@dataclass(frozen=True, kw_only=True)
class Outer:
    flag: bool = False
    count: int = 3
    share: float = 0.25
    word: str = "word"
    choice: Literal["il", "cl"] = "il"
    number: Literal[1, 2] = 1
    widths: tuple[int, ...] = ()
    rates: tuple[float, ...] = (0.9, 0.999)
    words: tuple[str, ...] = ("a",)
    inner: Inner = field(default_factory=Inner)


@dataclass(frozen=True, kw_only=True)
class Needy:
    root: str
    size: int = 1
    deep: Inner


def through_toml(config: Any) -> Any:
    return from_tree(type(config), tomllib.loads(write_toml(to_tree(config))))


def configs() -> list[Any]:
    kinds = [Head, StreamConfig, LoopConfig, Outer]
    kinds += [kind.Config for kind in learners().values()]
    return [kind() for kind in kinds]


@pytest.mark.parametrize("config", configs(), ids=lambda config: type(config).__qualname__)
def test_defaults_survive_toml(config: Any) -> None:
    assert through_toml(config) == config


def changed(config: Any) -> Any:
    """Every setting another one than the default, as far as its own checks allow."""
    for item in dataclasses.fields(config):
        value = getattr(config, item.name)
        if isinstance(value, bool):
            new: Any = not value
        elif isinstance(value, int):
            new = value + 1
        elif isinstance(value, float):
            new = value / 3
        elif isinstance(value, tuple):
            new = value + value
        elif dataclasses.is_dataclass(value):
            new = changed(value)
        else:
            continue
        try:
            config = dataclasses.replace(config, **{item.name: new})
        except ConfigError:
            continue
    return config


@pytest.mark.parametrize("config", configs(), ids=lambda config: type(config).__qualname__)
def test_other_settings_survive_toml(config: Any) -> None:
    other = changed(config)
    assert other != config
    assert through_toml(other) == other


@given(
    st.builds(
        Outer,
        flag=st.booleans(),
        count=st.integers(-(2**63), 2**63 - 1),
        share=st.floats(allow_nan=False, allow_infinity=False),
        word=st.text(st.characters(exclude_categories=["Cs"])),
        choice=st.sampled_from(["il", "cl"]),
        number=st.sampled_from([1, 2]),
        widths=st.lists(st.integers(0, 9)).map(tuple),
        rates=st.lists(st.floats(0, 1)).map(tuple),
        words=st.lists(st.text(st.characters(exclude_categories=["Cs"]))).map(tuple),
        inner=st.builds(Inner, rate=st.floats(0, 1), name=st.text("ab\"'\\#[]=\n\t .")),
    )
)
def test_any_setting_survives_toml(config: Outer) -> None:
    again = through_toml(config)
    assert again == config
    assert to_tree(again) == to_tree(config)


def test_the_trees_types_are_the_fields_types() -> None:
    config = from_tree(Outer, {"share": 1, "rates": [1, 0], "inner": {"rate": 0}})
    assert [type(value) for value in (config.share, *config.rates, config.inner.rate)] == [float] * 4
    assert config.rates == (1.0, 0.0)


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"flag": 1}, "r.toml: table.flag: expected true or false, got 1"),
        ({"flag": "true"}, "r.toml: table.flag: expected true or false, got 'true'"),
        ({"count": 1.0}, "r.toml: table.count: expected a whole number, got 1.0"),
        ({"count": True}, "r.toml: table.count: expected a whole number, got True"),
        ({"count": "3"}, "r.toml: table.count: expected a whole number, got '3'"),
        ({"share": "0.5"}, "r.toml: table.share: expected a number, got '0.5'"),
        ({"share": True}, "r.toml: table.share: expected a number, got True"),
        ({"share": math.nan}, "r.toml: table.share: expected a number, got nan"),
        ({"share": math.inf}, "r.toml: table.share: expected a number, got inf"),
        ({"word": 3}, "r.toml: table.word: expected a string, got 3"),
        ({"word": ["a"]}, "r.toml: table.word: expected a string, got ['a']"),
        ({"choice": "ill"}, "r.toml: table.choice: got 'ill'; did you mean 'il'? (valid: il, cl)"),
        ({"choice": 1}, "r.toml: table.choice: got 1; valid: il, cl"),
        ({"choice": ["il"]}, "r.toml: table.choice: got ['il']; valid: il, cl"),
        ({"number": 1.0}, "r.toml: table.number: got 1.0; valid: 1, 2"),
        ({"number": True}, "r.toml: table.number: got True; valid: 1, 2"),
        ({"widths": 3}, "r.toml: table.widths: expected a list, got 3"),
        ({"widths": "12"}, "r.toml: table.widths: expected a list, got '12'"),
        ({"widths": [1, "2"]}, "r.toml: table.widths[1]: expected a whole number, got '2'"),
        ({"words": [["a"]]}, "r.toml: table.words[0]: expected a string, got ['a']"),
        ({"inner": 1}, "r.toml: table.inner: expected a table, got 1"),
        ({"inner": {"rate": "x"}}, "r.toml: table.inner.rate: expected a number, got 'x'"),
        ({"inner": {"rate": 2}}, "r.toml: table.inner.rate: 2.0 is above 1"),
        ({"cuont": 1}, "r.toml: table.cuont: unknown key; did you mean 'count'?"),
        ({"inner": {"rat": 1}}, "r.toml: table.inner.rat: unknown key; did you mean 'rate'?"),
        ({"xyz": 1}, "r.toml: table.xyz: unknown key; valid: flag, count,"),
    ],
)
def test_a_slip_names_file_and_key(tree: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        from_tree(Outer, tree, "r.toml: table")
    assert str(error.value).startswith(message)
    with pytest.raises(ConfigError) as error:  # the recipe's own keys stand above all tables
        from_tree(Outer, tree, "r.toml: ")
    assert str(error.value).startswith(message.replace("table.", ""))
    with pytest.raises(ConfigError) as error:
        from_tree(Outer, tree)
    assert str(error.value).startswith(message.replace("r.toml: table.", ""))


def test_the_configs_own_checks_name_the_file() -> None:
    for where, start in (("r.toml: table", "r.toml: table."), ("r.toml: ", "r.toml: "), ("", "")):
        with pytest.raises(ConfigError, match=f"^{start}rate: 2.0 is above 1$"):
            from_tree(Inner, {"rate": 2}, where)


def test_a_setting_without_a_default_must_be_given() -> None:
    with pytest.raises(ConfigError, match=r"^r\.toml: data\.root: missing; expected a string$"):
        from_tree(Needy, {"size": 2, "deep": {}}, "r.toml: data")
    with pytest.raises(ConfigError, match=r"^deep: missing; expected a table$"):
        from_tree(Needy, {"root": "x"})
    assert from_tree(Needy, {"root": "x", "deep": {}}) == Needy(root="x", deep=Inner())


def test_every_setting_of_every_source_has_a_type_that_toml_can_keep() -> None:
    for kind in sources().values():
        for item in dataclasses.fields(kind.Config):
            with pytest.raises(ConfigError, match=item.name):  # not a KeyError or an AssertionError
                from_tree(kind.Config, {item.name: object()})


# ---- merge and --set


def test_merge_leaves_its_trees_alone() -> None:
    below: dict[str, Any] = {"a": {"x": 1, "deep": {"k": 1}}, "b": [1, 2]}
    above: dict[str, Any] = {"a": {"y": 2, "deep": {"k": 2}}, "b": [3]}
    merged = merge(below, above)
    assert merged == {"a": {"x": 1, "y": 2, "deep": {"k": 2}}, "b": [3]}
    assert below == {"a": {"x": 1, "deep": {"k": 1}}, "b": [1, 2]}
    assert above == {"a": {"y": 2, "deep": {"k": 2}}, "b": [3]}
    assert merge() == {}
    assert merge({"a": 1}, {"a": {"x": 1}}) == {"a": {"x": 1}}
    assert merge({"a": {"x": 1}}, {"a": 1}) == {"a": 1}


@pytest.mark.parametrize(
    ("setting", "tree"),
    [
        ("seed=3", {"seed": 3}),
        (" stream . way = 2 ", {"stream": {"way": 2}}),
        ("stream.scenario=cl", {"stream": {"scenario": "cl"}}),
        ('stream.scenario="cl"', {"stream": {"scenario": "cl"}}),
        ("stream.scenario='cl'", {"stream": {"scenario": "cl"}}),
        ("stream.widths=[7, 2, 1]", {"stream": {"widths": [7, 2, 1]}}),
        ("methods=['lwf', 'agcn++']", {"methods": ["lwf", "agcn++"]}),
        ("learner.optimizer.lr=1e-4", {"learner": {"optimizer": {"lr": 1e-4}}}),
        ("learner.optimizer={lr = 1e-4}", {"learner": {"optimizer": {"lr": 1e-4}}}),
        ('method."agcn++".lambda3=10', {"method": {"agcn++": {"lambda3": 10}}}),
        ("method.'agcn++'.lambda3=10", {"method": {"agcn++": {"lambda3": 10}}}),
        ("method.agcn++.lambda3=10", {"method": {"agcn++": {"lambda3": 10}}}),
        ("learner.augment.flip=false", {"learner": {"augment": {"flip": False}}}),
        ("learner.augment.flip=False", {"learner": {"augment": {"flip": "False"}}}),
        ("name=", {"name": ""}),
        ("name=a=b", {"name": "a=b"}),
        ("name=two words", {"name": "two words"}),
        ("name=2024-05-06", {"name": "2024-05-06"}),
        ("name=07:32:00", {"name": "07:32:00"}),
        ("name=2024-05-06T07:32:00Z", {"name": "2024-05-06T07:32:00Z"}),
        ("data.root=/photos/a b#c", {"data": {"root": "/photos/a b#c"}}),
        ("data.root=C:\\images", {"data": {"root": "C:\\images"}}),
    ],
)
def test_set(setting: str, tree: dict[str, Any]) -> None:
    assert override({}, setting) == tree


def test_set_keeps_what_stands_beside_it() -> None:
    tree = {"stream": {"way": 4, "scenario": "il"}, "seed": 1}
    assert override(tree, "stream.way=2") == {"stream": {"way": 2, "scenario": "il"}, "seed": 1}
    assert tree["stream"] == {"way": 4, "scenario": "il"}


NONE = ["", "=", "seed", "=3", ".=3", "stream.=3", ".way=3", "stream..way=3", '"".a=1']


@pytest.mark.parametrize("setting", NONE)
def test_set_that_is_none(setting: str) -> None:
    with pytest.raises(ConfigError, match="expected KEY=VALUE, such as"):
        override({}, setting)


# ---- files


def test_read_toml(tmp_path: Path) -> None:
    path = tmp_path / "r.toml"
    path.write_text('name = "Käse"\n[stream]\nway = 2\n', encoding="utf-8")
    assert read_toml(path) == {"name": "Käse", "stream": {"way": 2}}


@pytest.mark.parametrize("content", [b"name = ", b"a = 1\na = 2", b'name = "K\xe4se"'])
def test_read_broken_toml(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "r.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"r\.toml: not valid TOML"):
        read_toml(path)


def test_read_toml_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"r\.toml: no such file"):
        read_toml(tmp_path / "r.toml")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_toml(tmp_path)
