"""One thread a process: the suite runs in as many processes as there are cores, and they would only wait."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("suite", derandomize=True, deadline=None)  # the same cases every time, for everyone
settings.register_profile("explore", deadline=None)  # HYPOTHESIS_PROFILE=explore looks for others
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before anything imports PyTorch

TINY = ("data.train=48", "data.test=24", "data.size=32", "stream.way=12", "loop.log_every=1",
        "learner.backbone.name=tiny", "learner.backbone.size=32")  # fmt: skip


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a real run, small, by its usual name."""
    from typer.testing import CliRunner

    from mlcl.cli import app

    small = [word for setting in TINY for word in ("--set", setting)]
    folder = tmp_path_factory.mktemp("made") / "runs" / "scenes-001"
    result = CliRunner().invoke(app, ["run", "--method", "agcn++", *small, "--out", str(folder)])
    assert result.exit_code == 0, result.output
    return folder
