"""The pages tell the truth: what is generated is fresh, links lead somewhere, code runs, commands parse."""

from __future__ import annotations

import csv
import importlib.util
import json
import os
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
import typer
from PIL import Image
from typer.testing import CliRunner

from mlcl import learners, load_recipe, store
from mlcl.cli import app
from mlcl.recipe import resolve

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
PAGES += sorted((ROOT / "docs").rglob("*.md"))
OWN_TESTS = ("CONTRIBUTING.md", "README.md")  # their Python is followed elsewhere
UsageError = typer.BadParameter.__base__  # typer carries its own click
TINY = ("data.train=48", "data.test=24", "data.size=32", "stream.way=12", "learner.backbone.name=tiny",
        "learner.backbone.size=32")  # fmt: skip


def text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text(page), re.MULTILINE | re.DOTALL)


def prose(page: Path) -> str:
    """The page without its code blocks."""
    return re.sub(r"^```.*?^```", "", text(page), flags=re.MULTILINE | re.DOTALL)


def named(values: Iterator[Any] | list[Any], name: Any = None) -> list[Any]:
    return [pytest.param(*value, id=f"{value[0].stem}-{n}") for n, value in enumerate(values)]


# links

LINKS = [(page, link) for page in PAGES for link in re.findall(r"\]\(([^)\s]+)\)", prose(page))]


def anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings, and those written out."""
    found = set(re.findall(r'<a id="([^"]+)">', text(page)))
    for heading in re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        slug = base = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        number = 0
        while slug in found:
            number += 1
            slug = f"{base}-{number}"
        found.add(slug)
    return found


@pytest.mark.parametrize(("page", "link"), named(LINKS))
def test_links(page: Path, link: str) -> None:
    if "://" in link:
        assert link.startswith("https://")
        return
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    assert target.exists(), f"{page.name}: {link}"
    assert target.is_relative_to(ROOT)
    if anchor:
        assert anchor in anchors(target), f"{page.name}: {link}"


def test_every_page_is_reached_from_the_readme() -> None:
    reached, waiting = set(), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in reached or page.suffix != ".md":
            continue
        reached.add(page)
        links = [link.partition("#")[0] for at, link in LINKS if at == page and "://" not in link]
        waiting += [(page.parent / link).resolve() for link in links if link]
    assert set(PAGES) <= reached


# what is generated


def generator() -> Any:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_generated_blocks_are_fresh() -> None:
    generate = generator()
    stale = [page.name for page in generate.pages() if generate.filled(text(page)) != text(page)]
    assert not stale, "run: python docs/generate.py"


def test_every_block_is_used() -> None:
    used = set(re.findall(r"<!-- generated: ([^>]+?) -->", "".join(map(text, PAGES))))
    assert used == set(generator().BLOCKS)


# code


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real run's folder, by its usual name."""
    small = [word for setting in (*TINY, "loop.log_every=1") for word in ("--set", setting)]
    folder = tmp_path_factory.mktemp("made") / "runs" / "scenes-001"
    result = CliRunner().invoke(app, ["run", "--method", "agcn++", *small, "--out", str(folder)])
    assert result.exit_code == 0, result.output
    return folder


@pytest.fixture
def place(tmp_path: Path, made: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with what the pages speak of: a run, some photos and a table of their labels."""
    (tmp_path / "runs").symlink_to(made.parent)
    (tmp_path / "photos").mkdir()
    with (tmp_path / "labels.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["path", "cat", "dog"])
        for number in range(20):
            Image.new("RGB", (40, 30), (12 * number, 90, 90)).save(tmp_path / "photos" / f"{number}.jpg")
            rows.writerow([f"{number}.jpg", number % 2, (number + 1) % 3 == 0])
    monkeypatch.chdir(tmp_path)
    return tmp_path


PYTHON = [(p, code) for p in PAGES if p.name not in OWN_TESTS for code in blocks(p, "python")]


@pytest.mark.parametrize(("page", "code"), named(PYTHON))
def test_python(page: Path, code: str, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(code, capsys)


def run(code: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Runs it; a print with a comment behind it must print that."""
    exec(compile(code, "page", "exec"), {"__name__": "page"})
    said = capsys.readouterr().out
    for promised in re.findall(r"^print\(.*\)  # (.+)$", code, re.MULTILINE):
        assert promised in said.splitlines()
    return said


TOML = [(p, block) for p in PAGES if p.parent != ROOT / "docs" / "results" for block in blocks(p, "toml")]


@pytest.mark.parametrize(("page", "block"), named([(p, b) for p, b in TOML if p.stem != "grid"]))
def test_recipes_on_pages(page: Path, block: str) -> None:
    resolve(tomllib.loads(block))


# commands


def commands(page: Path) -> Iterator[str]:
    """Lines of shell blocks that begin with mlcl, and what prose quotes."""
    for block in blocks(page, "sh") + blocks(page, "console"):
        for line in re.split(r"\n|&&", block):
            if line.strip().startswith("mlcl "):
                yield line.strip()
    yield from (quoted for quoted in re.findall(r"`(mlcl [a-z-][^`]*)`", prose(page)) if "..." not in quoted)


COMMANDS = [(page, command) for page in PAGES for command in dict.fromkeys(commands(page))]


@pytest.mark.parametrize(("page", "command"), named(COMMANDS))
def test_commands_parse(page: Path, command: str) -> None:
    words = shlex.split(command, comments=True)[1:]
    try:
        name, values = parsed(words)
    except UsageError as error:
        if "Missing" in type(error).__name__ and all(re.fullmatch("[a-z]+", word) for word in words):
            return  # named, not called
        raise
    if name != "run" or values["plugin"] or values["resume"] or re.search(r"\b[A-Z]{3,}\b", command):
        return
    settings = list(values["settings"] or [])
    settings += [{"data": {"source": values["data"]}}] * bool(values["data"])
    settings += [{"stream": {"scenario": values["scenario"]}}] * bool(values["scenario"])
    settings += [{"methods": values["method"]}] * bool(values["method"])
    file = Path(values["recipe"])
    if file.suffix == ".toml":  # stands on the page, or is what runs leave behind
        shown = [b for b in blocks(page, "toml") if b.startswith(f"# {file.name}\n")]
        assert shown or file.name == "config.toml" or file.parts[0] == "runs"
        file = Path("scenes")
    load_recipe(str(file), settings)


def parsed(words: list[str]) -> tuple[str, dict[str, Any]]:
    """The command's name and its options, without running it."""
    context = None
    command: Any = typer.main.get_command(app)
    name = "mlcl"
    while True:
        try:
            context = command.make_context(name, list(words), parent=context)
        except typer.Exit:  # --help, --version
            return name, {}
        words = [*getattr(context, "_protected_args", []), *context.args]
        if not hasattr(command, "resolve_command") or not words:
            return name, context.params
        name, command, words = command.resolve_command(context, words)


def test_a_wrong_command_is_found() -> None:
    for wrong in (["run", "--no-such-option"], ["no-such-command"], ["run", "--seed", "none"]):
        with pytest.raises(UsageError):
            parsed(wrong)


# single pages


def test_every_method_has_its_section() -> None:
    sections = re.findall(r"^## (.+)$", text(ROOT / "docs" / "methods.md"), re.MULTILINE)
    assert sorted(sections) == sorted(
        name for name, kind in learners().items() if kind.__module__.startswith("mlcl.")
    )


DECISIONS = re.findall(r"^\| <a id=\"d\d+\"></a>(D\d+) \| [^|]+ \| `(\w+)` = ([^|]+) \|", text(ROOT / "docs" / "decisions.md"), re.MULTILINE)  # fmt: skip  # noqa: E501


@pytest.mark.parametrize(("number", "key", "values"), DECISIONS, ids=[d[0] for d in DECISIONS])
def test_decisions(number: str, key: str, values: str) -> None:
    kind = learners()["er" if key == "capacity" else "agcn++"].Config
    listed = [tomllib.loads(f"v = {v}")["v"] for v in re.findall(r"`([^`]+)`", values)]
    assert listed[0] == getattr(kind(), key)
    hint = get_type_hints(kind)[key]
    possible = {True, False} if hint is bool else set(get_args(hint)) or set(listed)
    assert set(listed) == possible


def test_all_decisions_are_told() -> None:
    found = re.findall(r"<a id=\"d(\d+)\"></a>D(\d+)", text(ROOT / "docs" / "decisions.md"))
    assert found == [(str(n), str(n)) for n in range(1, 20)]
    assert len(DECISIONS) == 9


def test_dependencies_are_told() -> None:
    project = tomllib.loads(text(ROOT / "pyproject.toml"))["project"]
    page = text(ROOT / "docs" / "dependencies.md")
    for requirement in project["dependencies"]:
        assert f"| `{package(requirement)}` |" in page
    for extra, requirements in project["optional-dependencies"].items():
        row = next((line for line in page.splitlines() if re.match(rf"\|[^|]*`{extra}`", line)), "")
        for requirement in requirements:
            assert f"`{package(requirement)}`" in row, extra
    offered = set(re.findall(r"mlcl\[(\w+)\]", "".join(map(text, PAGES))))
    assert offered <= set(project["optional-dependencies"])


def package(requirement: str) -> str:
    return re.split(r"[<>=\[]", requirement)[0]


def test_a_run_folder_is_as_described(made: Path) -> None:
    """Every file of a real run has its section, and every key of its JSON files is shown."""
    page = text(ROOT / "docs" / "run-folder.md")
    described = set(re.findall(r"`([\w.-]+)`", "".join(re.findall(r"^## .+$", page, re.MULTILINE))))
    files = [path for path in made.rglob("*") if path.is_file()]
    assert {re.sub(r"task-\d+", "task-NN", path.name) for path in files} == described
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
    page = text(ROOT / "CONTRIBUTING.md")
    (listing,) = re.findall(r"^mlcl/\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    inside, outside = [], []
    for line in listing.splitlines():
        names = re.split(r"\s{3,}", re.sub(r"^[├└│─ ]+", "", line))[0].split()
        if line.startswith(("├── ", "└── ")):
            inside += names
        elif not line.startswith("│"):
            outside += names
    there = [p.name + "/" * p.is_dir() for p in (ROOT / "mlcl").iterdir() if p.name[0] not in "._"]
    assert sorted(inside) == sorted(set(there) - {"py.typed", "version.py"})
    assert all((ROOT / name).is_dir() for name in outside)


# what CI does


def test_ci_does_what_the_pages_promise() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    steps = re.findall(r"^step (.+)$", text(script), re.MULTILINE)
    promised = re.findall(r"^(ruff check|ruff format|mypy|lint-imports)\b", text(ROOT / "CONTRIBUTING.md"), re.MULTILINE)  # fmt: skip  # noqa: E501
    for gate in promised:
        assert any(step.startswith(gate) for step in steps), gate
    assert "pytest" in steps
    assert any("pip install" in step and "[dev" in step for step in steps)


def test_the_changelog_begins_with_what_is_unreleased() -> None:
    headings = re.findall(r"^## (.+)$", text(ROOT / "CHANGELOG.md"), re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert all(re.fullmatch(r"\d+\.\d+\.\d+ - \d{4}-\d\d-\d\d", heading) for heading in headings[1:])
