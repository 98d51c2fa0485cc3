"""CONTRIBUTING.md, followed to the letter: the method that it adds works and passes the conformance suite."""

from __future__ import annotations

import importlib.util
import inspect
import itertools
import re
import shlex
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from mlcl import learner as registry
from mlcl import learners, store
from mlcl.cli import app
from mlcl.types import Batch

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
(CODE,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
(NAME,) = re.findall(r"^Save it as `(\w+\.py)`", PAGE, re.MULTILINE)
COMMANDS = re.findall(r"^mlcl (run .*)$", PAGE, re.MULTILINE)
TINY = ("data.train=48", "data.test=24", "data.size=32", "stream.way=12", "learner.backbone.name=tiny",
        "learner.backbone.size=32")  # fmt: skip


def load(path: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where dataclasses look up the types of their fields
    spec.loader.exec_module(module)
    return module


suite = load(ROOT / "tests" / "test_conformance.py", "conformance_for_contributing")


def cases() -> Iterator[Any]:
    """Every check of the suite with every set of its parameters beside the method."""
    for name, check in inspect.getmembers(suite, inspect.isfunction):
        if not name.startswith("test_"):
            continue
        marks = [mark.args for mark in getattr(check, "pytestmark", []) if mark.name == "parametrize"]
        keys = [key for key, _ in marks]
        for values in itertools.product(*(choices for _, choices in marks)):
            yield pytest.param(
                check, dict(zip(keys, values, strict=True)), id="-".join([name, *map(str, values)])
            )


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the page's file in it; afterwards the method is as unknown as before."""
    (tmp_path / NAME).write_text(CODE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    known, handlers = set(learners()), [(s, signal.getsignal(s)) for s in (signal.SIGINT, signal.SIGTERM)]
    yield tmp_path
    for name in set(registry._LEARNERS) - known:
        del registry._LEARNERS[name]
    sys.modules.pop(f"mlcl_plugin_{Path(NAME).stem}", None)
    for number, handler in handlers:
        signal.signal(number, handler)


@pytest.fixture
def method(place: Path) -> str:
    return str(load(place / NAME, "method_of_contributing").Confident.name)


def test_the_method_is_short_and_new() -> None:
    assert len(CODE.splitlines()) < 60
    assert "confident" not in learners()


@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands(command: str, place: Path) -> None:
    small = [word for setting in TINY for word in ("--set", setting)]
    result = CliRunner().invoke(app, [*shlex.split(command), *small, "--out", "out"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert "confident" in result.output
    asked = re.findall(r"--method (\S+)", command)
    for name in asked:
        results = store.read_json(place / "out" / name / "results.json")
        assert results["learnt"] == "2 of 2"
        assert results["summary"]["mAP"]["final"] > 0
    assert (place / "out" / "report.html").is_file()


@pytest.mark.parametrize(("check", "more"), list(cases()))
def test_conformance(check: Any, more: dict[str, Any], method: str) -> None:
    check(method, **more)


def test_the_suite_has_the_ten_checks_of_the_page() -> None:
    listed = [
        int(number) for number in re.findall(r"^(\d+)\. ", PAGE.split("## The ten checks")[1], re.MULTILINE)
    ]
    in_suite = {int(n) for n in re.findall(r"^def test_(\d\d)_", inspect.getsource(suite), re.MULTILINE)}
    assert listed == sorted(in_suite) == list(range(1, 11))


def test_what_makes_the_method_itself(method: str) -> None:
    """.9 weighs four times as much as .6, as the page says; with power 0 it is LwF's mean."""
    page = "with two old answers, .9 and .6, the first weighs four times as much as the second"
    assert page in PAGE

    old = torch.tensor([[0.9, 0.6]]).logit()
    batch = Batch(torch.zeros(1, 3, 32, 32), torch.zeros(1, 2), torch.zeros(1, 2, dtype=torch.bool))
    surprise = torch.nn.functional.softplus(torch.tensor(0.0))  # the student answers 0.5 to everything
    for power, logits, expected in [
        (1.0, torch.zeros(1, 2), surprise),
        (1.0, torch.tensor([[0.0, 100.0]]), (0.8 * surprise + 0.2 * 40) / 1.0),
        (0.0, torch.tensor([[0.0, 100.0]]), (surprise + 40) / 2),
    ]:
        learner = suite.tiny(method)
        learner.widths = [2, 0]
        learner.net, learner.expert = (lambda x, z=logits: z), (lambda x: old)
        object.__setattr__(learner.config, "power", power)
        terms = learner.losses(batch)
        assert terms["cls"] == 0
        assert terms["dst"].item() == pytest.approx(0.85 * float(expected), rel=1e-4)
