"""The pieces that sections are made of. What is called text is escaped here; the rest is HTML already."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from mlcl.report.charts import mark
from mlcl.report.data import Method


def section(title: str, lead: str, body: str) -> str:
    return f"<section><h2>{title}</h2><p>{lead}</p>{body}</section>"


def details(title: str, body: str) -> str:
    return f"<details><summary>{title}</summary>{body}</details>"


def figure(caption: str, body: str) -> str:
    return f"<figure><figcaption>{caption}</figcaption>{body}</figure>"


def grid(figures: Sequence[str], css: str = "many") -> str:
    """Beside each other where the page is wide enough."""
    return f'<div class="{css}">{"".join(figures)}</div>'


def name(method: Method) -> str:
    """A method's mark and label, and how far it is."""
    done, of = method.learnt
    rest = "" if method.finished else f" <small>{done} of {of}</small>"
    return f'<span class="name">{mark(method.look.mark, method.css)}{escape(method.label)}{rest}</span>'


def table(
    heads: Sequence[str], rows: Iterable[tuple[str, Sequence[str]]], label: str, groups: str = ""
) -> str:
    """`heads` and `label` (what the table holds, for those who cannot see it) are text; `groups` is a row."""
    top = "".join(f'<th scope="col">{escape(text)}</th>' for text in heads)
    body = "".join(
        f'<tr><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'
        for first, cells in rows
    )
    inner = f"<thead>{groups}<tr>{top}</tr></thead><tbody>{body}</tbody>"
    return scroll(f'<table class="numbers">{inner}</table>', label)


def group_row(groups: Iterable[tuple[str, int]]) -> str:
    """Heads (HTML) over several columns each, to the right of the row names."""
    cells = "".join(f'<th colspan="{width}" scope="colgroup">{head}</th>' for head, width in groups)
    return f"<tr><td></td>{cells}</tr>"


def scroll(inner: str, label: str) -> str:
    """Wide things scroll by themselves, by keyboard too, and the page stays still."""
    return f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(label)}">{inner}</div>'
