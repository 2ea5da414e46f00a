"""Names of channels that are formulas, styles, tags or commands to others are text here."""

import re
from dataclasses import replace
from xml.etree import ElementTree

import matplotlib
import matplotlib.pyplot as plt
import pytest

from models import gappy, model_of_gappy
from psimlearn import plot_forecast
from psimlearn.report import html, model_page
from psimlearn.report.svg import drawn

matplotlib.use("agg")

NAMES = [
    "$",
    "$x_$ $",
    "$\\frac{1}{$",
    "font: 9px a",
    'font: 9px a" id="b" url(#c) href="#d"',
    "#0a0b0c #0d0e0f",
    "</text><script>alert(1)</script>",
    "<metadata>a</metadata>",
    "\x1b[31m red",
    "\x00\x08\x0b",
    "\ud800 half",
    "\u202eright to left",
    "温度 🌡",
]


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_names_are_drawn_as_they_are(name: str) -> None:
    """In one figure, names are text and nothing else: the figure is the one of a harmless name."""

    def figure(label: str) -> ElementTree.Element:
        text = drawn(lambda ax: ax.set_title(label, fontsize=9), number=3)
        text.encode()
        return ElementTree.fromstring(text.replace("xlink:href", "href"))

    received, plain = figure(name), figure("plain")
    texts = ["".join(part.itertext()).strip() for part in (received, plain)]
    assert re.sub(r"\\(x..|u....)", "", texts[0]).endswith(re.sub(r"[\x00-\x1f\ud800\u202e]", "", name).strip())
    attributes = [
        [sorted(part.attrib) for part in tree.iter() if not part.tag.endswith("style")] for tree in (received, plain)
    ]
    assert attributes[0] == attributes[1]


def test_names_on_the_axes_of_a_plot() -> None:
    data = replace(gappy(1)[:1], names=("$\\frac{", "a $b$"))
    axes = plot_forecast(model_of_gappy(), data)
    assert [ax.get_ylabel() for ax in axes] == ["$\\frac{", "a $b$"]
    axes[0].figure.draw_without_rendering()
    plt.close(axes[0].figure)


def test_a_page_with_such_names() -> None:
    data = replace(gappy(1), names=("$\\frac{ font: 9px a\x1b", "\ud800"))
    filter = replace(model_of_gappy().filter_, names=data.names)
    page = model_page(filter, {}, data, {"PSIM": [1.0, 2.0]})
    page.encode()
    assert "\x1b" not in page
    assert "\\x1b" in page
    assert html.paragraph("\x1b<") == "<p>\\x1b&lt;</p>"
