"""Where the states of an identified system begin, and the mean of its observations."""

import numpy as np

from psimlearn.baselines.innovations import InnovationsModel
from psimlearn.recordings.schedule import Schedule
from psimlearn.shapes import Float
from psimlearn.train.levels import level, whitened
from psimlearn.train.systems import System, settled

__all__ = ["begun"]


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
    found = whitened(system, x, plan)
    if found is None:  # a filter that diverged has no beginning, and its errors exclude it
        return InnovationsModel(A, C, K, V, np.zeros(len(C)), np.zeros(len(A)), np.zeros_like(A), shrunk)
    D, e = found
    theta = level(D, e, plan)
    seen, m = _spread(D[:first_rows], e - (D @ theta)[plan.time], plan)
    usual = settled(A, K @ V @ K.T)
    weight = m / (m + len(A) + 1)
    covariance = weight * seen + (1 - weight) * usual
    return InnovationsModel(A, C, K, V, theta[len(A) :], theta[: len(A)], covariance, shrunk)


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
