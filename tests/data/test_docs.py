"""The recipes in docs/data.md are valid."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from mlcl.data.source import sources
from mlcl.recipe import resolve

PAGE = Path(__file__).parents[2] / "docs" / "data.md"
BLOCKS = re.findall(r"^```toml\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_recipes(block: str) -> None:
    tree = tomllib.loads(block)
    assert resolve(tree).source.name == tree["data"]["source"]


def test_every_source_is_on_the_page() -> None:
    shown = {tomllib.loads(block)["data"]["source"] for block in BLOCKS} | {"split-wide", "scenes"}
    shipped = {name for name, kind in sources().items() if kind.__module__.startswith("mlcl.")}
    assert shown >= shipped  # other tests register their own
