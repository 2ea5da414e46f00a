"""The uncertainty of a learnt filter, measured on recordings that it was not fitted to."""

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import NamedTuple

import numpy as np

from psimlearn.filter import Filter
from psimlearn.filter.gaps import error_covariance
from psimlearn.filter.predict import (
    before_unforeseen,
    claimed_variance,
    coming_inputs,
    doubt_of_row_and_ahead,
    forecast_blind,
    row_and_ahead,
)
from psimlearn.filter.rollout import rolled
from psimlearn.filter.uncertainty import Calibration, InputsToCome, Starting, calibrated, started
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.recordings.windows import futures, late_before, settled
from psimlearn.shapes import Bool, Float, Int

__all__ = ["HORIZON", "Blind", "Unseen", "blind", "thinned", "with_calibration"]

Unseen = tuple[Filter, Trajectories]
"""A filter, and recordings that it was not fitted to."""
HORIZON = 20
"""How many steps beyond the window errors are measured."""
ENOUGH_STARTS = 20
"""Recordings from which the first rows alone tell how errors begin."""
MOST_ENTRIES = 20_000_000
"""Errors kept at a time: bounds the memory of calibration."""


def with_calibration(filter: Filter, unseen: Sequence[Unseen], starts: Sequence[Unseen] = ()) -> Filter:
    """The filter, with the uncertainty that errors on unseen recordings show.

    With inputs, errors are measured again for predictions that do not know the inputs to come, within the window.

    Args:
        filter: the filter to calibrate.
        unseen: this filter or others learnt like it, each with recordings that it was not fitted to.
        starts: filters with recordings whose first rows show how errors begin; without any, all ages count alike. It
            does no harm if the filter was fitted to them, as only the ratio of early errors to later ones counts.
    """
    calibration, errors = _measured(filter, unseen, "known", settled_only=bool(starts))
    filter = replace(
        filter,
        calibration=calibration,
        calibration_blind=_other(filter, unseen, "unknown", starts) if filter.input_scaling is not None else None,
        calibration_next=_other(filter, unseen, "next known", starts) if filter.feedthrough else None,
        covariance=error_covariance(errors.of[:, 0], errors.of_row, filter.covariance),
        starting=None,
    )
    return replace(filter, starting=_started(filter, starts)) if starts else filter


def _other(filter: Filter, unseen: Sequence[Unseen], inputs: InputsToCome, starts: Sequence[Unseen]) -> Calibration:
    return _measured(filter, unseen, inputs, settled_only=bool(starts))[0]


class _Errors(NamedTuple):
    """Errors ahead of rows, in standardised units, with what is known of each."""

    of: Float[np.ndarray, "rows horizon n"]
    """NaN where nothing was observed."""
    claimed: Float[np.ndarray, "rows horizon n"] | None
    """The variances that beliefs claim; None if their features claim none."""
    doubt: Float[np.ndarray, "rows horizon n"] | None
    """The variances that gaps add; None if nothing is missing, or the filter keeps no doubt."""
    of_row: Float[np.ndarray, "rows n n"] | None
    """The covariance that gaps add to the errors of the next row."""
    age: Int[np.ndarray, " rows"]
    settled: Bool[np.ndarray, " rows"]
    ages: int
    """The age from which a stream counts as settled."""

    def at(self, rows: Bool[np.ndarray, " rows"]) -> "_Errors":
        """Some of the rows."""
        claimed, doubt, of_row = (None if part is None else part[rows] for part in self[1:4])
        return _Errors(self.of[rows], claimed, doubt, of_row, self.age[rows], self.settled[rows], self.ages)


def _together(parts: Sequence[_Errors]) -> _Errors:
    """All rows of all parts."""
    shapes = [part.of.shape for part in parts]
    n = shapes[0][2]

    def stacked(arrays: Sequence[np.ndarray | None], shape: Callable[[int, int], tuple[int, ...]]) -> np.ndarray | None:
        if all(array is None for array in arrays):
            return None
        made = [np.zeros(shape(*s[:2])) if a is None else a for a, s in zip(arrays, shapes, strict=True)]
        return np.concatenate(made)

    return _Errors(
        np.concatenate([part.of for part in parts]),
        stacked([part.claimed for part in parts], lambda rows, horizon: (rows, horizon, n)),
        stacked([part.doubt for part in parts], lambda rows, horizon: (rows, horizon, n)),
        stacked([part.of_row for part in parts], lambda rows, _: (rows, n, n)),
        np.concatenate([part.age for part in parts]),
        np.concatenate([part.settled for part in parts]),
        min(part.ages for part in parts),
    )


def _measured(
    filter: Filter, unseen: Sequence[Unseen], inputs: InputsToCome, settled_only: bool
) -> tuple[Calibration, _Errors]:
    """The calibration of predictions that know these inputs to come, and the errors behind it."""
    window, unit = filter.features.window, filter.scaling.scale
    horizon = window + HORIZON if inputs == "known" else window
    parts = [_errors(other, _thinned(held, window + HORIZON), horizon, unit, inputs) for other, held in unseen]
    errors = _together(parts)
    if settled_only and errors.settled.any():
        errors = errors.at(errors.settled)
    return calibrated(errors.of, errors.claimed, errors.doubt), errors


def _started(filter: Filter, starts: Sequence[Unseen]) -> Starting:
    """How errors begin: on the first rows of recordings, or, where these are few, as if each began anew many times."""
    window, unit = filter.features.window, filter.scaling.scale
    horizon = window + HORIZON
    calibration = filter.calibration
    assert calibration is not None
    parts = [
        _errors(replace(other, starting=None), _beginnings(_thinned(data, horizon), horizon), horizon, unit, "known")
        for other, data in starts
    ]
    errors = _together(parts)
    steps = np.broadcast_to(np.arange(1, horizon + 1), errors.of.shape[:2])
    variance = calibration.variance(steps, errors.claimed)
    last = calibration.base[calibration.furthest - 1]
    variance = np.where(np.isnan(variance), last, variance)
    if errors.doubt is not None:  # predictions before anything is seen do not add it
        variance = variance + np.where((errors.age == 0)[:, None, None], 0.0, errors.doubt)
    return started(errors.of, variance, errors.age, errors.ages)


def _beginnings(data: Trajectories, horizon: int) -> Trajectories:
    """The recordings; if they are few, cut into blocks, since few starts say little."""
    if len(data) >= ENOUGH_STARTS:
        return data
    length = max(2, min(2 * horizon, len(data.values) // ENOUGH_STARTS))
    return data.blocks(length)


def _errors(
    filter: Filter, held: Trajectories, horizon: int, unit: Float[np.ndarray, " n"], known: InputsToCome
) -> _Errors:
    """Errors 1 to `horizon` steps ahead of every row.

    Errors are in the given units, variances in their squares: the units of the filter that is to be calibrated.
    """
    relative = filter.scaling.scale / unit
    rollout = rolled(filter, held, doubt_of_row_and_ahead(horizon))
    plan, read = rollout.layout.plan, rollout.read_before
    state = before_unforeseen(rollout, held) if known == "unknown" else rollout.before
    inputs = coming_inputs(held, plan, horizon) if known == "known" else None
    errors = (futures(held.values[plan.order], plan, horizon) - filter.ahead(state, horizon, inputs)) / unit
    claimed = claimed_variance(filter, state, horizon, inputs)
    if claimed is not None:
        claimed[:, filter.features.window :] = 0.0  # beyond the window beliefs claim nothing
    late = late_before(rollout.layout.x, plan)
    of_row, ahead = (None, None) if read is None else row_and_ahead(read, len(unit))
    return _Errors(
        errors,
        None if claimed is None else claimed * relative**2,
        None if ahead is None else ahead * relative**2,
        None if of_row is None else of_row * np.outer(relative, relative),
        plan.time - late,
        *settled(plan, late),
    )


class Blind(Filter):
    """A filter whose forecasts do not know the inputs of the predicted rows."""

    forecast = forecast_blind


def blind(filter: Filter) -> Blind:
    """The same filter, whose forecasts do not know the inputs of the predicted rows."""
    return Blind(**{field.name: getattr(filter, field.name) for field in fields(filter)})


def _thinned(held: Trajectories, horizon: int) -> Trajectories:
    """As many of the first trajectories as fit in memory with all their horizons."""
    return thinned(held, max(1, MOST_ENTRIES // (horizon * held.n_channels)))


def thinned(held: Trajectories, most: int) -> Trajectories:
    """As many of the first trajectories as have at most so many rows; one that is too long is cut."""
    if len(held.values) <= most:
        return held
    whole = int(np.searchsorted(held.offsets, most, side="right")) - 1
    return held[:whole] if whole else held[:1].blocks(most)[:1]
