"""Whether the size of errors follows the situation: learnt on held-out recordings, and kept only if it helps there.

Recordings are cut in two halves. A scale learnt on one half is tried on the other, and calibration measures errors in
units of a scale that did not see them: so quantiles stay honest.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from psimlearn.evaluate.folds import halves
from psimlearn.filter import Filter
from psimlearn.filter.localscale import MOST_LOG, LocalScale, movements
from psimlearn.filter.predict import coming_inputs
from psimlearn.filter.rollout import rolled
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.recordings.windows import futures
from psimlearn.shapes import Float

__all__ = ["with_local_scale"]

Unseen = tuple[Filter, Trajectories]
LEAST_SHARE = 0.05
"""The share of the variance of log errors that a scale must explain on recordings that it did not see."""
LEAST_ROWS = 200
"""Rows without which no scale is learnt."""
MOST_ROWS = 20_000
"""Rows of each half that a filter is tried on: bounds time and memory."""
RIDGE, TAILS = 10.0, (0.005, 0.995)
NOISE = 1e-3
"""The share of the noise below which a movement counts as none, and the share of the usual error below which errors
count as none."""


def with_local_scale(filter: Filter, unseen: Sequence[Unseen]) -> tuple[Filter, list[Unseen]]:
    """The filter with a local scale, and the unseen recordings cut so that no scale saw the half it is paired with.

    Filters whose beliefs claim variances need none. If a scale explains nothing, all is returned as it was.
    """
    cuts = [(other, *halves(held)[0]) for other, held in unseen if len(held.values) >= 4]
    if filter.variances is not None or not cuts or len(cuts) < len(unseen):
        return filter, list(unseen)
    floor = NOISE * np.diag(filter.covariance)
    examples = [[_examples(other, parts[side], floor) for other, *parts in cuts] for side in (0, 1)]
    first, second = (_joined(side) for side in examples)
    if min(len(first[1]), len(second[1])) < LEAST_ROWS:
        return filter, list(unseen)
    of_first, of_second = _learnt(*first, floor), _learnt(*second, floor)
    explained = np.concatenate([_explained(of_second, *first), _explained(of_first, *second)])
    if not np.mean(explained) > LEAST_SHARE:
        return filter, list(unseen)
    both = _joined([first, second])
    crossed = [(replace(other, local=of_second), one) for other, one, _ in cuts]
    crossed += [(replace(other, local=of_first), two) for other, _, two in cuts]
    return replace(filter, local=_learnt(*both, floor)), crossed


Examples = tuple[Float[np.ndarray, "_ k n"], Float[np.ndarray, "_ n"]]
"""The columns of `movements`, and logs of errors, NaN where nothing was observed."""


def _joined(parts: Sequence[Examples]) -> Examples:
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def _examples(filter: Filter, held: Trajectories, floor: Float[np.ndarray, " n"]) -> Examples:
    """The log of |error|, in units of the mean so far ahead and averaged over the window, after the first rows."""
    rollout = rolled(filter, held)
    plan, window = rollout.layout.plan, filter.features.window
    rows = np.flatnonzero(plan.time >= filter.lags)
    rows = rows[:: max(1, -(-len(rows) // MOST_ROWS))]
    ahead = filter.ahead(rollout.before, window, coming_inputs(held, plan, window))
    sizes = np.abs((futures(held.values[plan.order], plan, window) - ahead)[rows])
    seen = np.isfinite(sizes)
    total = np.where(seen, sizes, 0.0).sum(axis=0)
    mean = np.where(total > 0, total, 1.0) / np.maximum(seen.sum(axis=0), 1)
    relative = np.where(seen, sizes / mean, 0.0).sum(axis=1) / np.maximum(seen.sum(axis=1), 1)
    state = rollout.before.at(rows)
    phi = movements(filter.features.observations(state.belief), state, floor)
    return phi, np.where(seen.any(axis=1), np.log(relative + NOISE), np.nan)


def _learnt(phi: Float[np.ndarray, "rows k n"], y: Float[np.ndarray, "rows n"], floor: np.ndarray) -> LocalScale:
    """Ridge regression of log errors for each channel: a few wild errors, as at a change of regime, count little."""
    weights, bounds = np.zeros(phi.shape[1:]), np.zeros((2, y.shape[1]))
    for c in range(y.shape[1]):
        seen = np.isfinite(y[:, c]) & np.isfinite(phi[:, :, c]).all(axis=1)
        if not seen.any():
            continue
        A, logs = phi[seen, :, c], y[seen, c]
        penalty = np.diag(np.where(np.arange(A.shape[1]) > 0, RIDGE, 1e-9))
        weights[:, c] = np.linalg.solve(A.T @ A + penalty, A.T @ logs)
        bounds[:, c] = np.clip(np.quantile(A @ weights[:, c], TAILS), -MOST_LOG, MOST_LOG)
        mean = 0.5 * np.log(np.mean(np.exp(2 * np.clip(A @ weights[:, c], *bounds[:, c]))))
        weights[0, c] -= mean  # so that the mean of all variances is 1
        bounds[:, c] -= mean
    return LocalScale(weights, bounds[0], bounds[1], floor)


def _explained(
    local: LocalScale, phi: Float[np.ndarray, "rows k n"], y: Float[np.ndarray, "rows n"]
) -> Float[np.ndarray, " moving"]:
    """The share of the variance of log errors that a scale explains, for each channel that has errors."""
    logs = np.clip(np.einsum("rkn,kn->rn", np.nan_to_num(phi), local.weights), local.low, local.high)
    with np.errstate(invalid="ignore", divide="ignore"):
        left = np.nanvar(y - logs, axis=0) / np.nanvar(y, axis=0)
    return np.asarray(1 - left[np.isfinite(left)])
