"""The size of errors, as the situation tells it: log-linear in how much a stream moves.

People stand, walk and run; a machine idles and works. Errors are larger where more moves, and a stream shows how much
it moves: by its last rows, and by the rows that it expects. The logarithm of the variance of errors is a linear map of
the logarithms of these movements, of the channel itself and of all channels together.
"""

from typing import NamedTuple

import numpy as np

from psimlearn.filter.step import State
from psimlearn.shapes import Float

__all__ = ["MOST_LOG", "LocalScale", "movements"]

MOST_LOG = 20.0
"""The log of a variance, relative to the usual one, is at most so far from 0."""


class LocalScale(NamedTuple):
    """The variance of errors in each situation, up to a factor that calibration finds."""

    weights: Float[np.ndarray, "k n"]
    """Of the columns of `movements`, for the log of the variance of each channel."""
    low: Float[np.ndarray, " n"]
    high: Float[np.ndarray, " n"]
    """The bounds of the log of the variance: the range that was met on the recordings measured on."""
    floor: Float[np.ndarray, " n"]
    """Squared movements below it count as none."""

    def variance(self, ahead: Float[np.ndarray, "b window n"], state: State) -> Float[np.ndarray, "b n"]:
        """The variance for each stream and channel, given the rows that it expects."""
        logs = np.einsum("bkn,kn->bn", movements(ahead, state, self.floor), self.weights)
        return np.asarray(np.exp(2 * np.clip(np.nan_to_num(logs), self.low, self.high)))


def movements(
    ahead: Float[np.ndarray, "b window n"], state: State, floor: Float[np.ndarray, " n"]
) -> Float[np.ndarray, "b k n"]:
    """A column of ones; then the logs of squared changes from row to row, over all channels and in each channel.

    They are of the rows ahead, and of the recent rows if there is more than one. Before its first row, a stream repeats
    the row that it expects.
    """
    new = (np.asarray(state.clock) == 0)[:, None, None]
    recent = np.where(new, ahead[:, :1], state.recent)
    columns = [np.ones_like(ahead[:, 0])]
    with np.errstate(over="ignore", invalid="ignore"):  # a filter that diverged
        for rows in (np.concatenate([recent[:, :1], ahead], axis=1), recent):
            if rows.shape[1] > 1:
                each = np.mean(np.diff(rows, axis=1) ** 2, axis=1) / floor
                every = np.broadcast_to(each.mean(axis=1, keepdims=True), each.shape)
                columns += [np.log1p(every), np.log1p(each)]
    return np.stack(columns, axis=1)
