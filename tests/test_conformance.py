"""What every registered method must pass, for free (the ten checks of CONTRIBUTING.md)."""

from __future__ import annotations

import copy
import dataclasses
import json
import tomllib

import numpy as np
import pytest
import torch
from torch import Tensor

from mlcl import Experiment, Learner, Samples, Stream, Task, learners
from mlcl.config import from_tree, to_tree, write_toml
from mlcl.errors import ConfigError
from mlcl.experiment import LoopConfig
from mlcl.types import Batch, TensorImages

METHODS = sorted(learners())
SIZE = 32
BATCH = 8
# the options of the paper's methods that take another path through the code: "method key=value ..."
VARIANTS = [
    "agcn++ readout=dot",
    "agcn++ readout=mean old_nodes=student",
    "agcn++ readout=dot nodes=embeddings",
    "agcn++ node_scale=theta start=random theta=constant",
    "agcn++ propagation=official inter_task=false relation=logits",
    "agcn++ propagation=threshold transpose=true lambda3=0",
    "agcn++ old_old=recount soft_labels=softmax reduction=sum halve=true",
    "agcn propagation=official old_old=recount relation=logits",
    "prs rho=1",
    "scr temperature=0.5 projection=8",
    "ewc gamma=0 fisher_images=3",
    "lwf precision=bfloat16",
    "agcn++ precision=bfloat16",
    "scr precision=bfloat16",
]
ON_VARIANTS = ("test_01_", "test_05_", "test_08_odd", "test_10_")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    also = VARIANTS if metafunc.function.__name__.startswith(ON_VARIANTS) else []
    metafunc.parametrize("method", [*METHODS, *also])


def make_stream(
    widths: tuple[int, ...] = (2, 3, 2), images: int = 24, scenario: str = "il", seed: int = 0
) -> Stream:
    """Random images with as many random labels; every task's images are its own."""
    chance = np.random.default_rng(seed)
    classes = sum(widths)
    count = images * len(widths)
    pixels = TensorImages(
        torch.from_numpy(chance.integers(0, 256, (2 * count, 3, SIZE, SIZE), dtype=np.uint8))
    )
    labels = (chance.random((2 * count, classes)) < 0.4).astype(np.uint8)
    names = tuple(f"class {c}" for c in range(classes))
    tasks, start = [], 0
    for index, width in enumerate(widths):
        stop = start + width
        rows = np.arange(index * images, (index + 1) * images)
        known = np.ones((images, stop), bool)
        if scenario == "il":
            known[:, :start] = False
        tests = np.arange(count, count + (index + 1) * images)
        train = Samples(pixels, rows, labels[rows, :stop], known)
        test = Samples(pixels, tests, labels[tests, :stop], np.ones((len(tests), stop), bool))
        tasks.append(Task(index, start, stop, names[start:stop], train, test))
        start = stop
    everything = Samples(pixels, np.arange(count), labels[:count], np.ones((count, classes), bool))
    return Stream(names, tasks, "random", full=everything)


def tiny(method: str, seed: int = 0) -> Learner:
    """The method with a small network; a method without a backbone takes its own defaults."""
    method, *options = method.split()
    kind = learners()[method]
    tree: dict[str, object] = {}
    fields = {field.name for field in dataclasses.fields(kind.Config)}
    if "backbone" in fields:
        tree["backbone"] = {"name": "tiny"}
    if "optimizer" in fields:
        tree["optimizer"] = {"lr": 1e-3, "head_lr": 1e-2}
    for name in ("hidden", "graph_width"):
        if name in fields:
            tree[name] = 16
    if "capacity" in fields:
        tree["capacity"] = 10
    for option in options:
        key, value = option.split("=")
        tree[key] = json.loads(value) if value in ("true", "false") or value[0].isdigit() else value
    return kind(from_tree(kind.Config, tree), seed=seed)


def learn(learner: Learner, stream: Stream, **loop: int) -> Experiment:
    experiment = Experiment(stream, learner, config=LoopConfig(batch_size=BATCH, **loop))
    experiment.run()
    return experiment


def fingerprint(learner: Learner) -> list[tuple[str, bytes]]:
    """Every tensor and number of the state, by its path."""

    def walk(path: str, value: object) -> list[tuple[str, bytes]]:
        if isinstance(value, Tensor):
            return [(path, value.detach().cpu().contiguous().numpy().tobytes())]
        if isinstance(value, dict):
            return [leaf for key, below in value.items() for leaf in walk(f"{path}/{key}", below)]
        if isinstance(value, list | tuple):
            return [leaf for i, below in enumerate(value) for leaf in walk(f"{path}/{i}", below)]
        return [(path, repr(value).encode())]

    return walk("", learner.state())


def test_01_unknown_labels_are_never_read(method: str) -> None:
    stream = make_stream()

    def scrambled(task: Task) -> Task:
        noise = np.random.default_rng(9).integers(0, 2, task.train.y.shape).astype(np.uint8)
        train = dataclasses.replace(task.train, y=np.where(task.train.known, task.train.y, noise))
        return dataclasses.replace(task, train=train)

    class Raw(Samples):
        """Hands out what stands in the table, known or not: the learner itself must not look."""

        def batch(self, indices: np.ndarray) -> Batch:
            clean = super().batch(indices)
            return dataclasses.replace(clean, y=torch.from_numpy(self.y[indices].astype(np.float32)))

    def raw(task: Task) -> Task:
        t = task.train
        return dataclasses.replace(task, train=Raw(t.images, t.rows, t.y, t.known))

    a, b = tiny(method), tiny(method)
    learn(a, Stream(stream.class_names, [raw(t) for t in stream], "a", stream.full))
    learn(b, Stream(stream.class_names, [raw(scrambled(t)) for t in stream], "b", stream.full))
    assert fingerprint(a) == fingerprint(b)


def test_02_predict_changes_nothing(method: str) -> None:
    stream, learner = make_stream(), tiny(method)
    learn(learner, stream)
    before = copy.deepcopy(fingerprint(learner))
    chance = torch.get_rng_state()
    x = stream[0].test.batch(np.arange(5)).x
    first, pixels = learner.predict(x), x.clone()
    assert torch.equal(first, learner.predict(x))
    assert torch.equal(x, pixels)
    assert fingerprint(learner) == before
    assert torch.equal(torch.get_rng_state(), chance)
    assert not first.requires_grad
    assert not first.is_inference()  # such a tensor could not become a distillation target


def test_03_same_seed_same_result(method: str) -> None:
    runs = [tiny(method, seed) for seed in (3, 3, 4)]
    for learner in runs:
        learn(learner, make_stream())
    assert fingerprint(runs[0]) == fingerprint(runs[1])
    assert fingerprint(runs[0]) != fingerprint(runs[2])


def test_04_differs_from_fine_tuning(method: str) -> None:
    if learners()[method].like_fine_tuning:
        pytest.skip(f"{method} says of itself that it may equal fine-tuning")
    stream = make_stream()
    mine, plain = tiny(method), tiny("fine-tuning")
    learn(mine, Stream(stream.class_names[:5], stream[:2], "two"))
    learn(plain, Stream(stream.class_names[:5], stream[:2], "two"))
    x = stream[0].test.batch(np.arange(8)).x
    assert not torch.allclose(mine.predict(x), plain.predict(x), atol=1e-6)


@pytest.mark.parametrize("pause", [0, 1, 4])
def test_05_save_load_go_on(method: str, pause: int) -> None:
    """As if never stopped, to the bit: after `pause` batches of the second task, or of the only one."""
    stream = make_stream()
    straight = tiny(method)
    view = straight.view(stream)
    halfway = min(1, len(view) - 1)
    resumed = None
    for task in view:
        straight.begin_task(task)
        if resumed is not None:
            resumed.begin_task(task)
        for step, start in enumerate(range(0, len(task.train), BATCH)):
            if task.index == halfway and step == pause:
                resumed = tiny(method, seed=99)  # another seed: all that counts must be in the state
                resumed.load(copy.deepcopy(straight.state()))
            batch = task.train.batch(np.arange(start, min(start + BATCH, len(task.train))))
            straight.observe(batch)
            if resumed is not None:
                resumed.observe(batch)
        if task.index == halfway and resumed is None:  # a pause after the last batch, before end_task
            resumed = tiny(method, seed=99)
            resumed.load(copy.deepcopy(straight.state()))
        for learner in (straight, resumed):
            if learner is not None:
                learner.end_task(task, [task.train.batch(np.arange(len(task.train)))])
    assert resumed is not None
    assert fingerprint(straight) == fingerprint(resumed)
    x = stream[0].test.batch(np.arange(5)).x
    assert torch.equal(straight.predict(x), resumed.predict(x))


def test_06_growing_keeps_old_rows(method: str) -> None:
    stream, learner = make_stream(), tiny(method)
    view = learner.view(stream)
    if len(view) == 1:
        pytest.skip(f"{method} sees all classes at once and never grows")
    learn_part(learner, view[0])
    x = stream[0].test.batch(np.arange(6)).x
    before = learner.predict(x)
    learner.begin_task(view[1])
    after = learner.predict(x)
    assert before.shape == (6, 2)
    assert after.shape == (6, 5)
    assert torch.allclose(before, after[:, :2], atol=1e-4)


def learn_part(learner: Learner, task: Task) -> None:
    learner.begin_task(task)
    for start in range(0, len(task.train), BATCH):
        learner.observe(task.train.batch(np.arange(start, min(start + BATCH, len(task.train)))))
    learner.end_task(task, [task.train.batch(np.arange(len(task.train)))])


def test_07_memory_stays_within_its_capacity(method: str) -> None:
    learner = tiny(method)
    memory = getattr(learner, "memory", None)
    if memory is None:
        pytest.skip(f"{method} keeps no images")
    stream = make_stream()
    for task in learner.view(stream):
        learn_part(learner, task)
        assert 0 < len(memory) <= learner.config.capacity
        for value in memory.state()["x"]:
            assert value.dtype == torch.uint8
            assert value.device.type == "cpu"
    pixels = sum(x.numel() for x in memory.state()["x"])
    assert pixels <= learner.config.capacity * 3 * SIZE * SIZE


@pytest.mark.parametrize("scenario", ["il", "cl"])
def test_08_odd_streams(method: str, scenario: str) -> None:
    """Uneven tasks, a task of one class, a batch of one image, images without a positive."""
    stream = make_stream((4, 1, 2), images=BATCH + 1, scenario=scenario)
    for task in stream:
        task.train.y[: BATCH // 2] = 0
        task.train.y[-1] = 0
    experiment = learn(tiny(method), stream)
    assert experiment.results()["summary"]["mAP"]["final"] > 0


def test_08_nothing_known(method: str) -> None:
    """A batch on which nothing is known changes no prediction to nonsense."""
    stream, learner = make_stream(), tiny(method)
    task = learner.view(stream)[0]
    learner.begin_task(task)
    batch = task.train.batch(np.arange(4))
    learner.observe(dataclasses.replace(batch, known=torch.zeros_like(batch.known)))
    learner.observe(batch)
    learner.end_task(task, [batch])
    assert torch.isfinite(learner.predict(batch.x)).all()


def test_09_config_round_trip(method: str) -> None:
    kind = learners()[method].Config
    config = kind()
    assert from_tree(kind, tomllib.loads(write_toml(to_tree(config)))) == config
    for key in to_tree(config):
        with pytest.raises(ConfigError, match=f"did you mean '{key}'"):
            from_tree(kind, {f"{key}x": 1})


def test_10_probabilities(method: str) -> None:
    stream, learner = make_stream(), tiny(method)
    learn(learner, stream)
    x = torch.cat([
        stream[-1].test.batch(np.arange(5)).x,
        torch.zeros(1, 3, SIZE, SIZE, dtype=torch.uint8),
        torch.full((1, 3, SIZE, SIZE), 255, dtype=torch.uint8),
    ])  # fmt: skip
    p = learner.predict(x)
    assert p.shape == (7, len(stream.class_names))
    assert torch.isfinite(p).all()
    assert ((p >= 0) & (p <= 1)).all()
