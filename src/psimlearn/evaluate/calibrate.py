"""The uncertainty of a learnt filter, measured on recordings that it was not fitted to."""

from collections.abc import Sequence
from dataclasses import fields, replace

import numpy as np
from jaxtyping import Float

from psimlearn.filter import Filter
from psimlearn.filter.gaps import error_covariance
from psimlearn.filter.predict import before_unforeseen, claimed_variance, coming_inputs, forecast_blind
from psimlearn.filter.rollout import rolled
from psimlearn.filter.uncertainty import Calibration, InputsToCome, calibrated
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.recordings.windows import futures

__all__ = ["HORIZON", "Blind", "Unseen", "blind", "with_calibration"]

Unseen = tuple[Filter, Trajectories]
"""A filter, and recordings that it was not fitted to."""
HORIZON = 20
"""How many steps beyond the window errors are measured."""
MOST_ENTRIES = 20_000_000
"""Errors kept at a time: bounds the memory of calibration."""


def with_calibration(filter: Filter, unseen: Sequence[Unseen]) -> Filter:
    """The filter, with the uncertainty that errors on unseen recordings show.

    With inputs, errors are measured again for predictions that do not know the inputs to come, within the window.

    Args:
        filter: the filter to calibrate.
        unseen: this filter or others learnt like it, each with recordings that it was not fitted to.
    """
    calibration, errors = _measured(filter, unseen, "known")
    return replace(
        filter,
        calibration=calibration,
        calibration_blind=None if filter.input_scaling is None else _measured(filter, unseen, "unknown")[0],
        calibration_next=_measured(filter, unseen, "next known")[0] if filter.feedthrough else None,
        covariance=error_covariance(errors[:, 0]),
    )


def _measured(
    filter: Filter, unseen: Sequence[Unseen], inputs: InputsToCome
) -> tuple[Calibration, Float[np.ndarray, "rows horizon n"]]:
    """The calibration of predictions that know these inputs to come, and the errors behind it."""
    window, unit = filter.features.window, filter.scaling.scale
    horizon = window + HORIZON if inputs == "known" else window
    measured = [_errors(other, _thinned(held, window + HORIZON), horizon, unit, inputs) for other, held in unseen]
    errors = np.concatenate([each for each, _ in measured])
    return calibrated(errors, _claimed([variances for _, variances in measured], window)), errors


def _claimed(
    variances: Sequence[Float[np.ndarray, "_ horizon n"] | None], window: int
) -> Float[np.ndarray, "all horizon n"] | None:
    """The variances that beliefs claim inside their window; beyond it they claim nothing."""
    claimed = [part for part in variances if part is not None]
    if not claimed:
        return None
    together: np.ndarray = np.concatenate(claimed)
    together[:, window:] = 0.0
    return together


def _errors(
    filter: Filter, held: Trajectories, horizon: int, unit: Float[np.ndarray, " n"], known: InputsToCome
) -> tuple[Float[np.ndarray, "rows horizon n"], Float[np.ndarray, "rows horizon n"] | None]:
    """Errors 1 to `horizon` steps ahead of every row, NaN where nothing was observed, and the variances beliefs claim.

    Errors are in the given units, variances in their squares: the units of the filter that is to be calibrated.
    """
    rollout = rolled(filter, held)
    plan = rollout.layout.plan
    state = before_unforeseen(rollout, held) if known == "unknown" else rollout.before
    inputs = coming_inputs(held, plan, horizon) if known == "known" else None
    errors = (futures(held.values[plan.order], plan, horizon) - filter.ahead(state, horizon, inputs)) / unit
    claimed = claimed_variance(filter, state, horizon, inputs)
    return errors, None if claimed is None else claimed * (filter.scaling.scale / unit) ** 2


class Blind(Filter):
    """A filter whose forecasts do not know the inputs of the predicted rows."""

    forecast = forecast_blind


def blind(filter: Filter) -> Blind:
    """The same filter, whose forecasts do not know the inputs of the predicted rows."""
    return Blind(**{field.name: getattr(filter, field.name) for field in fields(filter)})


def _thinned(held: Trajectories, horizon: int) -> Trajectories:
    """As many of the first trajectories as fit in memory with all their horizons; one that is too long is cut."""
    most = max(1, MOST_ENTRIES // (horizon * held.n_channels))
    if len(held.values) <= most:
        return held
    whole = int(np.searchsorted(held.offsets, most, side="right")) - 1
    return held[:whole] if whole else held[:1].blocks(most)[:1]
