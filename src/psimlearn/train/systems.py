"""Linear systems: their radius, their limits, how to keep them stable, and the gain of their filter."""

import warnings
from typing import NamedTuple

import numpy as np
import scipy.linalg

from psimlearn.factors import eigvals, schur, solve
from psimlearn.shapes import Float

__all__ = ["FLOOR", "LARGEST_POLE", "System", "observability", "radius", "settled", "stabilised", "steady_gain"]

FLOOR = 1e-9
"""The least variance of an innovation, in units of its channel's variance: a constant channel has none."""
LARGEST_POLE = 0.999
"""Eigenvalues of A on or outside the unit circle are shrunk to this."""


class System(NamedTuple):
    """A linear system in innovations form, without its beginning: s_{t+1} = A s_t + K e_t, x_t = C s_t + e_t."""

    A: Float[np.ndarray, "s s"]
    C: Float[np.ndarray, "n s"]
    K: Float[np.ndarray, "s n"]
    V: Float[np.ndarray, "n n"]
    stabilised: bool


def radius(A: Float[np.ndarray, "s s"]) -> float:
    """rho(A), the largest absolute eigenvalue."""
    return float(np.abs(eigvals(A)).max())


def observability(A: Float[np.ndarray, "s s"], C: Float[np.ndarray, "n s"], rows: int) -> Float[np.ndarray, "rn s"]:
    """[C; CA; ..; CA^{rows-1}]."""
    blocks = [C]
    for _ in range(rows - 1):
        blocks.append(blocks[-1] @ A)
    return np.concatenate(blocks)


def settled(A: Float[np.ndarray, "s s"], Q: Float[np.ndarray, "s s"]) -> Float[np.ndarray, "s s"]:
    """P = APA' + Q by its series Q + AQA' + .., twice as many terms at a time: never indefinite, however slow A."""
    P, power = Q, A
    for _ in range(40):
        P = P + power @ P @ power.T
        power = power @ power
        if not 1e-20 < np.abs(power).max() < 1e8:  # done, or beyond what rounding leaves of a slow, skewed A
            break
    return P


def stabilised(A: Float[np.ndarray, "s s"]) -> tuple[Float[np.ndarray, "s s"], bool]:
    """A with no eigenvalue on or outside the unit circle, and whether there were any.

    In the real Schur form an eigenvalue, or a pair of conjugate ones, is a block of the diagonal: this needs no
    eigenvectors, of which two equal eigenvalues may have only one.
    """
    if radius(A) < 1:
        return A, False
    T, Z = schur(A)
    start = 0
    while start < len(T):
        pair = start + 1 < len(T) and T[start + 1, start] != 0
        block = slice(start, start + 1 + pair)
        # eigenvalues just inside the circle are shrunk too: rounding may move them out
        T[block, block] *= LARGEST_POLE / max(radius(T[block, block]), LARGEST_POLE)
        start = block.stop
    return Z @ T @ Z.T, True


def steady_gain(
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
    return solve(R, S.T).T, R
