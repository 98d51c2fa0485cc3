"""mlcl grid, mlcl table: many recipes, several at a time, and what they showed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer


def grid(
    files: Annotated[
        list[Path], typer.Argument(help="Grid files: methods x seeds x settings. See docs/grid.md")
    ],
    out: Annotated[Path, typer.Option(help="Where each grid gets its folder.")] = Path("runs"),
    workers: Annotated[
        int, typer.Option(min=0, help="Processes side by side. 0 = as many as the files say.")
    ] = 0,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Any key of the recipe, for every run."),
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Check the files, say what would run, and stop.")
    ] = False,
) -> None:
    """Run many recipes, several at a time; run it again to go on where it stopped.

    A grid that begins with another one's winners may be given together with it, after it.
    """
    from rich.console import Console

    from mlcl.cli.stop import Stop
    from mlcl.experiment import Interrupted
    from mlcl.grid import plan_grids, run_grids
    from mlcl.grid.book import read_grid
    from mlcl.grid.table import print_grid

    console = Console()
    if plan:
        for one in plan_grids(files, out, settings or ()):
            console.print(f"{one.head.name}: {len(one.cells)} cells", highlight=False)
            for cell in one.cells:
                console.print(f"  {cell.name}", highlight=False, markup=False, soft_wrap=True)
        return
    ended = 0

    def tell(cell: Any, row: Any) -> None:
        nonlocal ended
        ended += 1
        took = "" if row["seconds"] is None else f"  {row['seconds']:.0f} s"
        said = row["error"] or f"mAP {100 * row['summary']['mAP']['mean_over_tests']:.1f} mean{took}"
        console.print(f"{ended}  {row['folder']}  {said}", highlight=False, markup=False, soft_wrap=True)

    stop = Stop(console, "stopping: every process saves after its batch ...")
    try:
        folders = run_grids(
            files, out, settings=settings or (), workers=workers, tell=tell, stop=stop
        )  # fmt: skip
    except Interrupted:
        console.print("stopped; everything is saved. Run the same command again to go on.")
        raise typer.Exit(130) from None
    found = [read_grid(folder) for folder in folders]
    for tree in found:
        print_grid(tree, console)
    if any(row["error"] for tree in found for row in tree["cells"]):
        raise typer.Exit(1)


def table(
    files: Annotated[list[Path], typer.Argument(help="Grids' folders, or their grid.json files.")],
) -> None:
    """Show what grids found, as tables; while they run, too."""
    from rich.console import Console

    from mlcl.grid.book import read_grid
    from mlcl.grid.table import print_grid

    console = Console()
    for file in files:
        print_grid(read_grid(file), console)
