"""Errors and intervals over shards: the same numbers as in memory, from sums over each shard."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from psimlearn.checks import whole
from psimlearn.errors import DataError
from psimlearn.evaluate.horizons import NOTHING_SEEN, Forecaster, scored_rows
from psimlearn.evaluate.residuals import Ahead, covered
from psimlearn.filter import Filter
from psimlearn.recordings.passes import Engine, InTurn, Pass, Portion, plus, silent
from psimlearn.recordings.shards import Shards
from psimlearn.shapes import Float

__all__ = ["Covered", "covered_over_shards", "errors_over_shards"]


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
    sums: HorizonSums | None = engine.map_merge(Pass("errors", _sums, plus, task), shards, silent)
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


class _Intervals(NamedTuple):
    filter: Filter
    ways: Sequence[Ahead]
    levels: Sequence[float]


def covered_over_shards(
    filter: Filter, shards: Shards, ways: Sequence[Ahead], levels: Sequence[float], engine: Engine = InTurn()
) -> Covered:
    """How many observations lie within the intervals of a filter, and how likely they are.

    Args:
        filter: a calibrated filter, or one without ways to ask for.
        shards: recordings that the filter was not fitted to.
        ways: how far ahead is predicted, and from which inputs.
        levels: of the intervals.
        engine: where the shards are computed.
    """
    found: Covered = engine.map_merge(
        Pass("intervals", _covered, plus, _Intervals(filter, ways, levels)), shards, silent
    )
    return found


def _covered(task: _Intervals, portion: Portion) -> Covered:
    counts = [covered(task.filter, portion.data, ahead, task.levels) for ahead in task.ways]
    inside = np.array([within for within, _ in counts]).reshape(len(task.ways), len(task.levels))
    nats = task.filter.log_likelihood(portion.data)
    return Covered(inside, np.array([float(n) for _, n in counts]), float(nats.sum()), len(nats))
