"""The command line. Heavy imports wait inside the commands, so that --help answers at once."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from mlcl.cli import data, grid, listing, run
from mlcl.errors import MLCLError
from mlcl.version import __version__

app = typer.Typer(
    name="mlcl",
    help="Learn new labels month after month, and do not forget: multi-label continual learning.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """The entry point: a user's error is one line and exit code 2; anything else is a bug with its trace."""
    # Before PyTorch is loaded. Its threads would wait for each other in a busy loop: where another program
    # keeps a core, 2 threads then learn 20 times slower than one
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    try:
        app()
    except MLCLError as error:
        typer.echo(f"mlcl: {error}", err=True)
        sys.exit(2)
    except BrokenPipeError:  # `mlcl methods | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


@app.callback(invoke_without_command=True)
def top(
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    if version:
        typer.echo(f"mlcl {__version__}")
        raise typer.Exit


# in the order of --help; a module of commands exports what it has, and is named here
app.command()(run.run)
app.command()(grid.grid)
app.command()(grid.table)
app.command()(listing.methods)
app.add_typer(data.app, name="data")
app.command()(listing.backbones)
app.command()(listing.recipes)
