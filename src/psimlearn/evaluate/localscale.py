"""Whether the size of errors follows the situation: told by held-out recordings, and used only if it helps there.

Recordings are cut in two halves, and a scale learnt on one half is tried on the other. If it explains errors there, a
scale is learnt from all recordings; calibration then measures held-out errors in its units.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from psimlearn.evaluate.folds import halves
from psimlearn.filter import Filter
from psimlearn.filter.localscale import MOST_LOG, LocalScale, movements, scores_of
from psimlearn.filter.predict import coming_inputs
from psimlearn.filter.rollout import rolled
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.recordings.windows import futures, row_times
from psimlearn.shapes import Float

__all__ = ["with_local_scale"]

Unseen = tuple[Filter, Trajectories]
LEAST_SHARE = 0.15
"""The share of the variance of log errors that a scale must explain on recordings that it did not see.

It is 0 on linear systems, 0.06 on the noisy pendulum, where a scale does not help, and 0.4 to 0.6 where activities
differ.
"""
LEAST_ROWS = 200
"""Rows without which no scale is learnt."""
MOST_ROWS = 20_000
"""Rows of each half that a filter is tried on: bounds time and memory."""
RIDGE = 10.0
MOST_BINS, LEAST_IN_BIN, LEVEL = 30, 50, 0.9
"""The bins of the curve, the situations in each, and the quantile of errors that it follows."""
LEAST_STEP = 0.02
"""Between the scores of two knots."""
ROUNDING = 1e-9
"""Mean errors below it, in units of the channel, are errors of rounding: the channel is constant."""
NOISE = 1e-3
"""The share of the noise below which a movement counts as none, and the share of the usual error below which errors
count as none."""


def with_local_scale(
    filter: Filter, unseen: Sequence[Unseen], all_recordings: Sequence[Unseen] = ()
) -> tuple[Filter, list[Unseen]]:
    """The filter with a local scale, and the unseen recordings paired with filters that have one.

    Filters whose beliefs claim variances need none. If a scale explains nothing, all is returned as it was.

    Args:
        filter: a filter without a local scale.
        unseen: this filter or others learnt like it, each with recordings that it was not fitted to. They decide.
        all_recordings: filters with recordings from which the scale is then learnt, because held-out ones may hold few
            situations. It does no harm if filters were fitted to them, as only the ratio of errors counts. Without any,
            unseen recordings are cut, so that no scale saw the half that it is paired with.
    """
    cuts = [(other, *halves(held)[0]) for other, held in unseen if len(held.values) >= 4]
    if filter.variances is not None or not cuts or len(cuts) < len(unseen):
        return filter, list(unseen)
    follows, floor = _follows(filter, [held for _, held in unseen]), NOISE * np.diag(filter.covariance)
    examples = partial(_examples, follows=follows, floor=floor)
    first, second = (_joined([examples(other, parts[side]) for other, *parts in cuts]) for side in (0, 1))
    if min(first.rows, second.rows) < LEAST_ROWS:
        return filter, list(unseen)
    of_first, of_second = _learnt(first, follows, floor), _learnt(second, follows, floor)
    explained = np.concatenate([_explained(of_second.weights, first), _explained(of_first.weights, second)])
    if not explained.sum() > LEAST_SHARE * max(1, len(explained)):
        return filter, list(unseen)
    if all_recordings:
        local = _learnt(_joined([examples(other, held) for other, held in all_recordings]), follows, floor)
        return replace(filter, local=local), [(replace(other, local=local), held) for other, held in unseen]
    crossed = [(replace(other, local=of_second), one) for other, one, _ in cuts]
    crossed += [(replace(other, local=of_first), two) for other, _, two in cuts]
    return replace(filter, local=_learnt(_joined([first, second]), follows, floor)), crossed


def _follows(filter: Filter, recordings: Sequence[Trajectories]) -> Float[np.ndarray, "n n"]:
    """The map from a row to the next one, by least squares over pairs of rows without gaps."""
    n = len(filter.scaling.mean)
    A, B = RIDGE * np.eye(n), RIDGE * np.eye(n)  # a row is followed by itself, if there are no pairs
    for held in recordings:
        x = filter.scaling(held.values)
        whole = np.isfinite(x).all(axis=1)
        now = np.flatnonzero((row_times(held.offsets) > 0) & whole & np.roll(whole, 1))
        A, B = A + x[now - 1].T @ x[now - 1], B + x[now - 1].T @ x[now]
    return np.linalg.solve(A, B)


class _Examples(NamedTuple):
    """Situations, with the errors that came after them."""

    phi: Float[np.ndarray, "rows k n"]
    """The columns of `movements`."""
    relative: Float[np.ndarray, "rows window n"]
    """|error|, in units of the mean so far ahead; NaN where nothing was observed, and for constant channels."""

    @property
    def rows(self) -> int:
        """The number of rows with errors that are known."""
        return int(np.isfinite(self.relative).any(axis=(1, 2)).sum())

    @property
    def logs(self) -> Float[np.ndarray, "rows n"]:
        """The logs of errors, averaged over the window."""
        seen = np.isfinite(self.relative)
        mean = np.where(seen, self.relative, 0.0).sum(axis=1) / np.maximum(seen.sum(axis=1), 1)
        return np.where(seen.any(axis=1), np.log(mean + NOISE), np.nan)


def _joined(parts: Sequence[_Examples]) -> _Examples:
    return _Examples(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def _examples(
    filter: Filter, held: Trajectories, follows: Float[np.ndarray, "n n"], floor: Float[np.ndarray, " n"]
) -> _Examples:
    """What comes after each row but the first ones."""
    rollout = rolled(filter, held)
    plan, window = rollout.layout.plan, filter.features.window
    rows = np.flatnonzero(plan.time >= filter.lags)
    rows = rows[:: max(1, -(-len(rows) // MOST_ROWS))]
    state, inputs = rollout.before.at(rows), coming_inputs(held, plan, window)
    ahead = filter.ahead(state, window, None if inputs is None else inputs[rows])
    sizes = np.abs(futures(held.values[plan.order], plan, window)[rows] - ahead)
    seen = np.isfinite(sizes)
    mean = np.where(seen, sizes, 0.0).sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
    seen &= mean > ROUNDING * filter.scaling.scale
    phi = movements(filter.features.observations(state.belief), state, follows, floor)
    return _Examples(phi, np.divide(sizes, mean, out=np.full_like(sizes, np.nan), where=seen))


def _learnt(examples: _Examples, follows: Float[np.ndarray, "n n"], floor: Float[np.ndarray, " n"]) -> LocalScale:
    """Scores by ridge regression, and the curve of sizes against them."""
    weights = _weights(examples)
    return LocalScale(weights, *_curve(scores_of(examples.phi, weights), examples.relative), follows, floor)


def _weights(examples: _Examples) -> Float[np.ndarray, "k n"]:
    """Ridge regression of log errors for each channel: a few wild errors, as at a change of regime, count little."""
    phi, y = examples.phi, examples.logs
    weights = np.zeros(phi.shape[1:])
    for c in range(y.shape[1]):
        seen = np.isfinite(y[:, c]) & np.isfinite(phi[:, :, c]).all(axis=1)
        A = phi[seen, :, c]
        penalty = np.diag(np.where(np.arange(A.shape[1]) > 0, RIDGE, 1e-9))
        weights[:, c] = np.linalg.solve(A.T @ A + penalty, A.T @ y[seen, c])
    return weights


def _curve(
    scores: Float[np.ndarray, "rows n"], relative: Float[np.ndarray, "rows window n"]
) -> tuple[Float[np.ndarray, " knots"], Float[np.ndarray, " knots"]]:
    """The sizes of errors in bins of as many situations each, of all channels, made to rise with the score.

    A size is a quantile: the root of a mean square would tell of the few situations that are about to change.
    """
    seen = np.isfinite(relative).any(axis=1)
    s, e = scores[seen], relative.swapaxes(1, 2)[seen]
    bins = np.array_split(np.argsort(s, kind="stable"), min(MOST_BINS, len(s) // LEAST_IN_BIN))
    knots = np.array([s[rows].mean() for rows in bins])
    logs = _rising(np.array([np.log(np.nanquantile(e[rows], LEVEL) + NOISE) for rows in bins]))
    mean = 0.5 * np.log(np.mean(np.exp(2 * np.interp(s, knots, logs))))
    apart = _apart(knots)
    return knots[apart], np.clip(logs - mean, -MOST_LOG, MOST_LOG)[apart]  # the mean of all variances is about 1


def _rising(values: Float[np.ndarray, " k"]) -> Float[np.ndarray, " k"]:
    """The nearest values that never fall: the largest, over first places j <= i, of the least mean from j to k >= i."""
    sums, place = np.concatenate([[0.0], np.cumsum(values)]), np.arange(len(values))
    length = place - place[:, None] + 1
    means = np.where(length > 0, (sums[1:] - sums[:-1, None]) / np.maximum(length, 1), -np.inf)
    return np.asarray(np.minimum.accumulate(means[:, ::-1], axis=1)[:, ::-1].max(axis=0))


def _apart(knots: Float[np.ndarray, " k"]) -> list[int]:
    """The places of knots that are not too near to each other: a steep curve would enlarge errors of rounding."""
    places = [0]
    for i in range(1, len(knots)):
        if knots[i] - knots[places[-1]] >= LEAST_STEP:
            places.append(i)
    return places


def _explained(weights: Float[np.ndarray, "k n"], examples: _Examples) -> Float[np.ndarray, " moving"]:
    """The share of the variance of log errors that scores explain, for each channel that has errors."""
    y = examples.logs
    seen = np.isfinite(y).any(axis=0)
    y, scores = y[:, seen], scores_of(examples.phi, weights)[:, seen]
    with np.errstate(invalid="ignore", divide="ignore"):
        left = np.nanvar(y - scores, axis=0) / np.nanvar(y, axis=0)
    return np.asarray(1 - left[np.isfinite(left)])
