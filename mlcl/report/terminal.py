"""The result on the terminal: one row a method."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mlcl.report.charts import cut, thin
from mlcl.report.data import Method, Run
from mlcl.report.words import headline, points, unfinished

SUMMARY = (
    ("final", "mAP", "final"),
    ("mean", "mAP", "mean_over_tests"),
    ("forgot", "mAP", "forgetting_absolute"),
    ("CF1", "CF1", "final"),
    ("OF1", "OF1", "final"),
)
CELL = 5  # characters of a score, beside the space before it


def print_summary(folder: Path, console: Console) -> None:
    """mAP after each task (as many as the terminal is wide), the summary, and where the rest is."""
    run = Run.read(folder)
    if run.methods:
        _print_scores(run, console)
    console.print(Text(headline(run)))
    if missing := unfinished(run):
        console.print(Text(f"Not all is done. {missing}.", style="yellow"))
    for what, path in (("run folder", folder), ("report", folder / "report.html")):
        console.print(Text(f"{what:<12}{path}"), soft_wrap=True)  # a broken path cannot be clicked


def _print_scores(run: Run, console: Console) -> None:
    names = [cut(method.label, 20) for method in run.methods]
    room = console.width - max(map(len, names)) - 1 - sum(max(CELL, len(head)) + 1 for head, *_ in SUMMARY)
    shown = thin(len(run.tasks), max(1, room // (CELL + 1)))
    table = Table(box=box.SIMPLE_HEAD, padding=0, show_edge=False)
    table.add_column("method", no_wrap=True)
    for k in shown:
        table.add_column(str(k + 1), justify="right", no_wrap=True, min_width=CELL, style="dim")
    for head, *_ in SUMMARY:
        table.add_column(head, justify="right", no_wrap=True, min_width=CELL)
    rows = [_scores(method, shown) for method in run.methods]
    contest = [row for row, method in zip(rows, run.methods, strict=True) if not method.bound]
    low = [False] * len(shown) + [head == "forgot" for head, *_ in SUMMARY]
    best = [_best(column, least) for column, least in zip(zip(*contest, strict=True), low, strict=False)]
    for name, row, method in zip(names, rows, run.methods, strict=True):
        cells = [Text(name)]
        for place, value in enumerate(row):
            wins = not method.bound and value == best[place]
            cells.append(Text(points(value).replace("–", "-"), style="bold not dim" if wins else ""))
        table.add_row(*cells)
    some = "" if len(shown) == len(run.tasks) else f" ({len(shown)} of {len(run.tasks)} shown)"
    console.print(Text(f"mAP in percent after each task{some}, on all classes seen so far"))
    console.print(table)


def _scores(method: Method, shown: Sequence[int]) -> list[float]:
    curve = np.diag(method.a())[list(shown)].tolist()
    if method.bound:  # never was after a task
        curve = [math.nan] * len(shown)
    return [*curve, *(method.summary(metric, key) for _, metric, key in SUMMARY)]


def _best(values: Sequence[float], least: bool) -> float:
    """nan where there is no contest."""
    real = [value for value in values if math.isfinite(value)]
    return math.nan if len(real) < 2 else min(real) if least else max(real)
