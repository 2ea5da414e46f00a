"""Linear maps of a state: their radius, their limits, and how to keep them stable."""

import numpy as np
import scipy.linalg

from psimlearn.shapes import Float

__all__ = ["observability", "radius", "settled", "stabilised"]

LARGEST_POLE = 0.999
"""Eigenvalues of A on or outside the unit circle are shrunk to this."""


def radius(A: Float[np.ndarray, "s s"]) -> float:
    """rho(A), the largest absolute eigenvalue."""
    return float(np.abs(np.linalg.eigvals(A)).max())


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
    T, Z = scipy.linalg.schur(A, output="real")
    start = 0
    while start < len(T):
        pair = start + 1 < len(T) and T[start + 1, start] != 0
        block = slice(start, start + 1 + pair)
        # eigenvalues just inside the circle are shrunk too: rounding may move them out
        T[block, block] *= LARGEST_POLE / max(radius(T[block, block]), LARGEST_POLE)
        start = block.stop
    return Z @ T @ Z.T, True
