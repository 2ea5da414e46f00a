"""The uncertainty of a learnt filter, measured on recordings that it was not fitted to."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from psimlearn.filter.filter import Filter
from psimlearn.filter.gaps import error_covariance
from psimlearn.filter.predict import claimed_variance, coming_inputs
from psimlearn.filter.rollout import rolled
from psimlearn.filter.uncertainty import calibrated
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.recordings.windows import futures

__all__ = ["HORIZON", "with_calibration"]

HORIZON = 20
"""How many steps beyond the window errors are measured."""
MOST_ENTRIES = 20_000_000
"""Errors kept at a time: bounds the memory of calibration."""


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
    rollout = rolled(filter, held)
    plan, state = rollout.layout.plan, rollout.before
    inputs = coming_inputs(held, plan, horizon)
    errors = (futures(held.values[plan.order], plan, horizon) - filter.ahead(state, horizon, inputs)) / unit
    own = claimed_variance(filter, state, horizon, inputs)
    return errors, None if own is None else own * (filter.scaling.scale / unit) ** 2


def _thinned(held: Trajectories, horizon: int) -> Trajectories:
    """As many of the first trajectories as fit in memory with all their horizons; one that is too long is cut."""
    most = max(1, MOST_ENTRIES // (horizon * held.n_channels))
    if len(held.values) <= most:
        return held
    whole = int(np.searchsorted(held.offsets, most, side="right")) - 1
    return held[:whole] if whole else held[:1].blocks(most)[:1]
