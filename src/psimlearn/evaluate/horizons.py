"""Errors: squared, summed over channels, averaged over rows, by horizon; the same rows for every method."""

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import numpy as np

from psimlearn.checks import whole
from psimlearn.errors import DataError
from psimlearn.recordings.schedule import schedule
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.recordings.windows import futures
from psimlearn.shapes import Float

__all__ = ["Forecaster", "Measure", "errors_by_horizon", "mean_square", "power", "scored_rows"]
__all__ += ["NOTHING_SEEN"]

NOTHING_SEEN = (
    "nothing to score: required an observed entry at each of {} horizons, received only NaN at one. "
    "Leave out recordings in which nothing was observed, or use a smaller skip."
)
Measure = Callable[[Float[np.ndarray, "rows horizon n"], Float[np.ndarray, "rows horizon n"]], np.ndarray]
"""A function of predictions and truth (NaN where not observed) that returns one number for each horizon."""


@runtime_checkable  # the tests check annotations while they run
class Forecaster(Protocol):
    """Anything that predicts: a filter, a baseline, a guess."""

    def forecast(self, trajectories: Trajectories, horizon: int) -> Float[np.ndarray, "rows horizon n"]:
        """Entry [row t, j] predicts x_{t+j} from x_0 .. x_{t-1}."""


def mean_square(residuals: Float[np.ndarray, "rows *rest n"]) -> Float[np.ndarray, "*rest"]:
    """Squared residuals, averaged over the rows where they exist (not NaN), summed over channels."""
    if len(residuals):  # numpy sums the columns of a tall array faster as a product
        sums = np.ones(len(residuals)) @ np.square(residuals).reshape(len(residuals), -1)
        if np.isfinite(sums).all():
            return np.asarray((sums / len(residuals)).reshape(residuals.shape[1:]).sum(axis=-1))
    seen = ~np.isnan(residuals)
    total = np.sum(np.square(residuals, where=seen, out=np.zeros_like(residuals)), axis=0)
    with np.errstate(invalid="ignore"):
        means: np.ndarray = total / seen.sum(axis=0)
    return np.asarray(np.nansum(means, axis=-1))


def errors_by_horizon(
    forecaster: Forecaster,
    trajectories: Trajectories,
    horizon: int = 1,
    *,
    skip: int = 0,
    scale: Float[np.ndarray, " n"] | None = None,
    measure: Measure | None = None,
) -> Float[np.ndarray, " horizon"]:
    """Mean squared error of the 1- to `horizon`-step predictions, summed over channels.

    All horizons are scored on predictions made before the same rows: rows at least `skip` rows into a trajectory and
    at least `horizon` rows from its end. Entries that were not observed are left out. If any prediction is not finite,
    every error is infinite.

    Args:
        forecaster: the method to score.
        trajectories: recordings that the forecaster was not fitted to.
        horizon: the largest number of steps ahead.
        skip: rows at the beginning of each trajectory from which no prediction is scored.
        scale: divide each channel by this first, for channels of different units.
        measure: score predictions by this instead of squared errors: `LogLoss().nats` for symbols.
    """
    whole(horizon, "horizon")
    whole(skip, "skip", 0)
    found = scored_rows(forecaster, trajectories, horizon, skip)
    if found is None:
        raise DataError(
            f"nothing to score: required a trajectory longer than {skip + horizon - 1} rows (skip {skip}, horizon "
            f"{horizon}), received at most {trajectories.lengths.max()}. Use a smaller horizon or skip."
        )
    predicted, truth = found
    if np.isnan(truth).all(axis=(0, 2)).any():
        raise DataError(NOTHING_SEEN.format(horizon))
    if not np.isfinite(predicted).all():
        return np.full(horizon, np.inf)
    if measure is not None:
        return measure(predicted, truth)
    residuals = truth - predicted
    return mean_square(residuals if scale is None else residuals / scale)


def scored_rows(
    forecaster: Forecaster, trajectories: Trajectories, horizon: int, skip: int
) -> tuple[Float[np.ndarray, "rows horizon n"], Float[np.ndarray, "rows horizon n"]] | None:
    """Predictions before every row that is scored, and the truth; None if no trajectory is long enough."""
    plan = schedule(trajectories.offsets)
    rows = (plan.time >= skip) & plan.reaches(horizon - 1)
    if not rows.any():
        return None
    truth = futures(trajectories.values[plan.order], plan, horizon)[rows]
    return forecaster.forecast(trajectories, horizon)[plan.order][rows], truth


def power(trajectories: Trajectories) -> float:
    """Mean ||x_t||^2, the error of always predicting zero."""
    return float(mean_square(trajectories.values))
