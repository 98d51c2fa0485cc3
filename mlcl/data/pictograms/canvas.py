"""A canvas, and a pen that draws in a box placed anywhere on it."""

from __future__ import annotations

import cmath
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from PIL import Image, ImageDraw

from mlcl.data.pictograms.geometry import (
    ROUNDED,
    ROUNDED_STEPS,
    SQUARE,
    Array,
    Points,
    arc,
    circle,
    joined,
    parsed,
    ribbon,
    spline,
)
from mlcl.data.pictograms.palettes import NIGHT, WHITE, Color, Mood, contrast, mix

SUPERSAMPLE = 3

T = TypeVar("T")


@dataclass(frozen=True)
class Style:
    """How a pen draws: the same pictogram as a flat shape, an inked drawing, a sketch."""

    outline: float = 0.0  # width, as a fraction of the image's side
    warp: float = 0.06  # how much a thing is stretched and sheared
    wash: float = 0.0  # 1: shapes are as pale as the paper
    astray: float = 0.0  # how far off a second outline is, as in a sketch
    halo: float = 0.0  # the width of a white rim, as on a sticker
    solid: Color | None = None  # everything in this one colour: the silhouette

    def silhouette(self, color: Color, margin: float = 0.0) -> Style:
        return replace(self, outline=2 * margin, wash=0.0, astray=0.0, solid=color)


PLAIN = Style(warp=0.0)


class Canvas:
    """A square image, drawn larger than it will be, so that shrinking it smooths every edge."""

    def __init__(self, size: int, mood: Mood, rng: np.random.Generator):
        self.side = size * SUPERSAMPLE
        self.mood = mood
        self.rng = rng
        self.image = Image.new("RGB", (self.side, self.side))
        self.paint = ImageDraw.Draw(self.image)
        self.glaze = ImageDraw.Draw(self.image, "RGBA")  # blends with what is below
        self.tint: Color = WHITE
        self.tint_strength = 0.0

    def color_at(self, x: float, y: float) -> Color:
        """The colour at a place, 0 to 1 from the top left; outside, of the nearest pixel."""
        last = self.side - 1
        place = (min(max(int(x * last), 0), last), min(max(int(y * last), 0), last))
        red, green, blue = self.image.getpixel(place)  # type: ignore[misc]  # three for an RGB image
        return red, green, blue

    def gradient(self, y0: float, y1: float, top: Color, bottom: Color) -> None:
        """Fills a band across the image, from one colour to another."""
        most = max(abs(a - b) for a, b in zip(top, bottom, strict=True))
        steps = 1 + min(most, round(110 * (y1 - y0)))  # finer than the eye, or the grain, can tell
        for k in range(steps):
            first = round((y0 + (y1 - y0) * k / steps) * self.side)
            last = round((y0 + (y1 - y0) * (k + 1) / steps) * self.side)
            self.paint.rectangle((0, first, self.side, last), fill=mix(top, bottom, k / steps))

    def finish(self) -> Image.Image:
        return self.image.reduce(SUPERSAMPLE)


class Pen:
    """Draws in a box from -1 to 1 (x to the right, y down) that is placed, turned and mirrored.

    `u`, `chance` and `pick` roll dice that were cast when the pen was made, so that drawing again
    after `restyle` draws the same thing, and no pictogram disturbs the randomness of another.
    """

    def __init__(
        self,
        canvas: Canvas,
        x: float,
        y: float,
        scale: float,
        angle: float = 0.0,
        flip: bool = False,
        variant: int = 0,
        style: Style = PLAIN,
    ):
        self.canvas = canvas
        self.variant = variant
        self.ink = canvas.mood.ink
        self.paper = canvas.mood.paper
        self._dice: list[float] = canvas.rng.random(120).tolist()
        self._pose = x * canvas.side, y * canvas.side, scale * canvas.side, math.radians(angle), flip
        self.restyle(style)
        self.main, self.second, self.third = self._accents(canvas.color_at(x, y))

    def restyle(self, style: Style) -> None:
        """From here on draw in another style, with the dice rolled back."""
        self.style = style
        self._next = 5  # the first two are for the warp, three for the accents
        x, y, self._scale, angle, flip = self._pose
        turn = cmath.rect(self._scale, angle)
        stretch = turn * cmath.rect(style.warp * self._dice[0], 7 * self._dice[1])
        along, across = turn + stretch, 1j * (turn - stretch)
        self._move(complex(x, y), -along if flip else along, across)

    def _move(self, origin: complex, along: complex, across: complex) -> None:
        """Where the box's (0, 0), (1, 0) - (0, 0) and (0, 1) - (0, 0) are, in the image's pixels."""
        self._origin, self._along, self._across = origin, along, across
        self._linear = np.array([(along.real, along.imag), (across.real, across.imag)])

    def nudge(self, x: float, y: float) -> None:
        """Moves the box, in its own units, for the rest of the drawing: to centre what is not."""
        self._move(self._origin + x * self._along + y * self._across, self._along, self._across)

    @contextmanager
    def part(self, x: float = 0.0, y: float = 0.0, w: float = 1.0, h: float = 0.0) -> Iterator[None]:
        """A smaller box within the box: its middle, and its half width and height (0: the same)."""
        home, scale, h = (self._origin, self._along, self._across), self._scale, h or w
        self._move(self._origin + x * self._along + y * self._across, w * self._along, h * self._across)
        self._scale = scale * max(w, h)
        yield
        self._scale = scale
        self._move(*home)

    def sides(self) -> Iterator[int]:
        """Once as in a mirror (-1), once as it is (1): for what comes in pairs."""
        home = self._origin, self._along, self._across
        self._move(self._origin, -self._along, self._across)
        yield -1
        self._move(*home)
        yield 1

    @contextmanager
    def shifted(self, dx: float, dy: float) -> Iterator[None]:
        """Everything that is drawn meanwhile lands a little off, in fractions of the image."""
        home = self._pose
        self._pose = home[0] + dx * self.canvas.side, home[1] + dy * self.canvas.side, *home[2:]
        yield
        self._pose = home

    def _accents(self, ground: Color) -> list[Color]:
        """Three colours of the mood in random order, the first not lost against the ground."""
        rest = list(self.canvas.mood.accents)
        chosen = [rest.pop(int(die * len(rest))) for die in self._dice[2:5]]
        chosen.sort(key=lambda color: contrast(color, ground) < 130)
        if contrast(chosen[0], ground) < 130:
            chosen[0] = mix(chosen[0], NIGHT if sum(ground) > 380 else WHITE, 0.5)
        return chosen

    def u(self, low: float, high: float) -> float:
        """A number between the two."""
        value = self._dice[self._next % len(self._dice)]
        self._next += 1
        return low + (high - low) * value

    def chance(self, p: float) -> bool:
        return self.u(0, 1) < p

    def pick(self, options: Sequence[T]) -> T:
        return options[int(self.u(0, len(options)))]

    def poly(self, points: Points, color: Color, ink: bool = True, alpha: float = 1.0) -> None:
        """A shape with corners."""
        self._shape(self._placed(points), color, ink, alpha, corners=True)

    def blob(self, points: Points, color: Color, ink: bool = True, alpha: float = 1.0) -> None:
        """A smooth closed shape through these points."""
        placed = self._placed(points)
        self._shape(spline(len(placed), True).dot(placed), color, ink, alpha)

    def oval(
        self, x: float, y: float, rx: float, ry: float, color: Color, ink: bool = True, alpha: float = 1.0
    ) -> None:
        radius = max(rx, ry) * self._scale
        outline = circle(10 if radius < 8 else 16 if radius < 24 else 26)
        self._shape(self._stretched(outline, x, y, rx, ry), color, ink, alpha)

    def disc(self, x: float, y: float, r: float, color: Color, ink: bool = True, alpha: float = 1.0) -> None:
        self.oval(x, y, r, r, color, ink, alpha)

    def box(
        self,
        x0: float,
        y0: float,
        x1: float,
        y1: float,
        color: Color,
        r: float = 0.0,
        ink: bool = True,
        alpha: float = 1.0,
    ) -> None:
        """An upright rectangle, its corners rounded by `r`."""
        x, y, rx, ry = (x0 + x1) / 2, (y0 + y1) / 2, (x1 - x0) / 2, (y1 - y0) / 2
        outline = self._stretched(SQUARE, x, y, rx - r, ry - r)
        if r:
            outline = outline.repeat(ROUNDED_STEPS, axis=0) + ROUNDED.dot(r * self._linear)
        self._shape(outline, color, ink, alpha, corners=not r)

    def chord(
        self,
        x: float,
        y: float,
        rx: float,
        ry: float,
        start: float,
        stop: float,
        color: Color,
        ink: bool = True,
        alpha: float = 1.0,
    ) -> None:
        """The part of an oval between two angles (degrees, 0 to the right, 90 down), cut straight."""
        self._shape(self._stretched(arc(start, stop, 15), x, y, rx, ry), color, ink, alpha)

    def puffs(self, discs: Sequence[tuple[float, float, float]], color: Color) -> None:
        """Discs (x, y, r) grown together, as in a cloud or a tree's crown."""
        if self.style.outline:
            for x, y, r in discs:
                self.disc(x, y, r, color)
        for x, y, r in discs:
            self.disc(x, y, r, color, ink=False)

    def ring(self, x: float, y: float, r: float, color: Color, width: float) -> None:
        """A circle of line."""
        self._line(self._stretched(arc(0, 360, 31), x, y, r, r), color, width, smooth=True, ink=True)

    def line(self, points: Points, color: Color, width: float, ink: bool = True) -> None:
        """Straight strokes with round ends and joints."""
        self._line(self._placed(points), color, width, smooth=False, ink=ink)

    def curve(self, points: Points, color: Color, width: float, ink: bool = True) -> None:
        """A smooth stroke through these points."""
        placed = self._placed(points)
        self._line(spline(len(placed), False).dot(placed), color, width, smooth=True, ink=ink)

    def _placed(self, points: Points) -> Array:
        """(N, 2): where points of the box are in the image, in its pixels."""
        unplaced = parsed(points) if isinstance(points, str) else np.array(points)
        placed: Array = unplaced.dot(self._linear)
        placed += (self._origin.real, self._origin.imag)
        return placed

    def _stretched(self, unit: Array, x: float, y: float, rx: float, ry: float) -> Array:
        """A shape around 0 with a column of ones, stretched and moved to (x, y), all in one product."""
        a, b = rx * self._along, ry * self._across
        c = self._origin + x * self._along + y * self._across
        moved: Array = unit.dot(np.array([(a.real, a.imag), (b.real, b.imag), (c.real, c.imag)]))
        return moved

    def _tone(self, color: Color, ink: bool) -> Color:
        if self.style.solid is not None:
            return self.style.solid
        if ink and self.style.wash:
            color = mix(color, self.paper, self.style.wash)
        return mix(color, self.canvas.tint, self.canvas.tint_strength)

    def _outline_width(self) -> float:
        """Pixels; a little finer on small things."""
        side = self.canvas.side
        return self.style.outline * side * (0.55 + 0.45 * min(1.0, 5 * self._scale / side))

    def _shape(self, placed: Array, color: Color, ink: bool, alpha: float, corners: bool = False) -> None:
        style, paint = self.style, self.canvas.paint
        if alpha < 1.0:
            if style.solid is None:
                fill = (*self._tone(color, ink), int(255 * alpha))
                self.canvas.glaze.polygon(placed.ravel().tolist(), fill=fill)
            return
        paint.polygon(placed.ravel().tolist(), fill=self._tone(color, ink))
        if not (ink and style.outline):
            return
        around = np.concatenate([placed, placed[:1]])
        stroke = joined if corners else ribbon
        outline_color, width = style.solid or self.ink, self._outline_width()
        stroke(paint, around, outline_color, width)
        if style.astray:
            astray = around + style.astray * self._scale * math.sin(len(placed) + self._dice[0])
            stroke(paint, astray, outline_color, 0.7 * width)

    def _line(self, placed: Array, color: Color, width: float, smooth: bool, ink: bool) -> None:
        paint, stroke = self.canvas.paint, ribbon if smooth else joined
        thick = max(width * self._scale, 1.6)
        if ink and self.style.outline:
            edge = self._outline_width()
            if self.style.solid is not None:
                thick += edge
            elif thick > 1.6 * edge:  # a thin line is all ink already
                stroke(paint, placed, self.ink, thick + edge)
                thick -= edge
        stroke(paint, placed, self._tone(color, ink), thick)
