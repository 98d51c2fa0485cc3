"""People and animals."""

from __future__ import annotations

from mlcl.data.pictograms.canvas import Pen
from mlcl.data.pictograms.palettes import (
    COAL,
    FURS,
    HAIRS,
    NIGHT,
    PINK,
    SCALES,
    SKINS,
    WHITE,
    Color,
    contrast,
    dark,
    light,
    rgb,
)
from mlcl.data.pictograms.registry import pictogram


def _eyes(p: Pen, y: float, apart: float, r: float) -> None:
    for x in (-apart, apart):
        p.disc(x, y, r, NIGHT, ink=False)
        p.disc(x + 0.3 * r, y - 0.35 * r, 0.38 * r, WHITE, ink=False)


def _face(p: Pen, skin: Color, hair: Color, long: bool) -> None:
    """A head around (0, 0), of half width 1."""
    p.oval(0, 0, 1, 1.12, skin)
    if long:
        p.blob("-1.12,.1 -1,-.75 -.1,-1.26 .9,-.9 1.12,.1 .85,-.3 .15,-.62 -.6,-.5 -.9,-.05", hair)
    else:
        p.blob("-1.05,-.15 -.95,-.75 -.1,-1.24 .85,-.92 1.06,-.2 .7,-.5 .1,-.66 -.65,-.55", hair)
    _eyes(p, 0.14, 0.4, 0.12)
    p.curve("-.3,.5 .06,.64 .4,.48", dark(skin, 0.5), 0.1, ink=False)


@pictogram("person", "ground", (0.48, 1), (0.55, 1), (0.78, 0.9), bulk=1.15, tilt=5)
def person(p: Pen) -> None:
    skin, hair = p.pick(SKINS), p.pick(HAIRS)
    shirt, legs = p.main, p.second
    long, skirt = p.chance(0.45), p.chance(0.4)
    if p.variant == 2:  # head and shoulders
        if long:
            p.box(-0.42, -0.72, 0.42, 0.3, hair, r=0.3)
        p.chord(0, 0.88, 0.76, 0.76, 180, 360, shirt)
        p.box(-0.13, -0.1, 0.13, 0.26, skin, r=0.1)
        p.poly("-.17,.14 .17,.14 0,.42", light(shirt, 0.5), ink=False)
        with p.part(0, -0.38, 0.38):
            _face(p, skin, hair, long)
        return
    stride = p.u(0.03, 0.22)
    if long:
        p.box(-0.24, -0.92, 0.24, -0.36, hair, r=0.2)
    for side in p.sides():
        foot = 0.11 + stride
        p.line([(0.11, 0.1), (0.11 + 0.4 * stride, 0.5), (foot, 0.86)], skin if skirt else legs, 0.17)
        p.oval(foot + 0.05 * side, 0.92, 0.14, 0.075, COAL)
    if skirt:
        p.poly("-.2,0 .2,0 .37,.5 -.37,.5", legs)
    for side in p.sides():
        waves = p.variant == 1 and side == 1
        p.curve(".2,-.38 .36,-.42 .48,-.8" if waves else ".2,-.38 .36,-.14 .42,.12", shirt, 0.14)
        p.disc(*((0.48, -0.8) if waves else (0.42, 0.12)), 0.085, skin)
    p.box(-0.26, -0.5, 0.26, 0.18, shirt, r=0.14)
    if p.chance(0.4):
        for y in (-0.3, -0.14, 0.02):
            p.line([(-0.22, y), (0.22, y)], light(shirt, 0.55), 0.06, ink=False)
    p.box(-0.07, -0.6, 0.07, -0.46, skin, ink=False)
    with p.part(0, -0.75, 0.2):
        _face(p, skin, hair, long)


def _dog_face(p: Pen, fur: Color) -> None:
    muzzle = light(fur, 0.5)
    p.oval(0, 0, 0.62, 0.66, fur)
    p.blob("-.12,-.6 .12,-.6 .1,.1 -.1,.1", muzzle, ink=False)
    for _ in p.sides():
        p.blob(".42,-.62 .72,-.5 .86,.1 .7,.36 .52,.05", dark(fur, 0.42))
    if p.chance(0.6):
        p.oval(0, 0.62, 0.12, 0.2, PINK)
    p.oval(0, 0.3, 0.36, 0.3, muzzle)
    p.oval(0, 0.14, 0.16, 0.11, NIGHT, ink=False)
    p.line("0,.2 0,.42", NIGHT, 0.04, ink=False)
    _eyes(p, -0.14, 0.27, 0.1)


@pictogram("dog", "ground", (1, 0.78), (0.66, 1), (0.88, 0.77), bulk=1.05)
def dog(p: Pen) -> None:
    fur = p.pick(FURS)
    ear, belly = dark(fur, 0.42), light(fur, 0.5)
    if p.variant == 0:  # standing, from the side
        p.curve("-.62,-.08 -.84,-.28 -.88,-.6", fur, 0.14)
        for x in (-0.5, 0.28):
            p.box(x - 0.02, 0.1, x + 0.15, 0.74, dark(fur, 0.2), r=0.06)
        p.blob("-.7,0 -.4,-.2 .2,-.2 .5,-.25 .52,.16 .1,.3 -.4,.26 -.68,.24", fur)
        for x in (-0.66, 0.12):
            p.box(x, 0.1, x + 0.17, 0.76, fur, r=0.06)
        if p.chance(0.5):
            p.blob("-.4,-.18 -.1,-.18 -.05,.05 -.3,.1", ear, ink=False)
        p.blob(".3,-.62 .56,-.7 .74,-.48 .98,-.38 .97,-.2 .66,-.14 .4,-.16", fur)
        p.blob(".32,-.66 .48,-.62 .48,-.3 .34,-.12 .2,-.3", ear)
        p.disc(0.97, -0.36, 0.07, NIGHT, ink=False)
        p.disc(0.64, -0.47, 0.05, NIGHT, ink=False)
        p.line(".32,-.06 .5,-.1", p.main, 0.08, ink=False)
        return
    if p.variant == 1:  # sitting
        p.curve(".3,.8 .55,.76 .62,.45", fur, 0.13)
        p.blob("-.3,-.2 .3,-.2 .46,.5 .4,.95 -.4,.95 -.46,.5", fur)
        p.oval(0, 0.3, 0.2, 0.34, belly, ink=False)
        for x in (-0.17, 0.17):
            p.box(x - 0.11, 0.3, x + 0.11, 0.97, fur, r=0.1)
        p.line("-.26,-.08 .26,-.08", p.main, 0.1)
        with p.part(0, -0.48, 0.62):
            _dog_face(p, fur)
    else:
        p.nudge(0, -0.06)
        _dog_face(p, fur)


def _cat_face(p: Pen, fur: Color) -> None:
    iris = p.pick([rgb("96c85a"), rgb("f0be46"), rgb("78bed2")])
    whiskers = COAL if contrast(fur, COAL) > 200 else WHITE
    for _ in p.sides():
        p.poly(".6,-.02 .58,-.82 .08,-.4", fur)
        p.poly(".5,-.2 .51,-.64 .22,-.4", PINK, ink=False)
    p.oval(0, 0, 0.66, 0.54, fur)
    for x in (-0.16, 0, 0.16):
        p.line([(x, -0.46), (0.8 * x, -0.28)], dark(fur, 0.4), 0.07, ink=False)
    for _ in p.sides():
        p.oval(0.26, -0.04, 0.14, 0.12, iris, ink=False)
        p.oval(0.26, -0.04, 0.055, 0.12, NIGHT, ink=False)
        p.line(".22,.18 .86,.12", whiskers, 0.02, ink=False)
        p.line(".22,.24 .86,.24", whiskers, 0.02, ink=False)
    p.oval(0, 0.24, 0.2, 0.13, light(fur, 0.6), ink=False)
    p.poly("-.08,.12 .08,.12 0,.22", dark(PINK, 0.2), ink=False)


@pictogram("cat", "ground", (0.67, 1), (1, 0.8), (0.92, 0.74), bulk=1.05)
def cat(p: Pen) -> None:
    fur = p.pick(FURS)
    if p.variant == 1:  # walking, tail up
        p.curve("-.55,-.05 -.82,-.2 -.86,-.55 -.68,-.74", fur, 0.13)
        for x in (-0.4, 0.34):
            p.box(x, 0.1, x + 0.12, 0.76, dark(fur, 0.2), r=0.05)
        p.blob("-.68,.02 -.3,-.2 .2,-.16 .5,-.2 .54,.2 0,.24 -.5,.3", fur)
        for x in (-0.62, 0.16):
            p.box(x, 0.1, x + 0.13, 0.78, fur, r=0.05)
        for x in (-0.35, -0.18, -0.01):
            p.line([(x, -0.15), (x + 0.03, 0.02)], dark(fur, 0.4), 0.06, ink=False)
        with p.part(0.58, -0.32, 0.52):
            _cat_face(p, fur)
    elif p.variant == 0:  # sitting
        p.nudge(-0.08, 0)
        p.curve(".2,.88 .56,.86 .66,.55 .5,.32", fur, 0.15)
        p.blob("-.22,-.2 .22,-.2 .44,.5 .36,.95 -.36,.95 -.44,.5", fur)
        p.oval(0, 0.24, 0.16, 0.26, light(fur, 0.55), ink=False)
        for x in (-0.13, 0.13):
            p.box(x - 0.1, 0.4, x + 0.1, 0.97, fur, r=0.09)
        with p.part(0, -0.42, 0.66):
            _cat_face(p, fur)
    else:
        with p.part(0, 0.15, 1.05):
            _cat_face(p, fur)


@pictogram("bird", "free", (0.95, 0.75), (1, 0.62), (0.7, 1), bulk=1.0, tilt=12)
def bird(p: Pen) -> None:
    coat, wing = p.main, dark(p.main, 0.3)
    belly, beak = light(p.main, 0.6), rgb("f5a52d")
    if p.variant == 0:  # a songbird
        for x in (-0.02, 0.16):
            p.line([(x, 0.4), (x + 0.03, 0.7), (x + 0.14, 0.72)], dark(beak, 0.3), 0.04, ink=False)
        p.poly("-.5,.1 -.95,-.1 -.9,.16 -.45,.34", wing)
        p.poly(".72,-.42 .95,-.3 .7,-.2", beak)
        p.blob(".1,-.5 .45,-.7 .76,-.5 .72,-.05 .42,.4 -.1,.5 -.56,.24 -.3,-.1", coat)
        p.blob(".6,-.12 .55,.2 .2,.44 0,.4 .3,.1", belly, ink=False)
        p.blob(".15,-.16 .2,.14 -.2,.32 -.7,.22 -.3,-.08", wing)
        p.disc(0.54, -0.44, 0.07, WHITE, ink=False)
        p.disc(0.56, -0.44, 0.045, NIGHT, ink=False)
    elif p.variant == 1:  # in flight
        p.nudge(0, 0.18)
        p.poly("-.55,.1 -1,.02 -.86,.2 -.96,.36 -.5,.3", wing)
        p.blob(".1,0 -.1,-.5 -.46,-.78 -.5,-.4 -.36,.1", wing)
        p.poly(".76,0 1,.1 .74,.18", beak)
        p.blob("-.7,.16 -.2,-.02 .3,-.08 .6,-.16 .8,.06 .56,.3 0,.42 -.4,.34", coat)
        p.blob(".6,.24 .2,.38 -.2,.38 .2,.24", belly, ink=False)
        p.blob(".28,.06 .32,-.36 .12,-.78 -.1,-.36 -.16,.08", light(wing, 0.2))
        p.disc(0.6, -0.01, 0.05, NIGHT, ink=False)
    else:  # an owl
        for _ in p.sides():
            p.poly(".1,-.7 .5,-.95 .52,-.5", coat)
        p.blob("-.5,-.7 .5,-.7 .62,.1 .44,.8 0,.95 -.44,.8 -.62,.1", coat)
        p.oval(0, 0.42, 0.34, 0.42, belly, ink=False)
        for y in (0.24, 0.42, 0.6):
            with p.part(0, y):
                p.curve("-.18,0 0,.08 .18,0", wing, 0.045, ink=False)
        for _ in p.sides():
            p.blob(".5,-.1 .68,.2 .5,.75 .36,.3", wing)
            p.disc(0.25, -0.36, 0.25, WHITE)
            p.disc(0.22, -0.36, 0.12, NIGHT, ink=False)
            p.line(".16,.9 .16,.97", beak, 0.08, ink=False)
        p.poly("-.09,-.24 .09,-.24 0,0", beak)


@pictogram("fish", "swim", (1, 0.55), (0.9, 0.75), (1, 0.42), bulk=1.08, tilt=18)
def fish(p: Pen) -> None:
    skin = p.pick(SCALES)
    fin, mark = p.pick([p.second, dark(skin, 0.3)]), p.pick([WHITE, p.third, light(skin, 0.5)])
    tall = (0.44, 0.6, 0.3)[p.variant]
    with p.part(0, 0, 1, tall):
        p.blob("-.5,0 -.85,-.9 -1,-.85 -.84,0 -1,.85 -.85,.9", fin)
        p.blob("-.3,-.6 -.1,-1.25 .3,-1.2 .4,-.6", fin)
        p.blob("-.2,.6 -.1,1.2 .1,1.1 .2,.6", fin)
        p.blob("-.66,0 -.2,-.8 .3,-1 .8,-.6 .98,0 .8,.6 .3,1 -.2,.8", skin)
        if p.chance(0.6):
            for x, h in ((-0.28, 0.62), (0.06, 0.84), (0.4, 0.86)):
                p.curve([(x, -h), (x + 0.08, 0), (x, h)], mark, 0.13, ink=False)
        else:
            p.blob(".8,.15 .4,.8 -.2,.68 -.5,.2 .1,.25", light(skin, 0.55), ink=False)
        p.blob(".16,.08 -.16,.3 -.2,.66 .2,.42", fin)
        p.line(".84,.32 .93,.25", dark(skin, 0.5), 0.04, ink=False)
    p.disc(0.68, -0.18 * tall, 0.1, WHITE, ink=False)
    p.disc(0.7, -0.18 * tall, 0.055, NIGHT, ink=False)
