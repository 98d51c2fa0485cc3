"""Drawings as SVG text: they take the page's font and colours, so they follow dark mode and print sharply."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

MARKED = 30  # points of a line; longer ones have no marks

MARK = {
    "circle": '<circle r="4"/>',
    "square": '<rect x="-3.6" y="-3.6" width="7.2" height="7.2"/>',
    "diamond": '<path d="M0-5 5 0 0 5-5 0z"/>',
    "triangle": '<path d="M0-4.8 4.8 3.6H-4.8z"/>',
}


@dataclass(frozen=True)
class Line:
    """One curve. `y` is in the axis' unit, nan where nothing was measured."""

    label: str
    css: str
    x: Sequence[float]
    y: Sequence[float]
    mark: str = ""
    dashed: bool = False

    @property
    def end(self) -> tuple[float, float]:
        """The last point that was measured."""
        return [(x, y) for x, y in zip(self.x, self.y, strict=True) if math.isfinite(y)][-1]


@dataclass(frozen=True)
class Axis:
    low: float
    high: float
    ticks: tuple[float, ...]

    @classmethod
    def over(cls, values: Sequence[float], low: float = -math.inf, high: float = math.inf) -> Axis:
        """Round ticks around the values, inside the limits.

        >>> Axis.over([31.0, 78.5]).ticks
        (30.0, 40.0, 50.0, 60.0, 70.0, 80.0)
        """
        numbers = [v for v in values if math.isfinite(v)] or [0.0, 1.0]
        smallest, largest = min(numbers), max(numbers)
        spread = (largest - smallest) or abs(largest) or 1.0
        scale = 10.0 ** math.floor(math.log10(spread / 2))
        step = next(s * scale for s in (1, 2, 5, 10, 20) if spread / (s * scale) <= 5)
        first = math.floor(max(low, smallest - 0.02 * spread) / step)
        last = math.ceil(min(high, largest + 0.02 * spread) / step)
        ticks = tuple(round(i * step, 10) for i in range(first, last + 1))
        return cls(ticks[0], ticks[-1], ticks)

    def at(self, value: float) -> float:
        """0 at the low end, 1 at the high one."""
        return (value - self.low) / (self.high - self.low)


def line_chart(
    lines: Sequence[Line],
    axis: Axis,
    ticks: Sequence[tuple[float, str, str]],
    *,
    alt: str,
    width: int = 960,
    height: int = 400,
    digits: int = 1,
) -> str:
    """Curves with their names at their right ends. `ticks` are places on x, each with one or two words."""
    ends = [(line, *line.end) for line in lines if line.label and any(map(math.isfinite, line.y))]
    names = [cut(line.label, 20) for line, *_ in ends]
    left, right, top, bottom = 34, 10, 12, 44
    if ends:
        right = 62 + int(max(map(len, names)) * 7.3)
    x0, x1 = min(x for x, *_ in ticks), max(x for x, *_ in ticks)
    inner_w, inner_h = width - left - right, height - top - bottom

    def px(x: float) -> float:
        return left + inner_w * ((x - x0) / (x1 - x0) if x1 > x0 else 0.5)

    def py(y: float) -> float:
        return top + inner_h * (1 - axis.at(y))

    parts = [f'<svg class="chart" viewBox="0 0 {width} {height}" role="img" aria-label="{escape(alt)}">']
    for tick in axis.ticks:
        parts.append(f'<path class="grid" d="M{left} {py(tick):.1f}H{width - right}"/>')
        parts.append(_text(left - 7, py(tick), f"{tick:g}"))
    parts += _x_labels(ticks, px, height - bottom)
    for line in lines:
        parts.append(f'<g class="{line.css}">{_curve(line, px, py, digits)}</g>')
    places = spread([py(y) for *_, y in ends], 17, top, height - bottom)
    edge = width - right + 8
    for (line, last, value), name, place in zip(ends, names, places, strict=True):
        lead = ""
        if last < x1 or abs(place - py(value)) > 3:  # the label stands apart from its line
            from_x, y = px(last) + 7, py(value)
            bend = f"L{edge - 8:.1f} {y:.1f}" if last < x1 else ""
            lead = f'<path class="lead" d="M{from_x:.1f} {y:.1f}{bend}L{edge + 9} {place:.1f}"/>'
        parts.append(
            f'<g class="{line.css}">{lead}<text class="end" x="{edge + 13}" y="{place:.1f}" dy=".34em">'
            f'{escape(name)} <tspan class="value">{value:.{digits}f}</tspan></text></g>'
        )
    return "".join([*parts, "</svg>"])


def spark(line: Line, end: float, *, alt: str, guides: Sequence[float] = ()) -> str:
    """A small curve, from 0 to `end` on x and over zero on y."""
    width, height, left, top, bottom = 260, 104, 40, 10, 8
    axis = Axis.over([0.0, *line.y], low=0.0)

    def px(value: float) -> float:
        return left + (width - left - 4) * value / end

    def py(value: float) -> float:
        return top + (height - top - bottom) * (1 - axis.at(value))

    box = f'viewBox="0 0 {width} {height}"'
    parts = [f'<svg class="chart spark" {box} role="img" aria-label="{escape(alt)}">']
    for tick in (axis.low, axis.high):
        parts.append(f'<path class="grid" d="M{left} {py(tick):.1f}H{width - 4}"/>')
        parts.append(_text(left - 6, py(tick), f"{tick:g}"))
    parts += [f'<path class="grid" d="M{px(g):.1f} {top}V{height - bottom}"/>' for g in guides]
    return "".join([*parts, f'<g class="{line.css}">{_curve(line, px, py, 0)}</g></svg>'])


def mark(kind: str, css: str) -> str:
    """A method's mark alone, for a key; the text beside it says whose it is."""
    return f'<svg class="mark {css}" viewBox="-6 -6 12 12" aria-hidden="true">{MARK[kind]}</svg>'


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """The places nearest to the wanted ones (least squares) that are `gap` apart and within the limits.

    >>> spread([10, 12, 50], 10, 0, 100)
    [6.0, 16.0, 50.0]
    """
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    blocks: list[tuple[float, int]] = []  # (sum, count) of members that moved together
    for rank, i in enumerate(order):
        total, count = wanted[i] - rank * gap, 1
        while blocks and blocks[-1][0] / blocks[-1][1] > total / count:
            before = blocks.pop()
            total, count = total + before[0], count + before[1]
        blocks.append((total, count))
    places = [0.0] * len(wanted)
    levels = [total / count for total, count in blocks for _ in range(count)]
    top = max(low, high - (len(wanted) - 1) * gap)
    for rank, (i, level) in enumerate(zip(order, levels, strict=True)):
        places[i] = min(max(level, low), top) + rank * gap
    return places


def thin(count: int, room: int) -> list[int]:
    """At most `room` of `count` places, evenly apart, the first and the last among them.

    >>> thin(10, 5), thin(3, 5), thin(11, 5)
    ([0, 3, 6, 9], [0, 1, 2], [0, 3, 6, 10])
    """
    if room < 2:
        return [count - 1]
    step = max(1, -(-(count - 1) // (room - 1)))
    places = list(range(0, count, step))
    if places[-1] != count - 1:
        if len(places) == room or count - 1 - places[-1] <= step / 2:
            places.pop()
        places.append(count - 1)
    return places


def cut(text: str, room: int) -> str:
    return text if len(text) <= room else text[: room - 1].rstrip() + "…"


def _text(x: float, y: float, text: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" dy=".32em" text-anchor="end">{text}</text>'


def _x_labels(ticks: Sequence[tuple[float, str, str]], px: Callable[[float], float], y: float) -> list[str]:
    parts = []
    for x, above, below in ticks:
        middle = f'x="{px(x):.1f}" text-anchor="middle"'
        parts.append(f'<text {middle} y="{y + 17:.1f}">{above}</text>')
        if below:
            parts.append(f'<text class="faint" {middle} y="{y + 32:.1f}">{below}</text>')
    return parts


def _curve(line: Line, px: Callable[[float], float], py: Callable[[float], float], digits: int) -> str:
    """A path that breaks where nothing was measured, and a mark with its value at each point."""
    path, marks, pen = [], [], "M"
    for x, y in zip(line.x, line.y, strict=True):
        if not math.isfinite(y):
            pen = "M"
            continue
        path.append(f"{pen}{px(x):.1f} {py(y):.1f}")
        pen = "L"
        if line.mark:
            title = f"<title>{escape(line.label)}, {x:g}: {y:.{digits}f}</title>"
            marks.append(f'<g transform="translate({px(x):.1f} {py(y):.1f})">{title}{MARK[line.mark]}</g>')
    dashed = ' stroke-dasharray="5 4"' if line.dashed else ""
    return f'<path class="line" d="{"".join(path)}"{dashed}/>{"".join(marks)}'
