"""Heat maps: a table of numbers while a reader can read it, a picture of pixels where it is larger.

One hue throughout; its strength is the value. As the page's colours are variables, it follows dark mode.
"""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Sequence
from html import escape

import numpy as np

from mlcl.report.charts import cut

READABLE = 16  # tasks; more become pixels
NAMED = 48  # classes; more lose their names beside the picture
SIDE = 360  # of a picture


def shade(a: np.ndarray, low: float, high: float) -> np.ndarray:
    """Values -> strengths; the lowest is still to be seen."""
    return 0.06 + 0.86 * (a - low) / ((high - low) or 1)


def heat_table(a: np.ndarray, low: float, high: float, first: int = 0) -> str:
    """(R, T) percentages with their numbers; the rows are the tasks from `first` on."""
    head = "".join(f'<th scope="col">{j + 1}</th>' for j in range(a.shape[1]))
    rows = []
    for row in np.flatnonzero(np.isfinite(a).any(axis=1)):
        cells = "".join(map(_cell, a[row], shade(a[row], low, high)))
        rows.append(f'<tr><th scope="row">{first + row + 1}</th>{cells}</tr>')
    return (
        f'<table class="heat"><thead><tr><th scope="col">after</th>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table>"
    )


def matrix(
    values: np.ndarray, *, key: str, alt: str, edges: Sequence[int] = (), names: Sequence[str] = ()
) -> str:
    """(R, C) strengths from 0 to 1 (nan is empty) as pixels, with task boundaries and, if few, names.

    `key` names the mask within the page. The picture is a mask, so that its colour is the page's.
    """
    named = 0 < len(names) <= NAMED
    gutter = 14 + int(min(18, max(map(len, names))) * 5.2) if named else 4
    step = SIDE / values.shape[1]
    height = max(12.0, step * len(values))
    box = f'x="{gutter}" y="{gutter}" width="{SIDE}" height="{height:.1f}"'
    parts = [
        f'<svg class="matrix" viewBox="0 0 {gutter + SIDE + 2} {gutter + height + 2:.1f}" role="img" '
        f'aria-label="{escape(alt)}"><mask id="{key}"><image href="{_png(values)}" {box} '
        f'preserveAspectRatio="none"/></mask><rect class="ink" {box} mask="url(#{key})"/>'
    ]
    for edge in edges if len(edges) <= 42 else ():
        at = f"{gutter + edge * step:.2f}"
        parts.append(f'<path class="edge" d="M{gutter} {at}h{SIDE}M{at} {gutter}v{height:.1f}"/>')
    parts.append(f'<rect class="frame" {box}/>')
    for place, name in enumerate(names) if named else ():
        at = f"{gutter + (place + 0.5) * step:.1f}"
        size = f'style="font-size:{min(11.0, step * 1.05):.1f}px" dy=".34em"'
        text = escape(cut(name, 18))
        parts.append(
            f'<text {size} x="{gutter - 5}" y="{at}" text-anchor="end">{text}</text>'
            f'<text {size} transform="translate({at} {gutter - 5}) rotate(-90)">{text}</text>'
        )
    return "".join([*parts, "</svg>"])


def scale(stops: Sequence[tuple[str, float]]) -> str:
    """What the strengths mean."""
    swatches = "".join(f'<i style="--v:{strength:.3f}"></i>{text}' for text, strength in stops)
    return f'<span class="scale">{swatches}</span>'


def _cell(value: float, strength: float) -> str:
    if not math.isfinite(value):
        return "<td></td>"
    strong = ' class="strong"' if strength > 0.68 else ""  # where light ink reads better than dark
    return f'<td{strong} style="--v:{strength:.2f}">{value:.1f}</td>'


def _png(values: np.ndarray) -> str:
    from PIL import Image

    grey = (np.nan_to_num(values).clip(0, 1) * 255).round().astype(np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(grey).save(buffer, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
