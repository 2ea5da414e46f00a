"""Subspace identification of a linear system from outputs alone, over many recordings (N4SID and CVA).

The past tells of the future only through the state: the map from past to future has the rank of the system, and its
singular vectors give the states. Two rows of states, one step apart, give the system by least squares.
"""

import warnings
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, get_args

import numpy as np
import scipy.linalg

from psimlearn.baselines.beginning import begun
from psimlearn.baselines.identify import FLOOR, columns, identified, one_or_several, orders_to_try
from psimlearn.baselines.innovations import InnovationsModel, System
from psimlearn.baselines.systems import radius, stabilised
from psimlearn.checks import number, one_of, switch
from psimlearn.recordings.schedule import Schedule
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.shapes import Float

__all__ = ["Weighting", "n4sid"]

Weighting = Literal["cva", "n4sid"]


def n4sid(
    train: Trajectories,
    order: int | None = None,
    *,
    validation: Trajectories | None = None,
    block_rows: int | Sequence[int] = 10,
    weighting: Weighting = "cva",
    ridge: float = 1e-6,
    standardise: bool = True,
) -> InnovationsModel:
    """Identify a linear system from recordings of its outputs.

    Args:
        train: recordings; no column of the data matrices spans two of them. Missing entries are carried forward, then
            filled in by the system identified, which is identified again.
        order: the number of states; by default the one with the least one-step error on `validation`.
        validation: recordings to choose the order by.
        block_rows: how many rows of past and of future are related, or several such numbers to choose from as well.
        weighting: "cva" relates them by canonical correlations; "n4sid" weights the future by its variance.
        ridge: added to the variances of the standardised observations.
        standardise: measure each channel in its standard deviation. Otherwise all channels have one unit, and
            channels that vary most count most: right for principal components.
    """
    one_of(weighting, get_args(Weighting), "weighting")
    number(ridge, "ridge")
    switch(standardise, "standardise")
    tried = [
        (rows, orders_to_try(order, validation, (rows - 1) * train.n_channels, "order"))
        for rows in one_or_several(block_rows, validation, 2, "block_rows")
    ]

    def candidates(x: Float[np.ndarray, "rows n"], plan: Schedule) -> Iterator[InnovationsModel]:
        for rows, orders in tried:
            found = _subspace(*columns(x, plan, rows, rows), train.n_channels, weighting, ridge)
            yield from (begun(_system(found, order), x, plan, 2 * rows) for order in orders)

    return identified(train, validation, candidates, standardise)


class _Subspace(NamedTuple):
    """How the future depends on the past. Vectors are w = (x_t, .., x_{t+i-1}, x_{t-1}, .., x_{t-i})."""

    n: int
    moments: Float[np.ndarray, "w w"]
    now: Float[np.ndarray, "f w"]
    """Takes w to the weighted future from time t on that its past predicts."""
    following: Float[np.ndarray, "g w"]
    """Takes w to the weighted future from time t + 1 on that its past and x_t predict."""
    vectors: Float[np.ndarray, "f f"]
    values: Float[np.ndarray, " f"]


def _subspace(
    past: Float[np.ndarray, "columns p"],
    future: Float[np.ndarray, "columns f"],
    n: int,
    weighting: Weighting,
    ridge: float,
) -> _Subspace:
    """The singular vectors of W1 R_fp R_pp^-1 R_pp^{1/2}."""
    w = np.concatenate([future, past], axis=1)
    w -= w.mean(axis=0)
    moments = w.T @ w / len(w)
    f = future.shape[1]
    regular = moments + ridge * np.eye(len(moments))
    root = np.linalg.cholesky(regular[:f, :f]) if weighting == "cva" else np.eye(f)  # W1^-1, lower triangular
    now, following = np.zeros((f, len(moments))), np.zeros((f - n, len(moments)))
    now[:, f:] = np.linalg.solve(regular[f:, f:], np.linalg.solve(root, moments[:f, f:]).T).T
    known, less = np.r_[:n, f : len(moments)], slice(f - n)
    cross = np.linalg.solve(root[less, less], moments[n:f, known])
    following[:, known] = np.linalg.solve(regular[np.ix_(known, known)], cross.T).T
    vectors, values, _ = np.linalg.svd(now[:, f:] @ np.linalg.cholesky(regular[f:, f:]))
    return _Subspace(n, moments, now, following, vectors, values)


def _system(found: _Subspace, order: int) -> System:
    """Least squares from the states at time t to the states at time t + 1, and to x_t."""
    U, roots = found.vectors[:, :order], np.sqrt(np.maximum(found.values[:order], 1e-12))
    gamma = U * roots
    now = (U / roots).T @ found.now
    following = np.linalg.pinv(gamma[: len(found.following)]) @ found.following
    target = np.concatenate([following, np.eye(found.n, len(found.moments))])
    seen = now @ found.moments
    AC = np.linalg.lstsq(seen @ now.T, seen @ target.T, rcond=1e-12)[0].T
    A, shrunk = stabilised(AC[:order])
    residual = target - np.concatenate([A, AC[order:]]) @ now
    noise = residual @ found.moments @ residual.T
    return System(A, AC[order:], *_gain(A, AC[order:], noise), shrunk)


def _gain(
    A: Float[np.ndarray, "s s"], C: Float[np.ndarray, "n s"], noise: Float[np.ndarray, "sn sn"]
) -> tuple[Float[np.ndarray, "s n"], Float[np.ndarray, "n n"]]:
    """K and V from the Riccati equation with cross term; where it has no solution, K = S R^-1 and V = R."""
    order, n = len(A), len(C)
    noise = (noise + noise.T) / 2  # the solver refuses a matrix that rounding has made asymmetric
    Q, S, R = noise[:order, :order], noise[:order, order:], noise[order:, order:] + FLOOR * np.eye(n)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # the solver warns of a doubtful solution: do not use it
            P = scipy.linalg.solve_discrete_are(A.T, C.T, Q, R, s=S)
        V = C @ P @ C.T + R
        K = np.linalg.solve(V, (A @ P @ C.T + S).T).T
        np.linalg.cholesky(V)
        if radius(A - K @ C) < 1:
            return K, V
    except (np.linalg.LinAlgError, ValueError, Warning):
        pass
    return np.linalg.solve(R, S.T).T, R
