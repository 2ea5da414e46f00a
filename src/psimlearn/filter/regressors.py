"""Regressors: fitted maps as plain values, which a file can hold and a filter can fold into its step."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

__all__ = [
    "Linear",
    "Mapped",
    "MeanAndVariance",
    "Opaque",
    "RandomFourier",
    "Regressor",
    "block_by_block",
    "fourier_features",
]


@runtime_checkable
class Regressor(Protocol):
    """A fitted map from inputs to outputs, as a value: arrays in a frozen class, never a closure."""

    def __call__(self, z: Float[np.ndarray, "b p"]) -> Float[np.ndarray, "b q"]:
        """Predict one output row for each input row."""

    def through(self, linear: Callable[[np.ndarray], np.ndarray], shift: Float[np.ndarray, " r"]) -> "Regressor":
        """The regressor z -> linear(self(z)) + shift, for a linear map of output rows, folded in where possible."""

    def recursion(
        self, z: Float[np.ndarray, "rows p"], r: int, offset: Float[np.ndarray, "rows q"] | None
    ) -> Callable[[slice], Float[np.ndarray, "b q"]]:
        """The outputs plus offset at blocks of rows of z, whose first r columns become known only block by block."""


@dataclass(frozen=True, eq=False)
class Linear:
    """z -> z @ weights + intercept."""

    weights: Float[np.ndarray, "p q"]
    intercept: Float[np.ndarray, " q"]

    def __call__(self, z: Float[np.ndarray, "b p"]) -> Float[np.ndarray, "b q"]:
        """One row of predictions for each row of z."""
        y: np.ndarray = z @ self.weights
        y += self.intercept
        return y

    def through(self, linear: Callable[[np.ndarray], np.ndarray], shift: Float[np.ndarray, " r"]) -> "Linear":
        """Fold an affine map of the output into the weights."""
        return Linear(linear(self.weights), linear(self.intercept[None])[0] + shift)

    def recursion(
        self, z: Float[np.ndarray, "rows p"], r: int, offset: Float[np.ndarray, "rows q"] | None
    ) -> Callable[[slice], Float[np.ndarray, "b q"]]:
        """All that the known columns contribute is computed at once; a block costs r columns only."""
        fed, known = self.weights[:r], self.weights[r:]
        drive = z[:, r:] @ known
        drive += self.intercept
        if offset is not None:
            drive += offset
        return lambda block: _plus(z[block, :r] @ fed, drive[block])


@dataclass(frozen=True, eq=False)
class RandomFourier:
    """A linear map of random Fourier features cos(z'w), sin(z'w), and of z itself if `raw_inputs`."""

    directions: Float[np.ndarray, "p half"]
    """Frequencies, already divided by the bandwidth."""
    raw_inputs: bool
    linear: Linear

    def __call__(self, z: Float[np.ndarray, "b p"]) -> Float[np.ndarray, "b q"]:
        """One row of predictions for each row of z."""
        return self.linear(fourier_features(z, self.directions, self.raw_inputs))

    def through(self, linear: Callable[[np.ndarray], np.ndarray], shift: Float[np.ndarray, " r"]) -> "RandomFourier":
        """Fold an affine map of the output into the weights."""
        return replace(self, linear=self.linear.through(linear, shift))

    def recursion(
        self, z: Float[np.ndarray, "rows p"], r: int, offset: Float[np.ndarray, "rows q"] | None
    ) -> Callable[[slice], Float[np.ndarray, "b q"]]:
        """Block by block: every feature depends on every column."""
        return block_by_block(self, z, offset)


LEAST_LOG_VARIANCE, MOST_LOG_VARIANCE = np.log(1e-8), np.log(1e8)
"""Bounds of a fitted variance, in squared standard deviations of the channel."""


class Opaque:
    """Regressors that end in something other than a linear map: nothing can be folded in or computed ahead."""

    def __call__(self, z: Float[np.ndarray, "b p"]) -> Float[np.ndarray, "b q"]:
        """Predict one output row for each input row."""
        raise NotImplementedError

    def through(self, linear: Callable[[np.ndarray], np.ndarray], shift: Float[np.ndarray, " r"]) -> "Mapped":
        """The map is applied to what comes out."""
        return Mapped(self, linear, shift)

    def recursion(
        self, z: Float[np.ndarray, "rows p"], r: int, offset: Float[np.ndarray, "rows q"] | None
    ) -> Callable[[slice], Float[np.ndarray, "b q"]]:
        """Block by block."""
        return block_by_block(self, z, offset)


@dataclass(frozen=True, eq=False)
class MeanAndVariance(Opaque):
    """z -> [mean; mean^2 + variance], where the mean and the logarithm of the variance are linear in z."""

    linear: Linear

    def __call__(self, z: Float[np.ndarray, "b p"]) -> Float[np.ndarray, "b q"]:
        """First and second moments, one row for each row of z."""
        mean, log_variance = np.split(self.linear(z), 2, axis=1)
        variance = np.exp(np.clip(log_variance, LEAST_LOG_VARIANCE, MOST_LOG_VARIANCE))
        return np.concatenate([mean, mean**2 + variance], axis=1)


@dataclass(frozen=True, eq=False)
class Mapped(Opaque):
    """An opaque regressor, followed by an affine map of its output."""

    regressor: Regressor
    linear: Callable[[np.ndarray], np.ndarray]
    shift: Float[np.ndarray, " r"]

    def __call__(self, z: Float[np.ndarray, "b p"]) -> Float[np.ndarray, "b q"]:
        """One row of outputs for each row of z."""
        y: np.ndarray = self.linear(self.regressor(z)) + self.shift
        return y

    def recursion(
        self, z: Float[np.ndarray, "rows p"], r: int, offset: Float[np.ndarray, "rows q"] | None
    ) -> Callable[[slice], Float[np.ndarray, "b q"]]:
        """As far ahead as the regressor can compute."""
        inner, shift = self.regressor.recursion(z, r, None), self.shift
        if offset is None:
            return lambda block: self.linear(inner(block)) + shift
        return lambda block: self.linear(inner(block)) + (shift + offset[block])


def block_by_block(
    regressor: Regressor, z: Float[np.ndarray, "rows p"], offset: Float[np.ndarray, "rows q"] | None
) -> Callable[[slice], Float[np.ndarray, "b q"]]:
    """The recursion of a regressor that cannot compute anything ahead."""
    return lambda block: regressor(z[block]) if offset is None else _plus(regressor(z[block]), offset[block])


def _plus(y: Float[np.ndarray, "b q"], offset: Float[np.ndarray, "b q"]) -> Float[np.ndarray, "b q"]:
    y += offset
    return y


def fourier_features(
    z: Float[np.ndarray, "b p"], directions: Float[np.ndarray, "p half"], raw_inputs: bool
) -> Float[np.ndarray, "b width"]:
    """[cos z'w, sin z'w], whose inner products over half approximate a Gaussian kernel; then z if `raw_inputs`."""
    half = directions.shape[1]
    out = np.empty((len(z), 2 * half + raw_inputs * z.shape[1]))
    if raw_inputs:
        out[:, 2 * half :] = z
    angle = z @ directions
    rows = max(1, CACHED // half)
    for i in range(0, len(z), rows):
        part = out[i : i + rows]
        _cos_sin(angle[i : i + rows], part[:, :half], part[:, half : 2 * half])
    return out


CACHED = 16384
"""Angles to work on at a time, so that the passes over them stay in cache."""
N_POINTS = 4096
ARC = 2 * np.pi / N_POINTS
COS, SIN = np.cos(ARC * np.arange(N_POINTS)), np.sin(ARC * np.arange(N_POINTS))


def _cos_sin(
    angle: Float[np.ndarray, "b half"], cos: Float[np.ndarray, "b half"], sin: Float[np.ndarray, "b half"]
) -> None:
    """Write the cosine and sine of angle, which is overwritten: numpy's to 1e-15 |angle|, in a third of the time.

    A tabled point of the circle is turned by the arc that remains, so short that two terms give its sine and cosine.
    """
    if angle.size < N_POINTS // 2:  # few angles are not worth the passes
        np.cos(angle, out=cos)
        np.sin(angle, out=sin)
        return
    angle *= 1 / ARC
    nearest = np.rint(angle)
    arc = np.subtract(angle, nearest, out=angle)
    arc *= ARC
    with np.errstate(invalid="ignore"):  # what is not finite has an arc that is not
        place = nearest.astype(np.int64)
    place &= N_POINTS - 1
    table_cos, table_sin = COS.take(place), SIN.take(place)
    square = np.multiply(arc, arc, out=nearest)
    less = square * (1 / 24)  # cos(arc) - 1 = square^2 / 24 - square / 2
    less -= 0.5
    less *= square
    square *= -1 / 6
    square *= arc
    arc += square  # sin(arc)
    turned_cos, turned_sin = table_cos * less, table_sin * less
    turned_cos += table_cos
    turned_sin += table_sin
    table_sin *= arc
    table_cos *= arc
    np.subtract(turned_cos, table_sin, out=cos)
    np.add(turned_sin, table_cos, out=sin)
