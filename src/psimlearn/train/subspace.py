"""Subspace identification (N4SID and CVA), and the first step of a filter from a system that was identified.

The past tells of the future only through the state: the map from past to future has the rank of the system, and its
singular vectors give the states. Two rows of states, one step apart, give the system by least squares, and the Riccati
equation gives the gain K of its filter, which forgets its start however strong the noise is.

As a filter of this library: the belief is m_t = O s_t, where O = [C; CA; ..; CA^{k-1}]; a left inverse of O reads the
state from the belief, and only the state is fed back. So

    m_{t+1} = O (A - KC) s_t + O K x_t              for observations less their level
"""

from typing import Literal, NamedTuple

import numpy as np

from psimlearn.errors import DataError
from psimlearn.factors import cholesky, lstsq, pinv, solve, svd
from psimlearn.filter import Feedback, Linear
from psimlearn.recordings.schedule import Schedule
from psimlearn.recordings.windows import futures, histories
from psimlearn.shapes import Float
from psimlearn.train.levels import LevelSums, level_sums, whitened
from psimlearn.train.systems import System, observability, stabilised, steady_gain

__all__ = ["Related", "Start", "Weighting", "columns", "first_step", "readout", "realised", "related", "related_by"]
__all__ += ["started", "started_by", "stretches", "with_ridge"]

Weighting = Literal["cva", "n4sid"]
FAINT = 1e-6
"""Added to the variances of standardised features, so that their inverse exists."""


def columns(
    x: Float[np.ndarray, "rows n"], plan: Schedule, past: int, future: int
) -> tuple[Float[np.ndarray, "columns pn"], Float[np.ndarray, "columns fn"]]:
    """(x_{t-1}, .., x_{t-past}) and (x_t, .., x_{t+future-1}) at the rows where both lie within one trajectory."""
    whole = plan.reaches(-past) & plan.reaches(future - 1)
    _check_stretches(int(np.count_nonzero(whole)), x.shape[1], past, future)
    return stretches(x, plan, past, future)


def _check_stretches(n_stretches: int, n: int, past: int, future: int) -> None:
    required = past * n + 1
    if n_stretches < required:
        raise DataError(
            f"too little data: required {required} stretches of {past + future} rows within trajectories, to relate "
            f"{past} rows of past with {future} rows of future in {n} channels; received {n_stretches}. Use more or "
            "longer recordings, fewer channels or fewer rows."
        )


def stretches(
    x: Float[np.ndarray, "rows n"], plan: Schedule, past: int, future: int
) -> tuple[Float[np.ndarray, "columns pn"], Float[np.ndarray, "columns fn"]]:
    """As `columns`, however few there are."""
    whole = plan.reaches(-past) & plan.reaches(future - 1)
    width = future * x.shape[1]
    return histories(x, plan, past)[whole], futures(x, plan, future)[whole].reshape(-1, width)


class Related(NamedTuple):
    """How the future depends on the past. Vectors are w = (x_t, .., x_{t+i-1}, x_{t-1}, .., x_{t-i})."""

    n: int
    moments: Float[np.ndarray, "w w"]
    now: Float[np.ndarray, "f w"]
    """Takes w to the weighted future from time t on that its past predicts."""
    following: Float[np.ndarray, "g w"]
    """Takes w to the weighted future from time t + 1 on that its past and x_t predict."""
    vectors: Float[np.ndarray, "f f"]
    values: Float[np.ndarray, " f"]


def related(
    x: Float[np.ndarray, "rows n"], plan: Schedule, block_rows: int, weighting: Weighting, ridge: float
) -> Related:
    """The singular vectors of W1 R_fp R_pp^-1 R_pp^{1/2}.

    Args:
        x: scheduled rows, standardised, without gaps.
        plan: their schedule.
        block_rows: how many rows of past, and of future.
        weighting: W1: "cva" relates past and future by canonical correlations; "n4sid" weights the future by its
            variance.
        ridge: added to variances.
    """
    past, future = columns(x, plan, block_rows, block_rows)
    w = np.concatenate([future, past], axis=1)
    w -= w.mean(axis=0)
    return related_by(w.T @ w / len(w), len(w), x.shape[1], weighting, ridge)


def related_by(
    moments: Float[np.ndarray, "w w"], n_stretches: int, n: int, weighting: Weighting, ridge: float
) -> Related:
    """As `related`, from the covariance of stretches of future and past of n channels."""
    f = len(moments) // 2
    _check_stretches(n_stretches, n, f // n, f // n)
    return _related_by(moments, n, weighting, ridge)


def with_ridge(found: Related, weighting: Weighting, ridge: float) -> Related:
    """The same moments, related with another ridge."""
    return _related_by(found.moments, found.n, weighting, ridge)


def _related_by(moments: Float[np.ndarray, "w w"], n: int, weighting: Weighting, ridge: float) -> Related:
    f = len(moments) // 2
    regular = moments + ridge * np.eye(len(moments))
    root = cholesky(regular[:f, :f]) if weighting == "cva" else np.eye(f)  # W1^-1, lower triangular
    now, following = np.zeros((f, len(moments))), np.zeros((f - n, len(moments)))
    now[:, f:] = solve(regular[f:, f:], solve(root, moments[:f, f:]).T).T
    known, less = np.r_[:n, f : len(moments)], slice(f - n)
    cross = solve(root[less, less], moments[n:f, known])
    following[:, known] = solve(regular[np.ix_(known, known)], cross.T).T
    vectors, values, _ = svd(now[:, f:] @ cholesky(regular[f:, f:]))
    return Related(n, moments, now, following, vectors, values)


def realised(found: Related, order: int) -> System:
    """A system of so many states: least squares from the states at time t to the states at time t + 1, and to x_t."""
    U, roots = found.vectors[:, :order], np.sqrt(np.maximum(found.values[:order], 1e-12))
    gamma = U * roots
    now = (U / roots).T @ found.now
    following = pinv(gamma[: len(found.following)]) @ found.following
    target = np.concatenate([following, np.eye(found.n, len(found.moments))])
    seen = now @ found.moments
    AC = lstsq(seen @ now.T, seen @ target.T, 1e-12).T
    A, shrunk = stabilised(AC[:order])
    residual = target - np.concatenate([A, AC[order:]]) @ now
    noise = residual @ found.moments @ residual.T
    return System(A, AC[order:], *steady_gain(A, AC[order:], noise), shrunk)


class Start(NamedTuple):
    """A system, with the level of its observations and the state in which recordings begin."""

    system: System
    level: Float[np.ndarray, " n"]
    state: Float[np.ndarray, " s"]

    def belief(self, window: int) -> Float[np.ndarray, " d"]:
        """m_1."""
        A, C = self.system[:2]
        return np.asarray(observability(A, C, window) @ self.state + np.tile(self.level, window))


def started(system: System, x: Float[np.ndarray, "rows n"], plan: Schedule) -> Start:
    """Complete a system of standardised, scheduled rows by the level and the first state with the least errors."""
    found = whitened(system, x, plan)
    return started_by(system, None if found is None else level_sums(*found, plan))


def started_by(system: System, sums: LevelSums | None) -> Start:
    """As `started`, from the sums of one-step errors; None if the system diverged, so that its errors exclude it."""
    r = len(system.A)
    theta = np.zeros(r + len(system.C)) if sums is None else sums.level()
    return Start(system, theta[r:], theta[:r])


def readout(system: System, covariance: Float[np.ndarray, "d d"]) -> Float[np.ndarray, "d s"]:
    """The directions of a belief that are the state: a left inverse of O, by generalised least squares.

    Rounds after the first have beliefs beyond the range of O. Their parts that vary much, relative to the features,
    count less.

    Args:
        system: of standardised observations.
        covariance: of the features that beliefs predict, windows of observations.
    """
    O = observability(system.A, system.C, len(covariance) // len(system.C))
    weighted = solve(covariance + FAINT * np.eye(len(O)), O)
    return np.asarray(weighted @ pinv(O.T @ weighted))


def first_step(start: Start, feedback: Feedback, lags: int, prior: Float[np.ndarray, " d"] | None) -> Linear:
    """The regressor that steps a belief as the Kalman filter of a system does.

    Args:
        start: the system, the level of its observations, and its first state.
        feedback: reads the state from a belief, shifts and scales it.
        lags: how many of the last observations a step sees; the filter needs the last only.
        prior: the belief that is added to the output of the regressor; None if the last observation is added.
    """
    A, C, K = start.system[:3]
    assert feedback.directions is not None
    n, r, d = len(C), len(A), len(feedback.directions)
    O, level = observability(A, C, d // n), np.tile(start.level, d // n)
    forgetting, gain = O @ (A - K @ C), O @ K
    weights = np.vstack([(forgetting * (feedback.scale / feedback.weight)).T, gain.T, np.zeros(((lags - 1) * n, d))])
    intercept = level + forgetting @ (feedback.mean - level @ feedback.directions) - gain @ start.level
    if prior is not None:
        return Linear(weights, intercept - prior)
    weights[r : r + n] -= np.tile(np.eye(n), d // n)
    return Linear(weights, intercept)
