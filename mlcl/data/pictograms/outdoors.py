"""Plants, and things of the park and the sea."""

from __future__ import annotations

from math import cos, sin, tau

from mlcl.data.pictograms.canvas import Pen
from mlcl.data.pictograms.palettes import (
    COAL,
    CREAM,
    GLASS,
    GREENS,
    LEAVES,
    RED,
    WATERS,
    WHITE,
    WOODS,
    dark,
    light,
    rgb,
)
from mlcl.data.pictograms.registry import pictogram


@pictogram("tree", "ground", (0.72, 1), (0.62, 1), (0.9, 0.96), bulk=1.3, tilt=4)
def tree(p: Pen) -> None:
    bark, leaf = p.pick(WOODS), p.pick(LEAVES)
    if p.variant == 0:  # broad-leaved
        p.poly("-.1,.97 -.07,.1 .07,.1 .12,.97", bark)
        p.line("0,.42 .26,.12", bark, 0.07)
        crown = ((-0.36, 0.02, 0.34), (0.36, 0.04, 0.34), (0.0, 0.06, 0.36))
        p.puffs([*crown, (-0.28, -0.42, 0.34), (0.3, -0.4, 0.36), (0.02, -0.62, 0.34)], leaf)
        for x, y, r in ((-0.32, -0.44, 0.2), (-0.02, -0.66, 0.2), (-0.44, -0.02, 0.15)):
            p.disc(x, y, r, light(leaf, 0.2), ink=False)
        fruit = p.main if p.chance(0.35) else dark(leaf, 0.18)
        for x, y in ((0.34, -0.3), (0.1, -0.05), (-0.34, 0.08), (0.42, 0.08), (-0.05, -0.42)):
            p.disc(x, y, 0.065, fruit, ink=False)
    elif p.variant == 1:  # fir
        p.box(-0.09, 0.5, 0.09, 0.97, bark)
        leaf = p.pick(GREENS)
        for k, (half, low) in enumerate(((0.6, 0.72), (0.48, 0.24), (0.34, -0.24))):
            p.poly([(-half, low), (0, low - 0.74), (half, low)], light(leaf, 0.1 * k))
        p.poly("0,-.93 .3,-.3 .06,-.3", dark(leaf, 0.3), ink=False, alpha=0.3)
    else:  # palm
        p.nudge(0, -0.07)
        leaf = p.pick(GREENS)
        p.curve("-.18,.97 -.08,.5 0,.1 .02,-.42", bark, 0.14)
        for k in range(4):
            y = 0.7 - 0.28 * k
            p.line([(-0.18 + 0.06 * k, y), (-0.06 + 0.05 * k, y - 0.03)], dark(bark, 0.4), 0.03, ink=False)
        for _ in p.sides():
            for x, y, sag in ((0.88, 0.02, -0.62), (0.66, -0.7, -0.86), (0.5, 0.29, -0.3)):
                p.blob([(0, -0.52), (0.5 * x, sag), (x, y), (0.46 * x, sag + 0.24)], leaf)
        for x in (-0.07, 0.1):
            p.disc(x, -0.38, 0.08, dark(bark, 0.2), ink=False)


@pictogram("flower", "ground", (0.6, 1), (0.55, 1), (0.62, 1), bulk=1.08, tilt=10)
def flower(p: Pen) -> None:
    petal, green = p.main, p.pick(GREENS)
    if p.variant == 2:  # in a pot
        p.poly("-.34,.46 .34,.46 .24,.98 -.24,.98", p.second)
        p.box(-0.4, 0.38, 0.4, 0.54, light(p.second, 0.15), r=0.04)
        foot = 0.38
    else:
        foot = 0.97
    p.curve([(0.02, foot), (-0.05, 0.5 * foot), (0.0, -0.3)], green, 0.08)
    for side in p.sides():
        y = 0.16 - 0.08 * side
        p.blob([(0, 0.6 * foot + 0.1), (0.3, y + 0.1), (0.54, y - 0.1), (0.26, y - 0.1)], green)
    if p.variant == 1:  # tulip
        p.blob("-.4,-.92 -.16,-.66 0,-.97 .16,-.66 .4,-.92 .42,-.4 0,-.14 -.42,-.4", petal)
        p.blob("0,-.9 .2,-.5 0,-.16 -.2,-.5", light(petal, 0.3), ink=False)
        return
    count = 6 if p.chance(0.5) else 9
    heart = p.pick([rgb("fac83c"), rgb("6e462d"), rgb("ffebaa")])
    for k in range(count):
        angle = tau * k / count
        p.disc(0.33 * cos(angle), 0.33 * sin(angle) - 0.46, 0.2 if count == 6 else 0.15, petal)
    p.disc(0, -0.46, 0.21, heart)


@pictogram("boat", "water", (0.85, 1), (1, 0.69), (0.95, 0.9), bulk=1.2, tilt=8)
def boat(p: Pen) -> None:
    hull, trim = p.main, p.pick([WHITE, CREAM, p.second])
    sea = p.pick(WATERS)[0]
    if p.variant == 0:  # sloop
        p.line("0,.55 0,-.94", p.pick(WOODS), 0.07)
        p.poly(".08,-.88 .08,.38 .74,.38", trim)
        p.poly("-.08,-.7 -.08,.38 -.62,.38", light(p.second, 0.2))
        p.poly("0,-.97 .28,-.88 0,-.8", RED, ink=False)
        p.poly("-.8,.5 .82,.5 .52,.9 -.52,.9", hull)
        p.line("-.7,.6 .72,.6", light(hull, 0.6), 0.05, ink=False)
        water = 0.86
    elif p.variant == 1:  # steamer
        p.nudge(0, -0.06)
        for x in (-0.2, 0.14):
            p.box(x - 0.1, -0.62, x + 0.1, -0.1, p.second)
            p.box(x - 0.1, -0.6, x + 0.1, -0.48, COAL, ink=False)
        p.box(-0.52, -0.2, 0.42, 0.2, WHITE, r=0.05)
        p.box(-0.7, 0.02, 0.6, 0.26, CREAM, r=0.04)
        for k in range(4):
            p.disc(-0.46 + 0.28 * k, 0.13, 0.055, dark(GLASS, 0.4), ink=False)
        p.poly("-.95,.2 1,.14 .72,.66 -.74,.66", hull)
        p.poly("-.78,.52 .79,.5 .72,.66 -.74,.66", dark(RED, 0.2), ink=False)
        water = 0.62
    else:  # fishing boat with a cabin
        p.line("-.25,.2 -.25,-.85", p.pick(WOODS), 0.06)
        p.line("-.25,-.8 .8,.24", COAL, 0.025, ink=False)
        p.line("-.25,-.8 -.86,.24", COAL, 0.025, ink=False)
        for k in range(4):
            with p.part(0.2 * k, 0.2 * k):
                p.poly("-.1,-.66 .06,-.5 -.08,-.46", (p.second, trim)[k % 2], ink=False)
        p.box(-0.5, -0.22, 0.1, 0.32, trim, r=0.03)
        p.box(-0.58, -0.3, 0.18, -0.18, p.third, r=0.03)
        p.box(-0.4, -0.1, -0.22, 0.1, GLASS, ink=False)
        p.box(-0.14, -0.1, 0.03, 0.1, GLASS, ink=False)
        p.blob("-.95,.2 -.5,.3 .3,.3 .95,.08 .68,.66 .2,.82 -.5,.8 -.84,.6", hull)
        p.line("-.76,.46 .74,.42", light(hull, 0.6), 0.06, ink=False)
        water = 0.76
    with p.part(0, water):
        p.curve("-.9,.08 -.6,0 -.3,.08 0,0 .3,.08 .6,0 .9,.08", light(sea, 0.35), 0.08, ink=False)


@pictogram("umbrella", "ground", (1, 1), (1, 0.98), (0.9, 1), bulk=1.1, tilt=18)
def umbrella(p: Pen) -> None:
    one, two = p.main, p.pick([light(p.main, 0.55), p.second, WHITE])
    if p.variant == 1:  # on the beach
        p.line("0,-.9 0,.96", p.pick(WOODS), 0.07)
    else:
        p.line("0,-.94 0,.72", COAL, 0.06)
        p.curve("0,.68 .02,.88 .16,.95 .3,.86 .3,.72", p.pick(WOODS), 0.09)
    wide = 0.85 if p.variant == 2 else 0.97
    p.chord(0, -0.04, wide, 0.78, 180, 360, one)
    for half in (0.66, 0.24) if p.variant != 2 else (0.5,):
        p.chord(0, -0.04, half * wide, 0.78, 180, 360, two if half > 0.3 else one, ink=False)
    if p.variant == 2:
        p.chord(0, -0.04, 0.16 * wide, 0.78, 180, 360, one, ink=False)
    if p.variant == 0:  # scallops
        for k in range(4):
            x = -0.75 * wide + 0.5 * wide * k
            p.chord(x, -0.02, 0.25 * wide, 0.12, 180, 360, dark(one, 0.55), ink=False)
    p.line("0,-.82 0,-.94", COAL, 0.06)


@pictogram("kite", "sky", (0.72, 1), (0.85, 1), bulk=1.1, tilt=35)
def kite(p: Pen) -> None:
    one, two, bow = p.main, p.second, p.third
    if p.variant == 0:  # diamond
        p.curve("0,.3 .12,.5 -.1,.7 .1,.96", p.ink, 0.035, ink=False)
        for x, y in ((0.12, 0.5), (-0.1, 0.7), (0.1, 0.96)):
            with p.part(x, y):
                p.poly("-.16,-.08 .16,.08 .16,-.08 -.16,.08", bow)
        p.poly("0,-.98 .66,-.4 0,.34 -.66,-.4", one)
        p.poly("0,-.98 .66,-.4 0,-.4", two, ink=False)
        p.poly("0,.34 -.66,-.4 0,-.4", light(two, 0.3), ink=False)
        p.line("0,-.98 0,.34", p.ink, 0.03, ink=False)
        p.line("-.66,-.4 .66,-.4", p.ink, 0.03, ink=False)
    else:  # delta with streamers
        for x, color in ((-0.4, bow), (0, two), (0.4, bow)):
            with p.part(x, 0):
                p.curve("0,-.1 .12,.3 -.08,.6 .08,.95", color, 0.08)
        p.poly("0,-.97 .82,0 0,-.2 -.82,0", one)
        p.poly("0,-.97 .3,-.12 0,-.2 -.3,-.12", two, ink=False)
