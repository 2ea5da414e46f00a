"""The size of errors, as the situation tells it: errors are larger where more happens.

People stand, walk and run; a machine idles and works. A stream shows its situation in two ways: by the size of its last
errors, kept as a fading mean (its unrest), and by how much the rows that it expects move. A weighted sum of the
logarithms of both, of the channel itself and of all channels together, is the score of a situation. A curve that never
falls takes scores to sizes of errors, which widen or narrow intervals and standard deviations.

Likelihoods and alarms do not use it: a failure is a situation too, and must not be forgiven because it is forceful.
"""

from typing import NamedTuple

import numpy as np

from psimlearn.filter.uncertainty import between
from psimlearn.shapes import Float, Int

__all__ = ["MOST_LOG", "SIGNS", "LocalScale", "movement", "signs", "unrest_after", "unrest_before"]

MOST_LOG = 10.0
"""The log of the size of errors, relative to the usual one, is at most so far from 0."""
MOST_SQUARE = 100.0
"""A squared error counts at most so many usual ones: after one wild row, intervals are wide for some rows only."""
LEAST_SQUARE = 1e-3
"""Squared errors and movements far below it, in usual squared errors, count as none."""
SIGNS = 5
"""The columns of `signs`."""


class LocalScale(NamedTuple):
    """The size of errors in each situation, and the calibration of errors in units of this size."""

    fading: Float[np.ndarray, " 1"]
    """The share of the newest row in the unrest of a stream."""
    usual: Float[np.ndarray, " n"]
    """The variance of one-step errors, standardised; 0 for channels that were constant in training."""
    weights: Float[np.ndarray, " signs"]
    """Of the columns of `signs`, for the score of a situation."""
    scores: Float[np.ndarray, " knots"]
    """Rising; sizes between two of them are interpolated, and beyond them stay as they are."""
    logs: Float[np.ndarray, " knots"]
    """The logs of the sizes of errors at these scores, which never fall."""
    power: Float[np.ndarray, "horizon n"]
    """The power of the size that the errors so far ahead follow, from 0, for not at all, to 1."""
    level: Float[np.ndarray, "horizon n"]
    """The mean squared error, in units of the variance of all errors times the squared power of the size."""
    quantiles: Float[np.ndarray, "levels horizon n"]
    """The quantiles of |error| / standard deviation, at `LEVELS`; deviations follow the situation."""

    def sizes(
        self, unrest: Float[np.ndarray, "b n"], ahead: Float[np.ndarray, "b window n"]
    ) -> Float[np.ndarray, "b n"]:
        """The logs of the sizes of errors of each stream and channel, given its unrest and the rows that it expects."""
        scores = signs(unrest, movement(ahead), self.usual) @ self.weights
        return np.asarray(np.interp(np.nan_to_num(scores), self.scores, self.logs))

    def factor(
        self, sizes: Float[np.ndarray, "b n"], horizon: Int[np.ndarray, "b steps"]
    ) -> Float[np.ndarray, "b steps n"]:
        """The factor of the variance of errors so far ahead, given the logs of sizes."""
        place = self._place(horizon)
        return np.asarray(self.level[place] * np.exp(2 * self.power[place] * sizes[:, None]))

    def reach(self, horizon: Int[np.ndarray, "*b"], coverage: float) -> Float[np.ndarray, "*b n"]:
        """The number of standard deviations either side of a prediction that covers this share of observations."""
        return np.asarray(between(self.quantiles, coverage)[self._place(horizon)])

    def unrest_before(
        self, errors: Float[np.ndarray, "rows n"], offsets: Int[np.ndarray, " edges"]
    ) -> Float[np.ndarray, "rows n"]:
        """The unrest before every row of packed recordings, given all one-step errors."""
        return unrest_before(errors, offsets, self.usual, float(self.fading[0]))

    def _place(self, horizon: Int[np.ndarray, "*b"]) -> Int[np.ndarray, "*b"]:
        return np.asarray(np.minimum(horizon, len(self.power)) - 1)


def movement(ahead: Float[np.ndarray, "b window n"]) -> Float[np.ndarray, "b n"]:
    """The mean square of the changes from row to row that a stream expects; 0 if it expects one row only."""
    with np.errstate(over="ignore", invalid="ignore"):  # a filter that diverged
        return np.asarray(np.sum(np.diff(ahead, axis=1) ** 2, axis=1) / max(1, ahead.shape[1] - 1))


def signs(
    unrest: Float[np.ndarray, "b n"], moved: Float[np.ndarray, "b n"], usual: Float[np.ndarray, " n"]
) -> Float[np.ndarray, "b n signs"]:
    """A column of ones; then the logs of the unrest and of the expected movement, of the channel and of all channels.

    Both are in usual squared errors; unrest is so already.
    """
    columns = [np.ones_like(unrest)]
    with np.errstate(over="ignore", invalid="ignore"):  # a filter that diverged
        for each in (unrest, _in_units(moved, usual)):
            every = np.broadcast_to(each[:, usual > 0].mean(axis=1, keepdims=True), each.shape)
            columns += [np.log(each + LEAST_SQUARE), np.log(every + LEAST_SQUARE)]
    return np.stack(columns, axis=-1)


def unrest_after(
    unrest: Float[np.ndarray, "b n"], errors: Float[np.ndarray, "b n"], usual: Float[np.ndarray, " n"], fading: float
) -> Float[np.ndarray, "b n"]:
    """The fading mean of squared errors once one more row is seen; entries that were not seen do not change it."""
    squares = _squares(errors, usual)
    return np.asarray(unrest + fading * (np.where(np.isnan(squares), unrest, squares) - unrest))


def unrest_before(
    errors: Float[np.ndarray, "rows n"],
    offsets: Int[np.ndarray, " edges"],
    usual: Float[np.ndarray, " n"],
    fading: float,
) -> Float[np.ndarray, "rows n"]:
    """The same before every row of packed recordings, which begin at 1.

    With a and b of each row, u_{t+1} = a_t u_t + b_t. Pairs (a, b) of adjacent stretches of rows are put together,
    which doubles the stretches: as many passes as the longest recording has binary digits.
    """
    squares = _squares(errors, usual)
    missing = np.isnan(squares)
    a, b = (np.roll(part, 1, axis=0) for part in (np.where(missing, 1.0, 1 - fading), np.where(missing, 0.0, squares)))
    b *= fading
    a[offsets[:-1]], b[offsets[:-1]] = 0.0, 1.0
    stretch, longest = 1, int(np.diff(offsets).max(initial=1))
    while stretch < longest:
        b[stretch:] += a[stretch:] * b[:-stretch]
        a[stretch:] = a[stretch:] * a[:-stretch]
        stretch *= 2
    return b


def _squares(errors: Float[np.ndarray, "b n"], usual: Float[np.ndarray, " n"]) -> Float[np.ndarray, "b n"]:
    """Squared errors, in usual ones."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(np.minimum(_in_units(errors**2, usual), MOST_SQUARE))


def _in_units(squares: Float[np.ndarray, "b n"], usual: Float[np.ndarray, " n"]) -> Float[np.ndarray, "b n"]:
    """Squares in usual squared errors; 0 for channels without any."""
    return np.where(usual > 0, squares / np.where(usual > 0, usual, 1.0), 0.0)
