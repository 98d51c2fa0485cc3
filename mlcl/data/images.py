"""Image files under one folder: decoded in threads, the broken ones named, none read outside it."""

from __future__ import annotations

import functools
import os
import re
import stat
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from mlcl.data.decode import LIMIT, PIPELINE, decode
from mlcl.errors import DataError
from mlcl.types import Images

GREY = 128  # of an image that cannot be decoded
HOPELESS = 32  # broken images and not one good: a wrong folder, no damage


class FileImages(Images):
    """What is broken or was repaired is noted by row, with the file's name."""

    def __init__(
        self,
        root: Path,
        refs: Sequence[str],
        size: int,
        *,
        outside: bool = False,
        threads: int = 0,
        limit: int = LIMIT,
    ):
        self.root, self.refs, self.size, self.limit = Path(root), refs, size, limit
        self.threads = threads or min(8, cores())
        self.broken: dict[int, str] = {}
        self.repaired: dict[int, str] = {}
        self._good = False
        for row, ref in enumerate(refs):
            _refuse(str(self.root), ref, outside, f"image {row + 1}")

    def __len__(self) -> int:
        return len(self.refs)

    def load(self, indices: Sequence[int] | np.ndarray) -> Tensor:
        """(len(indices), 3, size, size) uint8; in memory the channels come last, as networks like it."""
        take = np.asarray(indices, dtype=np.int64)
        pixels = np.empty((len(take), self.size, self.size, 3), np.uint8)

        def fill(place: int) -> None:
            self._decode(int(take[place]), pixels[place])

        if self.threads == 1 or len(take) == 1:
            for place in range(len(take)):
                fill(place)
        else:
            list(self._pool.map(fill, range(len(take))))
        if not self._good and len(self.broken) >= HOPELESS:
            raise DataError(
                f"{self.root}: none of the first {len(self.broken)} images can be used "
                f"({next(iter(self.broken.values()))}); is this the right image folder?"
            )
        return torch.from_numpy(pixels).permute(0, 3, 1, 2)

    def identity(self) -> str:
        return f"{PIPELINE}, {self.size} px, at most {self.limit} pixels"

    def stamps(self) -> np.ndarray:
        """(N, 2) int64: each file's bytes and time of change; -1 where it is gone."""
        found = np.full((len(self), 2), -1, dtype=np.int64)
        root = str(self.root)
        for row, ref in enumerate(self.refs):
            try:
                status = os.stat(os.path.join(root, ref))  # noqa: PTH118, PTH116 (a million of them)
            except OSError:
                continue
            found[row] = status.st_size, status.st_mtime_ns
        return found

    def _decode(self, row: int, out: np.ndarray) -> None:
        ref = self.refs[row]
        note = functools.partial(self._note, row, ref)
        if row not in self.broken:
            try:
                data = read(self.root / ref, ref, self.limit)
                decode(data, self.size, ref, limit=self.limit, note=note, out=out)
                self._good = True
                return
            except DataError as error:
                self.broken[row] = str(error)
        out.fill(GREY)

    def _note(self, row: int, ref: str, repair: str) -> None:
        self.repaired[row] = f"{ref}: {repair}"

    @functools.cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self.threads, thread_name_prefix="decode")


def inside(root: Path, ref: str, outside: bool, where: str) -> Path:
    """The file that `ref` names; unless `outside`, a ref that leaves the root in any way is refused."""
    _refuse(str(root), ref, outside, where)
    return Path(root) / ref


def read(path: Path, name: str, limit: int = LIMIT) -> bytes:
    """A file's content, or a DataError; never waits for a pipe, never reads what no image can be."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            kind = "a folder" if stat.S_ISDIR(status.st_mode) else "a pipe or a device"
            raise DataError(f"{name}: {kind}, not a file")
        if status.st_size > 8 * limit:  # no format has more than 8 bytes a pixel
            raise DataError(f"{name}: {status.st_size:,} bytes are too many for {limit:,} pixels, the limit")
        return path.read_bytes()
    except FileNotFoundError:
        raise DataError(f"{name}: no such file in {path.parent}") from None
    except OSError as error:
        raise DataError(f"{name}: cannot be read: {error.strerror or error}") from None


# an absolute path (of Windows too), or '..' as a part
_CLIMBS = re.compile(r"^[/\\]|^[A-Za-z]:[/\\]|(^|[/\\])\.\.([/\\]|$)")


def _refuse(root: str, ref: str, outside: bool, where: str) -> None:
    """4 microseconds a ref: no Path objects, and the links above a file are followed once a folder."""
    if not ref or "\0" in ref:
        raise DataError(f"{where}: {ref!r} is no file name")
    if outside:
        return
    if _CLIMBS.search(ref):
        how = f"leaves the image folder {root}: paths are relative to it and without '..'"
    else:
        path = f"{root}{os.sep}{ref}"
        folder, _, _ = path.rpartition(os.sep)
        real = os.path.realpath(path) if os.path.islink(path) else _real(folder)  # noqa: PTH114
        home = _real(root)
        if real == home or real.startswith(home.rstrip(os.sep) + os.sep):
            return
        how = f"is a link that leaves the image folder {root}"
    raise DataError(f"{where}: {ref!r} {how}; if you trust it, allow it with outside = true")


@functools.lru_cache(maxsize=4096)
def _real(folder: str) -> str:
    return os.path.realpath(folder)


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
