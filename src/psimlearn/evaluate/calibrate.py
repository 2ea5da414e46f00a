"""The uncertainty of a learnt filter, measured on recordings that it was not fitted to."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from typing import Any, NamedTuple

import numpy as np

from psimlearn.evaluate.localscale import FADING, Situations, local_scale, usual_squares
from psimlearn.filter import Filter
from psimlearn.filter.gaps import error_covariance
from psimlearn.filter.localscale import LocalScale, movement, signs, unrest_before
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
from psimlearn.recordings import windows
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.recordings.windows import enough_rows, futures, late_before
from psimlearn.shapes import Bool, Float, Int

__all__ = ["HORIZON", "Blind", "Unseen", "blind", "first_rows", "thinned", "with_calibration"]

Unseen = tuple[Filter, Trajectories]
"""A filter, and recordings that it was not fitted to."""
HORIZON = 20
"""How many steps beyond the window errors are measured."""
ENOUGH_STARTS = 20
"""Recordings from which the first rows alone tell how errors begin."""
MOST_ENTRIES = 6_000_000
"""Errors kept at a time: bounds the memory of calibration."""
CHUNK = 1_000_000
"""Errors computed at a time, where recordings are shorter."""
STRETCHES, LEAST_STRETCH = 20, 200
"""Recordings that must be thinned are cut into so many stretches or more, each of at least so many rows."""
LITTLE_DOUBT = 0.1
"""A local scale is learnt from rows about which gaps add at most this share of the usual variance."""
MOST_SITUATIONS = 20_000
"""Rows from which a local scale is learnt: bounds the time."""


def with_calibration(filter: Filter, unseen: Sequence[Unseen], starts: Sequence[Unseen] = ()) -> Filter:
    """The filter, with the uncertainty that errors on unseen recordings show.

    With inputs, errors are measured again for predictions that do not know the inputs to come, within the window.

    Args:
        filter: the filter to calibrate.
        unseen: this filter or others learnt like it, each with recordings that it was not fitted to.
        starts: filters with recordings whose first rows show how errors begin; without any, all ages count alike. It
            does no harm if the filter was fitted to them, as only the ratio of early errors to later ones counts.
    """
    filter = replace(filter, local=None, starting=None)
    every = _measured(filter, unseen, "known")
    errors = every.later() if starts else every
    calibration = calibrated(errors.of, errors.claimed, errors.doubt)
    filter = replace(
        filter,
        calibration=calibration,
        calibration_blind=_other(filter, unseen, "unknown", starts) if filter.input_scaling is not None else None,
        calibration_next=_other(filter, unseen, "next known", starts) if filter.feedthrough else None,
        covariance=error_covariance(errors.of[:, 0], errors.of_row, filter.covariance),
        local=_local(every, errors, calibration, filter.features.window),
    )
    return replace(filter, starting=_started(filter, starts)) if starts else filter


def _other(filter: Filter, unseen: Sequence[Unseen], inputs: InputsToCome, starts: Sequence[Unseen]) -> Calibration:
    errors = _measured(filter, unseen, inputs)
    errors = errors.later() if starts else errors
    return calibrated(errors.of, errors.claimed, errors.doubt)


class _Errors(NamedTuple):
    """Errors ahead of rows, in standardised units, with what is known of each; recording after recording."""

    of: Float[np.ndarray, "rows horizon n"]
    """NaN where nothing was observed."""
    claimed: Float[np.ndarray, "rows horizon n"] | None
    """The variances that beliefs claim; None if their features claim none."""
    doubt: Float[np.ndarray, "rows horizon n"] | None
    """The variances that gaps add; None if nothing is missing, or the filter keeps no doubt."""
    of_row: Float[np.ndarray, "rows n n"] | None
    """The covariance that gaps add to the errors of the next row."""
    moved: Float[np.ndarray, "rows n"]
    """The movement that each belief expects."""
    first: Bool[np.ndarray, " rows"]
    """Marks the first row of each recording."""
    unseen: Int[np.ndarray, " rows"]
    age: Int[np.ndarray, " rows"]
    settled: Bool[np.ndarray, " rows"]
    ages: int
    """The age from which a stream counts as settled."""

    def at(self, rows: Bool[np.ndarray, " rows"] | Int[np.ndarray, " some"]) -> "_Errors":
        """Some of the rows."""
        picked: list[Any] = [part[rows] if isinstance(part, np.ndarray) else part for part in self]
        return _Errors(*picked)

    def later(self) -> "_Errors":
        """The rows that have forgotten the start of their recording; all of them if none has."""
        return self.at(self.settled) if self.settled.any() else self

    def variance(self, calibration: Calibration) -> Float[np.ndarray, "rows horizon n"]:
        """The variance that is claimed for each error, as if every row were a later one; without doubt."""
        steps = np.broadcast_to(np.arange(1, self.of.shape[1] + 1), self.of.shape[:2])
        variance = calibration.variance(steps, self.claimed)
        return np.where(np.isnan(variance), calibration.base[calibration.furthest - 1], variance)


def _together(parts: Sequence[_Errors]) -> _Errors:
    """All rows of all parts."""
    shapes = [part.of.shape for part in parts]
    n = shapes[0][2]

    def stacked(arrays: Sequence[np.ndarray | None], shape: Callable[[int, int], tuple[int, ...]]) -> np.ndarray | None:
        if all(array is None for array in arrays):
            return None
        made = [np.zeros(shape(*s[:2])) if a is None else a for a, s in zip(arrays, shapes, strict=True)]
        return np.concatenate(made)

    columns: list[Any] = list(zip(*parts, strict=True))
    of, claimed, doubt, of_row, *others, ages = columns
    made: list[Any] = [
        np.concatenate(of),
        stacked(claimed, lambda rows, horizon: (rows, horizon, n)),
        stacked(doubt, lambda rows, horizon: (rows, horizon, n)),
        stacked(of_row, lambda rows, _: (rows, n, n)),
        *map(np.concatenate, others),
        min(ages),
    ]
    return _Errors(*made)


def _measured(filter: Filter, unseen: Sequence[Unseen], inputs: InputsToCome) -> _Errors:
    """The errors of predictions that know these inputs to come."""
    window = filter.features.window
    horizon = window + HORIZON if inputs == "known" else window
    pairs = [(other, _thinned(held, window + HORIZON)) for other, held in unseen]
    return _all_errors(pairs, horizon, filter.scaling.scale, inputs)


def _all_errors(pairs: Sequence[Unseen], horizon: int, unit: Float[np.ndarray, " n"], inputs: InputsToCome) -> _Errors:
    """Errors 1 to `horizon` steps ahead of every row, some recordings at a time."""
    rows = max(1, CHUNK // (horizon * len(unit)))
    return _together(
        [
            _errors(other, some, horizon, unit, inputs, enough_rows(held.lengths))
            for other, held in pairs
            for some in _in_turn(held, rows)
        ]
    )


def _in_turn(held: Trajectories, rows: int) -> Iterator[Trajectories]:
    """Recordings, as many at a time as have about so many rows."""
    turn = held.offsets[:-1] // rows
    for part in np.split(np.arange(len(held)), np.flatnonzero(np.diff(turn)) + 1):
        yield held[part[0] : part[-1] + 1]


def _local(every: _Errors, errors: _Errors, calibration: Calibration, window: int) -> LocalScale | None:
    """The local scale of errors, learnt from rows without gaps; None if it makes intervals no better.

    Args:
        every: the errors of all rows: unrest builds up row by row.
        errors: the errors of the rows that were calibrated.
        calibration: made from these.
        window: of the filter.
    """
    usual = usual_squares(errors.of[:, 0])
    if not usual.any():  # every channel is constant, or was never observed
        return None
    starts = np.flatnonzero(every.first)
    unrest = unrest_before(every.of[:, 0], np.append(starts, len(every.of)), usual, FADING)
    usable = every.unseen == 0
    if len(errors.of) < len(every.of):
        usable &= every.settled
    if every.doubt is not None:
        usable &= (every.doubt[:, 0] <= LITTLE_DOUBT * usual).all(axis=1)
    rows = np.flatnonzero(usable)
    rows = rows[:: -(-len(rows) // MOST_SITUATIONS) or 1]
    some, recording = every.at(rows), np.cumsum(every.first)[rows]
    second = recording % 2 == 1 if len(starts) > 1 else np.arange(len(rows)) >= len(rows) // 2
    variance = some.variance(calibration)
    relative = np.abs(some.of) / np.sqrt(variance if some.doubt is None else variance + some.doubt)
    return local_scale(Situations(signs(unrest[rows], some.moved, usual), relative, second, window), usual, calibration)


def _started(filter: Filter, starts: Sequence[Unseen]) -> Starting:
    """How errors begin: on the first rows of recordings, or, where these are few, as if each began anew many times."""
    horizon, unit, calibration = filter.features.window + HORIZON, filter.scaling.scale, filter.calibration
    assert calibration is not None
    pairs = [(replace(other, starting=None), _thinned(_beginnings(data, horizon), horizon)) for other, data in starts]
    errors = _all_errors(pairs, horizon, unit, "known")
    variance = errors.variance(calibration)
    if errors.doubt is not None:  # predictions before anything is seen do not add it
        variance = variance + np.where((errors.age == 0)[:, None, None], 0.0, errors.doubt)
    return started(errors.of, variance, errors.age, errors.ages)


def _beginnings(data: Trajectories, horizon: int) -> Trajectories:
    """The first rows of the recordings; if these are few, cut into blocks, since few starts say little."""
    if len(data) >= ENOUGH_STARTS:
        return first_rows(data, 2 * horizon)  # later rows are alike
    length = max(2, min(2 * horizon, len(data.values) // ENOUGH_STARTS))
    return data.blocks(length)


def _errors(
    filter: Filter, held: Trajectories, horizon: int, unit: Float[np.ndarray, " n"], known: InputsToCome, ages: int
) -> _Errors:
    """Errors 1 to `horizon` steps ahead of every row; a stream is settled from the age `ages` on.

    Errors are in the given units, variances in their squares: the units of the filter that is to be calibrated.
    """
    relative = filter.scaling.scale / unit
    rollout = rolled(filter, held, doubt_of_row_and_ahead(horizon))
    plan, read = rollout.layout.plan, rollout.read_before
    state = before_unforeseen(rollout, held) if known == "unknown" else rollout.before
    inputs = coming_inputs(held, plan, horizon) if known == "known" else None
    errors = futures(held.values[plan.order], plan, horizon)
    errors -= filter.ahead(state, horizon, inputs)
    errors /= unit
    claimed = claimed_variance(filter, state, horizon, inputs)
    if claimed is not None:
        claimed[:, filter.features.window :] = 0.0  # beyond the window beliefs claim nothing
    late = late_before(rollout.layout.x, plan)
    of_row, ahead = (None, None) if read is None else row_and_ahead(read, len(unit))
    age = plan.time - late
    found = _Errors(
        errors,
        None if claimed is None else claimed * relative**2,
        None if ahead is None else ahead * relative**2,
        None if of_row is None else of_row * np.outer(relative, relative),
        movement(filter.features.observations(state.belief)) * relative**2,
        plan.time == 0,
        state.unseen,
        age,
        age >= ages,
        ages,
    )
    return found.at(np.argsort(plan.order))


class Blind(Filter):
    """A filter whose forecasts do not know the inputs of the predicted rows."""

    forecast = forecast_blind


def blind(filter: Filter) -> Blind:
    """The same filter, whose forecasts do not know the inputs of the predicted rows."""
    return Blind(**{field.name: getattr(filter, field.name) for field in fields(filter)})


def _thinned(held: Trajectories, horizon: int) -> Trajectories:
    """As many recordings as fit in memory with all their horizons."""
    return thinned(held, max(1, MOST_ENTRIES // (horizon * held.n_channels)))


def first_rows(data: Trajectories, most: int) -> Trajectories:
    """The recordings, each cut after so many rows."""
    if data.lengths.max() <= most:
        return data
    return data.stretches(windows.first_rows(data.offsets, most))


def thinned(held: Trajectories, most: int) -> Trajectories:
    """Recordings of at most so many rows, spread evenly over all; long ones are cut, so that they are spread too."""
    if len(held.values) <= most:
        return held
    length = max(LEAST_STRETCH, most // STRETCHES)
    pieces = held.blocks(length) if held.lengths.max() > length else held
    some = max(1, len(pieces) * most // len(pieces.values))
    while some > 1 and pieces.lengths[_spread(len(pieces), some)].sum() > most:
        some -= 1
    return pieces[_spread(len(pieces), some)]


def _spread(many: int, some: int) -> Int[np.ndarray, " some"]:
    """Some of many places, spread evenly.

    >>> _spread(10, 3)
    array([1, 5, 8])
    """
    return (np.arange(some) * 2 + 1) * many // (2 * some)
