"""Learners: a learner summarises examples, merges summaries, and solves for a regressor.

DAgger's "D := D u D'" is `merge`. For ridge regression the summary is a set of Gram sums, so that the memory and the
cost of a round do not grow with the rounds, and shards of the data can be summarised apart and merged in any order.
"""

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
import scipy.sparse
from jaxtyping import Float

from psimlearn.errors import DivergedError, SettingsError
from psimlearn.filter.fourier import fourier_features
from psimlearn.filter.regressors import Linear, RandomFourier, Regressor

__all__ = ["Coordinates", "Counting", "GramSums", "Learner", "RandomFourierRidge", "Ridge", "generalised_alpha"]

CHUNK = 4096
"""The number of rows mapped to random features at a time: bounds the memory of a summary."""
NOTHING = 1e-140
"""A variance below this counts as zero: its square would underflow."""


Stats = TypeVar("Stats")


@runtime_checkable
class Learner(Protocol[Stats]):
    """Least squares over any class of regressors, from summaries of examples that can be merged."""

    def prepare(self, z: Float[np.ndarray, "b p"], rng: np.random.Generator) -> "Learner[Stats]":
        """Freeze the settings that must stay the same for all examples: bandwidth, random directions."""

    def summarise(
        self, z: Float[np.ndarray, "b p"], y: Float[np.ndarray, "b q"], same: tuple[int, Stats] | None = None
    ) -> Stats:
        """The summary of these examples, from which `solve` works.

        With `same` = (r, stats), stats summarise the same examples except for the first r columns of z, the beliefs of
        another rollout. A learner may use stats to save work, or ignore them.
        """

    def merge(self, a: Stats, b: Stats) -> Stats:
        """The summary of both sets of examples; merging is associative and commutative."""

    def solve(self, stats: Stats) -> Regressor:
        """The best regressor for the summarised examples."""


@runtime_checkable
class Counting(Protocol):
    """A learner of symbols that also counts the futures after the last symbols."""

    def counting(
        self, z: Float[np.ndarray, "b p"], y: Float[np.ndarray, "b q"], lags: int, more: bool = False
    ) -> Learner[Any]:
        """A learner with the contexts of these examples; with `more`, added to the contexts counted before."""


class GramSums(NamedTuple):
    """Sums over examples that determine every ridge regression on them."""

    n: float
    """The number of examples."""
    z: Float[np.ndarray, " p"]
    y: Float[np.ndarray, " q"]
    zz: Float[np.ndarray, "p p"]
    zy: Float[np.ndarray, "p q"]
    yy: float
    """The sum of ||y||^2, with which the sums give the training loss of any linear map."""

    def scaled(self, scale: Float[np.ndarray, " p"]) -> "GramSums":
        """The sums of the same examples with every z multiplied by `scale`."""
        zz = scale[:, None] * self.zz * scale
        return self._replace(z=scale * self.z, zz=zz, zy=scale[:, None] * self.zy)

    def less(self, weights: Float[np.ndarray, "p q"], constant: Float[np.ndarray, " q"]) -> "GramSums":
        """The sums of the same examples with z @ weights + constant subtracted from every y."""
        removed = self.zz @ weights
        sums = self.z @ weights
        yy = (
            self.yy
            - 2 * (np.vdot(weights, self.zy) + constant @ self.y - constant @ sums)
            + np.vdot(weights, removed)
            + self.n * constant @ constant
        )
        zy = self.zy - removed - np.outer(self.z, constant)
        return self._replace(y=self.y - sums - self.n * constant, zy=zy, yy=float(yy))


class Coordinates(NamedTuple):
    """Sparse maps from z to coordinates in which weights are penalised, and in which a kernel measures distances."""

    ridge: Any
    kernel: Any


@dataclass(frozen=True)
class Ridge:
    """Ridge regression: minimises the mean of ||y - Wz - b||^2 over examples, plus alpha ||W||^2.

    The penalty is per example, so that one alpha means the same for ten recordings and for ten thousand.
    """

    alpha: float = 1e-6
    intercept: bool = True
    coordinates: Coordinates | None = field(default=None, compare=False, repr=False)
    """If given, the weights and the intercept are penalised in these coordinates of z; set by trainers."""

    def __post_init__(self) -> None:
        """Refuse a negative penalty: it has a solution, but not a minimum."""
        if not 0 <= self.alpha < np.inf:
            raise SettingsError(f"alpha: required a finite number of at least 0, received {self.alpha}.")

    def prepare(self, z: Float[np.ndarray, "b p"], rng: np.random.Generator) -> "Ridge":
        """The learner itself: it has nothing to freeze."""
        return self

    def summarise(
        self, z: Float[np.ndarray, "b p"], y: Float[np.ndarray, "b q"], same: tuple[int, GramSums] | None = None
    ) -> GramSums:
        """The Gram sums of these examples; with `same`, only the blocks that its first columns touch are computed."""
        one = np.ones(len(z))  # numpy sums the columns of a tall array faster as a product
        if same is None:
            return GramSums(float(len(z)), one @ z, one @ y, z.T @ z, z.T @ y, float(np.vdot(y, y)))
        r, known = same
        fed, rest = z[:, :r], z[:, r:]
        beside = fed.T @ rest
        return known._replace(
            z=np.concatenate([one @ fed, known.z[r:]]),
            zz=np.block([[fed.T @ fed, beside], [beside.T, known.zz[r:, r:]]]),
            zy=np.concatenate([fed.T @ y, known.zy[r:]]),
        )

    def merge(self, a: GramSums, b: GramSums) -> GramSums:
        """The Gram sums of both, added."""
        return GramSums(a.n + b.n, a.z + b.z, a.y + b.y, a.zz + b.zz, a.zy + b.zy, a.yy + b.yy)

    def solve(self, stats: GramSums) -> Linear:
        """W = (Z'Z + alpha N)^-1 Z'Y on centred sums, and the intercept, which is not penalised."""
        stats = stats._replace(n=max(stats.n, 1.0))
        if self.coordinates is not None:
            return _solved_in(self.coordinates.ridge, stats, self.alpha)
        if not self.intercept:
            weights = _solve_regularised(stats.zz / stats.n, stats.zy / stats.n, self.alpha)
            return Linear(weights, np.zeros_like(stats.y))
        weights = _solve_regularised(*_centred(stats), self.alpha)
        return Linear(weights, (stats.y - stats.z @ weights) / stats.n)


@dataclass(frozen=True)
class RandomFourierRidge:
    """Ridge regression on random Fourier features of a Gaussian kernel.

    Args:
        n_features: the number of cosines and sines together.
        alpha: the penalty per example, as in `Ridge`.
        raw_inputs: append the inputs themselves, so that a linear part need not be learnt from cosines.
        bandwidth_factor: the bandwidth over the median distance between inputs.
    """

    n_features: int = 500
    alpha: float = 1e-6
    raw_inputs: bool = True
    bandwidth_factor: float = 1.0
    intercept: bool = True
    coordinates: Coordinates | None = field(default=None, compare=False, repr=False)
    """Coordinates as in `Ridge`, for the raw inputs; distances are measured in the `kernel` coordinates."""
    directions: Float[np.ndarray, "p half"] | None = field(default=None, compare=False, repr=False)
    """The random directions, frozen by `prepare`."""

    def __post_init__(self) -> None:
        """Refuse an odd number of features, as cosines and sines come in pairs, and settings out of range."""
        if self.n_features < 2 or self.n_features % 2:
            raise SettingsError(f"n_features: required an even number of at least 2, received {self.n_features}.")
        if not self.bandwidth_factor > 0:
            raise SettingsError(f"bandwidth_factor: required a number above 0, received {self.bandwidth_factor}.")
        Ridge(self.alpha)

    def prepare(self, z: Float[np.ndarray, "b p"], rng: np.random.Generator) -> "RandomFourierRidge":
        """Freeze the bandwidth and the random directions; directions frozen before stay."""
        if self.directions is not None:
            return self
        seen = z if self.coordinates is None else z @ self.coordinates.kernel
        bandwidth = self.bandwidth_factor * _median_distance(seen, rng)
        directions = rng.standard_normal((z.shape[1], self.n_features // 2)) / bandwidth
        return replace(
            self, directions=directions if self.coordinates is None else self.coordinates.kernel @ directions
        )

    def summarise(
        self, z: Float[np.ndarray, "b p"], y: Float[np.ndarray, "b q"], same: tuple[int, GramSums] | None = None
    ) -> GramSums:
        """The Gram sums of the mapped examples; `same` is ignored, as every feature depends on every column of z."""
        total = self._ridge.summarise(self._features(z[:CHUNK]), y[:CHUNK])
        for i in range(CHUNK, len(z), CHUNK):
            total = self.merge(total, self._ridge.summarise(self._features(z[i : i + CHUNK]), y[i : i + CHUNK]))
        return total

    def merge(self, a: GramSums, b: GramSums) -> GramSums:
        """The Gram sums of both, added."""
        return self._ridge.merge(a, b)

    def solve(self, stats: GramSums) -> RandomFourier:
        """The ridge regression on mapped examples, with cosines and sines scaled to approximate a kernel."""
        half = self._frozen.shape[1]
        if self.coordinates is not None:
            blocks = [scipy.sparse.eye_array(2 * half) * half**-0.5, *[self.coordinates.ridge] * self.raw_inputs]
            mapped = _solved_in(scipy.sparse.block_diag(blocks, format="csr"), stats, self.alpha)
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

    def _features(self, z: Float[np.ndarray, "b p"]) -> Float[np.ndarray, "b width"]:
        features: np.ndarray = fourier_features(z, self._frozen, self.raw_inputs)
        return features


def generalised_alpha(stats: GramSums) -> float:
    """The alpha that generalised cross-validation prefers for these examples, by one eigendecomposition.

    It minimises mean squared residual / (1 - degrees of freedom / n)^2 over twelve decades, relative to the scale of z.
    """
    gram, cross = _centred(stats)
    scale = np.trace(gram) / len(gram)
    if not scale > NOTHING:  # z does not vary, so there is nothing to learn and any alpha will do
        return 1.0
    values, vectors = np.linalg.eigh(gram)
    values = np.maximum(values, 0.0)
    shares = np.sum((vectors.T @ cross) ** 2, axis=1)
    variance = stats.yy / stats.n - np.sum((stats.y / stats.n) ** 2)
    best, best_score = 1.0, np.inf
    for alpha in scale * 10.0 ** np.arange(-11, 2):
        residual = max(variance - np.sum(shares * (values + 2 * alpha) / (values + alpha) ** 2), 0.0)
        slack = 1 - (1 + np.sum(values / (values + alpha))) / stats.n
        score = residual / slack**2 if slack > 0 else np.inf
        if score < best_score:
            best, best_score = float(alpha), score
    return best


def _centred(stats: GramSums) -> tuple[Float[np.ndarray, "p p"], Float[np.ndarray, "p q"]]:
    """The covariance of z, and of z with y."""
    z, y = stats.z / stats.n, stats.y / stats.n
    return stats.zz / stats.n - np.outer(z, z), stats.zy / stats.n - np.outer(z, y)


def _median_distance(z: Float[np.ndarray, "b p"], rng: np.random.Generator, most: int = 1000) -> float:
    """The median distance between at most `most` rows; 1 if it is zero."""
    some = z if len(z) <= most else z[rng.choice(len(z), most, replace=False)]
    norms = np.sum(some**2, axis=1)
    squared = norms[:, None] + norms - 2 * some @ some.T
    median = float(np.median(squared[np.triu_indices(len(some), 1)])) if len(some) > 1 else 0.0
    return np.sqrt(median) if median > 0 else 1.0


def _solved_in(change: Any, stats: GramSums, alpha: float) -> Linear:
    """The ridge regression on z @ change and a constant, all penalised alike, as a map of z."""
    p = len(stats.z)
    gram, cross = np.empty((p + 1, p + 1)), np.empty((p + 1, len(stats.y)))
    gram[:p, :p] = (change.T @ (change.T @ stats.zz).T) / stats.n
    gram[:p, p] = gram[p, :p] = (change.T @ stats.z) / stats.n
    gram[p, p] = 1.0
    cross[:p], cross[p] = (change.T @ stats.zy) / stats.n, stats.y / stats.n
    weights = _solve_regularised(gram, cross, alpha)
    return Linear(change @ weights[:p], weights[p])


def _solve_regularised(
    gram: Float[np.ndarray, "p p"], cross: Float[np.ndarray, "p q"], alpha: float
) -> Float[np.ndarray, "p q"]:
    """(gram + alpha I)^-1 cross, finite or an error; by eigenvectors where Cholesky fails."""
    if not (np.isfinite(gram).all() and np.isfinite(cross).all()):
        raise DivergedError(
            "required finite sums to solve for a regressor, received infinity or NaN: beliefs diverged or the data "
            "exceed 1e150. Use the box, a larger ridge or standardised data."
        )
    try:
        # Cholesky tells whether the sums are positive definite. numpy solves, although scipy could reuse the factor:
        # scipy brings a second BLAS, whose threads would compete with the threads of numpy's BLAS
        regularised = gram + alpha * np.eye(len(gram))
        np.linalg.cholesky(regularised)
        weights = np.linalg.solve(regularised, cross)
    except np.linalg.LinAlgError:
        weights = np.full_like(cross, np.nan)
    return weights if np.isfinite(weights).all() else _solve_by_eigenvectors(gram, cross, alpha)


def _solve_by_eigenvectors(
    gram: Float[np.ndarray, "p p"], cross: Float[np.ndarray, "p q"], alpha: float
) -> Float[np.ndarray, "p q"]:
    """The minimum-norm solution, without the directions that rounding cannot tell from zero."""
    values, vectors = np.linalg.eigh(gram)
    denominator = np.maximum(values, 0) + alpha
    kept = denominator > len(gram) * np.finfo(float).eps * max(values[-1], alpha)
    scale = np.divide(1, denominator, out=np.zeros_like(values), where=kept)
    weights: np.ndarray = vectors @ (scale[:, None] * (vectors.T @ cross))
    if not np.isfinite(weights).all():
        raise DivergedError("required a finite solution, received infinity or NaN. Standardise the data.")
    return weights
