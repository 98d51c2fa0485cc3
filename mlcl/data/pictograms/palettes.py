"""Colours: moods for a whole picture, and the natural colours of things."""

from __future__ import annotations

from dataclasses import dataclass

Color = tuple[int, int, int]


def rgb(code: str) -> Color:
    """
    >>> rgb("ff8000")
    (255, 128, 0)
    """
    return int(code[:2], 16), int(code[2:4], 16), int(code[4:], 16)


def mix(a: Color, b: Color, t: float) -> Color:
    """The colour a fraction `t` of the way from `a` to `b`."""
    s = 1.0 - t
    return int(a[0] * s + b[0] * t), int(a[1] * s + b[1] * t), int(a[2] * s + b[2] * t)


def dark(color: Color, t: float = 0.25) -> Color:
    return mix(color, NIGHT, t)


def light(color: Color, t: float = 0.3) -> Color:
    return mix(color, WHITE, t)


def contrast(a: Color, b: Color) -> int:
    """How far apart two colours look, roughly: green counts double."""
    return abs(a[0] - b[0]) + 2 * abs(a[1] - b[1]) + abs(a[2] - b[2])


def _row(codes: str) -> tuple[Color, ...]:
    return tuple(rgb(code) for code in codes.split())


def _pairs(codes: str) -> tuple[tuple[Color, Color], ...]:
    row = _row(codes)
    return tuple(zip(row[::2], row[1::2], strict=True))


@dataclass(frozen=True)
class Mood:
    """The colours that hold one picture together."""

    accents: tuple[Color, ...]  # what painted things are painted in
    ink: Color
    paper: Color


MOODS = tuple(
    Mood(_row(accents), rgb(ink), rgb(paper))
    for accents, ink, paper in (
        ("e4572e f3a712 2e86ab 17a398 6c4ab6", "2b2d42", "fffaf0"),  # poster
        ("bf616a d08770 ebcb8b 7fa36b 5e81ac b48ead", "2e3440", "f4f1ea"),  # nordic
        ("d1495b edae49 559b78 00798c 30638e", "22333b", "fdf6e3"),  # retro
        ("ff6b6b ffc93d 4fb562 4d8cf5 b56cf0", "343148", "ffffff"),  # candy
        ("bc6c25 e0a458 6b7a3f 9c4a3c 3f6072", "33261d", "faf3e0"),  # earth
        ("e63946 ffb703 8fc9cf 457b9d 1d3557", "16243a", "f1faee"),  # harbour
        ("8e3b73 e56b6f eaac8b 355070 7d6796", "2a1f3d", "fff5ee"),  # berry
        ("06b88a ffd166 ef476f 118ab2 0b5166", "073040", "f7fff7"),  # fresh
    )
)

# (top, bottom)
SKIES = _pairs(
    "7cc4e8 e4f5fb 5ba4d9 cfe9f7 9ad5d0 f3f7e6 f2a488 fde6c8 c3b1e1 fbe4ea "
    "aebcc8 e6eaec f7c873 fdf1d2 86a8e7 d7e6fa 29406b 7f8fb5 3b3560 c9839a"
)
WALLS = _pairs(
    "f4e3cf ead2b7 dfe8e2 c9d8d0 e9dcea d9c7dc cfdde8 b8cbdb f6e7b4 ecd794 "
    "f0cdbf e5b8a7 ece9e2 d9d4c9 5f7f86 4d6b73 94a98f 7f967a 6a6f94 565a7d"
)
GRASSES = _pairs("9ccf70 6aa84f b9d36c 8fb04a 7dbb8a 4f9468 d6cf7a b3a354 a3c585 6f9a58")
PAVINGS = _pairs("b9b6b2 95928f a4a9b3 7e848f cfc5b8 aea294 8d8f9b 6c6e7a d9d4cf b8b2ac")
SANDS = _pairs("f2dcae e0c084 f6e6c6 e2c99b ead0a0 cfae78")
WATERS = _pairs("5fb3d4 2f86b5 6cc7c3 2e9aa0 7fb4e6 4a7fc1 4d86a8 2c5f85 8fcfd8 5aa9bb")
FLOORS = _pairs("c99f6e a97f50 b57f56 8f5f3d dcc6a3 c2a67c a9a29b 888079 d9b48f b98e66 7d5a48 604234")

WHITE = rgb("ffffff")
CREAM = rgb("fbf3df")
NIGHT = rgb("1d1b30")
COAL = rgb("34343e")
STEEL = rgb("9aa5b1")
SILVER = rgb("d5dbe1")
GLASS = rgb("bfe3f0")
GLOW = rgb("ffe9a3")
RED = rgb("e5383b")
AMBER = rgb("ffb020")
GREEN = rgb("3fbf5f")
PINK = rgb("f48fa5")
COFFEE = rgb("5c3a28")
TEA = rgb("965c28")
FLESH = rgb("fdf3d0")  # of an apple

SKINS = _row("f7d3b5 eab88f d19a6c a9714b 7a4b31 ffdfc8")
HAIRS = _row("2b2024 4a2f24 7a4a2b c98f4a e3c26b b5523b 9a9aa2")
FURS = _row("c68642 8a5a3a e0b27a f0e0c8 4b4247 9b9da3 d98b4a f5f0e8")
WOODS = _row("a9713f 8a5a36 c58d57 6f4630 d6a873")
LEAVES = _row("4f9d57 6ab04c 2f7f57 86b84a 3f8f7a d98a3a c9553d e79fb3 a3b84a")
GREENS = _row("4f9d57 6ab04c 2f7f57 86b84a")
STONES = _row("e9d8bd e8e2d6 d9a58c c9c2b8 f3e7d3 e6c7a5 d7dfe3")
FRUITS = _row("d8343f e2504a b8d24a 8fc04f f0b93e c92f4f")
SCALES = _row("f2803d ffb703 3f8ecf 6fb7c9 e25b6a 8f78c8 7f93a3")
