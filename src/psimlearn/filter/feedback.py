"""The feedback of a belief into the next step: compressed, scaled, weighted and kept inside a box."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from psimlearn.filter.features import Array

__all__ = ["Feedback"]


class Feedback(NamedTuple):
    """The map from a belief to its part of the next input: weight * (P m - mean) / scale, kept inside a box."""

    mean: Float[Array, " r"]
    scale: Float[Array, " r"]
    weight: float = 1.0
    directions: Float[Array, "d r"] | None = None
    """P', or None for all of the belief."""
    low: Float[Array, " r"] | None = None
    high: Float[Array, " r"] | None = None
    """The box, in the units of the feedback; None for no box."""

    def __call__(self, belief: Float[Array, "b d"]) -> Float[Array, "b r"]:
        """Return the feedback of each belief."""
        fed = self.linear(belief) + self.shift
        if self.low is None or self.high is None:
            return fed
        xp = fed.__array_namespace__()
        return xp.minimum(xp.maximum(fed, self.low), self.high)

    @property
    def shift(self) -> Float[Array, " r"]:
        """The constant part of the map from beliefs to feedback, without the box."""
        return -self.mean * (self.weight / self.scale)

    def weighted(self, factor: float) -> "Feedback":
        """Multiply the feedback and its box by a factor."""
        low, high = (None if bound is None else bound * factor for bound in (self.low, self.high))
        return self._replace(weight=self.weight * factor, low=low, high=high)

    def linear(self, belief: Float[Array, "b d"]) -> Float[Array, "b r"]:
        """Apply the linear part of the map from beliefs to feedback, without the box."""
        projected = belief if self.directions is None else belief @ self.directions
        return projected * (self.weight / self.scale)

    def within(self, low: Float[np.ndarray, " r"], high: Float[np.ndarray, " r"]) -> bool:
        """Tell whether the box keeps all feedback between these bounds."""
        return (
            self.low is not None
            and self.high is not None
            and bool((self.low >= low).all() and (self.high <= high).all())
        )

    def clipped(self, fed: Float[np.ndarray, "b r"]) -> Bool[np.ndarray, " b"]:
        """Mark the rows of feedback that lie on the box; a coordinate that never varied does not count."""
        if self.low is None or self.high is None:
            return np.zeros(len(fed), dtype=bool)
        columns = np.ascontiguousarray(fed.T)  # numpy compares few long rows much faster than many short ones
        low, high = self.low[:, None], self.high[:, None]
        on_edge: np.ndarray = np.any(((columns <= low) | (columns >= high)) & (low < high), axis=0)
        return on_edge
