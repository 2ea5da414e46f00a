"""Rounds of training, and the closed-loop error that ranks them."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from psimlearn.errors import DataError, DivergedError
from psimlearn.filter import Filter
from psimlearn.filter.gaps import error_covariance
from psimlearn.filter.rollout import Table, roll, table
from psimlearn.filter.step import expected
from psimlearn.recordings.schedule import RowIndex
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.recordings.windows import carried_forward, futures, whole_futures
from psimlearn.train.losses import Loss, Squared

__all__ = ["Criterion", "HeldOut", "Round", "best", "held_out", "scored"]

Criterion = Literal["one-step", "window"]
BLOWN_UP = 1e6
"""A filter has diverged if a prediction is this many times larger than every observation."""


class Round(NamedTuple):
    """One filter of a training run, and its scores."""

    number: int
    filter: Filter
    error: float
    """Closed-loop error on the validation trajectories by the criterion, standardised; inf if diverged."""
    clipped: float
    """The share of beliefs on the edge of the box, on the validation trajectories."""
    dropped: int
    """Training rows that the rollout before this round left out as diverged."""


class HeldOut(NamedTuple):
    """Validation trajectories laid out, with the observations that a filter has to predict."""

    table: Table
    rows: RowIndex
    """The rows before which predictions are scored."""
    truth: Float[np.ndarray, "some horizon n"]
    weights: Float[np.ndarray, " horizon"]
    """How much the error at each horizon counts."""
    loss: Loss = Squared()


def held_out(filter: Filter, validation: Trajectories, criterion: Criterion, loss: Loss = Squared()) -> HeldOut:
    """Lay validation trajectories out for filters like this one.

    "one-step" is the error of block 1. "window" is the mean over all blocks, each weighted by the loss: the squared one
    counts errors relative to that of the last observation, so that far horizons, where errors are large, do not drown
    the near ones. It leaves out the first row of every trajectory, before which nothing was seen and all filters say
    the same.
    """
    laid_out = table(filter, validation)
    plan, x = laid_out.layout.plan, laid_out.layout.x
    if laid_out.layout.gappy and np.isnan(x).all():
        raise DataError("validation: required at least one observed value, received none. Use other trajectories.")
    window = filter.features.window
    if criterion == "one-step" or not plan.reaches(window).any():
        return HeldOut(laid_out, slice(None), x[:, None], np.ones(1), loss)
    rows = whole_futures(plan, window, first=False)
    truth = futures(x, plan, window)[rows]
    stays = carried_forward(x, plan)[plan.place(-1)][rows]
    return HeldOut(laid_out, rows, truth, loss.weights(truth, stays), loss)


def scored(number: int, filter: Filter, validation: HeldOut, dropped: int = 0) -> Round:
    """Roll a filter over the validation trajectories, and give it the covariance of its one-step errors there."""
    rollout = roll(filter, validation.table)
    x, held = rollout.layout.x, rollout.held
    clipped = float(filter.feedback.clipped(rollout.z[:, : len(filter.feedback.mean)]).mean())
    with np.errstate(over="ignore", invalid="ignore"):
        residuals = x - expected(filter.recursion, held)
        ahead = filter.features.observations(held)[validation.rows, : len(validation.weights)] - validation.truth
    limit = BLOWN_UP * np.nanmax(np.abs(x), initial=1e-300)
    if not (_within(residuals, x, limit) and _within(ahead, validation.truth, limit)):
        return Round(number, filter, np.inf, clipped, dropped)
    measured = replace(filter, covariance=error_covariance(residuals))
    errors = validation.loss.errors(filter.features, held[validation.rows], validation.truth)
    return Round(number, measured, float(validation.weights @ errors), clipped, dropped)


def _within(errors: Float[np.ndarray, "*b n"], truth: Float[np.ndarray, "*b n"], limit: float) -> bool:
    """Whether all errors, where `truth` was observed, are finite and not absurd."""
    return bool(np.all((np.abs(errors) <= limit) | np.isnan(truth)))


def best(rounds: Iterable[Round]) -> Round:
    """The round with the lowest closed-loop error."""
    winner = min(rounds, key=lambda r: r.error)
    if not np.isfinite(winner.error):
        raise DivergedError(
            "required one round with a finite closed-loop error, received none: every filter diverged. "
            "Use the box, init='history' or a larger ridge."
        )
    return winner
