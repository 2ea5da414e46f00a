"""Rounds of training, and the closed-loop error by which they are told apart."""

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from psimlearn.errors import DataError, DivergedError
from psimlearn.evaluate import mean_square
from psimlearn.filter import Filter, Table
from psimlearn.gaps import error_covariance

__all__ = ["Round", "best", "scored"]

BLOWN_UP = 1e6
"""A filter has diverged if a prediction is this many times larger than anything observed."""


class Round(NamedTuple):
    """One filter of a training run and how it did."""

    number: int
    filter: Filter
    error: float
    """Closed-loop one-step error on the validation trajectories, standardised, channels summed; inf if diverged."""
    clipped: float
    """The share of beliefs on the edge of the box, on the validation trajectories."""
    dropped: int
    """Training rows that the rollout before this round left out as diverged."""


def scored(number: int, filter: Filter, validation: Table, dropped: int = 0) -> Round:
    """Roll a filter over the validation trajectories; its own errors there tell it how channels err together."""
    if validation.layout.gappy and np.isnan(validation.layout.x).all():
        raise DataError("validation: required at least one observed value, received none. Use other trajectories.")
    rollout = filter.roll(validation)
    x = rollout.layout.x
    residuals = x - filter.expected(filter.held(rollout))
    clipped = float(filter.feedback.clipped(rollout.z[:, : len(filter.feedback.mean)]).mean())
    limit = BLOWN_UP * np.nanmax(np.abs(x), initial=1e-300)
    if not np.all(np.abs(residuals[~np.isnan(x)]) <= limit):
        return Round(number, filter, np.inf, clipped, dropped)
    measured = replace(filter, covariance=error_covariance(residuals))
    return Round(number, measured, float(mean_square(residuals)), clipped, dropped)


def best(rounds: Iterable[Round]) -> Round:
    """The round with the lowest closed-loop error."""
    winner = min(rounds, key=lambda r: r.error)
    if not np.isfinite(winner.error):
        raise DivergedError(
            "required one round with a finite closed-loop error, received none: every filter diverged. "
            "Use the box, init='history' or a larger ridge."
        )
    return winner
