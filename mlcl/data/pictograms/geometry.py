"""Lists of points: circles, splines, and strokes along them."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from PIL import ImageDraw

from mlcl.data.pictograms.palettes import Color

Points = Sequence[tuple[float, float]] | str  # "0,0 1,.5" is short for [(0, 0), (1, 0.5)]
Array = npt.NDArray[np.float64]


@functools.cache
def parsed(points: str) -> Array:
    return np.array([[float(number) for number in point.split(",")] for point in points.split()])


@functools.cache
def arc(start: float, stop: float, points: int) -> Array:
    """(points, 3): x, y and 1 along a circle around 0, between two angles in degrees."""
    angle = np.radians(np.linspace(start, stop, points))
    return np.stack([np.cos(angle), np.sin(angle), np.ones(points)], axis=1)


@functools.cache
def circle(points: int) -> Array:
    return arc(0, 360, points + 1)[:-1].copy()


SQUARE = np.array([(1.0, 1.0, 1.0), (-1.0, 1.0, 1.0), (-1.0, -1.0, 1.0), (1.0, -1.0, 1.0)])
ROUNDED_STEPS = 4
ROUNDED = np.concatenate([arc(90 * k, 90 * k + 90, ROUNDED_STEPS)[:, :2] for k in range(4)])


@functools.cache
def spline(points: int, closed: bool) -> Array:
    """The matrix from a few points to many along the smooth (Catmull-Rom) curve through them."""
    t = np.arange(5)[:, None] / 5
    weights = (
        np.hstack([-t + 2 * t**2 - t**3, 2 - 5 * t**2 + 3 * t**3, t + 4 * t**2 - 3 * t**3, t**3 - t**2]) / 2
    )
    rows = []
    for k in range(points if closed else points - 1):
        stretch = np.zeros((len(t), points))
        for column, neighbour in enumerate(range(k - 1, k + 3)):
            at = neighbour % points if closed else min(max(neighbour, 0), points - 1)
            stretch[:, at] += weights[:, column]
        rows.append(stretch)
    if not closed:
        rows.append(np.eye(points)[-1:])
    return np.concatenate(rows)


def joined(paint: ImageDraw.ImageDraw, placed: Array, color: Color, width: float) -> None:
    """Straight lines, with a disc at every joint, where wide ones would gape."""
    r, flat = width / 2, placed.ravel().tolist()
    paint.line(flat, fill=color, width=round(width))
    if r > 1.2:
        for x, y in zip(flat[::2], flat[1::2], strict=True):
            paint.ellipse((x - r, y - r, x + r, y + r), fill=color)


def ribbon(paint: ImageDraw.ImageDraw, placed: Array, color: Color, width: float) -> None:
    """A smooth line. A wide one is one polygon, for Pillow's own gape at every bend."""
    if width < 6:
        paint.line(placed.ravel().tolist(), fill=color, width=round(width))
        return
    z, r = placed.view(np.complex128).ravel(), width / 2
    along = np.empty_like(z)
    along[1:-1] = z[2:] - z[:-2]
    closed = abs(z[0] - z[-1]) < 1e-6
    along[0], along[-1] = (z[1] - z[-2],) * 2 if closed else (z[1] - z[0], z[-1] - z[-2])
    side = along * (1j * r / np.abs(along))
    paint.polygon(np.concatenate([z + side, (z - side)[::-1]]).view(np.float64).tolist(), fill=color)
    if not closed:
        for end in (z[0], z[-1]):
            paint.ellipse((end.real - r, end.imag - r, end.real + r, end.imag + r), fill=color)
