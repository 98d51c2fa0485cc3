"""Runs that are really killed, at every kind of moment, end as if nobody had touched them, to the bit.

Each run is a process of its own that calls what `mlcl` on the command line calls. They are forked from a
server that has PyTorch loaded already; one test starts the installed command itself.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from mlcl import store

RECIPE = """
threads = 1
[data]
source = "scenes"
train = 36
test = 18
size = 32
[stream]
way = 8
[loop]
batch_size = 4
checkpoint_every = 2
checkpoint_seconds = 0.0
log_every = 1
[learner]
capacity = 10
replay = 2
hidden = 16
graph_width = 16
backbone.name = "tiny"
optimizer = {lr = 1e-3, head_lr = 1e-2}
"""
METHODS = ("fine-tuning", "er", "agcn++")  # gradients alone, a memory, a graph and an expert
STEPS = 3  # batches a task

# a child dies where it is told: "half checkpoint.pt 2" is in the middle of that file's second writing
CHILD = """
import os, signal, sys
from mlcl import cli, progress, store

out = os.open({log!r}, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
os.dup2(out, 1), os.dup2(out, 2)
sys.argv = {arguments!r}
how, what, count = {die!r}.split() if {die!r} else ("", "", 0)
seen = 0

def die_at(moment, name):
    global seen
    if (moment, name) == (how, what):
        seen += 1
        if seen == int(count):
            return True
    return False

def die():
    os.kill(os.getpid(), signal.SIGKILL)

write, append, batch = store.write_bytes, store.append_log, progress.Display.batch

def write_bytes(path, data):
    if die_at("before", path.name):
        die()
    if die_at("half", path.name):
        path.with_name(f".{{path.name}}.partial").write_bytes(bytes(data)[: len(data) // 2])
        die()
    write(path, data)
    if die_at("after", path.name):
        die()

def append_log(path, entry):
    if die_at("half", path.name):
        with path.open("a") as file:
            file.write('{{"task": 1, "st')
        die()
    append(path, entry)

def learnt_batch(self, terms, images):
    if die_at("in", "batch"):
        die()
    if {slow!r}:
        signal.sigtimedwait([], {slow!r})
    batch(self, terms, images)

store.write_bytes, store.append_log, progress.Display.batch = write_bytes, append_log, learnt_batch
cli.main()
"""


# what takes seconds to import, some of it by the first optimiser
PRELOADED = ["torch._dynamo", "matplotlib.figure", "mlcl.methods", "mlcl.cli", "mlcl.report.page"]


class Runs:
    """Starts `mlcl run ...` in processes forked from one server."""

    def __init__(self, folder: Path):
        self.log = folder / "output.txt"
        self.context = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload(PRELOADED)

    def start(self, *arguments: str | Path, die: str = "", slow: float = 0.0) -> Any:
        line = ["mlcl", "run", *map(str, arguments)]
        code = CHILD.format(log=str(self.log), arguments=line, die=die, slow=slow)
        process = self.context.Process(target=exec, args=(code, {"__name__": "child"}))
        process.start()
        return process

    def __call__(self, *arguments: str | Path, die: str = "") -> int:
        """The exit code, or minus the signal's number."""
        process = self.start(*arguments, die=die)
        process.join(60)
        code = process.exitcode
        assert code is not None, "it hangs"
        return int(code)

    @property
    def output(self) -> str:
        return self.log.read_text(encoding="utf-8")


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    made = Runs(tmp_path)
    yield made
    for child in multiprocessing.active_children():  # of a test that failed
        child.kill()
        child.join()


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.toml"
    path.write_text(RECIPE, encoding="utf-8")
    return path


def same(a: Any, b: Any) -> bool:
    """To the bit."""
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and a.shape == b.shape and bool((a == b).all())
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and bool(a == b)


def log_of(folder: Path) -> list[dict[str, Any]]:
    """Without the clock."""
    entries = store.read_log(folder / "log.jsonl")
    for entry in entries:
        del entry["images_per_second"]
    return entries


def assert_same_run(folder: Path, never_stopped: Path, method: str) -> None:
    a, b = folder / method, never_stopped / method
    assert (a / "results.json").read_bytes() == (b / "results.json").read_bytes()
    assert sorted(p.name for p in a.iterdir()) == sorted(p.name for p in b.iterdir())
    for path in b.glob("*.pt"):
        assert same(store.read_checkpoint(a / path.name), store.read_checkpoint(path)), path.name
    assert log_of(a) == log_of(b)
    assert (folder / "report.html").is_file()


def assert_readable(folder: Path) -> None:
    """Whatever bears a name is whole."""
    tomllib.loads((folder / "config.toml").read_text(encoding="utf-8"))
    for path in folder.rglob("*.json"):
        store.read_json(path)
    for path in folder.rglob("*.pt"):
        store.read_checkpoint(path)


MOMENTS = (
    "before stream.json 1",
    "in batch 1",  # nothing was saved yet
    "half log.jsonl 2",
    "in batch 3",  # task 1: one batch after the checkpoint of two
    "half checkpoint.pt 1",
    "before task-01.pt 1",  # the scores are there, the checkpoint is not
    "after checkpoint.pt 1",  # between tasks
    "half results.json 1",
    "before checkpoint.pt 2",
    "half task-03.pt 1",
    "half report.html 1",
)


@pytest.mark.parametrize("method", METHODS)
def test_killed_at_every_moment(method: str, runs: Runs, recipe: Path, tmp_path: Path) -> None:
    chosen = (recipe, "--method", method, "--out")
    assert runs(*chosen, tmp_path / "whole") == 0, runs.output
    folder = tmp_path / "killed"
    arguments: tuple[str | Path, ...] = (*chosen, folder)
    places = []
    for moment in MOMENTS:
        assert runs(*arguments, die=moment) == -signal.SIGKILL, f"{moment}: {runs.output}"
        assert_readable(folder)
        checkpoint = folder / method / "checkpoint.pt"
        state = store.read_checkpoint(checkpoint) if checkpoint.exists() else {"task": 0, "step": 0}
        places.append((state["task"], state["step"]))
        arguments = ("--resume", folder)
    assert places == sorted(places)
    assert places[3] == (0, 2)  # it did not begin again
    assert places[-1] == (3, 0)
    assert runs(*arguments) == 0, runs.output
    assert_same_run(folder, tmp_path / "whole", method)
    assert not list(folder.rglob("*.partial"))


def test_killed_from_outside_whenever(runs: Runs, recipe: Path, tmp_path: Path) -> None:
    chosen = [recipe, *(f"--method={method}" for method in METHODS), "--out"]
    assert runs(*chosen, tmp_path / "whole") == 0, runs.output
    folder = tmp_path / "killed"
    arguments = [*chosen, folder]
    kills = 0
    for patience in range(1, 100):
        process = runs.start(*arguments)
        process.join(0.15 * patience)
        process.kill()
        process.join()
        if process.exitcode == 0:
            break
        assert process.exitcode == -signal.SIGKILL, runs.output
        kills += 1
        if (folder / "config.toml").exists():
            assert_readable(folder)
            arguments = ["--resume", folder]
    assert kills >= 2
    for method in METHODS:
        assert_same_run(folder, tmp_path / "whole", method)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_asked_to_stop(number: signal.Signals, runs: Runs, recipe: Path, tmp_path: Path) -> None:
    chosen = (recipe, "--method", "agcn++", "--set", "loop.checkpoint_every=0", "--out")
    assert runs(*chosen, tmp_path / "whole") == 0, runs.output
    folder = tmp_path / "stopped"
    process = runs.start(*chosen, folder, slow=0.2)
    log = folder / "agcn++" / "log.jsonl"
    while len(store.read_log(log)) < STEPS + 1:  # in the middle of task 2
        assert process.is_alive(), runs.output
        process.join(0.02)
    os.kill(process.pid, number)
    process.join(60)
    assert process.exitcode == 128 + number, runs.output
    said = [line for line in runs.output.splitlines() if line.startswith("stopped")]
    assert said == [f"stopped; everything is saved. Go on by: mlcl run --resume {folder}"]
    assert "Traceback" not in runs.output
    assert_readable(folder)
    state = store.read_checkpoint(folder / "agcn++" / "checkpoint.pt")
    assert (state["task"], state["step"]) == (1, len(store.read_log(log)) - STEPS)
    assert 1 <= state["step"] <= STEPS
    assert runs("--resume", folder) == 0, runs.output
    assert_same_run(folder, tmp_path / "whole", "agcn++")


def test_asked_twice_leaves_at_once(runs: Runs, recipe: Path, tmp_path: Path) -> None:
    folder = tmp_path / "stopped"
    process = runs.start(recipe, "--method", "fine-tuning", "--out", folder, slow=30.0)
    while not runs.log.exists() or "run folder" not in runs.output:
        assert process.is_alive(), runs.output
        process.join(0.02)
    while "once more" not in runs.output:
        os.kill(process.pid, signal.SIGINT)
        process.join(0.2)
    os.kill(process.pid, signal.SIGINT)
    process.join(20)
    assert process.exitcode == 128 + signal.SIGINT, runs.output
    assert f"Go on by: mlcl run --resume {folder}" in runs.output
    assert "Traceback" not in runs.output


def test_a_run_repeats_from_its_config(runs: Runs, recipe: Path, tmp_path: Path) -> None:
    first, again = tmp_path / "first", tmp_path / "again"
    settings = ("--seed=3", "--set=stream.scenario=cl", "--set=learner.lambda3=7", "--set=threads=0")
    chosen = [recipe, *(f"--method={method}" for method in METHODS), *settings]
    assert runs(*chosen, "--out", first) == 0, runs.output
    assert runs(first / "config.toml", "--out", again) == 0, runs.output
    assert (again / "config.toml").read_bytes() == (first / "config.toml").read_bytes()
    config = tomllib.loads((first / "config.toml").read_text(encoding="utf-8"))
    assert (
        config["threads"] == store.read_json(first / "run.json")["threads"] >= 1
    )  # 0 would depend on the machine
    assert (config["seed"], config["stream"]["scenario"]) == (3, "cl")
    assert config["method"]["agcn++"]["lambda3"] == 7
    for method in METHODS:
        assert_same_run(again, first, method)
    assert runs(first / "config.toml", "--seed=4", "--out", tmp_path / "other") == 0, runs.output
    other = (tmp_path / "other" / "er" / "results.json").read_bytes()
    assert other != (first / "er" / "results.json").read_bytes()


def test_a_finished_run_resumes_to_itself(runs: Runs, recipe: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert runs(recipe, "--method", "er", "--out", folder) == 0, runs.output
    before = {path: path.read_bytes() for path in (folder / "er").iterdir()}
    table = runs.output.split("mAP in percent")[1]
    assert runs("--resume", folder) == 0, runs.output
    assert {path: path.read_bytes() for path in (folder / "er").iterdir()} == before
    assert runs.output.split("mAP in percent")[1] == table  # the result is shown again
    assert not re.search(r"er +task", runs.output)  # nothing was learnt


def test_a_damaged_checkpoint_is_named_and_the_run_goes_on_without_it(
    runs: Runs, recipe: Path, tmp_path: Path
) -> None:
    chosen = (recipe, "--method", "agcn++", "--out")
    assert runs(*chosen, tmp_path / "whole") == 0, runs.output
    folder = tmp_path / "damaged"
    assert runs(*chosen, folder, die="in batch 6") == -signal.SIGKILL
    checkpoint = folder / "agcn++" / "checkpoint.pt"
    data = checkpoint.read_bytes()
    checkpoint.write_bytes(data[: len(data) // 2])
    for _ in range(2):  # nothing changes until the user acts
        assert runs("--resume", folder) == 2
        (line,) = [line for line in runs.output.splitlines() if line.startswith("mlcl: ")]
        assert line.startswith(
            f"mlcl: {checkpoint}: damaged checkpoint ({len(data) // 2:,} bytes); delete it"
        )
        assert "Traceback" not in runs.output
        assert store.read_json(folder / "agcn++" / "results.json")["learnt"] == "1 of 3"
    checkpoint.unlink()
    assert runs("--resume", folder) == 0, runs.output
    assert_same_run(folder, tmp_path / "whole", "agcn++")


def test_the_installed_command(recipe: Path, tmp_path: Path) -> None:
    """No server, no patches: `mlcl run`, kill -9, `mlcl run --resume`."""
    folder = tmp_path / "run"
    saved = folder / "fine-tuning" / "checkpoint.pt"
    command = [sys.executable, "-m", "mlcl.cli", "run"]
    begin = [*command, str(recipe), "--method=fine-tuning", "--set=loop.epochs=30", f"--out={folder}"]
    with subprocess.Popen(begin, stdout=subprocess.DEVNULL) as run:
        while not saved.exists():
            assert run.poll() is None
            time.sleep(0.02)
        run.kill()
    assert run.returncode == -signal.SIGKILL
    assert_readable(folder)
    assert not (folder / "report.html").exists()
    done = subprocess.run(
        [*command, "--resume", str(folder)], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert store.read_json(folder / "fine-tuning" / "results.json")["learnt"] == "3 of 3"
