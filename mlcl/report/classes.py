"""Each class, method beside method: dots on strips that stretch with the page; text keeps its size."""

from __future__ import annotations

import math
from html import escape

import numpy as np

from mlcl.report.charts import Axis
from mlcl.report.data import Method, Run
from mlcl.report.parts import details, name, section, table
from mlcl.report.words import class_losses, points

OPEN = 60  # classes; more start folded


def classes(run: Run) -> str:
    if not run.methods:
        return ""
    ap = {m.name: 100 * m.class_ap() for m in run.methods}
    change = {m.name: 100 * m.class_change() for m in run.methods}
    every = np.concatenate([*change.values(), [0.0]])
    changed = bool(np.isfinite(every[:-1]).any())
    full, moved = Axis(0, 100, (0, 25, 50, 75, 100)), Axis.over(every.tolist(), -100, 100)
    heads = f'<th scope="col">AP at the end{_ruler(full)}</th>'
    if changed:
        heads += f'<th scope="col">Change since it was learnt{_ruler(moved)}</th>'
    body = []
    for number in range(len(run.tasks)):
        body.append(f'<tr class="task"><th colspan="3" scope="colgroup">Task {number + 1}</th></tr>')
        for column in range(run.edges[number], run.edges[number + 1]):
            label = escape(run.class_names[column])
            cells = _strip(run.methods, ap, column, full, 0)
            if changed:
                cells += _strip(run.methods, change, column, moved, 1)
            body.append(f'<tr><th scope="row" title="{label}">{label}</th>{cells}</tr>')
    changes = "; the change is measured on the test set of the class's own task, when just learnt and now."
    key = "".join(name(method) for method in run.methods)
    plot = (
        f'<p class="key">{key}</p><table class="dots"><caption>AP of each class</caption>'
        f'<thead><tr><th scope="col">class</th>{heads}</tr></thead><tbody>{"".join(body)}</tbody></table>'
    )
    if len(run.class_names) > OPEN:
        plot = details(f"All {len(run.class_names):,} classes", plot)
    return section(
        "Each class",
        escape(class_losses(run)) + " AP at the end is on the last test set" + (changes if changed else "."),
        plot + details("As a table", _numbers(run, ap, change)),
    )


def _strip(methods: list[Method], values: dict[str, np.ndarray], column: int, axis: Axis, signed: int) -> str:
    dots, words, places = [], [], []
    for method in methods:
        value = float(values[method.name][column])
        if not math.isfinite(value):
            continue
        words.append(f"{method.label} {points(value / 100, signed=bool(signed))}")
        places.append(100 * axis.at(value))
        dots.append(
            f'<i class="{method.look.mark} {method.css}" style="left:{places[-1]:.1f}%" '
            f'title="{escape(words[-1])}"></i>'
        )
    if places:
        dots.insert(0, f'<s style="left:{min(places):.1f}%;right:{100 - max(places):.1f}%"></s>')
    said = escape("; ".join(words) or "not measured")
    return f'<td><div class="strip" role="img" aria-label="{said}">{_lines(axis)}{"".join(dots)}</div></td>'


def _lines(axis: Axis) -> str:
    lines = []
    for tick in axis.ticks:
        zero = ' class="zero"' if tick == 0 and axis.low < 0 else ""
        lines.append(f'<u{zero} style="left:{100 * axis.at(tick):.1f}%"></u>')
    return "".join(lines)


def _ruler(axis: Axis) -> str:
    step = axis.ticks[1] - axis.ticks[0]
    ticks = []
    for tick in axis.ticks:
        minor = ' class="minor"' if round(tick / step) % 2 else ""  # left out where there is little room
        text = f"{tick:g}".replace("-", "−")
        ticks.append(f'<span{minor} style="left:{100 * axis.at(tick):.1f}%">{text}</span>')
    return f'<div class="ruler" aria-hidden="true">{"".join(ticks)}</div>'


def _numbers(run: Run, ap: dict[str, np.ndarray], change: dict[str, np.ndarray]) -> str:
    rows = []
    for number, task in enumerate(run.tasks):
        for place, positives in enumerate(task["positives"]):
            column = run.edges[number] + place
            cells = [str(number + 1), f"{positives:,}"]
            for method in run.methods:
                moved = change[method.name][column] / 100
                cells.append(points(ap[method.name][column] / 100))
                if not method.bound:
                    cells.append(points(moved, signed=True))
            rows.append((escape(run.class_names[column]), cells))
    heads = ["class", "task", "training positives"]
    for method in run.methods:
        heads += [method.label] if method.bound else [method.label, "change"]
    return table(heads, rows, "AP at the end, and its change since the class was learnt")
