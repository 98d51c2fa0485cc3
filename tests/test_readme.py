"""The README is short, shows what a real run draws, and every line of it that can be run does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from PIL import Image

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "README.md").read_text(encoding="utf-8")
SHELL = re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
(CODE,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_it_opens_with_a_sentence_a_picture_and_two_commands() -> None:
    title, sentence, picture = PAGE.split("\n\n")[:3]
    assert title == "# mlcl"
    assert len(re.findall(r"[.!?](?:\s|\*|$)", sentence)) == 1
    assert picture.startswith("![")
    assert SHELL == ["pip install -e . && mlcl run\n", "pip install -e '.[dev]' && pytest\n"]


def test_the_picture_is_a_report() -> None:
    with Image.open(ROOT / "docs" / "pictures" / "run.png") as image:
        assert image.size == (1600, 800)
    assert "`runs/readme/report.png`" in PAGE


def test_ten_lines_of_python(capsys: pytest.CaptureFixture[str]) -> None:
    """As they stand."""
    lines = [line for line in CODE.splitlines() if line.strip()]
    assert len(lines) <= 10
    names: dict[str, object] = {"__name__": "readme"}
    exec(compile(CODE, "README.md", "exec"), names)
    said = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in said[:2]] == ["fine-tuning", "agcn++"]
    assert all(0 < float(line.split()[1]) <= 1 for line in said[:2])
    assert len(said) == 3
