"""mlcl methods, backbones, recipes: what there is, one line each."""

from __future__ import annotations

from collections.abc import Iterable

import typer


def methods() -> None:
    """List the methods."""
    from mlcl.learner import learners

    print_list((name, first_line(kind)) for name, kind in learners().items())


def backbones() -> None:
    """List the backbones."""
    from mlcl.nn.backbone import BACKBONES

    print_list((name, entry.description) for name, entry in BACKBONES.items())


def recipes() -> None:
    """List the shipped recipes."""
    from mlcl import recipe

    def title(name: str) -> str:
        first = recipe.find(name).read_text(encoding="utf-8").split("\n", 1)[0]
        return first.removeprefix("# ") if first.startswith("#") else ""

    names = recipe.recipes()
    parts = {name: [below for below in names if below.startswith(f"{name}/")] for name in names}
    inside = {below for belows in parts.values() for below in belows}
    for name in sorted(names, key=lambda name: ("/" in name, name)):
        if name in inside:
            continue
        print_list([(name, title(name))], width=42)
        if parts[name]:
            methods = ", ".join(below.rpartition("/")[2] for below in parts[name])
            typer.echo(f"  {name + '/METHOD':<40} one of them alone: {methods}")


def first_line(kind: type) -> str:
    return (kind.__doc__ or "").strip().split("\n", 1)[0]


def print_list(rows: Iterable[tuple[str, str]], width: int = 20) -> None:
    for name, line in rows:
        typer.echo(f"{name:<{width}} {line}")
