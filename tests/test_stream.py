"""From label tables to streams: who gets which image, and what the annotator marks."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from torch import Tensor

from mlcl.data.table import UNKNOWN, LabelTable
from mlcl.errors import ConfigError, DataError
from mlcl.stream import NOWHERE, StreamConfig, assemble, build, class_order, deal, place, task_widths
from mlcl.types import Images, Samples, Stream


class Numbered(Images):
    """Image k is one pixel of the value k."""

    def __init__(self, count: int):
        self.count = count

    def __len__(self) -> int:
        return self.count

    def load(self, indices: Any) -> Tensor:
        value = torch.as_tensor(np.asarray(indices) % 256, dtype=torch.uint8)
        return value[:, None, None, None].expand(-1, 3, 1, 1)


def table(labels: Any, test: Any, names: str = "", **more: Any) -> LabelTable:
    labels = np.asarray(labels, np.int8)
    names = names or "abcdefghijklmnopqrstuvwxyz"[: labels.shape[1]]
    refs = more.pop("refs", [f"image {n}" for n in range(len(labels))])
    return LabelTable(
        "toys", tuple(names), refs, labels, np.asarray(test, bool), Numbered(len(labels)), **more
    )


def config(**given: Any) -> StreamConfig:
    return StreamConfig(**given)


def random_table(seed: int = 0, images: int = 600, classes: int = 6, unknown: float = 0.0) -> LabelTable:
    chance = np.random.default_rng(seed)
    labels = (chance.random((images, classes)) < np.linspace(0.5, 0.1, classes)).astype(np.int8)
    labels[chance.random(labels.shape) < unknown] = UNKNOWN
    return table(labels, chance.random(images) < 0.3)


def training(stream: Stream) -> list[set[int]]:
    return [set(task.train.rows.tolist()) for task in stream]


widths_of_tasks = st.lists(st.integers(1, 3), min_size=1, max_size=4)


@st.composite
def tables(draw: st.DrawFn) -> tuple[LabelTable, tuple[int, ...]]:
    """Any labels, beside one training and one test image of each class, without which there is no stream."""
    widths = tuple(draw(widths_of_tasks))
    classes = sum(widths)
    shape = (draw(st.integers(0, 25)), classes)
    labels = draw(hnp.arrays(np.int8, shape, elements=st.sampled_from([0, 1, UNKNOWN])))
    test = draw(hnp.arrays(np.bool_, len(labels)))
    ones = np.eye(classes, dtype=np.int8)
    return (
        table(np.concatenate([ones, ones, labels]), [*[False] * classes, *[True] * classes, *test]),
        widths,
    )


@st.composite
def dealt(draw: st.DrawFn) -> tuple[np.ndarray, tuple[int, ...], np.ndarray]:
    """Positives, widths, and tickets without a tie."""
    widths = tuple(draw(widths_of_tasks))
    positive = draw(hnp.arrays(np.bool_, (draw(st.integers(0, 60)), sum(widths))))
    chance = np.random.default_rng(draw(st.integers(0, 99)))
    return positive, widths, chance.permutation(len(positive)).astype(np.uint64)


def touches(positive: np.ndarray, widths: tuple[int, ...]) -> np.ndarray:
    """(N, T): does the image show a class of the task."""
    edges = [0, *itertools.accumulate(widths)]
    return np.stack([positive[:, a:b].any(axis=1) for a, b in itertools.pairwise(edges)], axis=1)


# ---- deal


@given(dealt())
@settings(max_examples=150, deadline=None)
def test_deal_is_complete_and_true_to_the_labels(case: tuple[Any, ...]) -> None:
    positive, widths, ticket = case
    owner, may = deal(positive, widths, ticket), touches(positive, widths)
    assert owner.shape == (len(positive),)
    for n in range(len(positive)):
        if not positive[n].any():
            assert owner[n] == NOWHERE
        else:
            assert may[n, owner[n]]  # specific images, with one task to go to, go there
    assert (deal(positive, widths, ticket) == owner).all()


@given(dealt(), st.integers(0, 99))
@settings(max_examples=100, deadline=None)
def test_deal_does_not_depend_on_the_order_of_rows(case: tuple[Any, ...], seed: int) -> None:
    positive, widths, ticket = case
    order = np.random.default_rng(seed).permutation(len(positive))
    assert (deal(positive[order], widths, ticket[order]) == deal(positive, widths, ticket)[order]).all()


@given(dealt())
@settings(max_examples=150, deadline=None)
def test_no_move_of_an_image_would_level_more(case: tuple[Any, ...]) -> None:
    positive, widths, ticket = case
    owner, may = deal(positive, widths, ticket), touches(positive, widths)
    sizes = np.bincount(owner[owner != NOWHERE], minlength=len(widths))

    def unevenness(sizes: np.ndarray) -> float:
        return float((sizes**2 / np.asarray(widths)).sum())

    for n, task in enumerate(owner):
        for other in np.flatnonzero(may[n]):
            moved = sizes.copy()
            moved[task] -= 1
            moved[other] += 1
            assert unevenness(moved) > unevenness(sizes) - 1e-6


def sizes(options: dict[str, int], widths: tuple[int, ...]) -> list[int]:
    """`{"ab": 30}`: thirty images with labels of tasks a and b."""
    letters = "abcdefgh"[: len(widths)]
    images = [[letter in tasks for letter in letters] for tasks, n in options.items() for _ in range(n)]
    positive = np.repeat(np.array(images), widths, axis=1)
    owner = deal(positive, widths, np.random.default_rng(0).permutation(len(positive)).astype(np.uint64))
    return np.bincount(owner, minlength=len(widths)).tolist()


@pytest.mark.parametrize(
    ("options", "widths", "best"),
    [
        ({"ab": 10}, (1, 1), [5, 5]),
        ({"a": 10, "ab": 10}, (1, 1), [10, 10]),
        ({"a": 10, "ab": 4}, (1, 1), [10, 4]),
        ({"abc": 60}, (3, 1, 2), [30, 10, 20]),  # in proportion to the numbers of classes
        ({"a": 30, "abc": 60}, (1, 1, 1), [30, 30, 30]),
        ({"ab": 90, "bc": 90}, (1, 1, 1), [60, 60, 60]),  # what is dealt first must make room later
        ({"ab": 40, "bc": 40, "cd": 40, "d": 40}, (1, 1, 1, 1), [40, 40, 40, 40]),
        ({"a": 100, "ab": 50, "bc": 50, "ac": 30}, (1, 1, 1), [100, 65, 65]),
        ({"ab": 1}, (1, 3), [0, 1]),
    ],
)
def test_balance(options: dict[str, int], widths: tuple[int, ...], best: list[int]) -> None:
    got = sizes(options, widths)
    assert sum(got) == sum(best)
    assert np.abs(np.array(got) - best).max() <= 1


def test_a_long_chain_of_tasks_is_levelled() -> None:
    """The surplus of `a` must be passed on from task to task; each may keep one more than the next."""
    got = sizes({"a": 70, "ab": 70, "bc": 70, "cd": 70, "de": 70, "ef": 70, "fg": 70}, (1,) * 7)
    assert max(got) - min(got) < 7


def test_equals_are_dealt_by_ticket() -> None:
    positive = np.ones((100, 2), bool)
    ticket = np.random.default_rng(0).permutation(100).astype(np.uint64)
    owner = deal(positive, (1, 1), ticket)
    assert set(ticket[owner == 0].tolist()) == set(range(50))


def test_nothing_to_deal() -> None:
    assert deal(np.zeros((0, 4), bool), (2, 2), np.zeros(0, np.uint64)).shape == (0,)
    assert (deal(np.zeros((3, 4), bool), (2, 2), np.arange(3)) == NOWHERE).all()


# ---- build


@given(tables(), st.sampled_from(["il", "cl"]))
@settings(max_examples=60, deadline=None)
def test_build_uses_every_image_once(case: tuple[LabelTable, tuple[int, ...]], scenario: str) -> None:
    source, widths = case
    stream = build(source, config(widths=widths, scenario=scenario))
    sets = training(stream)
    assert sum(map(len, sets)) == len(set().union(*sets))
    shown = (source.labels == 1).any(axis=1)
    assert set().union(*sets) == set(np.flatnonzero(shown & ~source.test).tolist())
    assert set(stream[-1].test.rows.tolist()) == set(np.flatnonzero(shown & source.test).tolist())
    assert [(t.index, t.start, t.stop) for t in stream] == [
        (i, stop - width, stop)
        for i, (width, stop) in enumerate(zip(widths, itertools.accumulate(widths), strict=True))
    ]
    for task in stream:
        assert (source.labels[task.train.rows, task.new] == 1).any(axis=1).all()
        assert task.names == stream.class_names[task.new]


@given(tables(), st.sampled_from(["il", "cl"]))
@settings(max_examples=60, deadline=None)
def test_what_is_known(case: tuple[LabelTable, tuple[int, ...]], scenario: str) -> None:
    """IL marks the task's own columns, CL all seen ones; what the table does not know stays unknown."""
    source, widths = case
    stream = build(source, config(widths=widths, scenario=scenario))
    for task in stream:
        for samples, first in ((task.train, task.start if scenario == "il" else 0), (task.test, 0)):
            truth = source.labels[samples.rows, : task.stop]
            known = truth != UNKNOWN
            known[:, :first] = False
            assert (samples.known == known).all()
            assert (samples.y[known] == truth[known]).all()
            batch = samples.batch(np.arange(len(samples)))
            assert (batch.known.numpy() == known).all()
            assert (batch.y.numpy() == np.where(known, truth == 1, 0)).all()


SETTINGS: list[dict[str, float]] = [{}, {"limit": 9}, {"validation": 0.5}, {"partial": 0.5}]


@given(tables(), st.integers(0, 99), st.sampled_from(SETTINGS))
@settings(max_examples=60, deadline=None)
def test_build_does_not_depend_on_the_order_of_rows(
    case: tuple[LabelTable, tuple[int, ...]], seed: int, more: dict[str, float]
) -> None:
    source, widths = case

    def fate(source: LabelTable) -> Any:
        """Each image's tasks, with what is known of it there."""
        try:
            stream = build(source, config(widths=widths, **more))
        except DataError as error:  # nothing left for a task
            return str(error)
        return {
            (source.refs[row], task.index, part): known.tolist()
            for task in stream
            for part, samples in (("train", task.train), ("test", task.test))
            for row, known in zip(samples.rows, samples.known, strict=True)
        }

    order = np.random.default_rng(seed).permutation(len(source))
    refs = [source.refs[n] for n in order]
    shuffled = table(source.labels[order], source.test[order], "".join(source.class_names), refs=refs)
    assert fate(source) == fate(shuffled)


def test_test_sets_are_cumulative() -> None:
    stream = build(random_table(), config(way=2))
    for before, after in itertools.pairwise(stream):
        n = len(before.test)
        assert len(after.test) > n
        assert (after.test.rows[:n] == before.test.rows).all()
        assert (after.test.y[:n, : before.stop] == before.test.y).all()
    assert [task.test.y.shape[1] for task in stream] == [2, 4, 6]


def test_images_follow_their_rows() -> None:
    train = build(random_table(images=200), config(way=2))[1].train
    assert (train.batch([3, 0]).x[:, 0, 0, 0].numpy() == train.rows[[3, 0]]).all()


def test_nothing_is_known_of_a_broken_image() -> None:
    train = build(random_table(images=200), config(way=2))[1].train
    whole = train.batch([3, 0, 5])
    train.images.broken = {int(train.rows[0]): "cut short", int(train.rows[4]): "cut short"}  # type: ignore[misc]
    batch = train.batch([3, 0, 5])
    assert not batch.known[1].any()
    assert not batch.y[1].any()
    assert whole.known[1].any()
    for spot in (0, 2):
        assert torch.equal(batch.known[spot], whole.known[spot])
        assert torch.equal(batch.y[spot], whole.y[spot])


def test_seed_changes_the_deal_and_nothing_else_does() -> None:
    source = random_table()
    plain = training(build(source, config(way=2)))
    assert plain == training(build(source, config(way=2, scenario="cl", partial=0.5)))
    assert plain != training(build(source, config(way=2, seed=1)))


def test_dealing_is_fair_to_names() -> None:
    """Images of consecutive names, as data sets have them, do not end in one task."""
    labels = np.ones((4000, 2), np.int8)
    source = table(labels, np.arange(4000) % 2, refs=[f"COCO_train2014_{n:012d}.jpg" for n in range(4000)])
    first = build(source, config(way=1))[0].train.rows
    halves = np.array([(first < 2000).sum(), (first >= 2000).sum()])
    assert abs(halves[0] - halves[1]) < 150
    assert 300 < (np.diff(np.sort(first)) == 2).sum() < 700  # neighbours stay together half of the time


def test_names_of_any_kind() -> None:
    refs = ["", "käse/🧀.jpg", "not utf-8: \udcff", "x" * 5000]
    source = table([[1, 0], [0, 1], [1, 0], [0, 1]], [0, 0, 1, 1], refs=refs)
    assert len(build(source, config(way=1))) == 2


def test_uneven_widths() -> None:
    stream = build(random_table(images=2000), config(widths=(3, 1, 2)))
    assert [(task.start, task.stop) for task in stream] == [(0, 3), (3, 4), (4, 6)]
    assert task_widths(6, config(way=4)) == (4, 2)
    assert task_widths(3, config(way=4)) == (3,)
    assert task_widths(100, config(way=10, first=40)) == (40, 10, 10, 10, 10, 10, 10)  # B40-C10
    assert task_widths(5, config(way=2, first=5)) == task_widths(5, config(way=2, first=6)) == (5,)
    assert task_widths(6, config(way=2, first=1)) == (1, 2, 2, 1)
    assert [t.stop - t.start for t in build(random_table(), config(way=2, first=4))] == [4, 2]


def test_checkpoints_can_keep_the_widths() -> None:
    """A numpy integer in a state would make a checkpoint that cannot be read again."""
    source = random_table()
    owner = deal(source.labels == 1, (3, 3), np.arange(len(source)))
    task = assemble(source, np.array([3, 3]), owner, source.test, config())[1]  # type: ignore[arg-type]
    assert [type(value) for value in (task.index, task.start, task.stop)] == [int, int, int]


# ---- partial


def test_partial_rate() -> None:
    source = random_table(images=5000)
    for scenario in ("il", "cl"):
        for share in (0.1, 0.5, 0.9):
            stream = build(source, config(way=3, scenario=scenario, partial=share))
            whole = build(source, config(way=3, scenario=scenario))
            for task, full in zip(stream, whole, strict=True):
                assert (task.train.rows == full.train.rows).all()
                marked = full.train.known
                assert not task.train.known[~marked].any()
                assert task.train.known[marked].mean() == pytest.approx(share, abs=0.03)
                each = task.train.known[:, task.new].mean(axis=0)  # of every class alike
                assert each == pytest.approx(share, abs=0.04)
                together = (task.train.known[:, task.start] & task.train.known[:, task.start + 1]).mean()
                assert together == pytest.approx(share**2, abs=0.04)  # one class says nothing of another
                assert task.test.known.all()
            assert stream.joint(full=True)[0].train.known.all()


def test_partial_grows_with_its_share() -> None:
    some, more = (build(random_table(), config(way=3, partial=share)) for share in (0.3, 0.6))
    for a, b in zip(some, more, strict=True):
        assert (b.train.known | ~a.train.known).all()


def test_partial_of_nothing_and_of_everything() -> None:
    source = random_table(unknown=0.2)
    none, full = (build(source, config(way=3, partial=share)) for share in (0.0, 1.0))
    plain = build(source, config(way=3))
    assert not any(task.train.known.any() for task in none)
    assert all((a.train.known == b.train.known).all() for a, b in zip(full, plain, strict=True))


# ---- classes


COUNTED = table(
    # c: 4 training images, a and d: 3, b: 2, e: 1. The test images say otherwise.
    [[1, 0, 1, 1, 1], [1, 1, 1, 1, 0], [1, 1, 1, 0, 0], [0, 0, 1, 1, 0]] + [[1, 1, 0, 0, 1]] * 9,
    [False] * 4 + [True] * 9,
)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "abcde"),
        ({"order": "frequency"}, "cadbe"),
        ({"top": 3}, "acd"),
        ({"top": 4, "order": "frequency"}, "cadb"),
        ({"top": 1}, "c"),
        ({"top": 5}, "abcde"),
    ],
)
def test_class_order(given: dict[str, Any], expected: str) -> None:
    assert "".join(class_order(COUNTED, config(**given))) == expected


def test_random_class_order() -> None:
    orders = [class_order(COUNTED, config(order="random", seed=seed)) for seed in (1, 1, 2)]
    assert orders[0] == orders[1]
    assert orders[0] != orders[2]
    assert sorted(orders[0]) == sorted(orders[2]) == list("abcde")
    assert set(class_order(COUNTED, config(order="random", top=3))) == set("acd")


def test_columns_follow_the_class_order() -> None:
    source = random_table()
    stream = build(source, config(order="random", way=2, seed=3))
    place = [source.class_names.index(name) for name in stream.class_names]
    assert place != sorted(place)
    for task in stream:
        assert (task.test.y == source.labels[task.test.rows][:, place[: task.stop]]).all()


# ---- which images


def test_validation_never_touches_the_test_images() -> None:
    source = random_table()
    stream = build(source, config(way=2, validation=0.25))
    secret = set(np.flatnonzero(source.test).tolist())
    sets = [s for t in stream for s in (t.train, t.test)]
    sets += [stream.joint()[0].train, stream.joint(full=True)[0].train, stream.joint()[0].test]
    for samples in sets:
        assert not secret & set(samples.rows.tolist())
    train, held_out = set().union(*training(stream)), set(stream[-1].test.rows.tolist())
    assert not train & held_out
    usable = set(np.flatnonzero((source.labels == 1).any(axis=1) & ~source.test).tolist())
    assert train | held_out == usable
    assert len(held_out) / len(usable) == pytest.approx(0.25, abs=0.02)


def test_limit() -> None:
    source = random_table()
    few, more, all_ = (build(source, config(way=2, limit=limit)) for limit in (60, 120, 0))
    sets = [set().union(*training(stream)) for stream in (few, more, all_)]
    assert sets[0] < sets[1] < sets[2]
    assert 50 < len(sets[0]) <= 60  # less those without a label
    assert len(set().union(*training(build(source, config(way=2, limit=10**6))))) == len(sets[2])
    for stream in (few, more):
        assert (stream[-1].test.rows == all_[-1].test.rows).all()
        assert stream.full is not None
        assert set(stream.full.rows.tolist()) == set().union(*training(stream))


def test_limit_and_validation() -> None:
    source = random_table()
    held = build(source, config(way=2, validation=0.25))
    both = build(source, config(way=2, validation=0.25, limit=100))
    assert (both[-1].test.rows == held[-1].test.rows).all()
    assert set().union(*training(both)) < set().union(*training(held))


# ---- joint


@pytest.mark.parametrize("scenario", ["il", "cl"])
def test_joint_keeps_each_images_own_mask(scenario: str) -> None:
    stream = build(random_table(unknown=0.1), config(way=2, scenario=scenario))
    joint = stream.joint()
    assert len(joint) == 1
    task = joint[0]
    assert (task.index, task.start, task.stop, task.names) == (0, 0, 6, stream.class_names)
    assert task.test is stream[-1].test
    place = {row: n for n, row in enumerate(task.train.rows)}
    assert len(place) == len(task.train) == sum(len(t.train) for t in stream)
    for own in stream:
        there = [place[row] for row in own.train.rows]
        assert (task.train.known[there, : own.stop] == own.train.known).all()
        assert not task.train.known[there, own.stop :].any()
        known = own.train.known
        assert (task.train.y[there, : own.stop][known] == own.train.y[known]).all()


def test_joint_full_has_all_labels() -> None:
    source = random_table(unknown=0.1)
    stream = build(source, config(way=2, partial=0.5))
    full = stream.joint(full=True)[0].train
    truth = source.labels[full.rows]
    assert set(full.rows.tolist()) == set().union(*training(stream))
    assert (full.known == (truth != UNKNOWN)).all()
    assert (full.y[full.known] == truth[full.known]).all()


# ---- a source's own split


def split_table() -> LabelTable:
    labels = np.array([[1, 1], [1, 1], [1, 0], [0, 1], [1, 1], [1, 1], [0, 1], [1, 0]])
    return table(labels, [0, 0, 0, 0, 0, 1, 1, 1], owner=np.array([0, 1, 0, 1, -1, 1, 1, 0]), widths=(1, 1))


def test_own_split_stands() -> None:
    stream = build(split_table(), config())
    assert training(stream) == [{0, 2}, {1, 3}]
    assert [sorted(task.test.rows.tolist()) for task in stream] == [[7], [5, 6, 7]]


def test_own_split_can_be_dealt_anew() -> None:
    stream = build(split_table(), config(split="deal", way=1))
    assert set().union(*training(stream)) == {0, 1, 2, 3}  # what the source places nowhere stays there


@pytest.mark.parametrize(
    "given", [{"way": 1}, {"first": 1}, {"widths": (1, 1)}, {"top": 1}, {"order": "random"}]
)
def test_own_split_is_not_split_otherwise(given: dict[str, Any]) -> None:
    message = rf'stream\.{next(iter(given))}: toys comes with its own tasks.*"deal"'
    with pytest.raises(ConfigError, match=message):
        build(split_table(), config(**given))


def test_own_split_with_limit_and_validation() -> None:
    source = random_table(classes=4, images=400)
    owner = deal(source.labels == 1, (2, 2), np.arange(400))
    source = dataclasses.replace(source, owner=owner, widths=(2, 2))
    plain = training(build(source, config()))
    limited = build(source, config(limit=100))
    for part, whole in zip(training(limited), plain, strict=True):
        assert 0 < len(part) < len(whole)
        assert part < whole
    assert sum(map(len, training(limited))) <= 100
    held = build(source, config(validation=0.25))
    assert not set(held[-1].test.rows.tolist()) & set(np.flatnonzero(source.test).tolist())
    assert not set(held[-1].test.rows.tolist()) & set().union(*training(held))
    for task, whole in zip(held, plain, strict=True):
        assert set(task.train.rows.tolist()) < whole
        assert (owner[task.test.rows] <= task.index).all()


def test_what_a_source_places_nowhere_counts_for_nothing() -> None:
    """Were it otherwise, `limit` and `validation` would choose images that are in no task anyway."""
    source = random_table(classes=4, images=400)
    owner = deal(source.labels == 1, (2, 2), np.arange(400))
    away = np.arange(400) % 2 == 0
    source = dataclasses.replace(source, owner=np.where(away, NOWHERE, owner), widths=(2, 2))
    placed = place(source, config(validation=0.25, limit=60))
    train = ~placed.held & ~source.test
    assert (placed.owner[away] == NOWHERE).all()
    assert (placed.owner[train] != NOWHERE).sum() == 60
    assert placed.held.sum() == round(0.25 * (~source.test & ~away & (owner != NOWHERE)).sum())


# ---- placement


@pytest.mark.parametrize("more", [{}, {"limit": 90}, {"order": "frequency", "top": 5}])
def test_a_placement_has_what_both_streams_need(more: dict[str, Any]) -> None:
    """With a validation part or tested on the test images: the same tasks, decided once."""
    source = random_table()
    placed = place(source, config(way=2, validation=0.25, **more))
    held, test = (build(source, config(way=2, validation=share, **more)) for share in (0.25, 0))
    for task in held:
        chosen = (placed.owner == task.index) & ~source.test & ~placed.held
        assert set(task.train.rows.tolist()) == set(np.flatnonzero(chosen).tolist())
        chosen = (placed.owner <= task.index) & (placed.owner != NOWHERE) & placed.held
        assert set(task.test.rows.tolist()) == set(np.flatnonzero(chosen).tolist())
    for task in test:
        chosen = (placed.owner <= task.index) & (placed.owner != NOWHERE) & source.test
        assert set(task.test.rows.tolist()) == set(np.flatnonzero(chosen).tolist())


# ---- errors


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"partial": 1.5}, r"stream\.partial: 1\.5 is not within 0\.0 and 1\.0"),
        ({"partial": float("nan")}, r"stream\.partial"),
        ({"validation": 0.95}, r"stream\.validation: 0\.95 is not within 0\.0 and 0\.9"),
        ({"validation": -0.1}, r"stream\.validation"),
        ({"way": 0}, "at least one class"),
        ({"widths": (2, 0)}, "at least one class"),
        ({"top": -1}, "cannot be negative"),
        ({"limit": -1}, "cannot be negative"),
        ({"first": -1}, "cannot be negative"),
        ({"seed": -1}, r"stream\.seed: -1 is negative"),
    ],
)
def test_settings_are_checked(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        config(**given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"widths": (3, 2)}, r"stream\.widths: they add up to 5, not to 6 classes"),
        ({"widths": (3, 3), "top": 5}, r"stream\.widths: they add up to 6, not to 5 classes"),
        ({"top": 7}, r"stream\.top: 7 classes wanted, toys has 6"),
    ],
)
def test_settings_must_fit_the_table(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build(random_table(), config(**given))


def test_a_task_without_images_is_named() -> None:
    with pytest.raises(DataError, match=r"toys: task 2 \(b\) has no training image; .* \(stream\.way"):
        build(table([[1, 0], [1, 0], [0, 1]], [0, 1, 1]), config(way=1))
    with pytest.raises(DataError, match=r"toys: task 1 \(a\) has no test image"):
        build(table([[1, 0], [0, 1], [0, 1]], [0, 0, 1]), config(way=1))
    with pytest.raises(DataError, match="no test image"):
        build(table([[1, 0], [0, 1]], [0, 0]), config(way=1))


def test_samples_must_fit_together() -> None:
    with pytest.raises(AssertionError):
        Samples(Numbered(2), np.arange(2), np.zeros((2, 3), np.uint8), np.zeros((2, 2), bool))
    with pytest.raises(AssertionError):
        Samples(Numbered(2), np.arange(1), np.zeros((2, 3), np.uint8), np.zeros((2, 3), bool))


def test_what_was_left_out_is_noted() -> None:
    source = table([[1, 0], [0, 1], [0, 0], [1, 0], [0, 1], [0, -1]], [0, 0, 0, 1, 1, 1], notes=("odd",))
    stream = build(source, config(way=1))
    assert stream.notes == ("odd", "2 images without any class of the stream left out")
    assert stream.joint(full=True).notes == stream.notes
    assert build(split_table(), config()).notes == ()


def test_an_image_more_moves_few_others() -> None:
    source = random_table()
    fewer = table(source.labels[:-10], source.test[:-10])
    before, after = (place(t, config(way=2)).owner for t in (fewer, source))
    assert (before != after[:-10]).sum() < 20
