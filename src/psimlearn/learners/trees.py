"""Ridge regression, then trees on the errors that it leaves.

The ridge extrapolates and is right about small changes; the trees remember how known situations went on. A weak ridge
leaves little to the trees, a strong one nearly all: there are several, each with its trees, and the mean of them all is
better than any. Some of them may see random Fourier features too: these are best about the next row, and trees about
later ones, and the mean has the best of both. The ridges work on sums of all examples. Random features and trees work
on a sample of them, so that memory and cost do not grow with the rounds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from psimlearn.checks import number, seed, whole
from psimlearn.factors import eigh
from psimlearn.filter import Linear, RandomFourier
from psimlearn.filter.forest import MOST_DEPTH, Forest, Trees
from psimlearn.learners.fourier import CHUNK, MOST_FEATURES, RandomFourierRidge
from psimlearn.learners.learner import Y, Z
from psimlearn.learners.ridge import Coordinates, GramSums, Ridge
from psimlearn.shapes import Float, Int

__all__ = ["STRONGER", "RidgeAndTrees", "SumsAndSample", "stacked_trees"]

STRONGER = 200.0
"""The factor from one ridge to the next."""
FOURIER_RIDGES = (1e-5, 1e-3)
"""The ridges of the regressions on random features."""
MOST_RIDGES, MOST_TREES = 20, 10_000
"""The most ridges, and trees on the errors of each: a slip of the keyboard would grow them for ever."""
SPREAD = 0.5
"""Errors count in the splits by this power of their deviation: far horizons, whose errors are large, do not drown the
near ones."""
KEPT_SHARE = 0.995
"""The share of the squared errors, so weighted, that the directions of the trees hold at least."""


MOST_DIRECTIONS = 40
"""The most of these directions: the cost of trees grows with their number."""


class SumsAndSample(NamedTuple):
    """The sums of all examples, and a sample of them."""

    sums: GramSums
    z: Z
    y: Y
    key: Int[np.ndarray, " b"]
    """A number made of each example but its belief: the lowest numbers give a fair sample, whatever is merged when."""


@dataclass(frozen=True)
class RidgeAndTrees:
    """The mean of ridge regressions, each with extremely randomised trees on its errors.

    The ridges see all of z; the trees and the random features see all of it but the belief.

    Args:
        alpha: the weakest ridge, as in `Ridge`; each further one is `STRONGER` times as strong.
        n_ridges: the number of ridges.
        n_trees: the number of trees on the errors of each ridge.
        min_leaf: the fewest examples in a leaf.
        max_inputs: the most inputs of which a split tries one threshold each.
        max_rows: the trees learn from a sample of at most this many examples.
        seed: the seed of the trees; drawn by `prepare` if not given.
        n_features: the number of random Fourier features, no more than examples to learn from; two further ridges, with
            their trees, see them beside z. 0 for none.
    """

    alpha: float = 1e-8
    n_ridges: int = 5
    n_trees: int = 12
    min_leaf: int = 2
    max_inputs: int = 40
    max_rows: int = 20_000
    seed: int | None = None
    n_features: int = 0
    coordinates: Coordinates | None = field(default=None, compare=False, repr=False)
    """Coordinates of the ridge, as in `Ridge`."""
    n_fed: int = field(default=0, compare=False, repr=False)
    """The number of columns of z that come from the belief; set by trainers before they call `prepare`."""
    frequencies: Float[np.ndarray, "k half"] | None = field(default=None, compare=False, repr=False)
    """The random directions among the columns that the trees see, frozen by `prepare`."""

    def __post_init__(self) -> None:
        """Refuse settings that have no meaning."""
        number(self.alpha, "alpha")
        whole(self.n_ridges, "n_ridges", most=MOST_RIDGES)
        whole(self.n_trees, "n_trees", most=MOST_TREES)
        whole(self.min_leaf, "min_leaf")
        whole(self.max_inputs, "max_inputs")
        whole(self.max_rows, "max_rows", 2)
        seed(self.seed)
        whole(self.n_features, "n_features", 0, MOST_FEATURES)

    def prepare(self, z: Z, rng: np.random.Generator) -> "RidgeAndTrees":
        """Freeze the seed of the trees, and the random directions if there are any."""
        frozen = self if self.seed is not None else replace(self, seed=int(rng.integers(2**31)))
        n = 2 * (min(self.n_features, len(z)) // 2)
        if not n or self.frequencies is not None:
            return frozen
        known = slice(self.n_fed, None)
        kernel = None if self.coordinates is None else self.coordinates.kernel[known, known]
        beside = None if kernel is None else Coordinates(kernel, kernel)
        drawn = RandomFourierRidge(n, coordinates=beside).prepare(z[:, known], np.random.default_rng(frozen.seed))
        return replace(frozen, frequencies=drawn.directions)

    def summarise(self, z: Z, y: Y, same: tuple[int, SumsAndSample] | None = None) -> SumsAndSample:
        """The sums of these examples, and the sample of them."""
        known = None if same is None else (same[0], same[1].sums)
        sums = self._ridge.summarise(z, y, known)
        return self._thinned(SumsAndSample(sums, z, y, _keys(z[:, self.n_fed :], y)))

    def merge(self, a: SumsAndSample, b: SumsAndSample) -> SumsAndSample:
        """The sums of both, added, and the sample of both; of examples that both have, those of b are the newer."""
        old = ~np.isin(a.key, b.key)
        z, y, key = (np.concatenate([of_a[old], of_b]) for of_a, of_b in zip(a[1:], b[1:], strict=True))
        return self._thinned(SumsAndSample(self._ridge.merge(a.sums, b.sums), z, y, key))

    def solve(self, stats: SumsAndSample) -> Forest:
        """The ridge regressions of all examples, and trees on their errors for the sample."""
        alphas = self.alpha * STRONGER ** np.arange(self.n_ridges)
        linears = [replace(self._ridge, alpha=float(alpha)).solve(stats.sums) for alpha in alphas]
        mapped = self._on_waves(stats)
        errors = np.stack(
            [stats.y - each(stats.z) for each in linears] + [stats.y - _called(m, stats.z) for m in mapped]
        )
        weights = np.mean(errors**2, axis=(0, 1)) ** (SPREAD / 2)
        weights = np.where(weights > 0, weights, 1.0)
        errors /= weights
        directions = _directions(errors)
        known = stats.z[:, self.n_fed :]
        forests = [self.grown(known, part @ directions.T, i) for i, part in enumerate(errors)]
        trees = stacked_trees([tree for forest in forests for tree in forest.estimators_])
        linear = _mean([*linears, *(_raw_part(each) for each in mapped)])
        return Forest(linear, trees, directions * weights, self.n_fed, self._waves(mapped))

    def _on_waves(self, stats: SumsAndSample) -> list[RandomFourier]:
        """The ridge regressions of the sample on random features and z."""
        if self.frequencies is None:
            return []
        unseen = np.zeros((self.n_fed, self.frequencies.shape[1]))
        learner = RandomFourierRidge(
            2 * self.frequencies.shape[1],
            coordinates=self.coordinates,
            directions=np.concatenate([unseen, self.frequencies]),
        )
        sums = learner.summarise(stats.z, stats.y)
        return [replace(learner, alpha=alpha).solve(sums) for alpha in FOURIER_RIDGES]

    def _waves(self, mapped: Sequence[RandomFourier]) -> RandomFourier | None:
        """What random features contribute to the mean of all regressions."""
        if self.frequencies is None:
            return None
        width = 2 * self.frequencies.shape[1]
        amplitudes = sum(each.linear.weights[:width] for each in mapped) / (self.n_ridges + len(mapped))
        return RandomFourier(self.frequencies, False, Linear(amplitudes, np.zeros(amplitudes.shape[1])))

    def grown(self, known: Float[np.ndarray, "b k"], errors: Float[np.ndarray, "b s"], number: int = 0) -> Any:
        """A fitted forest of scikit-learn, for the errors of one of the ridges."""
        from sklearn.ensemble import ExtraTreesRegressor  # takes long to import, and few fits need it

        forest = ExtraTreesRegressor(
            self.n_trees,
            min_samples_leaf=self.min_leaf,
            max_features=min(self.max_inputs, known.shape[1]),
            max_depth=MOST_DEPTH,
            random_state=(self.seed or 0) + number,
        )
        return forest.fit(known, errors if errors.shape[1] > 1 else errors[:, 0])

    @property
    def _ridge(self) -> Ridge:
        return Ridge(self.alpha, coordinates=self.coordinates)

    def _thinned(self, stats: SumsAndSample) -> SumsAndSample:
        """Keep the lowest keys; the arrays are copies, as examples may be views of work space."""
        kept = np.sort(np.argsort(stats.key, kind="stable")[: self.max_rows])
        return SumsAndSample(stats.sums, *(array[kept] for array in stats[1:]))


def stacked_trees(estimators: Sequence[Any]) -> Trees:
    """Fitted trees of scikit-learn as plain arrays, with outputs rounded to float32."""
    parts = [_split_off(estimator.tree_) for estimator in estimators]
    splits = np.cumsum([0, *(len(part.feature) for part in parts)])
    leaves = np.cumsum([0, *(len(part.values) for part in parts)])

    def moved(name: str) -> Int[np.ndarray, " some"]:
        """Nodes of each tree, numbered as nodes of all trees."""
        nodes = [getattr(part, name) for part in parts]
        return np.concatenate([np.where(n < 0, n - j, n + i) for n, i, j in zip(nodes, splits, leaves, strict=False)])

    def joined(name: str) -> np.ndarray:
        return np.concatenate([getattr(part, name) for part in parts])

    return Trees(
        joined("feature"), joined("threshold"), moved("left"), moved("right"), moved("roots"), joined("values")
    )


def _split_off(tree: Any) -> Trees:
    """One tree of scikit-learn: its splits and its leaves, each numbered from 0 in the order of its nodes."""
    is_leaf = tree.children_left < 0
    number = np.where(is_leaf, -np.cumsum(is_leaf), np.cumsum(~is_leaf) - 1)
    left, right = (number[children[~is_leaf]] for children in (tree.children_left, tree.children_right))
    threshold = tree.threshold[~is_leaf]
    values = tree.value[is_leaf][:, :, 0].astype(np.float32)
    return Trees(tree.feature[~is_leaf].astype(np.int64), _below(threshold), left, right, number[:1], values)


def _below(threshold: Float[np.ndarray, " splits"]) -> Float[np.ndarray, " splits"]:
    """The largest numbers of float32 that are not above: float32 numbers go the same ways at these thresholds."""
    nearest = threshold.astype(np.float32)
    return np.where(nearest > threshold, np.nextafter(nearest, np.float32(-np.inf)), nearest).astype(np.float64)


def _called(regressor: RandomFourier, z: Z) -> Y:
    """The outputs for all rows, some rows at a time: bounds the memory of random features."""
    return np.concatenate([regressor(z[i : i + CHUNK]) for i in range(0, len(z), CHUNK)])


def _raw_part(regressor: RandomFourier) -> Linear:
    """The part of a map of random features and z that is linear in z."""
    return replace(regressor.linear, weights=regressor.linear.weights[2 * regressor.directions.shape[1] :])


def _mean(maps: Sequence[Linear]) -> Linear:
    weights, intercepts = ([getattr(map, name) for map in maps] for name in ("weights", "intercept"))
    return Linear(np.mean(weights, axis=0), np.mean(intercepts, axis=0))


def _directions(errors: Float[np.ndarray, "ridges b q"]) -> Float[np.ndarray, "s q"]:
    """The fewest orthonormal directions that hold nearly all of the errors, those of every ridge counting alike."""
    sizes = np.maximum(np.mean(errors**2, axis=(1, 2)), 1e-300)
    values, vectors = eigh(sum(part.T @ part / size for part, size in zip(errors, sizes, strict=True)))
    shares = np.cumsum(values[::-1]) / max(values.sum(), 1e-300)
    s = min(int(np.searchsorted(shares, KEPT_SHARE)) + 1, len(values), MOST_DIRECTIONS)
    return np.ascontiguousarray(vectors[:, : -s - 1 : -1].T)


def _keys(known: Float[np.ndarray, "b k"], y: Y) -> Int[np.ndarray, " b"]:
    """A number for each example that its bits decide, equally likely to be any."""
    bits = np.ascontiguousarray(np.concatenate([known, y], axis=1)).view(np.uint64)
    odd = np.random.default_rng(0).integers(2**63, size=bits.shape[1], dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    mixed = (bits ^ (bits >> np.uint64(29))) @ odd  # products of whole numbers wrap around, as a hash may
    mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
    return np.asarray((mixed ^ (mixed >> np.uint64(29))) >> np.uint64(1), dtype=np.int64)
