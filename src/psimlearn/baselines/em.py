"""Maximum likelihood for a linear dynamical system, by expectation maximisation over many recordings with gaps.

The two noises may be correlated: without that, a system of few states could not represent the system that subspace
identification found, and expectation maximisation would start from a worse one.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from psimlearn.baselines.gaussian import LinearGaussian
from psimlearn.baselines.innovations import InnovationsModel
from psimlearn.baselines.n4sid import n4sid
from psimlearn.baselines.smoother import Filtered, Records, filtered, parts, records, smoothed, symmetric, turned
from psimlearn.checks import number, whole
from psimlearn.errors import DivergedError
from psimlearn.filter.gaps import conditional_fill
from psimlearn.filter.scaling import standardisation
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.shapes import Bool, Float
from psimlearn.train.systems import settled

__all__ = ["em"]

FLOOR = 1e-8
"""The least variance of any noise, in standardised units. To maximise under such a bound is to clip eigenvalues, so
that the likelihood still rises."""
SLACK = 1e-9
"""A fall of the likelihood that rounding explains, relative to its size."""


def em(
    train: Trajectories,
    order: int | None = None,
    *,
    validation: Trajectories | None = None,
    block_rows: int | Sequence[int] = 10,
    start: LinearGaussian | InnovationsModel | None = None,
    n_iter: int = 100,
    tolerance: float = 1e-6,
) -> LinearGaussian:
    """Learn a linear dynamical system, started from subspace identification.

    Args:
        train: recordings of any lengths; missing entries are averaged over, not filled in.
        order: the number of states; by default the one that `n4sid` chooses on `validation`.
        validation: recordings to choose the order by.
        block_rows: as in `n4sid`.
        start: a system to start from instead.
        n_iter: the most iterations.
        tolerance: stop when an iteration gains less than this many nats per row.
    """
    whole(n_iter, "n_iter", 0)
    number(tolerance, "tolerance")
    if start is None:
        start = n4sid(train, order, validation=validation, block_rows=block_rows)
    if isinstance(start, InnovationsModel):
        start = _opened(start)
    scaling = standardisation(train.values)
    rows = records(scaling(train.values), train)
    found = _iterated(_bounded(start.standardised(scaling)), rows, n_iter, tolerance * len(train.values))
    change = np.log(scaling.scale) @ np.count_nonzero(~np.isnan(train.values), axis=0)
    history = tuple(float(each - change) for each in found.log_likelihoods)
    return replace(found.in_units(scaling), log_likelihoods=history)


def _iterated(model: LinearGaussian, records: Records, n_iter: int, least_gain: float) -> LinearGaussian:
    """Expectation and maximisation in turn, for as long as the likelihood rises."""
    seen = _expected(model, records)
    if not np.isfinite(seen.log_likelihood):
        raise DivergedError(
            f"required a start with a finite likelihood, received {seen.log_likelihood}. Use a smaller order."
        )
    history = [seen.log_likelihood]
    for _ in range(n_iter):
        better = _maximised(model, records, seen)
        seen = _expected(better, records)
        gain = seen.log_likelihood - history[-1]
        if not gain > -SLACK * abs(history[-1]):  # only rounding can lower it: keep the better model
            return replace(model, log_likelihoods=tuple(history))
        model = better
        history.append(seen.log_likelihood)
        if gain < least_gain:
            return replace(model, log_likelihoods=tuple(history), converged=True)
    return replace(model, log_likelihoods=tuple(history))


def _expected(model: LinearGaussian, records: Records) -> Filtered:
    """Expectation: states given the observations."""
    return filtered(model.kalman(), records.less(model.mean))


def _maximised(model: LinearGaussian, records: Records, seen: Filtered) -> LinearGaussian:
    """The parameters that make the expected states and observations most likely; the mean first, then the others.

    Next states and observations, y, are regressed on states: y = E s_t + noise, E = [A; C], cov(noise) = N.
    """
    known = smoothed(records, seen)
    s, p = known.s, model.order
    E = np.concatenate([model.A, model.C])
    N = np.block([[model.Q, model.S], [model.S.T, model.R]])
    x = np.where(records.masks[records.mask], records.x - model.mean, np.nan)
    y = conditional_fill(np.concatenate([known.following, x], axis=1), s @ E.T, N)
    error = (y - s @ E.T).mean(axis=0)
    shift = error[p:] - model.S.T @ np.linalg.solve(model.Q, error[:p])
    y[:, p:] -= shift
    ys, yy = _covariances(E, N, records, known.joint)
    ss, ys, yy = s.T @ s + known.joint[:, :p, :p].sum(axis=0), y.T @ s + ys, y.T @ y + yy
    E = np.linalg.lstsq(ss, ys.T, rcond=None)[0].T
    N = _definite((yy - E @ ys.T - ys @ E.T + E @ ss @ E.T) / len(y))
    first = s[records.plan.block(0)]
    initial = first.mean(axis=0)
    covariance = _definite((known.first + (first - initial).T @ (first - initial)) / len(first))
    return LinearGaussian(E[:p], E[p:], N[:p, :p], N[p:, p:], N[:p, p:], model.mean + shift, initial, covariance)


def _covariances(
    E: Float[np.ndarray, "y s"],
    N: Float[np.ndarray, "y y"],
    records: Records,
    joint: Float[np.ndarray, "patterns u u"],
) -> tuple[Float[np.ndarray, "y s"], Float[np.ndarray, "y y"]]:
    """Covariances of y with s_t and of y with itself, given all observations, summed over rows.

    Missing entries of y follow the entries seen and the state: y = E s_t + F (y_seen - E s_t), F = N N_seen^-1, with
    variance N - F N.
    """
    p, sizes = E.shape[1], np.bincount(records.mask)
    ys, yy = np.zeros_like(E), np.zeros_like(N)
    for part in parts(records.masks, len(N)):
        F = _fills(N, records.masks[part])
        M = np.concatenate([E - F @ E, F[:, :, :p]], axis=2)  # takes (s_t, s_{t+1}) to y
        MJ = M @ joint[part]
        ys += MJ[:, :, :p].sum(axis=0)
        yy += np.tensordot(MJ, M, axes=([0, 2], [0, 2])) + np.tensordot(sizes[part], N - F @ N, axes=1)
    return ys, yy


def _fills(N: Float[np.ndarray, "y y"], masks: Bool[np.ndarray, "patterns n"]) -> Float[np.ndarray, "patterns y y"]:
    """N N_seen^-1 for each pattern, zero in the columns of missing entries: takes the entries seen to all."""
    seen = np.concatenate([np.ones((len(masks), len(N) - masks.shape[1]), dtype=bool), masks], axis=1)
    both = seen[:, :, None] & seen[:, None, :]
    F = turned(np.linalg.solve(np.where(both, N, np.eye(len(N))), np.where(seen[:, :, None], N, 0.0)))
    return np.where(seen[:, :, None], np.eye(len(N)), F)  # exact where seen


def _opened(model: InnovationsModel) -> LinearGaussian:
    """The same system with some noise in every state, which expectation maximisation needs to change it.

    A filter cannot tell innovations V from states that keep an uncertainty P = F P F' + .., F = A - KC, after any past,
    if noises are R = V - C P C', S = K V - A P C' and Q = P - A P A' + K V K'.
    """
    A, C, K, V = model.A, model.C, model.K, model.V
    Q, F = K @ V @ K.T, A - K @ C
    P = np.zeros_like(A)
    if model.filter_radius < 1:
        P = settled(F, Q + 1e-3 * np.trace(Q) / len(A) * np.eye(len(A)))
    for share in 0.5 ** np.arange(12):
        D = share * P
        N = np.block([[D - A @ D @ A.T + Q, K @ V - A @ D @ C.T], [(K @ V - A @ D @ C.T).T, V - C @ D @ C.T]])
        if np.linalg.eigvalsh(N)[0] > 0 and np.linalg.eigvalsh(N[len(A) :, len(A) :] - 0.5 * V)[0] > 0:
            break
    p = len(A)
    return LinearGaussian(A, C, N[:p, :p], N[p:, p:], N[:p, p:], model.mean, model.initial, model.covariance + D)


def _bounded(model: LinearGaussian) -> LinearGaussian:
    """The system with no noise below the floor: a start below it could only lose likelihood."""
    p = model.order
    N = _definite(np.block([[model.Q, model.S], [model.S.T, model.R]]))
    return replace(model, Q=N[:p, :p], R=N[p:, p:], S=N[:p, p:], covariance=_definite(model.covariance))


def _definite(covariance: Float[np.ndarray, "d d"], least: float = FLOOR) -> Float[np.ndarray, "d d"]:
    """The covariance with no eigenvalue below the least."""
    values, vectors = np.linalg.eigh(symmetric(covariance))
    return np.asarray((vectors * np.maximum(values, max(least, FLOOR))) @ vectors.T)
