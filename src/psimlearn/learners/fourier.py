"""Ridge regression on random Fourier features."""

from dataclasses import dataclass, field, replace

import numpy as np
import scipy.sparse

from psimlearn.checks import number, switch, whole
from psimlearn.errors import SettingsError
from psimlearn.filter import RandomFourier
from psimlearn.filter.fourier import fourier_features
from psimlearn.learners.learner import Y, Z
from psimlearn.learners.ridge import Coordinates, GramSums, Ridge, solved_in
from psimlearn.shapes import Float, Int

__all__ = ["CHUNK", "RandomFourierRidge", "rows_to_compare"]

MOST_FEATURES = 50_000
"""The most random features: sums hold the square of their number, so many take 19 GiB."""
CHUNK = 4096
"""The number of rows mapped to random features at a time: bounds the memory of a summary."""

COMPARED = 1000
"""The most rows whose distances set the bandwidth."""


@dataclass(frozen=True)
class RandomFourierRidge:
    """Ridge regression on random Fourier features of a Gaussian kernel.

    Args:
        n_features: the number of cosines and sines together.
        alpha: the penalty per example, as in `Ridge`.
        raw_inputs: append the inputs themselves, so that a linear part need not be learnt from cosines.
        bandwidth_factor: the bandwidth over the median distance between inputs.
        orthogonal: draw directions that are orthogonal to each other, as many at a time as there are inputs: they tell
            more apart than independent ones, at the same cost. The paper has independent ones.
    """

    n_features: int = 500
    alpha: float = 1e-6
    raw_inputs: bool = True
    bandwidth_factor: float = 1.0
    intercept: bool = True
    orthogonal: bool = True
    coordinates: Coordinates | None = field(default=None, compare=False, repr=False)
    """Coordinates as in `Ridge`, for the raw inputs; distances are measured in the `kernel` coordinates."""
    directions: Float[np.ndarray, "p half"] | None = field(default=None, compare=False, repr=False)
    """The random directions, frozen by `prepare`."""

    def __post_init__(self) -> None:
        """Refuse an odd number of features, as cosines and sines come in pairs, and settings out of range."""
        if whole(self.n_features, "n_features", 2, MOST_FEATURES) % 2:
            raise SettingsError(f"n_features: required an even number of at least 2, received {self.n_features}.")
        number(self.bandwidth_factor, "bandwidth_factor", above=True)
        switch(self.raw_inputs, "raw_inputs")
        switch(self.orthogonal, "orthogonal")
        Ridge(self.alpha, self.intercept)

    def prepare(self, z: Z, rng: np.random.Generator) -> "RandomFourierRidge":
        """Freeze the bandwidth and the random directions; directions frozen before stay."""
        if self.directions is not None:
            return self
        seen = z if self.coordinates is None else z @ self.coordinates.kernel
        bandwidth = self.bandwidth_factor * _median_distance(seen, rng)
        drawn = _orthogonal if self.orthogonal else _independent
        directions = drawn(z.shape[1], self.n_features // 2, rng) / bandwidth
        if self.coordinates is not None:
            directions = self.coordinates.kernel @ directions
        return replace(self, directions=directions)

    def summarise(self, z: Z, y: Y, same: tuple[int, GramSums] | None = None) -> GramSums:
        """The Gram sums of the mapped examples; `same` is ignored, as every feature depends on every column of z."""
        total = self._ridge.summarise(self.features(z[:CHUNK]), y[:CHUNK])
        for i in range(CHUNK, len(z), CHUNK):
            total = self.merge(total, self._ridge.summarise(self.features(z[i : i + CHUNK]), y[i : i + CHUNK]))
        return total

    def merge(self, a: GramSums, b: GramSums) -> GramSums:
        """The Gram sums of both, added."""
        return self._ridge.merge(a, b)

    def solve(self, stats: GramSums) -> RandomFourier:
        """The ridge regression on mapped examples, with cosines and sines scaled to approximate a kernel."""
        half = self._frozen.shape[1]
        if self.coordinates is not None:
            blocks = [scipy.sparse.eye_array(2 * half) * half**-0.5, *[self.coordinates.ridge] * self.raw_inputs]
            mapped = solved_in(scipy.sparse.block_diag(blocks, format="csr"), stats, self.alpha)
            return RandomFourier(self._frozen, self.raw_inputs, mapped)
        scale = np.ones(len(stats.z))
        scale[: 2 * half] = half**-0.5
        linear = self._ridge.solve(stats.scaled(scale))
        return RandomFourier(self._frozen, self.raw_inputs, replace(linear, weights=scale[:, None] * linear.weights))

    @property
    def _ridge(self) -> Ridge:
        return Ridge(self.alpha, self.intercept)

    @property
    def _frozen(self) -> Float[np.ndarray, "p half"]:
        if self.directions is None:
            raise RuntimeError("required random directions, received none: call RandomFourierRidge.prepare first.")
        return self.directions

    def features(self, z: Z) -> Float[np.ndarray, "b width"]:
        """The random features of inputs, and the inputs themselves if these are to be appended."""
        return np.asarray(fourier_features(z, self._frozen, self.raw_inputs))


def _independent(p: int, n: int, rng: np.random.Generator) -> Float[np.ndarray, "p n"]:
    """Random directions, each with a normal distribution."""
    return rng.standard_normal((p, n))


def _orthogonal(p: int, n: int, rng: np.random.Generator) -> Float[np.ndarray, "p n"]:
    """Random directions, each with a normal distribution, of which p in succession are orthogonal to each other.

    Their signs are not random: cosines and sines of a direction and of its opposite span the same functions.
    """
    blocks = [np.linalg.qr(_independent(p, min(p, n - begin), rng)).Q for begin in range(0, n, p)]
    # the lengths are those of normal vectors
    directions: np.ndarray = np.concatenate(blocks, axis=1) * np.sqrt(rng.chisquare(p, n))
    return directions


def rows_to_compare(n: int, rng: np.random.Generator) -> Int[np.ndarray, " some"]:
    """The rows of n whose distances set the bandwidth: all, or `COMPARED` drawn at random."""
    return np.arange(n) if n <= COMPARED else rng.choice(n, COMPARED, replace=False)


def _median_distance(z: Z, rng: np.random.Generator) -> float:
    """The median distance between some rows; 1 if it is zero."""
    some = z if len(z) <= COMPARED else z[rows_to_compare(len(z), rng)]
    norms = np.sum(some**2, axis=1)
    squared = norms[:, None] + norms - 2 * some @ some.T
    median = float(np.median(squared[np.triu_indices(len(some), 1)])) if len(some) > 1 else 0.0
    return np.sqrt(median) if median > 0 else 1.0
