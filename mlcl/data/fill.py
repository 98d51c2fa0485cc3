"""Fills a folder of rows from images: in parallel, with progress, and going on where a kill ended it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from mlcl.data.shards import FORMAT, Shards
from mlcl.errors import DataError, RunError
from mlcl.types import Images

SHARD = 512 * 2**20  # bytes; a kill loses no more

Progress = Callable[[int, int], None]  # images done, of how many


def ignore(done: int, of: int) -> None: ...


def build(
    folder: Path,
    images: Images,
    refs: Sequence[str],
    convert: Callable[[Tensor], np.ndarray],
    *,
    kind: str,
    key: str,
    made: str = "",
    batch: int = 64,
    progress: Progress = ignore,
    shard: int = SHARD,
) -> Shards:
    """Fills what is missing of a folder with convert(images), and opens it."""
    assert len(images) == len(refs)
    if not images.identity() or not refs:
        what = "are drawn when asked for" if refs else "are none"
        raise DataError(f"{folder}: these images cannot be cached: they {what}")
    stamps = images.stamps()
    if (folder / "cache.json").exists():
        shards = Shards(folder)
        shards.check(kind, key, refs, stamps)
        if not shards.missing:  # nothing is written: the folder may be read-only
            return shards
    with _says(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder, lambda: progress(_done(folder), len(refs))):
        if not (folder / "cache.json").exists():
            _begin(folder, convert(images.load([0])), refs, shard, {"kind": kind, "key": key, "made": made})
        shards = Shards(folder)  # another process may have filled it while this one waited
        shards.check(kind, key, refs, stamps)
        if shards.missing:
            _fill(shards, images, convert, stamps, batch, progress)
    return Shards(folder)


def _begin(folder: Path, row: np.ndarray, refs: Sequence[str], shard: int, about: dict[str, Any]) -> None:
    strangers = [path.name for path in folder.iterdir() if not path.name.startswith(".")]
    if set(strangers) - {"refs.json"}:
        raise DataError(f"{folder}: neither empty nor a cache (it holds {strangers[0]}); name another folder")
    _write_json(folder / "refs.json", list(refs))
    rows_per_shard = max(1, min(shard // row.nbytes, len(refs)))
    layout = {"shape": row.shape[1:], "dtype": str(row.dtype), "rows": len(refs)}
    _write_json(
        folder / "cache.json", {"format": FORMAT, **about, **layout, "rows_per_shard": rows_per_shard}
    )


def _fill(
    shards: Shards,
    images: Images,
    convert: Callable[[Tensor], np.ndarray],
    stamps: np.ndarray | None,
    batch: int,
    progress: Progress,
) -> None:
    parts = {n: shards.rows_of(n) for n in shards.missing}
    size = shards.dtype.itemsize * int(np.prod(shards.shape))
    need, free = size * sum(map(len, parts.values())), shutil.disk_usage(shards.folder).free
    if need > free:
        raise RunError(f"{shards.folder}: needs {need / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free there")
    done = shards.rows - sum(map(len, parts.values()))
    progress(done, shards.rows)
    loaded = _ahead(
        images.load, [rows[a : a + batch] for rows in parts.values() for a in range(0, len(rows), batch)]
    )
    for n, rows in parts.items():
        path = shards.file(n, "npy")
        partial = path.with_name(f".{path.name}.partial")
        with _says(partial), partial.open("wb") as file:
            head = {"descr": shards.dtype.str, "fortran_order": False, "shape": (len(rows), *shards.shape)}
            np.lib.format.write_array_header_1_0(file, head)
            checksum = 0
            for _ in range(0, len(rows), batch):
                values = np.ascontiguousarray(convert(next(loaded)))
                assert values.shape[1:] == shards.shape
                assert values.dtype == shards.dtype
                checksum = zlib.crc32(values.data, checksum)
                file.write(values.data)
                done += len(values)
                progress(done, shards.rows)
            file.flush()
            os.fsync(file.fileno())
            partial.replace(path)
        noted = {
            what: {int(row): why[row] for row in rows if row in why}
            for what, why in (("broken", images.broken), ("repaired", images.repaired))
        }
        known = None if stamps is None else stamps[rows].tolist()
        _write_json(shards.file(n, "json"), {"crc32": checksum, **noted, "stamps": known})


def _ahead(load: Callable[[np.ndarray], Tensor], batches: Sequence[np.ndarray]) -> Iterator[Tensor]:
    """The next batch is decoded while this one is written."""
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(load, batches[0])
        for batch in batches[1:]:
            ready, coming = coming.result(), pool.submit(load, batch)
            yield ready
        yield coming.result()


def _done(folder: Path) -> int:
    """Images already there, while another process fills the folder."""
    with contextlib.suppress(DataError):
        shards = Shards(folder)
        return sum(len(shards.rows_of(n)) for n in shards.finished)
    return 0


@contextlib.contextmanager
def _alone(folder: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """One process fills a folder at a time; the lock is gone with its process, however that ends."""
    with _says(folder):
        file = (folder / ".lock").open("w")
    with file:
        with contextlib.suppress(ImportError):  # Windows has no such lock
            import fcntl

            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    waiting()
                    time.sleep(0.5)
        yield


def _write_json(path: Path, value: Any) -> None:
    partial = path.with_name(f".{path.name}.partial")
    with _says(path):
        with partial.open("w", encoding="utf-8") as file:
            json.dump(value, file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)


@contextlib.contextmanager
def _says(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RunError(f"{path}: cannot be written: {error.strerror or error}") from None
