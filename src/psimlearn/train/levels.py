"""The level of the observations of an identified system, and the state in which its recordings begin.

The one-step errors of a filter are linear in both, so least squares give them.
"""

from typing import NamedTuple

import numpy as np

from psimlearn.factors import cholesky, inv, lstsq
from psimlearn.recordings.schedule import Schedule
from psimlearn.shapes import Float
from psimlearn.train.systems import System

__all__ = ["LevelSums", "level", "level_sums", "one_step_errors", "sensitivities", "whitened"]

BLOWN_UP = 1e6
"""A filter has diverged if an error is this many times larger than anything observed."""


def whitened(
    system: System, x: Float[np.ndarray, "rows n"], plan: Schedule
) -> tuple[Float[np.ndarray, "times n p"], Float[np.ndarray, "rows n"]] | None:
    """Sensitivities and one-step errors of a filter, in units of its innovations; None if it diverged."""
    e = one_step_errors(system, x, plan)
    if not np.abs(e).max() < BLOWN_UP * np.abs(x).max():
        return None
    white = inv(cholesky(system.V))  # small, and multiplied much faster than solved for
    return white @ sensitivities(system, len(plan.starts) - 1), e @ white.T


def one_step_errors(system: System, x: Float[np.ndarray, "rows n"], plan: Schedule) -> Float[np.ndarray, "rows n"]:
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


def sensitivities(system: System, times: int) -> Float[np.ndarray, "times n p"]:
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


class LevelSums(NamedTuple):
    """The normal equations of the first state and the mean; those of several parts of the data are added."""

    normal: Float[np.ndarray, "p p"]
    right: Float[np.ndarray, " p"]

    def plus(self, other: "LevelSums") -> "LevelSums":
        """The equations of both parts."""
        return LevelSums(self.normal + other.normal, self.right + other.right)

    def level(self) -> Float[np.ndarray, " p"]:
        """The first state and the mean with the least squared errors; the smallest of them if several have."""
        return np.asarray(lstsq(self.normal, self.right, 1e-10))


def level_sums(D: Float[np.ndarray, "times n p"], e: Float[np.ndarray, "rows n"], plan: Schedule) -> LevelSums:
    """The normal equations for sensitivities and one-step errors."""
    running = np.diff(plan.starts)
    normal = np.tensordot(D * running[:, None, None], D, axes=([0, 1], [0, 1]))
    return LevelSums(normal, np.tensordot(np.add.reduceat(e, plan.starts[:-1]), D, axes=2))


def level(D: Float[np.ndarray, "times n p"], e: Float[np.ndarray, "rows n"], plan: Schedule) -> Float[np.ndarray, " p"]:
    """The first state and the mean with the least squared errors."""
    return level_sums(D, e, plan).level()
