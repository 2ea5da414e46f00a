"""Smoothing: missing entries estimated from the rows before and after them.

`innovations.py` gives w_t = [S_t; x_t], the memory and the row, a mean and a covariance J_t, given the entries seen up
to t. With o the entries seen at t, v_t their innovations, P_t the covariance of S_t, T the derivative of S_{t+1} by
w_t, H the rows that pick the expected observation and E = [I; H]:

    forward     D = H_o P_t H_o' + V_oo         K = cov(w_t, x_o) D^-1         M = T (E - K H_o)
    backward    a_t = H_o' D^-1 v_t + M' a_{t+1}                N_t = H_o' D^-1 H_o + M' N_{t+1} M
    smoothed    w_t + J_t T' a_{t+1}, with the covariance J_t - J_t T' N_{t+1} T J_t

Only covariances of seen entries are inverted. For random features this is an extended Kalman smoother.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from psimlearn.errors import SettingsError
from psimlearn.filter.innovations import Innovations, Taken, has_innovations, innovations, memory, received_instead
from psimlearn.filter.learnt import Learnt, start
from psimlearn.filter.likelihood import hints
from psimlearn.filter.prediction import Prediction, Spread
from psimlearn.filter.rollout import laid_out
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.shapes import Float

__all__ = ["impute", "smooth", "smoothed_hints"]


class Step(NamedTuple):
    """One row of a recording on the way forward."""

    taken: Taken
    weighed: Float[np.ndarray, "n n"]
    """D^-1, zero where entries are missing."""
    innovation: Float[np.ndarray, " n"]
    """Zero where entries are missing."""


class Reads(NamedTuple):
    """Matrices that read quantities from [S_t; x_t]; at the first row, x_t may stand for its lags as well."""

    first: Float[np.ndarray, "q joint"]
    later: Float[np.ndarray, "q joint"]


def model_of(filter: Learnt) -> Innovations:
    """The innovations model of a filter, or an error that says which filters have one."""
    if not has_innovations(filter):
        raise SettingsError(
            "smoothing: required a linear filter or one of random features, trained for all times by one regressor, "
            f"received {received_instead(filter)}"
        )
    return innovations(filter)


def forward(
    model: Innovations, first: Float[np.ndarray, "1 s"], x: Float[np.ndarray, "rows n"], u: Float[np.ndarray, "rows p"]
) -> list[Step]:
    """[S_t; x_t] at every row of one recording, given the entries seen up to it; `first` is S before the first row."""
    S, doubt, steps = first, None, []
    for t, row in enumerate(x):
        seen, age = ~np.isnan(row), np.array([t])
        V = model.noise if t else model.first_noise
        if model.opened is not None:
            doubt = model.opened.begun(doubt, age, ~seen.all(keepdims=True))
        D = V if doubt is None else V + doubt.by_stream(model.kind.between(doubt.spread, model.H))[0]
        both = seen[:, None] & seen
        weighed = np.linalg.inv(np.where(both, D, np.eye(model.n))) * both
        innovation = np.where(seen, row - model.expected(S)[0], 0.0)
        taken = model.take(S, doubt, row[None], u[t : t + 1], age)
        steps.append(Step(taken, weighed, innovation))
        S, doubt = model.following(taken.z), taken.doubt
    return steps


def backward(
    model: Innovations, steps: Sequence[Step], reads: Reads, with_variance: bool = True
) -> tuple[Float[np.ndarray, "rows q"], Float[np.ndarray, "rows q"]]:
    """How far the rows to come move the mean of what is read at every row, and the variance that is left.

    Without variances it takes much less time.
    """
    s, H = model.s, model.H
    a, N = np.zeros(s), np.zeros((s, s) if with_variance else (0, 0))
    move, variance = np.zeros((len(steps), len(reads.later))), np.zeros((len(steps), len(reads.later)))
    first = next((t for t, step in enumerate(steps) if len(step.taken.given.first)), len(steps))
    for t in range(len(steps) - 1, first - 1, -1):
        taken, weighed, innovation = steps[t]
        T, gain, J = model.matrices(taken, t)
        read, back = reads.later if t else reads.first, T.T @ a
        move[t] = read @ (J @ back)
        # M' a = (E - K H_o)' T' a, with E = [I; H]
        a = H.T @ (weighed @ innovation + back[s:] - gain.T @ back) + back[:s]
        if with_variance:
            later = T @ (J @ read.T)
            variance[t] = np.einsum("qi,ij,qj->q", read, J, read) - np.einsum("iq,ij,jq->q", later, N, later)
            M = T[:, :s] + (T[:, s:] - T @ gain) @ H
            N = H.T @ weighed @ H + M.T @ N @ M
    return move, np.maximum(variance, 0.0)


def smooth(filter: Learnt, trajectories: Trajectories) -> Prediction:
    """E[x_t | the whole recording] at every row, with standard deviations: zero for entries that were seen."""
    if filter.calibration is None:
        raise SettingsError("smoothing: required a calibrated filter, as PSIM.fit makes it, received one without.")
    mean, variance = _filled(filter, trajectories, with_variance=True)
    std, horizon = np.sqrt(filter.doubt_factor * variance) * filter.scaling.scale, np.ones(len(mean), dtype=np.int64)
    all_doubt = Spread(std, horizon, filter.calibration, share=np.ones_like(std), in_gaps=filter.in_gaps)
    return Prediction(mean, "known", all_doubt)


def impute(filter: Learnt, trajectories: Trajectories) -> Float[np.ndarray, "rows n"]:
    """The recordings with their gaps filled from both sides; entries that were seen stay as they are."""
    return _filled(filter, trajectories, with_variance=False)[0]


def smoothed_hints(filter: Learnt, trajectories: Trajectories) -> Float[np.ndarray, "rows h"]:
    """E[h_t | the whole recording]: `hints`, with gaps seen from both sides."""
    if filter.hinting is None:
        raise SettingsError("hints need a filter learnt from trajectories with hints, received one without.")
    model, d = model_of(filter), len(filter.initial)
    weights = filter.hinting.weights[d : d + model.n * model.lags].T
    later = np.zeros((model.n_hints, model.s + model.n))
    g = model.r + model.n
    later[:, g : g + model.n_hints], later[:, model.s :] = np.eye(model.n_hints), weights[:, : model.n]
    first, lagged = later.copy(), model.n * (model.lags - 1)
    later[:, model.s - lagged : model.s] = weights[:, model.n :]
    first[:, model.s :] = weights.reshape(model.n_hints, model.lags, model.n).sum(axis=1)
    first = first if model.opened is None else later
    out = hints(filter, trajectories)
    for rows, _, (move, _) in _smoothed(filter, model, trajectories, Reads(first, later), with_variance=False):
        out[rows] += move
    return out


def _filled(
    filter: Learnt, trajectories: Trajectories, with_variance: bool
) -> tuple[Float[np.ndarray, "rows n"], Float[np.ndarray, "rows n"]]:
    """Observations with their gaps filled, in the units of the recordings, and standardised variances."""
    model = model_of(filter)
    read = np.eye(model.n, model.s + model.n, model.s)
    mean, variance = trajectories.values.copy(), np.zeros_like(trajectories.values)
    for rows, x, (move, left) in _smoothed(filter, model, trajectories, Reads(read, read), with_variance):
        missing = np.isnan(mean[rows])
        mean[rows] = np.where(missing, filter.scaling.undo(x + move), mean[rows])
        variance[rows] = np.where(missing, left, 0.0)
    return mean, variance


def _smoothed(
    filter: Learnt, model: Innovations, trajectories: Trajectories, reads: Reads, with_variance: bool
) -> Iterator[tuple[slice, Float[np.ndarray, "rows n"], tuple[np.ndarray, np.ndarray]]]:
    """Yield the rows of each recording with gaps, these rows filled from one side, and the result of `backward`."""
    layout = laid_out(filter, trajectories)
    x, u = layout.plan.packed(layout.x), layout.plan.packed(layout.u)
    first = memory(filter, model, start(filter))
    for begin, end in pairwise(trajectories.offsets.tolist()):
        if np.isnan(x[begin:end]).any():
            steps = forward(model, first, x[begin:end], u[begin:end])
            filtered = np.array([step.taken.x[0] for step in steps])
            yield slice(begin, end), filtered, backward(model, steps, reads, with_variance)
