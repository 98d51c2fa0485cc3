"""LabelTable -> Stream: class order, tasks, who gets which image, and what the annotator marks.

The scenario is nothing but the `known` mask: IL marks a task's own columns, CL all seen ones.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from mlcl.data.gather import counted
from mlcl.data.table import UNKNOWN, LabelTable
from mlcl.errors import ConfigError, DataError
from mlcl.types import Samples, Stream, Task

NOWHERE = -1
LARGER = "give it images, or make tasks larger (stream.way, stream.widths)"


@dataclass(frozen=True, kw_only=True)
class StreamConfig:
    split: Literal["source", "deal"] = "source"  # the source's own tasks, if it has them; or dealt anew
    scenario: Literal["il", "cl"] = "il"  # marked: the task's own classes, or all seen ones
    way: int = 4  # classes a task
    first: int = (
        0  # classes of the first task, if it is to have more, as in B40-C10; 0 = as many as the others
    )
    widths: tuple[int, ...] = ()  # classes of each task; overrules `way` and `first`
    top: int = 0  # only the most frequent classes; 0 = all
    order: Literal["given", "frequency", "random"] = "given"  # of the classes; frequency: commonest first
    partial: float = 1.0  # share of the marked entries that are really known
    validation: float = 0.0  # share of the training images held out and tested on instead
    limit: int = 0  # at most so many training images; 0 = all
    seed: int = 0  # of the random order, `partial`, `validation` and `limit`

    def __post_init__(self) -> None:
        for name, low, high in (("partial", 0.0, 1.0), ("validation", 0.0, 0.9)):
            if not low <= getattr(self, name) <= high:
                raise ConfigError(f"stream.{name}: {getattr(self, name)} is not within {low} and {high}")
        if self.way < 1 or any(width < 1 for width in self.widths):
            raise ConfigError("stream: a task needs at least one class (way, widths)")
        if self.top < 0 or self.limit < 0 or self.first < 0:
            raise ConfigError("stream: top, limit and first cannot be negative (0 = all, all, `way`)")
        if self.seed < 0:
            raise ConfigError(f"stream.seed: {self.seed} is negative")


@dataclass(frozen=True)
class Placement:
    """Who gets which image: decided before anything is masked, so the same in every scenario."""

    table: LabelTable  # its columns in the order of the stream
    widths: tuple[int, ...]
    owner: np.ndarray  # (N,) each image's task, of training, test and validation images alike; or NOWHERE
    held: np.ndarray  # (N,) bool: held out of the training images


def build(table: LabelTable, config: StreamConfig) -> Stream:
    """The paper's protocol over any table; a source's own split stands, less what `limit` leaves out."""
    placed = place(table, config)
    owner, test = placed.owner, placed.table.test
    if config.validation:  # the true test images take no part at all
        owner, test = np.where(test, NOWHERE, owner), placed.held
    if table.owner is not None and config.split == "source" and config.scenario == "cl":
        _refuse_own_marks_only(table)
    return assemble(placed.table, placed.widths, owner, test, config, _without_a_class(placed))


def _without_a_class(placed: Placement) -> tuple[str, ...]:
    """Images that no task can use are not passed over in silence."""
    labels = placed.table.labels[placed.owner == NOWHERE]
    count = int((~(labels == 1).any(axis=1)).sum())
    return (f"{counted(count, 'image')} without any class of the stream left out",) if count else ()


def place(table: LabelTable, config: StreamConfig) -> Placement:
    """Class order, tasks, and each image's task. What the source's own split places NOWHERE stays there."""
    own = table.owner is not None and config.split == "source"
    usable = np.ones(len(table), bool) if table.owner is None else table.owner != NOWHERE
    if own:
        _refuse_resplitting(table, config)
    else:
        table = table.columns(class_order(table, config))
    test = table.test & usable
    held = _held_out(table, usable & ~test, config)
    train = _limited(table, usable & ~test & ~held, config)
    if own:
        assert table.owner is not None
        return Placement(table, table.widths, np.where(train | held | test, table.owner, NOWHERE), held)
    widths = task_widths(len(table.class_names), config)
    owner = np.full(len(table), NOWHERE)
    for part in map(np.flatnonzero, (train, held, test)):
        owner[part] = deal(table.labels[part] == 1, widths, _ticket(table.refs, part, config.seed, "deal"))
    return Placement(table, widths, owner, held)


def _held_out(table: LabelTable, train: np.ndarray, config: StreamConfig) -> np.ndarray:
    """(N,) bool: the share of the training images that `validation` holds out."""
    out = np.zeros(len(table), bool)
    if config.validation:
        rows = np.flatnonzero(train)
        ticket = _ticket(table.refs, rows, config.seed, "validation")
        count = max(1, round(len(rows) * config.validation))
        out[rows[np.argsort(ticket, kind="stable")[:count]]] = True
    return out


def _limited(table: LabelTable, train: np.ndarray, config: StreamConfig) -> np.ndarray:
    """(N,) bool: at most `limit` of the training images."""
    if not config.limit:
        return train
    rows = np.flatnonzero(train)
    ticket = _ticket(table.refs, rows, config.seed, "limit")
    kept = np.zeros(len(table), bool)
    kept[rows[np.argsort(ticket, kind="stable")[: config.limit]]] = True
    return kept


def _refuse_resplitting(table: LabelTable, config: StreamConfig) -> None:
    asked = StreamConfig()
    for name in ("way", "first", "widths", "top", "order"):
        if getattr(config, name) != getattr(asked, name):
            raise ConfigError(
                f"stream.{name}: {table.name} comes with its own tasks; "
                'set stream.split = "deal" to make new ones'
            )


def _refuse_own_marks_only(table: LabelTable) -> None:
    """IL's labels would pass for CL's: an unknown label is nothing that a learner complains of."""
    assert table.owner is not None
    for task, stop in enumerate(np.cumsum(table.widths[:-1]), 1):
        mine = ~table.test & (table.owner == task)
        if mine.any() and (table.labels[mine, :stop] == UNKNOWN).all():
            raise DataError(
                f"{table.name}: scenario cl, but nothing is known of earlier classes in task {task + 1}; "
                "give the full labels (data.full_labels; before a split file is made of it), "
                'or set stream.scenario = "il"'
            )


def assemble(
    table: LabelTable,
    widths: Sequence[int],
    owner: np.ndarray,
    test: np.ndarray,
    config: StreamConfig,
    notes: Sequence[str] = (),
) -> Stream:
    """A stream from a decided split: `owner` is each image's task, or NOWHERE."""
    tasks = []
    start = 0
    tests = np.flatnonzero(test & (owner != NOWHERE))
    tests = tests[np.argsort(owner[tests], kind="stable")]  # each test set begins with the one before it
    tested = _samples(table, tests, 0, len(table.class_names))
    for index, width in enumerate(widths):
        stop = start + int(width)  # a numpy integer would end in a checkpoint that cannot be read
        first = start if config.scenario == "il" else 0
        train_rows = np.flatnonzero(~test & (owner == index))
        upto = slice(np.searchsorted(owner[tests], index, side="right"))
        names = table.class_names[start:stop]
        if not len(train_rows) or not len(tests[upto]):
            part = "test" if len(train_rows) else "training"
            raise DataError(
                f"{table.name}: task {index + 1} ({', '.join(names)}) has no {part} image; {LARGER}"
            )
        train_set = _samples(table, train_rows, first, stop, config)
        test_set = Samples(table.images, tests[upto], tested.y[upto, :stop], tested.known[upto, :stop])
        tasks.append(Task(index, start, stop, names, train_set, test_set))
        start = stop
    train_rows = np.flatnonzero(~test & (owner != NOWHERE))
    full = _samples(table, train_rows, 0, start)
    return Stream(table.class_names, tasks, table.name, full, (*table.notes, *notes))


def class_order(table: LabelTable, config: StreamConfig) -> tuple[str, ...]:
    """The stream's classes in the order of their arrival."""
    names = np.array(table.class_names, dtype=object)
    frequent = np.argsort(-table.positives(), kind="stable")
    if config.top > len(names):
        raise ConfigError(f"stream.top: {config.top} classes wanted, {table.name} has {len(names)}")
    keep = frequent[: config.top or None]
    if config.order == "given":
        keep = np.sort(keep)
    elif config.order == "random":
        keep = np.random.default_rng(config.seed).permutation(np.sort(keep))
    return tuple(names[keep])


def task_widths(classes: int, config: StreamConfig) -> tuple[int, ...]:
    """
    >>> task_widths(10, StreamConfig(way=4))
    (4, 4, 2)
    >>> task_widths(10, StreamConfig(way=2, first=5))
    (5, 2, 2, 1)
    >>> task_widths(10, StreamConfig(widths=(7, 2, 1)))
    (7, 2, 1)
    """
    if config.widths:
        if sum(config.widths) != classes:
            raise ConfigError(f"stream.widths: they add up to {sum(config.widths)}, not to {classes} classes")
        return config.widths
    if config.first >= classes:
        return (classes,)
    full, rest = divmod(classes - config.first, config.way)
    return ((config.first,) if config.first else ()) + (config.way,) * full + ((rest,) if rest else ())


def deal(positive: np.ndarray, widths: Sequence[int], ticket: np.ndarray) -> np.ndarray:
    """(N, C) bool -> (N,) task of each image.

    Specific images (all labels in one task) go to it; mixed ones are dealt, the least free first, so that
    the tasks' sizes stay in proportion to their numbers of classes; then dealt again, kind by kind, until
    that levels nothing more. `ticket` (a hash of the image's name) orders equals, so the result does not
    depend on the order of rows. Images without a label go NOWHERE.
    """
    edges = np.cumsum((0, *widths))
    touches = np.stack([positive[:, a:b].any(axis=1) for a, b in pairwise(edges)], axis=1)
    packed = np.packbits(touches, axis=1)
    kinds, kind_of, kind_size = np.unique(packed, axis=0, return_inverse=True, return_counts=True)
    options = np.unpackbits(kinds, axis=1, count=len(widths)).astype(bool)  # (kinds, T)
    shares = _shares(options, kind_size, np.asarray(widths, float))
    owner = np.full(len(positive), NOWHERE)
    first = 0
    members = np.lexsort((ticket, kind_of.reshape(-1)))  # kind after kind
    for share, size in zip(shares, kind_size, strict=True):
        dealt = np.repeat(np.arange(len(widths)), share)
        owner[members[first : first + len(dealt)]] = dealt
        first += size
    return owner


def _shares(options: np.ndarray, amounts: np.ndarray, weight: np.ndarray, rounds: int = 100) -> np.ndarray:
    """(K, T) bool, (K,), (T,) -> (K, T) how many images of each kind go to each of its tasks."""
    shares = np.zeros(options.shape, np.int32)
    sizes = np.zeros(len(weight))
    freedom = options.sum(axis=1)
    kinds = np.argsort(freedom, kind="stable")[np.count_nonzero(freedom == 0) :]
    for _ in range(rounds):
        before = sizes.copy()
        for kind in kinds:
            tasks = np.flatnonzero(options[kind])
            others = sizes[tasks] - shares[kind, tasks]
            shares[kind, tasks] = _pour(others, weight[tasks], amounts[kind])
            sizes[tasks] = others + shares[kind, tasks]
        if (sizes == before).all():
            break
        # only the kinds of which one image, moved to another of its tasks, would level the sizes
        fullest = np.where(shares > 0, (sizes - 0.5) / weight, -np.inf).max(axis=1)
        emptiest = np.where(options, (sizes + 0.5) / weight, np.inf).min(axis=1)
        kinds = np.flatnonzero(fullest > emptiest + 1e-9)
    return shares


def _pour(sizes: np.ndarray, weight: np.ndarray, amount: int) -> np.ndarray:
    """Whole shares of `amount` that level size / weight as far as adding can."""
    shares = np.zeros(len(sizes), int)
    if amount > len(sizes):
        by_level = np.argsort(sizes / weight, kind="stable")
        for count in range(len(by_level), 0, -1):
            low = by_level[:count]
            level = (sizes[low].sum() + amount) / weight[low].sum()
            if level >= sizes[low[-1]] / weight[low[-1]]:
                break
        shares[low] = np.floor(level * weight[low] - sizes[low] + 1e-9)
    for _ in range(amount - shares.sum()):  # fewer than there are tasks
        shares[np.argmin((sizes + shares + 0.5) / weight)] += 1
    return shares


def _samples(
    table: LabelTable, rows: np.ndarray, first: int, stop: int, config: StreamConfig | None = None
) -> Samples:
    labels = table.labels[rows, :stop]
    known = labels != UNKNOWN
    known[:, :first] = False
    if config is not None and config.partial < 1:
        ticket = _ticket(table.refs, rows, config.seed, "partial")
        for column in range(first, stop):
            known[:, column] &= _scramble(ticket, column) < config.partial * 2.0**64
    return Samples(table.images, rows, (labels == 1).astype(np.uint8), known)


def _ticket(refs: Sequence[str], rows: np.ndarray, seed: int, purpose: str) -> np.ndarray:
    """(len(rows),) uint64, at random, but a function of the image's name, the seed and the purpose alone."""
    salt = f"{purpose} {seed} ".encode()
    names = (refs[row].encode(errors="surrogatepass") for row in rows)
    digests = b"".join(hashlib.blake2b(salt + name, digest_size=8).digest() for name in names)
    return np.frombuffer(digests, "<u8")


def _scramble(ticket: np.ndarray, column: int) -> np.ndarray:
    """(N,) uint64 -> (N,) uint64, another number for every column (the finaliser of SplitMix64)."""
    x = ticket + np.uint64((column + 1) * 0x9E3779B97F4A7C15 % 2**64)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    scrambled: np.ndarray = x ^ (x >> np.uint64(31))
    return scrambled
