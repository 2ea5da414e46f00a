"""A random system with recordings of it, for tests that compare what is learnt with its optimal filter."""

from functools import cache
from typing import NamedTuple

import numpy as np

from psimlearn.datasets import LinearSystem, random_system
from psimlearn.evaluate import Forecaster, errors_by_horizon
from psimlearn.recordings.trajectories import Trajectories


class Case(NamedTuple):
    system: LinearSystem
    train: Trajectories
    validation: Trajectories
    test: Trajectories

    def excess(self, forecaster: Forecaster) -> float:
        """One-step error relative to the optimal filter's, less 1."""
        return float(
            errors_by_horizon(forecaster, self.test)[0] / errors_by_horizon(self.system.kalman(), self.test)[0] - 1
        )


@cache
def case(seed: int, m: int = 1000, length: int = 100) -> Case:
    rng = np.random.default_rng(seed)
    system = random_system(rng)
    return Case(system, *(system.simulate(size, length, rng) for size in (m, 200, 1000)))
