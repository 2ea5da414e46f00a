"""Updates of beliefs about symbols: regressors whose outputs are distributions.

The exact update of a belief m by a symbol x is a ratio, P(x, f given the past) / P(x given the past); and both are
linear in m for a hidden Markov model. So the joint probabilities are regressed on m, the block of the symbol seen is
picked, brought onto the simplex, and that is the next belief. A row of probabilities in place of a symbol gives the
mixture of what each symbol would give: what was not observed is averaged over, and exactly so.

A share of every belief is what followed the last few symbols in training. A small share keeps anything from being
impossible; a large one makes k-grams of the filter, which for text is as it should be.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from psimlearn.contexts import found
from psimlearn.onehot import OneHot, onto_simplices, softmax
from psimlearn.regressors import Linear, Opaque

__all__ = ["Conditional", "Link", "Projected", "recent_symbols"]

Link = Literal["simplex", "softmax"]
"""From the outputs of a linear map to a distribution: clip and scale, or exponentiate and scale."""
CERTAIN = 1 - 1e-9
"""A row with an entry above this is one symbol; any other is an expectation."""


@dataclass(frozen=True, eq=False)
class Conditional(Opaque):
    """[m; x_t; ..; x_{t-lags+1}; u] -> the link of the block of x_t in a linear map of [m; u], mixed with what followed.

    For V symbols and beliefs of d coordinates the linear map has V blocks of d outputs.
    """

    linear: Linear
    contexts: Int[np.ndarray, " c"]
    """The numbers of contexts, as in `Contexts`; the first is the empty one."""
    shares: Float[np.ndarray, "c d"]
    """What followed each."""
    floor: float
    """The share of that in every belief."""
    features: OneHot
    link: Link

    def __call__(self, z: Float[np.ndarray, "b p"]) -> Float[np.ndarray, "b d"]:
        """The next belief for each row."""
        d = self.shares.shape[1]
        v, n_inputs = self.features.n_symbols(d), len(self.linear.weights) - d
        end = z.shape[1] - n_inputs
        weights, intercept = self.linear.weights.reshape(-1, v, d), self.linear.intercept.reshape(v, d)
        rows, symbols = np.nonzero(z[:, d : d + v])
        recent = recent_symbols(z[:, d:end], v)[rows]
        recent[:, 0] = symbols
        known = np.concatenate([z[:, :d], z[:, end:]], axis=1)[rows]
        y = np.empty((len(rows), d))
        for symbol in np.unique(symbols):
            own = symbols == symbol
            y[own] = known[own] @ weights[:, symbol] + intercept[symbol]
        followed = self.shares[found(self.contexts, recent, v)]
        given = _mixed(y, followed, self.floor, self.features, self.link)
        if len(rows) == len(z):  # each is one symbol
            return given
        out = np.zeros((len(z), d))
        np.add.at(out, rows, z[rows, d + symbols][:, None] * given)
        return out


@dataclass(frozen=True, eq=False)
class Projected(Opaque):
    """z -> a linear map of z brought onto the simplex, mixed with a little of the mean: the update without products."""

    linear: Linear
    shares: Float[np.ndarray, "one d"]
    """The mean."""
    floor: float
    """Its share in every belief."""
    features: OneHot

    def __call__(self, z: Float[np.ndarray, "b p"]) -> Float[np.ndarray, "b d"]:
        """The next belief for each row."""
        return _mixed(self.linear(z), self.shares, self.floor, self.features, "simplex")


def recent_symbols(x: Float[np.ndarray, "b q"], n_symbols: int) -> Int[np.ndarray, "b lags"]:
    """Places in the alphabet of one-hot rows side by side; -1 for one that is an expectation."""
    lags = x.reshape(len(x), -1, n_symbols)
    recent: np.ndarray = np.where(lags.max(axis=2) > CERTAIN, lags.argmax(axis=2), -1)
    return recent


def _mixed(
    y: Float[np.ndarray, "b d"], followed: Float[np.ndarray, "_ d"], floor: float, features: OneHot, link: Link
) -> Float[np.ndarray, "b d"]:
    """Distributions of which a share is given; all of it where the regressor has nothing to say."""
    own = softmax(y, features.n_simplices) if link == "softmax" else onto_simplices(y, features.n_simplices)
    own = np.where(np.isnan(own), followed, own)
    own *= 1 - floor
    own += floor * followed
    return own
