"""A split as a small text file: to be committed, diffed, and loaded wherever the images are.

mlcl split  1
sha256  9f2c...                    of all other lines
images  92244                      so that a file cut short says so
name  coco2014
made  stream.top  40             how it was made, for the reader
note  2 images without annotation kept, as showing no class
task  1  person  bicycle  car  motorcycle
dropped  b.jpg  no such file       and every image that has no place in it
train  3  a.jpg  train2014/a.jpg  couch  ?bed

One fact a line, one image a line, sorted by name; cells are parted by tabs. An image is for `train`,
`validation` or `test`; then come its task, its name, its file (empty: the name), and its labels. A class that
it does not name is absent; `?bed` is unknown. Where `?` stands first, what it does not name is unknown, and
`-cup` is absent.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from mlcl.data.table import UNKNOWN
from mlcl.data.text import file_errors
from mlcl.errors import DataError

FORMAT = 1
HEAD = "mlcl split"
PARTS = ("train", "validation", "test")
TRAIN, VALIDATION, TEST = range(3)

REST = "?"  # nothing is known of the classes that the line does not name
# what would not come back from a line as it is, or would be read as a sign
_ODD = re.compile(r'^$|^["?-]|^\s|\s$|[\x00-\x1f\x7f\x85\u2028\u2029\ud800-\udfff]')


@dataclass(frozen=True)
class Split:
    """Who gets which image, with all that is known of it; the images are somewhere else."""

    name: str
    tasks: tuple[tuple[str, ...], ...]  # the classes of each
    refs: Sequence[str]  # (N) the images' names, sorted
    files: Sequence[str]  # (N) under the folder of images
    part: np.ndarray  # (N,) int8: TRAIN, VALIDATION, TEST
    task: np.ndarray  # (N,) int32, from 0; of a test image the first whose test set has it
    labels: np.ndarray  # (N, C) int8: 1 present, 0 absent, -1 unknown
    dropped: Mapping[str, str] = field(default_factory=dict)  # image -> why
    notes: tuple[str, ...] = ()
    made: Mapping[str, str] = field(default_factory=dict)  # setting -> value

    def __post_init__(self) -> None:
        assert len(self.refs) == len(self.files) == len(self.part) == len(self.task) == len(self.labels)
        assert self.labels.shape[1] == len(self.class_names)

    def __len__(self) -> int:
        return len(self.refs)

    @property
    def class_names(self) -> tuple[str, ...]:
        return tuple(name for names in self.tasks for name in names)

    @property
    def widths(self) -> tuple[int, ...]:
        return tuple(map(len, self.tasks))

    @property
    def edges(self) -> np.ndarray:
        """(T + 1,) task t owns the columns [edges[t], edges[t + 1])."""
        return np.cumsum((0, *self.widths))

    def text(self) -> str:
        """The same for the same split, whatever the order of rows that it was made from."""
        lines = [f"images\t{len(self)}", f"name\t{quoted(self.name)}"]
        lines += [f"made\t{quoted(key)}\t{quoted(value)}" for key, value in self.made.items()]
        lines += [f"note\t{quoted(note)}" for note in self.notes]
        for number, names in enumerate(self.tasks, 1):
            lines.append("\t".join((f"task\t{number}", *map(quoted, names))))
        for ref in sorted(self.dropped):
            lines.append(f"dropped\t{quoted(ref)}\t{quoted(self.dropped[ref])}")
        lines += self._images()
        body = "".join(f"{line}\n" for line in lines)
        return f"{HEAD}\t{FORMAT}\nsha256\t{digest(body)}\n{body}"

    def write(self, path: Path | str) -> None:
        """All or nothing; a file that is no split is not written over."""
        path = Path(path)
        with file_errors(path, "cannot be written"):
            if path.exists() and not path.read_bytes()[:99].startswith(HEAD.encode()):
                raise DataError(f"{path}: exists, and is no split; name another file")
            path.parent.mkdir(parents=True, exist_ok=True)
            partial = path.with_name(f".{path.name}.partial")
            try:
                with partial.open("w", encoding="utf-8", newline="\n") as file:
                    file.write(self.text())
                    file.flush()
                    os.fsync(file.fileno())
                partial.replace(path)
            finally:
                partial.unlink(missing_ok=True)

    def _images(self) -> Iterator[str]:
        names = [quoted(name) for name in self.class_names]
        marks = {1: names, 0: [f"-{name}" for name in names], UNKNOWN: [f"?{name}" for name in names]}
        for ref, file, part, task, labels in zip(
            self.refs, self.files, self.part.tolist(), self.task.tolist(), self.labels, strict=True
        ):
            rest = UNKNOWN if 2 * np.count_nonzero(labels == UNKNOWN) > len(names) else 0
            cells = [PARTS[part], str(task + 1), quoted(ref), "" if file == ref else quoted(file)]
            cells += [REST] if rest == UNKNOWN else []
            cells += [marks[mark][c] for c in np.flatnonzero(labels != rest) for mark in (int(labels[c]),)]
            yield "\t".join(cells)


def quoted(name: str) -> str:
    r"""As a cell; what is odd in it as JSON writes it.

    >>> [quoted(name) for name in ("traffic light", "?", "a\tb")]
    ['traffic light', '"?"', '"a\\tb"']
    """
    return json.dumps(name) if _ODD.search(name) else name


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
