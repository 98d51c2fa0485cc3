"""Draws docs/pictures/scenes.png: the first scenes of the default data, with their labels.

python docs/scenes.py
"""

from __future__ import annotations

from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from mlcl.data.scenes import CONCEPTS, draw, sample_labels

ROWS, COLUMNS, SIDE, GAP, LINE = 2, 6, 240, 16, 28  # pixels


def sheet() -> Image.Image:
    labels = sample_labels(0, ROWS * COLUMNS)
    font = ImageFont.load_default(22)
    step_x, step_y = SIDE + GAP, SIDE + 2 * LINE + 16
    page = Image.new("RGB", (COLUMNS * step_x - GAP, ROWS * step_y), "white")
    pen = ImageDraw.Draw(page)
    for index, shown in enumerate(labels):
        row, column = divmod(index, COLUMNS)
        x, y = column * step_x, row * step_y
        page.paste(Image.fromarray(draw(shown, 0, index, SIDE)), (x, y))
        names = [name for name, here in zip(CONCEPTS, shown, strict=True) if here]
        for number, words in enumerate(lines(names, font)):
            pen.text((x, y + SIDE + 5 + number * LINE), words, "#3b424a", font)
    return page


def lines(names: list[str], font: ImageFont.FreeTypeFont | ImageFont.ImageFont) -> list[str]:
    """The names, as many in a line as fit under a picture."""
    found = [names[0]]
    for name in names[1:]:
        longer = f"{found[-1]}, {name}"
        if font.getlength(longer) <= SIDE:
            found[-1] = longer
        else:
            found[-1] += ","
            found.append(name)
    return found


if __name__ == "__main__":
    sheet().quantize(256, dither=Image.Dither.FLOYDSTEINBERG).save(
        Path(__file__).parent / "pictures" / "scenes.png", optimize=True
    )
