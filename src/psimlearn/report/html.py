"""Pieces of a page. Every text is escaped here, because names of channels and recordings may hold any character."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from psimlearn.legible import legible
from psimlearn.report.style import STYLE

__all__ = ["document", "facts", "figure", "number", "paragraph", "section", "table"]


def number(value: float) -> str:
    """A number with four significant digits."""
    return f"{value:.4g}"


def paragraph(text: str, kind: str = "") -> str:
    """A paragraph of plain text."""
    return f"<p{_class(kind)}>{_escaped(text)}</p>"


def facts(pairs: Mapping[str, Any]) -> str:
    """A grid of boxes, each with a value and its label."""
    boxes = "".join(f"<div><b>{_escaped(str(v))}</b><span>{_escaped(k)}</span></div>" for k, v in pairs.items())
    return f'<div class="facts">{boxes}</div>'


def table(head: Sequence[str], rows: Iterable[Sequence[Any]], ours: str | None = None) -> str:
    """A table that scrolls where it is too wide; the column with the heading `ours` is highlighted."""
    kinds = [_class("ours" if cell == ours else "") for cell in head]
    top = "".join(f"<th{kind}>{_escaped(cell)}</th>" for kind, cell in zip(kinds, head, strict=True))
    body = "".join(f"<tr>{_cells(kinds, row)}</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def _cells(kinds: Sequence[str], row: Sequence[Any]) -> str:
    return "".join(f"<td{kind}>{_escaped(str(cell))}</td>" for kind, cell in zip(kinds, row, strict=True))


def figure(svg: str, caption: str) -> str:
    """A drawing with its caption."""
    return f"<figure>{svg}<figcaption>{_escaped(caption)}</figcaption></figure>"


def section(title: str, *parts: str) -> str:
    """A heading and the parts below it."""
    return f"<section><h2>{_escaped(title)}</h2>{''.join(parts)}</section>"


def document(title: str, subtitle: str, sections: Iterable[str]) -> str:
    """The whole page."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_escaped(title)}</title><style>{STYLE}</style></head><body>"
        f'<h1>{_escaped(title)}</h1><p class="faint">{_escaped(subtitle)}</p>{"".join(sections)}</body></html>\n'
    )


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""


def _escaped(text: str) -> str:
    """Text as HTML; a page in UTF-8 can hold neither half characters nor control characters."""
    return escape(legible(text))
