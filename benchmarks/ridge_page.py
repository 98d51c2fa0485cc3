"""Writes the figures of a run of ridge_coco128.py into docs/ridge.md, between its two marks.

python benchmarks/ridge_page.py benchmarks/results/ridge-coco128-h200.json
"""

from __future__ import annotations

import json
import statistics
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[1] / "docs" / "ridge.md"
BEGIN, END = "<!-- made by benchmarks/ridge_page.py -->", "<!-- end -->"
COLUMNS = (("IL", "il"), ("CL", "cl"), ("joint", "joint"))
Values = dict[str, dict[int, tuple[float, float]]]  # scenario -> seed -> final, mean


def table(report: dict[str, Any]) -> str:
    chosen = report["chosen"]
    rows: dict[tuple[str, str], Values] = defaultdict(lambda: defaultdict(dict))
    tried = []
    for run in report["runs"]:
        scores = (run["mAP final"], run["mAP mean"])
        settings = run["settings"]
        if run["tested on"] != "test":
            if not tried or run["features"] == tried[0][0]:
                tried.append((run["features"], settings, scores))
        elif run["method"] == "ridge" and "incremental" in run:
            continue  # the same run once more, with a test after every task
        else:
            method = "ridge+acm" if run["method"] == "ridge+acm" else "ridge"
            extra = {key: value for key, value in settings.items() if chosen.get(key) != value}
            label = ", ".join([method, *(f"{key} {value}" for key, value in extra.items())])
            rows[run["features"], label][run["scenario"]][run["seed"]] = scores
    lines = ["| features | method | " + " | ".join(name for name, _ in COLUMNS) + " |", "| --- " * 5 + "|"]
    for (features, label), values in rows.items():
        cells = [cell(list(values[key].values())) if key in values else "" for _, key in COLUMNS]
        lines.append(f"| {features} | {label} | " + " | ".join(cells) + " |")
    grid = "; ".join(f"{words(settings)}: {final:.1f} / {mean:.1f}" for _, settings, (final, mean) in tried)
    held = report["grid"]["validation"]
    forgot = [run["forgetting_absolute"] for run in report["runs"] if "forgetting_absolute" in run]
    lines += [
        "",
        f"Settings ({words(chosen)}) were chosen in IL on {held:.0%} of the training images, held out, with "
        f"{tried[0][0]}: {grid}.",
    ]
    if forgot:
        lines[-1] += f" Forgetting of the best features in IL: {forgot[0]:.1f} points of mAP."
    taken = "; ".join(f"{name} {about['seconds']:.0f} s" for name, about in report["features"].items())
    lines += ["", f"Features took {taken}; all of it {report['seconds']:.0f} s, on {report['made']['gpu']}."]
    return "\n".join(lines)


def cell(scores: list[tuple[float, float]]) -> str:
    """`final / mean`, over seeds with the deviation."""
    parts = []
    for values in zip(*scores, strict=True):
        spread = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
        parts.append(f"{statistics.mean(values):.1f}{spread}")
    return " / ".join(parts)


def words(settings: dict[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in settings.items())


def main() -> None:
    report = json.loads(Path(sys.argv[1]).read_text())
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    PAGE.write_text(f"{before}{BEGIN}\n{table(report)}\n{END}{after}")


if __name__ == "__main__":
    main()
