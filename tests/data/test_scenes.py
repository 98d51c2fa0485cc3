"""The drawn scenes: the same every time, as often together as the oracle says, and visible."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from mlcl.data.pictograms import PICTOGRAMS
from mlcl.data.scenes import CONCEPTS, CONTEXTS, SceneImages, draw, oracle, prior, sample_labels
from mlcl.errors import DataError


def _one(*names: str) -> np.ndarray:
    return np.array([name in names for name in CONCEPTS], dtype=np.uint8)


def _estimate(labels: np.ndarray) -> np.ndarray:
    """(C, C): how often i is there among the scenes with j."""
    counts: np.ndarray = labels.astype(np.float64).T @ labels
    return np.asarray(counts / np.diag(counts))


def test_every_concept_has_a_pictogram_and_no_pictogram_is_idle() -> None:
    assert len(CONCEPTS) == 24
    assert set(CONCEPTS) == set(PICTOGRAMS)
    assert sum(CONTEXTS.values()) == pytest.approx(1)


def test_boxes_measure_one_at_their_longer_side() -> None:
    for name, pictogram in PICTOGRAMS.items():
        for box in pictogram.boxes:
            assert 0.85 <= max(box) <= 1, name


def test_labels_depend_on_seed_and_row_only() -> None:
    labels = sample_labels(7, 500)
    assert labels.dtype == np.uint8
    assert labels.shape == (500, 24)
    assert np.array_equal(labels[:123], sample_labels(7, 123))
    assert not np.array_equal(labels, sample_labels(8, 500))
    assert sample_labels(7, 0).shape == (0, 24)


def test_labels_of_a_seed_never_change() -> None:
    """A published result names a seed: what it stands for may not drift between versions."""
    rows = [[CONCEPTS[k] for k in np.flatnonzero(row)] for row in sample_labels(0, 3)]
    assert rows == [["person", "kite", "cup", "pot", "chair"], ["tree", "dog", "bird"], ["person", "book"]]


def test_two_to_six_labels() -> None:
    counts = sample_labels(1, 20_000).sum(1)
    assert set(counts) == {2, 3, 4, 5, 6}


def test_frequencies_are_the_prior() -> None:
    labels = sample_labels(2, 100_000)
    error = np.abs(labels.mean(0) - prior())
    assert error.max() < 5 * np.sqrt(0.25 / len(labels))
    assert 0.5 < prior()[CONCEPTS.index("person")] < 0.6
    others = np.delete(prior(), CONCEPTS.index("person"))
    assert 0.08 < others.min() < 0.1
    assert 0.25 < others.max() < 0.35


def test_conditional_frequencies_converge_to_the_oracle() -> None:
    labels, truth = sample_labels(3, 100_000), oracle()
    distances = [np.sqrt(np.mean((_estimate(labels[:n]) - truth) ** 2)) for n in (1_000, 10_000, 100_000)]
    assert distances[0] > 2 * distances[1] > 4 * distances[2]  # by sqrt(10) each time
    assert distances[2] < 0.004
    # every entry by itself, within five of its standard errors
    error = np.sqrt(truth * (1 - truth) / (100_000 * prior()))
    assert (np.abs(_estimate(labels) - truth) <= 5 * error + 1e-12).all()


def test_oracle_obeys_bayes() -> None:
    truth, marginal = oracle(), prior()
    assert np.allclose(np.diag(truth), 1)
    assert np.allclose(truth * marginal, (truth * marginal).T)
    assert (truth > 0).all()
    assert (truth <= 1 + 1e-12).all()


def test_oracle_agrees_with_counting_every_scene(monkeypatch: pytest.MonkeyPatch) -> None:
    """On five concepts every combination can be listed."""
    from mlcl.data import scenes

    given = np.array([[0.9, 0.5, 0.3, 0.1, 0.2], [0.1, 0.2, 0.8, 0.7, 0.4]])
    contexts = np.array([0.6, 0.4])
    monkeypatch.setattr(scenes, "CONCEPTS", CONCEPTS[:5])
    monkeypatch.setattr(scenes, "CONTEXTS", {"a": 0.6, "b": 0.4})
    monkeypatch.setattr(scenes, "_PRIOR", contexts)
    monkeypatch.setattr(scenes, "_GIVEN", given)
    monkeypatch.setattr(scenes, "MOST", 3)
    monkeypatch.setattr(scenes, "_ALLOWED", scenes._tails(given)[0][..., 0])

    every = np.array([row for row in itertools.product([0, 1], repeat=5) if 2 <= sum(row) <= 3])
    odds = np.where(every[:, None], given, 1 - given).prod(-1)  # scenes x contexts
    chance = (odds / odds.sum(0)) @ contexts
    joint = np.einsum("s,si,sj->ij", chance, every, every)
    assert np.allclose(prior(), np.diag(joint))
    assert np.allclose(oracle(), joint / np.diag(joint))


def test_the_oracle_has_a_graph_to_learn() -> None:
    lift = oracle() / prior()[:, None]
    pairs = {("car", "traffic light"): 2.5, ("boat", "fish"): 3, ("cup", "pot"): 1.5, ("lamp", "book"): 1.5}
    for (a, b), least in pairs.items():
        assert lift[CONCEPTS.index(a), CONCEPTS.index(b)] > least
    assert lift[CONCEPTS.index("bus"), CONCEPTS.index("pot")] < 0.3
    others = [k for k in range(24) if k != CONCEPTS.index("person")]
    assert lift[CONCEPTS.index("person"), others].max() < 1.4  # nearly everywhere, so it tells little


@pytest.mark.parametrize("size", [32, 96, 128, 224])
def test_every_concept_can_be_drawn(size: int) -> None:
    for k, name in enumerate(CONCEPTS):
        picture = draw(_one(name), 0, k, size)
        assert picture.shape == (size, size, 3)
        assert picture.dtype == np.uint8
        assert picture.std() > 5


def test_every_variant_fills_its_box() -> None:
    """Placing things reckons with their boxes; drawn as a silhouette, they must be what is claimed."""
    from mlcl.data.pictograms.canvas import Canvas, Pen, Style
    from mlcl.data.pictograms.palettes import MOODS

    side = 192
    for name, pictogram in PICTOGRAMS.items():
        for variant, (w, h) in enumerate(pictogram.boxes):
            canvas = Canvas(side // 3, MOODS[0], np.random.default_rng(variant))
            silhouette = Style(warp=0).silhouette((255, 255, 255))
            pictogram.draw(Pen(canvas, 0.5, 0.5, 1 / 3, variant=variant, style=silhouette))
            drawn = np.asarray(canvas.image)[..., 0] > 0
            for along, half in ((drawn.any(0), w), (drawn.any(1), h)):
                covered = np.flatnonzero(along)
                low, high = ((end - side / 2) / (side / 3) for end in (covered[0], covered[-1]))
                assert abs(low + half) < 0.12, (name, variant, low, half)
                assert abs(high - half) < 0.12, (name, variant, high, half)
            assert drawn.sum() > 0.2 * 4 * w * h * (side / 3) ** 2, (name, variant)


@pytest.mark.parametrize("style", range(5))
def test_every_style_draws_every_variant_differently(style: int) -> None:
    from mlcl.data.pictograms.canvas import Canvas, Pen
    from mlcl.data.pictograms.composition import STYLES
    from mlcl.data.pictograms.palettes import MOODS

    seen = set()
    for pictogram in PICTOGRAMS.values():
        for variant in range(len(pictogram.boxes)):
            canvas = Canvas(32, MOODS[0], np.random.default_rng(0))
            pictogram.draw(Pen(canvas, 0.5, 0.5, 0.4, variant=variant, style=STYLES[style][1]))
            seen.add(canvas.image.tobytes())
    assert len(seen) == sum(len(pictogram.boxes) for pictogram in PICTOGRAMS.values())


@pytest.mark.parametrize("name", CONCEPTS)
def test_every_concept_changes_the_picture(name: str) -> None:
    beside = "tree" if name != "tree" else "car"
    assert not np.array_equal(draw(_one(beside), 5, 0, 64), draw(_one(beside, name), 5, 0, 64))


def test_a_picture_depends_on_its_arguments_only() -> None:
    labels = sample_labels(0, 20)
    first = [draw(row, 0, k, 64) for k, row in enumerate(labels)]
    np.random.seed(1)  # noqa: NPY002  (the global generator must not matter)
    again = [draw(row.astype(bool), 0, k, 64) for k, row in reversed(list(enumerate(labels)))]
    assert all(np.array_equal(a, b) for a, b in zip(first, reversed(again), strict=True))
    assert not np.array_equal(first[0], draw(labels[0], 1, 0, 64))
    assert not np.array_equal(first[0], draw(labels[0], 0, 1, 64))


def test_a_scene_looks_the_same_at_every_size() -> None:
    labels = sample_labels(4, 1)[0]
    small, large = draw(labels, 4, 0, 64).astype(float), draw(labels, 4, 0, 128).astype(float)
    assert np.abs(large.reshape(64, 2, 64, 2, 3).mean((1, 3)) - small).mean() < 12


@pytest.mark.parametrize("labels", [np.zeros(24, np.uint8), np.ones(24, np.uint8)])
def test_unlikely_labels_can_be_drawn(labels: np.ndarray) -> None:
    assert draw(labels, 0, 0, 32).shape == (32, 32, 3)


def test_labels_of_another_table_are_refused() -> None:
    with pytest.raises(DataError, match=r"expected shape \(24,\), got \(20,\)"):
        draw(np.zeros(20), 0, 0)


def test_things_stay_large_and_in_sight() -> None:
    from mlcl.data.pictograms.backdrops import Stage
    from mlcl.data.pictograms.composition import Dice, arrange

    dice = Dice(np.random.default_rng(0))
    stages = [Stage(0.5), Stage(0.7, water=(0.35, 0.7)), Stage(0.0)]
    labels = sample_labels(6, 300)
    for row, stage in zip(labels, itertools.cycle(stages), strict=False):
        things = arrange([PICTOGRAMS[CONCEPTS[k]] for k in np.flatnonzero(row)], stage, dice)
        assert len(things) == row.sum()
        for k, thing in enumerate(things):
            assert 0.18 <= thing.size <= 0.55
            covered = sum(thing.overlap(nearer) for nearer in things[k + 1 :]) / thing.area
            assert covered <= 0.5


def test_images_load_as_they_are_drawn() -> None:
    labels = sample_labels(0, 8)
    images = SceneImages(labels, seed=0, size=32, first=100)
    batch = images.load([3, 0, 3])
    assert len(images) == 8
    assert batch.dtype == torch.uint8
    assert batch.shape == (3, 3, 32, 32)
    assert torch.equal(batch[0], batch[2])
    assert np.array_equal(batch[0].permute(1, 2, 0).numpy(), draw(labels[3], 0, 103, 32))
    assert images.load([]).shape == (0, 3, 32, 32)


def test_each_image_is_drawn_once_and_cannot_be_spoilt(monkeypatch: pytest.MonkeyPatch) -> None:
    from mlcl.data import scenes

    drawn: list[int] = []

    def counted(labels: np.ndarray, seed: int, index: int, size: int) -> np.ndarray:
        drawn.append(index)
        return draw(labels, seed, index, size)

    monkeypatch.setattr(scenes, "draw", counted)
    images = SceneImages(sample_labels(0, 6), 0, 32)
    first = images.load([1, 2])
    kept = first.clone()
    first.zero_()
    assert torch.equal(images.load(np.array([1, 2])), kept)
    assert sorted(drawn) == [1, 2]


def test_loading_from_threads_equals_loading_in_order() -> None:
    labels = sample_labels(0, 24)
    serial = SceneImages(labels, 0, 32).load(range(24))
    images = SceneImages(labels, 0, 32)
    wanted = [np.random.default_rng(k).permutation(24)[:12] for k in range(16)]
    with ThreadPoolExecutor(8) as pool:
        for indices, batch in zip(wanted, pool.map(images.load, wanted), strict=True):
            assert torch.equal(batch, serial[torch.from_numpy(indices)])
