"""Errors and intervals over shards: the same numbers as in memory, from sums over each shard."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from psimlearn.checks import whole
from psimlearn.errors import DataError
from psimlearn.evaluate.horizons import NOTHING_SEEN, Forecaster, scored_rows
from psimlearn.evaluate.residuals import Ahead, covered
from psimlearn.filter import Filter
from psimlearn.recordings.passes import Engine, InTurn, Pass, Portion, merged, plus, silent
from psimlearn.recordings.shards import Shards
from psimlearn.shapes import Float

__all__ = ["Covered", "Measured", "errors_over_shards", "measured_over_shards"]


class HorizonSums(NamedTuple):
    """Squared errors of each horizon and channel, summed, and how many there are."""

    total: Float[np.ndarray, "horizon n"]
    seen: Float[np.ndarray, "horizon n"]

    def plus(self, other: "HorizonSums") -> "HorizonSums":
        """The sums over both parts."""
        return HorizonSums(self.total + other.total, self.seen + other.seen)


class _Task(NamedTuple):
    forecaster: Forecaster
    horizon: int
    skip: int
    scale: Float[np.ndarray, " n"] | None


def errors_over_shards(
    forecaster: Forecaster,
    shards: Shards,
    horizon: int = 1,
    *,
    skip: int = 0,
    scale: Float[np.ndarray, " n"] | None = None,
    engine: Engine = InTurn(),
) -> Float[np.ndarray, " horizon"]:
    """Mean squared error of the 1- to `horizon`-step predictions over all shards, as `errors_by_horizon` in memory.

    Args:
        forecaster: the method to score.
        shards: recordings that the forecaster was not fitted to.
        horizon: the largest number of steps ahead.
        skip: rows at the beginning of each trajectory from which no prediction is scored.
        scale: divides the errors of each channel.
        engine: where the shards are computed.
    """
    task = _Task(forecaster, whole(horizon, "horizon"), whole(skip, "skip", 0), scale)
    return _means(engine.map_merge(Pass("errors", _sums, plus, task), shards, silent), task.horizon, task.skip)


def _means(sums: HorizonSums | None, horizon: int, skip: int) -> Float[np.ndarray, " horizon"]:
    """The mean squared error by horizon; an error if there is nothing to score."""
    if sums is None:
        raise DataError(
            f"nothing to score: required a recording longer than {skip + horizon - 1} rows (skip {skip}, horizon "
            f"{horizon}), received shorter ones only. Use a smaller horizon or skip."
        )
    if not sums.seen.any(axis=1).all():
        raise DataError(NOTHING_SEEN.format(horizon))
    means = np.divide(sums.total, sums.seen, out=np.zeros_like(sums.total), where=sums.seen > 0)
    return np.asarray(means.sum(axis=1))


def _sums(task: _Task, portion: Portion) -> HorizonSums | None:
    found = scored_rows(task.forecaster, portion.data, task.horizon, task.skip)
    if found is None:
        return None
    predicted, truth = found
    seen = ~np.isnan(truth)
    residuals = np.where(seen, truth - predicted, 0.0) / (1.0 if task.scale is None else task.scale)
    total = np.sum(residuals**2, axis=0) if np.isfinite(predicted).all() else np.full(truth.shape[1:], np.inf)
    return HorizonSums(total, seen.sum(axis=0).astype(float))


class Covered(NamedTuple):
    """Observations within intervals, by way of predicting and level, and the log-likelihood of rows."""

    inside: Float[np.ndarray, "ways levels"]
    known: Float[np.ndarray, " ways"]
    """How many observations there are."""
    nats: float
    rows: int

    def plus(self, other: "Covered") -> "Covered":
        """The sums over both parts."""
        inside, known = self.inside + other.inside, self.known + other.known
        return Covered(inside, known, self.nats + other.nats, self.rows + other.rows)

    @property
    def shares(self) -> Float[np.ndarray, "ways levels"]:
        """The share of observations within intervals; NaN where there are none."""
        known = self.known[:, None]
        return np.asarray(np.divide(self.inside, known, out=np.full_like(self.inside, np.nan), where=known > 0))


class Measured(NamedTuple):
    """The mean squared errors of some methods by horizon, and the intervals of a filter."""

    errors: list[Float[np.ndarray, " horizon"]]
    intervals: Covered


class _Tasks(NamedTuple):
    errors: Sequence[_Task]
    filter: Filter
    ways: Sequence[Ahead]
    levels: Sequence[float]


class _Parts(NamedTuple):
    errors: tuple[HorizonSums | None, ...]
    intervals: Covered

    def plus(self, other: "_Parts") -> "_Parts":
        """The sums over both parts."""
        errors = (merged(plus, *couple) for couple in zip(self.errors, other.errors, strict=True))
        return _Parts(tuple(errors), self.intervals.plus(other.intervals))


def measured_over_shards(
    filter: Filter,
    beside: Sequence[Forecaster],
    shards: Shards,
    horizon: int,
    ways: Sequence[Ahead],
    levels: Sequence[float],
    *,
    skip: int = 0,
    engine: Engine = InTurn(),
) -> Measured:
    """Errors of some methods and of a filter, and how often its intervals hold: each shard is loaded once for all.

    Args:
        filter: a calibrated filter, or one without ways to ask for; its errors come last, and its scale divides errors.
        beside: further methods to score.
        shards: recordings that the filter was not fitted to.
        horizon: the largest number of steps ahead.
        ways: how far ahead is predicted with intervals, and from which inputs.
        levels: of the intervals.
        skip: rows at the beginning of each trajectory from which no prediction is scored.
        engine: where the shards are computed.
    """
    tasks = [_Task(method, whole(horizon, "horizon"), skip, filter.scaling.scale) for method in (*beside, filter)]
    work = Pass("errors and intervals", _parts, plus, _Tasks(tasks, filter, ways, levels))
    found: _Parts = engine.map_merge(work, shards, silent)
    return Measured([_means(sums, horizon, skip) for sums in found.errors], found.intervals)


def _parts(tasks: _Tasks, portion: Portion) -> _Parts:
    counts = [covered(tasks.filter, portion.data, ahead, tasks.levels) for ahead in tasks.ways]
    inside = np.array([within for within, _ in counts]).reshape(len(tasks.ways), len(tasks.levels))
    nats = tasks.filter.log_likelihood(portion.data)
    intervals = Covered(inside, np.array([float(n) for _, n in counts]), float(nats.sum()), len(nats))
    return _Parts(tuple(_sums(task, portion) for task in tasks.errors), intervals)
