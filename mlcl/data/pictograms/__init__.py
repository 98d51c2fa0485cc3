"""Twenty-four things that can be drawn, each in two or three shapes. To add one, write

    @pictogram("ball", "ground", (1, 1), bulk=0.7)
    def ball(p: Pen) -> None:
        p.disc(0, 0, 0.95, p.main)

in one of the files here, and give it a row in the table of `mlcl.data.scenes`.
"""

from mlcl.data.pictograms import creatures, kitchen, outdoors, rooms, street  # noqa: F401  (they register)
from mlcl.data.pictograms.registry import PICTOGRAMS

__all__ = ["PICTOGRAMS"]
