"""The label graphs that methods estimated, beside the oracle."""

from __future__ import annotations

import math
from html import escape

import numpy as np
import torch

from mlcl import acm
from mlcl.report.charts import MARKED, Axis, Line, line_chart, thin
from mlcl.report.data import Run
from mlcl.report.heat import READABLE, matrix, scale
from mlcl.report.parts import details, figure, grid, group_row, name, section, table

Distances = dict[int, dict[str, float]]  # by tasks learnt

LEAD = (
    "How likely is the class of a row in an image that shows the class of a column? The diagonal, always 1, "
    "is left empty. Lines part the tasks: blocks away from the diagonal join classes of different tasks."
)


def graphs(run: Run) -> str:
    """Nothing if no method has a graph."""
    estimates = {method.name: acms for method in run.methods if (acms := method.acms())}
    methods = [method for method in run.methods if method.name in estimates]
    if not methods:
        return ""
    figures, lead, folded = [], LEAD, ""
    for method in methods:
        last = max(estimates[method.name])
        title = f"{name(method)}, as estimated after task {last}"
        figures.append(_picture(run, estimates[method.name][last], title, method.look.css))
    oracle = run.oracle
    if oracle is not None:
        seen = max(len(a) for acms in estimates.values() for a in acms.values())
        figures.append(_picture(run, oracle[:seen, :seen], "Oracle: counted with all labels", "oracle"))
        far = {key: {k: _distance(a, oracle) for k, a in acms.items()} for key, acms in estimates.items()}
        steps = sorted(set().union(*far.values()))
        plain = {k: _distance(np.eye(run.edges[k]), oracle) for k in steps}
        lines = []
        for m in methods:
            y = [d["rms"] for d in far[m.name].values()]
            lines.append(Line(m.label, m.css, list(far[m.name]), y, m.look.mark if len(y) <= MARKED else ""))
        lines.append(Line("no relations", "plain", steps, [d["rms"] for d in plain.values()], dashed=True))
        ends = ", ".join(f"{line.label} {line.end[1]:.3f}" for line in lines)
        lead = f"{LEAD} Distance to the oracle (RMS) after task {steps[-1]}: {escape(ends)}."
        columns = [(name(m), far[m.name]) for m in methods] + [("no relations", plain)]
        distances = _distances(columns, steps)
        beside = [_curve(lines, steps)] if len(steps) > 1 else []
        if len(steps) <= READABLE:
            beside.append(distances)
        else:
            folded = details("The distances as a table", distances)
        if len(figures) % 2:  # one place is left beside the last picture
            beside = ["".join(beside)]
        figures += [figure("RMS distance to the oracle, by tasks learnt", beside[0]), *beside[1:]]
    probabilities = scale([(f"{p:g}", math.sqrt(p)) for p in (0.01, 0.1, 0.25, 0.5, 1)])
    return section(
        "The label graph", lead, f'<p class="key">Probability {probabilities}</p>{grid(figures)}{folded}'
    )


def _picture(run: Run, a: np.ndarray, title: str, key: str) -> str:
    strength = np.sqrt(a)  # most probabilities are small; the scale says so
    np.fill_diagonal(strength, 0)
    edges = [edge for edge in run.edges[1:-1] if edge < len(a)]
    alt = "Label graph: probability of each class given each other, in order of the tasks"
    names = run.class_names[: len(a)]
    return figure(title, matrix(strength, key=f"acm-{key}", alt=alt, edges=edges, names=names))


def _curve(lines: list[Line], steps: list[int]) -> str:
    axis = Axis.over([0.0, *(y for line in lines for y in line.y)], 0)
    ticks = [(steps[k], str(steps[k]), "") for k in thin(len(steps), 8)]
    alt = "Distance of the estimated label graph to the oracle after each task"
    return line_chart(lines, axis, ticks, alt=alt, width=460, height=290, digits=3)


def _distances(columns: list[tuple[str, Distances]], steps: list[int]) -> str:
    rows = [
        (
            str(k),
            [
                f"{far[k][kind]:.3f}" if k in far else "–"
                for _, far in columns
                for kind in ("rms", "frobenius")
            ],
        )
        for k in steps
    ]
    heads = ["tasks", *(["RMS", "Frobenius"] * len(columns))]
    return table(heads, rows, "Distance to the oracle", group_row((head, 2) for head, _ in columns))


def _distance(a: np.ndarray, oracle: np.ndarray) -> dict[str, float]:
    return acm.distance(torch.from_numpy(a), torch.from_numpy(oracle[: len(a), : len(a)]))
