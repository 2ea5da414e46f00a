"""Alphabets: the possible symbols, and sequences of symbols as one-hot rows, which a filter treats as channels.

A row of probabilities has the same form, so a symbol that was not observed can be replaced by its expectation, exactly
as a number can.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from psimlearn.errors import DataError, SettingsError
from psimlearn.shapes import Float, Int

__all__ = ["Alphabet", "Symbol", "sequences_of"]

Symbol = int | str
UNKNOWN = -1
"""The code of a symbol that was not observed."""


@dataclass(frozen=True)
class Alphabet:
    """Distinct symbols in a fixed order; 1 and "1" are two.

    >>> letters = Alphabet.of([["b", "a", "b"], ["c", None]])
    >>> letters.symbols
    ('a', 'b', 'c')
    >>> letters.one_hot(["c", None])
    array([[ 0.,  0.,  1.],
           [nan, nan, nan]])
    """

    symbols: tuple[Symbol, ...]
    other: Symbol | None = None
    """The symbol that replaces symbols that are not listed; None refuses them."""

    def __post_init__(self) -> None:
        """Refuse symbols that are not distinct."""
        symbols = list(self.symbols)
        if not symbols or len(set(symbols)) != len(symbols):
            raise SettingsError(f"alphabet: required distinct symbols, at least one, received {symbols!r:.200}.")
        if self.other is not None and self.other not in symbols:
            raise SettingsError(f"other: required one of the symbols {symbols!r:.200}, received {self.other!r}.")

    @classmethod
    def of(cls, sequences: Iterable[Any], other: Symbol | None = None) -> "Alphabet":
        """The symbols that occur in sequences, and `other`: numbers before strings, each in rising order."""
        seen = {symbol for i, part in enumerate(sequences) for symbol in _symbols(part, f"sequence {i}")}
        seen = (seen | {other}) - {None}
        if not seen:
            raise DataError("required at least one observed symbol, received none. Check that recordings were loaded.")
        return cls(tuple(sorted((s for s in seen if s is not None), key=lambda s: (isinstance(s, str), s))), other)

    @classmethod
    def listed(cls, symbols: Iterable[Any], other: Symbol | None = None) -> "Alphabet":
        """An alphabet of these symbols in this order; None is left out."""
        return cls(tuple(symbol for symbol in _symbols(list(symbols), "alphabet") if symbol is not None), other)

    def __len__(self) -> int:
        """The number of symbols, V."""
        return len(self.symbols)

    def codes(
        self, sequence: Any, where: str = "sequence", place: Callable[[int], str] | None = None
    ) -> Int[np.ndarray, " T"]:
        """The place of each symbol in the alphabet; -1 where it was not observed (None or NaN)."""
        unseen = None if self.other is None else self._place[self.other]
        codes = [self._place.get(symbol, unseen) for symbol in _symbols(sequence, where)]
        if None in codes:
            row = codes.index(None)
            there = f"row {row}" if place is None else place(row)
            raise DataError(
                f"{where}, {there}: required one of {list(self.symbols)!r:.200}, received "
                f"{list(_symbols(sequence, where))[row]!r}. Give None for a symbol that was not observed, or learn "
                "from Trajectories.of_symbols(.., other=..) to have a symbol for all others."
            )
        return np.array(codes, dtype=np.int64)

    def one_hot(
        self, sequence: Any, where: str = "sequence", place: Callable[[int], str] | None = None
    ) -> Float[np.ndarray, "T v"]:
        """One row for each symbol, with a one in its column; NaN where it was not observed."""
        codes = self.codes(sequence, where, place)
        return self._rows.take(codes, axis=0)  # the code -1 takes the last row, which is NaN

    @cached_property
    def _place(self) -> dict[Any, int]:
        return {symbol: i for i, symbol in enumerate(self.symbols)} | {None: UNKNOWN}

    @cached_property
    def _rows(self) -> Float[np.ndarray, "codes v"]:
        return np.vstack([np.eye(len(self)), np.full(len(self), np.nan)])

    def likeliest(self, probabilities: Float[np.ndarray, "*b v"]) -> np.ndarray:
        """The symbol of the largest probability in each row; the first of them if several are equal."""
        return self.decoded(np.asarray(np.argmax(probabilities, axis=-1)))

    def decoded(self, codes: Int[np.ndarray, "*b"]) -> np.ndarray:
        """Symbols from their places: an array of integers or of strings, of objects only if the alphabet has both."""
        kinds = {type(symbol) for symbol in self.symbols}
        return np.asarray(np.array(self.symbols, dtype=object if len(kinds) > 1 else None)[codes])


def sequences_of(recordings: Any) -> tuple[list[Any], bool]:
    """A list of sequences of symbols, one for each recording, and whether a single recording came without a list.

    Takes a list of sequences; or a single recording: a 1-D array, (T, 1) array, column of a data frame, flat list of
    whole numbers, or string of characters. A list of strings is refused, because it might be one recording of words or
    several of characters.
    """
    column = hasattr(recordings, "to_numpy") and not hasattr(recordings, "columns")  # a column of a data frame
    array = isinstance(recordings, np.ndarray) and (recordings.dtype != object or recordings.ndim > 1)
    if isinstance(recordings, str) or column or array:
        return [recordings], True
    if not isinstance(recordings, Sequence | np.ndarray) or not len(recordings):
        raise DataError(
            f"required a list of sequences of symbols, or one column, received {type(recordings).__name__} "
            f"{recordings!r:.80}."
        )
    if any(isinstance(entry, str) for entry in recordings):
        raise DataError(
            "required a list of sequences of symbols, received a list of strings, which might be one recording of "
            "words or several of characters. Give [words], or [list(text) for text in texts]."
        )
    flat = not any(isinstance(entry, Sequence | np.ndarray) or hasattr(entry, "to_numpy") for entry in recordings)
    return ([recordings], True) if flat else (list(recordings), False)


def _symbols(sequence: Any, where: str) -> list[Symbol | None]:
    """A sequence as plain integers and strings; None where nothing was observed."""
    if hasattr(sequence, "to_numpy"):  # a column of a data frame
        sequence = sequence.to_numpy()
    if isinstance(sequence, np.ndarray):
        if sequence.ndim == 2 and sequence.shape[1] == 1:
            sequence = sequence[:, 0]
        if sequence.ndim != 1:
            raise DataError(
                f"{where}: required one symbol after the other, (T,) or (T, 1), received an array of shape "
                f"{sequence.shape}. If its rows are recordings, give list(array)."
            )
        sequence = sequence.tolist()  # masked entries become None
    if not isinstance(sequence, Sequence) or isinstance(sequence, bytes):
        raise DataError(f"{where}: required a sequence of symbols, received {type(sequence).__name__}.")
    return [_symbol(entry, f"{where}, row {row}") for row, entry in enumerate(sequence)]


def _symbol(entry: Any, where: str) -> Symbol | None:
    """One symbol; a whole float is an integer that shared an array with NaN."""
    if type(entry) is int or type(entry) is str:
        return entry
    missing = entry is None or type(entry).__name__ == "NAType"  # of pandas
    if missing or (isinstance(entry, float | np.floating) and np.isnan(entry)):
        return None
    if isinstance(entry, np.str_):
        return str(entry)
    whole = isinstance(entry, float | np.floating) and float(entry).is_integer()
    if isinstance(entry, np.integer) or whole:
        return int(entry)
    raise DataError(
        f"{where}: required a whole number, a string, or None for a symbol that was not observed, received {entry!r}."
    )
