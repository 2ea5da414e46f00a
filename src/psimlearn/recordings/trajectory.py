"""One recording."""

from dataclasses import dataclass

import numpy as np

from psimlearn.recordings.alphabet import Alphabet
from psimlearn.recordings.times import Times
from psimlearn.shapes import Float

__all__ = ["Trajectory"]


@dataclass(frozen=True, eq=False)
class Trajectory:
    """One recording: what `Trajectories` yields when it is indexed by a number or iterated."""

    values: Float[np.ndarray, "T n"]
    """Observations in time order; NaN where a channel was not observed."""
    inputs: Float[np.ndarray, "T p"] | None = None
    """Known controls, one row for each row of values."""
    hints: Float[np.ndarray, "T h"] | None = None
    """Quantities measured in training only, one row for each row of values; NaN where not measured."""
    alphabet: Alphabet | None = None
    """The symbols, if each channel indicates one symbol."""
    names: tuple[str, ...] | None = None
    """Channel names."""
    step: float | None = None
    """Seconds from one row to the next, where known."""
    times: Times | None = None
    """The time of each row, where known."""

    def __len__(self) -> int:
        """The number of rows, T."""
        return len(self.values)
