"""Updates of beliefs about symbols: regressors whose outputs are distributions.

The exact update of a belief m by a symbol x is a ratio, P(x, f given the past) / P(x given the past). For a hidden
Markov model both probabilities are linear in m. So the joint probabilities are regressed on m; the block of the
observed symbol, brought onto the simplex, is the next belief. A row of probabilities in place of a symbol gives the
mixture of the beliefs after each symbol: this averages exactly over a symbol that was not observed.

Part of every belief is the distribution that followed the last few symbols in training. A small share of it keeps every
future possible; a large share turns the filter into a k-gram model, which suits text.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from psimlearn.filter.contexts import found
from psimlearn.filter.onehot import OneHot, onto_simplices, softmax
from psimlearn.filter.regressors import Drive, Linear, Opaque
from psimlearn.shapes import Float, Int

__all__ = ["Conditional", "Link", "Projected", "recent_symbols"]

Link = Literal["simplex", "softmax"]
"""The way from outputs of a linear map to a distribution: clip and scale, or exponentiate and scale."""
CERTAIN = 1 - 1e-9
"""A row with an entry above this bound is one symbol; any other row is an expectation."""


@dataclass(frozen=True, eq=False)
class Conditional(Opaque):
    """[m; x_t; ..; x_{t-lags+1}; u] -> the link of the block of x_t in a linear map of [m; u], mixed with contexts.

    For V symbols and beliefs of d coordinates the linear map has V blocks of d outputs.
    """

    linear: Linear
    contexts: Int[np.ndarray, " c"]
    """The numbers of the contexts, as in `Contexts`; the empty context is the first."""
    shares: Float[np.ndarray, "c d"]
    """The distribution of futures after each context."""
    context_share: float
    """The weight of that distribution in every belief."""
    features: OneHot
    link: Link

    def __call__(self, z: Float[np.ndarray, "b p"]) -> Float[np.ndarray, "b d"]:
        """The next belief for each row."""
        d = self.shares.shape[1]
        m, known = z[:, :d], z[:, d:]
        rows, symbols = np.nonzero(known[:, : self._n_symbols])
        given = self._given(self._regressed(m, known)[rows], symbols, self._places(known, rows, symbols))
        if len(rows) == len(z):  # every row is one symbol
            return given
        out = np.zeros((len(z), d))
        np.add.at(out, rows, known[rows, symbols][:, None] * given)
        return out

    def drive(self, known: Float[np.ndarray, "b k"]) -> Drive:
        """Look all contexts up at once if every symbol was observed: a response then costs the linear map only."""
        rows, symbols = np.nonzero(known[:, : self._n_symbols])
        return (known,) if len(rows) != len(known) else (known, symbols, self._places(known, rows, symbols))

    def respond(self, fed: Float[np.ndarray, "b r"], drive: Drive) -> Float[np.ndarray, "b d"]:
        """The next belief for each row; `fed` is the whole belief."""
        known, *looked_up = drive
        return self._given(self._regressed(fed, known), *looked_up) if looked_up else super().respond(fed, drive)

    def _given(
        self, known: Float[np.ndarray, "b q"], symbols: Int[np.ndarray, " b"], places: Int[np.ndarray, " b"]
    ) -> Float[np.ndarray, "b d"]:
        """The next belief of each row after one observed symbol."""
        v, d = self._n_symbols, self.shares.shape[1]
        weights, intercept = self.linear.weights.reshape(-1, v, d), self.linear.intercept.reshape(v, d)
        if len(symbols) == 1:  # a single live stream needs no sorting, and speed counts
            y = known @ weights[:, symbols[0]] + intercept[symbols[0]]
            return _mixed(y, self.shares[places], self.context_share, self.features, self.link)
        order = np.argsort(symbols, kind="stable")
        edges = np.searchsorted(symbols, np.arange(v + 1), sorter=order).tolist()
        known, y = known[order], np.empty((len(known), d))
        for symbol, (first, end) in enumerate(pairwise(edges)):
            if first < end:
                np.matmul(known[first:end], weights[:, symbol], out=y[first:end])
                y[first:end] += intercept[symbol]
        given = np.empty_like(y)
        given[order] = _mixed(y, self.shares[places[order]], self.context_share, self.features, self.link)
        return given

    def _regressed(self, m: Float[np.ndarray, "b d"], known: Float[np.ndarray, "b k"]) -> Float[np.ndarray, "b q"]:
        """The inputs of the linear map, [m; u]."""
        n_inputs = len(self.linear.weights) - m.shape[1]
        return np.concatenate([m, known[:, known.shape[1] - n_inputs :]], axis=1) if n_inputs else m

    def _places(
        self, known: Float[np.ndarray, "b k"], rows: Int[np.ndarray, " some"], symbols: Int[np.ndarray, " some"]
    ) -> Int[np.ndarray, " some"]:
        """The places of the contexts of some rows, given the newest symbol of each."""
        v, n_inputs = self._n_symbols, len(self.linear.weights) - self.shares.shape[1]
        recent = recent_symbols(known[:, : known.shape[1] - n_inputs], v)[rows]
        recent[:, 0] = symbols
        return found(self.contexts, recent, v)

    @property
    def _n_symbols(self) -> int:
        return self.features.n_symbols(self.shares.shape[1])


@dataclass(frozen=True, eq=False)
class Projected(Opaque):
    """z -> a linear map of z, brought onto the simplex and mixed with a little of the mean: no products of m and x."""

    linear: Linear
    shares: Float[np.ndarray, "one d"]
    """The mean of the futures in training."""
    context_share: float
    """The weight of the mean in every belief."""
    features: OneHot

    def __call__(self, z: Float[np.ndarray, "b p"]) -> Float[np.ndarray, "b d"]:
        """The next belief for each row."""
        return _mixed(self.linear(z), self.shares, self.context_share, self.features, "simplex")


def recent_symbols(x: Float[np.ndarray, "b q"], n_symbols: int) -> Int[np.ndarray, "b lags"]:
    """The places in the alphabet of one-hot rows side by side; -1 for a row that is an expectation."""
    each = x.reshape(-1, n_symbols)
    certain = np.einsum("bv,bv->b", each, each) > CERTAIN
    codes = np.rint(each @ np.arange(n_symbols)).astype(np.int64)  # an order of magnitude faster than argmax
    return np.where(certain, codes, -1).reshape(len(x), -1)


def _mixed(
    y: Float[np.ndarray, "b d"], followed: Float[np.ndarray, "_ d"], context_share: float, features: OneHot, link: Link
) -> Float[np.ndarray, "b d"]:
    """The distributions of the regressor mixed with `followed`; only `followed` where the regressor gives none."""
    mixed = softmax(y, features.n_simplices) if link == "softmax" else onto_simplices(y, features.n_simplices)
    void = np.isnan(mixed[:, :: y.shape[1] // features.n_simplices])  # a distribution is NaN as a whole or not at all
    if void.any():
        mixed = np.where(np.isnan(mixed), followed, mixed)
    mixed *= 1 - context_share
    mixed += context_share * followed
    return mixed
