"""Packed images: the same pixels, resumed after a kill, and refused when something has changed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

from mlcl.data import fill
from mlcl.data.images import FileImages
from mlcl.data.packed import PackedImages, cached, pack
from mlcl.data.table import LabelTable
from mlcl.errors import DataError, RunError
from mlcl.types import Images

SIZE, COUNT = 16, 10
BYTES = SIZE * SIZE * 3
SHARD = 4 * BYTES  # so that ten images make three files


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Ten images; one is broken and one is cut short."""
    folder = tmp_path / "images"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for k in range(COUNT):
        Image.fromarray(rng.integers(0, 255, (40, 30, 3), dtype=np.uint8)).save(folder / f"{k}.jpg")
    (folder / "3.jpg").write_bytes(b"")
    whole = (folder / "8.jpg").read_bytes()
    (folder / "8.jpg").write_bytes(whole[: int(len(whole) * 0.8)])
    return folder


def files(root: Path, size: int = SIZE) -> FileImages:
    return FileImages(root, REFS, size)


REFS = [f"{k}.jpg" for k in range(COUNT)]


def test_the_same_pixels(root: Path, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    source = files(root)
    packed = pack(
        source, REFS, tmp_path / "pack", progress=lambda done, of: seen.append((done, of)), shard=SHARD
    )
    order = [9, 0, 3, 4, 4]
    assert torch.equal(packed.load(order), source.load(order))
    assert packed.load(order).is_contiguous(memory_format=torch.channels_last)
    assert len(packed) == COUNT
    assert packed.refs == REFS
    assert packed.broken == source.broken
    assert packed.repaired == source.repaired
    assert packed.repaired.keys() == {8}
    assert seen == [(0, 10), (4, 10), (8, 10), (10, 10)]
    assert np.load(tmp_path / "pack" / "rows-00000.npy").shape == (
        4,
        SIZE,
        SIZE,
        3,
    )  # no need of mlcl to read it
    packed.verify()


def test_the_second_time_nothing_is_decoded(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = pack(files(root), REFS, tmp_path / "pack")
    monkeypatch.setattr(FileImages, "load", None)
    again = pack(files(root), REFS, tmp_path / "pack")
    for ref in REFS:
        (root / ref).unlink()
    without = pack(files(root), REFS, tmp_path / "pack")
    alone = PackedImages(tmp_path / "pack")
    for images in (again, without, alone):
        assert torch.equal(images.load(range(COUNT)), first.load(range(COUNT)))


def test_a_table_over_packed_images(root: Path, tmp_path: Path) -> None:
    labels = np.ones((COUNT, 1), np.int8)
    table = LabelTable("t", ("a",), REFS, labels, np.zeros(COUNT, bool), files(root))
    packed = cached(table, tmp_path / "pack")
    assert isinstance(packed.images, PackedImages)
    assert packed.images.broken == {3: "3.jpg: empty file (0 bytes)"}


KILLED = """
import sys, time
from pathlib import Path
from mlcl.data.images import FileImages
from mlcl.data.packed import pack

class Slow(FileImages):
    def load(self, indices):
        time.sleep(0.2)
        return super().load(indices)

refs = [f"{k}.jpg" for k in range(10)]
images = Slow(Path(sys.argv[1]), refs, 16)
pack(images, refs, sys.argv[2], shard=4 * 768, progress=lambda *n: print(*n, flush=True))
"""


def test_a_kill_loses_the_shard_in_work_only(root: Path, tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(root), str(tmp_path / "pack")], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line == "4 10\n":
                break
        while not (tmp_path / "pack" / "rows-00000.json").exists():
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    with pytest.raises(DataError, match="2 of 3 parts are missing; fill it again"):
        PackedImages(tmp_path / "pack")
    seen: list[int] = []
    packed = pack(
        files(root), REFS, tmp_path / "pack", progress=lambda done, of: seen.append(done), shard=SHARD
    )
    assert seen == [4, 8, 10]
    assert torch.equal(packed.load(range(COUNT)), files(root).load(range(COUNT)))
    assert packed.broken.keys() == {3}
    packed.verify()


def test_half_a_shard_is_not_taken_for_a_whole(root: Path, tmp_path: Path) -> None:
    whole = pack(files(root), REFS, tmp_path / "pack", shard=SHARD).load(range(COUNT))
    (tmp_path / "pack" / "rows-00001.json").unlink()
    (tmp_path / "pack" / "rows-00001.npy").write_bytes(b"half")
    (tmp_path / "pack" / ".rows-00001.npy.partial").write_bytes(b"half")
    again = pack(files(root), REFS, tmp_path / "pack", shard=SHARD)
    assert torch.equal(again.load(range(COUNT)), whole)


def test_two_at_once_share_the_work(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fill.time, "sleep", lambda seconds: threading.Event().wait(0.01))
    loads: list[int] = []

    class Counting(FileImages):
        def load(self, indices: object) -> torch.Tensor:
            loads.append(1)
            time.sleep(0.02)
            return super().load(indices)  # type: ignore[arg-type]

    def work() -> None:
        pack(Counting(root, REFS, SIZE), REFS, tmp_path / "pack", shard=SHARD)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(loads) == 1 + 3  # the shape, and each shard once
    PackedImages(tmp_path / "pack").verify()


def refused(
    root: Path, tmp_path: Path, reason: str, images: Images | None = None, refs: list[str] = REFS
) -> None:
    with pytest.raises(DataError, match=reason):
        pack(images or files(root), refs, tmp_path / "pack", shard=SHARD)


def test_what_has_changed_is_told(root: Path, tmp_path: Path) -> None:
    pack(files(root), REFS, tmp_path / "pack", shard=SHARD)
    refused(
        root,
        tmp_path,
        r"made with: there 'squash 2, 16 px.*, wanted 'squash 2, 24 px.*delete",
        files(root, 24),
    )
    others = [*REFS[:9], "x.jpg"]
    refused(
        root, tmp_path, r"image 10: there '9\.jpg', wanted 'x\.jpg'", FileImages(root, others, SIZE), others
    )
    refused(root, tmp_path, r"10 images there, wanted 5", FileImages(root, REFS[:5], SIZE), REFS[:5])
    os.utime(root / "5.jpg")
    refused(root, tmp_path, r"1 of its images have changed .* such as 5\.jpg; delete rows-00001\.json there")
    (tmp_path / "pack" / "rows-00001.json").unlink()
    pack(files(root), REFS, tmp_path / "pack", shard=SHARD)


def test_a_file_that_was_missing_is_there_now(root: Path, tmp_path: Path) -> None:
    content = (root / "2.jpg").read_bytes()
    (root / "2.jpg").unlink()
    assert pack(files(root), REFS, tmp_path / "pack").broken[2].startswith("2.jpg: no such file")
    pack(files(root), REFS, tmp_path / "pack")
    (root / "2.jpg").write_bytes(content)
    refused(root, tmp_path, r"have changed .* 2\.jpg")


def test_damage_is_told(root: Path, tmp_path: Path) -> None:
    folder = tmp_path / "pack"
    pack(files(root), REFS, folder, shard=SHARD)
    first = folder / "rows-00000.npy"
    whole = first.read_bytes()
    first.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(DataError, match=r"rows-00000\.npy: damaged .*; delete rows-00000\.json there"):
        PackedImages(folder).verify()
    first.write_bytes(whole[:-10])
    refused(root, tmp_path, r"rows-00000\.npy: cannot be read .*; delete rows-00000\.json there")
    np.save(first, np.zeros((4, 3)))
    refused(root, tmp_path, r"rows-00000\.npy: not what cache\.json says")
    (folder / "cache.json").write_text("{")
    refused(root, tmp_path, r"cache\.json: cannot be read .*; delete")
    (folder / "cache.json").write_text(json.dumps({"format": 99}))
    refused(root, tmp_path, "cache format 99, this version reads 1")


def test_a_folder_of_something_else_is_left_alone(root: Path, tmp_path: Path) -> None:
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "thesis.tex").write_text("")
    refused(root, tmp_path, r"neither empty nor a cache \(it holds thesis\.tex\)")
    with pytest.raises(DataError, match="no cache"):
        PackedImages(tmp_path / "nowhere")


def test_what_cannot_be_written_is_told(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="cannot be written"):
        pack(files(root), REFS, tmp_path / "file" / "pack")
    monkeypatch.setattr(fill.shutil, "disk_usage", lambda folder: SimpleNamespace(free=1000))
    with pytest.raises(RunError, match=r"needs 0\.0 GB, and 0\.0 GB are free there"):
        pack(files(root), REFS, tmp_path / "pack")


class Drawn(Images):
    def __len__(self) -> int:
        return 1

    def load(self, indices: object) -> torch.Tensor:
        return torch.zeros(1, 3, 4, 4, dtype=torch.uint8)


def test_drawn_images_are_not_cached(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="these images cannot be cached: they are drawn"):
        pack(Drawn(), ["a"], tmp_path / "pack")
    with pytest.raises(DataError, match="they are none"):
        pack(FileImages(tmp_path, [], SIZE), [], tmp_path / "pack")
