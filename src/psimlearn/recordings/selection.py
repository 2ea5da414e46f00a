"""The columns of a file as they are read: numbers in one array, all other columns as they are."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from psimlearn.errors import DataError
from psimlearn.recordings.cells import USUAL, Absent
from psimlearn.shapes import Float

__all__ = ["MAX_BYTES", "TOO_LARGE", "Origin", "Selection", "Table", "check_size", "table_of"]

MAX_BYTES = 2**31
"""The most bytes of text in files, and of numbers in memory; larger tables are refused before they are read."""
TOO_LARGE = (
    "Write several files, each with some recordings, and load one at a time: Shards.from_files, or --shards. To filter "
    "one file, stream it: psimlearn filter MODEL - < FILE."
)


class Selection(NamedTuple):
    """The columns that a reader takes from a file."""

    kept: tuple[str, ...] = ()
    """Columns to keep as they are: ids, times and words."""
    numbers: tuple[str, ...] = ()
    """Columns that must hold numbers."""
    either: tuple[str, ...] = ()
    """Columns of numbers, or of words, which are kept as they are."""
    rest: bool = True
    """Whether to take all other columns of numbers, too."""
    excluded: tuple[str, ...] = ()
    """Columns to leave out."""
    absent: Absent = USUAL

    @property
    def named(self) -> set[str]:
        """The columns that a file must have."""
        return {*self.kept, *self.numbers, *self.either, *self.excluded}


class Origin(NamedTuple):
    """The file behind some rows of a table."""

    n_rows: int
    called: Callable[[int], str]
    """A row of the file, counted from 0, in the words of an error message."""


class Table(NamedTuple):
    """The rows of one or more files."""

    names: tuple[str, ...]
    """The columns of numbers."""
    values: Float[np.ndarray, "rows names"]
    kept: dict[str, list[Any]]
    """The other columns that were asked for; None for an empty cell."""
    left_out: tuple[str, ...] = ()
    """Columns of words that nobody asked for."""
    origins: tuple[Origin, ...] = ()
    """The files behind the rows, one below the other."""

    def place(self, row: int) -> str:
        """A row in the words of an error message: its file and line."""
        for origin in self.origins:
            if row < origin.n_rows:
                return origin.called(row)
            row -= origin.n_rows
        return f"row {row}"

    def numbers(self, names: Sequence[str]) -> Float[np.ndarray, "rows some"]:
        """Some columns of numbers; all of them without a copy, because they may fill the memory."""
        if tuple(names) == self.names:
            return self.values
        places = {name: i for i, name in enumerate(self.names)}
        return self.values[:, [places[name] for name in names]]


def table_of(
    n_rows: int,
    numbers: Mapping[str, np.ndarray],
    kept: dict[str, list[Any]],
    left_out: tuple[str, ...],
    called: Callable[[int], str],
) -> Table:
    """A table from its columns."""
    values = np.empty((n_rows, len(numbers)))
    for i, column in enumerate(numbers.values()):
        values[:, i] = column
    return Table(tuple(numbers), values, kept, left_out, (Origin(n_rows, called),))


def check_size(where: str | Path, n_rows: int, n_columns: int) -> None:
    """Refuse numbers that would not fit in memory: an empty cell is a byte in a file, and eight in memory."""
    if n_rows * n_columns * 8 > MAX_BYTES:
        raise DataError(
            f"{where}: required at most {MAX_BYTES} bytes of numbers, received at least {n_rows} rows x {n_columns} "
            f"columns x 8 bytes. {TOO_LARGE}"
        )
