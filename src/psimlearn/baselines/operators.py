"""Observable operators: the exact filter of a known hidden Markov model, and one learnt from moments by an SVD.

A state b is updated by the operator of the symbol seen, b' = A_x b / (total' A_x b); the probability of x is
total' A_x b. For a known model b is the distribution of the hidden state. Hsu, Kakade and Zhang (2009) learn operators
that do the same in another basis from the moments of one, two and three words of symbols.
"""

from dataclasses import dataclass

import numpy as np

from psimlearn.checks import share, whole
from psimlearn.errors import SettingsError
from psimlearn.filter import OneHotProduct
from psimlearn.filter.onehot import onto_simplices
from psimlearn.recordings.schedule import schedule
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.recordings.windows import futures
from psimlearn.shapes import Float

__all__ = ["Moments", "OperatorModel", "spectral", "word_moments"]


@dataclass(frozen=True, eq=False)
class OperatorModel:
    """One operator for each symbol."""

    operators: Float[np.ndarray, "v s s"]
    initial: Float[np.ndarray, " s"]
    total: Float[np.ndarray, " s"]
    floor: float = 0.0
    """The share of even odds in every prediction: learnt operators may give a possible symbol probability zero."""

    def forecast(self, trajectories: Trajectories, horizon: int) -> Float[np.ndarray, "rows horizon v"]:
        """Entry [row t, j] holds the probabilities of x_{t+j} given x_0 .. x_{t-1}.

        Learnt operators can give negative ones; these are cut off. A symbol that was not observed is summed over.
        """
        plan = schedule(trajectories.offsets)
        x = trajectories.values[plan.order]
        x = np.where(np.isnan(x), 1.0, x)
        out = np.empty((len(x), horizon, x.shape[1]))
        b = np.tile(self.initial, (plan.block(0).stop, 1))
        for block in plan.blocks():
            b = b[: block.stop - block.start]
            out[block] = self._ahead(b, horizon)
            b = self._normalised(np.einsum("bx,xij,bj->bi", x[block], self.operators, b, optimize=True))
        return plan.packed(out)

    def _ahead(self, b: Float[np.ndarray, "b s"], horizon: int) -> Float[np.ndarray, "b horizon v"]:
        step = self.operators.sum(axis=0).T
        read = np.einsum("i,xij->jx", self.total, self.operators)
        even = np.full(len(self.operators), 1 / len(self.operators))
        out = []
        for _ in range(horizon):
            p = onto_simplices(b @ read, 1)
            out.append(np.where(np.isnan(p), even, (1 - self.floor) * p + self.floor * even))
            b = b @ step
        return np.stack(out, axis=1)

    def _normalised(self, b: Float[np.ndarray, "b s"]) -> Float[np.ndarray, "b s"]:
        """States scaled to a total of one; the initial state where that fails, as it can for learnt operators."""
        total = b @ self.total
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            scaled = b / total[:, None]
        usable = (total > np.finfo(float).tiny) & np.isfinite(scaled).all(axis=1)
        return np.where(usable[:, None], scaled, self.initial)


@dataclass(frozen=True, eq=False)
class Moments:
    """Probabilities of words: w before a symbol, w' after it."""

    first: Float[np.ndarray, " d"]
    """P(w' at the beginning)."""
    past: Float[np.ndarray, " d"]
    """P(w)."""
    pair: Float[np.ndarray, "d d"]
    """P(w' right after w)."""
    triple: Float[np.ndarray, "v d d"]
    """P(w' after x after w), one matrix for each symbol x."""


def word_moments(train: Trajectories, window: int = 1) -> Moments:
    """Relative frequencies of words of `window` symbols that follow each other, over all stretches without gaps."""
    features = OneHotProduct(window)
    features.check(train.n_channels)
    plan = schedule(train.offsets)
    f = futures(train.values[plan.order], plan, 2 * window + 1)
    whole = f[~np.isnan(f).any(axis=(1, 2))]
    if not len(whole):
        raise SettingsError(f"window: required stretches of {2 * window + 1} symbols without gaps, received none.")
    w, x = features(whole[:, :window]), whole[:, window]
    near, far = features(whole[:, window : 2 * window]), features(whole[:, window + 1 :])
    first = features(f[plan.block(0), :window])
    first = first[~np.isnan(first).any(axis=1)]
    n = len(whole)
    triple = np.stack([(far * x[:, [v]]).T @ w / n for v in range(x.shape[1])])
    return Moments(first.mean(axis=0) if len(first) else w.mean(axis=0), w.mean(axis=0), near.T @ w / n, triple)


def spectral(moments: Moments, rank: int, floor: float = 0.0) -> OperatorModel:
    """The operators that these moments determine, in the basis of the first singular vectors of the pairs.

    Args:
        moments: probabilities of words.
        rank: the number of states.
        floor: the share of even odds in every prediction.
    """
    whole(rank, "rank", 1, len(moments.first))
    share(floor, "floor")
    u = np.linalg.svd(moments.pair)[0][:, :rank]
    inverse = np.linalg.pinv(u.T @ moments.pair)
    operators = np.einsum("dr,vde,es->vrs", u, moments.triple, inverse, optimize=True)
    return OperatorModel(operators, u.T @ moments.first, moments.past @ inverse, floor)
