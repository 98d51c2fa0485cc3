"""report.html and report.png, from the files of a run folder alone."""

from __future__ import annotations

from html import escape
from pathlib import Path

from mlcl import store
from mlcl.report.classes import classes
from mlcl.report.data import Run
from mlcl.report.graphs import graphs
from mlcl.report.making import about, losses
from mlcl.report.picture import picture
from mlcl.report.scores import curves, head, numbers, tasks
from mlcl.report.style import style_sheet
from mlcl.report.words import hero

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="mlcl">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
{header}
<main>
{sections}
</main>
</body>
</html>
"""


def write_report(folder: Path) -> Path:
    """May be called at any time of a run; methods without results yet are named as missing."""
    run = Run.read(folder)
    path = folder / "report.html"
    store.write_text(path, page(run))
    if run.methods:
        store.write_bytes(folder / "report.png", picture(run))
    return path


def page(run: Run) -> str:
    who = hero(run)
    parts = [curves, numbers, tasks, classes, graphs, losses] if run.methods else []
    return PAGE.format(
        title=escape(f"{run.folder.name}: {run.stream['name']}, mlcl report"),
        style=style_sheet([method.look for method in run.methods], who.look if who else None),
        header=head(run),
        sections="\n".join(filter(None, (part(run) for part in [*parts, about]))),
    )
