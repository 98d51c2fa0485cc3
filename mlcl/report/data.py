"""A run folder as the report reads it: measured methods in the recipe's order, nan for what is missing."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from mlcl import store
from mlcl.config import Tree, read_toml
from mlcl.errors import RunError
from mlcl.report.palette import JOINT, Look, looks


@dataclass(frozen=True)
class Method:
    """One method's results.json and log.jsonl; scores are fractions, nan where there is none."""

    name: str
    look: Look
    results: Tree
    log: list[Tree]
    edges: tuple[int, ...]  # of the run

    @property
    def label(self) -> str:
        return self.look.label

    @property
    def css(self) -> str:
        """Its classes on the page."""
        return self.look.css + (" bound" if self.bound else "")

    @property
    def learnt(self) -> tuple[int, int]:
        done, of = self.results["learnt"].split(" of ")
        return int(done), int(of)

    @property
    def finished(self) -> bool:
        return self.learnt[0] == self.learnt[1]

    @property
    def bound(self) -> bool:
        """Sees everything at once; fine-tuning is a bound too, but it learns task by task."""
        return self.name in JOINT or self.learnt[1] < len(self.edges) - 1

    @functools.cached_property
    def evaluations(self) -> dict[int, dict[int, Tree]]:
        """Scores by [tasks learnt][test set], both from 0; a bound's only ones are after the last task."""
        last = len(self.edges) - 2
        return {
            last if self.bound else e["after_task"] - 1: {t["test"] - 1: t for t in e["tests"]}
            for e in self.results["evaluations"]
        }

    def a(self, metric: str = "mAP") -> np.ndarray:
        """(T, T) the metric after task l on test set j."""
        size = len(self.edges) - 1
        a = np.full((size, size), np.nan)
        for row, tests in self.evaluations.items():
            for column, scores in tests.items():
                a[row, column] = _number(scores[metric])
        return a

    def summary(self, metric: str, key: str) -> float:
        return _number(self.results["summary"][metric][key])

    @property
    def last_test(self) -> Tree:
        """The newest scores on all classes seen."""
        tests = self.evaluations[max(self.evaluations)]
        return tests[max(tests)]

    def class_ap(self) -> np.ndarray:
        """(C,) AP at the end, on the last test set."""
        return self._ap(self.last_test["ap"].values())

    def class_change(self) -> np.ndarray:
        """(C,) AP now minus AP when the class had just been learnt, both on the test set of its own task."""
        now = max(self.evaluations)
        change = np.full(self.edges[-1], np.nan)
        for task in range(0 if self.bound else now):
            if task not in self.evaluations:  # measured after the last task only
                continue
            new = slice(self.edges[task], self.edges[task + 1])
            then = self._ap(self.evaluations[task][task]["ap"].values())
            change[new] = (self._ap(self.evaluations[now][task]["ap"].values()) - then)[new]
        return change

    def acms(self) -> dict[int, np.ndarray]:
        """(S, S) label graph by tasks learnt, for the methods that have one."""
        return {
            e["after_task"]: np.array(e["findings"]["acm"], dtype=float)
            for e in self.results["evaluations"]
            if "acm" in e["findings"]
        }

    def _ap(self, values: Any) -> np.ndarray:
        ap = np.full(self.edges[-1], np.nan)
        known = [_number(value) for value in values]
        ap[: len(known)] = known
        return ap


@dataclass(frozen=True)
class Run:
    folder: Path
    stream: Tree  # stream.json
    origin: Tree  # run.json
    config: Tree
    methods: list[Method]  # those with results, in the recipe's order
    waiting: list[str]  # labels of those without

    @classmethod
    def read(cls, folder: Path) -> Run:
        config = read_toml(folder / "config.toml")
        stream = store.read_json(folder / "stream.json")
        edges = _edges(stream)
        names = config["methods"]
        methods, waiting = [], []
        for name, look in zip(names, looks(names), strict=True):
            path = folder / name / "results.json"
            if not path.exists():
                waiting.append(look.label)
                continue
            results = store.read_json(path)
            if results["format"] != store.FORMAT:
                raise RunError(f"{path}: format {results['format']}, this version reads {store.FORMAT}")
            methods.append(Method(name, look, results, store.read_log(path.with_name("log.jsonl")), edges))
        return cls(folder, stream, store.read_json(folder / "run.json"), config, methods, waiting)

    @property
    def class_names(self) -> list[str]:
        return list(self.stream["class_names"])

    @property
    def tasks(self) -> list[Tree]:
        return list(self.stream["tasks"])

    @property
    def edges(self) -> tuple[int, ...]:
        """Columns where tasks begin and end: 0, ..., C."""
        return _edges(self.stream)

    @property
    def oracle(self) -> np.ndarray | None:
        """(C, C) P(class i | class j) from full labels."""
        oracle = self.stream["oracle"]
        return None if oracle is None else np.array(oracle, dtype=float)

    @property
    def learners(self) -> list[Method]:
        """The methods that learn task by task."""
        return [method for method in self.methods if not method.bound]

    def method(self, name: str) -> Method | None:
        return next((method for method in self.methods if method.name == name), None)


def _edges(stream: Tree) -> tuple[int, ...]:
    return tuple(accumulate((len(task["classes"]) for task in stream["tasks"]), initial=0))


def _number(value: float | None) -> float:
    return float("nan") if value is None else float(value)
