"""Features in the place of images: every method learns from them what it would learn from the images."""

from __future__ import annotations

import csv
import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from mlcl.data import images as files
from mlcl.data.features import FeatureImages
from mlcl.errors import ConfigError, DataError
from mlcl.experiment import Experiment
from mlcl.learner import learners
from mlcl.nn.backbone import Backbone
from mlcl.nn.cached import frozen_backbone, key
from mlcl.recipe import Recipe, resolve

MAPS = ("csc", "krt")  # need more of an image than one feature
FROZEN: dict[str, Any] = {
    "backbone": {"name": "tiny", "trainable": "none"},
    "augment": {"crop": 1.0, "flip": False},
}
COUNT = 24


@pytest.fixture
def root(tmp_path: Path) -> Path:
    chance = np.random.default_rng(0)
    labels = (chance.random((COUNT, 4)) < 0.6).astype(int)
    rows = [[f"{n}.jpg", "test" if n % 4 == 0 else "train", *row] for n, row in enumerate(labels)]
    for n in range(COUNT):
        Image.fromarray(chance.integers(0, 255, (40, 30, 3), dtype=np.uint8)).save(tmp_path / f"{n}.jpg")
    with (tmp_path / "labels.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["path", "split", *"abcd"], *rows])
    return tmp_path


def recipe(
    root: Path, methods: tuple[str, ...] = ("fine-tuning",), learner: Any = None, **data: Any
) -> Recipe:
    source = {"source": "csv", "annotations": str(root / "labels.csv"), "size": 32, **data}
    return resolve({
        "methods": list(methods), "data": source, "stream": {"way": 2}, "loop": {"batch_size": 8},
        "learner": learner or FROZEN, "device": "cpu",
    })  # fmt: skip


def unread(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*arguments: Any) -> bytes:
        raise AssertionError("a file was read")

    monkeypatch.setattr(files, "read", read)


def test_pixels_are_read_once(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = recipe(root).build_stream()
    seen: list[tuple[int, int]] = []
    first = recipe(root, cache=str(tmp_path / "pixels")).build_stream(
        lambda done, of: seen.append((done, of))
    )
    assert seen[-1] == (COUNT, COUNT)
    unread(monkeypatch)
    again = recipe(root, cache=str(tmp_path / "pixels")).build_stream()
    rows = np.arange(len(plain[0].train))
    monkeypatch.undo()
    for stream in (first, again):
        assert torch.equal(stream[0].train.batch(rows).x, plain[0].train.batch(rows).x)


def test_features_need_neither_pixels_nor_files(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = {"cache": str(tmp_path / "pixels"), "features": str(tmp_path / "features")}
    first = recipe(root, **where).build_stream()
    unread(monkeypatch)
    for path in root.glob("*.jpg"):
        path.unlink()
    for path in (tmp_path / "pixels").iterdir():
        path.unlink()
    again = recipe(root, missing="keep", features=where["features"]).build_stream()
    assert isinstance(again[0].train.images, FeatureImages)
    rows = np.arange(len(first[0].train))
    assert again[0].train.batch(rows).x.shape == (len(rows), 32)
    assert torch.equal(first[0].train.batch(rows).x, again[0].train.batch(rows).x)


def test_they_are_the_learners_own(root: Path, tmp_path: Path) -> None:
    """So a checkpoint that learnt from features predicts from images."""
    loaded = recipe(root, features=str(tmp_path / "features"))
    stream, images = loaded.build_stream(), recipe(root).build_stream()
    learner = loaded.build_learner("fine-tuning")
    learner.begin_task(stream[0])
    x = images[0].test.batch([0, 1]).x
    assert x.shape == (2, 3, 32, 32)
    torch.testing.assert_close(learner.predict(x), learner.predict(stream[0].test.batch([0, 1]).x))
    other = dataclasses.replace(loaded, head=dataclasses.replace(loaded.head, seed=1))
    with pytest.raises(DataError, match="filled with other rows"):  # its weights are drawn from the seed
        other.build_stream()


# the bounds, the graphs, the memories, the distillers: whatever has a backbone
METHODS = sorted(
    name
    for name, kind in learners().items()
    if hasattr(kind.Config(), "augment")
    and isinstance(getattr(kind.Config(), "backbone", None), Backbone.Config)
)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_learns_from_features(root: Path, tmp_path: Path, method: str) -> None:
    weights = tmp_path / "tiny.pth"
    torch.save(Backbone(Backbone.Config(name="tiny")).network.state_dict(), weights)
    learner = {**FROZEN, "backbone": {**FROZEN["backbone"], "weights": str(weights)}}
    predictions = []
    for data in ({}, {"features": str(tmp_path / "features")}):
        loaded = recipe(root, (method,), learner, **data)
        stream = loaded.build_stream()
        experiment = Experiment(stream, loaded.build_learner(method), config=loaded.loop)
        if data and method in MAPS:
            with pytest.raises(ConfigError, match=r"data\.features: this method needs maps"):
                experiment.run()
            return
        experiment.run()
        x = stream[-1].test.images.load(stream[-1].test.rows)
        predictions.append(experiment.learner.predict(x))
    torch.testing.assert_close(*predictions, atol=1e-3, rtol=1e-2)


@pytest.mark.parametrize(
    ("learner", "message"),
    [
        ({}, r'data\.features: method "fine-tuning" must leave backbone and images as they are; set '
             r'learner\.backbone\.trainable = "none", learner\.augment\.crop = 1, .*flip = false$'),
        ({**FROZEN, "augment": {"crop": 1.0}}, r"set learner\.augment\.flip = false$"),
        ({**FROZEN, "backbone": {"name": "tiny", "trainable": "last:1"}}, r'trainable = "none"$'),
    ],
)  # fmt: skip
def test_what_would_not_be_the_same_is_refused(
    root: Path, tmp_path: Path, learner: dict[str, Any], message: str
) -> None:
    learner = {"backbone": {"name": "tiny"}, **learner}
    with pytest.raises(ConfigError, match=message):
        recipe(root, learner=learner, features=str(tmp_path / "f"), cache=str(tmp_path / "c")).build_stream()
    assert not (tmp_path / "c").exists()  # it was said before any image was decoded


def test_one_backbone_for_all() -> None:
    @dataclasses.dataclass(frozen=True)
    class ClosedForm:
        backbone: Backbone.Config

    same = Backbone.Config(name="tiny", norm="train")
    tiny = resolve({"methods": ["fine-tuning"], "learner": FROZEN}).learners
    assert (
        frozen_backbone({**tiny, "mine": ClosedForm(same)}).name == "tiny"
    )  # it descends not, so it is frozen
    with pytest.raises(ConfigError, match='"mine" has another backbone than the methods before it'):
        frozen_backbone({**tiny, "mine": ClosedForm(Backbone.Config(name="tiny", pool="max"))})
    with pytest.raises(ConfigError, match='"mine" has no backbone'):
        frozen_backbone({"mine": object()})


def test_a_method_with_features_of_its_own(root: Path, tmp_path: Path) -> None:
    """Ridge looks at several depths: it gets those, and what it learns predicts from images."""
    own = {"backbone": {"name": "tiny"}}
    predictions = []
    for data in ({}, {"features": str(tmp_path / "features")}):
        loaded = recipe(root, ("ridge", "ridge+acm"), own, **data)
        stream = loaded.build_stream()
        ridge = loaded.build_learner("ridge")
        Experiment(stream, ridge, config=loaded.loop).run()
        predictions.append(ridge.predict(recipe(root).build_stream()[-1].test.batch([0, 1, 2]).x))
    torch.testing.assert_close(*predictions, atol=1e-4, rtol=1e-3)
    with pytest.raises(ConfigError, match=r"ridge and fine-tuning look at other features"):
        recipe(root, ("ridge", "fine-tuning"), features=str(tmp_path / "features")).build_stream()
    pixels = {"backbone": {"name": "tiny", "size": 16}}
    with pytest.raises(DataError, match="filled with other rows"):
        recipe(root, ("ridge",), pixels, features=str(tmp_path / "features")).build_stream()


def test_the_key_is_the_contents() -> None:
    def made(seed: int = 0, **config: Any) -> str:
        return key(Backbone(Backbone.Config(name="tiny", **config), torch.Generator().manual_seed(seed)))

    assert made() == made()
    assert made() == made(trainable="none")
    assert len({made(), made(1), made(pool="max"), made(size=16)}) == 4
