"""Ridge regression on sums.

The summary of examples is a set of Gram sums, so that the memory and the cost of a round do not grow with the rounds,
and shards of the data can be summarised apart and merged in any order.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from psimlearn.checks import number, switch
from psimlearn.errors import DivergedError
from psimlearn.factors import eigh
from psimlearn.filter import Linear
from psimlearn.filter.threads import for_one_product
from psimlearn.learners.channels import Channels, solved_by_channel
from psimlearn.learners.learner import Y, Z
from psimlearn.shapes import Float, Int

__all__ = ["Coordinates", "GramSums", "InCoordinates", "Ridge", "generalised_alpha", "solved_in"]

NOTHING = 1e-140
"""A variance below this counts as zero: its square would underflow."""
WIDE, BLOCK = 400, 64
"""The number of inputs from which triangles are substituted, and how many rows of them at a time."""


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

    def faded(self, factor: float) -> "GramSums":
        """The sums with every example weighted by a factor."""
        n, z, y, zz, zy, yy = self
        return GramSums(factor * n, factor * z, factor * y, factor * zz, factor * zy, factor * yy)

    def scaled(self, scale: Float[np.ndarray, " p"]) -> "GramSums":
        """The sums of the same examples with every z multiplied by `scale`."""
        zz = scale[:, None] * self.zz * scale
        return self._replace(z=scale * self.z, zz=zz, zy=scale[:, None] * self.zy)

    def among(self, columns: Int[np.ndarray, " some"]) -> "GramSums":
        """The sums of the same examples with only some columns of z."""
        return self._replace(z=self.z[columns], zz=self.zz[np.ix_(columns, columns)], zy=self.zy[columns])

    def less(self, weights: Any, constant: Float[np.ndarray, " q"]) -> "GramSums":
        """The sums of the same examples with z @ weights + constant subtracted from every y; weights may be sparse."""
        removed = self.zz @ weights
        sums = self.z @ weights
        inner = (weights * self.zy).sum() + constant @ self.y - constant @ sums
        yy = self.yy - 2 * inner + (weights * removed).sum() + self.n * constant @ constant
        zy = self.zy - removed - np.outer(self.z, constant)
        return self._replace(y=self.y - sums - self.n * constant, zy=zy, yy=float(yy))


class Coordinates(NamedTuple):
    """Sparse maps from z to coordinates in which weights are penalised, and in which a kernel measures distances."""

    ridge: Any
    kernel: Any


@runtime_checkable
class InCoordinates(Protocol):
    """A learner, as a dataclass, with a field for coordinates of z. Only such a learner can use a level weight."""

    @property
    def coordinates(self) -> Coordinates | None:
        """The coordinates; None for z itself. Trainers set them before they call `prepare`."""


@dataclass(frozen=True)
class Ridge:
    """Ridge regression: minimises the mean of ||y - Wz - b||^2 over examples, plus alpha ||W||^2.

    The penalty is per example, so that one alpha means the same for ten recordings and for ten thousand.
    """

    alpha: float = 1e-6
    intercept: bool = True
    coordinates: Coordinates | None = field(default=None, compare=False, repr=False)
    """If given, the weights and the intercept are penalised in these coordinates of z; set by trainers."""
    channels: Channels | None = field(default=None, compare=False, repr=False)
    """If given, columns of other channels than that of the output are penalised more; set by trainers."""

    def __post_init__(self) -> None:
        """Refuse settings that have no meaning; a negative penalty has a solution, but not a minimum."""
        number(self.alpha, "alpha")
        switch(self.intercept, "intercept")

    def prepare(self, z: Z, rng: np.random.Generator) -> "Ridge":
        """The learner itself: it has nothing to freeze."""
        return self

    def summarise(self, z: Z, y: Y, same: tuple[int, GramSums] | None = None) -> GramSums:
        """The Gram sums of these examples; with `same`, only the blocks that its first columns touch are computed."""
        with for_one_product(z.size * z.shape[1]):
            return self._summed(z, y, same)

    def _summed(self, z: Z, y: Y, same: tuple[int, GramSums] | None) -> GramSums:
        """As `summarise`."""
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
            return solved_in(self.coordinates.ridge, stats, self.alpha, self.channels)
        if not self.intercept:
            weights = _solve_regularised(stats.zz / stats.n, stats.zy / stats.n, self.alpha, self.channels)
            return Linear(weights, np.zeros_like(stats.y))
        weights = _solve_regularised(*_centred(stats), self.alpha, self.channels)
        return Linear(weights, (stats.y - stats.z @ weights) / stats.n)


def generalised_alpha(stats: GramSums) -> float:
    """The alpha that generalised cross-validation prefers for these examples, by one eigendecomposition.

    It minimises mean squared residual / (1 - degrees of freedom / n)^2 over twelve decades, relative to the scale of z.
    """
    gram, cross = _centred(stats)
    scale = np.trace(gram) / len(gram)
    if not scale > NOTHING:  # z does not vary, so there is nothing to learn and any alpha will do
        return 1.0
    values, vectors = eigh(gram)
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


def solved_in(change: Any, stats: GramSums, alpha: float, channels: Channels | None = None) -> Linear:
    """The ridge regression on z @ change and a constant, all penalised alike, as a map of z."""
    p = len(stats.z)
    gram, cross = np.empty((p + 1, p + 1)), np.empty((p + 1, len(stats.y)))
    gram[:p, :p] = (change.T @ (change.T @ stats.zz).T) / stats.n
    gram[:p, p] = gram[p, :p] = (change.T @ stats.z) / stats.n
    gram[p, p] = 1.0
    cross[:p], cross[p] = (change.T @ stats.zy) / stats.n, stats.y / stats.n
    weights = _solve_regularised(gram, cross, alpha, channels and channels.with_constant())
    return Linear(change @ weights[:p], weights[p])


def _solve_regularised(
    gram: Float[np.ndarray, "p p"], cross: Float[np.ndarray, "p q"], alpha: float, channels: Channels | None = None
) -> Float[np.ndarray, "p q"]:
    """(gram + alpha I)^-1 cross, finite or an error; by eigenvectors where Cholesky fails.

    With `channels`, columns of other channels than that of the output have a larger penalty.
    """
    if not (_finite(gram) and _finite(cross)):
        raise DivergedError(
            "required finite sums to solve for a regressor, received infinity or NaN: beliefs diverged or the data "
            "exceed 1e150. Use the box, a larger ridge or standardised data."
        )
    varies = np.diagonal(gram) > 0
    if not varies.all():  # inputs that are zero in every example, as beliefs without weight
        weights = np.zeros_like(cross)
        some = channels and channels.among(np.flatnonzero(varies))
        weights[varies] = _solve_regularised(gram[np.ix_(varies, varies)], cross[varies], alpha, some)
        return weights
    if channels is not None and alpha > 0:
        return _solve_by_channel(gram, cross, alpha, channels)
    try:
        regularised = gram.copy()
        np.einsum("ii->i", regularised)[:] += alpha
        with for_one_product(len(gram) ** 3):
            root = np.linalg.cholesky(regularised)  # tells whether the sums are positive definite
            weights = np.linalg.solve(regularised, cross) if len(root) < WIDE else _substituted(root, cross)
    except np.linalg.LinAlgError:
        weights = np.full_like(cross, np.nan)
    return weights if np.isfinite(weights).all() else _solve_by_eigenvectors(gram, cross, alpha)


def _solve_by_channel(
    gram: Float[np.ndarray, "p p"], cross: Float[np.ndarray, "p q"], alpha: float, channels: Channels
) -> Float[np.ndarray, "p q"]:
    """The same with the penalties of `channels`; one channel after the other where rounding spoils the quick way."""
    try:
        weights = solved_by_channel(gram, cross, alpha, channels)
    except np.linalg.LinAlgError:
        weights = np.full_like(cross, np.nan)
    if np.isfinite(weights).all():
        return weights
    for outputs, scale in channels.scales():
        scaled = _solve_regularised(scale[:, None] * gram * scale, scale[:, None] * cross[:, outputs], alpha)
        weights[:, outputs] = scale[:, None] * scaled
    return weights


def _finite(array: np.ndarray) -> bool:
    """Whether all entries are finite; a sum, which is quick, says so unless entries are too large to be added."""
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(array.sum()) or np.isfinite(array).all())


def _substituted(root: Float[np.ndarray, "p p"], cross: Float[np.ndarray, "p q"]) -> Float[np.ndarray, "p q"]:
    """Solve root root' x = cross for a lower triangle `root`, by substitution of blocks.

    numpy has no triangular solve, and a general one takes longer for wide sums. scipy has one, and brings a second
    BLAS, whose threads would compete with the threads of numpy's BLAS.
    """
    x, p = cross.copy(), len(root)
    blocks = [slice(i, min(i + BLOCK, p)) for i in range(0, p, BLOCK)]
    inverses = [np.linalg.inv(root[now, now]) for now in blocks]  # small, and multiplied much faster than solved for
    for now, inverse in zip(blocks, inverses, strict=True):
        x[now] = inverse @ (x[now] - root[now, : now.start] @ x[: now.start])
    for now, inverse in zip(reversed(blocks), reversed(inverses), strict=True):
        x[now] = inverse.T @ (x[now] - root[now.stop :, now].T @ x[now.stop :])
    return x


def _solve_by_eigenvectors(
    gram: Float[np.ndarray, "p p"], cross: Float[np.ndarray, "p q"], alpha: float
) -> Float[np.ndarray, "p q"]:
    """The minimum-norm solution, without the directions that rounding cannot tell from zero."""
    values, vectors = eigh(gram)
    denominator = np.maximum(values, 0) + alpha
    kept = denominator > len(gram) * np.finfo(float).eps * max(values[-1], alpha)
    scale = np.divide(1, denominator, out=np.zeros_like(values), where=kept)
    weights: np.ndarray = vectors @ (scale[:, None] * (vectors.T @ cross))
    if not np.isfinite(weights).all():
        raise DivergedError("required a finite solution, received infinity or NaN. Standardise the data.")
    return weights
