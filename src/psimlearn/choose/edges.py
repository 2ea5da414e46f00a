"""Grids of ridges and bandwidths that grow: where the best point lies on an edge, the points beyond it are tried too.

A wide bandwidth makes random features of degree d shrink with its d-th power, and the ridge has to shrink with them:
so the points beyond an edge include those that change both.
"""

from collections.abc import Collection
from typing import NamedTuple

from psimlearn.learners import RandomFourierRidge

__all__ = ["BANDWIDTHS", "RIDGES", "Axis", "Point", "around", "at_the_end", "point_of"]


class Axis(NamedTuple):
    """The values that one setting may take."""

    least: float
    most: float
    factor: float
    """The step beyond the values tried."""

    def beside(self, value: float, tried: Collection[float]) -> tuple[float, float]:
        """The next smaller and the next larger of the values tried, or one beyond them; at an end the value itself."""
        lower = max((each for each in tried if each < value), default=max(self.least, value / self.factor))
        upper = min((each for each in tried if each > value), default=min(self.most, value * self.factor))
        return lower, upper


RIDGES = Axis(1e-11, 1e2, 100.0)
"""Below this end rounding decides: sums of squares are known to 1e-16 of their size."""
BANDWIDTHS = Axis(0.25, 128.0, 4.0)
"""At the upper end random features are linear and quadratic functions; at the lower end each row is alone."""


class Point(NamedTuple):
    """The two settings of a regression on random features."""

    alpha: float
    bandwidth_factor: float


def point_of(learner: RandomFourierRidge) -> Point:
    """The point of a learner."""
    return Point(learner.alpha, learner.bandwidth_factor)


def around(best: Point, tried: Collection[Point]) -> list[Point]:
    """The points beside the best one that were not tried: none if it lies inside the points tried, or at the end."""
    ridges, widths = {p.alpha for p in tried}, {p.bandwidth_factor for p in tried}
    a, b = best
    weaker, stronger = RIDGES.beside(a, ridges)
    narrower, wider = BANDWIDTHS.beside(b, widths)
    beside = [(weaker, b), (stronger, b), (a, narrower), (a, wider), (weaker, wider), (stronger, narrower)]
    return [point for point in dict.fromkeys(Point(*pair) for pair in beside) if point not in tried]


def at_the_end(point: Point) -> list[str]:
    """The settings of a point that lie at the end of what is tried, in words."""
    ends = (("ridge", point.alpha, RIDGES), ("bandwidth factor", point.bandwidth_factor, BANDWIDTHS))
    return [f"{name} {value:g}" for name, value, axis in ends if not axis.least < value < axis.most]
