"""Ridge: equal to a reference, whatever the batches; what it says of old classes; what it unlearns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.linear_model import Ridge as Reference
from torch import Tensor

from mlcl import Batch, Task
from mlcl.data.images import FileImages
from mlcl.data.table import LabelTable
from mlcl.errors import ConfigError, DataError
from mlcl.methods import ridge as module
from mlcl.methods.ridge import Ridge
from mlcl.methods.ridge_acm import RidgeACM
from mlcl.nn.backbone import Backbone
from mlcl.stream import StreamConfig, build

WIDTHS = (2, 1, 2)
IMAGES, D, S = 90, 8, sum(WIDTHS)
TINY = Backbone.Config(name="tiny")


@pytest.fixture(autouse=True)
def small_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products of 16 rows, so that these few images fill several."""
    monkeypatch.setattr(module, "ROWS", 16)


def make(kind: type[Ridge] = Ridge, **settings: Any) -> Ridge:
    return kind(kind.Config(backbone=TINY, **{"penalties": (5.0,), "past": 0.0, **settings}))


def data(seed: int = 0) -> tuple[Tensor, Tensor]:
    """All tasks' features (float32, as they come) and full labels; task t has images [t, t + 1) * IMAGES."""
    chance = torch.Generator().manual_seed(seed)
    y = (torch.rand(IMAGES * len(WIDTHS), S, generator=chance) < 0.35).float()
    f = y @ torch.randn(S, D, generator=chance) + torch.randn(len(y), D, generator=chance)
    return f, y


def task(index: int) -> Task:
    stop = sum(WIDTHS[: index + 1])
    start = stop - WIDTHS[index]
    names = tuple(f"class {c}" for c in range(start, stop))
    return Task(index, start, stop, names, None, None)  # type: ignore[arg-type]


def batches(index: int, size: int = IMAGES, order: Tensor | None = None, scenario: str = "il") -> list[Batch]:
    f, y = data()
    t = task(index)
    rows = torch.arange(index * IMAGES, (index + 1) * IMAGES)
    rows = rows if order is None else rows[order]
    known = torch.ones(IMAGES, t.stop, dtype=torch.bool)
    if scenario == "il":
        known[:, : t.start] = False
    parts = range(0, IMAGES, size)
    return [Batch(f[rows[a : a + size]], y[rows[a : a + size], : t.stop], known[a : a + size]) for a in parts]


def learn(learner: Ridge, upto: int = len(WIDTHS), skip: tuple[int, ...] = (), **how: Any) -> Ridge:
    for index in range(upto):
        learner.begin_task(task(index))
        for batch in [] if index in skip else batches(index, **how):
            learner.observe(batch)
        learner.end_task(task(index), [])
    return learner


def scores(learner: Ridge, f: Tensor) -> Tensor:
    return learner.design(f) @ learner.fit.weights


@pytest.mark.parametrize("scenario", ["il", "cl"])
def test_equals_one_ridge_regression_on_all_images(scenario: str) -> None:
    """Unknown = no: earlier images lack the new classes, and in IL later ones the old."""
    learner = learn(make(unknown="zero"), scenario=scenario)
    f, y = data()
    for index in range(len(WIDTHS)):
        rows, t = slice(index * IMAGES, (index + 1) * IMAGES), task(index)
        y[rows, t.stop :] = 0
        if scenario == "il":
            y[rows, : t.start] = 0
    scaled = ((f - f.mean(0)) / f.std(0, correction=0)).double().numpy()
    expected = Reference(alpha=5.0).fit(scaled, y.numpy()).predict(scaled)
    np.testing.assert_allclose(scores(learner, f).numpy(), expected, atol=1e-5)


@pytest.mark.parametrize(
    "settings", [{}, {"past": 0.5}, {"random": 12}, {"unknown": "hard", "threshold": 0.3}]
)
def test_the_size_of_batches_does_not_matter(settings: dict[str, Any]) -> None:
    f, _ = data()
    one, seven, all_ = (scores(learn(make(**settings), size=size), f) for size in (1, 7, IMAGES))
    assert torch.equal(one, seven)  # products are of as many rows, whatever came together
    assert torch.equal(one, all_)


@pytest.mark.parametrize("settings", [{"unknown": "zero"}, {"unknown": "soft", "past": 0.5}])
def test_the_order_inside_a_task_does_not_matter(settings: dict[str, Any]) -> None:
    """With self-labels neither: who says them is the model as the task began."""
    f, _ = data()
    order = torch.randperm(IMAGES, generator=torch.Generator().manual_seed(1))
    a, b = (scores(learn(make(**settings), order=o, size=13), f) for o in (None, order))
    torch.testing.assert_close(a, b, atol=1e-9, rtol=0)


def test_what_is_said_of_old_classes_by_hand() -> None:
    """Scores -.5, .4 and 2 of an old class: as said, less sure, and certain; .4 ^ 1.5 is .25298."""
    z = torch.tensor([[-0.5, 1.0], [0.4, 1.0], [2.0, 1.0]], dtype=torch.float64)
    y, known = torch.tensor([[9.0, 1], [9, 0], [9, 1]]), torch.tensor([[False, True]] * 3)
    expected = {
        ("soft", 1.0): [-0.5, 0.4, 1],
        ("soft", 1.5): [-0.5, 0.25298, 1],
        ("hard", 1.5): [0, 0, 1],
        ("zero", 1.5): [0, 0, 0],
    }
    for (unknown, sharpness), old in expected.items():
        learner = make(unknown=unknown, sharpness=sharpness)
        learner.teacher = torch.tensor([[1.0], [0.0]], dtype=torch.float64)
        targets = learner.targets(z, y, known)
        torch.testing.assert_close(targets[:, 0], torch.tensor(old, dtype=torch.float64), atol=1e-5, rtol=0)
        assert targets[:, 1].tolist() == [1, 0, 1]
    known[:, 0] = True
    assert learner.targets(z, y, known)[:, 0].tolist() == [9, 9, 9]


def test_it_knows_what_it_has_seen_before_the_task_ends() -> None:
    learner, f = make(), data()[0]
    learner.begin_task(task(0))
    assert learner.predict(f[:2]).tolist() == [[0.5, 0.5]] * 2  # nothing was seen yet
    for batch in batches(0, size=10)[:1]:  # waits: fewer than make a product
        learner.observe(batch)
    reference = learn(make(), upto=1)
    early, late = learner.predict(f), reference.predict(f)
    for batch in batches(0, size=10)[1:]:
        learner.observe(batch)
    learner.end_task(task(0), [])
    torch.testing.assert_close(learner.predict(f), late)
    assert not torch.allclose(early, late, atol=1e-3)


@pytest.mark.parametrize("gone", [0, 1, 2])
def test_a_task_that_was_unlearnt_was_never_there(gone: int) -> None:
    f, _ = data()
    learner = learn(make(unknown="zero", unlearn=True))
    before = scores(learner, f)
    learner.forget(gone)
    never = learn(make(unknown="zero", unlearn=True), skip=(gone,))
    torch.testing.assert_close(scores(learner, f), scores(never, f), atol=1e-9, rtol=0)
    torch.testing.assert_close(learner.predict(f), never.predict(f), atol=1e-6, rtol=0)
    assert not torch.allclose(before, scores(learner, f), atol=1e-2)
    learner.forget(gone)  # there is nothing left to take out
    torch.testing.assert_close(scores(learner, f), scores(never, f), atol=1e-9, rtol=0)


def test_a_task_may_be_unlearnt_while_another_is_learnt() -> None:
    f, _ = data()
    learner = learn(make(unknown="zero", unlearn=True), upto=2)
    learner.begin_task(task(2))
    first, second = batches(2, size=IMAGES // 2)
    learner.observe(first)
    learner.forget(0)
    learner.observe(second)
    learner.end_task(task(2), [])
    for gone in ((0,), (0, 2)):
        never = learn(make(unknown="zero", unlearn=True), skip=gone)
        torch.testing.assert_close(scores(learner, f), scores(never, f), atol=1e-9, rtol=0)
        learner.forget(2)


def test_images_that_were_unlearnt_were_never_there() -> None:
    f, _ = data()
    learner = learn(make(unknown="zero", unlearn=True))
    whole = batches(1)[0]
    first = Batch(whole.x[:20], whole.y[:20], whole.known[:20])
    learner.unlearn(first, task=1)
    never = make(unknown="zero", unlearn=True)
    for index in range(3):
        never.begin_task(task(index))
        (batch,) = batches(index)
        if index == 1:
            batch = Batch(batch.x[20:], batch.y[20:], batch.known[20:])
        never.observe(batch)
        never.end_task(task(index), [])
    torch.testing.assert_close(scores(learner, f), scores(never, f), atol=1e-9, rtol=0)
    learner.forget(1)  # and of that task only what is left is taken out
    never.forget(1)
    torch.testing.assert_close(scores(learner, f), scores(never, f), atol=1e-9, rtol=0)


def test_two_that_saw_half_each_are_one_that_saw_all() -> None:
    f, _ = data()
    whole = learn(make(), upto=1)
    halves = [make(), make()]
    for half, part in zip(halves, ([0, 2], [1]), strict=True):
        half.begin_task(task(0))
        for place in part:
            half.observe(batches(0, size=IMAGES // 3)[place])
    halves[0].merge(halves[1])
    torch.testing.assert_close(scores(halves[0], f), scores(whole, f), atol=1e-9, rtol=0)


def test_an_image_of_which_nothing_is_known_is_no_example() -> None:
    f, _ = data()
    a, b = make(), learn(make(), upto=1)
    a.begin_task(task(0))
    a.observe(batches(0)[0])
    grey = Batch(torch.full((5, D), 50.0), torch.zeros(5, 2), torch.zeros(5, 2, dtype=torch.bool))
    a.observe(grey)
    a.end_task(task(0), [])
    assert torch.equal(scores(a, f), scores(b, f))


def test_filling_in_the_past_is_a_setting_that_matters() -> None:
    f, _ = data()
    a, b = (scores(learn(make(past=past)), f) for past in (0.0, 0.6))
    assert (a - b)[:, WIDTHS[0] :].abs().max() > 0.01


def test_cached_features_give_the_same_and_decode_nothing(tmp_path: Path) -> None:
    chance = np.random.default_rng(0)
    names = [f"{i}.png" for i in range(24)]
    (tmp_path / "images").mkdir()
    for name in names:
        pixels = chance.integers(0, 255, (32, 32, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "images" / name)
    labels = (chance.random((24, 4)) < 0.5).astype(np.int8)
    labels[:, 0] = 1
    test = np.arange(24) % 3 == 0
    classes = ("a", "b", "c", "d")
    table = LabelTable("t", classes, names, labels, test, FileImages(tmp_path / "images", names, 32))
    learner = make()
    cached = learner.cached(table, tmp_path / "features")
    (tmp_path / "images" / "1.png").unlink()
    learner.cached(table, tmp_path / "features")  # again, without that image
    streams = [build(t, StreamConfig(way=4)) for t in (cached, learner.cached(table, tmp_path / "features"))]
    first, second = (stream[0].train.batch(np.arange(16)) for stream in streams)
    assert torch.equal(first.x, second.x)
    pixels = FileImages(tmp_path / "images", names, 32).load([3])
    assert torch.equal(learner.features(cached.images.load([3])), cached.images.load([3]))
    torch.testing.assert_close(learner.features(pixels), cached.images.load([3]), atol=1e-5, rtol=1e-4)
    with pytest.raises(DataError, match="another folder"):
        make(pool="mean").cached(table, tmp_path / "features")


def test_the_graph_hears_neighbours_as_told() -> None:
    f, _ = data()
    plain = learn(make())
    deaf, hears = (learn(make(RidgeACM, neighbours=n)) for n in (0.0, 0.5))
    torch.testing.assert_close(deaf.predict(f), plain.predict(f))
    a = torch.tensor(hears.findings()["acm"], dtype=torch.float64).fill_diagonal_(0)
    p = plain.probabilities(f)
    expected = 0.5 * p + 0.5 * p @ (a / a.sum(1, keepdim=True)).T
    torch.testing.assert_close(hears.probabilities(f), expected, atol=1e-6, rtol=0)


def test_the_graph_is_counted_from_what_was_learnt() -> None:
    learner = learn(make(RidgeACM), upto=1)
    y = data()[1][:IMAGES, :2]
    acm = torch.tensor(learner.findings()["acm"])
    assert acm[0, 1] == pytest.approx(float((y[:, 0] * y[:, 1]).sum() / y[:, 1].sum()), abs=1e-5)


def test_what_cannot_be_is_said() -> None:
    for settings, message in (
        ({"penalties": ()}, "at least one"),
        ({"penalties": (0.0,)}, "above 0"),
        ({"unlearn": True}, 'unknown = "zero"'),
        ({"unlearn": True, "unknown": "zero", "past": 0.5}, "past = 0"),
        ({"past": 1.5}, "past: 1.5"),
        ({"random": -1}, "negative"),
    ):
        with pytest.raises(ConfigError, match=message):
            make(**settings)
    with pytest.raises(ConfigError, match="neighbours"):
        make(RidgeACM, neighbours=2.0)
    learner = learn(make(), upto=1)
    with pytest.raises(ConfigError, match="unlearn: is off"):
        learner.forget(0)
    with pytest.raises(ConfigError, match="unlearn: is off"):
        learner.unlearn(batches(0)[0], task=0)
    with pytest.raises(ConfigError, match="no task 4"):
        learn(make(unknown="zero", unlearn=True)).forget(4)
    wide = Batch(torch.zeros(2, D + 1), torch.zeros(2, 2), torch.ones(2, 2, dtype=torch.bool))
    with pytest.raises(DataError, match=f"width {D + 1}, those before had {D}"):
        learner.observe(wide)
