"""Things of the street."""

from __future__ import annotations

from mlcl.data.pictograms.canvas import Pen
from mlcl.data.pictograms.palettes import (
    AMBER,
    COAL,
    CREAM,
    GLASS,
    GLOW,
    GREEN,
    RED,
    SILVER,
    STEEL,
    STONES,
    WHITE,
    WOODS,
    Color,
    dark,
    mix,
    rgb,
)
from mlcl.data.pictograms.registry import pictogram


def _wheel(p: Pen, x: float, y: float, r: float) -> None:
    p.disc(x, y, r, COAL)
    p.disc(x, y, 0.55 * r, SILVER, ink=False)
    p.disc(x, y, 0.2 * r, COAL, ink=False)


@pictogram("car", "ground", (1, 0.5), (0.9, 0.62), (1, 0.52), bulk=1.1)
def car(p: Pen) -> None:
    body = p.main
    if p.variant == 0:  # saloon
        p.poly("-.58,-.05 -.36,-.46 .22,-.46 .56,-.05", body)
        p.poly("-.45,-.06 -.3,-.37 -.1,-.37 -.1,-.06", GLASS, ink=False)
        p.poly("-.02,-.06 -.02,-.37 .17,-.37 .4,-.06", GLASS, ink=False)
        p.blob("-1,.26 -.97,-.02 -.6,-.09 .5,-.09 .93,0 1,.27 .5,.31 -.5,.31", body)
        lamps, base, wheels, r = 0.07, 0.3, (-0.56, 0.56), 0.21
    elif p.variant == 1:  # a round little one
        p.chord(-0.03, 0.02, 0.66, 0.62, 180, 360, body)
        p.chord(-0.03, -0.02, 0.52, 0.46, 182, 266, GLASS, ink=False)
        p.chord(-0.03, -0.02, 0.52, 0.46, 276, 358, GLASS, ink=False)
        p.box(-0.88, -0.05, 0.88, 0.38, body, r=0.2)
        lamps, base, wheels, r = 0.08, 0.38, (-0.5, 0.5), 0.24
    else:  # pick-up
        p.poly("-.05,0 .02,-.5 .42,-.5 .62,-.05", body)
        p.poly(".06,-.06 .1,-.41 .36,-.41 .5,-.06", GLASS, ink=False)
        if p.chance(0.5):
            p.box(-0.85, -0.34, -0.35, -0.04, p.second, r=0.04)
            p.box(-0.5, -0.24, -0.12, -0.04, p.third, r=0.04)
        p.box(-0.98, -0.1, 0.98, 0.3, body, r=0.07)
        lamps, base, wheels, r = 0.02, 0.3, (-0.58, 0.58), 0.22
    p.box(-0.86, base - 0.12, 0.86, base - 0.02, dark(body, 0.35), r=0.04, ink=False)
    p.line([(-0.06, -0.02), (-0.06, base - 0.13)], dark(body, 0.4), 0.025, ink=False)
    p.line([(-0.2, lamps), (-0.12, lamps)], dark(body, 0.6), 0.035, ink=False)
    p.disc(0.84, lamps + 0.02, 0.075, GLOW, ink=False)
    p.box(-0.93, lamps - 0.04, -0.83, lamps + 0.08, RED, r=0.03, ink=False)
    for x in wheels:
        _wheel(p, x, base, r)


@pictogram("bus", "ground", (1, 0.56), (0.72, 0.95), (1, 0.78), bulk=1.25, tilt=4)
def bus(p: Pen) -> None:
    body, band = p.main, p.pick([WHITE, p.second, CREAM])
    if p.variant == 1:  # from the front
        for x in (-0.45, 0.45):
            p.box(x - 0.12, 0.6, x + 0.12, 0.93, COAL, r=0.05)
        for _ in p.sides():
            p.line(".6,-.5 .7,-.45 .7,-.2", COAL, 0.06)
        p.box(-0.6, -0.92, 0.6, 0.78, body, r=0.16)
        p.box(-0.36, -0.85, 0.36, -0.68, COAL, r=0.05, ink=False)
        p.line("-.2,-.765 .2,-.765", AMBER, 0.05, ink=False)
        p.box(-0.5, -0.58, 0.5, 0.14, GLASS, r=0.08)
        p.poly("-.3,-.58 -.12,-.58 -.34,.14 -.5,.14 -.5,.05", WHITE, ink=False, alpha=0.5)
        p.box(-0.6, 0.24, 0.6, 0.34, band, ink=False)
        for x in (-0.42, 0.42):
            p.disc(x, 0.52, 0.1, GLOW)
        p.box(-0.22, 0.46, 0.22, 0.62, dark(body, 0.5), r=0.04, ink=False)
        return
    top = -0.5 if p.variant == 0 else -0.75
    base = 0.38 if p.variant == 0 else 0.6
    p.box(-1, top, 1, base, body, r=0.12)
    rows = [top + 0.14] if p.variant == 0 else [top + 0.13, top + 0.72]
    for y in rows:
        for k in range(5):
            x = -0.9 + 0.31 * k
            p.box(x, y, x + 0.25, y + 0.32, GLASS, r=0.04, ink=False)
    p.box(0.66, rows[-1], 0.95, rows[-1] + 0.36, GLASS, r=0.05, ink=False)
    if p.variant == 2:
        p.box(0.66, rows[0], 0.95, rows[0] + 0.32, GLASS, r=0.05, ink=False)
    p.box(-0.99, rows[-1] + 0.42, 0.99, rows[-1] + 0.49, band, ink=False)
    if p.variant == 2:
        p.box(-0.99, rows[0] + 0.4, 0.99, rows[0] + 0.5, band, ink=False)
    p.disc(0.9, base - 0.1, 0.06, GLOW, ink=False)
    p.box(-0.97, base - 0.16, -0.9, base - 0.04, RED, r=0.02, ink=False)
    for x in (-0.55, 0.52):
        _wheel(p, x, base, 0.175)


@pictogram("bicycle", "ground", (1, 0.68), (1, 0.72), bulk=1.1)
def bicycle(p: Pen) -> None:
    r, y, width = 0.4, 0.27, p.u(0.06, 0.085)
    paint = p.main
    for x in (-0.58, 0.58):
        p.ring(x, y, r, COAL, 0.07)
        for dx, dy in ((0.36, 0.0), (0.18, 0.31), (-0.18, 0.31)):
            p.line([(x - dx, y - dy), (x + dx, y + dy)], STEEL, 0.016, ink=False)
    seat, crank, head = (-0.26, -0.36), (-0.06, 0.28), (0.4, -0.34)
    if p.variant == 0:
        p.line([(-0.58, y), crank, head, seat, (-0.58, y)], paint, width)
        p.line([seat, crank], paint, width)
    else:  # low frame with a basket and mudguards
        p.curve([crank, (0.12, 0.2), (0.28, -0.02), head], paint, 1.2 * width)
        p.line([(-0.58, y), crank, seat, (-0.58, y)], paint, width)
        p.chord(-0.58, y, r + 0.07, r + 0.07, 190, 300, p.second)
        p.poly(".52,-.62 .98,-.62 .9,-.26 .58,-.26", p.pick(WOODS))
        p.line(".56,-.44 .93,-.44", CREAM, 0.03, ink=False)
    p.line([(0.36, -0.5), head, (0.58, y)], paint, width)
    p.curve(".52,-.62 .36,-.64 .32,-.54 .36,-.5", COAL, 0.07)
    p.line([seat, (-0.3, -0.5)], STEEL, 0.05, ink=False)
    p.oval(-0.32, -0.53, 0.17, 0.065, COAL)
    p.disc(*crank, 0.1, STEEL)
    p.line("-.14,.42 .02,.14", COAL, 0.045, ink=False)


@pictogram("traffic light", "ground", (0.3, 1), (0.55, 0.97), (0.32, 1), bulk=1.25, tilt=5)
def traffic_light(p: Pen) -> None:
    lit = int(p.u(0, 3))
    case = p.pick([COAL, dark(p.main, 0.45), rgb("d6a428")])
    lamps = [RED, AMBER, GREEN]
    if p.variant == 1:  # hung from an arm
        p.nudge(0.06, -0.06)
        p.line("-.5,.97 -.5,-.84 .2,-.84", STEEL, 0.1)
        p.box(-0.6, 0.88, -0.4, 0.99, COAL, r=0.03)
        x, top, step, r = 0.2, -0.72, 0.4, 0.15
    else:
        p.box(-0.08, 0.1, 0.08, 0.95, STEEL)
        p.box(-0.25, 0.88, 0.25, 0.99, COAL, r=0.04)
        x, top, step, r = 0.0, -0.97, 0.42, 0.165
    count = 3
    p.box(x - r - 0.12, top, x + r + 0.12, top + count * step + 0.06, case, r=0.13)
    for k in range(count):
        y = top + step * (k + 0.5) + 0.03
        on = lamps[k] if k == lit else mix(lamps[k], COAL, 0.72)
        if k == lit:
            p.disc(x, y, r * 2.1, lamps[k], ink=False, alpha=0.22)
        p.disc(x, y, r, on, ink=False)
        p.disc(x - 0.3 * r, y - 0.3 * r, 0.28 * r, WHITE, ink=False, alpha=0.75 if k == lit else 0.2)
        if p.variant == 2:  # hoods
            p.chord(x, y - 0.02, 1.25 * r, 1.15 * r, 190, 350, dark(case, 0.6), ink=False)


def _window(p: Pen, x: float, y: float, w: float, h: float, pane: Color, frame: Color) -> None:
    p.box(x - w, y - h, x + w, y + h, pane, ink=False)
    p.line([(x, y - h), (x, y + h)], frame, 0.03, ink=False)
    p.line([(x - w, y), (x + w, y)], frame, 0.03, ink=False)
    p.line([(x - w - 0.04, y + h), (x + w + 0.04, y + h)], frame, 0.06, ink=False)


@pictogram("house", "ground", (0.95, 0.95), (1, 0.72), (0.68, 1), bulk=1.35, tilt=3)
def house(p: Pen) -> None:
    wall, roof, door = p.pick(STONES), p.main, p.second
    pane, frame = p.pick([GLASS, GLOW, GLASS]), p.pick([WHITE, dark(wall, 0.5)])
    if p.variant == 0:  # cottage
        p.box(0.34, -0.86, 0.54, -0.3, dark(roof, 0.2))
        p.box(-0.72, -0.2, 0.72, 0.93, wall)
        p.poly("-.93,-.14 0,-.93 .93,-.14", roof)
        p.disc(0, -0.42, 0.12, pane)
        p.box(-0.17, 0.32, 0.17, 0.93, door, r=0.03)
        p.disc(0.09, 0.64, 0.035, GLOW, ink=False)
        for x in (-0.46, 0.46):
            _window(p, x, 0.22, 0.15, 0.18, pane, frame)
    elif p.variant == 1:  # long, with a hipped roof
        p.box(-0.6, -0.7, -0.42, -0.3, STEEL)
        p.box(-0.88, -0.12, 0.88, 0.7, wall)
        p.poly("-1,-.06 -.7,-.56 .7,-.56 1,-.06", roof)
        for y in (-0.4, -0.23):
            p.line([(-0.75, y), (0.75, y)], dark(roof, 0.3), 0.025, ink=False)
        p.box(0.1, 0.16, 0.4, 0.7, door)
        for x in (-0.58, -0.16, 0.65):
            _window(p, x, 0.26, 0.13, 0.16, pane, frame)
    else:  # narrow, with a stepped gable
        gable = ".6,.97 .6,-.42 .42,-.42 .42,-.68 .24,-.68 .24,-.96"
        gable += " -.24,-.96 -.24,-.68 -.42,-.68 -.42,-.42 -.6,-.42 -.6,.97"
        p.poly(gable, mix(wall, roof, 0.75))
        for y in (-0.22, 0.2):
            for x in (-0.3, 0.3):
                _window(p, x, y, 0.13, 0.15, pane, frame)
        p.disc(0, -0.64, 0.1, pane, ink=False)
        p.box(-0.4, 0.5, -0.08, 0.97, door, r=0.02)
        _window(p, 0.26, 0.64, 0.17, 0.14, pane, frame)
