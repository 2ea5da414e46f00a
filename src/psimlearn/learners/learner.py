"""The protocol of learners: a learner summarises examples, merges summaries, and solves for a regressor.

DAgger's "D := D u D'" is `merge`.
"""

from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np

from psimlearn.filter import Regressor
from psimlearn.shapes import Float

__all__ = ["BesideBelief", "Counting", "Learner", "Stats", "Y", "Z"]

Stats = TypeVar("Stats")
Z = Float[np.ndarray, "b p"]
Y = Float[np.ndarray, "b q"]
"""The inputs and the outputs of b examples."""


@runtime_checkable
class Learner(Protocol[Stats]):
    """Least squares over any class of regressors, from summaries of examples that can be merged."""

    def prepare(self, z: Z, rng: np.random.Generator) -> "Learner[Stats]":
        """Freeze the settings that must stay the same for all examples: bandwidth, random directions."""

    def summarise(self, z: Z, y: Y, same: tuple[int, Stats] | None = None) -> Stats:
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

    def counting(self, z: Z, y: Y, lags: int, more: bool = False) -> Learner[Any]:
        """A learner with the contexts of these examples; with `more`, added to the contexts counted before."""


@runtime_checkable
class BesideBelief(Protocol):
    """A learner, as a dataclass, that treats the columns of z that come from the belief in another way."""

    @property
    def n_fed(self) -> int:
        """The number of these columns, which are the first. Trainers set it before they call `prepare`."""
