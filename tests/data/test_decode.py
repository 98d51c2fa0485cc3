"""Odd and damaged images, each with its outcome: shown, repaired, or refused with the file's name."""

from __future__ import annotations

import io
import struct
import threading
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from mlcl.data import decode as decoding
from mlcl.data.decode import ORIENTATION, decode, decoder
from mlcl.errors import DataError

pytestmark = pytest.mark.filterwarnings("ignore:Corrupt EXIF data")  # Pillow says so, and goes on
SIZE = 32
RED, GREEN, BLUE, GOLD, WHITE = (220, 30, 30), (30, 200, 40), (30, 40, 210), (230, 190, 20), (255, 255, 255)
UPRIGHT = (RED, GREEN, BLUE, GOLD)  # top left, top right, bottom left, bottom right
SIGNATURE = b"\x89PNG\r\n\x1a\n"
GREYS = tuple((round(0.299 * r + 0.587 * g + 0.114 * b),) * 3 for r, g, b in UPRIGHT)


def quadrants(width: int = 96, height: int = 64, colours: Any = UPRIGHT) -> Image.Image:
    image = Image.new("RGB", (width, height))
    for k, colour in enumerate(colours):
        left, top = k % 2 * (width // 2), k // 2 * (height // 2)
        image.paste(colour, (left, top, width if k % 2 else width // 2, height if k > 1 else height // 2))
    return image


def noise(width: int = 96, height: int = 64) -> Image.Image:
    """So that no row has one colour, and a part of the file is that part of the rows."""
    pixels = np.random.default_rng(0).integers(0, 255, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def saved(image: Image.Image, kind: str, **options: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def turned(kind: str, orientation: int) -> bytes:
    """Stored so that its orientation tag makes it upright."""
    back = {2: 0, 3: 3, 4: 1, 5: 5, 6: 2, 7: 6, 8: 4}  # our number -> Pillow's Transpose, its own inverse
    image = quadrants()
    if orientation in back:
        image = image.transpose(Image.Transpose(back[orientation]))
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    return saved(image, kind, exif=exif)


def cut(data: bytes, share: float) -> bytes:
    return data[: int(len(data) * share)]


def chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png(width: int, height: int, depth: int, colour: int, rows: bytes, *more: bytes) -> bytes:
    """By hand, for what Pillow does not write."""
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0))
    return SIGNATURE + head + b"".join(more) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def deep(image: Image.Image) -> np.ndarray:
    """16 bits of grey."""
    return np.asarray(image.convert("L")).astype(np.uint16) * 257


def clear(alpha: int) -> Image.Image:
    image = quadrants().convert("RGBA")
    image.putalpha(alpha)
    return image


def animated(kind: str) -> bytes:
    more = [quadrants(colours=[BLUE] * 4)]
    lossless = {"lossless": True} if kind == "WEBP" else {}
    return saved(quadrants(), kind, save_all=True, append_images=more, duration=50, **lossless)


def palette(transparency: int | bytes | None = None) -> bytes:
    image = quadrants().quantize(4)
    return saved(image, "PNG", **({} if transparency is None else {"transparency": transparency}))


def claims(width: int, height: int) -> bytes:
    """A JPEG whose frame header says another size."""
    data = bytearray(saved(quadrants(), "JPEG"))
    at = data.index(b"\xff\xc0") + 5
    data[at : at + 4] = struct.pack(">HH", height, width)
    return bytes(data)


def garbage_exif() -> bytes:
    return saved(quadrants(), "JPEG", exif=b"Exif\0\0" + b"II*\0\xff\xff\xff\x7f garbage")


def rgb16() -> bytes:
    rows = np.asarray(quadrants()).astype(">u2") * 257
    return png(96, 64, 16, 2, b"".join(b"\0" + row.tobytes() for row in rows))


def colour_key() -> bytes:
    key = chunk(b"tRNS", struct.pack(">HHH", *RED))
    return png(96, 64, 8, 2, b"".join(b"\0" + row.tobytes() for row in np.asarray(quadrants())), key)


def interlaced() -> bytes:
    """A grey PNG of noise in seven passes (x, y, step in x, step in y)."""
    passes = [
        (0, 0, 8, 8),
        (4, 0, 8, 8),
        (0, 4, 4, 8),
        (2, 0, 4, 4),
        (0, 2, 2, 4),
        (1, 0, 2, 2),
        (0, 1, 1, 2),
    ]
    rng = np.random.default_rng(0)
    rows = b"".join(
        b"\0" + rng.bytes(len(range(x, 64, dx))) for x, y, dx, dy in passes for _ in range(y, 64, dy)
    )
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 64, 64, 8, 0, 0, 0, 1))
    return SIGNATURE + head + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def without_end(data: bytes) -> bytes:
    assert data.endswith(b"\xff\xd9")
    return data[:-2]


SHOWN: dict[str, tuple[Callable[[], bytes], Any]] = {
    "jpeg": (lambda: saved(quadrants(), "JPEG"), UPRIGHT),
    "jpeg progressive": (lambda: saved(quadrants(), "JPEG", progressive=True), UPRIGHT),
    "jpeg 4:4:4": (lambda: saved(quadrants(), "JPEG", subsampling=0), UPRIGHT),
    "jpeg 4:2:2": (lambda: saved(quadrants(), "JPEG", subsampling=1), UPRIGHT),
    "jpeg kept in RGB": (lambda: saved(quadrants(), "JPEG", keep_rgb=True), UPRIGHT),
    "jpeg grey": (lambda: saved(quadrants().convert("L"), "JPEG"), GREYS),
    "jpeg CMYK, inverted as by Adobe": (lambda: saved(quadrants().convert("CMYK"), "JPEG"), UPRIGHT),
    "jpeg reduced while decoding": (lambda: saved(quadrants(640, 480), "JPEG"), UPRIGHT),
    "jpeg with odd sides": (lambda: saved(quadrants(67, 71), "JPEG"), UPRIGHT),
    "jpeg 30,000 wide": (lambda: saved(quadrants(30_000, 40), "JPEG"), UPRIGHT),
    "jpeg with garbage after it": (lambda: saved(quadrants(), "JPEG") + bytes(range(256)), UPRIGHT),
    "jpeg with a profile": (lambda: saved(quadrants(), "JPEG", icc_profile=b"no profile"), UPRIGHT),
    "jpeg of several pictures": (lambda: animated("MPO"), UPRIGHT),
    "jpeg with damaged EXIF": (garbage_exif, UPRIGHT),
    "jpeg with EXIF orientation 0": (lambda: turned("JPEG", 0), UPRIGHT),
    "jpeg with EXIF orientation 9": (lambda: turned("JPEG", 9), UPRIGHT),
    **{f"jpeg turned {k}": (lambda k=k: turned("JPEG", k), UPRIGHT) for k in range(1, 9)},
    "png turned 6": (lambda: turned("PNG", 6), UPRIGHT),
    "webp turned 8": (lambda: turned("WEBP", 8), UPRIGHT),
    "tiff turned 6": (lambda: turned("TIFF", 6), UPRIGHT),
    "tiff turned 2": (lambda: turned("TIFF", 2), UPRIGHT),
    "png": (lambda: saved(quadrants(), "PNG"), UPRIGHT),
    "png of the working size": (lambda: saved(quadrants(SIZE, SIZE), "PNG"), UPRIGHT),
    "png of one pixel": (lambda: saved(Image.new("RGB", (1, 1), RED), "PNG"), [RED] * 4),
    "png 30,000 high": (lambda: saved(quadrants(6, 30_000), "PNG"), UPRIGHT),
    "png grey": (lambda: saved(quadrants().convert("L"), "PNG"), GREYS),
    "png of one bit": (lambda: saved(quadrants(colours=[WHITE, 0, 0, WHITE]).convert("1"), "PNG"),
                       [WHITE, (0, 0, 0), (0, 0, 0), WHITE]),
    "png palette": (palette, UPRIGHT),
    "png palette, all transparent": (lambda: palette(bytes(4)), [WHITE] * 4),
    "png half transparent": (lambda: saved(clear(128), "PNG"),
                             [tuple((c + 255) // 2 for c in colour) for colour in UPRIGHT]),
    "png all transparent": (lambda: saved(clear(0), "PNG"), [WHITE] * 4),
    "png grey and transparent": (lambda: saved(clear(0).convert("LA"), "PNG"), [WHITE] * 4),
    "png with a transparent colour": (colour_key, [WHITE, GREEN, BLUE, GOLD]),
    "png 16 bits grey": (lambda: saved(Image.fromarray(deep(quadrants())), "PNG"), GREYS),
    "png 16 bits RGB": (rgb16, UPRIGHT),
    "png animated": (lambda: animated("PNG"), UPRIGHT),
    "png with garbage after it": (lambda: saved(quadrants(), "PNG") + b"garbage", UPRIGHT),
    "tiff 16 bits grey": (lambda: saved(Image.fromarray(deep(quadrants())), "TIFF"), GREYS),
    "tiff 16 bits big-endian": (
        lambda: saved(Image.frombytes("I;16B", (96, 64), deep(quadrants()).astype(">u2").tobytes()), "TIFF"),
        GREYS),
    "tiff CMYK": (lambda: saved(quadrants().convert("CMYK"), "TIFF"), UPRIGHT),
    "tiff LZW": (lambda: saved(quadrants(), "TIFF", compression="tiff_lzw"), UPRIGHT),
    "tiff of several pages": (lambda: animated("TIFF"), UPRIGHT),
    "gif": (lambda: saved(quadrants(), "GIF"), UPRIGHT),
    "gif animated": (lambda: animated("GIF"), UPRIGHT),
    "gif transparent": (lambda: saved(clear(0), "GIF"), [WHITE] * 4),
    "webp": (lambda: saved(quadrants(), "WEBP", lossless=True), UPRIGHT),
    "webp transparent": (lambda: saved(clear(0), "WEBP"), [WHITE] * 4),
    "webp animated": (lambda: animated("WEBP"), UPRIGHT),
    "bmp": (lambda: saved(quadrants(), "BMP"), UPRIGHT),
    "bmp palette": (lambda: saved(quadrants().quantize(4), "BMP"), UPRIGHT),
    "ppm": (lambda: saved(quadrants(), "PPM"), UPRIGHT),
    "pgm 16 bits": (lambda: b"P5 96 64 65535\n" + deep(quadrants()).astype(">u2").tobytes(), GREYS),
    "jpeg 2000": (lambda: saved(quadrants(), "JPEG2000"), UPRIGHT),
}  # fmt: skip
Image.init()
if "AVIF" in Image.SAVE:  # since Pillow 11.3
    SHOWN["avif"] = (lambda: saved(quadrants(), "AVIF", quality=95), UPRIGHT)

REPAIRED: dict[str, Callable[[], bytes]] = {
    "jpeg cut at 70 %": lambda: cut(saved(noise(), "JPEG"), 0.7),
    "jpeg cut at 70 %, reduced": lambda: cut(saved(noise(640, 480), "JPEG"), 0.7),
    "jpeg progressive cut at 70 %": lambda: cut(saved(noise(), "JPEG", progressive=True), 0.7),
    "jpeg without its end": lambda: without_end(saved(quadrants(), "JPEG")),
    "png cut at 70 %": lambda: cut(saved(noise(), "PNG"), 0.7),
    "gif cut at 80 %": lambda: cut(saved(noise(), "GIF"), 0.8),
    "bmp cut at 70 %": lambda: cut(saved(noise(), "BMP"), 0.7),
    "ppm cut at 70 %": lambda: cut(saved(noise(), "PPM"), 0.7),
}

REFUSED: dict[str, tuple[Callable[[], bytes], str]] = {
    "empty": (lambda: b"", "empty file"),
    "zeros": (lambda: bytes(4096), "not an image"),
    "text": (lambda: b"a cat on a mat", "not an image of a known format .*a cat on a mat"),
    "web page": (lambda: b"<!DOCTYPE html><title>404</title>", "not an image .*DOCTYPE"),
    "git-lfs pointer": (lambda: b"version https://git-lfs.github.com/spec/v1\n", "not an image .*version"),
    "svg": (lambda: b"<svg xmlns='http://www.w3.org/2000/svg'/>", "not an image"),
    "zip": (lambda: b"PK\x03\x04" + bytes(100), "not an image"),
    "eps": (lambda: b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "not an image"),
    "only a jpeg's first bytes": (lambda: saved(quadrants(), "JPEG")[:100], "damaged JPEG|cannot be decoded"),
    "jpeg cut at 30 %": (lambda: cut(saved(noise(), "JPEG"), 0.3), "of its rows are there"),
    "jpeg without pixels": (lambda: saved(noise(), "JPEG").partition(b"\xff\xda")[0], "damaged|cannot|rows"),
    "jpeg of no height": (lambda: claims(96, 0), "damaged JPEG|cannot be decoded"),
    "jpeg bomb": (lambda: claims(65_000, 65_000), "65,000 x 65,000 pixels are over the limit"),
    "png bomb": (lambda: png(60_000, 60_000, 8, 2, b""), "60,000 x 60,000 pixels are over the limit"),
    "png's signature only": (lambda: SIGNATURE, "damaged PNG|cannot be decoded"),
    "png with a wrong checksum": (
        lambda: saved(quadrants(), "PNG").replace(b"IHDR\0\0\0", b"IHDR\0\0\1"), "damaged PNG"),
    "png without pixels": (lambda: png(96, 64, 8, 2, b""), "rows are there|cannot be decoded"),
    "png cut at 30 %": (lambda: cut(saved(noise(), "PNG"), 0.3), "of its rows are there"),
    "png interlaced, cut at 90 %": (
        lambda: cut(interlaced(), 0.9), "cut short, and interlaced"),
    "png text bomb": (
        lambda: png(9, 9, 8, 0, bytes(90), chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(2**24)))),
        "cannot be decoded: Decompressed data too large"),
    "webp cut": (lambda: cut(saved(noise(), "WEBP"), 0.5), "damaged WEBP|cannot be decoded"),
    "tiff cut": (lambda: cut(saved(noise(), "TIFF", compression="tiff_lzw"), 0.5), "damaged|cannot|rows"),
    "tiff of floats": (lambda: saved(Image.new("F", (9, 9), 0.5), "TIFF"), "floating-point pixels"),
    "tiff of 32 bits": (lambda: saved(Image.new("I", (9, 9), 1 << 20), "TIFF"), "32-bit pixels"),
    "gif's header only": (lambda: saved(quadrants(), "GIF")[:13], "damaged|cannot"),
    "bmp's header only": (lambda: saved(quadrants(), "BMP")[:54], "rows are there|cannot"),
}  # fmt: skip


@pytest.fixture(params=["with simplejpeg", "Pillow alone"])
def either_decoder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "Pillow alone":
        monkeypatch.setattr(decoding, "simplejpeg", None)
    elif decoding.simplejpeg is None:
        pytest.skip("simplejpeg is not installed")


def heard(data: bytes, size: int = SIZE, **options: Any) -> tuple[torch.Tensor, list[str]]:
    notes: list[str] = []
    return decode(data, size, "folder/picture", note=notes.append, **options), notes


@pytest.mark.parametrize("kind", SHOWN)
@pytest.mark.usefixtures("either_decoder")
def test_shown(kind: str) -> None:
    make, colours = SHOWN[kind]
    pixels, notes = heard(make())
    assert pixels.shape == (3, SIZE, SIZE)
    assert pixels.dtype == torch.uint8
    assert not notes
    q = SIZE // 4
    seen = [pixels[:, y, x].tolist() for y in (q, 3 * q) for x in (q, 3 * q)]
    np.testing.assert_allclose(seen, [list(colour) for colour in colours], atol=8)


@pytest.mark.parametrize("kind", REPAIRED)
@pytest.mark.usefixtures("either_decoder")
def test_repaired(kind: str) -> None:
    pixels, notes = heard(REPAIRED[kind]())
    assert pixels.shape == (3, SIZE, SIZE)
    assert len(notes) == 1
    assert notes[0].startswith("repaired: ")
    assert pixels[:, : SIZE // 3].float().std() > 1


@pytest.mark.parametrize("kind", REFUSED)
@pytest.mark.usefixtures("either_decoder")
def test_refused(kind: str) -> None:
    make, reason = REFUSED[kind]
    with pytest.raises(DataError, match=rf"^folder/picture: .*({reason})") as caught:
        heard(make())
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(decoding.simplejpeg is None, reason="simplejpeg is not installed")
@pytest.mark.parametrize("mode", ["RGB", "L"])
@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"subsampling": 0}, {"subsampling": 1}])
def test_pixels_do_not_depend_on_the_decoder(
    mode: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for width, height in ((96, 64), (131, 97), (640, 480), (17, 300)):
        data = saved(noise(width, height).convert(mode), "JPEG", **options)
        fast = decode(data, SIZE, "a")
        with monkeypatch.context() as patch:
            patch.setattr(decoding, "simplejpeg", None)
            assert torch.equal(fast, decode(data, SIZE, "a"))


def test_the_resize_is_pillows() -> None:
    for width, height in ((640, 480), (20, 90), (33, 32), (4000, 3)):
        image = noise(width, height)
        expected = np.asarray(image.resize((SIZE, SIZE), Image.Resampling.BILINEAR)).astype(int)
        ours = decode(saved(image, "PNG"), SIZE, "a").permute(1, 2, 0).numpy()
        assert abs(ours - expected).max() <= 1  # it goes across first, and rounds between


@pytest.mark.parametrize("orientation", [1, 5, 6])
@pytest.mark.usefixtures("either_decoder")
def test_pixels_are_written_where_they_are_wanted(orientation: int) -> None:
    data = turned("JPEG", orientation)
    out = np.full((SIZE, SIZE, 3), 99, np.uint8)
    small = decode(data, SIZE, "a", out=out)
    assert small.data_ptr() == out.ctypes.data
    assert torch.equal(small, decode(data, SIZE, "a"))
    np.testing.assert_array_equal(small.permute(1, 2, 0).numpy(), out)


@pytest.mark.parametrize("side", [SIZE, 3 * SIZE])
@pytest.mark.usefixtures("either_decoder")
def test_an_image_is_not_touched_by_the_next(side: int) -> None:
    """They pass through the same memory."""
    first = decode(saved(quadrants(side, side), "JPEG"), SIZE, "a")
    before = first.clone()
    decode(saved(noise(side, side), "JPEG"), SIZE, "b")
    assert torch.equal(first, before)


def test_room_for_a_huge_image_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "KEPT", 96 * 64 * 3)
    monkeypatch.setattr(decoding, "_kept", threading.local())
    for width, kept in ((96, True), (97, False)):
        room = decoding._room("image", 64, width)
        assert room.shape == (64, width, 3)
        assert room.ctypes.data % 32 == 16
        assert np.shares_memory(room, decoding._room("image", 64, width)) == kept


def test_a_jpeg_reduced_while_decoding_looks_the_same() -> None:
    image = quadrants(640, 480)
    reduced = decode(saved(image, "JPEG", quality=95, subsampling=0), SIZE, "a").float()
    assert (reduced - decode(saved(image, "PNG"), SIZE, "a").float()).abs().mean() < 1


def test_what_decodes_is_on_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "simplejpeg", None)
    assert decoder().startswith("Pillow ")


def test_the_limit_of_pixels_can_be_set() -> None:
    data = saved(quadrants(), "PNG")
    with pytest.raises(DataError, match="96 x 64 pixels are over the limit of 6,000"):
        decode(data, SIZE, "a", limit=6_000)
    assert decode(data, SIZE, "a", limit=6_144).shape == (3, SIZE, SIZE)


KINDS = ("JPEG", "PNG", "GIF", "WEBP", "TIFF", "BMP", "JPEG2000", "PPM")
CLEAN = {kind: saved(noise(40, 30), kind) for kind in KINDS}


@pytest.mark.filterwarnings("ignore::UserWarning")  # Pillow's, of damaged metadata
@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(KINDS),
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), max_size=8),
    st.floats(0, 1),
    st.booleans(),
)
def test_any_damage_gives_an_image_or_a_named_error(
    kind: str, changes: list[tuple[float, int]], share: float, whole: bool
) -> None:
    data = bytearray(CLEAN[kind])
    for place, value in changes:
        data[int(place * len(data))] = value
    damaged = bytes(data) if whole else cut(bytes(data), share)
    outcomes = []
    for backend in (decoding.simplejpeg, None):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(decoding, "simplejpeg", backend)
            try:
                pixels, notes = heard(damaged, limit=1_000_000)
                outcomes.append((pixels.tolist(), notes))
            except DataError as error:
                outcomes.append(str(error))
    fast, slow = outcomes
    assert fast == slow
    assert isinstance(fast, tuple) or (fast.startswith("folder/picture: ") and "\n" not in fast)
