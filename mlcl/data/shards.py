"""A folder of rows, one an image: worked out once, then read through the memory map.

FOLDER/
  cache.json         what the rows are; another use of the folder is refused by it
  refs.json          the images' names, row by row
  rows-00000.npy     plain NumPy
  rows-00000.json    its checksum, broken images, and the stamps of the files that it was made of;
                     written last: a shard without it is not there yet, and is made anew
"""

from __future__ import annotations

import json
import threading
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from mlcl.errors import DataError
from mlcl.types import Images

FORMAT = 1
# NumPy reads a header by ast, which up to Python 3.11.7 may fail in two threads at once (gh-106905)
_PARSING = threading.Lock()


class Shards:
    """What of a folder is finished; `read` needs all of it."""

    def __init__(self, folder: Path):
        self.folder = folder
        if not (folder / "cache.json").exists():
            raise DataError(f"{folder}: no cache (it has no cache.json); correct the name")
        about = _read_json(folder / "cache.json")
        if about.get("format") != FORMAT:
            raise DataError(f"{folder}: cache format {about.get('format')}, this version reads {FORMAT}")
        self.kind: str = about["kind"]
        self.key: str = about["key"]
        self.shape, self.dtype = tuple(about["shape"]), np.dtype(about["dtype"])
        self.per_shard: int = about["rows_per_shard"]
        self.refs: list[str] = _read_json(folder / "refs.json")
        self.rows = len(self.refs)
        self.count = -(-self.rows // self.per_shard)
        found = {n: self.file(n, "json") for n in range(self.count)}
        self.finished = {n: _read_json(path) for n, path in found.items() if path.exists()}
        self.maps = {n: self._map(n) for n in self.finished}

    @property
    def missing(self) -> list[int]:
        return [n for n in range(self.count) if n not in self.finished]

    def noted(self, what: str) -> dict[int, str]:
        """The rows that are broken, or repaired, and why."""
        return {int(row): why for part in self.finished.values() for row, why in part[what].items()}

    def stamps(self) -> np.ndarray | None:
        """(N, 2), as Images.stamps; of what is not finished, as if gone."""
        stamps = np.full((self.rows, 2), -1, np.int64)
        for n, part in self.finished.items():
            if part["stamps"] is None:
                return None
            stamps[self.rows_of(n)] = part["stamps"]
        return stamps

    def rows_of(self, n: int) -> np.ndarray:
        return np.arange(n * self.per_shard, min((n + 1) * self.per_shard, self.rows))

    def read(self, rows: Sequence[int] | np.ndarray) -> np.ndarray:
        """(len(rows), ...)"""
        take = np.asarray(rows, dtype=np.int64)
        out = np.empty((len(take), *self.shape), self.dtype)
        for place, row in enumerate(take.tolist()):
            out[place] = self.maps[row // self.per_shard][row % self.per_shard]
        return out

    def verify(self) -> None:
        """Reads everything and compares the checksums."""
        for n, values in self.maps.items():
            checksum = 0
            for start in range(0, len(values), 64):
                checksum = zlib.crc32(values[start : start + 64].data, checksum)
            if checksum != self.finished[n]["crc32"]:
                raise DataError(f"{self.file(n, 'npy')}: damaged (wrong checksum); {self._again([n])}")

    def check(self, kind: str, key: str, refs: Sequence[str], stamps: np.ndarray | None) -> None:
        """Refuses a folder that was filled from something else."""
        for name, have, want in (("kind", self.kind, kind), ("made with", self.key, key)):
            if have != want:
                raise DataError(
                    f"{self.folder}: filled with other rows ({name}: there {have!r}, wanted {want!r}); "
                    "name another folder, or delete this one"
                )
        if list(refs) != self.refs:
            pairs = zip(self.refs, refs, strict=False)
            row, there, wanted = next(
                ((row, a, b) for row, (a, b) in enumerate(pairs) if a != b), (0, len(self.refs), len(refs))
            )
            which = f"image {row + 1}: there {there!r}, wanted {wanted!r}"
            if isinstance(there, int):
                which = f"{there} images there, wanted {wanted}"
            raise DataError(
                f"{self.folder}: filled from other images ({which}); name another folder, or delete this one"
            )
        before = self.stamps()
        if stamps is None or before is None:
            return
        done = np.isin(np.arange(self.rows) // self.per_shard, list(self.finished))
        # an image that is gone cannot have changed: the cache does without the files
        changed = np.flatnonzero((stamps != before).any(axis=1) & (stamps[:, 0] >= 0) & done)
        if len(changed):
            shards = sorted({int(row) // self.per_shard for row in changed})
            raise DataError(
                f"{self.folder}: {len(changed)} of its images have changed since it was filled, such as "
                f"{self.refs[changed[0]]}; {self._again(shards)}"
            )

    def _again(self, shards: Sequence[int]) -> str:
        names = ", ".join(self.file(n, "json").name for n in shards[:5])
        what = f"{names} there" if len(shards) <= 5 else "the folder"
        return f"delete {what}, and it is made again"

    def file(self, n: int, extension: str) -> Path:
        return self.folder / f"rows-{n:05}.{extension}"

    def _map(self, n: int) -> np.ndarray:
        path = self.file(n, "npy")
        try:
            with _PARSING:
                values = np.asarray(np.load(path, mmap_mode="r"))
        except (OSError, ValueError, EOFError) as error:
            raise DataError(f"{path}: cannot be read ({error}); {self._again([n])}") from None
        if values.shape != (len(self.rows_of(n)), *self.shape) or values.dtype != self.dtype:
            raise DataError(f"{path}: not what cache.json says; {self._again([n])}")
        return values


class Stored(Images):
    """A finished folder as images, or what was made of them. The files behind them may be gone."""

    kind: ClassVar[str]

    def __init__(self, folder: Path | str):
        shards = Shards(Path(folder))
        if shards.kind != self.kind:
            raise DataError(f"{folder}: holds {shards.kind}, not {self.kind}")
        if shards.missing:
            parts = f"{len(shards.missing)} of {shards.count} parts"
            raise DataError(f"{folder}: {parts} are missing; fill it again, and that goes on from there")
        self.shards = shards
        self.refs = shards.refs
        self.broken = shards.noted("broken")
        self.repaired = shards.noted("repaired")

    def __len__(self) -> int:
        return len(self.refs)

    def identity(self) -> str:
        return self.shards.key

    def stamps(self) -> np.ndarray | None:
        return self.shards.stamps()

    def verify(self) -> None:
        """Reads everything and compares the checksums."""
        self.shards.verify()


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(
            f"{path}: cannot be read ({error}); delete {path.parent}, and it is made again"
        ) from None
