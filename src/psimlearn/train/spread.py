"""How far features and beliefs spread, and the feedback that follows: its directions, scale, box and guard.

Each of these numbers can be merged from those of several parts of the data.
"""

from typing import NamedTuple

import numpy as np

from psimlearn.factors import eigh
from psimlearn.filter import Feedback
from psimlearn.filter.scaling import CONSTANT
from psimlearn.shapes import Float
from psimlearn.train.recipe import Recipe

__all__ = ["Moments", "Spread", "directions_of", "feedback_of", "guard_of", "moments_of", "spread_of"]

LEAST_SCALE = 0.1
"""A belief that hardly moved at first may move later: its scale is at least this share of the scale of the features."""
LARGEST_BELIEF = 1e100
"""Beyond this a belief counts as non-finite: its square would soon be."""


class Spread(NamedTuple):
    """How vectors are distributed, coordinate by coordinate."""

    mean: Float[np.ndarray, " r"]
    std: Float[np.ndarray, " r"]
    low: Float[np.ndarray, " r"]
    high: Float[np.ndarray, " r"]
    n: int

    def plus(self, other: "Spread") -> "Spread":
        """The vectors of both."""
        n = self.n + other.n
        a, b = self.n / n, other.n / n
        mean = a * self.mean + b * other.mean
        std = np.sqrt(a * self.std**2 + b * other.std**2 + a * b * (self.mean - other.mean) ** 2)
        return Spread(mean, std, np.minimum(self.low, other.low), np.maximum(self.high, other.high), n)


def spread_of(vectors: Float[np.ndarray, "rows r"]) -> Spread:
    """The spread of some vectors."""
    columns = np.ascontiguousarray(vectors.T)
    return Spread(columns.mean(axis=1), columns.std(axis=1), columns.min(axis=1), columns.max(axis=1), columns.shape[1])


class Moments(NamedTuple):
    """The mean and the covariance of vectors."""

    n: int
    mean: Float[np.ndarray, " d"]
    covariance: Float[np.ndarray, "d d"]

    def plus(self, other: "Moments") -> "Moments":
        """The vectors of both."""
        if not (self.n and other.n):
            return self if self.n else other
        n, apart = self.n + other.n, self.mean - other.mean
        within = (self.n - 1) * self.covariance + (other.n - 1) * other.covariance
        covariance = (within + self.n * other.n / n * np.outer(apart, apart)) / (n - 1)
        return Moments(n, (self.n * self.mean + other.n * other.mean) / n, covariance)


def moments_of(vectors: Float[np.ndarray, "rows d"]) -> Moments:
    """The moments of some vectors; a single one has no covariance, and without any there is no mean."""
    n, d = vectors.shape
    covariance = np.cov(vectors.T).reshape(d, d) if n > 1 else np.zeros((d, d))
    return Moments(n, vectors.mean(axis=0) if n else np.zeros(d), covariance)


def directions_of(covariance: Float[np.ndarray, "d d"], rank: int) -> Float[np.ndarray, "d r"]:
    """The `rank` directions in which beliefs with this covariance vary most."""
    _, vectors = eigh(covariance)
    return vectors[:, : -rank - 1 : -1].copy()


def feedback_of(first: Spread, seen: Spread, directions: Float[np.ndarray, "d r"] | None, recipe: Recipe) -> Feedback:
    """Scale and box of the feedback, from the initial beliefs and the features seen, both along `directions`."""
    mean, scale = np.zeros(len(seen.mean)), np.ones(len(seen.mean))
    if recipe.standardise:
        mean, scale = first.mean, np.maximum(first.std, LEAST_SCALE * seen.std)
        scale = np.where(scale <= CONSTANT, 1.0, scale)
    feedback = Feedback(mean, scale, recipe.belief_weight, directions)
    if recipe.box is None:
        return feedback
    low, high = guard_of(seen, feedback, recipe.guard)
    gain, margin = recipe.belief_weight / scale, recipe.box * (seen.high - seen.low)
    low = np.maximum(low, (seen.low - margin - mean) * gain)
    return feedback._replace(low=low, high=np.minimum(high, (seen.high + margin - mean) * gain))


def guard_of(
    seen: Spread, feedback: Feedback, guard: float | None
) -> tuple[Float[np.ndarray, " r"], Float[np.ndarray, " r"]]:
    """Bounds of the feedback that is learnt from: a belief is an expectation of phi and strays no further than phi."""
    gain = feedback.weight / feedback.scale
    reach = LARGEST_BELIEF if guard is None else guard * seen.std * gain + CONSTANT
    middle = (seen.mean - feedback.mean) * gain
    return middle - reach, middle + reach
