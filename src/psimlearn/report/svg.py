"""Figures as SVG inside a page, in the colours of the page: dark where it is dark."""

import io
import re
from collections.abc import Callable
from typing import Any

from psimlearn.extras import imported

__all__ = ["drawn"]

INK, FAINT = "#0a0b0c", "#0d0e0f"
"""Stand-ins for colours that the page decides."""
WIDTH = 4.0
"""Inches: about as wide as a phone, so that letters keep their size there."""


def drawn(draw: Callable[[Any], None], n_axes: int = 1, height: float = 2.7, number: int = 0) -> str:
    """A figure that a function draws into one axes or an array of them, as an SVG element.

    Args:
        draw: takes the axes.
        n_axes: how many of them, below each other.
        height: in inches.
        number: of the figure on its page, so that names in it are used once.
    """
    matplotlib, figures = imported("matplotlib", "plot"), imported("matplotlib.figure", "plot")
    with matplotlib.rc_context(_style()):
        figure = figures.Figure(figsize=(WIDTH, height), layout="constrained")
        axes = figure.subplots(n_axes, 1, sharex=n_axes > 1)
        draw(axes)
        first = axes if n_axes == 1 else axes[0]
        handles, labels = first.get_legend_handles_labels()
        if labels:
            figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
        text = io.StringIO()
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
    }


def _for_page(svg: str, number: int) -> str:
    """Without what a page does not want: a prologue, a fixed size, colours and fonts of its own, names used twice."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r'\1 role="img"', svg, count=1)
    svg = re.sub(r'(?<= id=")(?=[^"]+")', f"f{number}-", svg)
    svg = re.sub(r'(?<=url\(#)|(?<=href="#)', f"f{number}-", svg)
    svg = svg.replace(INK, "var(--ink)").replace(FAINT, "var(--faint)")
    return re.sub(r"font: ([\d.]+px) [^;\"]*", r"font: \1 var(--font)", svg)
