"""k-grams: predict the next symbol from the last k - 1, and from fewer symbols where that context was seldom seen."""

from dataclasses import dataclass

import numpy as np

from psimlearn.checks import number, whole
from psimlearn.errors import SettingsError
from psimlearn.filter.conditioning import recent_symbols
from psimlearn.filter.contexts import Contexts
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.recordings.windows import preceding
from psimlearn.shapes import Float, Int

__all__ = ["KGram"]

LARGEST = 100_000
"""Continuations that a forecast may enumerate for every row."""


@dataclass(frozen=True, eq=False)
class KGram:
    """The distribution of the next symbol after its context, smoothed as `Contexts` are.

    A context that reaches beyond the beginning, or holds an unobserved symbol, counts as one that was never seen.
    """

    contexts: Contexts

    @classmethod
    def fit(cls, train: Trajectories, order: int, strength: float = 1.0) -> "KGram":
        """Count how often each symbol follows each context.

        Args:
            train: recordings of one-hot rows.
            order: k, the number of symbols in a gram, the predicted one included.
            strength: how much shorter contexts count, as in `Contexts`.
        """
        whole(order, "order")
        number(strength, "strength", above=True)
        codes, v = _codes(train.values), train.n_channels
        recent = preceding(codes, train.offsets, order - 1)[:, ::-1]
        return cls(Contexts.of(recent[codes >= 0], train.values[codes >= 0], v, strength=strength))

    def forecast(self, trajectories: Trajectories, horizon: int) -> Float[np.ndarray, "rows horizon v"]:
        """Entry [row t, j] holds the probabilities of x_{t+j} given x_0 .. x_{t-1}."""
        whole(horizon, "horizon")
        recent = preceding(_codes(trajectories.values), trajectories.offsets, self.contexts.length)[:, ::-1]
        contexts, place = np.unique(recent, axis=0, return_inverse=True)
        return self._ahead(contexts, horizon)[place.ravel()]

    def _ahead(self, recent: Int[np.ndarray, "b length"], horizon: int) -> Float[np.ndarray, "b horizon v"]:
        """Probabilities 1 to `horizon` steps ahead, summed over all continuations."""
        p = self.contexts(recent)
        b, v = p.shape
        if horizon == 1:
            return p[:, None]
        if v ** (horizon - 1) > LARGEST:
            raise SettingsError(
                f"horizon: required at most {LARGEST} continuations to sum over, received {v}^{horizon - 1}. Use a "
                "smaller horizon."
            )
        longer = np.concatenate([np.tile(np.arange(v), b)[:, None], np.repeat(recent, v, axis=0)], axis=1)
        after = self._ahead(longer[:, : recent.shape[1]], horizon - 1).reshape(b, v, horizon - 1, v)
        return np.concatenate([p[:, None], np.einsum("bx,bxhv->bhv", p, after)], axis=1)


def _codes(values: Float[np.ndarray, "rows v"]) -> Int[np.ndarray, " rows"]:
    """Symbols by their places in the alphabet, -1 where not observed."""
    return recent_symbols(np.where(np.isnan(values), 0.0, values), values.shape[1])[:, 0]
