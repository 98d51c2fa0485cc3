"""Which images a run could not use as they are: counted on the terminal, listed in its folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from mlcl.types import Stream


def tell_images(stream: Stream, folder: Path, console: Console) -> None:
    """images.tsv, if there is anything to tell: a line an image, with its name and what is wrong with it."""
    from mlcl import store
    from mlcl.data.gather import counted

    images = stream[-1].test.images
    kinds = (("broken", images.broken, "could not be decoded and took no part"),
             ("repaired", images.repaired, "shown in part, being cut short"))  # fmt: skip
    lines = [f"{kind}\t{why[row]}\n" for kind, why, _ in kinds for row in sorted(why)]
    if not lines:
        return
    store.write_text(folder / "images.tsv", "".join(lines))
    for _, why, outcome in kinds:
        if why:
            example = why[min(why)]
            said = f"{counted(len(why), 'image')} {outcome}, such as {example}"
            console.print(said, highlight=False, markup=False, soft_wrap=True)
    console.print(f"all of them: {folder / 'images.tsv'}", highlight=False, markup=False, soft_wrap=True)
