"""Single pages say what is: methods, decisions, dependencies, run folders, the layout, CI, the changelog."""

from __future__ import annotations

import json
import os
import re
import tomllib
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from mlcl import learners, store

ROOT = Path(__file__).parents[1]


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_every_method_has_its_section() -> None:
    sections = re.findall(r"^## (.+)$", text("docs/methods.md"), re.MULTILINE)
    assert sorted(sections) == sorted(
        name for name, kind in learners().items() if kind.__module__.startswith("mlcl.")
    )


DECISIONS = re.findall(r"^\| <a id=\"d\d+\"></a>(D\d+) \| [^|]+ \| `(\w+)` = ([^|]+) \|", text("docs/decisions.md"), re.MULTILINE)  # fmt: skip  # noqa: E501


@pytest.mark.parametrize(("number", "key", "values"), DECISIONS, ids=[d[0] for d in DECISIONS])
def test_decisions(number: str, key: str, values: str) -> None:
    kind = learners()["er" if key == "capacity" else "agcn++"].Config
    listed = [tomllib.loads(f"v = {v}")["v"] for v in re.findall(r"`([^`]+)`", values)]
    assert listed[0] == getattr(kind(), key)
    hint = get_type_hints(kind)[key]
    possible = {True, False} if hint is bool else set(get_args(hint)) or set(listed)
    assert set(listed) == possible


def test_all_decisions_are_told() -> None:
    found = re.findall(r"<a id=\"d(\d+)\"></a>D(\d+)", text("docs/decisions.md"))
    assert found == [(str(n), str(n)) for n in range(1, 20)]
    assert len(DECISIONS) == 11


def test_dependencies_are_told() -> None:
    project = tomllib.loads(text("pyproject.toml"))["project"]
    page = text("docs/dependencies.md")
    for requirement in project["dependencies"]:
        assert f"| `{package(requirement)}` |" in page
    for extra, requirements in project["optional-dependencies"].items():
        row = next((line for line in page.splitlines() if re.match(rf"\|[^|]*`{extra}`", line)), "")
        for requirement in requirements:
            assert f"`{package(requirement)}`" in row, extra


def package(requirement: str) -> str:
    return re.split(r"[<>=\[]", requirement)[0]


def test_a_run_folder_is_as_described(made: Path) -> None:
    """Every file of a real run has its section, and every key of its JSON files is shown."""
    page = text("docs/run-folder.md")
    described = set(re.findall(r"`([\w.-]+)`", "".join(re.findall(r"^## .+$", page, re.MULTILINE))))
    files = [path for path in made.rglob("*") if path.is_file()]
    found = {re.sub(r"task-\d+", "task-NN", path.name) for path in files}
    assert described - found == {"images.tsv"}  # of drawn images none is broken
    assert found <= described
    for name in ("run.json", "stream.json", "agcn++/results.json"):
        section = page.split(f"## `{Path(name).name}`\n", 1)[1].split("\n## ", 1)[0]
        (shown,) = re.findall(r"```json\n(.*?)```", section, re.DOTALL)
        agree(json.loads(shown), store.read_json(made / name), name)
    shown = page.split("## `log.jsonl`\n", 1)[1].split("```\n")[1].splitlines()
    entries = store.read_log(made / "agcn++" / "log.jsonl")
    assert {key for line in shown for key in json.loads(line)} == {key for entry in entries for key in entry}


def agree(shown: Any, real: Any, where: str) -> None:
    """Same keys, level by level; a key `...` says that there are more."""
    if isinstance(shown, dict):
        assert set(shown) - {"..."} <= set(real), where
        for key in set(real) & set(shown) if "..." in shown or where.endswith(".ap") else real:
            assert key in shown, f"{where}.{key}"
            agree(shown[key], real[key], f"{where}.{key}")
    elif isinstance(shown, list) and shown:
        agree(shown[0], real[0], where)


def test_the_layout_in_contributing_is_the_tree() -> None:
    page = text("CONTRIBUTING.md")
    (listing,) = re.findall(r"^mlcl/\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    inside, outside = [], []
    for line in listing.splitlines():
        named = re.match(r"(\w+(\.py|/)\s+)+", re.sub(r"^[├└│─ ]+", "", line))
        names = named[0].split() if named else []
        if line.startswith(("├── ", "└── ")):
            inside += names
        elif not line.startswith("│"):
            outside += names
    there = [p.name + "/" * p.is_dir() for p in (ROOT / "mlcl").iterdir() if p.name[0] not in "._"]
    assert sorted(inside) == sorted(set(there) - {"py.typed", "version.py"})
    assert all((ROOT / name).is_dir() for name in outside)


def test_ci_does_what_the_pages_promise() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    steps = re.findall(r"^step (.+)$", script.read_text(encoding="utf-8"), re.MULTILINE)
    promised = re.findall(r"^(ruff check|ruff format|mypy|lint-imports)\b", text("CONTRIBUTING.md"), re.MULTILINE)  # fmt: skip  # noqa: E501
    for gate in promised:
        assert any(step.startswith(gate) for step in steps), gate
    assert "pytest" in steps
    assert any("pip install" in step and "[dev" in step for step in steps)


def test_the_changelog_begins_with_what_is_unreleased() -> None:
    headings = re.findall(r"^## (.+)$", text("CHANGELOG.md"), re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert all(re.fullmatch(r"\d+\.\d+\.\d+ - \d{4}-\d\d-\d\d", heading) for heading in headings[1:])
