"""Contexts: how often each future followed the last symbols in training, backed off to fewer symbols where few."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from psimlearn.errors import SettingsError
from psimlearn.shapes import Float, Int

__all__ = ["MOST_CONTEXTS", "Contexts", "found"]

MOST_CONTEXTS = 2**53
"""The bound on context numbers: files store them as float64, which holds whole numbers exactly up to here."""
MOST_ENTRIES = 2**22
"""The most counts in a table; beyond it, the contexts seen least often are left out."""
NOTHING = 1e-9
"""The number of different futures assumed for a context without any: avoids 0 / 0."""


@dataclass(frozen=True, eq=False)
class Contexts:
    """P(future | context) = (count(context, future) + s D P(future | shorter context)) / (count(context) + s D).

    D is how many different futures followed the context; s = 1 is the smoothing of Witten and Bell, and a larger s
    trusts counts less. The empty context backs off to even odds. A future is one or more indicators side by side, and
    each indicator has a separate distribution.

    The context of the symbols a, b, .. (the newest first) has the number (a + 1) + (b + 1)(V + 1) + .., so that longer
    contexts have larger numbers. If a context is in the table, so is every shorter context that it ends with.

    >>> recent, phi = np.array([[-1], [0], [0], [1]]), np.eye(2)[[0, 0, 1, 0]]
    >>> Contexts.of(recent, phi, 2).shares              # after no symbol, after 0, after 1
    array([[0.66666667, 0.33333333],
           [0.58333333, 0.41666667],
           [0.83333333, 0.16666667]])
    """

    numbers: Int[np.ndarray, " c"]
    """The numbers of the contexts, in rising order."""
    counts: Float[np.ndarray, "c d"]
    """The number of times that each future followed each context."""
    length: int
    """The length of the longest contexts that were counted."""
    n_symbols: int
    n_simplices: int = 1
    """The number of distributions in a future."""
    strength: float = 1.0
    """The smoothing s."""

    @classmethod
    def of(
        cls,
        recent: Int[np.ndarray, "b length"],
        phi: Float[np.ndarray, "b d"],
        n_symbols: int,
        n_simplices: int = 1,
        strength: float = 1.0,
    ) -> "Contexts":
        """Count contexts of up to this length; symbols are places in the alphabet, newest first, -1 if not observed."""
        if not 0 < strength < np.inf or (n_symbols + 1) ** recent.shape[1] >= MOST_CONTEXTS:
            raise SettingsError(
                f"contexts: required a strength above 0 and fewer than 2^53 contexts, received strength {strength} and "
                f"{n_symbols + 1}^{recent.shape[1]}. Use fewer lags."
            )
        return cls(*_summed(_numbered(recent, n_symbols), phi), recent.shape[1], n_symbols, n_simplices, strength)

    @classmethod
    def of_last(cls, counts: Float[np.ndarray, "v d"], n_simplices: int = 1, strength: float = 1.0) -> "Contexts":
        """Make contexts of length 1 from counts of the futures after each symbol."""
        seen = counts.any(axis=1)
        numbers = np.concatenate([[0], 1 + np.flatnonzero(seen)])
        return cls(numbers, np.vstack([counts.sum(axis=0), counts[seen]]), 1, len(counts), n_simplices, strength)

    def merged(self, other: "Contexts") -> "Contexts":
        """The contexts of both, with their counts added."""
        numbers = np.concatenate([self.numbers, other.numbers])
        numbers, counts = _summed(numbers[:, None], np.concatenate([self.counts, other.counts]))
        return replace(self, numbers=numbers, counts=counts)

    @cached_property
    def shares(self) -> Float[np.ndarray, "c d"]:
        """P(future | context), context by context, the shortest first."""
        parts = self.counts.reshape(len(self.counts), self.n_simplices, -1)
        shares = np.full_like(parts, 1 / parts.shape[2])
        first, end, unit = 0, 0, 1
        while end < len(parts):
            first, end = end, int(np.searchsorted(self.numbers, unit))  # the contexts of one length
            before = shares[:1]
            if first:
                before = shares[np.searchsorted(self.numbers, self.numbers[first:end] % (unit // (self.n_symbols + 1)))]
            count = parts[first:end]
            back = self.strength * np.maximum(np.minimum(count, 1.0).sum(axis=2, keepdims=True), NOTHING)
            shares[first:end] = (count + back * before) / (count.sum(axis=2, keepdims=True) + back)
            unit *= self.n_symbols + 1
        return shares.reshape(self.counts.shape)

    def __call__(self, recent: Int[np.ndarray, "b length"]) -> Float[np.ndarray, "b d"]:
        """P(future | last symbols), newest first, given the longest context of them that is in the table."""
        return self.shares.take(found(self.numbers, recent, self.n_symbols), axis=0)


def found(numbers: Int[np.ndarray, " c"], recent: Int[np.ndarray, "b length"], n_symbols: int) -> Int[np.ndarray, " b"]:
    """The place in `numbers` of the longest context that the last symbols end with."""
    asked = _numbered(recent, n_symbols)
    place = np.minimum(np.searchsorted(numbers, asked), len(numbers) - 1)
    length = (numbers[place] == asked).sum(axis=1) - 1  # if a context is in the table, so are all shorter ones
    return np.asarray(place[np.arange(len(place)), length])


def _summed(
    numbers: Int[np.ndarray, "b some"], phi: Float[np.ndarray, "b d"]
) -> tuple[Int[np.ndarray, " c"], Float[np.ndarray, "c d"]]:
    """The sums of the futures after each context, for as many contexts as there is room; a row has several contexts."""
    known, often = np.unique(numbers[numbers >= 0], return_counts=True)
    d, most = phi.shape[1], max(1, MOST_ENTRIES // phi.shape[1])
    kept = often > (np.partition(often, -most - 1)[-most - 1] if len(known) > most else 0)
    kept[0] = True  # the empty context
    known = known[kept]
    rows, columns = np.nonzero(phi)
    counts = np.zeros(len(known) * d)
    for asked in numbers[rows].T:
        place = np.minimum(np.searchsorted(known, asked), len(known) - 1)
        counted = known[place] == asked
        entries = (place * d + columns)[counted]
        counts += np.bincount(entries, phi[rows, columns][counted], minlength=len(counts))
    return known, counts.reshape(-1, d)


def _numbered(recent: Int[np.ndarray, "b length"], n_symbols: int) -> Int[np.ndarray, "b lengths"]:
    """The numbers of the contexts of no symbol, the last one, the last two, ..; -1 if one of these was not observed."""
    units = (n_symbols + 1) ** np.arange(recent.shape[1])
    numbers = np.zeros((len(recent), recent.shape[1] + 1), dtype=np.int64)
    np.cumsum((recent + 1) * units, axis=1, out=numbers[:, 1:])
    numbers[:, 1:][np.logical_or.accumulate(recent < 0, axis=1)] = -1
    return numbers
