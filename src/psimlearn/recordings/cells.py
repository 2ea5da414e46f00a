"""The meaning of the header and the cells of a table of text, decided here for files and for live rows alike."""

import csv
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from math import nan
from typing import NamedTuple

from psimlearn.errors import DataError

__all__ = [
    "FIRST",
    "MARKED",
    "MISSING",
    "NUMBER",
    "TRUTH",
    "USUAL",
    "Absent",
    "Header",
    "cells_of",
    "check_encoding",
    "header_of",
    "nameless",
    "number",
    "what_is_wrong",
]

MISSING = ("", "na", "n/a", "nan", "null", "none", "-nan", "#n/a")
"""Cells that mean "not observed", in small letters."""
TRUTH = {"true": 1.0, "false": 0.0}
"""Words, in small letters, that are numbers."""

NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$|^[+-]?(inf|infinity|Inf|Infinity|INF)$"
"""Two engines read this and `MARKED`, so digits are spelt out: in Python, \\d stands for the digits of all scripts."""
SPACE, APOSTROPHE = " \u00a0\u202f", "'\u2019"
SIGN = "[+\u2212-]?"  # U+2212 is the minus of typesetters
MARKED = (
    rf"^{SIGN}[$€£¥]?{SIGN}[{SPACE}]?"
    rf"([0-9]{{1,3}}([,._{APOSTROPHE}{SPACE}][0-9]{{3}})+([.,][0-9]+)?|[0-9]+(,[0-9]+)+|[0-9]*[.,]?[0-9]+)([eE][+-]?[0-9]+)?"
    rf"[{SPACE}]?[%‰$€£¥]?$"
)
"""Numbers as people write them: decimal commas, marks between thousands, signs of percent and currency."""


class Absent(NamedTuple):
    """Cells that mean "not observed": words in small letters, and numbers such as -999."""

    words: frozenset[str] = frozenset(MISSING)
    numbers: frozenset[float] = frozenset()

    @classmethod
    def of(cls, codes: Iterable[str]) -> "Absent":
        """The usual cells, and these codes; a code that is a number stands for the number, however it is written."""
        words = {code.strip().lower() for code in codes}
        numbers = {float(word) for word in words if re.fullmatch(NUMBER, word)}
        return cls(frozenset(MISSING) | words, frozenset(numbers))


USUAL = Absent()
"""Without codes of the user."""


class Header(NamedTuple):
    """The columns of a table."""

    names: list[str]
    delimiter: str = ","
    """The character between cells; tables that are not text have none, so it is ignored."""
    n_lines: int = 0
    """The number of lines before the first row."""


def nameless(place: int) -> str:
    """The name of a column without a name, by its place from 1 on."""
    return f"column {place} without a name"


FIRST = nameless(1)
"""A nameless first column: pandas and R write the numbers of rows, or their times, into it."""


def header_of(text: str, where: str, names: Sequence[str] | None = None) -> Header:
    """Decide from the first line that is not empty what the columns are. No other function reads a header of text.

    Args:
        text: the beginning of a file or of a stream.
        where: the name of the file or stream in error messages.
        names: the names of the columns if there is no header: the line is the first row, and tells the delimiter and
            the number of columns only. Without names, columns are called column1, column2, ..
    """
    lines = re.split(r"\r\n|\r|\n", text)  # splitlines would also split at form feeds, NEL and the like
    n_empty = next((i for i, line in enumerate(lines) if line.strip()), len(lines))
    if n_empty == len(lines):
        raise DataError(
            f"{where}: required a header and rows, received an empty file. Check the program that wrote it."
        )
    line = lines[n_empty]
    delimiter = max(",;\t", key=line.count)
    if names is not None:
        names = names or [f"column{i}" for i in range(1, len(cells_of(line, delimiter, f"{where}: ")) + 1)]
        return Header(_checked(names, f"{where}, given names"), delimiter, n_empty)
    here = f"{where}, line {n_empty + 1}"
    check_encoding(line, f"{here}: ")
    cells = [name.strip() for name in cells_of(line, delimiter, f"{here}: ")]
    return Header(_checked(cells, here), delimiter, n_empty + 1)


def cells_of(line: str, delimiter: str, where: str = "") -> list[str]:
    """The cells of a line. A quote must be closed on its line: an open one would swallow the rows below."""
    if '"' not in line:
        return line.split(delimiter)
    try:
        return next(csv.reader([line], delimiter=delimiter, strict=True))
    except csv.Error as error:
        raise DataError(
            f"{where}required a closing quote at the end of each cell in quotes, on the same line, received "
            f"{line[:200]!r} ({error}). Close the quote, or take line breaks out of the cell."
        ) from error


def check_encoding(line: str, where: str = "") -> None:
    """Refuse bytes that are not UTF-8, which were decoded with errors="surrogateescape"."""
    if not line.isascii() and (odd := re.search("[\udc80-\udcff]", line)):
        raise DataError(
            f"{where}required text in UTF-8, received the byte {ord(odd[0]) - 0xDC00:#x} in {line[:200]!r}. Save it "
            "with UTF-8."
        )


def _checked(names: Sequence[str], where: str) -> list[str]:
    """Names that differ and are not all numbers; a column without a name is called by its place."""
    if all(re.fullmatch(NUMBER, name) for name in names if name):
        raise DataError(
            f"{where}: required the names of the columns, received numbers: {','.join(names)[:80]!r}. Add a header, or "
            "use --no-header or --header A,B,.. (header=False or header=[..] in Python)."
        )
    if twice := sorted(name for name, n in Counter(names).items() if name and n > 1):
        raise DataError(f"{where}: required different names, received {twice} twice. Rename them.")
    return [name or nameless(i) for i, name in enumerate(names, 1)]


def number(text: str, absent: Absent = USUAL) -> float:
    """The value of a cell, NaN if the cell means "not observed"; true is 1, false is 0."""
    cell = text.strip()
    word = cell.lower()
    if word in absent.words:
        return nan
    if word in TRUTH:
        return TRUTH[word]
    if re.fullmatch(NUMBER, cell):
        value = float(cell)
        return nan if value in absent.numbers else value
    raise DataError(what_is_wrong(text))


def what_is_wrong(received: str) -> str:
    """Why a cell is no number, and what to do."""
    if re.fullmatch(MARKED, received.strip()):
        return (
            f"required a number with a decimal point, received {received!r}, with other marks. Export with decimal "
            "points, without marks between thousands, percent and currency."
        )
    return (
        f"required a number, received {received!r}. Correct the cell, leave it empty if the value was not observed, or "
        "leave the column out of channels, inputs and hints."
    )
