"""docs/data.md: its recipes are valid, and what it says of speed is what the benchmarks found."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from mlcl.data.source import sources
from mlcl.recipe import resolve

PAGE = Path(__file__).parents[2] / "docs" / "data.md"
RESULTS = PAGE.parents[1] / "benchmarks" / "results"
TEXT = PAGE.read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```toml\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_recipes(block: str) -> None:
    tree = tomllib.loads(block)
    assert resolve(tree).source.name == tree["data"]["source"]


def test_every_source_is_on_the_page() -> None:
    shown = {tomllib.loads(block)["data"]["source"] for block in BLOCKS} | {"split-wide", "scenes"}
    shipped = {name for name, kind in sources().items() if kind.__module__.startswith("mlcl.")}
    assert shown >= shipped  # other tests register their own


# what the page says was measured, and the bars that it was measured against


def result(name: str) -> dict[str, Any]:
    return json.loads((RESULTS / name).read_text(encoding="utf-8"))  # type: ignore[no-any-return]


def test_the_authors_tasks_are_reproduced_row_by_row() -> None:
    checks = {name: result("verify_splits.json")[name] for name in ("split-coco", "split-wide")}
    for rows in checks.values():
        assert all(row["good"] for row in rows)
    found = {row["what"]: row["found"] for row in checks["split-coco"]}
    assert found["training rows equal to the index"] == 65072
    assert found["dealt: share of specific images"] == pytest.approx(0.365, abs=0.0005)
    assert found["dealt: largest/smallest task"] == pytest.approx(1.9, abs=0.05)
    assert "36.5 %" in TEXT
    assert "1.9 times the images of the smallest, against 2.8 times" in TEXT


def test_a_million_rows() -> None:
    measured = result("read_table.json")
    assert (measured["rows"], measured["classes"]) == (1_000_000, 80)
    assert measured["table and stream"]["seconds"] < 60
    assert measured["table and stream"]["gigabytes"] < 1
    assert "within a minute and 1 GB" in TEXT


SIZES = (224, 256, 448, 512)


@pytest.mark.parametrize(
    ("what", "label"),
    [
        ("resize", "decoder and resize alone"),
        ("decode", "from bytes in memory, checked and turned upright"),
        ("files", "from files"),
    ],
)
def test_the_table_of_decoding(what: str, label: str) -> None:
    ratios = result("decode.json")["640 x 480"]["ratios"]
    cells = [f"{ratios[f'to {size} px'][f'{what} / bare (simplejpeg)']:.2f}" for size in SIZES]
    assert f"| {label} | {' | '.join(cells)} |" in TEXT


def test_what_limits_decoding() -> None:
    rate = result("decode.json")["640 x 480"]["images_per_second"]
    bare = 1000 / rate["bare simplejpeg"]
    a, b, c = (1000 / rate[f"resize simplejpeg {size}"] - bare for size in SIZES[1:])
    assert f"takes {bare:.2f} ms for an image, so 0.9 leaves {bare / 0.9 - bare:.2f} ms for all else" in TEXT
    assert f"takes {a:.2f} ms to 256, {b:.2f} ms to 448 and {c:.2f} ms to 512" in TEXT
    gain = rate["bare, rough colours"] / rate["bare simplejpeg"] - 1
    assert f"would make the decoder {gain:.0%} faster" in TEXT


def test_decoding() -> None:
    """As the page says: at its own speed where a JPEG can be decoded at half its sides, and not elsewhere."""
    small, large = (result("decode.json")[size]["ratios"] for size in ("640 x 480", "2016 x 1512"))
    bare, packed = "files / bare (simplejpeg)", "packed / files (simplejpeg)"
    assert small["to 224 px"][bare] >= 0.9
    assert all(row[bare] > 0.97 for row in large.values())
    assert all(large[f"to {size} px"][bare] > 1.05 for size in (224, 256))
    assert all(row[packed] >= 10 for row in (*small.values(), *large.values()))
    ratios = [row[packed] for row in small.values()]
    assert 55 < min(ratios) < max(ratios) < 450
    assert "60 to 400 times as fast" in TEXT
