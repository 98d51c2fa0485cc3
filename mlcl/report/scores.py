"""The page's first half: the result, its picture, its numbers, and what happened to each task."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape

import numpy as np

from mlcl.metrics import METRICS
from mlcl.report.charts import MARKED, Axis, Line, line_chart, thin
from mlcl.report.data import Run
from mlcl.report.heat import READABLE, heat_table, matrix, scale, shade
from mlcl.report.parts import details, figure, grid, group_row, name, scroll, section, table
from mlcl.report.words import KEYS, facts, headline, hero, points, task_losses, unfinished

OPEN = 60  # classes; the list of more starts folded


def head(run: Run) -> str:
    title, who, missing = escape(headline(run)), hero(run), escape(unfinished(run))
    if who:
        label = escape(who.label)
        title = title.replace(label, f'<b class="{who.look.css}">{label}</b>', 1)
    tasks = "".join(
        f"<li><b>{escape(', '.join(task['classes']))}</b> <span>{task['train']:,} images</span></li>"
        for task in run.tasks
    )
    return (
        f'<header><p class="kicker">{escape(run.folder.name)}</p><h1>{title}</h1>'
        + (f'<p class="missing">Not all is done. {missing}.</p>' if missing else "")
        + f"<p>{escape(facts(run))}</p><details{' open' * (len(run.class_names) <= OPEN)}>"
        f'<summary>The tasks, in order</summary><ol class="tasks">{tasks}</ol></details></header>'
    )


def curves(run: Run) -> str:
    """The main picture: mAP after each task."""
    size = len(run.tasks)
    if size == 1:  # the table says it all
        return ""
    values = {m.name: (m.a()[-1] if m.bound else np.diag(m.a())) for m in run.methods}
    lines = []
    for method in run.methods:
        shape = method.look.mark if size <= MARKED else ""
        y = (100 * values[method.name]).tolist()
        lines.append(Line(method.label, method.css, range(1, size + 1), y, shape, dashed=method.bound))
    axis = Axis.over([y for line in lines for y in line.y], 0, 100)
    alt = f"mAP after each task, on all classes seen so far. {headline(run)}"

    def chart(width: int, height: int, room: int) -> str:
        ticks = [(k + 1, str(k + 1), str(run.edges[k + 1])) for k in thin(size, room)]
        return line_chart(lines, axis, ticks, alt=alt, width=width, height=height)

    note = "After each task a method is tested on all classes seen so far: more tasks, a harder test."
    if any(method.bound for method in run.methods):
        note += " Dashed: learnt everything at once, and scored on the same tests."
    heads = ["after task", *map(str, range(1, size + 1))]
    rows = [(name(method), [points(v) for v in values[method.name]]) for method in run.methods]
    wide, narrow = chart(1000, 430, 26), chart(400, 340, 6)
    return section(
        "mAP as tasks arrive",
        note,
        f'<figure><div class="wide">{wide}</div><div class="narrow">{narrow}</div><figcaption>Across: tasks '
        "learnt, and below them the number of classes seen. Up: mAP in percent.</figcaption></figure>"
        + details("As a table", table(heads, rows, "mAP after each task")),
    )


def numbers(run: Run) -> str:
    """Every metric in every reading."""
    finals = METRICS[1:]
    columns = [("mAP", key) for key in KEYS] + [(metric, "final") for metric in finals]
    groups = group_row([("mAP", 3), ("mAP forgotten", 3), ("final, at a threshold of one half", len(finals))])
    heads = [*KEYS.values(), *finals]
    more = ""
    for key, word in KEYS.items():
        if key != "final":
            title = f"forgotten, {word}" if key.startswith("forgetting") else word
            every = [(metric, key) for metric in METRICS]
            more += f"<h3>{title}</h3>{_scores(run, every, METRICS, title)}"
    return section(
        "All numbers",
        "In percent; bold is the best of the methods that learn task by task. What each column means is "
        '<a href="#definitions">at the end</a>.',
        _scores(run, columns, heads, "Summary", groups) + details("The same for every metric", more),
    )


def tasks(run: Run) -> str:
    """a[l, j] of each method."""
    matrices = {method.name: 100 * method.a() for method in run.methods}
    every = np.concatenate([a[np.isfinite(a)] for a in matrices.values()])
    if len(run.tasks) == 1 or not len(every):
        return ""
    low, high = float(every.min()), float(every.max())
    pixels = len(run.tasks) > READABLE
    figures = []
    for method in run.methods:
        a = matrices[method.name][-1:] if method.bound else matrices[method.name]
        if pixels:
            alt = f"{method.label}: mAP after each task (down) on each test set (across)"
            inside = matrix(shade(a, low, high), key=f"a-{method.look.css}", alt=alt)
        else:
            first = len(run.tasks) - len(a)
            inside = scroll(heat_table(a, low, high, first), f"{method.label}: mAP by task and test set")
        figures.append(figure(name(method), inside))
    stops = np.linspace(low, high, 5)
    legend = [
        (f"{stop:.0f}", float(strength))
        for stop, strength in zip(stops, shade(stops, low, high), strict=True)
    ]
    return section(
        "What happened to each task",
        "Row: after learning that task. Column: on that test set. Down a column one sees how a test set is "
        f"forgotten. {escape(task_losses(run))}",
        (f'<p class="key">mAP {scale(legend)}</p>' if pixels else "")
        + grid(
            figures, "small" if len(run.tasks) <= 7 else "many" if len(run.tasks) <= 12 or pixels else "one"
        ),
    )


def _scores(
    run: Run, columns: Sequence[tuple[str, str]], heads: Sequence[str], label: str, groups: str = ""
) -> str:
    values = {m.name: [m.summary(metric, key) for metric, key in columns] for m in run.methods}
    best = []
    for place, (_, key) in enumerate(columns):
        rivals = [values[m.name][place] for m in run.learners if math.isfinite(values[m.name][place])]
        choose: Callable[[list[float]], float] = min if key.startswith("forgetting") else max
        best.append(choose(rivals) if len(rivals) > 1 else math.nan)
    rows = []
    for method in run.methods:
        pairs = zip(values[method.name], best, strict=True)
        wins = [(value, value == top and not method.bound) for value, top in pairs]
        rows.append((name(method), [f"<b>{points(v)}</b>" if win else points(v) for v, win in wins]))
    return table(["method", *heads], rows, label, groups)
