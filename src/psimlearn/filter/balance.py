"""Balanced reduction of a linear system: the states that hardly pass anything from inputs to outputs are left out.

    s_{t+1} = F s_t + M v_t,    y_t = C s_t

The Gramians P = F P F' + M M' and Q = F' Q F + C'C say how far inputs move each state, and how far each state moves
outputs. Both are computed as square roots, P = L L', so that small Hankel singular values keep their digits.
"""

from typing import NamedTuple

import numpy as np

from psimlearn.shapes import Float

__all__ = ["Reduction", "balanced", "balanced_roots", "gramian_root"]

DOUBLINGS = 50
"""A system that still remembers after 2^50 rows never forgets."""


class Reduction(NamedTuple):
    """A change to fewer coordinates: s = back r, r = into s."""

    into: Float[np.ndarray, "r s"]
    back: Float[np.ndarray, "s r"]
    error: float
    """Twice the sum of the Hankel singular values left out: bounds the gain from v to the error of y."""


def balanced(
    F: Float[np.ndarray, "s s"], M: Float[np.ndarray, "s v"], C: Float[np.ndarray, "n s"], tolerance: float
) -> Reduction | None:
    """The reduction to singular values above `tolerance` times the largest; None if the system does not forget."""
    reached, seen = gramian_root(F, M), gramian_root(F.T, C.T)
    return None if reached is None or seen is None else balanced_roots(reached, seen, tolerance)


def balanced_roots(reached: Float[np.ndarray, "s a"], seen: Float[np.ndarray, "s b"], tolerance: float) -> Reduction:
    """The reduction, given square roots of P and Q; P may be the second moment of states that were met."""
    U, values, V = np.linalg.svd(seen.T @ reached)
    values = np.concatenate([values, np.zeros(len(reached) - len(values))])
    kept = values > tolerance * values[:1]
    r = int(kept.sum())
    root = np.sqrt(values[:r])
    return Reduction((seen @ U[:, :r] / root).T, reached @ V[:r].T / root, 2 * float(values[r:].sum()))


def gramian_root(F: Float[np.ndarray, "s s"], M: Float[np.ndarray, "s v"]) -> Float[np.ndarray, "s r"] | None:
    """L with L L' = M M' + F M M' F' + .., the number of terms doubled until the sum stands; None if it grows."""
    L, power = _narrow(M), F
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(DOUBLINGS):
            more = power @ L
            if not np.isfinite(more).all():
                return None
            if np.linalg.norm(more) <= np.finfo(float).eps * np.linalg.norm(L):
                return L
            L, power = _narrow(np.hstack([L, more])), power @ power
    return None


def _narrow(L: Float[np.ndarray, "s v"]) -> Float[np.ndarray, "s r"]:
    """A square root of L L' with at most s columns."""
    triangle: np.ndarray = np.linalg.qr(L.T, mode="r")  # type: ignore[assignment]
    return triangle.T
