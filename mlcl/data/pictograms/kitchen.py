"""Things of the kitchen."""

from __future__ import annotations

from mlcl.data.pictograms.canvas import Pen
from mlcl.data.pictograms.palettes import (
    AMBER,
    COAL,
    COFFEE,
    CREAM,
    FLESH,
    FRUITS,
    GLASS,
    GREENS,
    STEEL,
    TEA,
    WHITE,
    WOODS,
    dark,
    light,
    mix,
    rgb,
)
from mlcl.data.pictograms.registry import pictogram


def _steam(p: Pen, x: float, y: float) -> None:
    with p.part(x, y):
        p.curve("0,0 -.09,-.14 .07,-.28 -.03,-.42", WHITE, 0.06, ink=False)


@pictogram("cup", "ground", (0.74, 0.88), (1, 0.72), (0.62, 1), bulk=0.95)
def cup(p: Pen) -> None:
    glaze, trim = p.main, p.pick([WHITE, p.second, light(p.main, 0.5)])
    if p.variant == 0:  # mug
        p.nudge(-0.12, 0.04)
        p.ring(0.5, 0.2, 0.28, glaze, 0.13)
        p.box(-0.6, -0.34, 0.5, 0.83, glaze, r=0.14)
        p.oval(-0.05, -0.34, 0.55, 0.13, dark(glaze, 0.35))
        p.oval(-0.05, -0.31, 0.44, 0.08, COFFEE, ink=False)
        if p.chance(0.5):
            p.box(-0.6, 0.16, 0.5, 0.36, trim, ink=False)
        else:
            p.disc(-0.06, 0.26, 0.2, trim, ink=False)
        for x in (-0.25, 0.12):
            _steam(p, x, -0.46)
    elif p.variant == 1:  # teacup and saucer
        p.oval(0, 0.52, 0.95, 0.19, light(glaze, 0.25))
        p.oval(0, 0.48, 0.6, 0.1, glaze, ink=False)
        p.ring(0.6, -0.08, 0.21, glaze, 0.1)
        p.chord(0, -0.3, 0.64, 0.84, 0, 180, glaze)
        p.oval(0, -0.3, 0.64, 0.15, trim)
        p.oval(0, -0.28, 0.52, 0.1, TEA, ink=False)
        _steam(p, 0, -0.3)
    else:  # to take away
        p.poly("-.48,-.6 .48,-.6 .34,.97 -.34,.97", p.pick([CREAM, WHITE, glaze]))
        p.poly("-.45,-.2 .45,-.2 .4,.42 -.4,.42", p.second, ink=False)
        p.disc(0, 0.1, 0.17, CREAM, ink=False)
        p.box(-0.56, -0.74, 0.56, -0.56, COAL, r=0.06)
        p.box(-0.44, -0.94, 0.44, -0.74, COAL, r=0.06)


@pictogram("bottle", "ground", (0.34, 1), (0.4, 1), (0.42, 1), bulk=1.12, tilt=8)
def bottle(p: Pen) -> None:
    if p.variant == 0:  # wine
        glass = p.pick([rgb("2f5f46"), rgb("602e34"), rgb("6e5028"), dark(p.main, 0.3)])
        p.box(-0.11, -0.93, 0.11, -0.3, glass, r=0.03)
        p.blob("-.12,-.4 .12,-.4 .31,-.1 .32,.4 .3,.96 -.3,.96 -.32,.4 -.31,-.1", glass)
        p.box(-0.13, -0.96, 0.13, -0.72, p.main, r=0.03)
        p.box(-0.31, 0.14, 0.31, 0.66, CREAM, ink=False)
        p.disc(0, 0.4, 0.14, p.second, ink=False)
        p.line("-.2,-.05 -.2,.06", WHITE, 0.06, ink=False)
    elif p.variant == 1:  # water
        p.box(-0.36, -0.5, 0.36, 0.97, GLASS, r=0.16)
        p.poly("-.34,-.36 -.12,-.74 .12,-.74 .34,-.36", GLASS)
        p.box(-0.33, -0.2, 0.33, 0.93, mix(GLASS, rgb("46a0dc"), 0.55), r=0.13, ink=False)
        p.box(-0.36, 0.02, 0.36, 0.46, p.main, ink=False)
        p.curve("-.28,.3 -.1,.16 .1,.32 .28,.18", WHITE, 0.06, ink=False)
        p.box(-0.15, -0.95, 0.15, -0.72, p.second, r=0.04)
        p.line("-.22,-.3 -.22,-.1", WHITE, 0.06, ink=False)
    else:  # milk, or juice
        drink = p.pick([WHITE, rgb("faaa3c"), rgb("f07882"), rgb("fff0c8")])
        p.blob(
            "-.16,-.8 .16,-.8 .2,-.4 .4,-.05 .4,.5 .38,.97 -.38,.97 -.4,.5 -.4,-.05 -.2,-.4",
            light(GLASS, 0.3),
        )
        p.box(-0.33, 0.0, 0.33, 0.9, drink, r=0.1, ink=False)
        p.box(-0.2, -0.96, 0.2, -0.76, p.main, r=0.05)
        p.line("-.24,.12 -.24,.6", WHITE, 0.06, ink=False)


@pictogram("apple", "ground", (0.9, 0.95), (0.9, 0.95), (0.95, 0.85), bulk=0.82, tilt=15)
def apple(p: Pen) -> None:
    skin, stalk = p.pick(FRUITS), COFFEE
    body = "0,-.46 .36,-.62 .8,-.38 .84,.16 .5,.78 .16,.88 0,.82 -.16,.88 -.5,.78 -.84,.16 -.8,-.38 -.36,-.62"
    if p.variant == 2:  # cut in half
        with p.part(0, 0, 1, 0.9):
            p.blob(body, skin)
        with p.part(0, 0, 0.84, 0.78):
            p.blob(body, FLESH, ink=False)
        p.blob("0,-.2 .24,.05 .12,.38 -.12,.38 -.24,.05", dark(FLESH, 0.1), ink=False)
        for _ in p.sides():
            p.oval(0.1, 0.12, 0.05, 0.11, stalk, ink=False)
        p.line("0,-.4 .05,-.8", stalk, 0.08)
        return
    p.curve("0,-.45 .02,-.7 .12,-.9", stalk, 0.09)
    p.blob(".08,-.64 .3,-.92 .66,-.9 .42,-.64", p.pick(GREENS))
    p.blob(body, skin)
    p.blob(".62,-.3 .66,.2 .36,.66 .16,.7 .46,.3", dark(skin, 0.4), ink=False, alpha=0.35)
    p.oval(-0.46, -0.18, 0.13, 0.22, WHITE, ink=False, alpha=0.55)
    if p.variant == 1:  # bitten
        p.blob(".82,-.36 .6,-.32 .46,-.1 .58,.02 .52,.24 .8,.3 .84,0", FLESH)


@pictogram("pot", "ground", (1, 0.75), (1, 0.48), (0.92, 0.72), bulk=1.05, tilt=7)
def pot(p: Pen) -> None:
    metal = p.pick([p.main, p.main, STEEL, dark(p.main, 0.3)])
    shine = light(metal, 0.4)
    if p.variant == 0:  # casserole
        for _ in p.sides():
            p.line(".6,.02 .94,0 .94,.2 .6,.22", dark(metal, 0.4), 0.09)
        p.box(-0.72, -0.16, 0.72, 0.72, metal, r=0.18)
        p.chord(0, -0.14, 0.76, 0.4, 180, 360, shine)
        p.box(-0.8, -0.22, 0.8, -0.08, metal, r=0.06)
        p.disc(0, -0.6, 0.11, COAL)
        p.line("-.5,.1 -.5,.45", shine, 0.09, ink=False)
    elif p.variant == 1:  # frying pan, seen from the side and above
        p.line(".3,0 .96,-.3", p.pick(WOODS), 0.15)
        p.chord(-0.25, 0.02, 0.72, 0.44, 0, 180, dark(metal, 0.4))
        p.oval(-0.25, 0.02, 0.72, 0.34, metal)
        p.oval(-0.25, 0.04, 0.6, 0.26, dark(metal, 0.65), ink=False)
        if p.chance(0.6):
            p.blob("-.6,0 -.3,-.14 .05,-.05 .12,.12 -.2,.2 -.5,.16", WHITE, ink=False)
            p.oval(-0.24, 0.01, 0.15, 0.085, AMBER, ink=False)
    else:  # saucepan
        p.nudge(-0.1, 0)
        p.line(".4,0 .97,-.12", COAL, 0.13)
        p.box(-0.8, -0.18, 0.5, 0.7, metal, r=0.12)
        p.oval(-0.15, -0.18, 0.65, 0.16, shine)
        p.oval(-0.15, -0.16, 0.54, 0.11, p.pick([rgb("d65434"), rgb("f0c45c"), rgb("82aa50")]), ink=False)
        p.line("-.62,.08 -.62,.46", shine, 0.08, ink=False)
        for x in (-0.4, 0.05):
            _steam(p, x, -0.28)
