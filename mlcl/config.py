"""Frozen dataclasses to and from TOML. The Config beside its class is the one source of truth.

Supported fields: bool, int, float, str, Literal[...], tuple[int | float | str, ...], nested dataclasses.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import types
import typing
from collections.abc import Mapping
from datetime import date, time
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

from mlcl.errors import ConfigError, nearest

T = TypeVar("T")
Tree = dict[str, Any]


def read_toml(path: Path) -> Tree:
    import tomllib

    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None


def write_toml(tree: Mapping[str, Any]) -> str:
    import tomli_w

    return tomli_w.dumps(tree)


def to_tree(config: Any) -> Tree:
    """A dataclass as plain dicts, lists and scalars, ready for TOML or JSON."""
    tree = {}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if dataclasses.is_dataclass(value):
            value = to_tree(value)
        elif isinstance(value, tuple):
            value = list(value)
        tree[field.name] = value
    return tree


def from_tree(kind: type[T], tree: Mapping[str, Any], where: str = "") -> T:
    """Builds the dataclass, checking every key and every type; `where` names file and table in errors."""
    hints = _hints(kind)  # type: ignore[arg-type]
    values = {}
    for key, raw in tree.items():
        if key not in hints:
            raise ConfigError(f"{_at(where, key)}: unknown key; {nearest(key, hints)}")
        values[key] = _convert(hints[key], raw, _at(where, key))
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]
        if field.name not in values and field.default is field.default_factory is dataclasses.MISSING:
            raise ConfigError(f"{_at(where, field.name)}: missing; expected {_words(hints[field.name])}")
    try:
        return kind(**values)
    except ConfigError as error:  # raised by a __post_init__, which does not know the file
        raise ConfigError(_located(where, str(error), hints)) from None


def merge(*trees: Mapping[str, Any]) -> Tree:
    """Later trees win, table by table.

    >>> merge({"a": {"x": 1, "y": 2}}, {"a": {"y": 3}})
    {'a': {'x': 1, 'y': 3}}
    """
    merged: Tree = {}
    for tree in trees:
        for key, value in tree.items():
            below = merged.get(key)
            both = isinstance(value, Mapping) and isinstance(below, Mapping)
            merged[key] = merge(below, value) if both else value  # type: ignore[arg-type]
    return merged


def override(tree: Mapping[str, Any], setting: str) -> Tree:
    """Applies one `--set a.b.c=VALUE`; the value is read as TOML, and as a plain string if it is none.

    >>> override({"stream": {"scenario": "il"}}, "stream.scenario=cl")
    {'stream': {'scenario': 'cl'}}
    >>> override({}, "learner.optimizer.lr=1e-4")
    {'learner': {'optimizer': {'lr': 0.0001}}}
    """
    import tomllib

    path, equals, text = setting.partition("=")
    keys = [key.strip().strip("\"'") for key in path.split(".")]
    if not equals or not all(keys):
        raise ConfigError(f"--set {setting}: expected KEY=VALUE, such as learner.optimizer.lr=1e-4")
    try:
        value = tomllib.loads(f"value = {text.strip()}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()
    if isinstance(value, date | time):  # no setting is one; a name may look like one
        value = text.strip()
    branch: Any = value
    for key in reversed(keys):
        branch = {key: branch}
    return merge(tree, branch)


def folder_name(key: str, name: str) -> None:
    """Refuses what would be no folder, or one elsewhere."""
    if not name.strip(". ") or set(name) & set("/\\\0"):
        raise ConfigError(f"{key}: {name!r} cannot name a folder; where folders are made is said by --out")


@functools.cache
def _hints(kind: Any) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


def _at(where: str, key: str) -> str:
    if not where:
        return key
    return f"{where}{key}" if where.endswith(": ") else f"{where}.{key}"


def _located(where: str, message: str, keys: Mapping[str, Any]) -> str:
    """
    >>> _located("a.toml: loop", "loop.epochs: 0 is too few", {"epochs": int})
    'a.toml: loop.epochs: 0 is too few'
    >>> _located("a.toml: data", "no image", {"size": int})
    'a.toml: data: no image'
    """
    table = where.rpartition(": ")[2].rpartition(".")[2]  # the message may name it as well
    for named in (f"{table}.", f"{table}: "):
        message = message.removeprefix(named) if table else message
    if message.partition(":")[0] in keys:
        return _at(where, message)
    return f"{where.removesuffix(': ')}: {message}" if where else message


def _convert(hint: Any, raw: Any, where: str) -> Any:
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        if not isinstance(raw, Mapping):
            raise ConfigError(f"{where}: expected {_words(hint)}, got {raw!r}")
        return from_tree(hint, raw, where)
    origin = get_origin(hint)
    if origin is Literal:
        allowed = get_args(hint)
        if not any(raw == value and type(raw) is type(value) for value in allowed):
            raise ConfigError(f"{where}: got {raw!r}; {nearest(str(raw), map(str, allowed))}")
        return raw
    if origin is tuple:
        if not isinstance(raw, list | tuple):
            items = raw.split(",") if isinstance(raw, str) else [raw]
            write = f"; write {json.dumps(items)}" if isinstance(raw, int | float | str) else ""
            raise ConfigError(f"{where}: expected {_words(hint)}, got {raw!r}{write}")
        item = get_args(hint)[0]
        return tuple(_convert(item, value, f"{where}[{i}]") for i, value in enumerate(raw))
    if origin in (typing.Union, types.UnionType):
        raise AssertionError(f"{where}: unions are not supported in a Config")
    if hint is float and type(raw) is int:
        return float(raw)
    if type(raw) is not hint or (hint is float and not math.isfinite(raw)):
        raise ConfigError(f"{where}: expected {_words(hint)}, got {raw!r}")
    return raw


def _words(hint: Any) -> str:
    """What a setting of this type looks like, in words."""
    words = {bool: "true or false", int: "a whole number", float: "a number", str: "a string"}
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(map(str, get_args(hint)))
    return words.get(hint, "a list" if get_origin(hint) is tuple else "a table")
