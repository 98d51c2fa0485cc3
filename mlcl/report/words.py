"""The sentences of a report, computed from its numbers; nothing here is HTML."""

from __future__ import annotations

import math

import numpy as np

from mlcl.report.data import Method, Run

KEYS = {
    "final": "final",
    "mean_over_tests": "mean over tests",
    "incremental": "incremental",
    "forgetting_absolute": "absolute",
    "forgetting_relative_max": "of the best",
    "forgetting_relative_first": "of the first",
}

SCENARIOS = {
    "il": "scenario IL: in the training images of a task only its own classes are marked",
    "cl": "scenario CL: in the training images of a task all classes seen so far are marked",
}

DEFINITIONS = (
    (
        "AP, mAP",
        "Average precision of a class: the mean, over its positive images, of the precision among all images "
        "that score at least as high. mAP is its mean over the classes that have a positive image.",
    ),
    (
        "Test set j",
        "All test images of the tasks 1 to j, with all labels of their classes. A method is scored with "
        "everything that it knows at that time, and is never told the task.",
    ),
    ("final", "After the last task, on the last test set: all images, all classes."),
    ("mean over tests", "After the last task, the mean over all test sets 1 to T, as in the paper's tables."),
    ("incremental", "The mean over tasks of the score after task t on test set t, the main curve."),
    (
        "forgotten, absolute",
        "What a test set has lost at the end against the best score it ever had; the mean over all test sets "
        "but the last. Below zero it improved.",
    ),
    ("forgotten, of the best", "The same, as a share of that best score, in percent."),
    (
        "forgotten, of the first",
        "The loss against the score when the test set was new, as a share of it, in percent; this is what "
        "the code released with AGCN computes.",
    ),
    (
        "CP, CR, CF1",
        "Precision and recall of each class, at a threshold of one half, averaged over classes; CF1 is the "
        "harmonic mean of the two averages.",
    ),
    ("OP, OR, OF1", "The same over all decisions of all classes pooled."),
    ("F1", "The mean over classes of each class's own F1."),
    (
        "Label graph",
        "Entry (i, j) is the probability that an image which shows class j shows class i as well. The oracle "
        "counts it in all training images with all their labels, which a method that learns task by task "
        "never sees.",
    ),
    (
        "RMS, Frobenius",
        "Distance between an estimated graph and the oracle: the root mean square of the differences of "
        "entries off the diagonal, and the root of the sum of their squares.",
    ),
)


def points(value: float, signed: bool = False) -> str:
    """A fraction as percentage points.

    >>> points(0.7123), points(-0.02), points(0.02, signed=True), points(float("nan"))
    ('71.2', '−2.0', '+2.0', '–')
    """
    if not math.isfinite(value):
        return "–"
    text = f"{100 * value:+.1f}" if signed else f"{100 * value:.1f}"
    return "0.0" if float(text) == 0 else text.replace("-", "−")


def hero(run: Run) -> Method | None:
    """Whom the report is about: AGCN++, or else the best of the methods that learn task by task."""
    ours = run.method("agcn++")
    if ours or not run.methods:
        return ours or None
    learners = [m for m in run.learners if m.name != "fine-tuning"] or run.learners or run.methods
    return max(learners, key=lambda m: m.last_test["mAP"] or 0.0)


def headline(run: Run) -> str:
    """The result in a sentence or two."""
    who = hero(run)
    if who is None:
        return "Nothing is measured yet."
    name = who.label[:1].upper() + who.label[1:]
    classes = len(run.class_names)
    final = who.summary("mAP", "final")
    if not who.finished:
        done, of = who.learnt
        now = points(who.last_test["mAP"] or math.nan)
        seen = run.edges[done]
        return f"{name} has learnt {done} of {of} tasks and stands at {now} mAP on the {seen:,} classes seen."
    mean = points(who.summary("mAP", "mean_over_tests"))
    text = f"{name} ends at {points(final)} mAP on all {classes:,} classes (mean over tests {mean})"
    against = [_against(final, method, phrase) for method, phrase in _rivals(run, who)]
    text += f": {_and(against)}." if against else "."
    lost = who.summary("mAP", "forgetting_absolute")
    if math.isfinite(lost):
        text += f" It forgot {points(lost)}." if lost >= 0 else f" Earlier tests improved by {points(-lost)}."
    return text


def facts(run: Run) -> str:
    """What was learnt, in one line."""
    tasks, classes = len(run.tasks), len(run.class_names)
    train = sum(task["train"] for task in run.tasks)
    line = (
        f"{run.stream['name']}: {classes:,} {_plural(classes, 'class', 'classes')} in {tasks} "
        f"{_plural(tasks, 'task', 'tasks')}, {train:,} training and {run.tasks[-1]['test']:,} test images"
    )
    if run.stream["labels_per_image"] is not None:
        line += f", {run.stream['labels_per_image']:.1f} labels an image"
    epochs = run.config.get("loop", {}).get("epochs", 1)
    passes = "one pass over each task" if epochs == 1 else f"{epochs} passes over each task"
    scenario = SCENARIOS.get(run.stream["scenario"], f"scenario {run.stream['scenario']}")
    return f"{line}; {scenario}; {passes}; one run, seed {run.config.get('seed', 0)}."


def unfinished(run: Run) -> str:
    """What is still missing; empty when all is done."""
    parts = [f"{m.label}: {m.learnt[0]} of {m.learnt[1]} tasks learnt" for m in run.methods if not m.finished]
    parts += [f"{label}: not measured yet" for label in run.waiting]
    return "; ".join(parts)


def task_losses(run: Run) -> str:
    """Which method lost most of which test set."""
    worst, text = 0.0, ""
    for method in run.learners:
        a = method.a()
        done = max(method.evaluations)
        for j in range(done):
            best = np.nanmax(a[: done + 1, j]) if np.isfinite(a[: done + 1, j]).any() else math.nan
            if best - a[done, j] > worst:
                worst = best - a[done, j]
                text = (
                    f"The largest loss: {method.label} on test set {j + 1}, from {points(best)} down to "
                    f"{points(a[done, j])}."
                )
    return text


def class_losses(run: Run) -> str:
    """Best, weakest and most forgotten class of the hero."""
    who = hero(run)
    if who is None or not np.isfinite(ap := who.class_ap()).any():
        return ""
    names, change = run.class_names, who.class_change()
    high, low = int(np.nanargmax(ap)), int(np.nanargmin(ap))
    text = (
        f"{who.label} knows {names[high]} best ({points(ap[high])}), {names[low]} least ({points(ap[low])})"
    )
    if np.isfinite(change).any() and np.nanmin(change) < 0:
        most = int(np.nanargmin(change))
        text += f"; since it was learnt, {names[most]} has lost most ({points(change[most], signed=True)})"
    return text + "."


def _rivals(run: Run, who: Method) -> list[tuple[Method, str]]:
    """Finished methods worth a comparison: the lower bound, the best of the others, the upper bound."""
    done = [m for m in run.methods if m.finished and m is not who]
    low = [m for m in done if m.name == "fine-tuning"]
    others = [m for m in done if not m.bound and m.name != "fine-tuning"]
    top = sorted((m for m in done if m.bound and not who.bound), key=lambda m: m.name != "joint-full")
    rivals = [(m, m.label) for m in low]
    if others:
        best = max(others, key=lambda m: m.summary("mAP", "final"))
        rivals.append((best, f"{best.label} (the best of the others)" if len(others) > 1 else best.label))
    return rivals + [(m, "learning everything at once") for m in top[:1]]


def _against(final: float, other: Method, phrase: str) -> str:
    # from the numbers as they are printed, so that a reader's subtraction gives the same
    gap = round(100 * final, 1) - round(100 * other.summary("mAP", "final"), 1)
    if abs(gap) < 0.05:
        return f"level with {phrase}"
    return f"{abs(gap):.1f} {'above' if gap > 0 else 'below'} {phrase}"


def _and(parts: list[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def _plural(number: int, one: str, many: str) -> str:
    return one if number == 1 else many
