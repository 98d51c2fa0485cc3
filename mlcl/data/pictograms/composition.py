"""Puts things on a stage so that each can be seen, and draws the picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mlcl.data.pictograms.backdrops import BACKDROPS, Stage, poster
from mlcl.data.pictograms.canvas import Canvas, Pen, Style
from mlcl.data.pictograms.clutter import foreground, scatter
from mlcl.data.pictograms.palettes import MOODS, NIGHT, WHITE, Color, mix
from mlcl.data.pictograms.registry import PICTOGRAMS, Pictogram, Place

SMALLEST, LARGEST = 0.22, 0.55  # of the image's side
MOST_HIDDEN = 0.4  # of a thing's box, which hides a little more than the thing itself

STYLES = (
    (0.34, Style()),  # flat
    (0.66, Style(outline=0.012)),  # inked
    (0.78, Style(outline=0.009, astray=0.03)),  # sketched
    (0.86, Style(outline=0.011, wash=0.65)),  # a line drawing
    (1.01, Style(halo=0.013)),  # a sticker
)
LIGHTS: tuple[Color, ...] = (
    (255, 255, 255),
    (255, 190, 120),
    (110, 160, 225),
    (170, 100, 170),
    (60, 70, 130),
)


class Thing(NamedTuple):
    pictogram: Pictogram
    variant: int
    size: float  # of the longer side of its box
    angle: float
    flip: bool
    x: float  # of its middle
    y: float
    w: float  # half the width and height that it takes up, turned as it is
    h: float
    near: float  # what is nearer is drawn later

    @property
    def area(self) -> float:
        return 4 * self.w * self.h

    def overlap(self, other: Thing) -> float:
        """The area that both boxes cover."""
        wide = self.w + other.w - abs(self.x - other.x)
        if wide <= 0:
            return 0.0
        high = self.h + other.h - abs(self.y - other.y)
        if high <= 0:
            return 0.0
        return min(wide, 2 * self.w, 2 * other.w) * min(high, 2 * self.h, 2 * other.h)


class Dice:
    """Uniform numbers, many at once: a generator's own single draws are slow."""

    def __init__(self, rng: np.random.Generator):
        self._rng = rng
        self._left: list[float] = []

    def u(self, low: float = 0.0, high: float = 1.0) -> float:
        if not self._left:
            self._left = self._rng.random(256).tolist()
        return low + (high - low) * self._left.pop()


def arrange(pictograms: Sequence[Pictogram], stage: Stage, dice: Dice) -> list[Thing]:
    """Places for all, from the back to the front; smaller and smaller until no thing is mostly hidden."""
    crowding, shrink = dice.u(0.02, 0.35), 1.0
    best: list[Thing] = []
    best_hidden = math.inf
    for _ in range(8):
        things: list[Thing] = []
        for pictogram in sorted(pictograms, key=lambda each: -each.bulk):
            things.append(_settle(pictogram, things, len(pictograms), shrink, crowding, stage, dice))
        things.sort(key=lambda thing: thing.near)
        hidden = max((_hidden(things, k) for k in range(len(things))), default=0.0)
        if hidden < best_hidden:
            best, best_hidden = things, hidden
        if hidden <= MOST_HIDDEN:
            break
        shrink, crowding = 0.9 * shrink, 0.0
    return best


def _hidden(things: Sequence[Thing], k: int) -> float:
    """How much of a thing's box is behind the boxes of nearer things, or outside the image, at most."""
    thing = things[k]
    wide = min(thing.x + thing.w, 1) - max(thing.x - thing.w, 0)
    high = min(thing.y + thing.h, 1) - max(thing.y - thing.h, 0)
    return 1 - (wide * high - sum(thing.overlap(other) for other in things[k + 1 :])) / thing.area


def _settle(
    pictogram: Pictogram,
    others: list[Thing],
    count: int,
    shrink: float,
    crowding: float,
    stage: Stage,
    dice: Dice,
) -> Thing:
    """The first place that is free enough, or else the freest of some."""
    size = (0.6 - 0.042 * count) * pictogram.bulk * dice.u(0.8, 1.2) * shrink
    angle = dice.u(-1, 1) * pictogram.tilt * (1.0 if stage.horizon else 1.8)
    variant, flip = int(dice.u(0, len(pictogram.boxes))), dice.u() < 0.5
    turn = abs(math.cos(math.radians(angle))), abs(math.sin(math.radians(angle)))
    half_w, half_h = pictogram.boxes[variant]
    reach = (turn[0] * half_w + turn[1] * half_h) / 2, (turn[1] * half_w + turn[0] * half_h) / 2
    best, best_cost = None, math.inf
    for _ in range(10):
        depth = dice.u()
        if stage.horizon and pictogram.place in ("ground", "water"):  # nearer is lower and larger
            scale = size * (0.82 + 0.36 * depth)
        else:
            scale = size
        scale = min(max(scale, SMALLEST), LARGEST)
        w, h = scale * reach[0], scale * reach[1]
        x = dice.u(0.9 * w, 1 - 0.9 * w)
        y, near = _height(pictogram.place, h, depth, stage, dice)
        thing = Thing(pictogram, variant, scale, angle, flip, x, y, w, h, near)
        cost = 0.0
        for other in others:
            if shared := thing.overlap(other):
                cost += shared / min(thing.area, other.area)
        if cost < best_cost:
            best, best_cost = thing, cost
        if cost <= crowding:
            break
    assert best is not None
    return best


def _height(place: Place, h: float, depth: float, stage: Stage, dice: Dice) -> tuple[float, float]:
    """How far down the middle of a thing is, and how near it is."""
    horizon = stage.horizon
    if place == "swim" and stage.water:
        top, low = stage.water
        y = max(top + 0.7 * h, top + 0.2 * h + depth * (low - top - 0.4 * h))
        return y, y + h
    if not horizon or place in ("free", "swim"):
        return dice.u(0.9 * h, 1 - 0.9 * h), 0.9 * depth
    if place in ("sky", "wall"):
        return dice.u(0.95 * h, max(1.05 * h, horizon - 0.6 * h)), -depth
    top, low = horizon + 0.06, 0.97
    if place == "water" and stage.water:
        top, low = stage.water[0] + 0.08, stage.water[1] + 0.04
    near = top + (low - top) * depth
    return max(near - h, 0.92 * h), near


def _style(dice: Dice) -> Style:
    roll = dice.u()
    return next(style for limit, style in STYLES if roll < limit)


def _draw(whole: Pen, thing: Thing, style: Style, stage: Stage, shadow: bool) -> None:
    canvas = whole.canvas
    pen = Pen(canvas, thing.x, thing.y, thing.size / 2, thing.angle, thing.flip, thing.variant, style)
    draw = thing.pictogram.draw
    if shadow and stage.horizon and thing.pictogram.place == "ground":
        foot, depth = thing.y + thing.h - 0.01, 0.022 + 0.06 * thing.w
        whole.oval(thing.x, foot, 0.95 * thing.w, depth, NIGHT, alpha=0.22)
    elif shadow and not stage.horizon:
        with pen.shifted(0.014, 0.018):
            pen.restyle(style.silhouette(mix(canvas.color_at(thing.x, thing.y), NIGHT, 0.25)))
            draw(pen)
    if style.halo:
        pen.restyle(style.silhouette(WHITE, margin=style.halo))
        draw(pen)
    pen.restyle(style)
    draw(pen)


def picture(names: Sequence[str], context: str, rng: np.random.Generator, size: int) -> npt.NDArray[np.uint8]:
    """(size, size, 3): the named things, somewhere that suggests the context."""
    dice = Dice(rng)
    canvas = Canvas(size, MOODS[int(dice.u(0, len(MOODS)))], rng)
    whole = Pen(canvas, 0, 0, 1)
    stage = poster(canvas, whole) if dice.u() < 0.25 else BACKDROPS[context](canvas, whole)
    scatter(whole, stage, int(dice.u(2, 14)))
    canvas.tint = LIGHTS[int(dice.u(0, len(LIGHTS)))]
    canvas.tint_strength = dice.u(0, 0.14)
    style, shadow = _style(dice), dice.u() < 0.7
    for thing in arrange([PICTOGRAMS[name] for name in names], stage, dice):
        _draw(whole, thing, style if dice.u() < 0.75 else _style(dice), stage, shadow)
    if dice.u() < 0.3:
        foreground(whole)
    return _develop(np.asarray(canvas.finish()), dice, rng)


def _develop(image: npt.NDArray[np.uint8], dice: Dice, rng: np.random.Generator) -> npt.NDArray[np.uint8]:
    """Uneven light, contrast and grain, as a camera would add."""
    size = len(image)
    ramp = np.linspace(-1, 1, size, dtype=np.float32)
    slope_x, slope_y, gain, grain = dice.u(-0.08, 0.08), dice.u(-0.08, 0.08), dice.u(0.92, 1.06), dice.u(1, 5)
    light = 128 * gain * (1 + slope_x * ramp[None, :] + slope_y * ramp[:, None])
    noise = np.frombuffer(rng.bytes(size * size), np.int8).reshape(size, size) * np.float32(grain / 128)
    # whole numbers, three equal columns for the colours: several times faster than broadcasting floats
    factor = light.astype(np.uint16).repeat(3, axis=1)
    offset = (noise + dice.u(-4, 8)).astype(np.int16).repeat(3, axis=1)
    shot = (image.reshape(size, -1) * factor >> 7).astype(np.int16) + offset
    return shot.clip(0, 255).astype(np.uint8).reshape(size, size, 3)
