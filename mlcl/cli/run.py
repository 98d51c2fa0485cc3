"""mlcl run: one recipe, from its stream to its report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mlcl.errors import ConfigError, RunError

if TYPE_CHECKING:
    from mlcl.config import Tree
    from mlcl.recipe import Recipe
    from mlcl.types import Stream


def run(
    recipe: Annotated[
        str, typer.Argument(help="A recipe file, a shipped recipe's name, or a run's config.toml.")
    ] = "scenes",
    method: Annotated[
        list[str] | None, typer.Option(help="Learn with this method; may be repeated. See: mlcl methods")
    ] = None,
    data: Annotated[str | None, typer.Option(help="Learn this data. See: mlcl data")] = None,
    scenario: Annotated[
        str | None, typer.Option(help="il: only a task's own labels are marked; cl: all seen ones.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Of weights, order and augmentation.")] = None,
    plugin: Annotated[
        list[str] | None, typer.Option(help="Run this Python file first: your own methods and sources.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Any key of the recipe, such as loop.batch_size=8."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The run's folder. Default: runs/NAME-NNN")] = None,
    resume: Annotated[Path | None, typer.Option(help="Go on with this run's folder.")] = None,
) -> None:
    """Learn a stream of tasks, measure after each, and write a report.

    Without an argument: AGCN++ on drawn scenes, beside fine-tuning (its lower bound) and learning everything
    at once (its upper bound). Nothing is downloaded.
    """
    from mlcl import recipe as recipes

    if resume is not None:
        given = {"--method": method, "--data": data, "--scenario": scenario, "--seed": seed,
                 "--set": settings, "--plugin": plugin, "--out": out}  # fmt: skip
        for option, value in given.items():
            if value is not None:
                raise ConfigError(f"{option} cannot go with --resume: a run goes on with its own settings")
        if not (resume / "config.toml").is_file():
            raise RunError(f"{resume}: not a run folder (it has no config.toml); begin one by: mlcl run")
        _run(recipes.load_recipe(str(resume / "config.toml")), resume)
        return
    if out is not None and out.exists() and not _free(out):
        raise RunError(f"{out}: not an empty folder; go on with a run by --resume, or choose another --out")
    changes: list[Tree | str] = []
    if method:
        changes.append({"methods": method})
    if plugin:
        changes.append({"plugins": plugin})
    if data is not None:
        changes.append({"name": data, "data": {"source": data}})  # not the name of data that it is not
    if scenario is not None:
        changes.append({"stream": {"scenario": scenario}})
    if seed is not None:
        changes.append({"seed": seed})
    _run(recipes.load_recipe(recipe, [*changes, *(settings or [])]), out, fresh=True)


def _run(recipe: Recipe, folder: Path | None, fresh: bool = False) -> None:
    from rich.console import Console

    from mlcl import ranks
    from mlcl.cli.bar import counting
    from mlcl.cli.images import tell_images
    from mlcl.cli.stop import Stop
    from mlcl.data.gather import counted
    from mlcl.experiment import Experiment, Interrupted, set_threads
    from mlcl.progress import Display
    from mlcl.report import print_summary, write_report

    ranks.join()  # under torchrun; the first process speaks and writes
    first = ranks.rank() == 0
    console = Console(quiet=not first)
    recipe = recipe.on_threads(set_threads(recipe.head.threads))
    with ranks.one_by_one(), counting(console, "filling the cache") as progress:
        stream = recipe.build_stream(progress)
    for name in recipe.learners:  # a wrong setting must not surface after an hour of another method
        recipe.build_learner(name)
    if first:
        folder = folder or _next_folder(Path("runs"), recipe.head.name)
        _describe(recipe, stream, folder, fresh)
    folder = ranks.agreed(folder)
    assert folder is not None
    judging = "held-out" if recipe.stream.validation else "test"
    console.print(
        f"[bold]{stream.name}[/]: {len(stream.class_names)} classes in {counted(len(stream), 'task')}, "
        f"{sum(len(t.train) for t in stream):,} training and {len(stream[-1].test):,} {judging} images, "
        f"scenario {recipe.stream.scenario.upper()}, on {recipe.device()}",
        highlight=False,
        soft_wrap=True,
    )
    for note in stream.notes:
        console.print(f"note: {note}", highlight=False, markup=False, soft_wrap=True)
    console.print(f"run folder: {folder}", highlight=False, markup=False, soft_wrap=True)
    go_on = f"Go on by: mlcl run --resume {folder}"
    stop = Stop(console)
    for name in recipe.learners:
        try:
            with Display(console, name) as display:
                experiment = Experiment(
                    stream, recipe.build_learner(name), config=recipe.loop, seed=recipe.head.seed,
                    folder=folder / name, watcher=display, interrupted=stop,
                )  # fmt: skip
                experiment.resume()
                experiment.run()
            del experiment  # with its network, before the next one and before the other processes are left
            if first:
                write_report(folder)
        except (Interrupted, KeyboardInterrupt) as how:
            saved = "everything is saved" if isinstance(how, Interrupted) else "saved is the last checkpoint"
            console.print(f"stopped; {saved}. {go_on}", highlight=False, markup=False, soft_wrap=True)
            raise typer.Exit(128 + stop.number) from None
    if first:
        print_summary(folder, console)
        tell_images(stream, folder, console)
    ranks.leave()


def _describe(recipe: Recipe, stream: Stream, folder: Path, fresh: bool) -> None:
    """config.toml, run.json, stream.json: at the beginning, or where a kill came before them."""
    from mlcl import store
    from mlcl.config import write_toml
    from mlcl.report import describe_stream

    if fresh:
        store.write_text(folder / "config.toml", write_toml(recipe.tree()))
    if fresh or not (folder / "run.json").exists():
        store.write_json(folder / "run.json", store.provenance())
    if fresh or not (folder / "stream.json").exists():
        store.write_json(folder / "stream.json", describe_stream(stream, recipe.stream.scenario))


def _free(folder: Path) -> bool:
    """Nothing lies there, or only what a kill left of the very first file."""
    return folder.is_dir() and all(path.suffix == ".partial" for path in folder.iterdir())


def _next_folder(root: Path, name: str) -> Path:
    """Made at once, so that two runs begun together do not share it."""
    from mlcl import store

    number = 1
    with store.says(root, "cannot be written"):
        while True:
            folder = root / f"{name}-{number:03d}"
            try:
                folder.mkdir(parents=True)
            except FileExistsError:
                number += 1
            else:
                return folder
