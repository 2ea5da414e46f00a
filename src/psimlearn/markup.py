"""Pieces of HTML for pages and notebooks. Every text is escaped here: names may hold any character.

A card is the picture of one value in a notebook. It takes the colours of the notebook, light or dark, and needs no
other file.
"""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from math import isfinite
from typing import Any

from psimlearn.legible import legible

__all__ = ["card", "chart", "escaped", "paragraph", "table"]

STYLE = (
    "font: 13px/1.45 system-ui, sans-serif; color: inherit; border: 1px solid rgba(128,128,128,.4); "
    "border-radius: 6px; padding: 8px 12px; margin: 4px 0; max-width: 46em; overflow-x: auto"
)
FACT = "display: inline-block; margin: 2px 16px 2px 0; white-space: nowrap"
FAINT = "opacity: .7; font-weight: normal"
COLOURS = ("#2f7de1", "#8a8f98", "#c2810c", "#2b8a3e", "#9c36b5", "#d9480f")
"""Colours that can be told apart on a white and on a black page; the first is ours."""
WIDTH, HEIGHT, LEFT, BOTTOM = 300, 110, 8, 18
"""The size of a chart, and the room beside and below it."""
LONGEST = 60
"""The most characters of a value in a card."""


def escaped(text: str) -> str:
    """Text as HTML; a page in UTF-8 can hold neither half characters nor control characters."""
    return escape(legible(text))


def card(title: str, facts: Mapping[str, Any], *parts: str) -> str:
    """A box with a title, facts in a row, and parts that are HTML already."""
    boxes = "".join(
        f'<span style="{FACT}"><span style="{FAINT}">{escaped(name)}</span> {escaped(_short(value))}</span>'
        for name, value in facts.items()
    )
    return f'<div style="{STYLE}"><b>{escaped(title)}</b><div>{boxes}</div>{"".join(parts)}</div>'


def paragraph(text: str) -> str:
    """A line of plain text in a card."""
    return f'<div style="margin-top: 4px">{escaped(text)}</div>'


def table(head: Sequence[str], rows: Iterable[Sequence[Any]], best: Sequence[int | None] = ()) -> str:
    """A small table in a card; in each column, the row in the place that `best` says is bold."""
    cell = "padding: 1px 10px 1px 0; border: 0; background: none; text-align: {}"

    def cells(row: Sequence[Any], tag: str, number: int | None) -> str:
        return "".join(
            f'<{tag} style="{cell.format("left" if i == 0 else "right")}; {_weight(tag, best, i, number)}">'
            f"{escaped(_short(entry))}</{tag}>"
            for i, entry in enumerate(row)
        )

    lines = [cells(head, "th", None), *(cells(row, "td", number) for number, row in enumerate(rows))]
    body = "".join(f'<tr style="background: none">{line}</tr>' for line in lines)
    style = "border-collapse: collapse; font: inherit; color: inherit; margin: 6px 0 2px"
    return f'<table style="{style}">{body}</table>'


def _weight(tag: str, best: Sequence[int | None], column: int, row: int | None) -> str:
    if tag == "th":
        return FAINT
    return f"font-weight: bold; color: {COLOURS[0]}" if column < len(best) and best[column] == row else ""


def chart(lines: Mapping[str, Sequence[float]], caption: str, *, zero: bool = False) -> str:
    """A small picture of lines with their names; numbers that are not finite leave gaps.

    Args:
        lines: by name, numbers at equal distances.
        caption: the meaning of the picture, for screen readers and below it.
        zero: whether the picture begins at zero.
    """
    numbers = [value for line in lines.values() for value in line if isfinite(value)]
    longest = max((len(line) for line in lines.values()), default=0)
    if longest < 2 or not numbers:
        return ""
    low, high = 0.0 if zero else min(numbers), max(numbers)
    across, up = (WIDTH - 2 * LEFT) / (longest - 1), (HEIGHT - BOTTOM - 6) / ((high - low) or 1.0)
    drawn = []
    for number, (name, line) in enumerate(lines.items()):
        points = [(LEFT + i * across, HEIGHT - BOTTOM - (value - low) * up) for i, value in enumerate(line)]
        colour, width = COLOURS[number % len(COLOURS)], 2.2 if number == 0 else 1.3
        pen = f'fill="none" stroke="{colour}" stroke-width="{width}"'
        drawn.append(f'<path d="{_path(points)}" {pen}><title>{escaped(name)}</title></path>')
    edge = f'<path d="M{LEFT} {HEIGHT - BOTTOM}H{WIDTH - LEFT}" stroke="currentColor" stroke-opacity=".4"/>'
    keys = "".join(
        f'<span style="{FACT}"><span style="color: {COLOURS[i % len(COLOURS)]}">&#9644;</span> {escaped(name)}</span>'
        for i, name in enumerate(lines)
    )
    return (
        f'<div style="margin-top: 6px"><svg role="img" aria-label="{escaped(caption)}" width="{WIDTH}" '
        f'height="{HEIGHT - BOTTOM + 4}" viewBox="0 0 {WIDTH} {HEIGHT - BOTTOM + 4}" style="max-width: 100%">'
        f'{edge}{"".join(reversed(drawn))}</svg><div>{keys}</div><div style="{FAINT}">{escaped(caption)}</div></div>'
    )


def _path(points: Iterable[tuple[float, float]]) -> str:
    """A line through points, with gaps where a point is not finite."""
    path, pen = [], "M"
    for x, y in points:
        if isfinite(y):
            path.append(f"{pen}{x:.1f} {y:.1f}")
            pen = "L"
        else:
            pen = "M"
    return "".join(path)


def _short(value: Any) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 2]}.."
