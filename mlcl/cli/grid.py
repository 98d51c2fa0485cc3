"""mlcl grid: many recipes, several at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer


def grid(
    file: Annotated[Path, typer.Argument(help="A grid file: methods x seeds x axes. See docs/grid.md")],
    out: Annotated[Path | None, typer.Option(help="The grid's folder. Default: runs/NAME")] = None,
    workers: Annotated[int | None, typer.Option(help="Processes side by side. Default: the file's")] = None,
) -> None:
    """Run many recipes, several at a time; run it again to go on where it stopped."""
    import dataclasses

    from rich.console import Console

    from mlcl.grid import load_grid, run_grid
    from mlcl.report.grid import print_grid

    console = Console()
    loaded = load_grid(file)
    if workers is not None:
        loaded = dataclasses.replace(loaded, head=dataclasses.replace(loaded.head, workers=workers))
    folder = out or Path("runs") / loaded.head.name
    count = 0

    def tell(cell: Any, summary: Any, error: str | None) -> None:
        nonlocal count
        count += 1
        result = error or f"mAP {100 * summary['mAP']['final']:.1f} final"
        console.print(f"{count}/{len(loaded.cells)}  {cell.name}  {result}", highlight=False, markup=False)

    rows = run_grid(loaded, folder, tell)
    print_grid(rows, console)
    if any(row["error"] for row in rows):
        raise typer.Exit(1)
