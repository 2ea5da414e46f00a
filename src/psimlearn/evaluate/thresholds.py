"""Thresholds of alarms, measured on recordings that the filter was not fitted to."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from psimlearn.evaluate.calibrate import Unseen
from psimlearn.filter import Filter
from psimlearn.filter.alarms import alarm_scores
from psimlearn.filter.likelihood import about_row
from psimlearn.filter.rollout import rolled
from psimlearn.filter.thresholds import USUAL_RATE, thresholds_of
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.shapes import Float

__all__ = ["with_thresholds"]


def with_thresholds(filter: Filter, unseen: Sequence[Unseen], rate: float = USUAL_RATE) -> Filter:
    """The filter, with thresholds from the scores of unseen recordings.

    Args:
        filter: a calibrated filter.
        unseen: this filter or others learnt like it, each with recordings that it was not fitted to.
        rate: the rate of alarms if no other is asked for.
    """
    scores = [_scores(other if other is filter else _as_sure(other, filter), held) for other, held in unseen]
    return replace(filter, thresholds=thresholds_of(np.concatenate(scores), rate) if scores else None)


def _scores(filter: Filter, held: Trajectories) -> Float[np.ndarray, " rows"]:
    """The scores of all rows in which anything was observed."""
    rollout = rolled(filter, held, about_row)
    found = alarm_scores(filter, rollout.before, rollout.layout.x, rollout.read_before)
    return np.asarray(found.score[found.seen])


def _as_sure(other: Filter, filter: Filter) -> Filter:
    """The other filter, as sure of its predictions as this one is: its uncertainty in the units of the other."""
    unit = filter.scaling.scale / other.scaling.scale
    calibration, starting = filter.calibration, filter.starting
    return replace(
        other,
        calibration=None if calibration is None else calibration._replace(base=calibration.base * unit**2),
        starting=None if starting is None else starting._replace(covariance=starting.covariance * np.outer(unit, unit)),
        covariance=filter.covariance * np.outer(unit, unit),
        in_gaps=filter.in_gaps,
    )
