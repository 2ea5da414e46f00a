"""Scores for scikit-learn: one number for a filter on recordings, of which more is better."""

from typing import NamedTuple

import numpy as np

from psimlearn.filter import Filter
from psimlearn.filter.scaling import ChannelSums, channel_sums
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.shapes import Float

__all__ = ["SquareSums", "mean_log_likelihood", "r_squared", "square_sums"]


class SquareSums(NamedTuple):
    """Observations and the squares of their errors in a few numbers; those of several parts can be merged."""

    channels: ChannelSums
    errors: Float[np.ndarray, " n"]

    def plus(self, other: "SquareSums") -> "SquareSums":
        """Both parts together."""
        return SquareSums(self.channels.plus(other.channels), self.errors + other.errors)

    def r_squared(self) -> float:
        """R^2, averaged over the channels that vary; NaN if none does."""
        varies = self.channels.high > self.channels.low
        deviation = self.channels.std * self.channels.largest
        power = np.where(varies, self.channels.seen * deviation**2, 1.0)
        return float(np.mean((1 - self.errors / power)[varies])) if varies.any() else np.nan


def square_sums(x: Float[np.ndarray, "rows n"], predicted: Float[np.ndarray, "rows n"]) -> SquareSums:
    """Sums over rows. Entries of x that are NaN do not count."""
    return SquareSums(channel_sums(x), np.sum((x - predicted) ** 2, axis=0, where=~np.isnan(x)))


def r_squared(x: Float[np.ndarray, "rows n"], predicted: Float[np.ndarray, "rows n"]) -> float:
    """R^2, averaged over the channels that vary; NaN if none does. Entries of x that are NaN do not count."""
    return square_sums(x, predicted).r_squared()


def mean_log_likelihood(filter: Filter, symbols: Trajectories) -> float:
    """Nats per symbol that was observed; NaN if none was."""
    observed = ~np.isnan(symbols.values).any(axis=1)
    return float(np.mean(filter.log_likelihood(symbols)[observed])) if observed.any() else np.nan
