"""The log-likelihood of observations under the beliefs held before them, and hints read from the same beliefs."""

from typing import NamedTuple

import numpy as np

from psimlearn.errors import SettingsError
from psimlearn.filter import foresight
from psimlearn.filter.doubt import Doubt
from psimlearn.filter.innovations import Innovations, innovations, treats_exactly
from psimlearn.filter.learnt import Learnt
from psimlearn.filter.onehot import OneHot
from psimlearn.filter.opening import young
from psimlearn.filter.rollout import rolled
from psimlearn.filter.step import State, expected
from psimlearn.filter.uncertainty import joint_misfit, misfit
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.shapes import Float, Int

__all__ = [
    "about_row",
    "contributions",
    "displacement",
    "doubt_of_row",
    "hints",
    "hints_at",
    "log_likelihood",
    "log_likelihoods",
    "moving",
]


def log_likelihoods(
    filter: Learnt, trajectories: Trajectories, *, relative: bool = False
) -> Float[np.ndarray, " rows"]:
    """The log-likelihood of every row given the rows before it; 0 where nothing was observed.

    It is in nats and the units of the recordings. Channels are correlated as the filter's one-step errors are.

    Args:
        filter: a learnt filter.
        trajectories: recordings.
        relative: return the log-likelihood less its expectation, for a comparison of rows of different uncertainty.
    """
    rollout = rolled(filter, trajectories, about_row)
    plan, x, doubt = rollout.layout.plan, rollout.layout.x, rollout.read_before
    return plan.packed(log_likelihood(filter, rollout.before, x, doubt, relative=relative))


def about_row(
    model: Innovations, doubt: Doubt, S: np.ndarray, u: np.ndarray, age: Int[np.ndarray, " b"]
) -> Float[np.ndarray, "b n n"]:
    """Read the covariance that doubt adds to the errors of the next row."""
    return foresight.about_row(model, doubt, age)


def doubt_of_row(filter: Learnt, state: State) -> Float[np.ndarray, "b n n"] | None:
    """The covariance that doubt in a state adds to the errors of the next row; None without doubt."""
    if state.doubt is None:
        return None
    return foresight.about_row(innovations(filter), state.doubt, young(state.clock, np.asarray(state.late)))


def log_likelihood(
    filter: Learnt,
    before: State,
    x: Float[np.ndarray, "b n"],
    doubt: Float[np.ndarray, "b n n"] | None = None,
    *,
    relative: bool = False,
) -> Float[np.ndarray, " b"]:
    """The log-likelihood of one standardised row of each stream, in nats and the units of the recordings.

    Channels that were constant in training count only once they move: see `still.py`.

    Args:
        filter: the filter that held the beliefs.
        before: the state before the row; rows without observation just before widen filters that keep no doubt.
        x: the row, NaN where not observed.
        doubt: the covariance that doubt adds to the errors of the row; None for none.
        relative: return the log-likelihood less its expectation. It is 0 on average whatever the uncertainty, so rows
            in a gap and first rows, which are less likely since less is known, can be compared with other rows.
    """
    if isinstance(filter.features, OneHot):
        mean = expected(filter.recursion, before.belief)
        nats = _log_probability(mean, x)
        return nats - _expected_log_probability(mean, x) if relative else nats
    lost = displacement(filter, x)
    x = moving(filter, x)
    errors, variance, some, covariance = _errors(filter, before, x, doubt)
    units = np.where(np.isnan(x), 0.0, np.log(filter.scaling.scale))
    found = misfit(errors, filter.correlation, variance)
    if len(some):
        found.distance[some], found.scale[some] = joint_misfit(errors[some], covariance)
    nats = 0.5 * ((~np.isnan(x)).sum(axis=1) - found.distance) if relative else found.nats - units.sum(axis=1)
    unpredicted = (np.isnan(errors) & ~np.isnan(x)).any(axis=1)  # a huge row before broke the belief
    return np.asarray(np.where(unpredicted | np.isnan(nats), -np.inf, nats) - lost)


def contributions(
    filter: Learnt, before: State, x: Float[np.ndarray, "b n"], doubt: Float[np.ndarray, "b n n"] | None = None
) -> Float[np.ndarray, "b n"]:
    """By how much each channel adds to the squared distance of a row from its prediction; the arguments as above.

    It is the squared error of the channel given the errors of the other channels, in standard deviations, and so the
    drop in distance if the channel were not observed. A channel that was constant in training adds the square of its
    distance from there, in units of its floor. The largest of a row is scaled to at most 1 before it is squared,
    so rows cannot be compared. NaN where nothing was observed, and for rows that could not be predicted.
    """
    away = np.full(x.shape, np.nan) if filter.still is None else filter.still.away(x)
    x = moving(filter, x)
    errors, variance, some, covariance = _errors(filter, before, x, doubt)
    every = filter.correlation.scaled(variance)
    every[some] = covariance
    seen = ~np.isnan(x)
    among = np.where(seen[:, :, None] & seen[:, None, :], every, np.eye(x.shape[1]))
    with np.errstate(invalid="ignore"):
        e = np.where(seen, errors, 0.0)
        most = np.abs(np.concatenate([e, np.nan_to_num(away)], axis=1)).max(axis=1, keepdims=True)
        unit = np.maximum(most, np.finfo(np.float64).tiny)  # a huge error stays finite
        e, away = e / unit, np.nan_to_num(away, nan=np.nan) / unit
    precision = np.linalg.solve(among, np.broadcast_to(np.eye(x.shape[1]), among.shape))
    weighed = np.einsum("bij,bj->bi", precision, e)
    return np.asarray(np.where(seen, weighed**2 / np.diagonal(precision, axis1=1, axis2=2), away**2))


def displacement(filter: Learnt, x: Float[np.ndarray, "b n"]) -> Float[np.ndarray, " b"]:
    """The nats that standardised rows lose because channels moved that were constant in training."""
    return np.zeros(len(x)) if filter.still is None else filter.still.lost(x)


def moving(filter: Learnt, x: Float[np.ndarray, "b n"]) -> Float[np.ndarray, "b n"]:
    """A row without channels that were constant in training: nothing is known of their errors."""
    if filter.calibration is None or not filter.calibration.still.any():
        return x
    return np.where(filter.calibration.still, np.nan, x)


class _Errors(NamedTuple):
    """The errors of one row of each stream, and the Gaussian predicted for them."""

    of: Float[np.ndarray, "b n"]
    variance: Float[np.ndarray, "b n"]
    some: Int[np.ndarray, " some"]
    """The rows whose errors correlate in a way of their own."""
    covariance: Float[np.ndarray, "some n n"]


def _errors(
    filter: Learnt, before: State, x: Float[np.ndarray, "b n"], doubt: Float[np.ndarray, "b n n"] | None
) -> _Errors:
    """The errors of one standardised row of each stream, NaN where not observed."""
    belief, unseen = before.belief, np.broadcast_to(before.unseen, len(x))
    variance = np.broadcast_to(np.diag(filter.covariance), x.shape)
    if filter.calibration is not None:
        claimed = None if filter.variances is None else filter.variances.variance(belief)[:, 0]
        horizon = np.ones_like(unseen) if treats_exactly(filter) else unseen + 1
        known = filter.calibration.variance(np.minimum(horizon, filter.calibration.furthest), claimed)
        variance = np.where(np.isnan(known), variance, known)
        if filter.starting is not None:
            variance = variance * filter.starting.factor(np.broadcast_to(before.age, len(x)), horizon)
    with np.errstate(over="ignore", invalid="ignore"):  # huge rows overflow, in the filter or here
        errors = x - expected(filter.recursion, belief)
    return _Errors(errors, variance, *_covariances(filter, before, variance, doubt))


def _covariances(
    filter: Learnt, before: State, variance: Float[np.ndarray, "b n"], doubt: Float[np.ndarray, "b n n"] | None
) -> tuple[Int[np.ndarray, " some"], Float[np.ndarray, "some n n"]]:
    """The rows whose errors correlate in a way of their own, since they are in doubt or first rows, and how."""
    first = np.zeros(len(variance), dtype=bool)
    if filter.starting is not None and treats_exactly(filter):
        first = np.broadcast_to(before.age == 0, len(variance))
    some = np.flatnonzero(first if doubt is None else first | doubt.any(axis=(1, 2)))
    covariance = filter.correlation.scaled(variance[some])
    if doubt is not None:
        covariance = covariance + doubt[some] * filter.doubt_factor
    if filter.starting is not None:
        covariance = np.where(first[some, None, None], filter.starting.covariance, covariance)
    return some, covariance


def _log_probability(probabilities: Float[np.ndarray, "b v"], x: Float[np.ndarray, "b v"]) -> Float[np.ndarray, " b"]:
    """The log-probability of the symbols of one-hot rows; 0 where none was observed."""
    with np.errstate(divide="ignore"):
        nats: np.ndarray = np.log(np.sum(np.where(x > 0, probabilities * x, 0.0), axis=1))
    return np.where(np.isnan(x).any(axis=1), 0.0, nats)


def _expected_log_probability(
    probabilities: Float[np.ndarray, "b v"], x: Float[np.ndarray, "b v"]
) -> Float[np.ndarray, " b"]:
    """The log-probability to be expected of the next symbol; 0 where none was observed."""
    logs = np.log(probabilities, out=np.zeros_like(probabilities), where=probabilities > 0)
    nats: np.ndarray = np.sum(probabilities * logs, axis=1)
    return np.where(np.isnan(x).any(axis=1), 0.0, nats)


def hints(filter: Learnt, trajectories: Trajectories) -> Float[np.ndarray, "rows h"]:
    """E[h_t | x_0 .. x_t]: the filtered estimate of quantities that were measured in training only."""
    rollout = rolled(filter, trajectories)
    return rollout.layout.plan.packed(hints_at(filter, *rollout.known, rollout.hints))


def hints_at(
    filter: Learnt,
    belief: Float[np.ndarray, "b d"],
    observed: Float[np.ndarray, "b q"],
    u: Float[np.ndarray, "b p"],
    corrected: Float[np.ndarray, "some h"] | None = None,
) -> Float[np.ndarray, "b h"]:
    """The hints at one row of each stream, given the arrays of `Rollout.known`.

    Args:
        filter: a learnt filter.
        belief: m_t.
        observed: (x_t, .., x_{t-lags+1}).
        u: the input columns of z_t.
        corrected: the part that is read from the belief, if rows have corrected beliefs in doubt: of all streams, or of
            the first ones.
    """
    if filter.hinting is None:
        raise SettingsError("hints need a filter learnt from trajectories with hints, received one without.")
    hints: np.ndarray = filter.hinting(np.concatenate([belief, observed, u], axis=1))
    if corrected is not None:
        some = slice(len(corrected))
        hints[some] += corrected - belief[some] @ filter.to_hints
    return hints
