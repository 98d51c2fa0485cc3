"""mlcl data: what sources there are."""

from __future__ import annotations

import typer

from mlcl.cli.listing import first_line, print_list

app = typer.Typer(help="List the data sources.", invoke_without_command=True)


@app.callback()
def top(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        list_sources()


@app.command(name="list")
def list_sources() -> None:
    """List the data sources."""
    from mlcl.data.source import sources

    print_list((name, first_line(kind)) for name, kind in sources().items())
