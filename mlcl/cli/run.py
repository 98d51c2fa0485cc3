"""mlcl run: one recipe, from its stream to its report."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mlcl.errors import ConfigError, RunError

if TYPE_CHECKING:
    from rich.console import Console

    from mlcl.config import Tree
    from mlcl.recipe import Recipe


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
            raise RunError(f"{resume}: not a run folder (it has no config.toml)")
        _run(recipes.load_recipe(str(resume / "config.toml")), resume)
        return
    changes: list[Tree | str] = []
    if method:
        changes.append({"methods": method})
    if plugin:
        changes.append({"plugins": plugin})
    if data is not None:
        changes.append({"data": {"source": data}})
    if scenario is not None:
        changes.append({"stream": {"scenario": scenario}})
    if seed is not None:
        changes.append({"seed": seed})
    loaded = recipes.load_recipe(recipe, [*changes, *(settings or [])])
    _run(loaded, out or _next_folder(Path("runs"), loaded.head.name), fresh=True)


def _run(recipe: Recipe, folder: Path, fresh: bool = False) -> None:
    from rich.console import Console

    from mlcl import store
    from mlcl.config import write_toml
    from mlcl.experiment import Experiment, Interrupted, set_threads
    from mlcl.progress import Display
    from mlcl.report import describe_stream, print_summary, write_report

    console = Console()
    set_threads(recipe.head.threads)
    stream = recipe.build_stream()
    for name in recipe.learners:  # a wrong setting must not surface after an hour of another method
        recipe.build_learner(name)
    if fresh:
        if folder.exists() and any(folder.iterdir()):
            raise RunError(f"{folder}: not empty; go on with it by --resume, or choose another --out")
        store.write_text(folder / "config.toml", write_toml(recipe.tree()))
        store.write_json(folder / "run.json", store.provenance())
        store.write_json(folder / "stream.json", describe_stream(stream, recipe.stream.scenario))
    console.print(
        f"[bold]{stream.name}[/]: {len(stream.class_names)} classes in {len(stream)} tasks, "
        f"{sum(len(t.train) for t in stream):,} training and {len(stream[-1].test):,} test images, "
        f"scenario {recipe.stream.scenario.upper()}, on {recipe.device()}\nrun folder: {folder}",
        highlight=False,
    )
    stop = _Stop(console)
    for name in recipe.learners:
        where = folder / name
        with Display(console, name) as display:
            experiment = Experiment(
                stream, recipe.build_learner(name), config=recipe.loop, seed=recipe.head.seed,
                folder=where, watcher=display, interrupted=stop,
            )  # fmt: skip
            experiment.resume()
            try:
                experiment.run()
            except Interrupted:
                console.print(f"stopped; everything is saved. Go on by: mlcl run --resume {folder}")
                raise typer.Exit(130) from None
        write_report(folder)
    print_summary(folder, console)


class _Stop:
    """Ctrl-C once: finish the batch, save, leave. Twice: leave at once."""

    def __init__(self, console: Console):
        self.console = console
        self.wanted = False
        signal.signal(signal.SIGINT, self._heard)
        signal.signal(signal.SIGTERM, self._heard)

    def __call__(self) -> bool:
        return self.wanted

    def _heard(self, number: int, frame: Any) -> None:
        if self.wanted:
            raise KeyboardInterrupt
        self.wanted = True
        self.console.print("stopping after this batch ...")


def _next_folder(root: Path, name: str) -> Path:
    number = 1
    while (root / f"{name}-{number:03d}").exists():
        number += 1
    return root / f"{name}-{number:03d}"
