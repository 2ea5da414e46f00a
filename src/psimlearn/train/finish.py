"""What a filter gets once it is learnt: its uncertainty, from recordings it was not fitted to, and its hints."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from psimlearn.errors import DataError
from psimlearn.filter import Filter
from psimlearn.gaps import error_covariance
from psimlearn.learners import GramSums, Ridge, generalised_alpha
from psimlearn.regressors import Linear
from psimlearn.trajectories import Trajectories
from psimlearn.uncertainty import calibrated
from psimlearn.windows import futures

__all__ = ["HORIZON", "HintSums", "hint_sums", "merged_hints", "with_calibration", "with_hints"]

HORIZON = 20
"""How many steps beyond the window errors are measured."""
MOST_ENTRIES = 20_000_000
"""Errors kept at a time: bounds the memory of calibration."""

HintSums = list[tuple[tuple[int, ...], GramSums]]
"""Sums for the hints that were measured at the same rows, with their numbers."""


def with_calibration(filter: Filter, judged: Sequence[tuple[Filter, Trajectories]]) -> Filter:
    """The filter with the errors that it, or others learnt like it, made on recordings they were not fitted to."""
    window, unit = filter.features.window, filter.scaling.scale
    horizon = window + HORIZON
    errors, own = zip(*(_errors(judge, _thinned(held, horizon), horizon, unit) for judge, held in judged), strict=True)
    all_errors = np.concatenate(errors)
    calibration = calibrated(all_errors, _all_own(own, window))
    return replace(filter, calibration=calibration, covariance=error_covariance(all_errors[:, 0]))


def _all_own(
    own: Sequence[Float[np.ndarray, "_ horizon n"] | None], window: int
) -> Float[np.ndarray, "all horizon n"] | None:
    """The variances that beliefs claim inside their window; beyond it they claim nothing."""
    claimed = [part for part in own if part is not None]
    if not claimed:
        return None
    variances: np.ndarray = np.concatenate(claimed)
    variances[:, window:] = 0.0
    return variances


def _errors(
    filter: Filter, held: Trajectories, horizon: int, unit: Float[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, "rows horizon n"], Float[np.ndarray, "rows horizon n"] | None]:
    """Errors 1 to `horizon` steps ahead of every row, NaN where nothing was observed, and beliefs' own variances.

    Both are in these units and their squares: those of the filter that is to be calibrated.
    """
    plan, state, inputs, _ = filter.standing(held, horizon)
    errors = (futures(held.values[plan.order], plan, horizon) - filter.ahead(state, horizon, inputs)) / unit
    own = filter.own_variance(state, horizon, inputs)
    return errors, None if own is None else own * (filter.scaling.scale / unit) ** 2


def _thinned(held: Trajectories, horizon: int) -> Trajectories:
    """As many of the first trajectories as fit in memory with all their horizons; one that is too long is cut."""
    most = max(1, MOST_ENTRIES // (horizon * held.n_channels))
    if len(held.values) <= most:
        return held
    whole = int(np.searchsorted(held.offsets, most, side="right")) - 1
    return held[:whole] if whole else held[:1].blocks(most)[:1]


def with_hints(filter: Filter, sums: HintSums) -> Filter:
    """The filter with a read-out of its hints, each fitted to the rows where it was measured."""
    if not sums:
        return filter
    width, n_hints = len(sums[0][1].z), sum(len(which) for which, _ in sums)
    weights, intercept = np.zeros((width, n_hints)), np.zeros(n_hints)
    for which, own in sums:
        if not own.n:
            raise DataError(f"hint {which[0]}: required at least one measured value, received none. Leave it out.")
        fitted = Ridge(generalised_alpha(own)).solve(own)
        weights[:, which], intercept[list(which)] = fitted.weights, fitted.intercept
    return replace(filter, hinting=Linear(weights, intercept))


def hint_sums(filter: Filter, train: Trajectories) -> HintSums:
    """Sums of the regression of hints on what a filter knows once it has seen their row."""
    if train.hints is None:
        return []
    rollout = filter.roll(filter.table(train))
    z, hints = np.concatenate(filter.known(rollout), axis=1), train.hints[rollout.layout.plan.order]
    measured = ~np.isnan(hints)
    patterns, group = np.unique(measured, axis=1, return_inverse=True)
    sums: HintSums = []
    for i, rows in enumerate(patterns.T):
        which = tuple(np.flatnonzero(group.ravel() == i).tolist())
        sums.append((which, Ridge().summarise(z[rows], hints[np.ix_(rows, np.array(which))])))
    return sums


def merged_hints(a: HintSums, b: HintSums) -> HintSums:
    """Both sums together; hints that were measured at the same rows in one but not in the other part ways."""
    if not (a and b):  # recordings without hints say nothing about them
        return a or b
    n_hints, received = (sum(len(which) for which, _ in sums) for sums in (a, b))
    if n_hints != received:
        raise DataError(f"required {n_hints} hints as in fit, or none, received {received}.")
    if [which for which, _ in a] != [which for which, _ in b]:
        a, b = _one_by_one(a), _one_by_one(b)
    return [(which, Ridge().merge(own, other)) for (which, own), (_, other) in zip(a, b, strict=True)]


def _one_by_one(sums: HintSums) -> HintSums:
    """Every hint with sums of its own; their common yy, which no solution needs, is left whole."""
    singles = {
        (column,): own._replace(y=own.y[[i]], zy=own.zy[:, [i]])
        for which, own in sums
        for i, column in enumerate(which)
    }
    return sorted(singles.items())
