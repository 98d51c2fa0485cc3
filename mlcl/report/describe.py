"""stream.json: what was to be learnt, so that a report needs no data set."""

from __future__ import annotations

import numpy as np

from mlcl.config import Tree
from mlcl.types import Samples, Stream


def describe_stream(stream: Stream, scenario: str) -> Tree:
    """Classes, tasks, counts, and the oracle: the label graph that full labels would show."""
    tasks = []
    for task in stream:
        train = task.train
        positive = (train.y == 1) & train.known
        tasks.append(
            {
                "classes": list(task.names),
                "train": len(train),
                "test": len(task.test),
                "positives": positive[:, task.new].sum(axis=0).tolist(),  # of each new class, in training
            }
        )
    return {
        "name": stream.name,
        "scenario": scenario,
        "class_names": list(stream.class_names),
        "tasks": tasks,
        "labels_per_image": None if stream.full is None else labels_per_image(stream.full),
        "oracle": None if stream.full is None else conditional(stream.full).round(6).tolist(),
    }


def labels_per_image(samples: Samples) -> float:
    return round(float(((samples.y == 1) & samples.known).sum() / max(1, len(samples))), 3)


def conditional(samples: Samples) -> np.ndarray:
    """(C, C) P(class i | class j), over the images that show j and are known to show i or not.

    Without such an image the entry is 0; the diagonal is 1.
    """
    known = samples.known.astype(np.float64)
    y = np.where(samples.known, samples.y, 0).astype(np.float64)
    both, asked = y.T @ y, known.T @ y
    p = np.divide(both, asked, out=np.zeros_like(both), where=asked > 0)
    np.fill_diagonal(p, 1)
    return p
