"""A grid.json as a table: one line a method and setting, averaged over seeds."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from mlcl.config import Tree
from mlcl.grid.winners import average
from mlcl.report.terminal import SUMMARY


def print_grid(grid: Tree, console: Console) -> None:
    """Best first, by the mean over the cumulative tests; then what failed, and what is still to be run."""
    rows: Sequence[Tree] = grid["cells"]
    found = [{_key(row): row for row in average(rows, metric, summary)} for _, metric, summary in SUMMARY]
    order = sorted(found[1].values(), key=lambda row: -row["mean"])
    if order:
        table = Table(box=None, pad_edge=False, header_style="bold", title_justify="left")
        table.add_column("method", no_wrap=True)
        table.add_column("settings", min_width=14)
        for head, *_ in SUMMARY:
            table.add_column(head, justify="right", no_wrap=True)
        table.add_column("seeds", justify="right")
        for row in order:
            words = "\n".join(f"{key.rpartition('.')[2]} = {value}" for key, value in row["settings"].items())
            scores = [
                _percent(column.get(_key(row)), spread=head in ("final", "mean"))
                for (head, *_), column in zip(SUMMARY, found, strict=True)
            ]
            table.add_row(Text(row["method"]), Text(words), *scores, str(row["seeds"]))
        console.print(f"{grid['name']}: in percent, mean ± deviation over seeds", highlight=False)
        console.print(table)
    for winner in grid["winners"]:
        best = ", ".join(f"{key}={value}" for key, value in {**winner["per"], **winner["searched"]}.items())
        some = f"{winner['tried']} of {winner['of']}" if winner["tried"] < winner["of"] else winner["of"]
        console.print(Text(f"best of {some}: {winner['method']}: {best or 'as it is'}"))
    for row in rows:
        if row["error"] and row["error"] != "not run yet":
            console.print(Text(f"failed: {row['folder']}: {row['error']}", style="red"))
    for sentence in grid["lacking"]:
        console.print(Text(f"left out: {sentence}", style="yellow"))
    if waiting := sum(row["error"] == "not run yet" for row in rows):
        console.print(Text(f"{waiting} of {len(rows)} not run yet", style="yellow"))


def _key(row: Tree) -> str:
    return f"{row['method']} {sorted(row['settings'].items())}"


def _percent(row: Tree | None, spread: bool) -> str:
    if row is None:
        return "-"
    behind = f" ± {100 * row['deviation']:.1f}" if spread and row["deviation"] is not None else ""
    return f"{100 * row['mean']:.1f}{behind}"
