"""Things of the office and the living room."""

from __future__ import annotations

from math import cos, radians, sin

from mlcl.data.pictograms.canvas import Pen
from mlcl.data.pictograms.palettes import (
    AMBER,
    COAL,
    CREAM,
    GLOW,
    NIGHT,
    RED,
    SILVER,
    STEEL,
    WHITE,
    WOODS,
    Color,
    dark,
    light,
    mix,
)
from mlcl.data.pictograms.registry import pictogram


@pictogram("chair", "ground", (0.54, 1), (0.68, 1), (0.95, 0.88), bulk=1.15, tilt=5)
def chair(p: Pen) -> None:
    cloth = p.main
    if p.variant == 0:  # wooden
        p.nudge(-0.05, 0)
        wood = p.pick([*WOODS, p.second])
        p.line("-.4,-.95 -.4,.95", wood, 0.11)
        p.line(".24,.05 .28,.78", dark(wood, 0.3), 0.09)
        p.line("-.22,.05 -.2,.78", dark(wood, 0.3), 0.09)
        p.line(".46,.1 .5,.95", wood, 0.11)
        p.line("-.22,-.88 -.22,0", wood, 0.08)
        for y in (-0.84, -0.56, -0.28):
            p.line([(-0.4, y), (-0.22, y + 0.05)], wood, 0.1)
        p.poly("-.48,.1 -.28,-.08 .44,-.08 .58,.1 .56,.2 -.48,.2", cloth)
        p.line("-.38,.58 .46,.58", wood, 0.06)
    elif p.variant == 1:  # on castors
        p.line("0,.3 0,.68", STEEL, 0.12)
        p.line("-.5,.86 0,.66 .5,.86", COAL, 0.09)
        for x in (-0.5, 0, 0.5):
            p.disc(x, 0.9, 0.09, COAL)
        p.box(-0.42, -0.96, 0.42, 0.02, cloth, r=0.2)
        p.box(-0.3, -0.8, 0.3, -0.5, light(cloth, 0.25), r=0.1, ink=False)
        p.box(-0.52, 0.06, 0.52, 0.34, dark(cloth, 0.2), r=0.13)
        for _ in p.sides():
            p.line(".58,.16 .58,-.18", COAL, 0.08)
            p.line(".64,-.2 .46,-.2", COAL, 0.1)
    else:  # armchair
        wood = p.pick(WOODS)
        for _ in p.sides():
            p.poly(".57,.6 .75,.6 .7,.87 .62,.87", wood)
        p.box(-0.68, -0.86, 0.68, 0.5, cloth, r=0.26)
        for x, y in ((-0.3, -0.5), (0.3, -0.5), (0, -0.3)):
            p.disc(x, y, 0.05, dark(cloth, 0.45), ink=False)
        p.box(-0.62, 0.06, 0.62, 0.44, light(cloth, 0.25), r=0.14)
        for _ in p.sides():
            p.box(0.55, -0.16, 0.95, 0.68, dark(cloth, 0.15), r=0.18)
        p.box(-0.6, 0.42, 0.6, 0.68, dark(cloth, 0.15), r=0.06)


@pictogram("lamp", "ground", (0.6, 1), (0.66, 0.98), (0.55, 1), bulk=1.15, tilt=5)
def lamp(p: Pen) -> None:
    shade, lit = p.main, p.chance(0.6)
    if p.variant == 1:  # for a desk, with joints
        p.oval(-0.2, 0.9, 0.46, 0.1, dark(shade, 0.3))
        p.line("-.2,.86 -.5,.1 .05,-.55", STEEL, 0.09)
        p.disc(-0.5, 0.1, 0.1, COAL)
        if lit:
            p.poly("0,-.14 .5,-.5 .95,.5 .1,.6", GLOW, ink=False, alpha=0.35)
        p.disc(0.28, -0.3, 0.16, GLOW if lit else CREAM, ink=False)
        p.poly("-.08,-.72 .2,-.92 .62,-.5 -.02,-.06", shade)
        return
    top = -0.98 if p.variant == 0 else -0.97
    low = 0.0 if p.variant == 0 else -0.4
    wide = 0.58 if p.variant == 0 else 0.46
    if lit:
        with p.part(0, low, wide, 0.75):
            p.poly("-1,0 1,0 1.5,1 -1.5,1", GLOW, ink=False, alpha=0.3)
    if p.variant == 0:  # for a table
        p.line([(0, low), (0, 0.3)], STEEL, 0.08)
        p.blob("0,.15 .26,.42 .2,.84 -.2,.84 -.26,.42", p.second)
        p.box(-0.32, 0.84, 0.32, 0.97, dark(p.second, 0.4), r=0.05)
    else:  # standing
        p.line([(0, low), (0, 0.9)], COAL, 0.07)
        p.oval(0, 0.92, 0.36, 0.07, COAL)
        p.line([(0.24, low), (0.24, low + 0.24)], STEEL, 0.025, ink=False)
    with p.part(0, low, wide, low - top):
        p.poly("-.55,-1 .55,-1 1,0 -1,0", mix(shade, GLOW, 0.35) if lit else shade)
        p.line("-.93,-.1 .93,-.1", light(shade, 0.6), 0.09, ink=False)


@pictogram("clock", "wall", (0.95, 0.95), (0.9, 1), (0.62, 1), bulk=0.95, tilt=8)
def clock(p: Pen) -> None:
    frame, face = p.main, p.pick([WHITE, CREAM, WHITE, dark(p.second, 0.55)])
    hands = NIGHT if sum(face) > 400 else WHITE
    y, r = (0.0, 0.9) if p.variant == 0 else (0.12, 0.74) if p.variant == 1 else (-0.42, 0.46)
    if p.variant == 1:  # alarm clock
        for _ in p.sides():
            p.line(".4,.7 .6,.95", COAL, 0.13)
            p.chord(0.5, -0.6, 0.34, 0.34, 190, 370, p.second)
        p.line("0,-.6 0,-.86", COAL, 0.09)
        p.box(-0.12, -0.96, 0.12, -0.82, COAL, r=0.05)
    elif p.variant == 2:  # with a pendulum
        p.box(-0.5, -0.6, 0.5, 0.97, p.pick(WOODS), r=0.05)
        p.poly("-.6,-.58 0,-1 .6,-.58", p.pick(WOODS))
        p.box(-0.34, 0.14, 0.34, 0.86, NIGHT, r=0.05, ink=False)
        swing = p.u(-0.14, 0.14)
        p.line([(0, 0.14), (swing, 0.62)], GLOW, 0.05, ink=False)
        p.disc(swing, 0.66, 0.12, AMBER, ink=False)
    with p.part(0, y, r):
        p.disc(0, 0, 1, frame)
        p.disc(0, 0, 0.8, face, ink=False)
        for k in range(12):
            _spoke(p, 30 * k, 0.6 if k % 3 == 0 else 0.66, 0.72, hands, 0.045)
        _spoke(p, p.u(0, 360), 0, 0.4, hands, 0.1)
        _spoke(p, p.u(0, 360), 0, 0.6, hands, 0.065)
        p.disc(0, 0, 0.08, RED, ink=False)


def _spoke(p: Pen, degrees: float, start: float, stop: float, color: Color, width: float) -> None:
    x, y = cos(radians(degrees)), sin(radians(degrees))
    p.line([(start * x, start * y), (stop * x, stop * y)], color, width, ink=False)


@pictogram("laptop", "ground", (1, 0.74), (0.86, 0.72), bulk=1.0, tilt=6)
def laptop(p: Pen) -> None:
    case = p.pick([SILVER, STEEL, COAL, light(p.main, 0.4)])
    screen = p.pick([dark(p.main, 0.55), p.main, NIGHT, light(p.second, 0.75)])
    if p.variant == 0:  # from the front
        p.box(-0.76, -0.72, 0.76, 0.42, dark(case, 0.3), r=0.08)
        p.box(-0.67, -0.63, 0.67, 0.33, screen, r=0.03, ink=False)
        p.poly("-.8,.42 .8,.42 1,.66 -1,.66", case)
        p.box(-1, 0.62, 1, 0.72, dark(case, 0.2), r=0.04)
        p.poly("-.66,.46 .66,.46 .72,.54 -.72,.54", dark(case, 0.5), ink=False)
        x, y = -0.55, -0.5
    else:  # turned
        p.nudge(-0.13, 0)
        p.poly("-.55,-.7 .72,-.6 .55,.24 -.72,.28", dark(case, 0.3))
        p.poly("-.47,-.6 .62,-.52 .47,.16 -.62,.2", screen, ink=False)
        p.poly("-.72,.28 .55,.24 .98,.6 -.4,.7", case)
        p.poly("-.52,.33 .5,.29 .68,.43 -.4,.49", dark(case, 0.5), ink=False)
        x, y = -0.46, -0.44
    if p.chance(0.5):  # lines of work
        for k, length in enumerate((0.5, 0.8, 0.36, 0.62)):
            p.line([(x, y + 0.16 * k), (x + length, y + 0.16 * k)], light(p.third, 0.3), 0.05, ink=False)
    else:  # a chart
        for k, height in enumerate((0.2, 0.42, 0.3, 0.55)):
            p.box(
                x + 0.1 + 0.22 * k,
                y + 0.62 - height,
                x + 0.24 + 0.22 * k,
                y + 0.62,
                light(p.third, 0.25),
                ink=False,
            )


@pictogram("book", "ground", (0.75, 0.95), (1, 0.62), (1, 0.7), bulk=0.98, tilt=10)
def book(p: Pen) -> None:
    cover = p.main
    if p.variant == 0:  # standing, closed
        p.poly("-.6,.92 -.6,-.78 -.46,-.92 .72,-.92 .72,.78 .58,.92", CREAM)
        p.box(-0.68, -0.78, 0.56, 0.93, cover, r=0.05)
        p.box(-0.68, -0.78, -0.5, 0.93, dark(cover, 0.3), r=0.04, ink=False)
        p.box(-0.34, -0.52, 0.4, -0.14, light(cover, 0.7), r=0.03, ink=False)
        p.line("-.2,-.33 .26,-.33", dark(cover, 0.3), 0.07, ink=False)
        p.disc(0.03, 0.4, 0.18, p.second, ink=False)
    elif p.variant == 1:  # open
        p.poly("-1,-.36 1,-.36 1,.6 -1,.6", cover)
        for _ in p.sides():
            p.blob("0,-.4 .4,-.56 .9,-.44 .93,0 .9,.48 .4,.38 0,.54", CREAM)
            for y in (-0.27, -0.09, 0.09, 0.27):
                p.line([(0.18, y), (0.76, y - 0.02)], STEEL, 0.04, ink=False)
        p.line("0,-.4 0,.54", dark(CREAM, 0.4), 0.04, ink=False)
        p.poly(".5,-.5 .62,-.5 .62,.05 .56,-.04 .5,.05", p.second, ink=False)
    else:  # a pile
        for k, color in enumerate((p.third, p.second, cover)):
            shift, y = p.u(-0.1, 0.1), 0.66 - 0.46 * k
            p.box(-0.82 + shift, y - 0.42, 0.86 + shift, y, color, r=0.06)
            p.box(-0.66 + shift, y - 0.34, 0.88 + shift, y - 0.08, CREAM)
            p.line([(-0.6 + shift, y - 0.21), (0.84 + shift, y - 0.21)], dark(CREAM, 0.3), 0.025, ink=False)
