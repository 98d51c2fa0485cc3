"""Run folders: written whole or not at all, and read with an answer to every kind of damage."""

from __future__ import annotations

import errno
import io
import json
import math
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from mlcl import store
from mlcl.errors import RunError


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def full_disk(*_: Any) -> Any:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


# ---- writing


def test_write_and_overwrite(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "a.txt"
    store.write_text(path, "käse")
    assert path.read_bytes() == "käse".encode()
    store.write_bytes(path, memoryview(b"ab"))
    assert path.read_bytes() == b"ab"
    assert names(path.parent) == ["a.txt"]


@pytest.mark.parametrize("fails", ["write", "flush", "fsync", "replace"])
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), KeyboardInterrupt()])
def test_a_failing_write_leaves_the_old_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str, error: BaseException
) -> None:
    path = tmp_path / "checkpoint.pt"
    path.write_bytes(b"old")
    before = path.stat().st_mtime_ns

    def fail(*_: Any) -> Any:
        raise error

    if fails == "fsync":
        monkeypatch.setattr(os, "fsync", fail)
    elif fails == "replace":
        monkeypatch.setattr(Path, "replace", fail)
    else:
        real = Path.open

        def broken(self: Path, mode: str = "r", *rest: Any, **more: Any) -> Any:
            file = real(self, mode, *rest, **more)
            if "w" not in mode:
                return file
            file.write(b"half")

            class Full(io.BytesIO):
                def close(self) -> None:
                    file.close()

            broken_file = Full()
            setattr(broken_file, fails, fail)
            return broken_file

        monkeypatch.setattr(Path, "open", broken)
    with pytest.raises((RunError, KeyboardInterrupt)) as caught:
        store.write_bytes(path, b"new and longer")
    monkeypatch.undo()
    if isinstance(error, OSError):
        assert str(caught.value) == f"{path}: cannot be written: No space left on device"
    else:
        assert caught.value is error
    assert path.read_bytes() == b"old"
    assert path.stat().st_mtime_ns == before
    assert names(tmp_path) == ["checkpoint.pt"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_really_full_disk(tmp_path: Path) -> None:
    """The partial file stands on a device that takes no byte."""
    path = tmp_path / "results.json"
    store.write_json(path, {"a": 1})
    (tmp_path / ".results.json.partial").symlink_to("/dev/full")
    with pytest.raises(RunError, match=r"results\.json: cannot be written: No space left"):
        store.write_json(path, {"a": 2})
    assert store.read_json(path) == {"a": 1}
    assert names(tmp_path) == ["results.json"]
    store.write_json(path, {"a": 3})  # there is space again
    assert store.read_json(path) == {"a": 3}


def test_what_a_kill_left_behind_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / ".a.txt.partial").write_bytes(b"x" * 100)
    store.write_text(tmp_path / "a.txt", "new")
    assert (tmp_path / "a.txt").read_text() == "new"
    assert names(tmp_path) == ["a.txt"]


def test_a_file_where_a_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("")
    for write in (lambda p: store.write_text(p, "x"), lambda p: store.append_log(p, {})):
        with pytest.raises(RunError, match=r"run/a\.txt: cannot be written: "):
            write(tmp_path / "run" / "a.txt")
    with pytest.raises(RunError, match="cannot be written: Is a directory"):
        store.write_text(tmp_path, "x")


def test_the_reader_sees_the_old_or_the_new_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the last moment the name bears the old content, and the new one is on the disk by then."""
    path = tmp_path / "a.txt"
    store.write_text(path, "old")
    seen: list[str] = []
    sync, replace = os.fsync, Path.replace

    def fsync(handle: int) -> None:
        seen.append("fsync " + path.read_text())
        sync(handle)

    def move(self: Path, target: Path) -> Path:
        seen.append("replace " + path.read_text() + " by " + self.read_text())
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "replace", move)
    store.write_text(path, "new")
    assert seen[:2] == ["fsync old", "replace old by new"]
    assert path.read_text() == "new"


# ---- JSON


def test_json_round_trip(tmp_path: Path) -> None:
    value = {"a": [1, 2.5, None, "käse"], "b": {"c": True}}
    store.write_json(tmp_path / "a.json", value)
    assert store.read_json(tmp_path / "a.json") == value
    assert json.loads((tmp_path / "a.json").read_text(encoding="utf-8")) == value


def test_json_has_no_nan(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        store.write_json(tmp_path / "a.json", {"a": math.nan})
    assert names(tmp_path) == []


@pytest.mark.parametrize("content", [b"", b'{"a": 1', b"{'a': 1}", b'{"a": "\xe4"}', b"\x00\x00"])
def test_broken_json(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(RunError, match=r"a\.json: not valid JSON .*; was it edited by hand\?"):
        store.read_json(tmp_path / "a.json")


def test_json_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"a\.json: cannot be read: No such file"):
        store.read_json(tmp_path / "a.json")


# ---- checkpoints


STATE: dict[str, Any] = {
    "learner": {"weight": torch.arange(2000.0), "widths": [4, 2], "expert": None},
    "generator": torch.Generator().manual_seed(1).get_state(),
    "task": 3,
    "begun": True,
    "method": "agcn++",
}


def test_checkpoint_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.pt"
    store.write_checkpoint(path, STATE)
    state = store.read_checkpoint(path)
    assert state.pop("format") == store.FORMAT
    assert state.keys() == STATE.keys()
    assert torch.equal(state["learner"]["weight"], STATE["learner"]["weight"])
    assert torch.equal(state["generator"], STATE["generator"])
    assert state["learner"]["widths"] == [4, 2]
    assert (state["learner"]["expert"], state["task"], state["begun"]) == (None, 3, True)
    assert names(tmp_path) == ["checkpoint.pt"]


def cut(share: float) -> Callable[[bytes], bytes]:
    return lambda data: data[: round(len(data) * share)]


def flipped(data: bytes) -> bytes:
    """One bit of a weight, which every reader that trusts the disk would take for a weight."""
    place = data.index(torch.tensor(1234.0).numpy().tobytes())
    return data[:place] + bytes([data[place] ^ 64]) + data[place + 1 :]


def not_ours(data: bytes) -> bytes:
    buffer = io.BytesIO()
    torch.save([1, 2], buffer)
    return buffer.getvalue()


def other_archive(data: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a.txt", "hello")
    return buffer.getvalue()


class Evil:
    def __reduce__(self) -> Any:
        return (os.mkdir, ("evil",))


def code(data: bytes) -> bytes:
    buffer = io.BytesIO()
    torch.save({"format": store.FORMAT, "learner": Evil()}, buffer)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "damage",
    [
        *(pytest.param(cut(share), id=f"cut at {share}") for share in (0, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999)),
        pytest.param(lambda data: data[:-1], id="last byte"),
        pytest.param(lambda data: bytes(len(data)), id="zeros"),
        pytest.param(lambda data: data[:500] + bytes(len(data) - 500), id="zeros from byte 500"),
        pytest.param(lambda data: b"not a checkpoint", id="text"),
        flipped,
        not_ours,
        other_archive,
        code,
    ],
)
def test_damaged_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[bytes], bytes]
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "checkpoint.pt"
    store.write_checkpoint(path, STATE)
    path.write_bytes(damage(path.read_bytes()))
    size = f"{path.stat().st_size:,} bytes"
    with pytest.raises(RunError) as error:
        store.read_checkpoint(path)
    assert str(error.value).startswith(f"{path}: damaged checkpoint ({size}); delete it")
    assert "\n" not in str(error.value)
    assert names(tmp_path) == ["checkpoint.pt"]  # whatever it held was not run


@pytest.mark.parametrize("version", [0, store.FORMAT + 1, "1"])
def test_checkpoint_of_another_format(tmp_path: Path, version: Any) -> None:
    path = tmp_path / "checkpoint.pt"
    torch.save({**STATE, "format": version}, path)
    with pytest.raises(RunError, match=rf"format {version}, this version reads {store.FORMAT}$"):
        store.read_checkpoint(path)


def test_no_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"checkpoint\.pt: cannot be read: No such file"):
        store.read_checkpoint(tmp_path / "checkpoint.pt")


def test_a_checkpoint_that_does_not_fit_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "checkpoint.pt"
    store.write_checkpoint(path, STATE)
    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(RunError, match="No space left"):
        store.write_checkpoint(path, {**STATE, "task": 4})
    monkeypatch.undo()
    assert store.read_checkpoint(path)["task"] == 3
    assert names(tmp_path) == ["checkpoint.pt"]


# ---- log


def test_log(tmp_path: Path) -> None:
    path = tmp_path / "method" / "log.jsonl"  # nothing else may have been written there yet
    assert store.read_log(path) == []
    entries = [{"task": 1, "step": step, "cls": 0.5, "note": "käse\u2028"} for step in (10, 20)]
    for entry in entries:
        store.append_log(path, entry)
    assert store.read_log(path) == entries
    assert len(path.read_bytes().splitlines()) == 2


@pytest.mark.parametrize("keep", [1, 5, 12, -2])
def test_log_with_a_torn_last_line(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "log.jsonl"
    store.append_log(path, {"task": 1, "step": 10})
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:keep])
    assert store.read_log(path) == [{"task": 1, "step": 10}]


@pytest.mark.parametrize("torn", [b"\x00" * 40, b'{"note": "k\xc3', b"\xff\xfe", b"\n\n"])
def test_log_after_a_power_cut(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "log.jsonl"
    store.append_log(path, {"task": 1, "step": 10})
    path.write_bytes(path.read_bytes() + torn)
    assert store.read_log(path) == [{"task": 1, "step": 10}]


# ---- provenance


def test_the_command_is_one_that_can_be_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    for program in ("/somewhere/mlcl/cli/__main__.py", "/usr/bin/mlcl"):
        monkeypatch.setattr("sys.argv", [program, "run"])
        assert store.provenance()["command"] == ["mlcl", "run"]


def test_provenance_is_ready_for_json(tmp_path: Path) -> None:
    found = store.provenance()
    store.write_json(tmp_path / "run.json", found)
    assert found["torch"] == torch.__version__
    expected = {"mlcl", "commit", "python", "numpy", "platform", "threads", "gpu", "command", "date"}
    assert expected <= found.keys()
