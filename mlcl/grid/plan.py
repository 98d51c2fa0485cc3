"""The grid's TOML, and the cells that it asks for.

recipe = "scenes"                      what every run starts from
methods = ["lwf", "agcn++"]
seeds = [0, 1, 2]
budget = 8                             the same number of settings for every method
winners = "search"                     or: each method's best settings, as the grid of this name found them
order = ["seed", "stream.scenario"]    what comes first when time is short
[axes]                                 every combination of these ...
"stream.scenario" = ["il", "cl"]
[method."agcn++"]                      ... and of these for one method
lambda3 = [0.0, 100.0]
[[case]]                               ... with each of these sets of settings, where a list is too much
propagation = "identity"
[set]                                  fixed for all
"loop.batch_size" = 8
[search]                               fixed for all while searching; the winners do not have it
"stream.validation" = 0.15
[select]                               then the best setting of each method becomes a recipe
per = ["stream.scenario"]
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mlcl.config import Tree, folder_name, from_tree, merge, read_toml
from mlcl.errors import ConfigError, nearest
from mlcl.grid.winners import Select, Winner, read_winners
from mlcl.recipe import load_recipe, resolve

TABLES = ("axes", "method", "case", "set", "search", "select")
RECIPE_TABLES = ("data", "stream", "loop", "seed", "device", "threads")
UNPRINTED = ("name", "methods", "plugins")  # what a cell is called, and where its code was found


@dataclass(frozen=True, kw_only=True)
class Head:
    name: str = "grid"
    recipe: str = "scenes"
    methods: tuple[str, ...] = ()  # empty: those of the winners
    seeds: tuple[int, ...] = (0,)
    winners: str = ""  # a grid's name, folder or grid.json: each method begins with its best settings there
    budget: int = 0  # settings tried of each method, drawn from all that the axes allow; 0 = all
    order: tuple[str, ...] = ("seed",)  # "seed", "method" or an axis: the first varies slowest
    workers: int = 1  # processes side by side
    checkpoints: bool = True  # false: keep the scores alone; a cell that is stopped begins again
    plugins: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        folder_name("name", self.name)
        if self.workers < 1 or self.budget < 0:
            raise ConfigError("workers: at least 1; budget: not negative (0 = everything)")
        if not self.seeds or min(self.seeds) < 0:
            raise ConfigError("seeds: at least one, none negative")


@dataclass(frozen=True)
class Cell:
    method: str
    seed: int
    settings: Mapping[str, Any]  # what the axes say, by key
    tree: Tree = field(repr=False)  # the whole recipe

    @property
    def print(self) -> str:
        """Two cells with the same one are the same run, whatever their grids are called."""
        tree = {key: value for key, value in self.tree.items() if key not in UNPRINTED}
        return hashlib.sha256(json.dumps(tree, sort_keys=True).encode()).hexdigest()[:10]

    @property
    def name(self) -> str:
        words = [f"{key.rpartition('.')[2]}={value}" for key, value in self.settings.items()]
        plain = re.sub(r"[^\w=.+-]+", "-", "_".join([self.method, *words]))[:100]
        return f"{plain}_seed={self.seed}_{self.print}"


@dataclass(frozen=True)
class Grid:
    head: Head
    base: Tree = field(repr=False)  # the recipe under all cells, without what the search alone needs
    search: Tree = field(repr=False)  # that, by key
    cells: tuple[Cell, ...] = field(repr=False)
    select: Select | None
    lacking: tuple[str, ...] = ()  # what could not be planned, a sentence each


def load_grid(
    path: Path,
    settings: Sequence[str] = (),
    *,
    root: Path = Path("runs"),
    without_winners: bool = False,
) -> Grid:
    """The file, under settings (`stream.limit=500`) given after it. Other grids are looked for below `root`.

    `without_winners` checks what can be checked before they are known.
    """
    tree = read_toml(path)
    where = f"{path}: "
    axes, own, cases = tree.pop("axes", {}), tree.pop("method", {}), tree.pop("case", [{}])
    fixed, search, chosen = tree.pop("set", {}), tree.pop("search", {}), tree.pop("select", None)
    for name, table in (("axes", axes), ("method", own), ("set", fixed), ("search", search)):
        if not isinstance(table, dict):
            raise ConfigError(f"{where}{name}: expected a table, got {table!r}")
    if not isinstance(cases, list) or not all(isinstance(case, dict) for case in cases):
        raise ConfigError(f"{where}case: expected tables, as [[case]]")
    head = from_tree(Head, tree, where)
    winners = None
    if head.winners and not without_winners:
        beside = root / head.winners
        winners = read_winners(beside if beside.is_dir() else Path(head.winners))
    methods = head.methods or tuple(dict.fromkeys(w.method for w in winners or ()))
    if not methods and head.winners and without_winners:
        methods = ("fine-tuning",)  # any will do to check the rest
    if not methods:
        raise ConfigError(f"{where}methods: name at least one")
    for method, table in own.items():
        if method not in methods:
            raise ConfigError(f'{where}method."{method}": is not among methods')
        if not isinstance(table, dict):
            raise ConfigError(f'{where}method."{method}": expected a table of lists, got {table!r}')
    for keys in (axes, *own.values()):
        for key, values in keys.items():
            if not isinstance(values, list) or not values:
                raise ConfigError(f"{where}{key}: expected a list of values, got {values!r}")
    select = None if chosen is None else from_tree(Select, chosen, f"{where}select")
    if select:
        _check_per(select, axes, where)
    first: Tree = {"methods": list(methods)} | ({"plugins": list(head.plugins)} if head.plugins else {})
    plain = [f"{key}={json.dumps(value)}" for key, value in fixed.items()]
    base = load_recipe(head.recipe, [first, *plain, *settings])
    trial = load_recipe(head.recipe, [first, *plain, *_as_settings(search), *settings])
    plan = _Plan(head, methods, trial.tree(), axes, own, cases, select, winners, where)
    cells = tuple(plan.ordered())
    return Grid(head, base.tree(), search, cells, select, tuple(plan.lacking))


def read_head(path: Path) -> Head:
    """The grid's own keys, without its tables."""
    tree = {key: value for key, value in read_toml(path).items() if key not in TABLES}
    return from_tree(Head, tree, f"{path}: ")


@dataclass
class _Plan:
    head: Head
    methods: Sequence[str]
    whole: Tree
    axes: Tree
    own: Tree
    cases: list[Tree]
    select: Select | None
    winners: list[Winner] | None
    where: str
    lacking: list[str] = field(default_factory=list)

    def ordered(self) -> list[Cell]:
        self._refuse_what_fits_nothing()
        cells: dict[str, Cell] = {}
        for seed in self.head.seeds:
            for method in self.methods:
                for settings in self.settings(method):
                    cell = self.cell(method, seed, settings)
                    if cell is not None:
                        cells.setdefault(cell.print, cell)  # two ways to say the same run
        if not cells:
            raise ConfigError(f"{self.where}{'; '.join(self.lacking) or 'nothing to run'}")
        return sorted(cells.values(), key=self.place)

    def place(self, cell: Cell) -> tuple[int, ...]:
        """Where in the order, the axes' values being in the order in which they are listed."""
        places = []
        for key in self.head.order:
            if key == "seed":
                places.append(self.head.seeds.index(cell.seed))
            elif key == "method":
                places.append(list(self.methods).index(cell.method))
            else:
                listed = self.own.get(cell.method, {}).get(key) or self.axes.get(key, [])
                value = cell.settings.get(key)
                places.append(listed.index(value) if value in listed else 0)
        return tuple(places)

    def settings(self, method: str) -> Iterator[Tree]:
        """Every combination, or as many as the budget allows for each value of the axes in `per`."""
        shared = {key: values for key, values in self.axes.items() if self.has(key, method)}
        mine = {**shared, **self.own.get(method, {})}
        per = {key: values for key, values in mine.items() if self.select and key in self.select.per}
        searched = {key: values for key, values in mine.items() if key not in per}
        cases = [case for case in self.cases if all(self.has(key, method) for key in case)]
        tried = [
            {**dict(zip(searched, values, strict=True)), **case}
            for *values, case in itertools.product(*searched.values(), cases)
        ]
        budget = self.head.budget
        if budget and len(tried) < budget:
            raise ConfigError(
                f"{self.where}budget: {budget} settings each, but the axes give {method} only {len(tried)}; "
                "give it more values, or lower the budget"
            )
        if budget:
            seed = int.from_bytes(hashlib.sha256(method.encode()).digest()[:8], "big")
            drawn = np.random.default_rng(seed).permutation(len(tried))[:budget]
            tried = [tried[place] for place in sorted(drawn)]
        for setting in tried:
            for values in itertools.product(*per.values()):
                yield {**dict(zip(per, values, strict=True)), **setting}

    def cell(self, method: str, seed: int, settings: Tree) -> Cell | None:
        tree = merge(self.whole, {"methods": [method], "seed": seed, "name": self.head.name})
        tree["method"] = {method: self.whole["method"][method]}
        chosen = put(tree, settings, method)
        if self.winners is not None:
            winner = next((w for w in self.winners if w.method == method and w.fits(chosen)), None)
            if winner is None:
                message = f"{self.head.winners} has no winner for {method}"
                if message not in self.lacking:
                    self.lacking.append(message)
                return None
            chosen = put(put(tree, winner.searched, method), settings, method)
        # spelled out and checked: a slip must not surface after hours of other cells
        return Cell(method, seed, settings, resolve(chosen, self.where.removesuffix(": ")).tree())

    def has(self, key: str, method: str) -> bool:
        return has(self.whole, full_key(key, method))

    def _refuse_what_fits_nothing(self) -> None:
        known = sorted({*self.axes, *(key for table in self.own.values() for key in table)})
        for key in self.head.order:
            if key not in {"seed", "method", *known}:
                raise ConfigError(
                    f"{self.where}order: {nearest(key, ['seed', 'method', *known])}; got {key!r}"
                )
        for key in self.axes:
            if not any(self.has(key, method) for method in self.methods):
                raise ConfigError(f"{self.where}axes: {key!r} is a setting of none of the methods")
        for method, table in self.own.items():
            for key in table:
                if not self.has(key, method):
                    valid = self.whole["method"][method]
                    raise ConfigError(f'{self.where}method."{method}": {key!r}: {nearest(key, valid)}')
        for number, case in enumerate(self.cases, 1):
            if not any(all(self.has(key, method) for key in case) for method in self.methods):
                raise ConfigError(
                    f"{self.where}case {number} ({', '.join(case)}) fits none of the methods: "
                    "no method has all of these settings"
                )


def full_key(key: str, method: str) -> tuple[str, ...]:
    """An axis names a key of the recipe, or one of the method's own settings.

    >>> full_key("learner.optimizer.lr", "a-gem"), full_key("stream.way", "a-gem")
    (('method', 'a-gem', 'optimizer', 'lr'), ('stream', 'way'))
    """
    parts = tuple(key.split("."))
    return parts if parts[0] in RECIPE_TABLES else ("method", method, *(p for p in parts if p != "learner"))


def has(tree: Tree, keys: Sequence[str]) -> bool:
    node: Any = tree
    for key in keys:
        if not isinstance(node, Mapping) or key not in node:
            return False
        node = node[key]
    return True


def put(tree: Tree, settings: Mapping[str, Any], method: str) -> Tree:
    """The tree with these settings of a method and of its recipe."""
    for key, value in settings.items():
        branch: Any = value
        for part in reversed(full_key(key, method)):
            branch = {part: branch}
        tree = merge(tree, branch)
    return tree


def _as_settings(table: Mapping[str, Any]) -> list[str]:
    return [f"{key}={json.dumps(value)}" for key, value in table.items()]


def _check_per(select: Select, axes: Tree, where: str) -> None:
    for key in select.per:
        if key not in axes:
            raise ConfigError(f"{where}select.per: {key!r} is no axis; {nearest(key, axes)}")
