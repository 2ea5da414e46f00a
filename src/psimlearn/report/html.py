"""Pieces of a page. Every text is escaped, because names of channels and recordings may hold any character."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from psimlearn.markup import escaped
from psimlearn.report.style import STYLE

__all__ = ["document", "facts", "figure", "number", "paragraph", "section", "table", "terms"]


def number(value: float) -> str:
    """A number with four significant digits."""
    return f"{value:.4g}"


def paragraph(text: str, kind: str = "") -> str:
    """A paragraph of plain text."""
    return f"<p{_class(kind)}>{escaped(text)}</p>"


def facts(pairs: Mapping[str, Any]) -> str:
    """A grid of boxes, each with a value and its label."""
    boxes = "".join(f"<div><b>{escaped(str(v))}</b><span>{escaped(k)}</span></div>" for k, v in pairs.items())
    return f'<div class="facts">{boxes}</div>'


def table(head: Sequence[str], rows: Iterable[Sequence[Any]], best: Sequence[int] = ()) -> str:
    """A table that scrolls where it is too wide; in each row, the cell in the place that `best` says is highlighted."""
    top = "".join(f'<th scope="col">{escaped(cell)}</th>' for cell in head)
    places = list(best)
    body = "".join(f"<tr>{_cells(row, places[i] if places else None)}</tr>" for i, row in enumerate(rows))
    return f'<div class="wide"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def _cells(row: Sequence[Any], best: int | None) -> str:
    return "".join(f"<td{_class('best' if i == best else '')}>{escaped(str(cell))}</td>" for i, cell in enumerate(row))


def figure(svg: str, caption: str) -> str:
    """A drawing with its caption, which screen readers say in place of the drawing."""
    labelled = svg.replace('role="img"', f'role="img" aria-label="{escaped(caption)}"', 1)
    return f"<figure>{labelled}<figcaption>{escaped(caption)}</figcaption></figure>"


def terms(pairs: Mapping[str, str]) -> str:
    """A list of words with what they mean."""
    return f"<dl>{''.join(f'<dt>{escaped(k)}</dt><dd>{escaped(v)}</dd>' for k, v in pairs.items())}</dl>"


def section(title: str, *parts: str) -> str:
    """A heading and the parts below it."""
    return f"<section><h2>{escaped(title)}</h2>{''.join(parts)}</section>"


def document(title: str, subtitle: str, sections: Iterable[str]) -> str:
    """The whole page."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escaped(title)}</title><style>{STYLE}</style></head><body>"
        f'<h1>{escaped(title)}</h1><p class="faint">{escaped(subtitle)}</p>{"".join(sections)}</body></html>\n'
    )


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""
