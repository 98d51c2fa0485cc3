"""mlcl run: what a user types, and what is said when it is wrong. Kills and stops are in test_resume.py."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from mlcl import cli, store
from mlcl.config import read_toml

RECIPE = """
name = "tiny"
methods = ["fine-tuning", "agcn++"]
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
[learner]
hidden = 16
graph_width = 16
backbone.name = "tiny"
"""

Said = tuple[int, str, str]
Run = Callable[..., Said]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Iterator[Run]:
    """`mlcl run ...` in an empty working directory -> exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("OMP_WAIT_POLICY", "passive")
    (tmp_path / "tiny.toml").write_text(RECIPE, encoding="utf-8")

    def mlcl(*arguments: object) -> Said:
        monkeypatch.setattr(sys, "argv", ["mlcl", "run", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        code = end.value.code
        said = capsys.readouterr()
        return (0 if code is None else int(code)), said.out, said.err

    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    threads = torch.get_num_threads()
    yield mlcl
    torch.set_num_threads(threads)
    for number, handler in handlers.items():
        signal.signal(number, handler)


def refused(said: Said, *parts: str) -> None:
    """One line on stderr that names what is wrong, and exit code 2."""
    code, _, err = said
    assert code == 2, said
    assert err.startswith("mlcl: ")
    assert err.count("\n") == 1
    assert err.endswith("\n")
    for part in parts:
        assert part in err, err


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# ---- what is asked for


def test_a_run(run: Run) -> None:
    code, out, err = run("tiny.toml", "--seed", "3", "--scenario", "cl")
    assert (code, err) == (0, "")
    folder = Path("runs/tiny-001")
    lines = out.splitlines()
    assert lines[0] == ("scenes: 24 classes in 3 tasks, 36 training and 18 test images, scenario CL, on cpu")
    assert lines[1] == f"run folder: {folder}"
    told = [" ".join(line.split()[:4]) for line in lines[2:8]]  # a line a task where no terminal is
    assert told == [f"{name} task {task} mAP" for name in ("fine-tuning", "agcn++") for task in (1, 2, 3)]
    (head,) = [line for line in lines if line.startswith("method ")]
    assert head.split() == ["method", "1", "2", "3", "final", "mean", "forgot", "CF1", "OF1"]
    assert lines[-1].split() == ["report", str(folder / "report.html")]
    for name in ("config.toml", "run.json", "stream.json", "report.html", "agcn++/results.json"):
        assert (folder / name).is_file()
    config = read_toml(folder / "config.toml")
    assert (config["seed"], config["stream"]["scenario"]) == (3, "cl")
    assert config["threads"] == torch.get_num_threads()
    told_of = store.read_json(folder / "run.json")
    assert {"mlcl", "commit", "torch", "command", "date", "threads"} <= told_of.keys()
    assert told_of["command"] == ["mlcl", "run", "tiny.toml", "--seed", "3", "--scenario", "cl"]


def test_every_option_reaches_the_recipe(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    (plugin := Path("mine.py")).write_text("LOADED = True\n")
    seen: list[Any] = []
    monkeypatch.setattr("mlcl.cli.run._run", lambda *given, **more: seen.append((given, more)))
    run("tiny.toml", "--method", "lwf", "--method", "er", "--data", "scenes", "--seed", "7",
        "--scenario", "cl", "--set", "loop.epochs=2", "--set", "method.er.replay=3",
        "--plugin", str(plugin), "--out", "there")  # fmt: skip
    ((recipe, folder), more) = seen[0]
    assert (folder, more) == (Path("there"), {"fresh": True})
    assert (recipe.head.methods, recipe.head.seed, recipe.head.plugins) == (("lwf", "er"), 7, ("mine.py",))
    assert (recipe.stream.scenario, recipe.stream.way, recipe.loop.epochs) == ("cl", 8, 2)
    assert recipe.learners["er"].replay == 3
    assert recipe.head.name == "scenes"  # of the data that are learnt, not of those of the recipe
    run()
    assert seen[1][0][0].head.name == "scenes"  # the default
    assert seen[1][0][1] is None


def test_two_runs_never_share_a_folder(run: Run) -> None:
    Path("runs/tiny-002").mkdir(parents=True)  # of a run that begins just now
    for expected in ("runs/tiny-001", "runs/tiny-003"):
        code, out, _ = run("tiny.toml", "--method", "fine-tuning")
        assert (code, out.splitlines()[1]) == (0, f"run folder: {expected}")


def test_held_out_images_are_not_called_test_images(run: Run) -> None:
    _, out, _ = run("tiny.toml", "--method", "fine-tuning", "--set", "stream.validation=0.5")
    assert "18 held-out images" in out.splitlines()[0]


def test_tested_after_the_last_task_alone(run: Run) -> None:
    """Two methods: the first one's report comes while the second has no score yet."""
    code, out, err = run("tiny.toml", "--set", "loop.evaluate=last", "--out", "last")
    assert (code, err) == (0, "")
    assert [line.split()[3:5] for line in out.splitlines()[2:5]][:2] == [["not", "tested"]] * 2
    rows = [line.split() for line in out.splitlines() if line.startswith(("fine-tuning ", "AGCN++ "))]
    table = [row for row in rows if len(row) == 9]
    assert [row[1:3] for row in table] == [["-", "-"]] * 2  # nothing after tasks 1 and 2
    assert [row[6] for row in table] == ["-"] * 2  # and nothing is said of forgetting
    page = Path("last/report.html").read_text(encoding="utf-8")
    assert page.count("<html") == 1
    assert "nan" not in page.lower().replace("finance", "")


def test_a_report_while_a_method_has_no_score_yet(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped in the second method, then resumed: the first one's report is written again."""
    from mlcl.experiment import Experiment

    real = Experiment.run

    def stops(self: Experiment) -> Any:
        if self.learner.name == "agcn++":
            self.interrupted = lambda: self.progress.task == 1
        return real(self)

    monkeypatch.setattr(Experiment, "run", stops)
    code, out, _ = run("tiny.toml", "--set", "loop.evaluate=last", "--out", "last")
    assert code == 128
    assert out.splitlines()[-1] == "stopped; everything is saved. Go on by: mlcl run --resume last"
    monkeypatch.setattr(Experiment, "run", real)
    code, out, err = run("--resume", "last")
    assert (code, err) == (0, "")
    assert store.read_json(Path("last/agcn++/results.json"))["learnt"] == "3 of 3"


# ---- what is wrong


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["--method", "agcn+"], ["no method 'agcn+'; did you mean 'agcn"]),
        (["scene"], ["no recipe file or shipped recipe 'scene'; did you mean 'scenes'?"]),
        (["missing.toml"], ["no recipe file or shipped recipe 'missing.toml'"]),
        (["--data", "scnes"], ["no data source 'scnes'; did you mean 'scenes'?"]),
        (["--scenario", "ill"], ["stream.scenario: got 'ill'; did you mean 'il'?"]),
        (["--seed", "-1"], ["seed: -1 is negative"]),
        (["tiny.toml", "--set", "loop.batchsize=8"], ["toml: loop.batchsize: unknown key; did you mean"]),
        (["tiny.toml", "--set", "loop.batch_size=x"], ["loop.batch_size: expected a whole number, got 'x'"]),
        (["tiny.toml", "--set", "loop.batch_size"], ["--set loop.batch_size: expected KEY=VALUE"]),
        (["tiny.toml", "--set", "learner.backbone.name=resnet"], ["no backbone 'resnet'", "valid: "]),
        (["tiny.toml", "--set", "stream.widths=[4, 4]"], ["add up to 8, not to 24"]),
        (["tiny.toml", "--plugin", "nope.py"], ["plugins: nope.py: no such Python file"]),
        (["--data", "folder", "--set", "data.root=nowhere"], ["nowhere"]),
        (["."], ["a folder, not a recipe", "mlcl run --resume"]),
        (["--resume", "nowhere"], ["nowhere: not a run folder (it has no config.toml)"]),
        (["--resume", "."], [".: not a run folder (it has no config.toml)"]),
        (["--resume", "tiny.toml"], ["tiny.toml: not a run folder"]),
        (["--resume", ".", "--seed", "1"], ["--seed cannot go with --resume"]),
        (["--resume", ".", "--set", "a=1"], ["--set cannot go with --resume"]),
        (["tiny.toml", "--out", "tiny.toml"], ["tiny.toml: not an empty folder"]),
        (["tiny.toml", "--out", "tiny.toml/x"], ["cannot be written: Not a directory"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)  # fmt: skip
def test_a_slip_is_one_line(run: Run, tmp_path: Path, arguments: list[str], parts: list[str]) -> None:
    before = contents(tmp_path)
    refused(run(*arguments), *parts)
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("sead = 1", ["bad.toml: sead: unknown key; did you mean 'seed'?"]),
        ("seed = 'one'", ["bad.toml: seed: expected a whole number, got 'one'"]),
        ("[loop]\nepochs = 0", ["bad.toml: loop.epochs: must be at least 1, got 0"]),
        ("[stream]\nwey = 4", ["bad.toml: stream.wey: unknown key; did you mean 'way'?"]),
        ("[learner]\noptimizer.lr = true", ["bad.toml: learner.optimizer.lr: expected a number, got True"]),
        ("methods = ['agcn++', 'err']", ["no method 'err'; did you mean 'er'?"]),
        ("seed = ", ["bad.toml: not valid TOML"]),
        ("\xff", ["bad.toml: not valid TOML"]),
        ("extends = 'other.toml'", ["bad.toml: extends: no file"]),
    ],
)
def test_a_bad_recipe_names_file_and_key(run: Run, text: str, parts: list[str]) -> None:
    Path("bad.toml").write_bytes(text.encode("latin-1"))
    refused(run("bad.toml"), *parts)
    assert not Path("runs").exists()


def test_a_folder_that_is_not_empty_stays_as_it_is(run: Run) -> None:
    assert run("tiny.toml", "--method", "fine-tuning", "--out", "here")[0] == 0
    before = contents(Path("here"))
    refused(run("tiny.toml", "--out", "here"), "here: not an empty folder", "--resume", "--out")
    assert contents(Path("here")) == before
    Path("empty").mkdir()
    assert run("tiny.toml", "--method", "fine-tuning", "--out", "empty")[0] == 0


@pytest.fixture
def half(run: Run, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run stopped in the middle of task 2."""
    from mlcl.experiment import Experiment

    folder = Path("half")
    with monkeypatch.context() as patch:
        real = Experiment.run

        def stops(self: Experiment) -> Any:
            self.interrupted = lambda: (self.progress.task, self.progress.step) == (1, 2)
            return real(self)

        patch.setattr(Experiment, "run", stops)
        assert run("tiny.toml", "--method", "agcn++", "--out", folder)[0] == 128
    return folder


def test_a_damaged_checkpoint(run: Run, half: Path) -> None:
    path = half / "agcn++" / "checkpoint.pt"
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    before = contents(half)
    refused(run("--resume", half), f"{path}: damaged checkpoint", "delete it", "task-NN.pt")
    assert contents(half) == before


@pytest.mark.parametrize("name", ["config.toml", "stream.json", "run.json", "agcn++/results.json"])
def test_a_damaged_file_is_named(run: Run, half: Path, name: str) -> None:
    path = half / name
    if name.endswith("results.json"):  # it is written anew from the checkpoint
        path.write_bytes(b"{")
        assert run("--resume", half)[0] == 0
        assert store.read_json(path)["learnt"] == "3 of 3"
        return
    path.write_bytes(path.read_bytes()[:20])
    refused(run("--resume", half), str(path), "not valid")


def test_a_run_of_another_stream_is_not_taken_up(run: Run, half: Path) -> None:
    path = half / "config.toml"
    text = path.read_text(encoding="utf-8").replace('order = "given"', 'order = "random"')
    path.write_text(text, encoding="utf-8")
    refused(run("--resume", half), "checkpoint.pt: belongs to another stream or method than agcn++ here")


FULL_AT = {"config.toml": 0, "stream.json": 0, "checkpoint.pt": 2, "results.json": 1, "task-02.pt": 0,
           "log.jsonl": 4, "report.html": 0}  # fmt: skip


@pytest.mark.parametrize("full_at", FULL_AT)
def test_a_full_disk(run: Run, monkeypatch: pytest.MonkeyPatch, full_at: str) -> None:
    """After so many writes of one file no byte fits any more."""
    chosen = ("tiny.toml", "--method", "agcn++", "--set", "loop.log_every=1", "--out", "run")
    real, full, seen = Path.open, False, 0

    def enospc(*_: Any) -> Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def open_on_a_full_disk(self: Path, mode: str = "r", *rest: Any, **more: Any) -> Any:
        nonlocal full, seen
        if "r" not in mode:
            seen += full_at in self.name
            full = full or seen > FULL_AT[full_at]
            if full:
                enospc()
        return real(self, mode, *rest, **more)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", open_on_a_full_disk)
        refused(run(*chosen), full_at, "cannot be written: No space left on device")
    assert full
    folder = Path("run")
    for path in folder.rglob("*.json"):
        store.read_json(path)
    for path in folder.rglob("*.pt"):
        store.read_checkpoint(path)
    assert not list(folder.rglob("*.partial"))
    again = chosen if full_at == "config.toml" else ("--resume", "run")  # there is room again
    code, _, err = run(*again)
    assert (code, err) == (0, "")
    assert run(*chosen[:-1], "whole")[0] == 0
    results = [Path(name, "agcn++", "results.json").read_bytes() for name in ("run", "whole")]
    assert results[0] == results[1]


def test_a_learner_that_diverges(run: Run) -> None:
    rate = ("--set", "learner.optimizer.lr=1e30", "--set", "learner.optimizer.head_lr=1e30")
    said = run("tiny.toml", "--method", "fine-tuning", "--out", "bad", *rate)
    refused(said, "fine-tuning: probabilities are not finite after task", "learner.optimizer.lr")


def test_a_bug_shows_its_trace(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def bug(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr("mlcl.recipe.load_recipe", bug)
    monkeypatch.setattr(sys, "argv", ["mlcl", "run"])
    with pytest.raises(ZeroDivisionError):
        cli.main()


def test_threads_wait_passively(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_WAIT_POLICY")
    refused(run("nothing"), "nothing")
    assert os.environ.pop("OMP_WAIT_POLICY") == "passive"
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")  # a user knows better
    refused(run("nothing"), "nothing")
    assert os.environ["OMP_WAIT_POLICY"] == "active"
