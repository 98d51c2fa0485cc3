"""Images decoded once to the working resolution: the second run reads no JPEG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from mlcl.data.decode import decoder
from mlcl.data.fill import SHARD, Progress, build, ignore
from mlcl.data.shards import Stored
from mlcl.data.table import LabelTable
from mlcl.types import Images


class PackedImages(Stored):
    """Pixels of a folder that `pack` filled."""

    kind = "pixels"

    def load(self, indices: Sequence[int] | np.ndarray) -> Tensor:
        """(len(indices), 3, H, W) uint8; in memory the channels come last, as networks like it."""
        return torch.from_numpy(self.shards.read(indices)).permute(0, 3, 1, 2)


def pack(
    images: Images,
    refs: Sequence[str],
    folder: Path | str,
    *,
    progress: Progress = ignore,
    shard: int = SHARD,
) -> PackedImages:
    """Decodes what the folder does not hold yet, and opens it. Other images than it holds are refused."""
    folder = Path(folder)
    build(
        folder,
        images,
        refs,
        lambda x: x.permute(0, 2, 3, 1).contiguous().numpy(),
        kind=PackedImages.kind,
        key=images.identity(),
        made=decoder(),
        progress=progress,
        shard=shard,
    )
    return PackedImages(folder)


def cached(table: LabelTable, folder: Path | str, progress: Progress = ignore) -> LabelTable:
    """The same table over packed images."""
    return replace(table, images=pack(table.images, table.refs, folder, progress=progress))
