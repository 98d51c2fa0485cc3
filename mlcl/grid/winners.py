"""The best settings of each method: as recipes under tuned/, and as where another grid begins."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mlcl import store
from mlcl.config import Tree, write_toml
from mlcl.errors import ConfigError, RunError, nearest
from mlcl.metrics import METRICS

if TYPE_CHECKING:
    from mlcl.grid.plan import Grid

SUMMARIES = ("final", "mean_over_tests", "incremental")


@dataclass(frozen=True, kw_only=True)
class Select:
    """Which setting is a method's best: the highest mean over seeds."""

    metric: str = "mAP"
    summary: str = "mean_over_tests"
    per: tuple[str, ...] = ()  # axes that are not searched over: one winner for each of their values

    def __post_init__(self) -> None:
        for name, value, valid in (("metric", self.metric, METRICS), ("summary", self.summary, SUMMARIES)):
            if value not in valid:
                raise ConfigError(f"select.{name}: got {value!r}; {nearest(value, valid)}")


@dataclass(frozen=True, kw_only=True)
class Winner:
    method: str
    per: dict[str, Any]  # what it is the best for, such as stream.scenario
    searched: dict[str, Any]  # its settings by the grid's keys
    mean: float
    deviation: float | None
    seeds: int
    tried: int  # settings that were compared
    of: int  # settings that the grid has; more, if the search was stopped or cells failed

    @property
    def name(self) -> str:
        words = [self.method, *map(str, self.per.values())]
        return re.sub(r"[^\w.+-]+", "-", "-".join(words))

    def to_json(self) -> Tree:
        return dataclasses.asdict(self)

    def fits(self, tree: Tree) -> bool:
        """Is this recipe of the kind that it is the best for?"""
        return all(_at(tree, key) in (value, None) for key, value in self.per.items())


def average(rows: Sequence[Tree], metric: str, summary: str) -> list[Tree]:
    """Rows that differ by seed alone become one, with mean, deviation (n - 1) and count."""
    groups: dict[str, list[Tree]] = {}
    for row in rows:
        if row["summary"] is not None and row["summary"][metric][summary] is not None:
            key = json.dumps([row["method"], row["settings"]], sort_keys=True)
            groups.setdefault(key, []).append(row)
    out = []
    for members in groups.values():
        values = np.array([row["summary"][metric][summary] for row in members])
        deviation = float(values.std(ddof=1)) if len(values) > 1 else None
        first = members[0]
        out.append(
            {"method": first["method"], "settings": first["settings"], "mean": float(values.mean()),
             "deviation": deviation, "seeds": len(values)}
        )  # fmt: skip
    return out


def find_winners(select: Select, rows: Sequence[Tree]) -> list[Winner]:
    """Of what is finished; in the order of the rows."""
    found: dict[str, list[Winner]] = {}
    everything: dict[str, set[str]] = {}
    for row in rows:
        per, searched = _parted(row["settings"], select)
        everything.setdefault(json.dumps([row["method"], per]), set()).add(json.dumps(searched))
    for row in average(rows, select.metric, select.summary):
        per, searched = _parted(row["settings"], select)
        key = json.dumps([row["method"], per])
        score = {name: row[name] for name in ("mean", "deviation", "seeds")}
        found.setdefault(key, []).append(
            Winner(
                method=row["method"], per=per, searched=searched, tried=0, of=len(everything[key]), **score
            )
        )
    return [
        dataclasses.replace(max(group, key=lambda winner: winner.mean), tried=len(group))
        for group in found.values()
    ]


def write_recipes(grid: Grid, select: Select, winners: Sequence[Winner], folder: Path) -> None:
    """One recipe of what all share, and one of a few lines for each winner."""
    from mlcl.grid.plan import put

    base = {key: value for key, value in grid.base.items() if key not in ("name", "seed", "methods")}
    kept = {winner.method for winner in winners}
    base["method"] = {name: config for name, config in base["method"].items() if name in kept}
    base["methods"] = sorted(kept)
    title = f"# What the winners of the grid {grid.head.name} share.\n"
    store.write_text(folder / "base.toml", title + write_toml(base))
    for winner in winners:
        tree: Tree = {"extends": "base.toml", "name": winner.name, "methods": [winner.method]}
        tree = put(tree, {**winner.per, **winner.searched}, winner.method)
        note = (
            f"# {winner.method}: the best of {winner.tried} settings by {select.metric} {select.summary} "
            f"in the grid {grid.head.name}, {winner.mean:.4f} over {winner.seeds} seed(s).\n"
        )
        store.write_text(folder / f"{winner.name}.toml", note + write_toml(tree))


def read_winners(path: Path) -> list[Winner]:
    """Of a grid's folder, or of its grid.json."""
    file = path / "grid.json" if path.is_dir() else path
    if not file.is_file():
        raise ConfigError(f"winners: {file}: no such file; run that grid first, with a [select] table in it")
    try:
        winners = [Winner(**winner) for winner in store.read_json(file)["winners"]]
    except (KeyError, TypeError):
        raise RunError(f"{file}: not the grid.json of a grid") from None
    if not winners:
        raise RunError(f"{file}: no winners in it: has its grid a [select] table, and did a cell finish?")
    return winners


def _parted(settings: Mapping[str, Any], select: Select) -> tuple[Tree, Tree]:
    per = {key: value for key, value in settings.items() if key in select.per}
    return per, {key: value for key, value in settings.items() if key not in per}


def _at(tree: Tree, key: str) -> Any:
    node: Any = tree
    for part in key.split("."):
        node = node.get(part) if isinstance(node, Mapping) else None
    return node
