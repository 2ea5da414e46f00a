"""Columns of text as numbers, by the rules of `cells`, many cells at a time."""

import re
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from psimlearn.errors import DataError
from psimlearn.recordings.cells import MARKED, NUMBER, TRUTH, Absent, what_is_wrong
from psimlearn.shapes import Float

__all__ = ["Numbers", "joined", "numbers_in"]


class Numbers(NamedTuple):
    """Some cells of a column as numbers, and how many of them are none."""

    values: Float[np.ndarray, " rows"]
    """NaN where a cell means "not observed", or is no number."""
    n_numbers: int
    n_truths: int = 0
    """Cells that are "true" or "false". They are numbers, unless the column holds other words."""
    n_words: int = 0
    n_marked: int = 0
    """The words that look like numbers as people write them."""
    word: tuple[int, str] | None = None
    """The row and the text of the first word."""
    marked: tuple[int, str] | None = None
    """The row and the text of the first word that looks like a number."""


def numbers_in(cells: Sequence[str], absent: Absent) -> Numbers:
    """The numbers of some cells. Most columns hold nothing but numbers, so this is tried first."""
    try:
        values = np.fromiter(map(float, cells), np.float64, len(cells))
    except ValueError:
        return _one_by_one(cells, absent)
    # `float` takes also NaN and infinity in any letters, 1_000, and the digits of all scripts
    plain = np.isfinite(values).all() and not absent.numbers
    if plain and (text := "".join(cells)).isascii() and "_" not in text:
        return Numbers(values, len(cells))
    return _one_by_one(cells, absent)


def _one_by_one(cells: Sequence[str], absent: Absent) -> Numbers:
    """The numbers of some cells; each different cell is looked at once."""
    different = {cell: cell.strip() for cell in set(cells)}
    truths = {cell: TRUTH[word] for cell, text in different.items() if (word := text.lower()) in TRUTH}
    missing = {cell for cell, text in different.items() if text.lower() in absent.words}
    numbers = {
        cell: float(text)
        for cell, text in different.items()
        if cell not in missing and cell not in truths and re.fullmatch(NUMBER, text)
    }
    missing |= {cell for cell, value in numbers.items() if value in absent.numbers}
    words = different.keys() - truths.keys() - numbers.keys() - missing
    marked = {cell for cell in words if re.fullmatch(MARKED, different[cell])}
    meaning = numbers | truths | dict.fromkeys(missing | words, np.nan)
    n_words, n_truths, n_missing, n_marked = (
        sum(map(group.__contains__, cells)) if group else 0 for group in (words, truths.keys(), missing, marked)
    )
    return Numbers(
        np.fromiter(map(meaning.__getitem__, cells), np.float64, len(cells)),
        len(cells) - n_words - n_truths - n_missing,
        n_truths,
        n_words,
        n_marked,
        next((found for found in enumerate(cells) if found[1] in words), None) if words else None,
        next((found for found in enumerate(cells) if found[1] in marked), None) if marked else None,
    )


def joined(
    parts: Sequence[Numbers], name: str, place: Callable[[int], str], *, text_allowed: bool
) -> Float[np.ndarray, " rows"] | None:
    """A whole column as numbers; None for a column of words, if it may hold words.

    One word among numbers is a mistake in any column, and so is a column that mostly holds numbers with other marks,
    such as 1,234.5 or 5%.

    Args:
        parts: all parts of the column, in their order.
        name: the column in error messages.
        place: a row in error messages.
        text_allowed: whether the column may hold words.
    """
    n_words = sum(part.n_words for part in parts)
    if not n_words:
        return np.concatenate([part.values for part in parts]) if parts else np.empty(0)
    mistakes = [part.word for part in parts]
    if text_allowed and not any(part.n_numbers for part in parts):
        if 2 * sum(part.n_marked for part in parts) < n_words:
            return None
        mistakes = [part.marked for part in parts]  # among words, an odd number is no mistake
    starts = [0, *accumulate(len(part.values) for part in parts)]
    row, text = next((start + cell[0], cell[1]) for start, cell in zip(starts, mistakes, strict=False) if cell)
    raise DataError(f"{place(row)}, column {name!r}: {what_is_wrong(text)}")
