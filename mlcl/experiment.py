"""The loop: a stream of tasks goes through a learner, and what it knows is measured after each task.

Every batch's place in the order is a function of (seed, task, epoch), so that a resumed run sees exactly
the batches that it would have seen.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from mlcl import metrics, ranks, store
from mlcl.config import Tree
from mlcl.engine import Kept, Later
from mlcl.errors import ConfigError, RunError
from mlcl.learner import Learner, Terms
from mlcl.types import Batch, Images, Samples, Stream, Task


@dataclass(frozen=True, kw_only=True)
class LoopConfig:
    batch_size: int = 32  # images
    epochs: int = 1  # passes over a task's data; the protocol is one
    test_batch_size: int = 64  # images; changes no score
    evaluate: Literal["every", "last"] = "every"  # after every task, or the last alone: no forgetting then
    checkpoint_every: int = 50  # batches; 0 = only after a task
    checkpoint_seconds: float = 10.0  # at least, between two inside a task: a GPU learns 50 batches in less
    keep_tasks: bool = True  # keep the learner as it was after each task, task-NN.pt
    log_every: int = 10  # batches between two entries of log.jsonl
    device_images: float = 0.0  # gigabytes of images that stay on the GPU once they are decoded

    def __post_init__(self) -> None:
        for name in ("batch_size", "epochs", "test_batch_size", "log_every"):
            if getattr(self, name) < 1:
                raise ConfigError(f"loop.{name}: must be at least 1, got {getattr(self, name)}")
        if self.checkpoint_every < 0:
            raise ConfigError("loop.checkpoint_every: cannot be negative (0 = only after a task)")
        for name in ("checkpoint_seconds", "device_images"):
            if getattr(self, name) < 0:
                raise ConfigError(f"loop.{name}: cannot be negative, got {getattr(self, name)}")


class Watcher:
    """What a progress display may hear of; every method may be left as it is."""

    def task(self, task: Task, tasks: int, batches: int, done: int) -> None: ...
    def batch(self, terms: Terms, images: int) -> None: ...
    def testing(self, images: int, of: int) -> None: ...
    def learnt(self, task: Task, evaluation: Tree | None) -> None: ...  # None: not tested after this one


class Interrupted(Exception):
    """Asked to stop; everything up to here is saved."""


@dataclass
class Progress:
    """Where learning stands; together with the learner's state it is the checkpoint."""

    task: int = 0
    step: int = 0  # batches of this task already learnt
    begun: bool = False  # begin_task was called


class Experiment:
    """One learner on one stream, in one folder (or in none)."""

    def __init__(
        self,
        stream: Stream,
        learner: Learner,
        *,
        config: LoopConfig | None = None,
        seed: int = 0,
        folder: Path | None = None,
        watcher: Watcher | None = None,
        interrupted: Callable[[], bool] = lambda: False,
    ):
        if ranks.size() > 1 and not learner.shareable:
            raise ConfigError(
                f"{learner.name}: keeps what several processes cannot share; run it in one (without torchrun)"
            )
        self.stream = stream  # what is tested on; the learner may get another view to learn from
        self.view = learner.view(stream)
        self.learner = learner
        self.config = config or LoopConfig()
        self.seed = seed
        self.folder = folder
        self.watcher = watcher or Watcher()
        self.interrupted = interrupted
        self.progress = Progress()
        self.evaluations: list[Tree] = []
        self._kept: dict[int, Images] = {}  # images that stay on the device, by the id of their source
        self._entry: tuple[Tree, Later] | None = None  # of the log; its numbers are under way
        self._since = (time.perf_counter(), 0)  # the last entry: when, and images since
        self._saved = time.perf_counter()  # the last checkpoint

    def run(self) -> Tree:
        """Learns what is left of the stream; returns the results, which are in results.json as well."""
        for task in self.view[self.progress.task :]:
            if not self.progress.begun:
                self.learner.begin_task(task)
                self.progress.begun = True
            for batch in self._remaining(task):
                self._learn(batch)
            self.learner.end_task(task, self._batches(task, np.arange(len(task.train))))
            evaluation = None
            if self.config.evaluate == "every" or task.index == len(self.view) - 1:
                evaluation = self.evaluate(task)
                self.evaluations.append(evaluation)
            self.progress = Progress(task=task.index + 1)
            self.save(after_task=task)
            self.watcher.learnt(task, evaluation)
        return self.results()

    def evaluate(self, task: Task) -> Tree:
        """Scores every test set whose classes are all seen, on its own columns (D12, D13)."""
        tests = [t for t in self.stream if t.stop <= task.stop]
        rows = np.unique(np.concatenate([t.test.rows for t in tests]))
        images = self._near(tests[-1].test.images)
        probabilities = np.zeros((len(rows), self.learner.seen), np.float32)
        cuda = self.learner.device.type == "cuda"

        def load(place: np.ndarray) -> Tensor:
            x = images.load(rows[place])
            return x.pin_memory() if cuda and not x.is_cuda else x

        size = self.config.test_batch_size
        places = [np.arange(a, min(a + size, len(rows))) for a in range(0, len(rows), size)]
        places = places[ranks.rank() :: ranks.size()]
        said = []  # on the device until the last is there: reading each would wait for it
        for place, x in zip(places, _ahead(load, places), strict=True):
            said.append(self.learner.predict(x))
            self.watcher.testing(len(place), len(rows))
        if said:
            probabilities[np.concatenate(places)] = torch.cat(said).cpu().numpy()
        probabilities, broken = ranks.total(probabilities), ranks.union(images.broken)
        if not np.isfinite(probabilities).all():
            raise RunError(
                f"{self.learner.name}: probabilities are not finite after task {task.index + 1}; learning "
                "diverged: try a lower learning rate (learner.optimizer.lr, learner.optimizer.head_lr)"
            )
        scored = []
        for t in tests:
            mine = probabilities[np.searchsorted(rows, t.test.rows), : t.stop]
            names = self.stream.class_names[: t.stop]
            shown = ~np.isin(t.test.rows, list(broken))
            scores = metrics.Scores.of(mine, t.test.y, names, t.test.known & shown[:, None])
            scored.append({"test": t.index + 1, "images": len(t.test), **scores.to_json()})
        return {"after_task": task.index + 1, "tests": scored, "findings": dict(self.learner.findings())}

    def results(self) -> Tree:
        """Everything measured so far, with class names in it."""
        names = self.stream.class_names
        size = len(self.stream)
        summary = {}
        for metric in metrics.METRICS:
            a = np.full((size, size), np.nan)
            for evaluation in self.evaluations:
                # a view of fewer tasks (a bound) still knows all classes at its end
                row = size - 1 if evaluation["after_task"] == len(self.view) else evaluation["after_task"] - 1
                for scores in evaluation["tests"]:
                    if scores[metric] is not None:
                        a[row, scores["test"] - 1] = scores[metric]
            summary[metric] = metrics.summarise(a)
        return {
            "format": store.FORMAT,
            "method": self.learner.name,
            "stream": self.stream.name,
            "seed": self.seed,
            "class_names": list(names),
            "tasks": [
                {"classes": list(t.names), "train": len(t.train), "test": len(t.test)} for t in self.stream
            ],
            "broken_images": len(self.stream[-1].test.images.broken),
            "learnt": f"{self.progress.task} of {len(self.view)}",
            "summary": summary,
            "evaluations": self.evaluations,
        }

    def save(self, after_task: Task | None = None) -> None:
        if self.folder is None:
            return
        self._write_entry()
        if ranks.rank():
            return
        state = {
            "learner": self.learner.state(),
            "task": self.progress.task,
            "step": self.progress.step,
            "begun": self.progress.begun,
            "method": self.learner.name,
            "class_names": list(self.stream.class_names),
            "evaluations": self.evaluations,
        }
        if after_task is not None:
            if self.evaluations:
                store.write_json(self.folder / "results.json", self.results())
            if self.config.keep_tasks:
                store.write_checkpoint(self.folder / f"task-{after_task.index + 1:02d}.pt", state)
        store.write_checkpoint(self.folder / "checkpoint.pt", state)
        self._saved = time.perf_counter()

    def resume(self) -> bool:
        """Takes up the folder's checkpoint; False if there is none, and learning begins at the beginning."""
        assert self.folder is not None
        ranks.meet()  # the first has written what all read
        path = self.folder / "checkpoint.pt"
        saved = [path] if path.exists() else sorted(self.folder.glob("task-*.pt"))  # the user deleted it
        if saved:
            self._take_up(saved[-1])
        if ranks.rank():
            return bool(saved)
        if self.evaluations:  # the kill may have come between the two files
            store.write_json(self.folder / "results.json", self.results())
        here = (self.progress.task + 1, self.progress.step)
        log = store.read_log(self._log)
        if log:  # what is learnt again is written again
            kept = [entry for entry in log if (entry["task"], entry["step"]) <= here]
            store.write_text(self._log, "".join(f"{json.dumps(entry)}\n" for entry in kept))
        return bool(saved)

    def _take_up(self, path: Path) -> None:
        state = store.read_checkpoint(path)
        if tuple(state["class_names"]) != self.stream.class_names or state["method"] != self.learner.name:
            raise RunError(f"{path}: belongs to another stream or method than {self.learner.name} here")
        self.learner.load(state["learner"])
        self.progress = Progress(state["task"], state["step"], state["begun"])
        self.evaluations = state["evaluations"]

    @property
    def _log(self) -> Path:
        assert self.folder is not None
        return self.folder / "log.jsonl"

    def _learn(self, batch: Batch) -> None:
        terms = self.learner.observe(batch)
        self.progress.step += 1
        step, c = self.progress.step, self.config
        images = batch.of or len(batch)
        self.watcher.batch(terms, images)
        self._since = self._since[0], self._since[1] + images
        if self.folder is not None and step % c.log_every == 0 and not ranks.rank():
            self._write_entry()  # the one before: reading this one now would wait for the GPU
            now, (began, images) = time.perf_counter(), self._since
            speed = {"images_per_second": round(images / (now - began), 1)}
            self._entry = {"task": self.progress.task + 1, "step": step, **speed}, Later(terms)
            self._since = now, 0
        # several processes must stop after the same batch, and asking costs a message
        asked = ranks.size() == 1 or step % c.log_every == 0
        stop = asked and ranks.any_of(self.interrupted())
        due = c.checkpoint_every and step % c.checkpoint_every == 0
        if stop or (due and time.perf_counter() - self._saved >= c.checkpoint_seconds):
            self.save()
        if stop:
            raise Interrupted

    def _write_entry(self) -> None:
        if self._entry is not None:
            entry, terms = self._entry
            self._entry = None
            store.append_log(self._log, entry | terms.read())

    def _near(self, images: Images) -> Images:
        """The images, those that fit staying on the GPU."""
        if not self.config.device_images or self.learner.device.type != "cuda":
            return images
        if id(images) not in self._kept:
            self._kept[id(images)] = Kept(images, self.learner.device, self.config.device_images)
        return self._kept[id(images)]

    def _remaining(self, task: Task) -> Iterator[Batch]:
        """The task's batches from where learning stands, in their order of epochs."""
        per_epoch = -(-len(task.train) // self.config.batch_size)
        total = per_epoch * self.config.epochs
        self.watcher.task(task, len(self.view), total, self.progress.step)
        self._since = time.perf_counter(), 0
        while self.progress.step < total:
            epoch, place = divmod(self.progress.step, per_epoch)
            chance = np.random.default_rng([self.seed, task.index, epoch])
            order = chance.permutation(len(task.train))
            yield from self._batches(task, order[place * self.config.batch_size :], shared=True)

    def _batches(self, task: Task, order: np.ndarray, shared: bool = False) -> Iterator[Batch]:
        samples, size = task.train, self.config.batch_size
        if self.config.epochs > 1:  # what is read once need not stay
            samples = replace(samples, images=self._near(samples.images))
        return batches(samples, order, size, pinned=self.learner.device.type == "cuda", shared=shared)


def batches(
    samples: Samples, order: np.ndarray, size: int, *, pinned: bool = False, shared: bool = False
) -> Iterator[Batch]:
    """The samples in this order; a thread decodes one batch ahead, `pinned` where a GPU reads by itself.

    `shared`: of each batch this process's part (mlcl.ranks).
    """

    def load(place: np.ndarray) -> Batch:
        own = ranks.share(place) if shared else place
        batch = samples.batch(own)
        if len(own) < len(place):
            batch = replace(batch, of=len(place))
        return batch.pinned() if pinned else batch

    return _ahead(load, [order[a : a + size] for a in range(0, len(order), size)])


def _ahead(load: Callable[[np.ndarray], Any], places: list[np.ndarray]) -> Iterator[Any]:
    with ThreadPoolExecutor(max_workers=1) as pool:
        waiting = None
        for place in places:
            loading = pool.submit(load, place)
            if waiting is not None:
                yield waiting.result()
            waiting = loading
        if waiting is not None:
            yield waiting.result()


def set_threads(threads: int) -> int:
    """How many there are now. Results repeat to the bit only for the same number; 0 leaves it to PyTorch."""
    if threads:
        torch.set_num_threads(threads)
    return torch.get_num_threads()
