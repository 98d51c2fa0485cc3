"""Curves with their names at their right ends, in the colours that the reports use."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from mlcl.report.charts import Axis, spread
from mlcl.report.palette import JOINT, looks
from mlcl.report.picture import FORMS, INK, LINE, SOFT


def draw(curves: Mapping[str, Sequence[float]], seen: Sequence[int], title: str, path: Path) -> None:
    """mAP in percent after each task, by method; `seen` classes after each. Joint bounds are dashed."""
    x = np.arange(1, len(seen) + 1)
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # whatever this user prefers
        matplotlib.rcParams.update({"font.family": "DejaVu Sans", "font.size": 9.5})
        figure = Figure(figsize=(8, 5), dpi=200, facecolor="white")
        FigureCanvasAgg(figure)
        plot = figure.add_axes((0.05, 0.12, 0.74, 0.8))
        axis = Axis.over([value for curve in curves.values() for value in curve], 0, 100)
        names = looks(list(curves))
        for look in names:
            bound, ours = look.name in JOINT, look.name == "agcn++"
            plot.plot(
                x, curves[look.name], color=look.light, linestyle=(0, (4, 3)) if bound else "-",
                linewidth=2.4 if ours else 1.2, marker=FORMS[look.mark], markersize=4.5,
                markerfacecolor="white" if bound else None, zorder=4 if ours else 3, clip_on=False,
            )  # fmt: skip
        ends = [curves[look.name][-1] for look in names]
        places = spread(ends, 0.046 * (axis.high - axis.low), axis.low, axis.high)
        for look, end, place in zip(names, ends, places, strict=True):
            plot.annotate(
                f"{look.label} {end:.1f}", xy=(x[-1], end), xytext=(1.04, place),
                textcoords=("axes fraction", "data"), va="center", color=look.light, weight="bold",
                annotation_clip=False,
                arrowprops={
                    "arrowstyle": "-", "color": look.light, "alpha": 0.4, "linewidth": 0.8,
                    "relpos": (0, 0.5), "shrinkA": 1, "shrinkB": 4,
                },
            )  # fmt: skip
        plot.set_ylim(axis.low, axis.high)
        plot.set_yticks(axis.ticks)
        plot.set_xlim(1, max(len(seen), 1.1))
        plot.set_xticks(x, [f"{task}\n{classes}" for task, classes in zip(x, seen, strict=True)])
        plot.grid(axis="y", color=LINE, linewidth=0.8)
        plot.tick_params(length=0, colors=SOFT, labelsize=8.5)
        for side in plot.spines.values():
            side.set_visible(False)
        plot.set_title(title, loc="left", fontsize=10, color=INK, pad=12)
        plot.set_xlabel("task, and classes seen", color=SOFT, fontsize=8.5, loc="left")
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", metadata={"Software": None})
    path.write_bytes(buffer.getvalue())
