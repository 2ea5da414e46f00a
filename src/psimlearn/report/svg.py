"""Figures as SVG elements of a page, in the colours of the page, whether it is light or dark."""

import io
import re
import warnings
from collections.abc import Callable
from typing import Any

from psimlearn.extras import imported
from psimlearn.legible import legible

__all__ = ["drawn"]

INK, FAINT = "#0a0b0c", "#0d0e0f"
"""Placeholders: `_for_page` replaces them by the variables of the style sheet."""
WIDTH = 4.0
"""In inches: about as wide as a phone, so that letters keep their size on one."""


def drawn(draw: Callable[[Any], None], n_axes: int = 1, height: float = 2.7, number: int = 0) -> str:
    """Draw one figure and return it as an SVG element.

    Args:
        draw: draws into the axes that it is given: one, or an array where `n_axes` is larger than one.
        n_axes: how many axes, below each other.
        height: the height of the figure in inches.
        number: the number of the figure on its page, a prefix that makes its names unique there.
    """
    matplotlib, figures = imported("matplotlib", "plot"), imported("matplotlib.figure", "plot")
    with matplotlib.rc_context(_style()), warnings.catch_warnings():
        figure = figures.Figure(figsize=(WIDTH, height), layout="constrained")
        axes = figure.subplots(n_axes, 1, sharex=n_axes > 1)
        draw(axes)
        first = axes if n_axes == 1 else axes[0]
        handles, labels = first.get_legend_handles_labels()
        if labels:
            figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
        for written in figure.findobj(imported("matplotlib.text", "plot").Text):
            written.set_text(legible(written.get_text()))
        text = io.StringIO()
        warnings.filterwarnings("ignore", "Glyph")  # the reader's browser draws letters, with fonts of its own
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return _for_page(text.getvalue(), number)


def _style() -> dict[str, Any]:
    lines = ("axes.edgecolor", "xtick.color", "ytick.color")
    words = ("text.color", "axes.labelcolor", "xtick.labelcolor", "ytick.labelcolor")
    return {
        **dict.fromkeys(lines, FAINT),
        **dict.fromkeys(words, INK),
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "axes.unicode_minus": False,
        "grid.color": FAINT,
        "grid.alpha": 0.35,
        "grid.linewidth": 0.5,
        "font.size": 9,
        "legend.fontsize": 9,
        "svg.fonttype": "none",
        "svg.hashsalt": "psimlearn",
        "text.parse_math": False,
    }


def _for_page(svg: str, number: int) -> str:
    """An SVG document as an element of a page: no prologue or fixed size, the page's colours and font, unique names."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r'\1 role="img"', svg, count=1)
    return re.sub(r"<[^>]*>", lambda tag: _tag_for_page(tag[0], number), svg)  # names stand between tags


def _tag_for_page(tag: str, number: int) -> str:
    tag = re.sub(r'(?<= id=")(?=[^"]+")', f"f{number}-", tag)
    tag = re.sub(r'(?<=url\(#)|(?<=href="#)', f"f{number}-", tag)
    tag = tag.replace(INK, "var(--ink)").replace(FAINT, "var(--faint)")
    return re.sub(r"font: ([\d.]+px) [^;\"]*", r"font: \1 var(--font)", tag)
