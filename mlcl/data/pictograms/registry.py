"""The table of pictograms: what can be drawn, how large it is, and where it belongs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from mlcl.data.pictograms.canvas import Pen

Place = Literal["ground", "sky", "wall", "water", "swim", "free"]
Box = tuple[float, float]  # half width and half height; the larger is 1


@dataclass(frozen=True)
class Pictogram:
    draw: Callable[[Pen], None]
    place: Place
    boxes: tuple[Box, ...]  # one for each variant
    bulk: float  # size beside other things: a house is more than a cup
    tilt: float  # degrees that it may lean to either side


PICTOGRAMS: dict[str, Pictogram] = {}


def pictogram(
    name: str, place: Place, *boxes: Box, bulk: float = 1.0, tilt: float = 6.0
) -> Callable[[Callable[[Pen], None]], Callable[[Pen], None]]:
    """Registers a drawing function; it reads `pen.variant`, which counts `boxes`."""

    def register(draw: Callable[[Pen], None]) -> Callable[[Pen], None]:
        assert name not in PICTOGRAMS
        PICTOGRAMS[name] = Pictogram(draw, place, boxes, bulk, tilt)
        return draw

    return register
