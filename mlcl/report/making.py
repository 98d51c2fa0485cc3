"""How learning went, and how the run can be repeated."""

from __future__ import annotations

import math
import shlex
from html import escape

import numpy as np

from mlcl.report.charts import Line, spark
from mlcl.report.data import Method, Run
from mlcl.report.parts import details, name, section
from mlcl.report.words import DEFINITIONS

POINTS = 200  # of a curve; more steps are averaged
PLACES = ("task", "step", "images_per_second")  # what an entry of log.jsonl holds beside the loss terms


def losses(run: Run) -> str:
    rows = [_losses(method) for method in run.methods if method.log]
    if not rows:
        return ""
    return section(
        "Loss terms while learning",
        "As weighted in the sum that is descended; upright lines part the tasks. Each curve has its own "
        "scale. The speed is the median.",
        f'<div class="runs">{"".join(rows)}</div>',
    )


def about(run: Run) -> str:
    origin = run.origin
    threads = f"{origin['threads']} thread{'s' * (origin['threads'] != 1)}"
    facts = [
        ("mlcl", f"{origin['mlcl']}" + (f", commit {origin['commit']}" if origin["commit"] else "")),
        ("Python, PyTorch, NumPy", f"{origin['python']}, {origin['torch']}, {origin['numpy']}"),
        ("Machine", f"{origin['platform']}, {threads}, {origin['gpu'] or 'no GPU'}"),
        ("Seed", str(run.config.get("seed", 0))),
        ("Begun", origin["date"]),
        ("Command", shlex.join(origin["command"])),
    ]
    broken = max((m.results.get("broken_images", 0) for m in run.methods), default=0)
    if broken:
        facts.append(("Unreadable images", f"{broken:,}; left out of every score"))
    left_out: list[str] = next((m.last_test["left_out"] for m in run.methods if m.finished), [])
    if left_out:
        facts.append(("Never in the test", f"{', '.join(left_out)}: left out of the means over classes"))
    repeat = shlex.join(["mlcl", "run", str(run.folder / "config.toml")])
    config = (run.folder / "config.toml").read_text(encoding="utf-8")
    return section(
        "How this was made",
        "On a CPU this repeats every number to the bit, on the same machine with as many threads.",
        f"<pre><code>{escape(repeat)}</code></pre>{_pairs(facts)}"
        + details("config.toml, everything spelled out", f"<pre><code>{escape(config)}</code></pre>")
        + f'<h3 id="definitions">What the words mean</h3>{_pairs(DEFINITIONS)}',
    )


def _pairs(pairs: list[tuple[str, str]] | tuple[tuple[str, str], ...]) -> str:
    return f"<dl>{''.join(f'<dt>{escape(term)}</dt><dd>{escape(text)}</dd>' for term, text in pairs)}</dl>"


def _losses(method: Method) -> str:
    # a run that was killed and resumed writes some steps twice: the later entry is the one that counted
    entries = {(entry["task"], entry["step"]): entry for entry in method.log}
    longest: dict[int, int] = {}
    for task, step in entries:
        longest[task] = max(step, longest.get(task, 0))
    tasks = sorted(longest)
    starts = dict(zip(tasks, np.cumsum([0, *(longest[t] for t in tasks)]).tolist(), strict=False))
    series: dict[str, list[tuple[int, float, float]]] = {}
    speeds = []
    for (task, step), entry in sorted(entries.items()):
        speeds.append(entry["images_per_second"])
        for term, value in entry.items():
            if term not in PLACES and math.isfinite(value):
                series.setdefault(term, []).append((task, starts[task] + step, value))
    total = sum(longest.values())
    guides = [float(starts[task]) for task in tasks[1:]] if len(tasks) <= 30 else []
    figures = []
    for term, measured in series.items():
        x, y = _averaged(measured, total)
        alt = f"{method.label}: {term} over {total:,} steps, from {y[0]:.3g} to {y[-1]:.3g}"
        picture = spark(Line(term, method.look.css, x, y), total, alt=alt, guides=guides)
        figures.append(f"<figure><figcaption>{escape(term)}</figcaption>{picture}</figure>")
    speed = f"{total:,} steps, {np.median(speeds):,.0f} images a second"
    columns = f'style="--n:{min(4, len(figures))}"'
    head = f"<h3>{name(method)} <small>{speed}</small></h3>"
    return f'<div {columns}>{head}<div class="sparks">{"".join(figures)}</div></div>'


def _averaged(measured: list[tuple[int, float, float]], total: int) -> tuple[list[float], list[float]]:
    """(task, x, y) -> means of neighbours within a task, so that a long run stays a small page."""
    table = np.array(measured)
    means = []
    for task in np.unique(table[:, 0]):
        mine = table[table[:, 0] == task]
        span = mine[-1, 1] - mine[0, 1] + 1
        parts = np.array_split(mine, min(len(mine), max(2, round(POINTS * span / total))))
        means += [part.mean(axis=0) for part in parts]
    return [float(mean[1]) for mean in means], [float(mean[2]) for mean in means]
