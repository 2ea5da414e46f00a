"""Errors inside gaps, beside the variance that doubt adds to them.

The variance of one-step errors is right one step ahead. Over a gap the same model is asked for more: errors of a wrong
model add up, and sums of many heavy-tailed errors are less heavy-tailed than each of them. So doubt is compared with
errors of entries that were hidden on purpose. With b the variance of errors without gaps and d the variance that doubt
adds, the variance is b + f d, and the quantiles of errors go from those without gaps to those in a gap, as the share
w = f d / (b + f d) goes from 0 to 1.
"""

from typing import NamedTuple

import numpy as np

from psimlearn.filter.uncertainty import LEVELS, between
from psimlearn.shapes import Float

__all__ = ["InGaps", "in_gaps"]

MOST_FACTOR = 10.0
"""Doubt is widened, or narrowed, by this factor at most."""
AS_CLAIMED = 200.0
"""So many entries that are all doubt, and as large as claimed, are added: few gaps say little."""
MOST_ROUNDS = 50
"""Rounds in which the factor is sought."""


class InGaps(NamedTuple):
    """How errors inside gaps compare with the variance that doubt adds."""

    factor: Float[np.ndarray, " 1"]
    """The factor of the variance that doubt adds, for all channels."""
    quantiles: Float[np.ndarray, " levels"]
    """The quantiles of |error| / standard deviation where all of the variance is doubt, at `LEVELS`."""

    def reach(
        self, coverage: float, share: Float[np.ndarray, "*b n"], without: Float[np.ndarray, "*b n"]
    ) -> Float[np.ndarray, "*b n"]:
        """Standard deviations that cover this share of observations.

        Args:
            coverage: the share of observations.
            share: the share of the variance that is doubt.
            without: the standard deviations that cover where there is no doubt.
        """
        return np.asarray((1 - share) * without + share * between(self.quantiles, coverage))


def in_gaps(
    errors: Float[np.ndarray, " entries"], variance: Float[np.ndarray, " entries"], doubt: Float[np.ndarray, " entries"]
) -> InGaps | None:
    """Measure the factor and the quantiles on entries inside gaps; None if doubt has no part in any error.

    Each entry counts by the share of its variance that is doubt: the others say nothing of doubt.

    Args:
        errors: standardised.
        variance: of errors without gaps.
        doubt: the variance that the gap adds.
    """
    some = np.isfinite(errors) & (doubt > 0)
    squares, b, d = errors[some] ** 2, variance[some], doubt[some]
    if not len(squares):
        return None
    f = 1.0
    for _ in range(MOST_ROUNDS):  # until squares, each by its share, are on average as large as their variances
        total = b + f * d
        w = f * d / total
        ratio = (np.sum(w * squares / total) + AS_CLAIMED / f) / (np.sum(w) + AS_CLAIMED)
        f = float(np.clip(f * ratio, 1 / MOST_FACTOR, MOST_FACTOR))
    scores = np.sqrt(squares / (b + f * d))
    return InGaps(np.array([f]), _weighted_quantiles(scores, f * d / (b + f * d)))


def _weighted_quantiles(
    scores: Float[np.ndarray, " entries"], weights: Float[np.ndarray, " entries"]
) -> Float[np.ndarray, " levels"]:
    """The least scores that have the shares `LEVELS` of the weight at or below them."""
    order = np.argsort(scores)
    below = np.cumsum(weights[order])
    place = np.searchsorted(below, LEVELS * below[-1])
    return np.asarray(scores[order][np.minimum(place, len(scores) - 1)])
