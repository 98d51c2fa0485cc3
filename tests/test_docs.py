"""The pages tell the truth: what is generated is fresh, links lead somewhere, code runs, commands parse."""

from __future__ import annotations

import csv
import importlib.util
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from PIL import Image

from mlcl import load_recipe
from mlcl.cli import app
from mlcl.recipe import resolve

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
PAGES += sorted((ROOT / "docs").rglob("*.md"))
OWN_TESTS = ("CONTRIBUTING.md", "README.md")  # their Python is followed elsewhere
UsageError = typer.BadParameter.__base__  # typer carries its own click


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


def test_extras_exist() -> None:
    extras = tomllib.loads(text(ROOT / "pyproject.toml"))["project"]["optional-dependencies"]
    assert set(re.findall(r"mlcl\[(\w+)\]", "".join(map(text, PAGES)))) <= set(extras)
