"""The meaning of the header and the cells of a table of text, decided here for files and for live rows alike."""

import csv
import re
from collections.abc import Sequence
from typing import NamedTuple

from psimlearn.errors import DataError

__all__ = ["DECIMAL_COMMA", "MISSING", "NUMBER", "Header", "header_of", "number", "what_is_wrong"]

MISSING = ("", "na", "n/a", "nan", "null", "none", "-nan", "#n/a")
"""Cells that mean "not observed", in small letters."""

NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$|^[+-]?(inf|infinity|Inf|Infinity|INF)$"
DECIMAL_COMMA = re.compile(r"[+-]?\d+(,\d+)+([eE][+-]?\d+)?")


class Header(NamedTuple):
    """The columns of a table."""

    names: list[str]
    delimiter: str = ","
    """The character between cells; tables that are not text have none, so it is ignored."""
    n_lines: int = 0
    """The number of lines before the first row."""


def header_of(text: str, where: str, names: Sequence[str] | None = None) -> Header:
    """Decide from the first line that is not empty what the columns are. No other function reads a header of text.

    Args:
        text: the beginning of a file or of a stream.
        where: the name of the file or stream in error messages.
        names: the names of the columns if there is no header: the line is the first row, and tells the delimiter only.
    """
    lines = text.splitlines()
    n_empty = next((i for i, line in enumerate(lines) if line.strip()), len(lines))
    if n_empty == len(lines):
        raise DataError(
            f"{where}: required a header and rows, received an empty file. Check the program that wrote it."
        )
    line = lines[n_empty]
    delimiter = max(",;\t", key=line.count)
    if names is not None:
        return Header(_checked(names, f"{where}, given names"), delimiter, n_empty)
    cells = [name.strip() for name in next(csv.reader([line], delimiter=delimiter))]
    return Header(_checked(cells, f"{where}, line {n_empty + 1}"), delimiter, n_empty + 1)


def _checked(names: Sequence[str], where: str) -> list[str]:
    """Names that differ and are not all numbers; a column without a name is called by its place."""
    if all(re.fullmatch(NUMBER, name) for name in names if name):
        raise DataError(
            f"{where}: required the names of the columns, received numbers: {','.join(names)!r}. Add a header."
        )
    if twice := sorted({name for name in names if name and names.count(name) > 1}):
        raise DataError(f"{where}: required different names, received {twice} twice. Rename them.")
    return [name or f"column {i} without a name" for i, name in enumerate(names, 1)]


def number(text: str) -> float:
    """The value of a cell, NaN if the cell means "not observed"."""
    cell = text.strip()
    if cell.lower() in MISSING:
        return float("nan")
    if re.match(NUMBER, cell):
        return float(cell)
    raise DataError(what_is_wrong(text))


def what_is_wrong(received: str) -> str:
    """Why a cell is no number, and what to do."""
    if DECIMAL_COMMA.fullmatch(received.strip()):
        return (
            f"required a number with a decimal point, received {received!r}, with a comma. Export with decimal points "
            "and without marks between thousands."
        )
    return (
        f"required a number, received {received!r}. Correct the cell, leave it empty if the value was not observed, or "
        "leave the column out of channels, inputs and hints."
    )
