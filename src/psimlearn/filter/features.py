"""Features of the next `window` observations. A belief is their expectation, which a filter tracks.

To write features, give a `window`, a call and the way back to observations:

    @dataclass(frozen=True)
    class StackAbsolute:
        window: int

        def __call__(self, f):
            flat = f.reshape(len(f), -1)
            return np.concatenate([flat, np.abs(flat)], axis=1)

        def observations(self, m):
            return m[:, : m.shape[1] // 2].reshape(len(m), self.window, -1)

and optionally `persist(x)` (the features of x repeated; allows prior="last") and `variance(m)`.
"""

from dataclasses import dataclass
from math import isqrt
from typing import Any, Protocol, runtime_checkable

import numpy as np

from psimlearn.checks import whole
from psimlearn.factors import eigh
from psimlearn.shapes import Float

__all__ = ["Array", "Features", "Persistent", "SecondMoment", "Stack", "StackSquares", "Variances"]

Array = Any
"""An array of numpy or of JAX: the step is written once for both."""

VARIANCE_FLOOR = 1e-9
"""The least variance that a belief can claim, in squared standard deviations of the channel."""


@runtime_checkable
class Features(Protocol):
    """phi: the map from a window of observations to a vector. The expectation of this vector is the belief."""

    @property
    def window(self) -> int:
        """k, the number of observations that a belief describes."""

    def __call__(self, f: Float[np.ndarray, "b window n"]) -> Float[np.ndarray, "b d"]:
        """The features phi(f) of each window."""

    def observations(self, m: Float[np.ndarray, "b d"]) -> Float[np.ndarray, "b window n"]:
        """The expected observations that a belief contains."""


@runtime_checkable
class Persistent(Protocol):
    """Features that can be computed for a last observation that stays as it is."""

    def persist(self, x: Float[np.ndarray, "b n"]) -> Float[np.ndarray, "b d"]:
        """phi of x repeated `window` times."""


@runtime_checkable
class Variances(Protocol):
    """Features whose beliefs claim a variance for each expected observation."""

    def variance(self, m: Float[np.ndarray, "b d"]) -> Float[np.ndarray, "b window n"]:
        """The variance of each expected observation."""


@dataclass(frozen=True)
class Stack:
    """phi_1: the observations themselves. A belief is the expected next `window` observations.

    >>> Stack(2)(np.array([[[1.0, 2.0], [3.0, 4.0]]]))
    array([[1., 2., 3., 4.]])
    """

    window: int

    def __post_init__(self) -> None:
        """Refuse a window that is no count."""
        whole(self.window, "window")

    def __call__(self, f: Float[Array, "b window n"]) -> Float[Array, "b d"]:
        """[x_t; ..; x_{t+k-1}]."""
        return f.reshape(len(f), -1)

    def observations(self, m: Float[Array, "b d"]) -> Float[Array, "b window n"]:
        """The belief, unstacked."""
        return m.reshape(len(m), self.window, -1)

    def persist(self, x: Float[Array, "b n"]) -> Float[Array, "b d"]:
        """x repeated `window` times."""
        return x.__array_namespace__().tile(x, (1, self.window))


@dataclass(frozen=True)
class StackSquares:
    """phi_2: the observations and their squares. A belief holds the mean and the variance of each observation."""

    window: int

    def __post_init__(self) -> None:
        """Refuse a window that is no count."""
        whole(self.window, "window")

    def __call__(self, f: Float[Array, "b window n"]) -> Float[Array, "b d"]:
        """[f; f^2]."""
        flat = f.reshape(len(f), -1)
        return f.__array_namespace__().concat([flat, flat**2], axis=1)

    def observations(self, m: Float[Array, "b d"]) -> Float[Array, "b window n"]:
        """The first half of the belief, unstacked."""
        return m[:, : m.shape[1] // 2].reshape(len(m), self.window, -1)

    def variance(self, m: Float[np.ndarray, "b d"]) -> Float[np.ndarray, "b window n"]:
        """E[x^2] - E[x]^2, at least `VARIANCE_FLOOR`."""
        mean, square = np.split(m, 2, axis=1)
        return np.reshape(np.maximum(square - mean**2, VARIANCE_FLOOR), (len(m), self.window, -1))

    def persist(self, x: Float[Array, "b n"]) -> Float[Array, "b d"]:
        """[x, .., x; x^2, .., x^2]."""
        return self(x.__array_namespace__().repeat(x[:, None], self.window, axis=1))


@dataclass(frozen=True)
class SecondMoment:
    """f and the upper triangle of ff': a belief is a full Gaussian over the next `window` observations."""

    window: int

    def __post_init__(self) -> None:
        """Refuse a window that is no count."""
        whole(self.window, "window")

    def __call__(self, f: Float[Array, "b window n"]) -> Float[Array, "b d"]:
        """[f; ff' on and above the diagonal, row by row]."""
        flat = f.reshape(len(f), -1)
        row, column = np.triu_indices(flat.shape[1])
        return f.__array_namespace__().concat([flat, flat[:, row] * flat[:, column]], axis=1)

    def observations(self, m: Float[Array, "b d"]) -> Float[Array, "b window n"]:
        """E[f], the first part of the belief."""
        return m[:, : _width(m)].reshape(len(m), self.window, -1)

    def covariance(self, m: Float[np.ndarray, "b d"]) -> Float[np.ndarray, "b w w"]:
        """E[ff'] - E[f]E[f]' with a floor on its eigenvalues: an estimated belief need not be positive definite."""
        values, vectors = _spectrum(m)
        return np.asarray(np.einsum("bij,bj,bkj->bik", vectors, values, vectors))

    def variance(self, m: Float[np.ndarray, "b d"]) -> Float[np.ndarray, "b window n"]:
        """The diagonal of `covariance`."""
        return np.diagonal(self.covariance(m), axis1=1, axis2=2).reshape(len(m), self.window, -1)

    def log_likelihood(
        self, m: Float[np.ndarray, "b d"], f: Float[np.ndarray, "b window n"]
    ) -> Float[np.ndarray, " b"]:
        """log N(f; E[f], cov f): the log-likelihood of a given continuation under a belief, in nats."""
        residual = (f - self.observations(m)).reshape(len(m), -1)
        values, vectors = _spectrum(m)  # no Cholesky: rounding can undo the floor
        white = np.einsum("bij,bi->bj", vectors, residual) / np.sqrt(values)
        return np.asarray(-0.5 * np.sum(white**2 + np.log(2 * np.pi * values), axis=1))

    def persist(self, x: Float[Array, "b n"]) -> Float[Array, "b d"]:
        """phi of x repeated `window` times."""
        return self(x.__array_namespace__().repeat(x[:, None], self.window, axis=1))


def _spectrum(m: Float[np.ndarray, "b d"]) -> tuple[Float[np.ndarray, "b w"], Float[np.ndarray, "b w w"]]:
    """The eigenvalues, floored, and the eigenvectors of the covariance in a second-moment belief; NaN if not finite."""
    w = _width(m)
    row, column = np.triu_indices(w)
    second = np.empty((len(m), w, w))
    second[:, row, column] = second[:, column, row] = m[:, w:]
    matrices = second - m[:, :w, None] * m[:, None, :w]
    finite = np.isfinite(matrices).all(axis=(1, 2))  # eigh raises where a huge observation broke a belief
    values, vectors = eigh(np.where(finite[:, None, None], matrices, 0.0))
    return np.where(finite[:, None], np.maximum(values, VARIANCE_FLOOR), np.nan), vectors


def _width(m: Float[Array, "b d"]) -> int:
    """w, where a second-moment belief has w + w (w + 1) / 2 coordinates."""
    return (isqrt(9 + 8 * m.shape[1]) - 3) // 2
