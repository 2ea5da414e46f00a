"""Where the states of an identified system begin, and the mean of its observations."""

import numpy as np

from psimlearn.baselines.innovations import InnovationsModel, System
from psimlearn.baselines.systems import settled
from psimlearn.recordings.schedule import Schedule
from psimlearn.shapes import Float

__all__ = ["begun"]

BLOWN_UP = 1e6
"""A filter has diverged if an error is this many times larger than anything observed."""


def begun(system: System, x: Float[np.ndarray, "rows n"], plan: Schedule, first_rows: int) -> InnovationsModel:
    """Complete a system by the mean of its observations and by the distribution of its first state.

    The one-step errors of the filter are linear in both means, which least squares give. How much first states differ
    is seen in the errors of the first rows; with few recordings, it is taken to be as much as states differ later.

    Args:
        system: the system, of standardised observations.
        x: standardised, scheduled rows.
        plan: their schedule.
        first_rows: how many rows of each recording tell how much first states differ.
    """
    A, C, K, V, shrunk = system
    e = _innovations(system, x, plan)
    if (
        not np.abs(e).max() < BLOWN_UP * np.abs(x).max()
    ):  # a filter that diverged has no beginning, and its errors exclude it
        return InnovationsModel(A, C, K, V, np.zeros(len(C)), np.zeros(len(A)), np.zeros_like(A), shrunk)
    root = np.linalg.cholesky(V)
    e = np.linalg.solve(root, e.T).T
    D = np.linalg.solve(root, _sensitivities(system, len(plan.starts) - 1))
    theta = _level(D, e, plan)
    seen, m = _spread(D[:first_rows], e - (D @ theta)[plan.time], plan)
    usual = settled(A, K @ V @ K.T)
    weight = m / (m + len(A) + 1)
    covariance = weight * seen + (1 - weight) * usual
    return InnovationsModel(A, C, K, V, theta[len(A) :], theta[: len(A)], covariance, shrunk)


def _innovations(system: System, x: Float[np.ndarray, "rows n"], plan: Schedule) -> Float[np.ndarray, "rows n"]:
    """One-step errors of the stationary filter from state zero."""
    A, C, K = system[:3]
    e = np.empty_like(x)
    s = np.zeros((len(plan.last()), len(A)))
    with np.errstate(over="ignore", invalid="ignore"):
        for block in plan.blocks():
            s = s[: block.stop - block.start]
            e[block] = x[block] - s @ C.T
            s = s @ A.T + e[block] @ K.T
    return e


def _sensitivities(system: System, times: int) -> Float[np.ndarray, "times n p"]:
    """By how much the first state and the mean of the observations lower the one-step error at each time."""
    A, C, K = system[:3]
    F, n = A - K @ C, len(C)
    response = np.concatenate([np.eye(len(A)), np.zeros((len(A), n))], axis=1)  # of the state
    direct = np.concatenate([np.zeros_like(C), np.eye(n)], axis=1)
    out = np.empty((times, n, len(A) + n))
    for t in range(times):
        out[t] = C @ response + direct
        response = F @ response - K @ direct
    return out


def _level(
    D: Float[np.ndarray, "times n p"], e: Float[np.ndarray, "rows n"], plan: Schedule
) -> Float[np.ndarray, " p"]:
    """The first state and the mean with the least squared errors; the smallest of them if several have."""
    running = np.diff(plan.starts)
    normal = np.tensordot(D * running[:, None, None], D, axes=([0, 1], [0, 1]))
    right = np.tensordot(np.add.reduceat(e, plan.starts[:-1]), D, axes=2)
    return np.asarray(np.linalg.lstsq(normal, right, rcond=1e-10)[0])


def _spread(
    D: Float[np.ndarray, "first n p"], e: Float[np.ndarray, "rows n"], plan: Schedule
) -> tuple[Float[np.ndarray, "s s"], int]:
    """The covariance of first states beyond that of the innovations, and from how many recordings it was taken."""
    D = D[:, :, : D.shape[2] - D.shape[1]]
    blocks = plan.blocks()[: len(D)]
    m = blocks[-1].stop - blocks[-1].start
    pull = sum(e[block.start : block.start + m] @ d for block, d in zip(blocks, D, strict=True))
    values, vectors = np.linalg.eigh(np.tensordot(D, D, axes=([0, 1], [0, 1])))
    kept = values > 1e-9 * values[-1]
    B = vectors[:, kept] / np.sqrt(values[kept])
    excess, directions = np.linalg.eigh((pull @ B).T @ (pull @ B) / m - np.eye(B.shape[1]))
    root = B @ (directions * np.sqrt(np.maximum(excess, 0.0)))
    return root @ root.T, m
