"""A split as one picture: how large its tasks are, and how often each class is seen in each of them."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from mlcl.data.artefact import Split
from mlcl.data.gather import counted
from mlcl.split.figures import Figures

INK, SOFT, LINE = "#1a1d21", "#5b646e", "#e3e4df"
SPECIFIC, MIXED, UNTOLD = "#1f5f99", "#8fb8dc", "#c9cdd1"
NUMBERS = 450  # cells with their number in them, at most
NAMES = 90  # classes with their name beside them, at most


def picture(split: Split) -> bytes:
    """A PNG; the same bytes for the same split."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figures = Figures.of(split)
    classes, tasks = len(split.class_names), len(split.tasks)
    rows = min(classes, NAMES)
    below = 0.28 * max(1, len(figures.dropped)) + 0.75  # inches
    height = max(3.2 + below, 1.6 + 0.2 * rows, 1.9 + 0.34 * min(tasks, 40) + below)
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # whatever this user prefers
        matplotlib.rcParams.update({"font.family": "DejaVu Sans", "font.size": 9})
        figure = Figure(figsize=(13, height), dpi=130, facecolor="white")
        FigureCanvasAgg(figure)
        head = 0.95 / height
        title = f"{split.name}: {classes:,} classes in {tasks} tasks"
        figure.text(0.02, 1 - 0.36 / height, title, size=14, weight="bold", color=INK, parse_math=False)
        figure.text(0.02, 1 - 0.6 / height, _summary(split, figures), color=SOFT, size=9.5)
        _sizes(
            figure.add_axes((0.045, (below + 0.5) / height, 0.4, 1 - head - (below + 0.8) / height)),
            split,
            figures,
        )
        _dropped(figure, figures, below, height)
        _heat(figure.add_axes((0.60, 0.62 / height, 0.38, 1 - head - 0.92 / height)), split, figures)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


def _summary(split: Split, figures: Figures) -> str:
    share = figures.share_of_specific()
    specific = "not known" if share is None else f"{share:.0%}"
    shown = (figures.labels * figures.train).sum() / max(1, figures.train.sum())
    return (
        f"{figures.train.sum():,} training, {figures.validation.sum():,} validation and "
        f"{figures.test.sum():,} test images;  {shown:.2f} known labels a training image;  "
        f"specific images: {specific};  largest task / smallest, by images a class: "
        f"{figures.balance(split.widths):.2f}"
    )


def _sizes(plot: Any, split: Split, figures: Figures) -> None:
    tasks = np.arange(len(split.tasks))
    left = np.zeros(len(tasks))
    untold = figures.train - figures.specific - figures.mixed
    parts = (
        ("specific: no class of another task", figures.specific, SPECIFIC),
        ("mixed: classes of other tasks, too", figures.mixed, MIXED),
        ("not known whether specific or mixed", untold, UNTOLD),
    )
    for label, counts, colour in parts:
        if counts.any():
            plot.barh(tasks, counts, left=left, height=0.72, color=colour, label=label)
        left = left + counts
    most = max(1, int(figures.train.max()))
    for task in tasks:
        text = f"{figures.train[task]:,}   + {figures.test[task]:,} test"
        if figures.validation.any():
            text += f", {figures.validation[task]:,} val."
        plot.text(left[task] + most * 0.015, task, text, va="center", color=SOFT, size=8)
    plot.set_xlim(0, most * (1.42 if figures.validation.any() else 1.28))
    plot.set_ylim(len(tasks) - 0.4, -0.6)
    shown = tasks if len(tasks) <= 40 else tasks[:: -(-len(tasks) // 40)]
    plot.set_yticks(shown, [f"{task + 1}" for task in shown])
    plot.set_ylabel("task", color=SOFT)
    plot.set_title("Training images of each task", loc="left", fontsize=10, color=INK, pad=24)
    plot.legend(
        loc="lower left", bbox_to_anchor=(-0.01, 1.0), ncols=3, frameon=False, fontsize=8, labelcolor=SOFT,
        handlelength=1, handleheight=1, borderpad=0, columnspacing=1.4,
    )  # fmt: skip
    plot.xaxis.set_major_formatter("{x:,.0f}")
    plot.grid(axis="x", color=LINE, linewidth=0.8)
    _plain(plot)


def _heat(plot: Any, split: Split, figures: Figures) -> None:
    """Classes down, tasks across; dark where often. The task's own classes are framed."""
    from matplotlib.patches import Rectangle

    seen = figures.positives.T  # (C, T)
    classes, tasks = seen.shape
    shade = np.log1p(seen) / np.log1p(max(1, seen.max()))
    plot.imshow(shade, cmap="Blues", vmin=0, vmax=1.25, aspect="auto", interpolation="nearest")
    if classes * tasks <= NUMBERS and tasks <= 16:
        for c, t in np.ndindex(classes, tasks):
            if seen[c, t]:
                ink = "white" if shade[c, t] > 0.75 else INK
                plot.text(t, c, _short(int(seen[c, t])), ha="center", va="center", size=6.5, color=ink)
    for task, (start, stop) in enumerate(zip(split.edges[:-1], split.edges[1:], strict=True)):
        frame = Rectangle(
            (task - 0.5, start - 0.5),
            1,
            stop - start,
            fill=False,
            edgecolor="#c2410c",
            linewidth=1.3,
            clip_on=False,
        )
        plot.add_patch(frame)
    step = -(-classes // NAMES)
    names = [name if len(name) <= 22 else name[:21] + "…" for name in split.class_names[::step]]
    for label in plot.set_yticks(range(0, classes, step), names):
        label.label1.set_parse_math(False)
    every = -(-tasks // 20)
    plot.set_xticks(range(0, tasks, every), [str(task + 1) for task in range(0, tasks, every)])
    plot.set_xlabel("task", color=SOFT)
    title = "Training images of each task that show a class (its own classes framed)"
    plot.set_title(title, loc="left", fontsize=10, color=INK, pad=8)
    _plain(plot)


def _dropped(figure: Any, figures: Figures, below: float, height: float) -> None:
    total = sum(figures.dropped.values())
    lines = [f"{count:,}  {reason}" for reason, count in figures.dropped.items()] or ["nothing"]
    figure.text(0.045, (below - 0.4) / height, f"Left out: {counted(total, 'image')}", size=10, color=INK)
    for number, line in enumerate(lines):
        place = (below - 0.68 - 0.25 * number) / height
        figure.text(0.045, place, line, color=SOFT, size=9, parse_math=False)


def _short(count: int) -> str:
    return str(count) if count < 1000 else f"{count / 1000:.1f}k" if count < 9950 else f"{count / 1000:.0f}k"


def _plain(plot: Any) -> None:
    plot.tick_params(length=0, colors=SOFT, labelsize=8)
    plot.set_axisbelow(True)
    for side in plot.spines.values():
        side.set_visible(False)
