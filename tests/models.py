"""Recordings with gaps and names that need escaping, and one model of them, fitted once for all tests that ask."""

from functools import cache

import numpy as np

from psimlearn import PSIM, Trajectories
from psimlearn.datasets import random_system


def gappy(seed: int, n: int = 10, length: int = 40) -> Trajectories:
    """Simulated recordings of one system."""
    values = random_system(np.random.default_rng(0)).simulate(n, length, np.random.default_rng(seed)).values.copy()
    values[5::17, 0] = np.nan
    parts = np.split(values, n)
    return Trajectories.of(parts, names=("force <N>", "b"), ids=[f"r&{i}" for i in range(n)])


@cache
def model_of_gappy() -> PSIM:
    """Fitted to `gappy(1)`."""
    return PSIM(3, lags=1, prior="mean", belief_weight=1.0, n_rounds=4, random_state=0).fit(gappy(1))
