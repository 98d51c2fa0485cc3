"""One look a method, the same in every picture: its label, a colour for each mode, and a mark.

The colours stay apart for colour-blind eyes in pairs that stand beside each other (after Okabe and Ito),
and nothing is told by colour alone: lines carry their names, marks differ in form.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

JOINT = ("multi-task", "joint-full")  # learn everything at once

LABELS = {
    "a-gem": "A-GEM",
    "agcn": "AGCN",
    "agcn++": "AGCN++",
    "csc": "CSC",
    "der++": "DER++",
    "er": "ER",
    "er-relabel": "ER, relabelled",
    "ewc": "EWC",
    "krt": "KRT",
    "lwf": "LwF",
    "ocdm": "OCDM",
    "prs": "PRS",
    "scr": "SCR",
}

FORMS = (  # colour on white, on black, mark; the first ones are for methods that FIXED does not name
    ("#8a5a44", "#cfa08a", "circle"),
    ("#0369b4", "#5cb3fa", "triangle"),
    ("#a87b00", "#e5b93c", "diamond"),
    ("#00825f", "#36c99d", "square"),
    ("#7c4dbd", "#b997f4", "diamond"),
    ("#bd3f83", "#f08cc0", "triangle"),
    ("#0e8fa3", "#4fd0e0", "circle"),
    ("#5f7d1a", "#a9cd57", "square"),
    ("#c2410c", "#ff8a4c", "circle"),
    ("#6b7280", "#a3abb8", "square"),
    ("#5b6470", "#b4bcc6", "circle"),
    ("#1d2127", "#eceff2", "diamond"),
)
FREE = 8
MARKS = ("circle", "triangle", "square", "diamond")
FIXED = {
    "lwf": 1, "agcn": 2, "er": 3, "ewc": 4, "a-gem": 5, "prs": 6, "scr": 7, "agcn++": 8,
    "fine-tuning": 9, "multi-task": 10, "joint-full": 11,
}  # fmt: skip


@dataclass(frozen=True)
class Look:
    name: str
    label: str
    light: str
    dark: str
    mark: str
    css: str  # its class on the page


def looks(names: Sequence[str]) -> list[Look]:
    """A known name has its colour; another takes the first free one from a place that its name decides.

    >>> [(look.label, look.light) for look in looks(["lwf", "mine"])]
    [('LwF', '#0369b4'), ('mine', '#00825f')]
    """
    taken = {(FIXED[name], 0) for name in names if name in FIXED}
    found = []
    for number, name in enumerate(names):
        place, turn = FIXED.get(name, 0), 0
        if name not in FIXED:
            start = zlib.crc32(name.encode())
            every = [((start + step) % FREE, turn) for turn in range(len(MARKS)) for step in range(FREE)]
            place, turn = next((free for free in every if free not in taken), every[0])
            taken.add((place, turn))
        light, dark, mark = FORMS[place]
        mark = MARKS[(MARKS.index(mark) + turn) % len(MARKS)]  # when colours run out, forms still differ
        found.append(Look(name, LABELS.get(name, name), light, dark, mark, f"m{number}"))
    return found
