"""report.png: the main curve for a README, with the page's colours and labels."""

from __future__ import annotations

import io

import numpy as np

from mlcl.report.charts import MARKED, Axis, cut, spread, thin
from mlcl.report.data import Run
from mlcl.report.words import hero

INK, SOFT, LINE = "#1a1d21", "#5b646e", "#e3e4df"
FORMS = {"circle": "o", "square": "s", "diamond": "D", "triangle": "^"}


def picture(run: Run) -> bytes:
    """1600 x 800 pixels; the same bytes for the same numbers."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    size = len(run.tasks)
    x = np.arange(1, size + 1)
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # whatever this user prefers
        matplotlib.rcParams.update({"font.family": "DejaVu Sans", "font.size": 9.5})
        figure = Figure(figsize=(8, 4), dpi=200, facecolor="white")
        FigureCanvasAgg(figure)
        names = [cut(method.label, 16) for method in run.methods]
        plot = figure.add_axes((0.05, 0.14, 0.85 - 0.0125 * max(map(len, names)), 0.74))
        who, ends = hero(run), []
        for name, method in zip(names, run.methods, strict=True):
            a = 100 * method.a()
            y = a[-1] if method.bound else np.diag(a)
            plot.plot(
                x, y, color=method.look.light, linestyle=(0, (4, 3)) if method.bound else "-",
                linewidth=2.2 if method is who else 1.2,
                marker=FORMS[method.look.mark] if size <= MARKED else "",
                markersize=4.5, markerfacecolor="white" if method.bound else None, zorder=3, clip_on=False,
            )  # fmt: skip
            if np.isfinite(y).any():
                ends.append((name, method.look.light, float(y[np.isfinite(y)][-1])))
        every = [value for line in plot.lines for value in np.asarray(line.get_ydata(), float)]
        axis = Axis.over(every, 0, 100)
        plot.set_ylim(axis.low, axis.high)
        plot.set_yticks(axis.ticks)
        plot.set_xlim(0.9 if size == 1 else 1, max(size, 1.1))
        ticks = thin(size, 20)
        plot.set_xticks([k + 1 for k in ticks], [f"{k + 1}\n{run.edges[k + 1]}" for k in ticks])
        gap = 0.052 * (axis.high - axis.low)
        places = spread([value for *_, value in ends], gap, axis.low, axis.high)
        for (name, colour, value), place in zip(ends, places, strict=True):
            plot.annotate(
                f"{name} {value:.1f}", (1.025, place), xycoords=("axes fraction", "data"), va="center",
                color=colour, weight="bold", annotation_clip=False, parse_math=False,
            )  # fmt: skip
        plot.grid(axis="y", color=LINE, linewidth=0.8)
        plot.tick_params(length=0, colors=SOFT, labelsize=8.5)
        for side in plot.spines.values():
            side.set_visible(False)
        title = f"{run.stream['name']}: mAP (%) after each task, on all classes seen so far"
        plot.set_title(cut(title, 90), loc="left", fontsize=10, color=INK, pad=12, parse_math=False)
        plot.set_xlabel("task, and classes seen", color=SOFT, fontsize=8.5, loc="left")
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()
