"""From what the grids found to docs/results/split-coco.md, its pictures, and the recipes under tuned/.

    python benchmarks/coco128/page.py take FOLDER    copies FOLDER/NAME/grid.json to benchmarks/results/
    python benchmarks/coco128/page.py                fills the page's blocks, draws, writes the recipes
    python benchmarks/coco128/page.py check          exits with 1 if the page is not what that would give

A block stands between `<!-- NAME -->` and `<!-- end -->`; the words around it are written by hand.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))  # its neighbour, also when it is imported by a test
from drawing import draw

from mlcl.config import write_toml
from mlcl.grid.book import read_grid, write_grid
from mlcl.grid.plan import put
from mlcl.recipe import load_recipe
from mlcl.report.palette import JOINT, looks

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "results" / "split-coco.md"
TUNED = ROOT / "mlcl" / "recipes" / "tuned"
GRIDS = ("search", "final", "seeds", "variants", "paper")
BLOCK = re.compile(r"(<!-- ([\w ]+) -->\n).*?(<!-- end -->)", re.DOTALL)
METRICS = ("mAP", "CP", "CR", "CF1", "OP", "OR", "OF1")
PAPER_NAMES = {"a-gem": "AGEM", "fine-tuning": "Fine-Tuning", "multi-task": "Multi-Task"}
FORGOTTEN = "forgetting_absolute"
SHORT = (("mAP", "mean_over_tests"), ("mAP", "final"), ("CF1", "mean_over_tests"), ("OF1", "mean_over_tests"))

Tree = dict[str, Any]


class Found:
    """The rows of all grids, and what the paper prints."""

    def __init__(self, results: Path = RESULTS):
        paths = {name: results / f"split-coco-{name}.json" for name in GRIDS}
        self.grids = {name: read_grid(path) for name, path in paths.items() if path.exists()}
        self.paper: Tree = json.loads((ROOT / "benchmarks" / "paper.json").read_text(encoding="utf-8"))

    def rows(self, grid: str) -> list[Tree]:
        return [row for row in self.grids.get(grid, {"cells": []})["cells"] if row["summary"]]

    def of(self, scenario: str) -> dict[str, list[Tree]]:
        """The finished runs of the whole stream by method, one a seed; those with all tasks' scores first."""
        found: dict[str, dict[int, Tree]] = {}
        for row in [*self.rows("final"), *self.rows("seeds")]:
            # joint-full has all labels in both, and is run once
            if row["settings"]["stream.scenario"] == scenario or row["method"] == "joint-full":
                found.setdefault(row["method"], {}).setdefault(row["seed"], row)
        by_method = {method: list(seeds.values()) for method, seeds in found.items()}
        return dict(sorted(by_method.items(), key=lambda item: -mean(item[1], "mAP", "mean_over_tests")))

    def printed(self, scenario: str, method: str) -> Tree:
        name = PAPER_NAMES.get(method) or looks([method])[0].label
        row: Tree = self.paper["main"]["split-coco"][scenario].get(name, {})
        return row


def mean(rows: Sequence[Tree], metric: str, summary: str) -> float:
    values = [row["summary"][metric][summary] for row in rows]
    values = [value for value in values if value is not None]
    return 100 * float(np.mean(values)) if values else float("nan")


def spread(rows: Sequence[Tree], metric: str, summary: str) -> str:
    """`54.31 ± 0.12`, the deviation (n - 1) only where there are several seeds."""
    found = [row["summary"][metric][summary] for row in rows]
    values = [100 * value for value in found if value is not None]
    if not values:
        return "–"
    behind = f" ± {np.std(values, ddof=1):.2f}" if len(values) > 1 else ""
    return f"{np.mean(values):.2f}{behind}"


NOT_RUN = "Not run yet: the machine was lent for too short a time."


def scores(found: Found, scenario: str) -> str:
    if not found.of(scenario):
        return NOT_RUN
    heads = ("method", "mAP, mean of tests", "the paper's", "mAP, last test", "forgetting", "the paper's",
             "CF1", "the paper's", "OF1", "the paper's", "seeds")  # fmt: skip
    lines = []
    for method, rows in found.of(scenario).items():
        print_ = found.printed(scenario, method)
        lines.append((
            label(method), spread(rows, "mAP", "mean_over_tests"), said(print_.get("mAP")),
            spread(rows, "mAP", "final"), spread(rows, "mAP", FORGOTTEN),
            said(print_.get("forgetting", {}).get("mAP")),
            spread(rows, "CF1", "mean_over_tests"), said(print_.get("CF1")),
            spread(rows, "OF1", "mean_over_tests"), said(print_.get("OF1")), str(len(rows)),
        ))  # fmt: skip
    return table(heads, lines) + lacking(found, scenario)


def lacking(found: Found, scenario: str) -> str:
    planned = {row["method"] for row in found.grids["final"]["cells"]}
    absent = sorted(planned - set(found.of(scenario)))
    if not absent:
        return ""
    return f"\n\nNot finished in the time that the machine was lent for: {', '.join(map(label, absent))}."


def every_metric(found: Found, scenario: str) -> str:
    if not found.of(scenario):
        return NOT_RUN
    lines = []
    for method, rows in found.of(scenario).items():
        lines.append((label(method), *(f"{mean(rows, m, 'mean_over_tests'):.2f}" for m in METRICS)))
        if print_ := found.printed(scenario, method):
            lines.append(("– as printed", *(said(print_.get(metric)) for metric in METRICS)))
    return table(("method", *METRICS), lines)


def settings(found: Found) -> str:
    """What the search chose, and what the choice was worth."""
    lines = []
    searched = found.rows("search")
    for winner in found.grids["search"]["winners"]:
        scores = [r["summary"]["mAP"]["mean_over_tests"] for r in searched if r["method"] == winner["method"]]
        chosen = in_words(winner["searched"])
        lines.append((label(winner["method"]), chosen, f"{100 * max(scores):.2f}", f"{100 * min(scores):.2f}",
                      f"{winner['tried']} of {winner['of']}"))  # fmt: skip
    return table(("method", "best settings", "best", "worst", "tried"), lines)


def short(found: Found) -> str:
    """Every method's best settings on the short stream of the search."""
    best: dict[str, Tree] = {}
    for row in found.rows("search"):
        kept = best.get(row["method"])
        if kept is None or mean([row], "mAP", "mean_over_tests") > mean([kept], "mAP", "mean_over_tests"):
            best[row["method"]] = row
    ordered = sorted(best.items(), key=lambda item: -mean([item[1]], "mAP", "mean_over_tests"))
    lines = [
        (label(method), *(f"{mean([row], m, s):.2f}" for m, s in SHORT),
         said(found.printed("il", method).get("mAP")))
        for method, row in ordered
    ]  # fmt: skip
    heads = ("method", "mAP, mean of tests", "mAP, last test", "CF1", "OF1", "the paper's mAP")
    return table(heads, lines)


def variants(found: Found) -> str:
    groups: dict[str, list[Tree]] = {}
    for row in found.rows("variants"):
        groups.setdefault(json.dumps(row["settings"]), []).append(row)
    if not groups:
        return NOT_RUN
    base = mean(groups.get("{}", []), "mAP", "mean_over_tests")
    ordered = sorted(groups.items(), key=lambda item: -mean(item[1], "mAP", "mean_over_tests"))
    lines = []
    for key, rows in ordered:
        words = in_words(json.loads(key)) or "**as searched**"
        change = mean(rows, "mAP", "mean_over_tests") - base
        lines.append((words, spread(rows, "mAP", "mean_over_tests"), f"{change:+.2f}", str(len(rows))))
    return table(("what is changed", "mAP, mean of tests", "against as searched", "seeds"), lines)


def paper_settings(found: Found) -> str:
    tuned = found.of("il")
    rows = sorted(found.rows("paper"), key=lambda row: -row["summary"]["mAP"]["mean_over_tests"])
    if not rows:
        return NOT_RUN
    lines = [
        (label(row["method"]), spread([row], "mAP", "mean_over_tests"),
         spread(tuned.get(row["method"], []), "mAP", "mean_over_tests"),
         said(found.printed("il", row["method"]).get("mAP")))
        for row in rows
    ]  # fmt: skip
    return table(("method", "the paper's optimiser", "tuned", "the paper's figure"), lines)


def acm(found: Found) -> str:
    if not found.of("il"):
        return NOT_RUN
    lines = []
    for scenario in ("il", "cl"):
        for method, rows in found.of(scenario).items():
            known = [row["acm"] for row in rows if "acm" in row]
            if known:
                names = ("estimated", "mean", "identity", "random")
                gaps = (f"{np.mean([gap[name] for gap in known]):.4f}" for name in names)
                lines.append((label(method), scenario.upper(), *gaps))
    heads = ("method", "scenario", "estimated matrix", "the oracle's mean everywhere", "identity", "random")
    return table(heads, lines)


def made(found: Found, *names: str) -> str:
    """How the figures of these grids came about; the first one says what was learnt."""
    if names[0] not in found.grids or not found.rows(names[0]):
        return NOT_RUN
    grid = found.grids[names[0]]
    made, tasks = grid["made"], grid["tasks"]
    seeds = sorted({row["seed"] for name in names for row in found.rows(name)})
    spent = sum(row["seconds"] or 0 for name in names for row in found.rows(name))
    runs = sum(len(found.rows(name)) for name in names)
    backbone = next(iter(grid["recipe"]["method"].values()))["backbone"]
    return "\n".join((
        f"- Images: {sum(task['train'] for task in tasks):,} for training in {len(tasks)} tasks, "
        f"seen once; {tasks[-1]['test']:,} others to {'choose by' if names[0] == 'search' else 'test on'}.",
        f"- Network: {backbone['name']} at {backbone['size']} pixels, batch norm {backbone['norm']}, "
        f"batches of {grid['recipe']['loop']['batch_size']}.",
        f"- Machine: {made['gpu'] or 'CPU'}, PyTorch {made['torch']}, {made['date'][:10]}; {runs} runs, "
        f"{spent / 60:.0f} minutes if they had not run side by side.",
        f"- Seeds of weights, order and augmentation: {', '.join(map(str, seeds))}; the table says how many "
        "of them a row has.",
    ))  # fmt: skip


def filled(text: str, found: Found) -> str:
    blocks = {
        "made": lambda: made(found, "final", "seeds"),
        "scores il": lambda: scores(found, "il"),
        "scores cl": lambda: scores(found, "cl"),
        "picture il": lambda: picture(found, "il"),
        "picture cl": lambda: picture(found, "cl"),
        "short": lambda: short(found),
        "short made": lambda: made(found, "search"),
        "settings": lambda: settings(found),
        "variants": lambda: variants(found),
        "paper settings": lambda: paper_settings(found),
        "acm": lambda: acm(found),
        "every metric il": lambda: every_metric(found, "il"),
        "every metric cl": lambda: every_metric(found, "cl"),
    }
    return BLOCK.sub(lambda m: f"{m[1]}{blocks[m[2]]()}\n{m[3]}", text)


def picture(found: Found, scenario: str) -> str:
    name = f"split-coco-{scenario}.png"
    return f"![mAP after each task, {scenario.upper()}]({name})" if found.of(scenario) else NOT_RUN


def pictures(found: Found, folder: Path) -> None:
    """mAP after each task, of the first seed."""
    if not found.rows("final"):
        return
    tasks = found.grids["final"]["tasks"]
    seen = np.cumsum([len(task["classes"]) for task in tasks]).tolist()
    for scenario in ("il", "cl"):
        curves = {}
        for method, rows in found.of(scenario).items():
            whole = [row for row in rows if len(row["after"]) == len(tasks)]
            if whole:
                curves[method] = [100 * scores[-1] for scores in whole[0]["mAP"]]
            elif method in JOINT:
                curves[method] = [100 * value for value in rows[0]["mAP"][-1]]
        if curves:
            title = f"Split-COCO, {scenario.upper()}: mAP (%) after each task, on all classes seen so far"
            draw(curves, seen, title, folder / f"split-coco-{scenario}.png")


def recipes(found: Found, folder: Path) -> None:
    """The winners as recipes beside the paper's own; their base is written by hand."""
    kept = folder / "split-coco"
    kept.mkdir(parents=True, exist_ok=True)
    for winner in found.grids["search"]["winners"]:
        method = winner["method"]
        chosen = put(found.grids["search"]["recipe"], winner["searched"], method)["method"][method]
        chosen.pop("embeddings", None)  # a file of that machine
        chosen["backbone"].pop("size")  # the search may run smaller
        base = load_recipe(str(folder / "_split-coco.toml"), [{"methods": [method]}]).tree()["method"][method]
        tree = {
            "extends": "../_split-coco.toml",
            "name": f"tuned-{method}",
            "methods": [method],
            "method": {method: differing(chosen, base)},
        }
        title = (
            f"# Split-COCO, {label(method)}: the best of {winner['of']} settings on held-out training images."
        )
        (kept / f"{method}.toml").write_text(f"{title}\n{write_toml(tree)}", encoding="utf-8")


def differing(tree: Mapping[str, Any], base: Mapping[str, Any]) -> Tree:
    """What the tree says otherwise than the base."""
    found: Tree = {}
    for key, value in tree.items():
        if isinstance(value, dict):
            if below := differing(value, base[key]):
                found[key] = below
        elif value != base[key]:
            found[key] = value
    return found


def take(folder: Path, results: Path = RESULTS) -> None:
    """Without the command, which names places on another machine."""
    for name in GRIDS:
        if (folder / name / "grid.json").exists():
            grid = read_grid(folder / name)
            grid["made"].pop("command", None)
            write_grid(results / f"split-coco-{name}.json", grid)


def table(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rule = ["---", *("---:" for _ in heads[1:])]
    return "\n".join(f"| {' | '.join(line)} |" for line in (heads, rule, *lines))


def label(method: str) -> str:
    return looks([method])[0].label


def in_words(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"`{key.removeprefix('learner.')} = {value}`" for key, value in settings.items())


def said(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def main(arguments: Sequence[str]) -> int:
    if arguments[:1] == ["take"] and len(arguments) == 2:
        take(Path(arguments[1]))
        return 0
    if arguments not in ([], ["check"]):
        print(__doc__)
        return 2
    found = Found()
    text = PAGE.read_text(encoding="utf-8")
    new = filled(text, found)
    if arguments:
        return int(new != text)
    PAGE.write_text(new, encoding="utf-8")
    pictures(found, PAGE.parent)
    recipes(found, TUNED)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
