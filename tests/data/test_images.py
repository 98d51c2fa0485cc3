"""Files under a folder: order, damage, links, and paths that climb."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from mlcl.data.images import GREY, HOPELESS, FileImages, inside
from mlcl.errors import DataError
from mlcl.types import Samples

SIZE = 32


def noise(width: int = 96, height: int = 64) -> Image.Image:
    pixels = np.random.default_rng(0).integers(0, 255, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def saved(image: Image.Image, kind: str, **options: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def folder_of(root: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    return root


def test_files_come_in_the_order_asked_for(tmp_path: Path) -> None:
    shades = {f"a/{k:02}.png": saved(Image.new("RGB", (8, 8), (k, k, k)), "PNG") for k in range(40)}
    root = folder_of(tmp_path, shades)
    order = np.random.default_rng(0).permutation(40)
    for threads in (1, 4):
        images = FileImages(root, list(shades), SIZE, threads=threads)
        assert len(images) == 40
        batch = images.load(order)
        assert batch.shape == (40, 3, SIZE, SIZE)
        assert batch.dtype == torch.uint8
        assert batch[:, 1, 5, 5].tolist() == order.tolist()
        assert batch.is_contiguous(memory_format=torch.channels_last)
    assert images.load([3]).shape == (1, 3, SIZE, SIZE)
    assert images.load([]).shape == (0, 3, SIZE, SIZE)


def test_broken_files_are_grey_and_noted(tmp_path: Path) -> None:
    root = folder_of(tmp_path, {
        "good.jpg": saved(noise(), "JPEG"),
        "png named.jpg": saved(noise(), "PNG"),
        "without extension": saved(noise(), "JPEG"),
        "empty.jpg": b"",
        "page.jpg": b"<html>",
        "cut.jpg": saved(noise(), "JPEG")[:-600],
        "huge.bmp": b"BM" + bytes(100_000),
    })  # fmt: skip
    (root / "folder.jpg").mkdir()
    os.mkfifo(root / "pipe.jpg")
    (root / "dangling.jpg").symlink_to(root / "nothing")
    (root / "loop.jpg").symlink_to(root / "loop.jpg")
    reasons = {
        "empty.jpg": "empty file",
        "page.jpg": "not an image",
        "huge.bmp": "100,002 bytes are too many",
        "folder.jpg": "a folder, not a file",
        "pipe.jpg": "a pipe or a device, not a file",
        "missing.jpg": "no such file",
        "x" * 300: "cannot be read: File name too long",
    }
    good = ["good.jpg", "png named.jpg", "without extension", "cut.jpg"]
    refs = [*good, *reasons]
    images = FileImages(root, refs, SIZE, limit=10_000)
    batch = images.load(range(len(refs)))
    assert set(images.broken) == set(range(len(good), len(refs)))
    for row, said in images.broken.items():
        assert said.startswith(f"{refs[row]}: {reasons[refs[row]]}")
        assert (batch[row] == GREY).all()
    assert images.repaired.keys() == {3}
    assert images.repaired[3].startswith("cut.jpg: repaired: ")
    assert all(batch[row].float().std() > 1 for row in range(len(good)))
    assert torch.equal(images.load([5, 0]), batch[[5, 0]])


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    root = folder_of(tmp_path, {"a.jpg": b"x"})
    monkeypatch.setattr(Path, "read_bytes", refuse)  # chmod would not stop root
    images = FileImages(root, ["a.jpg"], SIZE)
    images.load([0])
    assert images.broken == {0: "a.jpg: cannot be read: Permission denied"}


def test_a_wrong_folder_is_told_early(tmp_path: Path) -> None:
    refs = [f"{k}.jpg" for k in range(2 * HOPELESS)]
    images = FileImages(tmp_path, refs, SIZE)
    with pytest.raises(DataError, match=r"none of the first .* can be used .* the right image folder\?"):
        images.load(range(len(refs)))
    folder_of(tmp_path, {"0.jpg": saved(noise(), "JPEG")})
    images = FileImages(tmp_path, refs, SIZE)
    images.load(range(len(refs)))
    assert len(images.broken) == len(refs) - 1


def test_stamps_change_with_the_files(tmp_path: Path) -> None:
    root = folder_of(tmp_path, {"a": b"12", "b": b"345"})
    images = FileImages(root, ["a", "b", "c"], SIZE)
    before = images.stamps()
    assert before[:, 0].tolist() == [2, 3, -1]
    os.utime(root / "a", ns=(0, 5))
    assert (images.stamps() != before).tolist() == [[False, True], [False, False], [False, False]]


CLIMBING = [
    "/etc/passwd",
    "../a.jpg",
    "a/../../b.jpg",
    "a/..",
    "..",
    r"C:\a.jpg",
    "D:/a.jpg",
    r"..\a.jpg",
    r"\\host\a",
]


@pytest.mark.parametrize("ref", CLIMBING)
def test_paths_do_not_climb_out(tmp_path: Path, ref: str) -> None:
    with pytest.raises(DataError, match=r"^list\.csv: row 7: .* leaves the image folder .* outside = true"):
        inside(tmp_path, ref, False, "list.csv: row 7")
    with pytest.raises(DataError, match=r"^image 2: "):
        FileImages(tmp_path, ["good.jpg", ref], SIZE)
    assert inside(tmp_path, ref, True, "") == tmp_path / ref


@pytest.mark.parametrize("ref", ["", "a\0b"])
def test_what_is_no_name_is_refused_always(tmp_path: Path, ref: str) -> None:
    with pytest.raises(DataError, match=r"^here: .* is no file name"):
        inside(tmp_path, ref, True, "here")


def test_links_do_not_lead_out(tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "root", tmp_path / "root-2"
    folder_of(root, {"a.jpg": b"", "sub/b.jpg": b"", "...dots.jpg": b""})
    folder_of(elsewhere, {"c.jpg": b""})
    (root / "out.jpg").symlink_to(elsewhere / "c.jpg")
    (root / "out").symlink_to(elsewhere)
    (root / "in.jpg").symlink_to("sub/b.jpg")
    (root / "in").symlink_to("sub")
    (tmp_path / "same").symlink_to(root)
    for ref in ("a.jpg", "sub/b.jpg", "in.jpg", "in/b.jpg", "...dots.jpg", "./a.jpg", "missing.jpg"):
        for base in (root, tmp_path / "same"):
            assert inside(base, ref, False, "here") == base / ref
    for ref in ("out.jpg", "out/c.jpg"):
        with pytest.raises(DataError, match=r"^here: .* is a link that leaves the image folder"):
            inside(root, ref, False, "here")
        assert inside(root, ref, True, "here").exists()


def test_nothing_is_known_of_a_broken_image(tmp_path: Path) -> None:
    root = folder_of(
        tmp_path, {"a.jpg": saved(noise(), "JPEG"), "b.jpg": b"", "c.jpg": saved(noise(), "JPEG")}
    )
    images = FileImages(root, ["a.jpg", "b.jpg", "c.jpg"], SIZE)
    ones = np.ones((3, 2), np.uint8)
    batch = Samples(images, np.arange(3), ones, ones.astype(bool)).batch([2, 1, 0])
    assert batch.known.tolist() == [[True, True], [False, False], [True, True]]
    assert batch.y.tolist() == [[1, 1], [0, 0], [1, 1]]
