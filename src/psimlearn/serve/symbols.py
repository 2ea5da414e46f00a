"""Symbols in live rows: one cell in, one-hot numbers out; and the names of the answers."""

from collections.abc import Callable, Mapping, Sequence
from math import nan
from typing import Any

import numpy as np

from psimlearn.errors import DataError
from psimlearn.recordings.alphabet import Alphabet, Symbol
from psimlearn.recordings.cells import MISSING
from psimlearn.shapes import Float

__all__ = ["Numbers", "symbol_columns", "symbol_names", "symbol_rows", "worded"]

Complain = Callable[[str], None]
Numbers = Callable[[Sequence[Any], Sequence[str], Complain], list[float]]
"""The numbers of some cells, given their columns; cells that are no numbers are complained of."""


def symbol_rows(alphabet: Alphabet, others: Numbers) -> Numbers:
    """The numbers of a row whose first cell is a symbol and whose other cells are inputs."""
    one_hot = _one_hot(alphabet)

    def numbers(cells: Sequence[Any], names: Sequence[str], complain: Complain) -> list[float]:
        return one_hot(cells[0], names[0], complain) + (others(cells[1:], names[1:], complain) if names[1:] else [])

    return numbers


def worded(categories: Mapping[str, Alphabet], others: Numbers) -> Numbers:
    """The numbers of a row in which some inputs are words: a number for each possible word."""
    encoders = {name: _one_hot(words) for name, words in categories.items()}

    def numbers(cells: Sequence[Any], names: Sequence[str], complain: Complain) -> list[float]:
        found: list[float] = []
        for cell, name in zip(cells, names, strict=True):
            found += encoders[name](cell, name, complain) if name in encoders else others([cell], [name], complain)
        return found

    return numbers


def _one_hot(alphabet: Alphabet) -> Callable[[Any, str, Complain], list[float]]:
    """A cell as one number for each symbol; NaN, and a complaint, for a cell that is none of them."""
    spelt: dict[str, Symbol] = {str(symbol): symbol for symbol in sorted(alphabet.symbols, key=_is_text)}

    def numbers(cell: Any, name: str, complain: Complain) -> list[float]:
        try:
            return list(alphabet.one_hot([_symbol(cell, alphabet, spelt)], "symbol")[0].tolist())
        except DataError:
            asked = f"required one of {list(alphabet.symbols)!s:.200}, received {cell!r:.80}"
            complain(f"column {name!r}: {asked}. Taken as not observed.")
            return [nan] * len(alphabet)

    return numbers


def _is_text(symbol: Symbol) -> bool:
    return isinstance(symbol, str)


def _symbol(cell: Any, alphabet: Alphabet, spelt: dict[str, Symbol]) -> Any:
    """The symbol that a cell means, None if it was not observed. CSV has no types: 7 may be a number or a word."""
    if isinstance(cell, bool | dict | list):
        raise DataError("no symbol")
    if type(cell) is int and cell in alphabet.symbols:
        return cell
    text = cell.strip() if isinstance(cell, str) else str(cell)
    if text in spelt:
        return spelt[text]
    return None if cell is None or text.lower() in MISSING else cell


def symbol_names(alphabet: Alphabet, steps: int) -> list[str]:
    """The names of the columns that `symbol_columns` keeps.

    >>> symbol_names(Alphabet(("a", "b")), 1)
    ['log_likelihood', 'a.expected', 'b.expected', 'a.ahead1', 'b.ahead1']
    """
    names = ["log_likelihood", *(f"{symbol}.expected" for symbol in alphabet.symbols)]
    return names + [f"{symbol}.ahead{j}" for j in range(1, steps + 1) for symbol in alphabet.symbols]


def symbol_columns(answers: Float[np.ndarray, "rows columns"], n_symbols: int) -> Float[np.ndarray, "rows kept"]:
    """Answers to symbols without standard deviations: their expectations are probabilities."""
    place = np.arange(answers.shape[1]) - 1
    return answers[:, (place < 0) | (place // n_symbols % 2 == 0)]
