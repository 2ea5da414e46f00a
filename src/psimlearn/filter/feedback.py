"""What a belief feeds back into the next step: compressed, scaled, weighted and kept inside a box."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

__all__ = ["Feedback"]


class Feedback(NamedTuple):
    """How a belief enters the next input: weight * (P m - mean) / scale, kept inside a box."""

    mean: Float[np.ndarray, " r"]
    scale: Float[np.ndarray, " r"]
    weight: float = 1.0
    directions: Float[np.ndarray, "d r"] | None = None
    """P', or None for all of the belief."""
    low: Float[np.ndarray, " r"] | None = None
    high: Float[np.ndarray, " r"] | None = None
    """The box, in the units of what is fed back; None for no box."""

    def __call__(self, belief: Float[np.ndarray, "b d"]) -> Float[np.ndarray, "b r"]:
        """What a belief feeds back."""
        return self.boxed(self.linear(belief) + self.shift)

    @property
    def shift(self) -> Float[np.ndarray, " r"]:
        """The constant part of the map from beliefs to what is fed back."""
        return -self.mean * (self.weight / self.scale)

    def weighted(self, factor: float) -> "Feedback":
        """With everything that is fed back multiplied by a factor."""
        low, high = (None if bound is None else bound * factor for bound in (self.low, self.high))
        return self._replace(weight=self.weight * factor, low=low, high=high)

    def linear(self, belief: Float[np.ndarray, "b d"]) -> Float[np.ndarray, "b r"]:
        """The linear part of that map."""
        projected = belief if self.directions is None else belief @ self.directions
        return projected * (self.weight / self.scale)

    def boxed(self, fed: Float[np.ndarray, "b r"]) -> Float[np.ndarray, "b r"]:
        """Clip in place."""
        if self.low is not None and self.high is not None:
            np.maximum(fed, self.low, out=fed)
            np.minimum(fed, self.high, out=fed)
        return fed

    def boxer(self, most: int) -> Callable[[Float[np.ndarray, "b r"]], Float[np.ndarray, "b r"]]:
        """`boxed` for up to `most` rows; full bounds are clipped to much faster."""
        if self.low is None or self.high is None:
            return lambda fed: fed
        low, high = np.tile(self.low, (most, 1)), np.tile(self.high, (most, 1))

        def clip(fed: Float[np.ndarray, "b r"]) -> Float[np.ndarray, "b r"]:
            np.maximum(fed, low[: len(fed)], out=fed)
            np.minimum(fed, high[: len(fed)], out=fed)
            return fed

        return clip

    def within(self, low: Float[np.ndarray, " r"], high: Float[np.ndarray, " r"]) -> bool:
        """Whether the box keeps everything that is fed back between these bounds."""
        return (
            self.low is not None
            and self.high is not None
            and bool((self.low >= low).all() and (self.high <= high).all())
        )

    def clipped(self, fed: Float[np.ndarray, "b r"]) -> Bool[np.ndarray, " b"]:
        """Which rows lie on the box; a coordinate that never varied has no box to speak of."""
        if self.low is None or self.high is None:
            return np.zeros(len(fed), dtype=bool)
        columns = np.ascontiguousarray(fed.T)  # numpy compares few long rows much faster than many short ones
        low, high = self.low[:, None], self.high[:, None]
        on_edge: np.ndarray = np.any(((columns <= low) | (columns >= high)) & (low < high), axis=0)
        return on_edge
