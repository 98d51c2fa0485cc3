"""Run folders: everything written atomically, so that a kill at any moment leaves a readable folder.

RUN/
  config.toml            the resolved configuration; running it again repeats the run
  run.json               versions, commit, machine, command, when
  report.html
  METHOD/
    results.json         scores after each task; needs no code to read; no clock in it
    checkpoint.pt        where learning stands: goes on from here
    task-01.pt ...       the learner after each task
    log.jsonl            loss terms and speed
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mlcl.errors import RunError

FORMAT = 1  # of results.json and of checkpoints; a reader refuses what it does not know


def write_bytes(path: Path, data: bytes | memoryview) -> None:
    """All or nothing: a half-written file never bears the name."""
    partial = path.with_name(f".{path.name}.partial")
    with says(path, "cannot be written"):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with partial.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
        finally:  # after a Ctrl-C too; it is gone if all went well
            partial.unlink(missing_ok=True)
        if os.name == "posix":  # the rename itself must survive a power cut
            folder = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)


def write_text(path: Path, text: str) -> None:
    write_bytes(path, text.encode())


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=1, allow_nan=False) + "\n")


def read_json(path: Path) -> Any:
    with says(path, "cannot be read"):
        data = path.read_bytes()
    try:
        return json.loads(data)
    except ValueError as error:
        raise RunError(f"{path}: not valid JSON ({error}); was it edited by hand?") from None


def write_checkpoint(path: Path, state: Mapping[str, Any]) -> None:
    import torch

    buffer = io.BytesIO()
    torch.save({"format": FORMAT, **state}, buffer)
    write_bytes(path, buffer.getbuffer())


def read_checkpoint(path: Path, device: str = "cpu") -> dict[str, Any]:
    import torch

    with says(path, "cannot be read"):
        data = path.read_bytes()
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:  # torch itself looks at no checksum
            if archive.testzip() is not None:
                raise ValueError
        state = torch.load(io.BytesIO(data), map_location=device, weights_only=True)
        version = state["format"]
    except Exception:  # torch raises half a dozen kinds for damaged files, none of its own
        raise RunError(
            f"{path}: damaged checkpoint ({len(data):,} bytes); delete it, and the run goes on "
            "from the last task-NN.pt beside it, or begins again if there is none"
        ) from None
    if version != FORMAT:
        raise RunError(f"{path}: checkpoint format {version}, this version reads {FORMAT}")
    return dict(state)


def append_log(path: Path, entry: Mapping[str, Any]) -> None:
    with says(path, "cannot be written"):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")


def read_log(path: Path) -> list[dict[str, Any]]:
    """The entries of log.jsonl; a last line that a kill cut short is left out."""
    if not path.exists():
        return []
    entries = []
    with says(path, "cannot be read"):
        lines = path.read_bytes().splitlines()
    for line in lines:
        with contextlib.suppress(ValueError):
            entries.append(json.loads(line))
    return entries


def provenance() -> dict[str, Any]:
    """What a figure must be read with: versions, commit, machine, command, date."""
    import datetime
    import platform

    import numpy
    import torch

    from mlcl.version import __version__

    return {
        "mlcl": __version__,
        "commit": _commit(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "platform": platform.platform(),
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "command": [_program(Path(sys.argv[0])), *sys.argv[1:]],
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def _program(path: Path) -> str:
    """By the name that a user can type: `python -m mlcl.cli` calls itself __main__.py."""
    return "mlcl" if path.parts[-3:] == ("mlcl", "cli", "__main__.py") else path.name


def _commit() -> str | None:
    import subprocess

    here = Path(__file__).resolve().parent
    if not (here.parent / ".git").exists():  # installed, not a checkout: git would find another project's
        return None
    try:
        run = subprocess.run(
            ["git", "-C", str(here), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return run.stdout.strip() or None


@contextlib.contextmanager
def says(path: Path, what: str) -> Iterator[None]:
    """Turns the operating system's complaint into one line that names the file."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise RunError(f"{path}: {what}: {reason}") from None
