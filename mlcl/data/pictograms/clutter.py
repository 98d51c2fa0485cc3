"""Small things without a label, behind the others and before them."""

from __future__ import annotations

from mlcl.data.pictograms.backdrops import Stage
from mlcl.data.pictograms.canvas import Pen
from mlcl.data.pictograms.palettes import GLASS, GRASSES, GREENS, LEAVES, PAVINGS, dark, light, mix


def scatter(p: Pen, stage: Stage, count: int) -> None:
    """Pebbles, leaves, confetti, as it suits the stage."""
    for _ in range(count):
        kind, color = p.pick(stage.scatter), p.pick(p.canvas.mood.accents)
        x, y, s = p.u(0, 1), p.u(stage.horizon + 0.02, 1), p.u(0.008, 0.02)
        a, b = p.u(-1, 1), p.u(-1, 1)
        with p.part(x, y, s):
            if kind == "leaf":
                p.poly([(-a - b, -1), (1, -b), (a + b, 1), (-1, b)], p.pick(LEAVES), ink=False)
            elif kind == "pebble":
                p.oval(0, 0, 1, 0.65, mix(p.pick(PAVINGS)[1], color, 0.15), ink=False)
            elif kind == "confetti":
                p.line([(-a, -b), (a, b)], color, 0.6, ink=False)
            elif kind == "tuft":
                green = dark(p.pick(GRASSES)[1], 0.15)
                for lean in (-0.8, 0.0, 0.8):
                    p.line([(0, 0), (lean, -1.8)], green, 0.4, ink=False)
            elif kind == "ring":
                p.ring(0, 0, 0.8, color, 0.4)
            elif kind == "star":
                p.poly("0,-1 .3,-.3 1,0 .3,.3 0,1 -.3,.3 -1,0 -.3,-.3", color, ink=False)
            else:
                p.disc(0, 0, 0.6, color, ink=False)


def foreground(p: Pen) -> None:
    """Nearer than everything else, at the rim: grass, leaves, or blurs of light."""
    kind = int(p.u(0, 3))
    if kind == 0:
        green, lean = dark(p.pick(GREENS), p.u(0.1, 0.5)), p.u(-0.06, 0.06)
        with p.part(p.u(0, 1), 1):
            for k in range(7):
                x = 0.04 * (k - 3)
                tip = (x + lean + p.u(-0.04, 0.04), p.u(-0.16, -0.07))
                p.poly([(x - 0.015, 0.01), tip, (x + 0.015, 0.01)], green, ink=False)
    elif kind == 1:
        leaf, right = p.pick(LEAVES), p.chance(0.5)
        for k in range(4):
            x, y = p.u(-0.02, 0.22), p.u(-0.02, 0.14)
            with p.part(1 - x if right else x, y, 0.05):
                p.blob("-1,0 0,-.6 1.2,.4 0,.6", dark(leaf, 0.1 * k), ink=False)
    else:
        for _ in range(4):
            p.disc(p.u(0, 1), p.u(0, 1), p.u(0.03, 0.08), light(GLASS, 0.5), ink=False, alpha=0.14)
