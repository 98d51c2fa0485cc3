"""The loop on learners whose every answer is known."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from mlcl import Experiment, Learner, Samples, Stream, Task, metrics, store
from mlcl.config import Tree
from mlcl.errors import ConfigError, RunError
from mlcl.experiment import Interrupted, LoopConfig, Watcher, batches, set_threads
from mlcl.learner import Terms
from mlcl.types import Batch, Images

WIDTHS = (2, 3, 1)
TRAIN, TEST = 10, 6  # images a task


class Numbered(Images):
    """Image k is filled with k; some cannot be decoded, which is found out when they are asked for."""

    def __init__(self, count: int, bad: tuple[int, ...] = ()):
        self.count, self.bad = count, bad
        self.broken: dict[int, str] = {}
        self.loads: list[list[int]] = []

    def __len__(self) -> int:
        return self.count

    def load(self, indices: Any) -> Tensor:
        self.loads.append([int(i) for i in indices])
        for index in indices:
            if int(index) in self.bad:
                self.broken[int(index)] = f"{index}.jpg: cannot be decoded"
        numbers = [128 if int(i) in self.bad else int(i) for i in indices]
        return torch.tensor(numbers, dtype=torch.uint8)[:, None, None, None].expand(-1, 3, 2, 2)


def make_stream(bad: tuple[int, ...] = (), scenario: str = "il") -> Stream:
    """Training images first, then the test images of task 1, 2, 3; labels at random."""
    chance = np.random.default_rng(0)
    classes, trains, tests = sum(WIDTHS), TRAIN * len(WIDTHS), TEST * len(WIDTHS)
    images = Numbered(trains + tests, bad)
    labels = (chance.random((trains + tests, classes)) < 0.5).astype(np.uint8)
    tasks, start = [], 0
    for index, width in enumerate(WIDTHS):
        stop = start + width
        known = np.ones((TRAIN, stop), bool)
        known[:, : start if scenario == "il" else 0] = False
        rows = np.arange(index * TRAIN, (index + 1) * TRAIN)
        seen = np.arange(trains, trains + (index + 1) * TEST)
        train = Samples(images, rows, labels[rows, :stop], known)
        test = Samples(images, seen, labels[seen, :stop], np.ones((len(seen), stop), bool))
        names = tuple(f"class {c}" for c in range(start, stop))
        tasks.append(Task(index, start, stop, names, train, test))
        start = stop
    everything = np.ones((trains, classes), bool)
    full = Samples(images, np.arange(trains), labels[:trains], everything)
    return Stream([f"class {c}" for c in range(classes)], tasks, "numbered", full=full)


class Notes(Learner):
    """Writes down what it is told; its answer for image k and class c is a function of k, c and how often it
    was told to learn."""

    def __init__(self, config: Any = None, *, seed: int = 0, device: str = "cpu"):
        super().__init__(config, seed=seed, device=device)
        self.name: Any = "notes"  # not registered: the conformance suite must not find it
        self.told: list[Any] = []
        self.learnt = 0

    def begin_task(self, task: Task) -> None:
        super().begin_task(task)
        self.told.append(("begin", task.index))

    def observe(self, batch: Batch) -> Terms:
        self.learnt += 1
        self.told.append([int(k) for k in batch.x[:, 0, 0, 0]])
        return {"cls": torch.tensor(float(self.learnt))}

    def end_task(self, task: Task, batches: Any) -> None:
        self.told.append(("end", task.index))

    def predict(self, x: Tensor) -> Tensor:
        return answer(x[:, 0, 0, 0], self.seen, self.learnt)

    def state(self) -> Tree:
        return super().state() | {"learnt": self.learnt}

    def load(self, state: Tree) -> None:
        super().load(state)
        self.learnt = state["learnt"]

    def findings(self) -> Mapping[str, Any]:
        return {"learnt": self.learnt}


class Joint(Notes):
    """Sees everything at once, as an upper bound does."""

    def view(self, stream: Stream) -> Stream:
        return stream.joint(full=True)


def answer(numbers: Tensor, seen: int, learnt: int) -> Tensor:
    k, c = numbers.double()[:, None], torch.arange(seen).double()[None]
    values: Tensor = ((k * 7 + c * 13 + learnt) % 29 / 29).float()
    return values


def config(**settings: Any) -> LoopConfig:
    return LoopConfig(**{"batch_size": 4, "test_batch_size": 5, "checkpoint_seconds": 0.0, **settings})


# ---- the order of things


def test_begin_learn_end_test() -> None:
    learner = Notes()
    Experiment(make_stream(), learner, config=config(epochs=2)).run()
    assert len(learner.told) == 8 * len(WIDTHS)
    for index in range(len(WIDTHS)):
        told = learner.told[8 * index : 8 * index + 8]
        assert told[0] == ("begin", index)
        assert told[-1] == ("end", index)
        learnt = told[1:-1]
        assert [len(batch) for batch in learnt] == [4, 4, 2] * 2
        first, second = list(chain(*learnt[:3])), list(chain(*learnt[3:]))
        rows = list(range(index * TRAIN, (index + 1) * TRAIN))
        assert sorted(first) == sorted(second) == rows  # each image once an epoch
        assert first not in (second, rows)  # in another order each time


def test_the_order_is_a_function_of_the_seed() -> None:
    def told(seed: int) -> list[Any]:
        learner = Notes()
        Experiment(make_stream(), learner, config=config(), seed=seed).run()
        return learner.told

    assert told(0) == told(0) != told(1)


def test_images_are_decoded_one_batch_ahead_and_once() -> None:
    stream = make_stream()
    images: Any = stream[0].train.images
    taken = batches(stream[0].train, np.arange(TRAIN), 4)
    next(taken)
    next(taken)
    assert images.loads[:2] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert [len(batch) for batch in taken] == [2]
    assert images.loads[2:] == [[8, 9]]


# ---- evaluation


def expected(stream: Stream, task: int, test: int, learnt: int) -> metrics.Scores:
    """Predicted with all columns seen by then, and scored on those of the test set (D12, D13)."""
    here = stream[test]
    scores = answer(torch.as_tensor(here.test.rows), stream[task].stop, learnt)[:, : here.stop]
    return metrics.Scores.of(scores.numpy(), here.test.y, stream.class_names[: here.stop])


def test_every_test_set_is_scored_on_its_own_columns() -> None:
    stream = make_stream()
    results = Experiment(stream, Notes(), config=config()).run()
    assert [e["after_task"] for e in results["evaluations"]] == [1, 2, 3]
    for task, evaluation in enumerate(results["evaluations"]):
        assert [test["test"] for test in evaluation["tests"]] == list(range(1, task + 2))
        learnt = 3 * (task + 1)
        for test, scores in enumerate(evaluation["tests"]):
            assert scores["images"] == TEST * (test + 1)
            assert list(scores["ap"]) == list(stream.class_names[: stream[test].stop])
            wanted = expected(stream, task, test, learnt).to_json()
            assert {key: scores[key] for key in wanted} == wanted
        assert evaluation["findings"] == {"learnt": learnt}
    a = np.full((3, 3), np.nan)
    for task, test in zip(*np.tril_indices(3), strict=True):
        a[task, test] = expected(stream, task, test, 3 * (task + 1)).metrics["mAP"]
    assert results["summary"]["mAP"] == metrics.summarise(a)
    assert results["summary"]["mAP"]["mean_over_tests"] == pytest.approx(a[2].mean())


def test_each_test_image_is_predicted_once_an_evaluation() -> None:
    stream = make_stream()
    images: Any = stream[0].train.images
    learner = Notes()
    experiment = Experiment(stream, learner, config=config())
    experiment.run()
    images.loads.clear()
    experiment.evaluate(stream[2])
    first = TRAIN * len(WIDTHS)
    assert list(chain(*images.loads)) == list(range(first, first + TEST * 3))
    assert max(map(len, images.loads)) == 5


def test_only_after_the_last_task(tmp_path: Path) -> None:
    heard = []

    class Listens(Watcher):
        def learnt(self, task: Task, evaluation: Tree | None) -> None:
            heard.append(evaluation is not None)

    every = Experiment(make_stream(), Notes(), config=config()).run()
    experiment = Experiment(
        make_stream(), Notes(), config=config(evaluate="last"), folder=tmp_path, watcher=Listens()
    )
    last = experiment.run()
    assert last["evaluations"] == every["evaluations"][2:]
    assert heard == [False, False, True]
    for metric, row in last["summary"].items():
        assert row["final"] == every["summary"][metric]["final"]
        assert row["mean_over_tests"] == every["summary"][metric]["mean_over_tests"]
        missing = {key for key, value in row.items() if value is None}
        assert missing == {key for key in row if "forgetting" in key or key == "incremental"}
    assert store.read_json(tmp_path / "results.json") == last


def test_without_a_test_there_are_no_results_yet(tmp_path: Path) -> None:
    """A report on the other methods of the run must not stumble over an empty one."""

    class StopsInTask2(Notes):
        def begin_task(self, task: Task) -> None:
            super().begin_task(task)
            if task.index == 1:
                raise KeyboardInterrupt

    experiment = Experiment(make_stream(), StopsInTask2(), config=config(evaluate="last"), folder=tmp_path)
    with pytest.raises(KeyboardInterrupt):
        experiment.run()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint.pt", "task-01.pt"]
    again = Experiment(make_stream(), Notes(), config=config(evaluate="last"), folder=tmp_path)
    assert again.resume()
    assert again.run()["learnt"] == "3 of 3"


def test_a_bound_sees_everything_at_once_and_is_tested_on_every_test_set() -> None:
    stream = make_stream()
    learner = Joint()
    results = Experiment(stream, learner, config=config()).run()
    assert [note for note in learner.told if isinstance(note, tuple)] == [("begin", 0), ("end", 0)]
    learnt = chain(*(note for note in learner.told if isinstance(note, list)))
    assert sorted(learnt) == list(range(TRAIN * 3))
    assert results["learnt"] == "1 of 1"
    assert [len(task["classes"]) for task in results["tasks"]] == list(WIDTHS)
    (evaluation,) = results["evaluations"]
    for test, scores in enumerate(evaluation["tests"]):
        wanted = expected(stream, 2, test, learner.learnt).to_json()
        assert {key: scores[key] for key in wanted} == wanted
    summary = results["summary"]["mAP"]
    assert summary["final"] == evaluation["tests"][2]["mAP"]
    assert summary["mean_over_tests"] == pytest.approx(np.mean([t["mAP"] for t in evaluation["tests"]]))
    assert summary["incremental"] is None  # it never was after a task, so it forgot nothing either
    assert summary["forgetting_absolute"] is None


def test_a_broken_image_is_neither_learnt_nor_scored() -> None:
    first = TRAIN * len(WIDTHS)
    bad = (3, first + 1, first + TEST)  # a training image; a test image of task 1, and of task 2
    stream = make_stream(bad)
    seen = []

    class Masks(Notes):
        def observe(self, batch: Batch) -> Terms:
            seen.append((batch.x[:, 0, 0, 0].clone(), batch.known.clone()))
            return super().observe(batch)

    results = Experiment(stream, Masks(), config=config()).run()
    assert results["broken_images"] == 3
    masks = [mask for x, known in seen for number, mask in zip(x, known, strict=True) if number == 128]
    assert len(masks) == 1
    assert not masks[0].any()
    assert all(known.any(dim=1).sum() >= len(known) - 1 for _, known in seen)
    for test, scores in enumerate(results["evaluations"][2]["tests"]):
        here = stream[test]
        kept = ~np.isin(here.test.rows, bad)
        values = answer(torch.as_tensor(here.test.rows), stream[2].stop, 9)[:, : here.stop].numpy()
        names = stream.class_names[: here.stop]
        wanted = metrics.Scores.of(values[kept], here.test.y[kept], names).to_json()
        assert {key: scores[key] for key in wanted} == wanted


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_learner_that_diverged_is_no_result(tmp_path: Path, bad: float) -> None:
    class Diverges(Notes):
        def predict(self, x: Tensor) -> Tensor:
            p = super().predict(x)
            p[-1, -1] = bad if len(self.widths) == 2 else p[-1, -1]
            return p

    experiment = Experiment(make_stream(), Diverges(), config=config(), folder=tmp_path)
    with pytest.raises(RunError, match=r"notes: probabilities are not finite after task 2; .* learning rate"):
        experiment.run()
    results = store.read_json(tmp_path / "results.json")  # of the task before
    assert results["learnt"] == "1 of 3"
    assert len(results["evaluations"]) == 1


def test_results_need_no_code_to_read(tmp_path: Path) -> None:
    stream = make_stream()
    results = Experiment(stream, Notes(), config=config(), seed=5, folder=tmp_path).run()
    read = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert read == results
    assert read["class_names"] == list(stream.class_names)
    assert read["tasks"][1] == {
        "classes": ["class 2", "class 3", "class 4"],
        "train": TRAIN,
        "test": 2 * TEST,
    }
    assert (read["method"], read["stream"], read["seed"]) == ("notes", "numbered", 5)
    assert (read["learnt"], read["broken_images"], read["format"]) == ("3 of 3", 0, store.FORMAT)


# ---- saving and going on


def stopped(folder: Path, after: int, **settings: Any) -> Experiment:
    """Stopped after so many batches."""
    learner = Notes()
    experiment = Experiment(
        make_stream(), learner, config=config(**settings), folder=folder,
        interrupted=lambda: learner.learnt >= after,
    )  # fmt: skip
    with pytest.raises(Interrupted):
        experiment.run()
    return experiment


@pytest.mark.parametrize("after", range(1, 10))
def test_stop_anywhere_and_go_on(tmp_path: Path, after: int) -> None:
    whole = Notes()
    wanted = Experiment(make_stream(), whole, config=config(log_every=1), folder=tmp_path / "whole").run()
    before = stopped(tmp_path / "cut", after, log_every=1).learner
    learner = Notes()
    experiment = Experiment(make_stream(), learner, config=config(log_every=1), folder=tmp_path / "cut")
    assert experiment.resume()
    assert learner.learnt == after
    assert experiment.run() == wanted
    assert [n for n in before.told if n[0] != "end"] + learner.told == [  # type: ignore[attr-defined]
        n for n in whole.told if n[0] != "end" or n in learner.told
    ]
    logs = [store.read_log(tmp_path / name / "log.jsonl") for name in ("whole", "cut")]
    places = [[(e["task"], e["step"], e["cls"]) for e in log] for log in logs]
    assert places[0] == places[1] == [(t, s, 3 * (t - 1) + s) for t in (1, 2, 3) for s in (1, 2, 3)]


def test_checkpoints_come_at_their_interval(tmp_path: Path) -> None:
    seen = []

    class Looks(Watcher):
        def batch(self, terms: Terms, images: int) -> None:
            path = tmp_path / "checkpoint.pt"
            state = store.read_checkpoint(path) if path.exists() else {"task": 0, "step": 0}
            seen.append((state["task"], state["step"]))

    Experiment(
        make_stream(), Notes(), config=config(checkpoint_every=2), folder=tmp_path, watcher=Looks()
    ).run()
    assert seen == [(0, 0), (0, 0), (0, 2), (1, 0), (1, 0), (1, 2), (2, 0), (2, 0), (2, 2)]


def test_checkpoints_are_no_more_frequent_than_they_may(tmp_path: Path) -> None:
    seen = set()

    class Looks(Watcher):
        def batch(self, terms: Terms, images: int) -> None:
            path = tmp_path / "checkpoint.pt"
            seen.add(store.read_checkpoint(path)["step"] if path.exists() else 0)

    settings = config(checkpoint_every=1, checkpoint_seconds=1e6)
    Experiment(make_stream(), Notes(), config=settings, folder=tmp_path, watcher=Looks()).run()
    assert seen == {0}  # after a task, whatever the time


def test_tasks_are_kept_or_not(tmp_path: Path) -> None:
    Experiment(make_stream(), Notes(), config=config(), folder=tmp_path / "a").run()
    Experiment(make_stream(), Notes(), config=config(keep_tasks=False), folder=tmp_path / "b").run()
    kept = [store.read_checkpoint(tmp_path / "a" / f"task-{t:02d}.pt") for t in (1, 2, 3)]
    assert [state["learner"]["widths"] for state in kept] == [[2], [2, 3], [2, 3, 1]]
    assert [(state["task"], len(state["evaluations"])) for state in kept] == [(1, 1), (2, 2), (3, 3)]
    assert not list((tmp_path / "b").glob("task-*"))


def test_nothing_to_go_on_with(tmp_path: Path) -> None:
    experiment = Experiment(make_stream(), Notes(), config=config(), folder=tmp_path / "new")
    assert not experiment.resume()
    assert not (tmp_path / "new").exists()
    (tmp_path / "old").mkdir()  # killed before the first checkpoint: what it logged is learnt again
    store.append_log(tmp_path / "old" / "log.jsonl", {"task": 1, "step": 1, "cls": 0.5})
    experiment = Experiment(make_stream(), Notes(), config=config(log_every=1), folder=tmp_path / "old")
    assert not experiment.resume()
    experiment.run()
    assert len(store.read_log(tmp_path / "old" / "log.jsonl")) == 9


@pytest.mark.parametrize("what", ["method", "class_names"])
def test_a_checkpoint_of_something_else_is_refused(tmp_path: Path, what: str) -> None:
    stopped(tmp_path, 5)
    state = store.read_checkpoint(tmp_path / "checkpoint.pt")
    state[what] = "lwf" if what == "method" else ["cat"]
    store.write_checkpoint(tmp_path / "checkpoint.pt", state)
    experiment = Experiment(make_stream(), Notes(), config=config(), folder=tmp_path)
    with pytest.raises(RunError, match=r"checkpoint\.pt: belongs to another stream or method than notes"):
        experiment.resume()


# ---- settings


@pytest.mark.parametrize(
    "name",
    [
        "batch_size",
        "epochs",
        "test_batch_size",
        "log_every",
        "checkpoint_every",
        "checkpoint_seconds",
        "device_images",
    ],
)
def test_impossible_settings(name: str) -> None:
    with pytest.raises(ConfigError, match=f"loop.{name}"):
        LoopConfig(**{name: -1})


def test_threads() -> None:
    before = torch.get_num_threads()
    try:
        assert set_threads(2) == torch.get_num_threads() == 2
        assert set_threads(0) == 2
    finally:
        torch.set_num_threads(before)
