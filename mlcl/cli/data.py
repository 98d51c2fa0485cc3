"""mlcl data: what sources there are; splits made, checked and looked at."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mlcl.cli.listing import first_line, print_list
from mlcl.config import Tree, override
from mlcl.errors import ConfigError, nearest

if TYPE_CHECKING:
    from rich.console import Console

    from mlcl.recipe import Recipe
    from mlcl.split import Split

app = typer.Typer(help="List the data sources; make, check and show splits.", invoke_without_command=True)

File = Annotated[Path, typer.Argument(metavar="SPLIT", help="A file that `mlcl data build` wrote.")]
Root = Annotated[Path, typer.Option(help="The folder of the images.")]
Flat = Annotated[bool, typer.Option("--flat", help="All images lie in the folder itself.")]
Outside = Annotated[bool, typer.Option("--outside", help="Allow paths and links that leave the folder.")]
LISTED = 10  # findings of a kind on the terminal


@app.callback()
def top(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        list_sources()


@app.command(name="list")
def list_sources() -> None:
    """List the data sources."""
    from mlcl.data.source import sources

    print_list((name, first_line(kind)) for name, kind in sources().items())


@app.command()
def build(
    source: Annotated[str, typer.Argument(help="A source's name (see: mlcl data), or a recipe.")],
    out: Annotated[Path, typer.Option(help="The split file to write, such as coco40.split.")],
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="data.* and stream.*, such as stream.top=40."),
    ] = None,
    plugin: Annotated[
        list[str] | None, typer.Option(help="Run this Python file first: your own sources.")
    ] = None,
) -> None:
    """Decide once which task gets which image, and write it down: a text file to commit, diff and share."""
    from rich.console import Console

    from mlcl import split

    masks = [s for s in settings or [] if s.startswith(("stream.scenario", "stream.partial"))]
    if masks:
        raise ConfigError(f"--set {masks[0]}: not part of a split; it is chosen where the split is used")
    recipe = _recipe(source, settings or [], plugin or [])
    made = split.make_from(recipe.source, recipe.stream)
    before = out.read_bytes() if out.is_file() else None
    made.write(out)
    console = Console()
    _print(made, console)
    after = out.read_bytes()
    news = "unchanged" if after == before else "written" if before is None else "written anew"
    console.print(f"\n{out}: {news}, {len(after):,} bytes", highlight=False, markup=False)


@app.command()
def check(
    file: File,
    root: Root,
    flat: Flat = False,
    outside: Outside = False,
    against: Annotated[
        str | None, typer.Option(help="Compare every label with this source or recipe, as it is today.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Of --against: data.* and stream.*")
    ] = None,
    cache: Annotated[
        list[Path] | None, typer.Option(help="Compare the checksums of this cache, too; may be repeated.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write every finding here, one a line.")] = None,
) -> None:
    """Look at every file and every label; find pictures that two tasks, or training and testing, share.

    Exits with 1 if something must be looked into.
    """
    from rich.console import Console

    from mlcl import split
    from mlcl.cli.bar import counting
    from mlcl.data.gather import counted, folder
    from mlcl.data.shards import Shards
    from mlcl.split.audit import KINDS

    console = Console()
    read = split.read(file)
    folder(str(root), "root")
    for place in cache or []:
        Shards(place).verify()
    found = []
    if against is not None:
        found += split.compare(read, _recipe(against, settings or [], []).source.table())
    elif settings:
        raise ConfigError("--set goes with --against SOURCE")
    with counting(console, "reading every image") as progress:
        found += split.audit(read, root, flat=flat, outside=outside, progress=progress)
    if out is not None:
        out.write_text("".join(f"{f.kind}\t{f.says}\n" for f in found), encoding="utf-8")
    for kind, title in KINDS.items():
        mine = [f.says for f in found if f.kind == kind]
        if mine:
            console.print(f"{title}: {len(mine):,}", style="bold", markup=False, soft_wrap=True)
            for says in mine[:LISTED]:
                console.print(f"  {says}", highlight=False, markup=False, soft_wrap=True)
            if len(mine) > LISTED:
                more = f"  and {len(mine) - LISTED:,} more"
                console.print(more + ("" if out else "; --out FILE writes all of them"), highlight=False)
    wrong = sum(not f.harmless for f in found)
    verdict = f"{counted(wrong, 'finding')} to look into" if wrong else "nothing wrong"
    console.print(f"{file}: {counted(len(read), 'image')} read, {verdict}", highlight=False, markup=False)
    if wrong:
        raise typer.Exit(1)


@app.command()
def show(
    file: File,
    root: Annotated[
        Path | None, typer.Option(help="The folder of the images. Without it, no sheet of images.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the pictures. Default: the split's")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="data.* and stream.*, such as stream.scenario=cl."),
    ] = None,
    images: Annotated[int, typer.Option(min=1, max=30, help="Training images a task, on the sheet.")] = 6,
    seed: Annotated[int, typer.Option(min=0, help="Which images the sheet shows.")] = 0,
) -> None:
    """Print what is in a split, and draw it: its tasks and classes, and images with what is known of them."""
    from rich.console import Console

    from mlcl import split

    console = Console()
    read = split.read(file)
    _print(read, console)
    place = out or file.parent
    place.mkdir(parents=True, exist_ok=True)
    report = place / f"{file.stem}.report.png"
    report.write_bytes(split.picture(read))
    sheet = report.with_suffix(".tsv")
    sheet.write_text(split.Figures.of(read).text(read), encoding="utf-8")
    console.print(f"\n{report}\n{sheet}", highlight=False, markup=False)
    if root is None:
        console.print("(give --root FOLDER for a sheet of its images)", markup=False)
        return
    from mlcl.stream import build as build_stream

    recipe = _recipe("split", [f"data.file={file}", f"data.root={root}", *(settings or [])], [])
    sheet = place / f"{file.stem}.images.png"
    stream = build_stream(recipe.source.table(), recipe.stream)
    sheet.write_bytes(split.contact_sheet(stream, train=images, seed=seed))
    console.print(f"{sheet}", highlight=False, markup=False)


def _recipe(name: str, settings: list[str], plugins: list[str]) -> Recipe:
    """A source's name stands for a recipe that has nothing else in it."""
    from mlcl import recipe
    from mlcl.data.source import sources

    for setting in settings:
        if not setting.startswith(("data.", "stream.")):
            raise ConfigError(f"--set {setting}: of a split, keys are data.* and stream.*")
    recipe.resolve({"plugins": plugins})  # from here on their sources are known
    if Path(name).is_file() or (name in recipe.recipes() and name not in sources()):
        return recipe.load_recipe(name, settings)
    if name not in sources():
        known = nearest(name, sources())
        raise ConfigError(
            f"no data source, recipe file or shipped recipe {name!r}; {known}; or one of: mlcl recipes"
        )
    tree: Tree = {"data": {"source": name}}
    for setting in settings:
        tree = override(tree, setting)
    return recipe.resolve(tree)


def _print(made: Split, console: Console) -> None:
    """The split as two tables: by task, and by class."""
    from rich.table import Table

    from mlcl.data.gather import counted
    from mlcl.split import Figures

    figures = Figures.of(made)
    held = bool(figures.validation.any())

    def table(*heads: str, left: int, soft: int) -> Any:
        fresh = Table(box=None, header_style="bold", pad_edge=False)
        for number, head in enumerate(heads):
            fresh.add_column(head, justify="left" if number < left else "right", no_wrap=number != soft)
        return fresh

    sides = ("train", *["held out"] * held, "test")
    tasks = table("task", "classes", *sides, "specific", "mixed", "labels", "own", left=2, soft=1)
    for t, names in enumerate(made.tasks):
        told = [f"{count[t]:,}" for count in (figures.train, *[figures.validation] * held, figures.test)]
        kinds = [f"{count[t] / max(1, figures.train[t]):.0%}" for count in (figures.specific, figures.mixed)]
        means = [f"{figures.labels[t]:.2f}", f"{figures.own[t]:.2f}"]
        tasks.add_row(str(t + 1), ", ".join(names), *told, *kinds, *means)
    console.print(f"{made.name}", style="bold", highlight=False, markup=False)
    console.print(tasks)
    console.print(
        "train, held out, test: images that the task adds; specific: training images that show no class of "
        "another task; mixed: that do (of the rest it is not known); labels, own: known labels a training "
        "image, of all classes and of the task's",
        style="dim",
        highlight=False,
    )
    classes = table("class", "task", "train, there", "train, elsewhere", "test", left=1, soft=0)
    for t, names in enumerate(made.tasks):
        for c, name in enumerate(names, made.edges[t]):
            mine = figures.positives[t, c]
            rest = figures.positives[:, c].sum() - mine
            classes.add_row(name, str(t + 1), f"{mine:,}", f"{rest:,}", f"{figures.tested[c]:,}")
    console.print()
    console.print(classes)
    console.print(f"\nleft out: {counted(len(made.dropped), 'image')}", highlight=False)
    for reason, count in figures.dropped.items():
        console.print(f"  {count:,}  {reason}", highlight=False, markup=False)
    for note in made.notes:
        console.print(f"note: {note}", highlight=False, markup=False, soft_wrap=True)
