"""Expectation maximisation: one iteration makes a linear system with Gaussian noises more likely.

The two noises may be correlated: without that, a system of few states could not represent the system that subspace
identification found, and expectation maximisation would start from a worse one. Expectations are sums over recordings:
those of several parts of the data are added.
"""

from typing import Any, NamedTuple

import numpy as np

from psimlearn.filter.gaps import conditional_fill
from psimlearn.shapes import Bool, Float
from psimlearn.train.smoother import Filtered, Records, filtered, parts, smoothed, symmetric, turned
from psimlearn.train.systems import NoisySystem, System, radius, settled

__all__ = ["Expected", "bounded", "expected", "maximised", "opened"]

LEAST_NOISE = 1e-8
"""The least variance of any noise, in standardised units. To maximise under such a bound is to clip eigenvalues, so
that the likelihood still rises."""


class Expected(NamedTuple):
    """Sums of expected states s_t, and of what follows them: y_t = (s_{t+1}, x_t less its mean so far)."""

    n: int
    s: Float[np.ndarray, " s"]
    y: Float[np.ndarray, " y"]
    ss: Float[np.ndarray, "s s"]
    ys: Float[np.ndarray, "y s"]
    yy: Float[np.ndarray, "y y"]
    n_first: int
    """The number of recordings; the sums of their first states follow."""
    first: Float[np.ndarray, " s"]
    first_squares: Float[np.ndarray, "s s"]

    def plus(self, other: "Expected") -> "Expected":
        """The sums of both parts."""
        both: Any = zip(self, other, strict=True)  # numbers and arrays
        return Expected(*(mine + its for mine, its in both))


def expected(model: NoisySystem, records: Records, seen: Filtered | None = None) -> Expected:
    """Expectation: sums of states given all observations of their recording.

    Args:
        model: the system so far.
        records: recordings.
        seen: its Kalman filter over these, if known.
    """
    known = smoothed(records, seen or filtered(model, records))
    s, p = known.s, len(model.A)
    E, N = np.concatenate([model.A, model.C]), model.noise
    x = np.where(records.masks[records.mask], records.x - model.mean, np.nan)
    y = conditional_fill(np.concatenate([known.following, x], axis=1), s @ E.T, N)
    ys, yy = _covariances(E, N, records, known.joint)
    ss, ys, yy = s.T @ s + known.joint[:, :p, :p].sum(axis=0), y.T @ s + ys, y.T @ y + yy
    first = s[records.plan.block(0)]
    return Expected(
        len(s), s.sum(axis=0), y.sum(axis=0), ss, ys, yy, len(first), first.sum(axis=0), known.first + first.T @ first
    )


def maximised(model: NoisySystem, sums: Expected) -> NoisySystem:
    """Maximisation: the parameters that make expected states and observations most likely; the mean, then the others.

    Next states and observations, y, are regressed on states: y = E s_t + noise, E = [A; C], cov(noise) = N.
    """
    p, n = len(model.A), sums.n
    E = np.concatenate([model.A, model.C])
    error = (sums.y - E @ sums.s) / n
    shift = np.concatenate([np.zeros(p), error[p:] - model.S.T @ np.linalg.solve(model.Q, error[:p])])
    ys, across = sums.ys - np.outer(shift, sums.s), np.outer(shift, sums.y)
    yy = sums.yy - across - across.T + n * np.outer(shift, shift)
    E = np.linalg.lstsq(sums.ss, ys.T, rcond=None)[0].T
    N = _definite((yy - E @ ys.T - ys @ E.T + E @ sums.ss @ E.T) / n)
    initial = sums.first / sums.n_first
    covariance = _definite(sums.first_squares / sums.n_first - np.outer(initial, initial))
    return NoisySystem(E[:p], E[p:], N[:p, :p], N[p:, p:], N[:p, p:], model.mean + shift[p:], initial, covariance)


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


def opened(
    system: System,
    mean: Float[np.ndarray, " n"],
    initial: Float[np.ndarray, " s"],
    covariance: Float[np.ndarray, "s s"],
) -> NoisySystem:
    """The same system with some noise in every state, which expectation maximisation needs to change it.

    A filter cannot tell innovations V from states that keep an uncertainty P = F P F' + .., F = A - KC, after any past,
    if noises are R = V - C P C', S = K V - A P C' and Q = P - A P A' + K V K'.

    Args:
        system: a system in innovations form.
        mean: of its observations.
        initial: the mean of first states.
        covariance: of first states, which gets P in addition.
    """
    A, C, K, V = system[:4]
    Q, F = K @ V @ K.T, A - K @ C
    P = np.zeros_like(A)
    if radius(F) < 1:
        P = settled(F, Q + 1e-3 * np.trace(Q) / len(A) * np.eye(len(A)))
    for share in 0.5 ** np.arange(12):
        D = share * P
        N = np.block([[D - A @ D @ A.T + Q, K @ V - A @ D @ C.T], [(K @ V - A @ D @ C.T).T, V - C @ D @ C.T]])
        if np.linalg.eigvalsh(N)[0] > 0 and np.linalg.eigvalsh(N[len(A) :, len(A) :] - 0.5 * V)[0] > 0:
            break
    p = len(A)
    return NoisySystem(A, C, N[:p, :p], N[p:, p:], N[:p, p:], mean, initial, covariance + D)


def bounded(model: NoisySystem) -> NoisySystem:
    """The system with no noise below the floor: a start below it could only lose likelihood."""
    p, N = len(model.A), _definite(model.noise)
    return model._replace(Q=N[:p, :p], R=N[p:, p:], S=N[:p, p:], covariance=_definite(model.covariance))


def _definite(covariance: Float[np.ndarray, "d d"]) -> Float[np.ndarray, "d d"]:
    """The covariance with no eigenvalue below the least."""
    values, vectors = np.linalg.eigh(symmetric(covariance))
    return np.asarray((vectors * np.maximum(values, LEAST_NOISE)) @ vectors.T)
