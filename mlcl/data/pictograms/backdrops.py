"""What is behind the things: a hint of where we are, never an answer.

Coordinates here are of the whole image, 0 to 1, y down.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mlcl.data.pictograms.canvas import Canvas, Pen
from mlcl.data.pictograms.geometry import Points
from mlcl.data.pictograms.palettes import (
    FLOORS,
    GRASSES,
    GREENS,
    LEAVES,
    NIGHT,
    PAVINGS,
    SANDS,
    SKIES,
    WALLS,
    WATERS,
    WHITE,
    Color,
    dark,
    light,
    mix,
)


@dataclass(frozen=True)
class Stage:
    """Where things may stand."""

    horizon: float  # the ground is below; 0 where there is none
    water: tuple[float, float] | None = None  # from where to where down the image
    scatter: tuple[str, ...] = ("confetti", "dot", "ring", "star")


Backdrop = Callable[[Canvas, Pen], Stage]
BACKDROPS: dict[str, Backdrop] = {}


def backdrop(draw: Backdrop) -> Backdrop:
    BACKDROPS[draw.__name__] = draw
    return draw


def _clouds(p: Pen, below: float, color: Color) -> None:
    for _ in range(int(p.u(0, 3.5))):
        with p.part(p.u(0, 1), p.u(0.08, max(0.1, below - 0.12)), p.u(0.04, 0.08)):
            p.puffs([(-1.1, -0.1, 0.6), (0, -0.5, 1), (1.1, -0.2, 0.7)], color)
            p.box(-1.7, -0.2, 1.8, 0.5, color, r=0.3, ink=False)


def _sky(canvas: Canvas, p: Pen, below: float) -> Color:
    top, bottom = p.pick(SKIES)
    canvas.gradient(0, below, top, bottom)
    if p.chance(0.4):
        p.disc(p.u(0.08, 0.92), p.u(0.06, 0.8 * below), p.u(0.04, 0.08), light(bottom, 0.6), ink=False)
    if p.chance(0.7):
        _clouds(p, below, light(bottom, 0.45))
    return bottom


def _ridge(p: Pen, y: float, height: float, color: Color) -> None:
    """Hills, or distant trees, that stand on a line."""
    points: list[tuple[float, float]] = [(-0.1, y + 0.05), (-0.1, y - height * p.u(0, 1))]
    points += [(0.2 * k, y - height * p.u(0.2, 1)) for k in range(6)]
    points += [(1.1, y - height * p.u(0, 1)), (1.1, y + 0.05)]
    p.blob(points, color, ink=False)


@backdrop
def street(canvas: Canvas, p: Pen) -> Stage:
    y = p.u(0.46, 0.6)
    sky = _sky(canvas, p, y)
    if p.chance(0.75):
        shade, x = mix(sky, p.pick(canvas.mood.accents), p.u(0.15, 0.4)), -0.05
        while x < 1:
            width, top = p.u(0.08, 0.2), y - p.u(0.06, 0.26)
            p.box(x, top, x + width, y, mix(shade, sky, p.u(0, 0.4)), ink=False)
            if p.chance(0.5):
                for row in range(3):
                    p.line(
                        [
                            (x + 0.25 * width, top + 0.03 + 0.05 * row),
                            (x + 0.75 * width, top + 0.03 + 0.05 * row),
                        ],
                        mix(shade, WHITE, 0.35),
                        0.012,
                        ink=False,
                    )
            x += width + p.u(-0.01, 0.03)
    near, far = p.pick(PAVINGS)
    canvas.gradient(y, 1, near, far)
    if p.chance(0.7):
        top = p.u(y + 0.08, 0.8)
        low = top + p.u(0.14, 0.24)
        p.box(0, top, 1, low, dark(far, 0.35), ink=False)
        p.line([(0, top), (1, top)], light(near, 0.4), 0.012, ink=False)
        shift = p.u(0, 0.2)
        for k in range(5):
            p.line(
                [(0.25 * k - shift, (top + low) / 2), (0.25 * k + 0.1 - shift, (top + low) / 2)],
                light(near, 0.6),
                0.014,
                ink=False,
            )
    return Stage(y, scatter=("leaf", "pebble", "dot", "confetti"))


@backdrop
def park(canvas: Canvas, p: Pen) -> Stage:
    y = p.u(0.42, 0.58)
    sky = _sky(canvas, p, y)
    near, far = p.pick(GRASSES)
    for k in range(int(p.u(0, 2.9))):
        _ridge(p, y, 0.2 - 0.07 * k, mix(mix(near, p.pick(LEAVES), 0.3), sky, 0.55 - 0.2 * k))
    canvas.gradient(y, 1, near, far)
    if p.chance(0.5):
        x, bend = p.u(0.1, 0.9), p.u(-0.2, 0.2)
        path: Points = [(x, y), (x + 0.04, y), (x + bend + 0.3, 1.1), (x + bend - 0.1, 1.1)]
        p.poly(path, mix(p.pick(SANDS)[0], far, 0.25), ink=False)
    return Stage(y, scatter=("tuft", "tuft", "leaf", "dot", "pebble"))


@backdrop
def sea(canvas: Canvas, p: Pen) -> Stage:
    y, shore = p.u(0.28, 0.42), p.u(0.66, 0.82)
    sky = _sky(canvas, p, y)
    if p.chance(0.4):
        _ridge(p, y, 0.1, mix(p.pick(GREENS), sky, 0.6))
    far, near = p.pick(WATERS)
    canvas.gradient(y, 1, far, near)
    for _ in range(int(p.u(4, 10))):
        x, row, w = p.u(0, 0.9), p.u(y + 0.03, shore), p.u(0.03, 0.06)
        p.curve(
            [(x, row), (x + w, row - 0.012), (x + 2 * w, row), (x + 3 * w, row - 0.012)],
            light(far, 0.4),
            0.008,
            ink=False,
        )
    sand = p.pick(SANDS)[0]
    edge: list[tuple[float, float]] = [(-0.1, 1.2), (-0.1, shore)]
    edge += [(0.25 * k, shore + p.u(-0.03, 0.03)) for k in range(5)] + [(1.1, shore), (1.1, 1.2)]
    p.blob([(x, v - 0.015) for x, v in edge], light(far, 0.7), ink=False)
    p.blob(edge, sand, ink=False)
    return Stage(shore, water=(y, shore), scatter=("pebble", "dot", "star", "leaf"))


def _wall(canvas: Canvas, p: Pen, y: float) -> Color:
    top, bottom = p.pick(WALLS)
    canvas.gradient(0, y, top, bottom)
    return mix(top, bottom, 0.5)


def _floor(canvas: Canvas, p: Pen, y: float, planks: float) -> None:
    top, bottom = p.pick(FLOORS)
    canvas.gradient(y, 1, top, bottom)
    if p.chance(planks):
        seam, gap = dark(bottom, 0.25), 0.06
        row = y + 0.05
        while row < 1:
            p.line([(0, row), (1, row)], seam, 0.006, ink=False)
            x = p.u(0, 0.6)
            for k in range(2):
                p.line([(x + 0.4 * k, row), (x + 0.4 * k, row + gap)], seam, 0.006, ink=False)
            row, gap = row + gap, 1.3 * gap


def _window(p: Pen, y: float) -> None:
    """Daylight from another place: a sky indoors."""
    w, h = p.u(0.1, 0.17), p.u(0.12, 0.18)
    x, mid = p.u(0.15, 0.85), max(0.5 * y, h + 0.03)
    pane = p.pick(SKIES)[1]
    p.box(x - w - 0.015, mid - h - 0.015, x + w + 0.015, mid + h + 0.015, light(pane, 0.7), ink=False)
    p.box(x - w, mid - h, x + w, mid + h, pane, ink=False)
    p.line([(x, mid - h), (x, mid + h)], light(pane, 0.7), 0.014, ink=False)
    p.line([(x - w, mid), (x + w, mid)], light(pane, 0.7), 0.014, ink=False)


def _picture(p: Pen, y: float, color: Color) -> None:
    w, h, x = p.u(0.05, 0.1), p.u(0.06, 0.11), p.u(0.1, 0.9)
    mid = p.u(0.15, max(0.16, y - 0.2))
    p.box(x - w, mid - h, x + w, mid + h, dark(color, 0.2), ink=False)
    p.box(x - 0.8 * w, mid - 0.84 * h, x + 0.8 * w, mid + 0.84 * h, light(color, 0.75), ink=False)
    p.poly(
        [(x - 0.8 * w, mid + 0.84 * h), (x - 0.1 * w, mid), (x + 0.8 * w, mid + 0.84 * h)],
        light(color, 0.4),
        ink=False,
    )


@backdrop
def kitchen(canvas: Canvas, p: Pen) -> Stage:
    y = p.u(0.5, 0.64)
    wall = _wall(canvas, p, y)
    if p.chance(0.7):  # tiles
        grout, step = mix(wall, WHITE, 0.45), p.u(0.09, 0.14)
        top = 0.0 if p.chance(0.5) else p.u(0.1, 0.3)
        for k in range(int(1 / step) + 1):
            p.line([(k * step, top), (k * step, y)], grout, 0.008, ink=False)
            if y - k * step > top:
                p.line([(0, y - k * step), (1, y - k * step)], grout, 0.008, ink=False)
    if p.chance(0.4):
        _window(p, y)
    _floor(canvas, p, y, 0.25)
    if p.chance(0.6):  # the edge of a worktop
        p.box(0, y - 0.012, 1, y + 0.03, light(wall, 0.5), ink=False)
    return Stage(y, scatter=("dot", "pebble", "leaf", "ring"))


@backdrop
def office(canvas: Canvas, p: Pen) -> Stage:
    y = p.u(0.54, 0.68)
    wall = _wall(canvas, p, y)
    if p.chance(0.5):
        _window(p, y)
    if p.chance(0.5):  # a shelf with folders
        row, x0 = p.u(0.16, 0.3), p.u(0, 0.5)
        for k in range(6):
            p.box(
                x0 + 0.045 * k,
                row - p.u(0.06, 0.1),
                x0 + 0.045 * k + 0.035,
                row,
                mix(wall, p.pick(canvas.mood.accents), 0.4),
                ink=False,
            )
        p.line([(x0 - 0.04, row), (x0 + 0.36, row)], dark(wall, 0.3), 0.014, ink=False)
    if p.chance(0.4):
        _picture(p, y, p.pick(canvas.mood.accents))
    _floor(canvas, p, y, 0.4)
    return Stage(y, scatter=("confetti", "ring", "dot", "pebble"))


@backdrop
def home(canvas: Canvas, p: Pen) -> Stage:
    y = p.u(0.5, 0.64)
    wall = _wall(canvas, p, y)
    paper, step = mix(wall, p.pick([WHITE, NIGHT, *canvas.mood.accents]), 0.14), p.u(0.1, 0.16)
    pattern, count = int(p.u(0, 3)), int(1 / step) + 1
    for k in range(count):
        if pattern == 0:
            p.box(k * step, 0, (k + 0.5) * step, y, paper, ink=False)
        elif pattern == 1:
            for row in range(int(y / step)):
                p.disc((k + 0.5 * (row % 2)) * step, (row + 0.5) * step, 0.13 * step, paper, ink=False)
    if p.chance(0.5):
        _picture(p, y, p.pick(canvas.mood.accents))
    if p.chance(0.3):
        _window(p, y)
    _floor(canvas, p, y, 0.7)
    if p.chance(0.5):
        p.line([(0, y), (1, y)], light(wall, 0.55), 0.028, ink=False)
    if p.chance(0.55):
        rug = mix(p.pick(canvas.mood.accents), wall, 0.35)
        with p.part(p.u(0.3, 0.7), p.u(y + 0.14, 0.9), p.u(0.26, 0.42)):
            p.oval(0, 0, 1, 0.26, rug, ink=False)
            p.oval(0, 0, 0.8, 0.19, light(rug, 0.35), ink=False)
    return Stage(y, scatter=("dot", "confetti", "star", "ring"))


def poster(canvas: Canvas, p: Pen) -> Stage:
    """Nowhere at all: paper with a pattern."""
    base = p.pick([light(p.second, p.u(0.45, 0.8)), p.pick(WALLS)[0], p.pick(SKIES)[1], dark(p.main, 0.4)])
    canvas.gradient(0, 1, light(base, p.u(0, 0.25)), dark(base, p.u(0, 0.18)))
    color, step = mix(base, p.pick([WHITE, p.second, p.third]), p.u(0.12, 0.35)), p.u(0.1, 0.2)
    pattern = int(p.u(0, 5))
    count = int(1 / step) + 2
    if pattern == 0:  # slanted stripes
        for k in range(-count, count):
            with p.part(k * step, 0):
                p.poly([(0, 1), (0.5 * step, 1), (0.5 * step + 0.7, 0), (0.7, 0)], color, ink=False)
    elif pattern == 1:  # dots
        for k in range(count):
            for row in range(count):
                p.disc((k + 0.5 * (row % 2)) * step, row * step, 0.16 * step, color, ink=False)
    elif pattern == 2:  # a big disc
        p.disc(p.u(0.3, 0.7), p.u(0.3, 0.7), p.u(0.3, 0.48), color, ink=False)
    elif pattern == 3:  # waves
        for row in range(count):
            with p.part(0, row * step):
                p.curve("-.1,.03 .1,-.03 .3,.03 .5,-.03 .7,.03 .9,-.03 1.1,.03", color, 0.2 * step, ink=False)
    else:  # large soft shapes
        for _ in range(3):
            with p.part(p.u(0, 1), p.u(0, 1), p.u(0.15, 0.4)):
                p.blob("-1,0 -.2,-.8 1,-.4 .5,.8", color, ink=False)
    return Stage(0.0)
