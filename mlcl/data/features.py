"""What a frozen network makes of each image, worked out once: later runs need no image and no backbone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from mlcl.data.fill import SHARD, Progress, build, ignore
from mlcl.data.shards import Stored
from mlcl.errors import DataError
from mlcl.types import Images


class FeatureImages(Stored):
    """Features of a folder that `featurise` filled, in the place of images."""

    kind = "features"

    def load(self, indices: Sequence[int] | np.ndarray) -> Tensor:
        """(len(indices), D) float32, or of whatever shape the encoder gave."""
        return torch.from_numpy(self.shards.read(indices).astype(np.float32, copy=False))


def featurise(
    images: Images,
    refs: Sequence[str],
    folder: Path | str,
    encode: Callable[[Tensor], Tensor],
    key: str,
    *,
    dtype: Literal["float32", "float16"] = "float32",
    batch: int = 64,
    progress: Progress = ignore,
    shard: int = SHARD,
) -> FeatureImages:
    """Encodes what the folder does not hold yet, and opens it.

    `encode` takes (B, 3, H, W) uint8 and gives (B, D); `key` names all that it depends on: the network, its
    weights by their content, its input size, its pooling. Features of another key are refused.
    """
    folder = Path(folder)

    def convert(x: Tensor) -> np.ndarray:
        with torch.inference_mode():
            encoded = encode(x).float().cpu().numpy()
        with np.errstate(over="ignore"):  # it is told below
            values: np.ndarray = encoded.astype(dtype)
        if not np.isfinite(values).all():
            large = np.isfinite(encoded).all()
            what = "too large for float16; use float32" if large else "not finite; are the weights sound?"
            raise DataError(f"{folder}: features are {what}")
        return values

    build(
        folder,
        images,
        refs,
        convert,
        kind=FeatureImages.kind,
        key=f"{images.identity()}; {key}; {dtype}",
        batch=batch,
        progress=progress,
        shard=shard,
    )
    return FeatureImages(folder)
