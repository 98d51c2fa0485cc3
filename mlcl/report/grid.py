"""A grid on the terminal: one line a method and setting, averaged over seeds."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from mlcl.config import Tree
from mlcl.grid import average


def print_grid(rows: list[Tree], console: Console) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("method")
    table.add_column("settings", overflow="fold")
    for name in ("final", "mean over tests", "seeds"):
        table.add_column(name, justify="right")
    final = {(r["method"], str(r["settings"])): r for r in average(rows, "mAP", "final")}
    means = sorted(average(rows, "mAP", "mean_over_tests"), key=lambda row: -row["mean"])
    for row in means:
        last = final[row["method"], str(row["settings"])]
        words = ", ".join(f"{key}={value}" for key, value in row["settings"].items())
        table.add_row(row["method"], words, _percent(last), _percent(row), str(row["seeds"]))
    console.print(table)
    for row in rows:
        if row["error"]:
            console.print(f"failed: {row['folder']}: {row['error']}", style="red", markup=False)


def _percent(row: Tree) -> str:
    spread = "" if row["deviation"] is None else f" ± {100 * row['deviation']:.2f}"
    return f"{100 * row['mean']:.2f}{spread}"
