"""What is heavy waits until it is needed: the command line must answer at once."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import mlcl

HEAVY = {"torch", "numpy", "matplotlib", "PIL", "pyarrow", "sklearn", "timm", "transformers"}


def python(*arguments: str) -> str:
    return subprocess.run([sys.executable, *arguments], check=True, capture_output=True, text=True).stdout


def loaded(code: str) -> set[str]:
    """The heavy packages that are in memory after this."""
    names = python("-c", f"import sys\n{code}\nprint(*sys.modules)").splitlines()[-1].split()
    return HEAVY & {name.partition(".")[0] for name in names}


def seconds(*arguments: str) -> float:
    """Of the processor: what others do on the machine does not count."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    python(*arguments)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


HELP = """
from mlcl.cli import app
try:
    app({arguments!r})
except SystemExit as end:
    assert end.code == 0, end.code
"""
HELPS = [["--help"], ["--version"], *([name, "--help"] for name in ("run", "grid", "methods", "data"))]


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert loaded("import mlcl") == set()
    assert "torch" in loaded("import mlcl; mlcl.Batch")  # it would be seen


@pytest.mark.parametrize("arguments", HELPS, ids=" ".join)
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    assert loaded(HELP.format(arguments=arguments)) == set()


def test_importing_is_quick() -> None:
    assert seconds("-c", "import mlcl") < 2
    assert seconds("-m", "mlcl.cli", "--help") < 1


def test_every_public_name_is_there() -> None:
    for name in mlcl.__all__:
        assert getattr(mlcl, name) is not None
    with pytest.raises(AttributeError, match="module 'mlcl' has no attribute 'Lerner'"):
        mlcl.Lerner  # noqa: B018


def test_importing_changes_nothing(tmp_path: Path) -> None:
    """Neither the working directory, nor warnings, nor any random generator."""
    code = """
import os, random, warnings
import numpy, torch
def world():
    generators = random.getstate(), numpy.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
    return os.getcwd(), dict(os.environ), list(warnings.filters), torch.get_num_threads(), generators
before = world()
import mlcl
for name in mlcl.__all__:
    getattr(mlcl, name)
mlcl.learners(), mlcl.sources()
print(world() == before)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=tmp_path,
        env={**os.environ, "PYTHONWARNINGS": "error"},
    )  # fmt: skip
    assert done.stdout == "True\n"
    assert list(tmp_path.iterdir()) == []
