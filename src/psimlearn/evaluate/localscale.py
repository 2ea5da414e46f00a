"""Whether the size of errors follows the situation: told by held-out recordings, and used only where it helps there.

Held-out rows are cut in two halves by recording. A scale learnt on one half is tried on the other, and kept at each
horizon and in each channel where it makes 90 % intervals better by their interval score; where it does not, intervals
stay as they are. So a system whose errors are alike everywhere loses nothing.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from psimlearn.factors import solve
from psimlearn.filter.localscale import MOST_LOG, LocalScale
from psimlearn.filter.uncertainty import LEAST_VARIANCE, Calibration, conformal
from psimlearn.shapes import Bool, Float, Int

__all__ = ["FADING", "Situations", "interval_score", "local_scale", "rising", "usual_squares"]

FADING = 0.25
"""The share of the newest row in the unrest of a stream; between 0.2 and 0.35, results hardly differ."""
LEAST_ROWS = 200
"""Rows of each half without which no scale is learnt."""
POWERS = (0.25, 0.5, 0.75, 1.0)
"""The powers of the size of errors that are tried."""
COVERAGE = 0.9
"""The coverage of the intervals that decide."""
LEAST_GAIN = 0.01
"""The share of the interval score by which intervals must get better."""
RIDGE = 10.0
MOST_BINS, LEAST_IN_BIN = 30, 50
"""The bins of the curve, and the errors in each."""
LEAST_STEP = 0.02
"""Between the scores of two knots: a steep curve would enlarge errors of rounding."""
LEAST_ERROR = 1e-3
"""Errors far below it, in standard deviations, count as none."""


class Situations(NamedTuple):
    """Held-out rows with the signs of their situation, and the errors that came after them."""

    signs: Float[np.ndarray, "rows n signs"]
    relative: Float[np.ndarray, "rows horizon n"]
    """|error| / standard deviation, as all errors together were calibrated; NaN where nothing was observed."""
    second: Bool[np.ndarray, " rows"]
    """The half of each row; both halves hold whole recordings."""
    window: int

    def at(self, rows: Bool[np.ndarray, " rows"]) -> "Situations":
        """Some of the rows."""
        return Situations(self.signs[rows], self.relative[rows], self.second[rows], self.window)


class _Curve(NamedTuple):
    """From the signs of a situation to the log of the size of errors."""

    weights: Float[np.ndarray, " signs"]
    scores: Float[np.ndarray, " knots"]
    logs: Float[np.ndarray, " knots"]

    def __call__(self, signs: Float[np.ndarray, "rows n signs"]) -> Float[np.ndarray, "rows n"]:
        """The log of the size of errors."""
        return np.asarray(np.interp(np.nan_to_num(signs @ self.weights), self.scores, self.logs))


def usual_squares(errors: Float[np.ndarray, "rows n"]) -> Float[np.ndarray, " n"]:
    """The mean squares of one-step errors; 0 for channels that are constant, or were never observed."""
    seen = ~np.isnan(errors)
    mean = np.sum(np.where(seen, errors, 0.0) ** 2, axis=0) / np.maximum(seen.sum(axis=0), 1)
    return np.where(mean > LEAST_VARIANCE, mean, 0.0)


def local_scale(given: Situations, usual: Float[np.ndarray, " n"], calibration: Calibration) -> LocalScale | None:
    """The local scale of held-out errors; None if rows are too few, or if intervals get no better by it.

    Args:
        given: held-out rows.
        usual: the mean squared errors in whose units the signs are.
        calibration: of all errors together, which stays where the scale does not help.
    """
    horizon = calibration.furthest
    moving = (usual > 0) & ~calibration.still
    relative = np.where(moving, given.relative[:, :horizon], np.nan)
    given = given._replace(relative=relative).at(np.asarray(np.isfinite(relative[:, 0]).any(axis=1)))
    halves = [given.at(~given.second), given.at(given.second)]
    if min(len(half.signs) for half in halves) < LEAST_ROWS:
        return None
    of_first, of_second = map(_learnt, halves)
    sizes = np.where(given.second[:, None], of_first(given.signs), of_second(given.signs))
    near = np.isfinite(given.relative[:, 0])
    if not _powers(given.relative[:, 0][near], sizes[near]):
        return None
    power, level = np.zeros((horizon, len(usual))), np.ones((horizon, len(usual)))
    quantiles = np.nan_to_num(calibration.quantiles[:, :horizon], nan=1.0)  # of channels without errors
    of_channel = np.ascontiguousarray(sizes.T)
    for j in range(horizon):
        ahead = np.ascontiguousarray(given.relative[:, j].T)
        for rows, channels in _seen_alike(np.isfinite(ahead)):
            if len(rows) < 2 * LEAST_ROWS:
                continue
            errors, of_rows = ahead[np.ix_(channels, rows)], of_channel[np.ix_(channels, rows)]
            power[j, channels] = _powers(errors, of_rows)
            for error, size, c in zip(errors, of_rows, channels.tolist(), strict=True):
                if power[j, c]:
                    scaled = error / np.exp(power[j, c] * size)
                    level[j, c] = np.mean(scaled**2)
                    quantiles[:, j, c] = conformal(scaled / np.sqrt(level[j, c]))
    return LocalScale(np.array([FADING]), usual, *_learnt(given), power, level, quantiles)


def _seen_alike(
    seen: Bool[np.ndarray, "n rows"],
) -> Iterator[tuple[Int[np.ndarray, " some"], Int[np.ndarray, " channels"]]]:
    """Channels that were seen at the same rows, with these rows: usually all channels, which are then one array."""
    groups: dict[bytes, list[int]] = {}
    for c, pattern in enumerate(seen):
        groups.setdefault(pattern.tobytes(), []).append(c)
    for channels in groups.values():
        yield np.flatnonzero(seen[channels[0]]), np.array(channels)


def _powers(errors: Float[np.ndarray, "*n rows"], sizes: Float[np.ndarray, "*n rows"]) -> Float[np.ndarray, "*n"]:
    """The power of sizes that gives the best intervals, of each channel; 0 if none makes them better."""
    tried = np.array([0.0, *POWERS])
    scores = np.stack([interval_score(errors, np.exp(power * sizes)) for power in tried.tolist()])
    return np.where(scores.min(axis=0) < (1 - LEAST_GAIN) * scores[0], tried[scores.argmin(axis=0)], 0.0)


def interval_score(
    errors: Float[np.ndarray, "*n rows"], sizes: Float[np.ndarray, "*n rows"]
) -> Float[np.ndarray, "*n"]:
    """The mean interval score: the width, and what observations outside lie beyond it, over half the share outside.

    Intervals are as many sizes wide as hold the share `COVERAGE` of all errors of their channel.
    """
    reach = sizes * np.quantile(errors / sizes, COVERAGE, axis=-1, keepdims=True)
    return np.asarray(np.mean(2 * reach + 2 / (1 - COVERAGE) * np.maximum(errors - reach, 0.0), axis=-1))


def _learnt(given: Situations) -> _Curve:
    """Scores by ridge regression of the logs of errors, and the curve of sizes against them.

    The logs are of the mean error over the window: a few wild errors, as at a change of regime, count little.
    """
    near = given.relative[:, : given.window]
    seen = np.isfinite(near)
    mean = np.where(seen, near, 0.0).sum(axis=1) / np.maximum(seen.sum(axis=1), 1)
    some = seen.any(axis=1) & np.isfinite(given.signs).all(axis=2)
    A, y = given.signs[some], np.log(mean[some] + LEAST_ERROR)
    penalty = np.diag(np.where(np.arange(A.shape[1]) > 0, RIDGE, 1e-9))
    weights = solve(A.T @ A + penalty, A.T @ y)
    return _Curve(weights, *_curve(A @ weights, near.swapaxes(1, 2)[some]))


def _curve(
    scores: Float[np.ndarray, " entries"], relative: Float[np.ndarray, "entries window"]
) -> tuple[Float[np.ndarray, " knots"], Float[np.ndarray, " knots"]]:
    """The sizes of errors in bins of as many situations each, made to rise with the score.

    A size is a quantile: the root of a mean square would tell of the few situations that are about to change.
    """
    bins = np.array_split(np.argsort(scores, kind="stable"), max(1, min(MOST_BINS, len(scores) // LEAST_IN_BIN)))
    knots = np.array([scores[rows].mean() for rows in bins])
    logs = rising(np.array([np.log(np.nanquantile(relative[rows], COVERAGE) + LEAST_ERROR) for rows in bins]))
    apart = _apart(knots)
    return knots[apart], np.clip(logs, -MOST_LOG, MOST_LOG)[apart]


def rising(values: Float[np.ndarray, " k"]) -> Float[np.ndarray, " k"]:
    """The nearest values that never fall: the largest, over first places j <= i, of the least mean from j to k >= i."""
    sums, place = np.concatenate([[0.0], np.cumsum(values)]), np.arange(len(values))
    length = place - place[:, None] + 1
    means = np.where(length > 0, (sums[1:] - sums[:-1, None]) / np.maximum(length, 1), -np.inf)
    return np.asarray(np.minimum.accumulate(means[:, ::-1], axis=1)[:, ::-1].max(axis=0))


def _apart(knots: Float[np.ndarray, " k"]) -> list[int]:
    """The places of knots that are not too near to each other."""
    places = [0]
    for i in range(1, len(knots)):
        if knots[i] - knots[places[-1]] >= LEAST_STEP:
            places.append(i)
    return places
