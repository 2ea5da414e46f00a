"""Regressors: fitted maps as plain values, which a file can hold.

A step computes B(z) with z = [fed; known]: `fed` comes from the belief, so it is available one row at a time; `known`
holds observations and inputs, which a recording has for all rows at once. So a regressor works in two parts: `drive`
computes the contribution of `known` for any number of rows, and `respond` adds the contribution of `fed`.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from psimlearn.filter.features import Array
from psimlearn.filter.fourier import fourier_features
from psimlearn.shapes import Float

__all__ = ["LEAST_LOG_VARIANCE", "MOST_LOG_VARIANCE", "Drive", "Linear", "MeanAndVariance", "Opaque", "RandomFourier"]
__all__ += ["Regressor"]

Drive = tuple[Array, ...]
"""The contribution of known columns: arrays with one entry for each row, so that rows can be picked from it."""
LEAST_LOG_VARIANCE, MOST_LOG_VARIANCE = np.log(1e-8), np.log(1e8)
"""Bounds of a fitted variance, in squared standard deviations of the channel."""


@runtime_checkable
class Regressor(Protocol):
    """A fitted map from inputs to outputs, as a value: arrays in a frozen class, never a closure."""

    def __call__(self, z: Float[Array, "b p"]) -> Float[Array, "b q"]:
        """Predict one output row for each input row."""

    def drive(self, known: Float[Array, "b k"]) -> Drive:
        """Compute the contribution of the last k columns of z."""

    def respond(self, fed: Float[Array, "b r"], drive: Drive) -> Float[Array, "b q"]:
        """Return the outputs, given the first columns of z and the drive of the same rows."""


class Opaque:
    """A regressor that can only be called. Subclass it to write a regressor: only the call is needed."""

    def __call__(self, z: Float[Array, "b p"]) -> Float[Array, "b q"]:
        """Predict one output row for each input row."""
        raise NotImplementedError

    def drive(self, known: Float[Array, "b k"]) -> Drive:
        """Keep the known columns: nothing can be computed ahead."""
        return (known,)

    def respond(self, fed: Float[Array, "b r"], drive: Drive) -> Float[Array, "b q"]:
        """Call the regressor with the whole of z."""
        return self(fed.__array_namespace__().concat([fed, drive[0]], axis=1))


@dataclass(frozen=True, eq=False)
class Linear:
    """z -> z @ weights + intercept."""

    weights: Float[Array, "p q"]
    intercept: Float[Array, " q"]

    def __call__(self, z: Float[Array, "b p"]) -> Float[Array, "b q"]:
        """Predict one output row for each input row."""
        y = z @ self.weights
        y += self.intercept
        return y

    def drive(self, known: Float[Array, "b k"]) -> Drive:
        """Multiply the known columns: a response then costs the columns of `fed` only."""
        driven = known @ self.weights[len(self.weights) - known.shape[1] :]
        driven += self.intercept
        return (driven,)

    def respond(self, fed: Float[Array, "b r"], drive: Drive) -> Float[Array, "b q"]:
        """Add the contribution of `fed`."""
        y = fed @ self.weights[: fed.shape[1]]
        y += drive[0]
        return y


@dataclass(frozen=True, eq=False)
class RandomFourier(Opaque):
    """A linear map of random Fourier features cos(z'w), sin(z'w), and of z itself if `raw_inputs`.

    Nothing is computed ahead: angles of all rows would take far more memory than the rows themselves.
    """

    directions: Float[Array, "p half"]
    """Frequencies, already divided by the bandwidth."""
    raw_inputs: bool
    linear: Linear

    def __call__(self, z: Float[Array, "b p"]) -> Float[Array, "b q"]:
        """Predict one output row for each input row."""
        return self.linear(fourier_features(z, self.directions, self.raw_inputs))

    def slope(self, z: Float[np.ndarray, "b p"]) -> Float[np.ndarray, "b q p"]:
        """The derivative at each z."""
        half, angle, weights = self.directions.shape[1], z @ self.directions, self.linear.weights
        waves = np.cos(angle)[:, :, None] * weights[half : 2 * half] - np.sin(angle)[:, :, None] * weights[:half]
        slope = self.directions @ waves
        return np.asarray((slope + weights[2 * half :] if self.raw_inputs else slope).swapaxes(1, 2))


@dataclass(frozen=True, eq=False)
class MeanAndVariance(Opaque):
    """z -> [mean; mean^2 + variance], where the mean and the logarithm of the variance are linear in z."""

    linear: Linear

    def __call__(self, z: Float[np.ndarray, "b p"]) -> Float[np.ndarray, "b q"]:
        """Predict first and second moments, one row for each row of z."""
        mean, log_variance = np.split(self.linear(z), 2, axis=1)
        variance = np.exp(np.clip(log_variance, LEAST_LOG_VARIANCE, MOST_LOG_VARIANCE))
        return np.concatenate([mean, mean**2 + variance], axis=1)
