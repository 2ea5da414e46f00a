"""Any scikit-learn regressor as a learner: the summary of examples is the examples themselves."""

import zlib
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.multioutput import MultiOutputRegressor
from sklearn.utils import get_tags

from psimlearn.checks import optional, seed, shown, whole
from psimlearn.errors import SettingsError
from psimlearn.filter import Opaque
from psimlearn.learners.learner import Y, Z
from psimlearn.shapes import Float

__all__ = ["BlackBox", "SklearnLearner", "Stacked"]


class Stacked(NamedTuple):
    """Examples, each with a random key: the lowest keys give a fair sample, in whatever order examples are merged."""

    z: Z
    y: Y
    key: Float[np.ndarray, " b"]


class FromSample:
    """Keeps examples, at most `max_rows` of them. A subclass adds `solve`, which fits a regressor to them."""

    max_rows: int | None
    seed: int | None
    """The seed of the sample; drawn by `prepare` if not given."""

    def check_sample(self) -> None:
        """Refuse sizes and seeds that have no meaning."""
        optional(whole, self.max_rows, "max_rows")
        seed(self.seed)

    def prepare(self, z: Z, rng: np.random.Generator) -> Any:
        """Freeze the seed of the sample."""
        learner: Any = self  # every subclass is a dataclass, which mypy cannot know
        return self if self.seed is not None else replace(learner, seed=int(rng.integers(2**31)))

    def summarise(self, z: Z, y: Y, same: tuple[int, Stacked] | None = None) -> Stacked:
        """The examples, thinned to `max_rows`."""
        if self.max_rows is None:
            return Stacked(z.copy(), y.copy(), np.zeros(len(z)))
        # keys depend on the seed and the examples only, so that summarise stays a pure function
        rng = np.random.default_rng([self.seed or 0, zlib.crc32(z.tobytes())])
        return self._thinned(Stacked(z, y, rng.random(len(z))))

    def merge(self, a: Stacked, b: Stacked) -> Stacked:
        """The examples of both summaries, thinned to `max_rows`."""
        return self._thinned(Stacked(*(np.concatenate(pair) for pair in zip(a, b, strict=True))))

    def _thinned(self, stats: Stacked) -> Stacked:
        if self.max_rows is None or len(stats.key) <= self.max_rows:
            return stats
        kept = np.sort(np.argpartition(stats.key, self.max_rows)[: self.max_rows])
        return Stacked(stats.z[kept], stats.y[kept], stats.key[kept])


@dataclass(frozen=True, eq=False)
class BlackBox(Opaque):
    """A fitted scikit-learn estimator."""

    estimator: Any

    def __call__(self, z: Z) -> Y:
        """Predict one output row for each row of z; NaN for a row of z that is not finite."""
        usable = np.isfinite(z).all(axis=1)
        safe = np.where(usable[:, None], z, 0.0)
        y = np.asarray(self.estimator.predict(safe), dtype=np.float64).reshape(len(z), -1)
        return np.where(usable[:, None], y, np.nan)


@dataclass(frozen=True)
class SklearnLearner(FromSample):
    """Fits a clone of `estimator` to all examples met so far.

    Args:
        estimator: any scikit-learn regressor. One that predicts a single output is fitted once per output.
        max_rows: learn from a random sample of at most this many examples; None keeps all, which grows every round.
        seed: the seed of that sample; drawn by `prepare` if not given.
    """

    estimator: BaseEstimator
    max_rows: int | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        """Refuse settings that have no meaning."""
        self.check_sample()
        if isinstance(self.estimator, type) or not hasattr(self.estimator, "predict"):
            raise SettingsError(f"estimator: required a scikit-learn regressor, received {shown(self.estimator)}.")

    def solve(self, stats: Stacked) -> BlackBox:
        """The fitted estimator."""
        single = not get_tags(self.estimator).target_tags.multi_output
        estimator = MultiOutputRegressor(clone(self.estimator)) if single else clone(self.estimator)
        return BlackBox(estimator.fit(stats.z, stats.y))
