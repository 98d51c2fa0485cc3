"""A recipe is one experiment as TOML: data, stream, loop, and the settings of each method.

methods = ["fine-tuning", "agcn++"]     each learns the same stream
[data] [stream] [loop]                  what is learnt, and how it arrives
[learner]                               settings that the methods share
[method."agcn++"]                       settings of one method; they win over [learner]
extends = "other.toml"                  what is not written here is as there
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from mlcl.config import Tree, folder_name, from_tree, merge, override, read_toml, to_tree
from mlcl.data.fill import Progress, ignore
from mlcl.data.packed import cached
from mlcl.data.source import Source, source
from mlcl.data.table import LabelTable
from mlcl.errors import ConfigError, MLCLError, nearest
from mlcl.experiment import LoopConfig
from mlcl.learner import Learner, learner, learners
from mlcl.nn.backbone import Backbone
from mlcl.nn.cached import featurised, frozen_backbone
from mlcl.stream import StreamConfig, build
from mlcl.types import Stream

DEFAULT = "scenes"
MOST_THREADS = 1024  # PyTorch dies without a word where the system gives no more


@dataclass(frozen=True, kw_only=True)
class Head:
    """The recipe's own keys, above its tables."""

    name: str = "run"  # of the run's folder: runs/NAME-001
    seed: int = 0  # of weights, order of images, augmentation
    device: Literal["auto", "cpu", "cuda"] = "auto"  # auto: a GPU if PyTorch finds one
    threads: int = 0  # of the CPU; 0 = as many as PyTorch finds
    methods: tuple[str, ...] = ("agcn++",)  # one after the other, each on the same stream
    plugins: tuple[str, ...] = ()  # Python files to run first: your own methods and sources register there

    def __post_init__(self) -> None:
        folder_name("name", self.name)
        for name in ("seed", "threads"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name}: {getattr(self, name)} is negative")
        if self.threads > MOST_THREADS:
            raise ConfigError(f"threads: {self.threads} are more than {MOST_THREADS}; 0: PyTorch decides")
        if not self.methods:
            raise ConfigError("methods: name at least one")
        for name in self.methods:
            if self.methods.count(name) > 1:  # both would be one folder
                raise ConfigError(f"methods: {name!r} is named twice; run again for another seed")


@dataclass(frozen=True)
class Recipe:
    head: Head
    source: Source
    stream: StreamConfig
    loop: LoopConfig
    learners: dict[str, Any] = field(default_factory=dict)  # method -> its Config

    def tree(self) -> Tree:
        """Everything spelled out; loading it gives this recipe again."""
        return {
            **to_tree(self.head),
            "data": {"source": self.source.name, **to_tree(self.source.config)},
            "stream": to_tree(self.stream),
            "loop": to_tree(self.loop),
            "method": {name: to_tree(config) for name, config in self.learners.items()},
        }

    def on_threads(self, threads: int) -> Recipe:
        """With the number that this machine gave written down: results repeat to the bit for it alone."""
        return dataclasses.replace(self, head=dataclasses.replace(self.head, threads=threads))

    def build_stream(self, progress: Progress = ignore) -> Stream:
        """Over the caches that the source's settings name; what is missing in them is filled first."""
        cache, features = (getattr(self.source.config, key, "") for key in ("cache", "features"))
        if features:
            self._featuring()  # what is wrong is said before an hour of decoding
        table = self.source.table()
        if cache:
            table = cached(table, Path(cache).expanduser(), progress)
        if features:
            table = self._featured(table, Path(features).expanduser(), progress)
        return build(table, self.stream)

    def _featuring(self) -> tuple[list[str], Backbone.Config | None]:
        """The methods that make features of their own, or else the backbone that all of them share."""
        own = [name for name in self.learners if hasattr(learner(name), "cached")]
        others = {name: config for name, config in self.learners.items() if name not in own}
        if own and others:
            both = f"{', '.join(own)} and {', '.join(others)}"
            raise ConfigError(f"data.features: {both} look at other features; run them by themselves")
        return own, None if own else frozen_backbone(others)

    def _featured(self, table: LabelTable, folder: Path, progress: Progress) -> LabelTable:
        own, backbone = self._featuring()
        if backbone is not None:
            seed, device = self.head.seed, self.device()
            return featurised(table, backbone, folder, seed=seed, device=device, progress=progress)
        made: list[LabelTable] = []
        for name in own:  # a second one with other features is refused by the folder
            maker: Any = self.build_learner(name)
            made.append(maker.cached(table, folder, progress))
        return made[0]

    def build_learner(self, method: str) -> Learner:
        return learner(method)(self.learners[method], seed=self.head.seed, device=self.device())

    def device(self) -> str:
        import torch

        cuda = torch.cuda.is_available()
        if self.head.device == "cuda" and not cuda:
            raise ConfigError("device: PyTorch finds no CUDA device on this machine; valid: auto, cpu")
        return "cuda" if cuda and self.head.device != "cpu" else "cpu"


def load_recipe(path_or_name: str = DEFAULT, settings: Iterable[Tree | str] = ()) -> Recipe:
    """A recipe file or a shipped recipe's name, under the settings (tables, or `a.b=c`) given after it."""
    tree = _read(find(path_or_name), ())
    for setting in settings:
        tree = override(tree, setting) if isinstance(setting, str) else merge(tree, setting)
    return resolve(tree, path_or_name)


def resolve(tree: Mapping[str, Any], where: str = "") -> Recipe:
    """Checks every key and every type."""
    where = f"{where}: " if where else ""
    tables = ("data", "stream", "loop", "learner", "method")
    own = {field.name for field in dataclasses.fields(Head)}
    for key in tree:
        if key not in own and key not in tables:
            if key == "extends":
                raise ConfigError(f"{where}extends: belongs into a recipe file; here, name that file instead")
            valid = sorted({*own, *tables, "extends"})
            raise ConfigError(f"{where}{key}: unknown key; {nearest(key, valid)}")
    for table in tables:
        if not isinstance(tree.get(table, {}), Mapping):
            raise ConfigError(f"{where}{table}: expected a table, got {tree[table]!r}")
    head = from_tree(Head, {key: value for key, value in tree.items() if key in own}, where)
    for plugin in head.plugins:
        _import(Path(plugin), where)
    data = dict(tree.get("data", {}))
    kind = source(str(data.pop("source", "scenes")))
    return Recipe(
        head,
        kind(from_tree(kind.Config, data, f"{where}data")),
        from_tree(StreamConfig, tree.get("stream", {}), f"{where}stream"),
        from_tree(LoopConfig, tree.get("loop", {}), f"{where}loop"),
        _learners(head.methods, tree, where),
    )


def find(path_or_name: str) -> Path:
    path = Path(path_or_name)
    if path.is_file():
        return path
    shipped = Path(str(resources.files("mlcl") / "recipes" / f"{path_or_name}.toml"))
    if shipped.is_file():  # before folders: there may well be one by the name of a recipe
        return shipped
    if path.is_dir():
        raise ConfigError(f"{path}: a folder, not a recipe; go on with a run by: mlcl run --resume {path}")
    close = difflib.get_close_matches(path_or_name, recipes(), n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    raise ConfigError(f"no recipe file or shipped recipe {path_or_name!r}; {hint}see: mlcl recipes")


def recipes() -> Sequence[str]:
    """The shipped ones, by name. A file that begins with _ is what others extend."""
    root = Path(str(resources.files("mlcl") / "recipes"))
    found = (path for path in root.rglob("*.toml") if not path.name.startswith("_"))
    return sorted(path.relative_to(root).with_suffix("").as_posix() for path in found)


def _import(path: Path, where: str) -> None:
    import importlib.util
    import sys

    name = f"mlcl_plugin_{path.stem}"
    if name in sys.modules and sys.modules[name].__file__ == str(path.resolve()):
        return
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    if not path.is_file() or spec is None or spec.loader is None:
        raise ConfigError(f"{where}plugins: {path}: no such Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except MLCLError:
        del sys.modules[name]
        raise
    except Exception as error:
        del sys.modules[name]
        raise ConfigError(f"{where}plugins: {path}, line {_line(error, path)}: {_said(error)}") from error


def _line(error: Exception, path: Path) -> int:
    """Of the file: the line that is no Python, or the last one that was reached."""
    import traceback

    if isinstance(error, SyntaxError) and error.filename == str(path.resolve()):
        return error.lineno or 1
    lines = traceback.extract_tb(error.__traceback__)
    return next((at.lineno or 1 for at in reversed(lines) if at.filename == str(path.resolve())), 1)


def _said(error: Exception) -> str:
    message = error.msg if isinstance(error, SyntaxError) else " ".join(str(error).split())
    return f"{type(error).__name__}: {message}"


def _read(path: Path, above: tuple[Path, ...]) -> Tree:
    path = path.resolve()
    if path in above:
        raise ConfigError(f"{path}: extends itself, by way of {above[-1].name}")
    tree = read_toml(path)
    base = tree.pop("extends", None)
    if base is None:
        return tree
    if not isinstance(base, str):
        raise ConfigError(f"{path}: extends: expected a string, got {base!r}")
    if not (path.parent / base).is_file():
        raise ConfigError(f"{path}: extends: no file {path.parent / base}; it takes a path beside this file")
    return merge(_read(path.parent / base, (*above, path)), tree)


def _learners(methods: Sequence[str], tree: Mapping[str, Any], where: str) -> dict[str, Any]:
    shared, own = dict(tree.get("learner", {})), tree.get("method", {})
    for name, settings in own.items():
        if not isinstance(settings, Mapping):
            raise ConfigError(f'{where}method."{name}": expected a table, got {settings!r}')
    # settings of methods that do not run today are checked as well: a slip is no spare
    kinds = {name: learner(name).Config for name in (*methods, *own)}
    fields = {name: {f.name for f in dataclasses.fields(kind.Config)} for name, kind in learners().items()}
    for key, value in shared.items():
        owners = [name for name, names in fields.items() if key in names]
        if not owners:
            valid = sorted(set().union(*(fields[name] for name in kinds)))
            raise ConfigError(f"{where}learner.{key}: unknown key; {nearest(key, valid)}")
        if not kinds.keys() & set(owners):  # only methods that do not run today have it
            from_tree(learner(owners[0]).Config, {key: value}, f"{where}learner")
    configs = {}
    for name, kind in kinds.items():
        common = {key: value for key, value in shared.items() if key in fields[name]}
        try:
            configs[name] = from_tree(kind, merge(common, own.get(name, {})), f'{where}method."{name}"')
        except ConfigError:
            from_tree(kind, common, f"{where}learner")  # if the slip stands there, this names it
            raise
    return {name: configs[name] for name in methods}
