"""Updates of beliefs about symbols: regressors whose outputs are distributions.

The exact update of a belief m by a symbol x is a ratio, P(x, f given the past) / P(x given the past); and both are
linear in m for a hidden Markov model. So the joint probabilities are regressed on m, the block of the symbol seen is
picked, brought onto the simplex, and that is the next belief. A row of probabilities in place of a symbol gives the
mixture of what each symbol would give: what was not observed is averaged over, and exactly so.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float

from psimlearn.onehot import OneHot, onto_simplices, softmax
from psimlearn.regressors import Linear, Opaque

__all__ = ["Conditional", "Link", "Projected", "least_shares"]

Link = Literal["simplex", "softmax"]
"""From the outputs of a linear map to a distribution: clip and scale, or exponentiate and scale."""


@dataclass(frozen=True, eq=False)
class Conditional(Opaque):
    """[m; x; rest] -> the link of the block of x in a linear map of [m; rest], mixed with a little of what x foretells.

    For V symbols and beliefs of d coordinates the linear map has V blocks of d outputs.
    """

    linear: Linear
    least: Float[np.ndarray, "v d"]
    """What is mixed in after each symbol: the least that any probability can be, its sum over a simplex the share."""
    features: OneHot
    link: Link

    def __call__(self, z: Float[np.ndarray, "b p"]) -> Float[np.ndarray, "b d"]:
        """The next belief for each row."""
        v, d = self.least.shape
        x = z[:, d : d + v]
        known = np.concatenate([z[:, :d], z[:, d + v :]], axis=1)
        weights, intercept = self.linear.weights.reshape(-1, v, d), self.linear.intercept.reshape(v, d)
        out = np.zeros((len(z), d))
        for symbol in np.flatnonzero(x.any(axis=0)):
            rows = np.flatnonzero(x[:, symbol])
            given = known[rows] @ weights[:, symbol] + intercept[symbol]
            out[rows] += x[rows, symbol, None] * _mixed(given, self.least[symbol], self.features, self.link)
        return out


@dataclass(frozen=True, eq=False)
class Projected(Opaque):
    """z -> a linear map of z brought onto the simplex, mixed with a little of the mean: the update without products."""

    linear: Linear
    least: Float[np.ndarray, "one d"]
    features: OneHot

    def __call__(self, z: Float[np.ndarray, "b p"]) -> Float[np.ndarray, "b d"]:
        """The next belief for each row."""
        return _mixed(self.linear(z), self.least[0], self.features, "simplex")


def least_shares(counts: Float[np.ndarray, "v d"], features: OneHot, floor: float) -> Float[np.ndarray, "v d"]:
    """How often each coordinate came with each symbol, as if each had come once more altogether, in shares of floor."""
    parts = counts.reshape(len(counts), features.n_simplices, -1)
    parts = parts + 1 / parts.shape[2]
    shares: np.ndarray = floor * parts / parts.sum(axis=2, keepdims=True)
    return shares.reshape(counts.shape)


def _mixed(
    y: Float[np.ndarray, "b d"], least: Float[np.ndarray, " d"], features: OneHot, link: Link
) -> Float[np.ndarray, "b d"]:
    """Distributions of which a small share is fixed; all of it where the regressor has nothing to say."""
    n = features.n_simplices
    own = softmax(y, n) if link == "softmax" else onto_simplices(y, n)
    floor = np.repeat(least.reshape(n, -1).sum(axis=1), len(least) // n)
    alone = np.divide(least, floor, out=np.full_like(least, n / len(least)), where=floor > 0)
    mixed: np.ndarray = np.where(np.isnan(own), alone, (1 - floor) * own + least)
    return mixed
