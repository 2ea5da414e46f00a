"""Inputs that hold words: an input for each word, which is 1 at the rows that have the word and 0 elsewhere."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from psimlearn.errors import DataError
from psimlearn.recordings.alphabet import Alphabet
from psimlearn.shapes import Float

__all__ = ["MOST_WORDS", "as_category", "one_hot", "words_of"]

MOST_WORDS = 100
"""The most words of an input: a column with more is a text, and no category."""


def words_of(cells: Sequence[Any], name: Any) -> Alphabet:
    """The words that occur in a column."""
    return as_category(Alphabet.of([cells]), name)


def as_category(words: Alphabet, name: Any, option: str = "the inputs") -> Alphabet:
    """The words of an input, after a check that they are few; `option` is how the user gave the column."""
    if len(words) > MOST_WORDS:
        raise DataError(
            f"input {name!r}: required numbers, or at most {MOST_WORDS} different words, received {len(words)} words. "
            f"Leave the column out of {option}."
        )
    return words


def one_hot(
    cells: Sequence[Any], words: Alphabet, name: Any, place: Callable[[int], str]
) -> Float[np.ndarray, "rows words"]:
    """An input for each word. A word that was not there in training is refused: its effect is unknown.

    Args:
        cells: a column of words.
        words: those of training.
        name: the column in an error message.
        place: a row in an error message.
    """
    known = {*words.symbols, None}
    unknown = next((row for row, cell in enumerate(cells) if cell not in known), None)
    if unknown is not None and words.other is None:
        raise DataError(
            f"{place(unknown)}, column {name!r}: required one of {list(words.symbols)!r:.200} as in training, received "
            f"{cells[unknown]!r:.80}. The model has not learnt what this word does: correct it, or fit again with "
            "recordings that have it."
        )
    return words.one_hot(list(cells), f"column {name!r}")
