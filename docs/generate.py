"""Fills the generated blocks of README.md and docs/*.md from the code, so that they cannot rot.

    python docs/generate.py            writes them
    python docs/generate.py --check    says which are out of date, and exits with 1

A block stands between `<!-- generated: NAME -->` and `<!-- end -->`. What it says of a setting is the
comment beside the field in its Config; what it says of a method is the first line of its docstring.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import io
import json
import re
import sys
import textwrap
import tokenize
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from mlcl import GradientLearner, StreamConfig, learners, sources
from mlcl.data.gather import FileConfig
from mlcl.experiment import LoopConfig
from mlcl.nn.backbone import BACKBONES
from mlcl.recipe import Head

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"(<!-- generated: ([^>]+?) -->\n).*?(<!-- end -->)", re.DOTALL)
DECISION = re.compile(r"\bD\d+\b")


def own(registry: dict[str, type]) -> list[tuple[str, Any]]:
    """What mlcl brings: the process may know a plugin's as well."""
    return [(name, kind) for name, kind in registry.items() if kind.__module__.startswith("mlcl.")]


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def filled(text: str) -> str:
    """The page with every block made anew."""
    return BLOCK.sub(lambda m: f"{m[1]}{BLOCKS[m[2]]()}\n{m[3]}", text)


def methods() -> str:
    rows = [(f"`{name}`", _first_line(kind)) for name, kind in own(learners())]
    return table(("method", "what it does"), rows)


def backbones() -> str:
    rows = []
    for name, info in BACKBONES.items():
        own = (str(info.width), str(info.size)) if info.size else ("its own", "its own")
        extra = f"`pip install 'mlcl[{info.extra}]'`" if info.extra else "-"
        rows.append((f"`{name}`", info.description, *own, extra))
    return table(("name", "what it is", "features", "size", "extra"), rows)


def keys(kind: Any, below: Any = None) -> str:
    """Every key of a Config; those that are as in `below` are told of elsewhere."""
    known = {(key, repr(default)) for key, default, *_ in _fields(below)} if below else set()
    rows = [
        (f"`{key}`", f"`{_toml(default)}`", _values(hint), DECISION.sub(_link, comment))
        for key, default, hint, comment in _fields(kind)
        if (key, repr(default)) not in known
    ]
    return table(("key", "default", "values", "meaning"), rows) if rows else "Nothing beyond the shared keys."


def source_keys() -> str:
    parts = [f"Every source of image files:\n\n{keys(FileConfig)}"]
    for name, kind in own(sources()):
        below = FileConfig if issubclass(kind.Config, FileConfig) else None
        parts.append(f'`source = "{name}"`: {_first_line(kind)}\n\n{keys(kind.Config, below)}')
    return "\n\n".join(parts)


def method_keys() -> str:
    parts = []
    for name, kind in own(learners()):
        text = keys(kind.Config, GradientLearner.Config)
        parts.append(f'`[method."{name}"]`: {_first_line(kind)}\n\n{text}')
    return "\n\n".join(parts)


def measured(name: str) -> Any:
    return json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text(encoding="utf-8"))


def scenes_figures() -> str:
    """`mlcl run` with several seeds, from what benchmarks/scenes_seeds.py measured."""
    rows = [
        (f"`{name}`", f"{100 * scores['final']:.1f}", f"{100 * scores['mean_over_tests']:.1f}")
        for name, scores in measured("scenes-seeds")["mean"].items()
    ]
    return table(("method", "final", "mean over tests"), rows)


def ridge_figures() -> str:
    """On the real test images, from what benchmarks/ridge_coco128.py measured; final / mean over tests."""
    runs = measured("ridge-coco128-h200")["runs"]
    cells: dict[frozenset[str], dict[str, str]] = {}
    for run in runs:
        if run["tested on"] == "test" and run["method"] in ("ridge", "joint"):
            row = cells.setdefault(frozenset(run["features"].split("+")), {})
            row[run["scenario"]] = f"{run['mAP final']:.1f} / {run['mAP mean']:.1f}"
    rows = [
        (" + ".join(sorted(features)), *(row.get(name, "") for name in ("il", "cl", "joint")))
        for features, row in sorted(cells.items(), key=lambda cell: cell[1].get("il", ""))
    ]
    return table(("features", "IL", "CL", "all labels at once"), rows)


BLOCKS: dict[str, Callable[[], str]] = {
    "methods": methods,
    "figures of scenes": scenes_figures,
    "figures of ridge": ridge_figures,
    "backbones": backbones,
    "keys of the recipe": lambda: keys(Head),
    "keys of [stream]": lambda: keys(StreamConfig),
    "keys of [loop]": lambda: keys(LoopConfig),
    "keys of [learner]": lambda: keys(GradientLearner.Config),
    "keys of [data]": source_keys,
    "keys of [method]": method_keys,
}


def table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [heads, tuple("---" for _ in heads), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines)


def _fields(kind: Any, prefix: str = "") -> Iterator[tuple[str, Any, Any, str]]:
    """(key, default, type, comment) of a Config and of those nested in it."""
    comments = _comments(kind)
    hints = typing.get_type_hints(kind)
    for field in dataclasses.fields(kind):
        hint, default = hints[field.name], field.default
        if default is dataclasses.MISSING and field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        if dataclasses.is_dataclass(hint):
            yield from _fields(hint, f"{prefix}{field.name}.")
        else:
            yield prefix + field.name, default, hint, comments.get(field.name, "")


def _link(decision: re.Match[str]) -> str:
    return f"[{decision[0]}](decisions.md#{decision[0].lower()})"


def _comments(kind: Any) -> dict[str, str]:
    """What stands behind # beside each field or above it, base classes first."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__[:-1]):
        if not dataclasses.is_dataclass(base):
            continue
        text = textwrap.dedent(inspect.getsource(base))
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        said, alone = {}, set()
        for token in tokens:
            if token.type == tokenize.COMMENT:
                said[token.start[0]] = token.string.lstrip("# ")
                if token.line.lstrip().startswith("#"):
                    alone.add(token.start[0])
        (tree,) = ast.parse(text).body
        assert isinstance(tree, ast.ClassDef)
        for node in tree.body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                assert node.end_lineno is not None
                first = node.lineno
                while first - 1 in alone:  # what stands above the field is of it too
                    first -= 1
                lines = range(first, node.end_lineno + 1)
                words = " ".join(said[line] for line in lines if line in said)
                found[node.target.id] = re.sub(r"\s*\bfmt: skip$|noqa.*$", "", words)
    return found


def _values(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return " ".join(f"`{value}`" for value in get_args(hint))
    if get_origin(hint) is tuple:
        return {int: "whole numbers", float: "numbers", str: "strings"}[get_args(hint)[0]]
    return {bool: "`true` `false`", int: "whole number", float: "number", str: "string"}[hint]


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return f'"{value}"' if isinstance(value, str) else str(value)


def _first_line(kind: type) -> str:
    return (kind.__doc__ or "").strip().partition("\n")[0]


def main(check: bool) -> int:
    stale = 0
    for page in pages():
        text = page.read_text(encoding="utf-8")
        new = filled(text)
        if new != text:
            stale += 1
            sys.stdout.write(f"{page.relative_to(ROOT)} {'is out of date' if check else 'written'}\n")
            if not check:
                page.write_text(new, encoding="utf-8")
    return int(check and stale > 0)


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
