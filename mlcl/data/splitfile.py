"""A split file as a source: its tasks, image by image, over a folder of images."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from mlcl.data.artefact import PARTS, TRAIN, Split
from mlcl.data.artefact_reader import read_file
from mlcl.data.gather import TEST, FileConfig, Rows, folder, gather
from mlcl.data.gather import TRAIN as FOR_TRAINING
from mlcl.data.source import Source
from mlcl.data.table import LabelTable
from mlcl.errors import ConfigError, DataError

NOWHERE = -1


class SplitFile(Source, name="split"):
    """A split made by `mlcl data build`: images, labels and tasks, all decided."""

    @dataclass(frozen=True, kw_only=True)
    class Config(FileConfig):
        file: str = ""  # the split
        test_on: Literal["test", "validation"] = "test"  # the other of the two takes no part
        flat: bool = False  # all images lie in the root itself, not in the folders that the split names

    def table(self) -> LabelTable:
        config = self.config
        if not config.file:
            raise ConfigError("data.file: say which split, such as --set data.file=coco40.split")
        root = folder(config.root, "root")
        path = Path(config.file).expanduser()
        return as_table(read_file(path), root, config, str(path))


def as_table(split: Split, root: Path, config: Any, where: str) -> LabelTable:
    """Files are looked for and paths are checked as in any other source."""
    part = PARTS.index(config.test_on)
    if not (split.part == part).any():
        there = [name for number, name in enumerate(PARTS) if number and (split.part == number).any()]
        raise DataError(f"{where}: no {config.test_on} images; data.test_on may be: {', '.join(there)}")
    rows = Rows(
        split.class_names,
        list(split.refs),
        split.labels,
        np.where(split.part == TRAIN, FOR_TRAINING, TEST).astype(np.int8),
        lambda row: f"{where}, {split.refs[row]}",
        files_of(split, config.flat),
        notes=list(split.notes),
        dropped=dict(split.dropped),
    )
    table = gather(rows, split.name, root, config)
    row_of = {ref: row for row, ref in enumerate(split.refs)}
    kept = np.array([row_of[ref] for ref in table.refs])
    taking_part = np.isin(split.part[kept], (TRAIN, part))
    owner = np.where(taking_part, split.task[kept], NOWHERE)
    return replace(table, owner=owner, widths=split.widths)


def files_of(split: Split, flat: bool) -> list[str]:
    return [file.rpartition("/")[2] for file in split.files] if flat else list(split.files)
