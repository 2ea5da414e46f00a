"""Thresholds of alarms: quantiles of the scores of normal rows, at small rates."""

from typing import NamedTuple

import numpy as np

from psimlearn.checks import number
from psimlearn.errors import SettingsError
from psimlearn.shapes import Float

__all__ = ["MOST_RATE", "RATES", "USUAL_RATE", "Thresholds", "thresholds_of"]

RATES = 10.0 ** (np.arange(-24, -1) / 4)
"""The rates at which scores are kept, 1e-6 to 0.3; between them, scores are interpolated in the log of the rate."""
USUAL_RATE = 1e-3
"""One row in a thousand."""
MOST_RATE = 0.1
"""The largest rate that can be asked for."""
LEAST_ROWS = 0.1
"""The least rate is one at which the rows measured on hold this many alarms: further down, a tail is a guess."""
ENOUGH = 20
"""So many rows below a score make it a quantile; for rates with fewer rows, the tail of the scores is fitted."""
TAIL, LEAST_TAIL, MOST_TAIL = 0.1, 5, 400
"""The lowest share of scores that makes the tail, and the least and the most scores in it."""
MOST_SHAPE = 0.7
"""The heaviest tail that is fitted; the lightest is exponential, as that of Gaussian errors."""
LEAST_SCORE = -1e300
"""Thresholds are finite, so that a score of -inf lies below each."""


class Thresholds(NamedTuple):
    """The scores below which a share of normal rows lies."""

    scores: Float[np.ndarray, " rates"]
    """The score at each of `RATES`: it rises with the rate."""
    rows: Float[np.ndarray, " 1"]
    """The number of rows that were measured."""
    rate: Float[np.ndarray, " 1"]
    """The rate of alarms if no other is asked for."""

    def checked(self, rate: float | None) -> float:
        """The rate, or the usual one for None; refused if it is too small for the rows that were measured."""
        rate = number(float(self.rate[0]) if rate is None else rate, "rate", 0.0, MOST_RATE, above=True)
        rows = int(self.rows[0])
        if rate * rows < LEAST_ROWS:
            raise SettingsError(
                f"rate: required at least {LEAST_ROWS / rows:.2g} for thresholds measured on {rows} rows, received "
                f"{rate:g}. Ask for a larger rate, or call alarm_threshold with more normal recordings."
            )
        return rate

    def at(self, rate: float) -> float:
        """The score below which this share of normal rows lies."""
        return float(np.interp(np.log(rate), np.log(RATES), self.scores))


def thresholds_of(scores: Float[np.ndarray, " rows"], rate: float = USUAL_RATE) -> Thresholds | None:
    """Thresholds from the scores of normal rows; None if there are none.

    Where at least 20 rows lie below, a threshold is the conformal quantile, which assumes nothing of the scores. For
    smaller rates it goes on as the tail of the lowest 10 % of the scores, 400 at most.
    """
    n = len(scores)
    if not n:
        return None
    ordered = np.maximum(np.sort(scores), LEAST_SCORE)
    place = RATES * (n + 1)
    quantiles = ordered[np.clip(np.floor(place).astype(int) - 1, 0, n - 1)]
    m = min(int(np.clip(TAIL * n, LEAST_TAIL, MOST_TAIL)), n)
    tail = ordered[m - 1] - _excess(ordered[m - 1] - ordered[: m - 1], np.minimum(place / m, 1.0))
    found = np.where(place >= min(ENOUGH, m), quantiles, tail)
    rising = np.minimum.accumulate(found[::-1])[::-1]
    return Thresholds(np.maximum(rising, LEAST_SCORE), np.array([float(n)]), np.array([rate]))


def _excess(excesses: Float[np.ndarray, " m"], shares: Float[np.ndarray, " rates"]) -> Float[np.ndarray, " rates"]:
    """The excess that each share of excesses goes beyond, by a generalised Pareto distribution.

    Its shape and scale come from the probability-weighted moments of Hosking and Wallis (1987).
    """
    k = len(excesses)
    if not k or not excesses.any():
        return np.zeros(len(shares))
    e = np.sort(excesses) / excesses.max()
    mean, weighted = float(e.mean()), float(np.mean(e * (1 - (np.arange(1, k + 1) - 0.35) / k)))
    shape = 2 - mean / (mean - 2 * weighted) if mean > 2 * weighted else 0.0
    shape = min(max(shape, 0.0), MOST_SHAPE)
    scale = mean * (1 - shape) * excesses.max()
    return np.asarray(-scale * np.log(shares) if shape < 1e-6 else scale * (shares**-shape - 1) / shape)
