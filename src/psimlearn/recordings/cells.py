"""What the header and the cells of a table of text mean, decided here for files and for rows as they come."""

import csv
import re
from typing import NamedTuple

from psimlearn.errors import DataError

__all__ = ["DECIMAL_COMMA", "MISSING", "NUMBER", "Header", "header_of", "number", "what_is_wrong"]

MISSING = ("", "na", "n/a", "nan", "null", "none", "-nan", "#n/a")
"""Cells that mean "not observed", in small letters."""

NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$|^[+-]?(inf|infinity|Inf|Infinity|INF)$"
DECIMAL_COMMA = re.compile(r"[+-]?\d+(,\d+)+([eE][+-]?\d+)?")


class Header(NamedTuple):
    """The names of the columns, what stands between them, and how many lines come before the first row."""

    names: list[str]
    delimiter: str
    n_lines: int


def header_of(text: str, file: str) -> Header:
    """From the first line that is not empty; `file` is what errors call it."""
    lines = text.splitlines()
    n_empty = next((i for i, line in enumerate(lines) if line.strip()), len(lines))
    if n_empty == len(lines):
        raise DataError(f"{file}: required a header and rows, received an empty file. Check what wrote it.")
    line = lines[n_empty]
    delimiter = max(",;\t", key=line.count) if any(mark in line for mark in ",;\t") else ","
    names = [name.strip() for name in next(csv.reader([line], delimiter=delimiter))]
    if all(re.fullmatch(NUMBER, name) for name in names if name):
        raise DataError(
            f"{file}, line {n_empty + 1}: required the names of the columns, received numbers: {line!r}. Add a header."
        )
    if twice := sorted({name for name in names if name and names.count(name) > 1}):
        raise DataError(f"{file}, line {n_empty + 1}: required different names, received {twice} twice. Rename them.")
    return Header([name or f"column {i} without a name" for i, name in enumerate(names, 1)], delimiter, n_empty + 1)


def number(text: str) -> float:
    """What a single cell means, NaN if it means "not observed"."""
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
