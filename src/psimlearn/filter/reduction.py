"""A filter with a smaller fed-back state, and nearly the same predictions.

A step of a linear filter, without its box, takes the feedback to

    fed_{t+1} = F fed_t + G known_t + c,        predictions of the next rows = C fed_t + ..

Balanced reduction finds the few directions in which the feedback moves on recordings and which predictions see, each
step of the window in units of its errors: s = into fed, fed = back s. The smaller filter feeds s back, and its
regressor reads `back s` in place of the feedback. It has the same beliefs in full width, so hints, intervals, files and
all runners take it as it is: it is a filter with a rank.
"""

from dataclasses import replace
from typing import TypeVar

import numpy as np

from psimlearn.checks import share
from psimlearn.errors import SettingsError
from psimlearn.filter.balance import Reduction, balanced_roots, gramian_root
from psimlearn.filter.folded import fold
from psimlearn.filter.innovations import has_innovations, received_instead
from psimlearn.filter.learnt import Learnt, start
from psimlearn.filter.regressors import Linear
from psimlearn.filter.step import Feedback, expected, inputs
from psimlearn.filter.stepping import step
from psimlearn.filter.whole import run
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.recordings.windows import futures_of
from psimlearn.shapes import Float

__all__ = ["reduced"]

SMALLEST = 1e-13
"""Directions whose Hankel singular value is a smaller share of the largest are rounding."""
STREAMS, ROWS = 40, 150
"""The size of the recordings that a filter simulates to compare itself with a smaller one."""

Model = TypeVar("Model", bound=Learnt)


def reduced(filter: Model, tolerance: float = 0.01, recordings: Trajectories | None = None) -> Model:
    """The filter with the smallest fed-back state whose predictions hardly differ.

    At each step of the window, the root mean square of the difference between both predictions is at most `tolerance`
    times that of the prediction errors, over all rows and channels, in units of the one-step errors. A difference that
    is independent of the errors adds only half its square to them: 0.04 adds less than 0.1 %.

    Args:
        filter: a linear filter.
        tolerance: the most that predictions may differ, as a share of their errors.
        recordings: rows to compare predictions on; by default the filter simulates some.

    Returns:
        A filter that feeds back less; the filter itself if no smaller one meets the tolerance.
    """
    if not share(tolerance, "tolerance"):
        raise SettingsError(f"tolerance: required a number between 0 and 1, received {tolerance!r}.")
    regressor = filter.regressors[0]
    if not has_innovations(filter) or not isinstance(regressor, Linear):
        raise SettingsError(f"reduced: required a linear filter, received {received_instead(filter, repr('ridge'))}")
    if not filter.feedback.weight:
        return filter
    data = _simulated(filter) if recordings is None else recordings
    before = run(filter, data)[0]
    sizes = _sizes(filter, _errors(filter, data, before))
    most, found = tolerance * sizes, _directions(filter, inputs(filter.recursion, before), sizes)
    too_few, enough = 0, len(filter.feedback.mean)
    while enough - too_few > 1:  # the least rank that is enough, by bisection
        rank = min((too_few + enough) // 2, len(found.into))
        smaller = _with_rank(filter, regressor, found, rank)
        apart = filter.features.observations(run(smaller, data)[0] - before)
        if (_sizes(filter, apart) <= most).all():
            enough = rank
        elif rank == len(found.into):
            return filter
        else:
            too_few = rank
    return _with_rank(filter, regressor, found, enough) if enough < len(filter.feedback.mean) else filter


def _directions(filter: Learnt, fed: Float[np.ndarray, "rows r"], sizes: Float[np.ndarray, " k"]) -> Reduction:
    """All directions of the feedback, those that matter most first.

    Args:
        filter: a linear filter.
        fed: its feedback on some rows.
        sizes: of the errors at each step of the window, in units of one-step errors.
    """
    machine, regressor, r = fold(filter), filter.regressors[0], fed.shape[1]
    assert isinstance(machine.feed, Linear)
    assert isinstance(regressor, Linear)
    unit = _unit(filter) * np.where(sizes > 0, sizes, 1.0)[:, None]  # recordings may be too short to tell
    seen = filter.features.observations(regressor.weights[:r]) / unit
    of_outputs = gramian_root(machine.feed.weights[:r], seen.reshape(r, -1))
    if of_outputs is None:
        raise SettingsError(
            "reduced: required a filter that forgets, received one whose feedback grows or stays. Fit again, or keep "
            "this filter."
        )
    triangle: np.ndarray = np.linalg.qr(fed / np.sqrt(len(fed)), mode="r")  # type: ignore[assignment]
    return balanced_roots(triangle.T, of_outputs, SMALLEST)


def _with_rank(filter: Model, regressor: Linear, found: Reduction, rank: int) -> Model:
    """The filter that feeds back the first directions; the new box is the least that holds all of the old one."""
    into, back, feedback = found.into[:rank], found.back[:, :rank], filter.feedback
    r, d = len(feedback.mean), len(filter.initial)
    old = Linear(regressor.weights[:r], regressor.intercept)
    directions = feedback.linear(np.eye(d)) @ into.T
    low = high = None
    if feedback.low is not None and feedback.high is not None:
        corners = into * feedback.low, into * feedback.high
        low, high = np.minimum(*corners).sum(axis=1), np.maximum(*corners).sum(axis=1)
    weights = np.vstack([back.T @ old.weights, regressor.weights[r:]])
    return replace(
        filter,
        regressors=(Linear(weights, regressor.intercept),),
        feedback=Feedback(-(into @ feedback.shift), np.ones(rank), 1.0, directions, low, high),
    )


def _simulated(filter: Learnt) -> Trajectories:
    """Recordings of the system that a filter believes in: each row is its expectation and noise."""
    rng, n, scaling = np.random.default_rng(0), len(filter.scaling.mean), filter.input_scaling
    root = np.linalg.cholesky(filter.covariance)
    u = None if scaling is None else scaling.undo(rng.standard_normal((ROWS + 1, STREAMS, len(scaling.mean))))
    state, x = start(filter, STREAMS), np.empty((STREAMS, ROWS, n))
    for t in range(ROWS):
        noise = rng.standard_normal((STREAMS, n)) @ root.T
        x[:, t] = filter.scaling.undo(expected(filter.recursion, state.belief) + noise)
        state = step(filter, state, x[:, t], *(() if u is None else (u[t], u[t + 1])))
    if not np.isfinite(x).all():
        raise SettingsError(
            "reduced: required a filter whose simulated recordings stay finite, received one that grows. Pass "
            "recordings to compare predictions on."
        )
    return Trajectories.of(list(x), None if u is None else list(u[:-1].swapaxes(0, 1)), step=filter.time_step)


def _unit(filter: Learnt) -> Float[np.ndarray, " n"]:
    """The size of one-step errors of each channel, standardised."""
    return np.sqrt(np.diag(filter.covariance))


def _errors(filter: Learnt, data: Trajectories, before: Float[np.ndarray, "rows d"]) -> Float[np.ndarray, "rows k n"]:
    """The errors of all predictions within the window; NaN where nothing was observed."""
    observed = futures_of(filter.scaling(data.values), data.offsets, filter.features.window)
    return np.asarray(observed - filter.features.observations(before))


def _sizes(filter: Learnt, apart: Float[np.ndarray, "rows k n"]) -> Float[np.ndarray, " k"]:
    """The root mean square at each step of the window, in units of one-step errors."""
    return np.asarray(np.sqrt(np.nanmean((apart / _unit(filter)) ** 2, axis=(0, 2))))
