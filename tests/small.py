"""Small recordings, quick settings and models fitted once in a process, for the tests of the estimator."""

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from oracles import ragged
from psimlearn.estimator.psim import PSIM
from psimlearn.filter import Linear
from psimlearn.learners import Coordinates, GramSums, Ridge
from psimlearn.recordings.trajectories import Trajectories

RNG = np.random.default_rng


QUICK: dict[str, Any] = {
    "window": 2,
    "n_rounds": 2,
    "lags": 1,
    "prior": "mean",
    "belief_weight": 1.0,
    "validation": 0.5,
    "random_state": 0,
}


ONE: dict[str, Any] = QUICK | {"learner": Ridge(1e-2)}
"""Nothing is chosen but the round."""


def several(seed: int = 0, n: int = 2) -> list[np.ndarray]:
    return [part.values.copy() for part in ragged([9, 14, 7, 20, 11, 13, 8, 16], n, RNG(seed))]


def beside(label: float, seed: int = 0) -> list[np.ndarray]:
    """`several`, with a channel that never moves."""
    return [np.concatenate([part, np.full((len(part), 1), label)], axis=1) for part in several(seed)]


@cache
def model() -> PSIM:
    return PSIM(**ONE).fit(several())


def with_inputs(m: int = 20, feedthrough: bool = False, seed: int = 1) -> Trajectories:
    """x_{t+1} = .5 x_t + u_t, and two hints: twice x, everywhere, and thrice x, at every other row."""
    rng = RNG(seed)
    u, x = rng.standard_normal((m, 15, 1)), np.zeros((m, 15, 1))
    for t in range(14):
        x[:, t + 1] = 0.5 * x[:, t] + u[:, t + feedthrough] + 0.01 * rng.standard_normal((m, 1))
    hints = np.concatenate([2 * x, 3 * x], axis=2)
    hints[:, ::2, 1] = np.nan
    return Trajectories.of(x, u, hints=hints)


def called(case: object) -> str:
    """A case in words that are the same in every process."""
    return re.sub(r" (object )?at 0x\w+", "", str(case))


@cache
def driven() -> PSIM:
    return PSIM(**ONE).fit(with_inputs())


class Bare:
    """Features without persist."""

    window = 2

    def __call__(self, f: np.ndarray) -> np.ndarray:
        return f.reshape(len(f), -1)

    def observations(self, m: np.ndarray) -> np.ndarray:
        return m.reshape(len(m), 2, -1)


@dataclass(frozen=True)
class Plain:
    """The least that a learner needs: ridge regression without coordinates."""

    def prepare(self, z: np.ndarray, rng: np.random.Generator) -> "Plain":
        return self

    def summarise(self, z: np.ndarray, y: np.ndarray, same: Any = None) -> GramSums:
        return Ridge(1e-2).summarise(z, y)

    def merge(self, a: GramSums, b: GramSums) -> GramSums:
        return Ridge(1e-2).merge(a, b)

    def solve(self, stats: GramSums) -> Linear:
        return Ridge(1e-2, coordinates=getattr(self, "coordinates", None)).solve(stats)


@dataclass(frozen=True)
class WithCoordinates(Plain):
    """The same with a field for coordinates."""

    coordinates: Coordinates | None = None
