"""A report of fabricated runs: the right numbers, whole HTML, and nothing that surprises it."""

from __future__ import annotations

import html
import io
import json
import math
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from rich.console import Console

from mlcl import metrics, store
from mlcl.config import write_toml
from mlcl.errors import MLCLError
from mlcl.report import describe_stream, print_summary, write_report
from mlcl.report.data import Run
from mlcl.report.palette import looks
from mlcl.report.words import headline
from mlcl.types import Samples, Stream, Task

NAN = math.nan
TASKS = [["sun", "cloud"], ["dog"]]
LOW = [[0.8, NAN], [0.3, 0.4]]
OURS = [[0.7, NAN], [0.65, 0.6]]
HIGH = [[NAN, NAN], [0.9, 0.75]]
RUN = {"fine-tuning": LOW, "agcn++": OURS, "joint-full": HIGH}
VOID = {"meta", "link", "img", "br", "hr", "input"}


def fabricate(folder, tasks=TASKS, runs=RUN, *, learnt=None, log=True, acm=None, oracle=None, waiting=()):
    """A run folder in which every class of test set j has the AP a[l][j], as has every other metric."""
    names = [name for task in tasks for name in task]
    stops = np.cumsum([len(task) for task in tasks]).tolist()
    folder.mkdir(parents=True)
    stream = {
        "name": "fables",
        "scenario": "il",
        "class_names": names,
        "tasks": [
            {"classes": t, "train": 1000 + k, "test": 10 * (k + 1), "positives": [5] * len(t)}
            for k, t in enumerate(tasks)
        ],
        "labels_per_image": 1.5,
        "oracle": oracle,
    }
    (folder / "stream.json").write_text(json.dumps(stream))
    origin = store.provenance() | {"command": ["mlcl", "run"], "date": "2026-01-01T00:00:00+00:00"}
    store.write_json(folder / "run.json", origin)
    config = {"name": "fables", "seed": 3, "methods": [*runs, *waiting], "loop": {"epochs": 1}}
    store.write_text(folder / "config.toml", write_toml(config))
    for method, rows in runs.items():
        a = np.array(rows, float)
        done = (learnt or {}).get(method, len(tasks))
        joint = method == "joint-full"
        evaluations = []
        for row in [len(tasks) - 1] if joint else range(done):
            tests = []
            for j in np.flatnonzero(np.isfinite(a[row])):
                value = round(float(a[row, j]), 12)
                scores = dict.fromkeys(metrics.METRICS, value)
                ap = dict.fromkeys(names[: stops[j]], value)
                tests.append({"test": int(j) + 1, "images": 10, **scores, "ap": ap, "left_out": []})
            findings = {"acm": acm[row]} if acm and acm[row] and method == "agcn++" else {}
            after = 1 if joint else row + 1
            evaluations.append({"after_task": after, "tests": tests, "findings": findings})
        summary = metrics.summarise(np.where(np.arange(len(a))[:, None] < done, a, NAN))
        results = {
            "format": store.FORMAT,
            "method": method,
            "learnt": "1 of 1" if joint else f"{done} of {len(tasks)}",
            "summary": dict.fromkeys(metrics.METRICS, summary),
            "evaluations": evaluations,
        }
        (folder / method).mkdir()
        (folder / method / "results.json").write_text(json.dumps(results))
        if log:
            for task in range(1, done + 1):
                for step in (10, 20, 30):
                    entry = {"task": task, "step": step, "cls": 1 / step, "images_per_second": 40.0}
                    store.append_log(folder / method / "log.jsonl", entry)
    return folder


def staircase(tasks):
    """Plausible a[l, j] for many tasks."""
    a = np.full((tasks, tasks), NAN)
    for row in range(tasks):
        a[row, : row + 1] = 0.9 - 0.5 * (row + row - np.arange(row + 1)) / (2 * tasks)
    return a.tolist()


class Whole(HTMLParser):
    """Fails on a tag that is not closed in its order, and collects what is said."""

    def __init__(self):
        super().__init__()
        self.open, self.text, self.links, self.ids = [], [], [], []

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)
        self.handle_startendtag(tag, attrs)

    def handle_startendtag(self, tag, attrs):
        self.links += [value for key, value in attrs if key in ("href", "src")]
        self.ids += [value for key, value in attrs if key == "id"]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def read(folder):
    """The page, and its text."""
    page = write_report(folder).read_text(encoding="utf-8")
    parser = Whole()
    parser.feed(page)
    parser.close()
    assert not parser.open
    assert len(parser.ids) == len(set(parser.ids))
    assert all(link.startswith(("data:", "#")) for link in parser.links)  # one file, no network
    assert "<script" not in page
    assert not re.search(r"\b(nan|inf|None)\b", re.sub(r'data:[^"]*', "", page))
    return page, " ".join(parser.text)


def said(folder, width):
    """The summary as a terminal shows it: plain, and with its escape codes."""
    console = Console(width=width, record=True, force_terminal=True, file=io.StringIO())
    print_summary(folder, console)
    styled = console.export_text(styles=True, clear=False)
    return console.export_text(), styled


def test_headline_is_computed(tmp_path):
    run = Run.read(fabricate(tmp_path / "run"))
    assert headline(run) == (
        "AGCN++ ends at 60.0 mAP on all 3 classes (mean over tests 62.5): 20.0 above fine-tuning and 15.0 "
        "below learning everything at once. It forgot 5.0."
    )


def test_headline_is_honest(tmp_path):
    better = {"fine-tuning": OURS, "lwf": [[0.8, NAN], [0.9, 0.7]], "ewc": LOW, "agcn++": OURS}
    assert headline(Run.read(fabricate(tmp_path / "run", runs=better))) == (
        "AGCN++ ends at 60.0 mAP on all 3 classes (mean over tests 62.5): level with fine-tuning and 10.0 "
        "below LwF (the best of the others). It forgot 5.0."
    )
    alone = {"lwf": [[0.8, NAN], [0.9, 0.7]]}
    assert headline(Run.read(fabricate(tmp_path / "alone", runs=alone))) == (
        "LwF ends at 70.0 mAP on all 3 classes (mean over tests 80.0). Earlier tests improved by 10.0."
    )


def test_page_has_the_numbers(tmp_path):
    acm = [np.eye(2).tolist(), [[1, 0.5, 0], [0, 1, 0], [0, 0, 1]]]
    oracle = [[1, 0.3, 0], [0, 1, 0], [0, 0, 1]]
    page, text = read(fabricate(tmp_path / "run", acm=acm, oracle=oracle))
    assert html.escape(headline(Run.read(tmp_path / "run"))).split("ends", 1)[1] in page
    for number in ("65.0", "62.5", "7.1", "−50.0", "−5.0"):  # a[1, 0], mean, lost of the best, two changes
        assert f">{number}<" in page, number
    assert "2,001 training and 20 test images" in text
    assert "0.082" in text  # 0.2 off in one of six entries: 0.2 / sqrt(6)
    assert "0.122" in text  # 0.3 / sqrt(6), the identity
    assert "mlcl run " + str(tmp_path / "run" / "config.toml") in text
    assert "The largest loss: fine-tuning on test set 1, from 80.0 down to 30.0." in text


def test_same_bytes(tmp_path):
    folder = fabricate(tmp_path / "run")
    first = write_report(folder).read_bytes(), (folder / "report.png").read_bytes()
    second = write_report(folder).read_bytes(), (folder / "report.png").read_bytes()
    assert first == second
    assert first[1].startswith(b"\x89PNG")


def test_names_are_escaped(tmp_path):
    tasks = [["a<b>", "x & y", "</script><h1>"], ['"quoted"', "long " * 40]]
    runs = {"my <method> $x_": OURS, "agcn++": OURS}
    oracle = np.eye(5).tolist()
    folder = fabricate(tmp_path / "<run>", tasks, runs, oracle=oracle, acm=[np.eye(3).tolist(), oracle])
    page, text = read(folder)
    assert "a<b>" in text
    assert "my <method> $x_" in text
    assert "<b>," not in page
    assert "</script>" not in page


def test_a_run_half_way(tmp_path):
    runs = {"fine-tuning": LOW, "lwf": OURS}
    folder = fabricate(tmp_path / "run", runs=runs, learnt={"lwf": 1}, waiting=("agcn++", "joint-full"))
    _, text = read(folder)
    assert "LwF: 1 of 2 tasks learnt; AGCN++: not measured yet; joint-full: not measured yet" in text
    plain, _ = said(folder, 100)
    assert "LwF has learnt 1 of 2 tasks and stands at 70.0 mAP on the 2 classes seen." in plain


def test_nothing_measured_yet(tmp_path):
    folder = fabricate(tmp_path / "run", runs={}, waiting=("agcn++",))
    _, text = read(folder)
    assert "Nothing is measured yet." in text
    assert "Nothing is measured yet." in said(folder, 80)[0]
    assert not (folder / "report.png").exists()


def test_one_task(tmp_path):
    runs = {"fine-tuning": [[0.4]], "agcn++": [[0.6]], "joint-full": [[0.5]]}
    folder = fabricate(tmp_path / "run", [["sun"]], runs, acm=[[[1]]], oracle=[[1]])
    _, text = read(folder)
    assert "20.0 above fine-tuning and 10.0 above learning everything at once." in text
    assert "It forgot" not in text


def test_a_hundred_tasks(tmp_path):
    runs = {"fine-tuning": staircase(100), "joint-full": [[NAN] * 100] * 99 + [[0.9] * 100]}
    folder = fabricate(tmp_path / "run", [[f"class {k}"] for k in range(100)], runs)
    page, _ = read(folder)
    assert "data:image/png" in page  # pixels, no table of 5,050 cells
    assert 'class="heat"' not in page
    plain, _ = said(folder, 80)
    assert max(map(len, plain.splitlines()[:6])) <= 80


def test_a_thousand_classes(tmp_path):
    tasks = [[f"class {200 * t + c}" for c in range(200)] for t in range(5)]
    graph = np.eye(1000, dtype=int).tolist()
    acm = [None] * 4 + [graph]
    page, _ = read(fabricate(tmp_path / "run", tasks, {"agcn++": staircase(5)}, acm=acm, oracle=graph))
    assert "<summary>All 1,000 classes</summary>" in page
    assert len(page) < 3_000_000


def test_without_log_and_oracle(tmp_path):
    acm = [np.eye(2).tolist(), np.eye(3).tolist()]
    _, text = read(fabricate(tmp_path / "run", log=False, acm=acm))
    assert "Loss terms" not in text
    assert "The label graph" in text
    assert "Oracle" not in text.replace("The oracle counts", "")


def test_log_of_a_killed_run(tmp_path):
    folder = fabricate(tmp_path / "run", runs={"agcn++": OURS})
    with (folder / "agcn++" / "log.jsonl").open("a") as log:
        log.write('{"task": 2, "step": 30, "cls": NaN, "images_per_second": 40}\n{"task": 2, "st')
    _, text = read(folder)
    assert "60 steps, 40 images a second" in text  # 30 a task, the step that was learnt twice counts once


def test_a_class_never_in_the_test(tmp_path):
    folder = fabricate(tmp_path / "run")
    for path in folder.glob("*/results.json"):
        results = json.loads(path.read_text())
        for evaluation in results["evaluations"]:
            for test in evaluation["tests"]:
                test |= {"ap": test["ap"] | {"cloud": None}, "left_out": ["cloud"]}
        path.write_text(json.dumps(results))
    _, text = read(folder)
    assert "cloud: left out of the means" in text


def test_a_format_from_the_future(tmp_path):
    folder = fabricate(tmp_path / "run", runs={"agcn++": OURS})
    path = folder / "agcn++" / "results.json"
    path.write_text(path.read_text().replace('"format": 1', '"format": 2'))
    with pytest.raises(MLCLError, match="format 2, this version reads 1"):
        write_report(folder)


@pytest.mark.parametrize(("width", "shown"), [(80, "(5 of 12 shown)"), (140, "after each task, on all")])
def test_summary_on_the_terminal(tmp_path, width, shown):
    tasks = [[f"class {k}"] for k in range(12)]
    runs = {"fine-tuning": (0.5 * np.array(staircase(12))).tolist(), "agcn++": staircase(12)}
    folder = fabricate(tmp_path / "run", tasks, runs | {"joint-full": [[NAN] * 12] * 11 + [[0.9] * 12]})
    plain, styled = said(folder, width)
    assert shown in plain
    lines = plain.splitlines()[:6]
    assert all(len(line) <= width for line in lines)
    table = {line.split()[0]: line.split()[1:] for line in lines}
    assert table["AGCN++"][0] == "90.0"  # after the first task
    assert table["joint-full"][0] == "-"
    assert table["joint-full"][-5:] == ["90.0", "90.0", "-", "90.0", "90.0"]
    assert f"report      {folder / 'report.html'}" in plain.replace("\n", "")
    bold = re.findall(r"\x1b\[1m *([\d.]+)", styled)
    final = f"{100 * staircase(12)[11][11]:.1f}"
    assert final in bold
    assert "90.0" in bold  # AGCN++ after task 1; the bound's 90.0 is not in the contest
    assert len([value for value in bold if value == "90.0"]) == 1


def test_a_method_keeps_its_colour():
    first, second = looks(["agcn++", "mine", "lwf"]), looks(["lwf", "agcn++"])
    assert first[0].light == second[1].light
    assert first[2].light == second[0].light
    crowd = looks([f"method {k}" for k in range(8)])
    assert len({look.light for look in crowd}) == 8
    crowd = looks([f"method {k}" for k in range(30)])
    assert len({(look.light, look.mark) for look in crowd}) == 30


class Blank:
    broken: frozenset[int] = frozenset()

    def __len__(self):
        return 4

    def load(self, indices):
        raise AssertionError("a description reads labels only")


def tiny_stream(with_full=True):
    """Three classes; the third never occurs. Image 3 is not known to show class 1 or not."""
    y = np.array([[1, 1, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]], np.uint8)
    known = np.ones((4, 3), bool)
    known[3, 1] = False
    rows = np.arange(4)

    def samples(take, columns, first=0):
        mask = known[take, :columns].copy()
        mask[:, :first] = False
        return Samples(Blank(), rows[take], y[take, :columns], mask)

    tasks = [
        Task(0, 0, 1, ("a",), samples([0, 1, 2], 1), samples([0], 1)),
        Task(1, 1, 3, ("b", "c"), samples([0, 2, 3], 3, first=1), samples([0, 1], 3)),
    ]
    return Stream(("a", "b", "c"), tasks, "tiny", full=samples(rows, 3) if with_full else None)


def test_stream_by_hand(tmp_path):
    tree = describe_stream(tiny_stream(), "cl")
    store.write_json(tmp_path / "stream.json", tree)
    assert tree == store.read_json(tmp_path / "stream.json")
    assert tree["tasks"] == [
        {"classes": ["a"], "train": 3, "test": 1, "positives": [2]},
        {"classes": ["b", "c"], "train": 3, "test": 2, "positives": [2, 0]},
    ]
    assert tree["labels_per_image"] == 1.25  # 2 + 1 + 1 + 1 known ones
    assert tree["oracle"] == [
        [1.0, 0.5, 0.0],  # of the images 0 and 2 that show b, image 0 shows a
        [0.5, 1.0, 0.0],  # of the images 0 and 1 that show a and are known for b, image 0 shows it
        [0.0, 0.0, 1.0],
    ]


def test_stream_without_full_labels():
    tree = describe_stream(tiny_stream(with_full=False), "il")
    assert tree["oracle"] is None
    assert tree["labels_per_image"] is None
