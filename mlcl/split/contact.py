"""A sheet of images with their labels, task by task: what the learner is shown, and what is kept from it."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from mlcl.types import Samples, Stream

INK, SOFT, LINE, PAPER, TEST_PAPER = "#1a1d21", "#5b646e", "#d5d8d3", "#ffffff", "#f1f3f0"
MARKED, HIDDEN = "#1f5f99", "#8a929b"
GAP, MARGIN, CHIP = 14, 32, 20
Sort = Literal["marked", "hidden", "unknown"]
LEGEND: dict[Sort, tuple[str, str]] = {
    "marked": ("cat", "there, and the learner is told"),
    "hidden": ("cat", "there, but the learner is not told"),
    "unknown": ("? cat", "nobody says whether it is there"),
}
MOST = 12  # chips under an image; more are counted
MOST_UNKNOWN = 3  # of those; in IL nearly all classes are unknown, and their names say little


@dataclass(frozen=True)
class Tile:
    """One image, and its labels by how they stand."""

    pixels: Image.Image
    chips: list[tuple[Sort, str]]
    known: int
    of: int
    broken: str = ""
    test: bool = False
    places: list[tuple[int, int]] = field(default_factory=list)  # of the chips, once laid out


def contact_sheet(
    stream: Stream, *, train: int = 6, test: int = 2, seed: int = 0, side: int = 168, tasks: int = 0
) -> bytes:
    """A PNG: of each task (or of the first `tasks`) some images chosen by the seed."""
    columns = train + test
    width = 2 * MARGIN + columns * side + (columns - 1) * GAP
    strips = []
    shown = stream.tasks[: tasks or None]
    for task in shown:
        chance = np.random.default_rng([seed, task.index])
        before = stream[task.index - 1].test.rows if task.index else np.zeros(0, np.int64)
        fresh = np.flatnonzero(~np.isin(task.test.rows, before))
        tiles = [
            *_tiles(stream, task.train, _some(np.arange(len(task.train)), train, chance), side),
            *_tiles(stream, task.test, _some(fresh, test, chance), side, test=True),
        ]
        title = f"Task {task.index + 1}: {', '.join(task.names)}"
        counts = f"{len(task.train):,} training images, {len(fresh):,} more to test on"
        strips.append(_strip(tiles, title, counts, width, side))
    header = _header(stream, width)
    height = header.height + sum(strip.height for strip in strips) + MARGIN
    sheet = Image.new("RGB", (width, height), PAPER)
    top = 0
    for strip in (header, *strips):
        sheet.paste(strip, (0, top))
        top += strip.height
    out = io.BytesIO()
    sheet.save(out, "PNG", optimize=True)
    return out.getvalue()


def _some(places: np.ndarray, count: int, chance: np.random.Generator) -> np.ndarray:
    return np.sort(chance.permutation(places)[:count])


def _tiles(
    stream: Stream, samples: Samples, chosen: np.ndarray, side: int, test: bool = False
) -> Iterator[Tile]:
    x = samples.images.load(samples.rows[chosen])
    for place, pixels in zip(chosen.tolist(), x, strict=True):
        row = int(samples.rows[place])
        image = Image.fromarray(np.ascontiguousarray(pixels.permute(1, 2, 0).numpy()))
        broken = samples.images.broken.get(row, "")
        told = samples.known[place] & (not broken)  # of a broken image the learner is told nothing
        yield Tile(
            image.resize((side, side), Image.Resampling.LANCZOS),
            _chips(stream, samples.y[place], told, row),
            int(told.sum()),
            len(told),
            broken,
            test,
        )


def _chips(stream: Stream, y: np.ndarray, known: np.ndarray, row: int) -> list[tuple[Sort, str]]:
    """What is marked comes first. Of classes that are still to come nothing is said but what is there."""
    there, truth_known = np.zeros(len(stream.class_names), bool), np.zeros(len(stream.class_names), bool)
    full = stream.full
    if full is not None:
        at = np.flatnonzero(full.rows == row)
        if len(at):
            there, truth_known = (full.y[at[0]] == 1) & full.known[at[0]], full.known[at[0]]
    chips: dict[Sort, list[str]] = {"marked": [], "hidden": [], "unknown": []}
    for column, name in enumerate(stream.class_names):
        if column < len(known) and known[column]:
            if y[column]:
                chips["marked"].append(name)
        elif there[column]:
            chips["hidden"].append(name)
        elif column < len(known) and not truth_known[column]:
            chips["unknown"].append(f"? {name}")
    unknown = chips["unknown"]
    if len(unknown) > MOST_UNKNOWN:
        unknown[MOST_UNKNOWN - 1 :] = [f"? and {len(unknown) - MOST_UNKNOWN + 1} more"]
    return [(sort, name) for sort, names in chips.items() for name in names]


def _strip(tiles: Sequence[Tile], title: str, counts: str, width: int, side: int) -> Image.Image:
    heights = [_lay_out(tile, side) for tile in tiles]
    top = 56
    height = top + side + max(heights, default=0) + 30
    strip = Image.new("RGB", (width, height), PAPER)
    draw = ImageDraw.Draw(strip)
    draw.line((MARGIN, 0, width - MARGIN, 0), LINE)
    room = width - 2 * MARGIN - draw.textlength(counts, _font(13)) - GAP
    draw.text((MARGIN, 18), _cut(title, _font(17, bold=True), room), INK, _font(17, bold=True))
    draw.text((width - MARGIN, 21), counts, SOFT, _font(13), anchor="ra")
    first_test = next((n for n, tile in enumerate(tiles) if tile.test), None)
    if first_test is not None:
        left = MARGIN + first_test * (side + GAP) - GAP // 2
        draw.rectangle((left, top - 8, width - MARGIN + GAP // 2, height - 10), TEST_PAPER)
    for n, tile in enumerate(tiles):
        _paste(strip, draw, tile, MARGIN + n * (side + GAP), top, side)
    return strip


def _lay_out(tile: Tile, side: int) -> int:
    """Where the chips go, in lines; returns the height of all of them."""
    x = y = 0
    names = tile.chips
    if len(names) > MOST:
        more = f"and {len(names) - MOST + 1} more"
        names[MOST - 1 :] = [("hidden" if names[MOST - 1][0] == "marked" else names[MOST - 1][0], more)]
    for _, name in names:
        wide = min(side, math.ceil(_font(12).getlength(name)) + 14)
        if x and x + wide > side:
            x, y = 0, y + CHIP + 4
        tile.places.append((x, y))
        x += wide + 4
    return y + CHIP + 30


def _paste(strip: Image.Image, draw: ImageDraw.ImageDraw, tile: Tile, left: int, top: int, side: int) -> None:
    strip.paste(tile.pixels, (left, top))
    if tile.broken:
        draw.rectangle((left, top, left + side - 1, top + side - 1), "#f3e3e0", "#a33d2e")
        draw.text((left + side // 2, top + side // 2), "cannot be decoded", "#a33d2e", _font(13), anchor="mm")
    said = f"{'test, ' if tile.test else ''}{tile.known} of {tile.of} known"
    draw.text((left, top + side + 5), said, SOFT, _font(11))
    for (sort, name), (x, y) in zip(tile.chips, tile.places, strict=True):
        _chip(draw, sort, name, left + x, top + side + 24 + y, side - x)


def _chip(draw: ImageDraw.ImageDraw, sort: Sort, name: str, x: float, y: float, room: float) -> float:
    """Draws one label; returns its right edge."""
    font = _font(12)
    name = _cut(name, font, room - 14)
    box = (x, y, x + font.getlength(name) + 13, y + CHIP - 1)
    if sort == "marked":
        draw.rounded_rectangle(box, 4, fill=MARKED)
    elif sort == "hidden":
        draw.rounded_rectangle(box, 4, outline=HIDDEN)
    draw.text((x + 7, y + CHIP / 2 - 0.5), name, PAPER if sort == "marked" else SOFT, font, anchor="lm")
    return float(box[2])


def _header(stream: Stream, width: int) -> Image.Image:
    header = Image.new("RGB", (width, 104), PAPER)
    draw = ImageDraw.Draw(header)
    classes = f"{len(stream.class_names):,} classes in {len(stream)} tasks"
    draw.text((MARGIN, 26), stream.name, INK, _font(24, bold=True))
    draw.text((MARGIN + _font(24, bold=True).getlength(stream.name) + 14, 35), classes, SOFT, _font(15))
    x: float = MARGIN
    for sort, (name, meaning) in LEGEND.items():
        x = _chip(draw, sort, name, x, 68, 200) + 7
        draw.text((x, 78), meaning, SOFT, _font(13), anchor="lm")
        x += _font(13).getlength(meaning) + 26
    return header


def _cut(text: str, font: Any, room: float) -> str:
    if font.getlength(text) <= room:
        return text
    while text and font.getlength(text + "…") > room:
        text = text[:-1]
    return text + "…"


@cache
def _font(size: int, bold: bool = False) -> Any:
    import matplotlib  # it carries a font that has most alphabets

    name = "DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf"
    return ImageFont.truetype(str(Path(matplotlib.get_data_path(), "fonts", "ttf", name)), size)
