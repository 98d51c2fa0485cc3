"""From an image file's bytes to pixels: what can be decoded is, and what cannot is refused by name.

Every image is squashed to a square (the aspect ratio is not kept) by an antialiased bilinear resize, as the
paper's released code does before its crops. The same pixels come out with simplejpeg (extra `fast`) and
without it: JPEGs only come about a fifth sooner.
"""

from __future__ import annotations

import importlib
import io
import struct
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import PIL
import torch
from PIL import Image
from torch import Tensor

from mlcl.errors import DataError

LIMIT = 100_000_000  # pixels of an image; what claims more is taken for a decompression bomb
KEPT = 8_000_000  # bytes; larger room for a decoded image is given back after it
PIPELINE = "squash 2"  # what becomes of a file's pixels; a cache of another pipeline is refused

# The content decides, not the extension. Left out on purpose: EPS and PDF run programs, TGA has no signature.
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "JPEG2000", "AVIF")

ORIENTATION = 0x0112  # in EXIF
# its value -> (transposed?, dimensions of (3, H, W) then flipped)
_TURNS: dict[int, tuple[bool, tuple[int, ...]]] = {
    2: (False, (2,)),
    3: (False, (1, 2)),
    4: (False, (1,)),
    5: (True, ()),
    6: (True, (2,)),
    7: (True, (1, 2)),
    8: (True, (1,)),
}
_END = b"\xff\xd9"  # of a JPEG


def _optional(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


simplejpeg = _optional("simplejpeg")


def decoder() -> str:
    """What decodes JPEGs here, for the record."""
    return f"simplejpeg {simplejpeg.__version__}" if simplejpeg else f"Pillow {PIL.__version__}"


def decode(
    data: bytes,
    size: int,
    name: str,
    *,
    limit: int = LIMIT,
    note: Callable[[str], None] = lambda repair: None,
    out: np.ndarray | None = None,
) -> Tensor:
    """(3, size, size) uint8, RGB, of any image file's content; `note` hears what had to be repaired.

    In memory the channels come last, as networks like it: in `out` (size, size, 3), if it is given.
    """
    if out is None:
        out = np.empty((size, size, 3), np.uint8)
    try:
        image = _open(data)
        width, height = image.size
        if width * height > limit:
            raise DataError(f"{width:,} x {height:,} pixels are over the limit of {limit:,}")
        pixels = _fast_jpeg(image, data, size)
        if pixels is None:
            pixels = _pixels(image, data, size, note)
        turn = _TURNS.get(_orientation(image))
        squash(pixels, out)
    except DataError as error:
        raise DataError(f"{name}: {error}") from None
    except Exception as error:  # of damaged data the decoders raise a dozen kinds, none of their own
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise DataError(f"{name}: cannot be decoded: {lines[0]}") from None
    small = torch.from_numpy(out).permute(2, 0, 1)
    if turn is not None:
        transposed, flipped = turn
        small.copy_((small.transpose(1, 2) if transposed else small).flip(flipped))  # flip copies, always
    return small


def squash(pixels: np.ndarray, out: np.ndarray) -> None:
    """(h, w, 3) -> `out` (size, size, 3)."""
    size, width = len(out), pixels.shape[1]
    if pixels.shape == out.shape:
        out[:] = pixels
        return
    image = _batch(pixels)
    if len(pixels) > size and width != size:  # down first: it is the cheaper way, and leaves fewer rows
        image = _resize(image, [size, width], False, out=_batch(_room("rows", size, width)))
    _resize(image, [size, size], False, out=_batch(out))


# what F.interpolate(mode="bilinear", antialias=True) calls, but into memory of our choice
_resize = torch.ops.aten._upsample_bilinear2d_aa.out


def _batch(pixels: np.ndarray) -> Tensor:
    """(1, 3, h, w) of the same memory. torch takes its fast way only if the first stride is right too."""
    height, width, _ = pixels.shape
    strides = (height * width * 3, 1, width * 3, 3)
    return torch.as_strided(torch.from_numpy(pixels), (1, 3, height, width), strides)


_kept = threading.local()  # what images pass through on their way to `out`, by use


def _room(use: str, height: int, width: int) -> np.ndarray:
    """(height, width, 3) uint8: the same memory for every image of a thread, as long as it is no huge one.

    It begins half-way between multiples of 32. What libjpeg-turbo decodes to a multiple of 32 it writes
    around the processor's caches, and to fetch it again for the resize costs a tenth of the whole.
    """
    count = height * width * 3
    memory: np.ndarray | None = getattr(_kept, use, None)
    if memory is None or len(memory) < count:
        memory = np.empty(count + 32, np.uint8)
        memory = memory[(16 - memory.ctypes.data) % 32 :]
        if count <= KEPT:
            setattr(_kept, use, memory)
    return memory[:count].reshape(height, width, 3)


def _open(data: bytes) -> Any:
    """Pillow's lazy image. Image.open itself would judge bombs by a limit that all threads share."""
    if not data:
        raise DataError("empty file (0 bytes)")
    Image.init()
    complaint = ""
    for name in FORMATS:
        factory, accept = Image.OPEN.get(name, (None, None))
        accepted = accept(data[:16]) if accept is not None else False
        if isinstance(accepted, str):  # the format is known, but this Pillow was built without it
            complaint = accepted
        elif accepted and factory is not None:
            try:
                return factory(io.BytesIO(data), "")
            except (SyntaxError, IndexError, TypeError, struct.error, OSError) as error:
                complaint = f"damaged {name} file: {error}"
    raise DataError(complaint or f"not an image of a known format (it begins with {data[:16]!r})")


def _fast_jpeg(image: Any, data: bytes, size: int) -> np.ndarray | None:
    """(h, w, 3), or None where Pillow must see to it."""
    if simplejpeg is None or not _is_jpeg(image) or image.mode not in ("RGB", "L"):
        return None
    scale = _scale(image, size)
    width, height = (-(-side // scale) for side in image.size)
    try:
        pixels: np.ndarray = simplejpeg.decode_jpeg(
            data, "RGB", min_height=height, min_width=width, buffer=_room("image", height, width)
        )
    except ValueError:  # anything odd, such as data cut short
        return None
    return pixels if pixels.shape == (height, width, 3) else None


def _pixels(image: Any, data: bytes, size: int, note: Callable[[str], None]) -> np.ndarray:
    """(h, w, 3) by Pillow; of a file cut short, the part that is there."""
    scale = _scale(image, size)
    reduced = tuple(side // scale for side in image.size)
    try:
        image.draft(None, reduced)
        image.load()
        return _rgb(image)
    except (OSError, SyntaxError) as error:
        cut = error
    if _is_jpeg(image):  # given an end, the decoder gives all that it has
        image = _open(data + _END)
        image.draft(None, reduced)
    elif image.info.get("interlace"):
        raise DataError("cut short, and interlaced: there are holes in every row")
    else:
        image.tile = []  # nothing left to decode: Pillow then shows the rows that it has
    image.load()
    pixels = _rgb(image)
    # the missing rows are of one colour: the last ones, or the first ones where rows are stored upwards
    there = min((pixels != fill).any(axis=(1, 2)).mean() for fill in (pixels[-1, -1], pixels[0, 0]))
    if there < 0.5:
        raise DataError(f"cut short: {there:.0%} of its rows are there, and less than half is not used")
    note(f"repaired: {there:.0%} of its rows are there ({cut})")
    return pixels


def _is_jpeg(image: Any) -> bool:
    return image.format in ("JPEG", "MPO")


def _scale(image: Any, size: int) -> int:
    """1, 2, 4 or 8: a JPEG is decoded at this part of its sides at little cost, not below `size`."""
    most = min(image.size) // size
    return next((scale for scale in (8, 4, 2) if most >= scale), 1)


def _rgb(image: Any) -> np.ndarray:
    """(h, w, 3) uint8 of any mode. What is transparent lies on white."""
    if image.mode.startswith("I;16") or image.mode == "I":
        deep = np.asarray(image).astype(np.int64)
        if deep.min() < 0 or deep.max() > 65535:
            raise DataError("32-bit pixels, whose range is not known; convert it to 8 or 16 bits")
        return np.repeat(((deep + 128) // 257).astype(np.uint8)[..., None], 3, axis=2)
    if image.mode == "F":
        raise DataError("floating-point pixels, whose range is not known; convert it to 8 or 16 bits")
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return np.array(image.convert("RGB"))  # a copy: torch wants memory that may be written


def _orientation(image: Any) -> int:
    """To be asked after the pixels: Pillow turns a TIFF by itself when it loads it."""
    try:
        return int(image.getexif().get(ORIENTATION, 1))
    except Exception:  # damaged metadata are no reason to lose the picture
        return 1
