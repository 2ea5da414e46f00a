"""k-grams: the next symbol from the last k - 1, backed off to fewer where these were seldom seen."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from psimlearn.errors import SettingsError
from psimlearn.trajectories import Trajectories
from psimlearn.windows import preceding

__all__ = ["KGram"]

LARGEST = 100_000
"""Continuations that a forecast may enumerate for every row."""


class _Contexts(NamedTuple):
    """All contexts of one length that were seen, by number, and how often each symbol followed."""

    numbers: Int[np.ndarray, " c"]
    counts: Float[np.ndarray, "c v"]


@dataclass(frozen=True, eq=False)
class KGram:
    """P(x | context) = (count(context, x) + s D P(x | shorter context)) / (count(context) + s D).

    D is how many different symbols followed the context; s = 1 is the smoothing of Witten and Bell. The empty context
    backs off to even odds. A context that reaches beyond the beginning, or holds a symbol that was not observed, counts
    as one that was never seen.
    """

    tables: tuple[_Contexts, ...]
    """From the empty context up."""
    strength: float = 1.0

    @classmethod
    def fit(cls, train: Trajectories, order: int, strength: float = 1.0) -> "KGram":
        """Count. The order is k: how many symbols a gram has, the one predicted included."""
        if order < 1 or not strength > 0 or train.n_channels ** (order - 1) >= 2**62:
            raise SettingsError(
                f"k-grams: required an order of at least 1, a strength above 0 and fewer than 2^62 contexts, received "
                f"{order}, {strength} and {train.n_channels}^{order - 1}."
            )
        codes, v = _codes(train.values), train.n_channels
        tables = []
        for length in range(order):
            context = _numbers(preceding(codes, train.offsets, length), v)
            known = (context >= 0) & (codes >= 0)
            numbers, place = np.unique(context[known], return_inverse=True)
            counts = np.zeros((len(numbers), v))
            np.add.at(counts, (place, codes[known]), 1.0)
            tables.append(_Contexts(numbers, counts))
        return cls(tuple(tables), strength)

    def forecast(self, trajectories: Trajectories, horizon: int) -> Float[np.ndarray, "rows horizon v"]:
        """Entry [row t, j] holds the probabilities of x_{t+j} given x_0 .. x_{t-1}."""
        codes, length = _codes(trajectories.values), len(self.tables) - 1
        recent = preceding(codes, trajectories.offsets, length)
        contexts, place = np.unique(recent, axis=0, return_inverse=True)
        return self._ahead(contexts, horizon)[place.ravel()]

    def _ahead(self, recent: Int[np.ndarray, "b length"], horizon: int) -> Float[np.ndarray, "b horizon v"]:
        """By summing over all continuations."""
        p = self._next(recent)
        b, v = p.shape
        if horizon == 1:
            return p[:, None]
        if v ** (horizon - 1) > LARGEST:
            raise SettingsError(f"horizon: required at most {LARGEST} continuations, received {v}^{horizon - 1}.")
        longer = np.concatenate([np.repeat(recent, v, axis=0), np.tile(np.arange(v), b)[:, None]], axis=1)
        after = self._ahead(longer[:, 1:], horizon - 1).reshape(b, v, horizon - 1, v)
        return np.concatenate([p[:, None], np.einsum("bx,bxhv->bhv", p, after)], axis=1)

    def _next(self, recent: Int[np.ndarray, "b length"]) -> Float[np.ndarray, "b v"]:
        v = self.tables[0].counts.shape[1]
        p = np.full((len(recent), v), 1 / v)
        for length, (numbers, counts) in enumerate(self.tables):
            context = _numbers(recent[:, recent.shape[1] - length :], v)
            place = np.minimum(np.searchsorted(numbers, context), len(numbers) - 1)
            rows = numbers[place] == context if len(numbers) else np.zeros(len(recent), dtype=bool)
            own = counts[place[rows]]
            back = self.strength * (own > 0).sum(axis=1, keepdims=True)
            p[rows] = (own + back * p[rows]) / (own.sum(axis=1, keepdims=True) + back)
        return p


def _codes(values: Float[np.ndarray, "rows v"]) -> Int[np.ndarray, " rows"]:
    """Symbols by their places in the alphabet, -1 where not observed."""
    missing = np.isnan(values).any(axis=1)
    return np.where(missing, -1, np.argmax(np.where(missing[:, None], 0.0, values), axis=1))


def _numbers(context: Int[np.ndarray, "b length"], v: int) -> Int[np.ndarray, " b"]:
    """Contexts as numbers in base v, the latest symbol the last digit; -1 where one was not observed."""
    number = np.zeros(len(context), dtype=np.int64)
    for digit in context.T:
        number = number * v + digit
    return np.where((context < 0).any(axis=1), -1, number)
