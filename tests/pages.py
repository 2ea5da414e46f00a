"""The pages of the documentation: their blocks, and whether what they show is what a block prints."""

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
RUN, SHOWN = ("python", "sh"), ("text", "matlab", "math", "json")
"""Languages of blocks that run, and of blocks that are only shown."""
AS_USERS = {"PYTHONPATH": str(ROOT / "src"), "OPENBLAS_NUM_THREADS": "1", "MPLBACKEND": "agg"}
MACHINES = 0.02
"""How far a number may be from the printed one, relatively: machines round differently, and a fit carries it on."""
OF_THE_MOMENT = re.compile(r'(?<="began":)[\d.]+')
"""Times of the run, which are shown and not compared."""
NUMBER = r"-?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?"
TOKEN = re.compile(rf"(?<![\w.]){NUMBER}(?!\w)|\w+|[^\w\s]")


class Block(NamedTuple):
    language: str
    text: str
    line: int
    """The line of the page at which the block begins."""


@cache
def parsed(page: Path) -> list[Token]:
    return MarkdownIt("commonmark").enable("table").parse(page.read_text(encoding="utf-8"))


def blocks(page: Path) -> list[Block]:
    """The fenced and the indented blocks of a page; an indented block has no language."""
    return [
        Block(token.info.strip(), token.content, token.map[0] + 1 if token.map else 0)
        for token in parsed(page)
        if token.type in ("fence", "code_block")
    ]


def of_pages(pages: list[Path]) -> list[object]:
    return [pytest.param(page, id=page.relative_to(ROOT).as_posix()) for page in pages]


def not_printed(shown: str, printed: str) -> str:
    """The first line that is shown and was not printed; lines may be left out, and broken between words."""
    given, place = _tokens(printed), 0
    for line in shown.splitlines():
        wanted = _tokens(line)
        starts = range(place, len(given) - len(wanted) + 1)
        found = next((i for i in starts if all(map(_alike, wanted, given[i : i + len(wanted)]))), None)
        if found is None:
            return line
        place = found + len(wanted)
    return ""


def _tokens(text: str) -> list[str]:
    return TOKEN.findall(OF_THE_MOMENT.sub("", text))


def _alike(shown: str, printed: str) -> bool:
    """The same word, the same whole number, or fractions as near as machines and the shown digits let them be."""
    if shown == printed or "." not in shown or not all(re.fullmatch(NUMBER, each) for each in (shown, printed)):
        return shown == printed
    digit = 10.0 ** -len(shown.partition("e")[0].partition(".")[2])
    return abs(float(shown) - float(printed)) <= max(MACHINES * abs(float(printed)), digit)
