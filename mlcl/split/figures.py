"""What there is to know of a split in numbers: the rows of its table and the bars of its picture."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from mlcl.data.artefact import TEST, TRAIN, VALIDATION, Split, quoted
from mlcl.data.table import UNKNOWN


@dataclass(frozen=True)
class Figures:
    """Counts of images and labels by task; T tasks, C classes."""

    train: np.ndarray  # (T,) images
    validation: np.ndarray  # (T,)
    test: np.ndarray  # (T,) added to the test set by this task
    labels: (
        np.ndarray
    )  # (T,) known labels that a training image shows, of all classes of the split, on average
    own: np.ndarray  # (T,) the same, of the task's own classes
    specific: np.ndarray  # (T,) training images that show no class of another task
    mixed: np.ndarray  # (T,) that do; of the rest it is not known
    positives: np.ndarray  # (T, C) training images of the task that show the class
    tested: np.ndarray  # (C,) test images that show it
    known: np.ndarray  # (T,) share of known entries, over all classes, of the training images
    dropped: dict[str, int]  # reason -> images, most frequent first

    @staticmethod
    def of(split: Split) -> Figures:
        tasks, classes = len(split.tasks), len(split.class_names)
        train = split.part == TRAIN
        count = {part: np.bincount(split.task[split.part == part], minlength=tasks) for part in range(3)}
        positives = np.zeros((tasks, classes), np.int64)
        specific, mixed, entries = (np.zeros(tasks, np.int64) for _ in range(3))
        edges = split.edges
        for task in range(tasks):
            mine = split.labels[train & (split.task == task)]
            positives[task] = (mine == 1).sum(axis=0)
            entries[task] = (mine != UNKNOWN).sum()
            others = np.delete(mine, np.s_[edges[task] : edges[task + 1]], axis=1)
            shows = (others == 1).any(axis=1)
            mixed[task] = shows.sum()
            specific[task] = (~shows & (others == 0).all(axis=1)).sum()
        own = np.array([positives[t, edges[t] : edges[t + 1]].sum() for t in range(tasks)])
        images = np.maximum(1, count[TRAIN])
        return Figures(
            count[TRAIN], count[VALIDATION], count[TEST], positives.sum(axis=1) / images, own / images,
            specific, mixed, positives, (split.labels[split.part == TEST] == 1).sum(axis=0),
            entries / (images * classes), dict(Counter(split.dropped.values()).most_common()),
        )  # fmt: skip

    def text(self, split: Split) -> str:
        """Training images of each task that show a class, and test images, as tab-separated values."""
        heads = ["class", "its task", *(f"train {task + 1}" for task in range(len(split.tasks))), "test"]
        lines = [heads]
        owner = np.repeat(np.arange(len(split.tasks)), split.widths)
        for column, name in enumerate(split.class_names):
            counts = [*self.positives[:, column].tolist(), int(self.tested[column])]
            lines.append([quoted(name), str(owner[column] + 1), *map(str, counts)])
        return "".join("\t".join(line) + "\n" for line in lines)

    def balance(self, widths: tuple[int, ...]) -> float:
        """Largest task by smallest, in training images a class."""
        rate = self.train / np.asarray(widths)
        return float(rate.max() / max(rate.min(), 1e-9))

    def share_of_specific(self) -> float | None:
        """None: the labels that would tell are not known."""
        told = int((self.specific + self.mixed).sum())
        return float(self.specific.sum() / told) if told else None
