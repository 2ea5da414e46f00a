"""The size of errors, as the situation tells it: it grows with how much a stream moves.

People stand, walk and run; a machine idles and works. Errors are larger where more moves, and a stream shows how much
it moves: by its last rows, and by the rows that it expects. A linear map of the logarithms of these movements, of the
channel itself and of all channels together, is the score of a situation. A curve that never falls takes scores to the
sizes of errors that were measured at them. The score alone would be too flat: movements over a few rows are noisy.
"""

from typing import NamedTuple

import numpy as np

from psimlearn.filter.step import State
from psimlearn.shapes import Float

__all__ = ["MOST_LOG", "LocalScale", "movements", "scores_of"]

MOST_LOG = 20.0
"""The log of the size of errors, relative to the usual one, is at most so far from 0."""


class LocalScale(NamedTuple):
    """The variance of errors in each situation, up to a factor that calibration finds."""

    weights: Float[np.ndarray, "k n"]
    """Of the columns of `movements`, for the score of each channel."""
    scores: Float[np.ndarray, " knots"]
    """Rising; the sizes of errors between two of them are interpolated, and beyond them stay as they are."""
    logs: Float[np.ndarray, " knots"]
    """The logs of the sizes of errors at these scores, which never fall."""
    follows: Float[np.ndarray, "n n"]
    """The usual row after a row x is x @ follows."""
    floor: Float[np.ndarray, " n"]
    """Squared movements below it count as none."""

    def variance(self, ahead: Float[np.ndarray, "b window n"], state: State) -> Float[np.ndarray, "b n"]:
        """The variance for each stream and channel, given the rows that it expects."""
        scores = scores_of(movements(ahead, state, self.follows, self.floor), self.weights)
        return np.asarray(np.exp(2 * np.interp(scores, self.scores, self.logs)))


def movements(
    ahead: Float[np.ndarray, "b window n"],
    state: State,
    follows: Float[np.ndarray, "n n"],
    floor: Float[np.ndarray, " n"],
) -> Float[np.ndarray, "b k n"]:
    """A column of ones; then the logs of mean squared movements, over all channels and in each channel.

    Rows ahead move from row to row; recent rows, if there is more than one, move away from the row that usually follows
    the row before. Before its first row, a stream repeats the row that it expects.
    """
    new = (np.asarray(state.clock) == 0)[:, None, None]
    recent = np.where(new, ahead[:, :1], state.recent)  # newest first
    columns = [np.ones_like(ahead[:, 0])]
    with np.errstate(over="ignore", invalid="ignore"):  # a filter that diverged
        moved = [np.diff(ahead, axis=1, prepend=recent[:, :1])]
        moved += [recent[:, :-1] - recent[:, 1:] @ follows] if recent.shape[1] > 1 else []
        for changes in moved:
            each = np.mean(changes**2, axis=1) / floor
            every = np.broadcast_to(each.mean(axis=1, keepdims=True), each.shape)
            columns += [np.log1p(every), np.log1p(each)]
    return np.stack(columns, axis=1)


def scores_of(columns: Float[np.ndarray, "b k n"], weights: Float[np.ndarray, "k n"]) -> Float[np.ndarray, "b n"]:
    """The scores of situations, given the columns of `movements`; finite, also where a filter diverged."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(np.nan_to_num(np.einsum("bkn,kn->bn", columns, weights)))
