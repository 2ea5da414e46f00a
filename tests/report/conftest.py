"""Recordings with gaps and names that need escaping, and one model of them, for all tests of reports."""

from collections.abc import Callable

import matplotlib
import numpy as np
import pytest

from psimlearn import PSIM, Trajectories
from psimlearn.datasets import random_system

matplotlib.use("agg")


def simulated(seed: int, n: int = 10, length: int = 40) -> Trajectories:
    values = random_system(np.random.default_rng(0)).simulate(n, length, np.random.default_rng(seed)).values.copy()
    values[5::17, 0] = np.nan
    parts = np.split(values, n)
    return Trajectories.of(parts, names=("force <N>", "b"), ids=[f"r&{i}" for i in range(n)])


@pytest.fixture(scope="session")
def recordings() -> Callable[..., Trajectories]:
    return simulated


@pytest.fixture(scope="session")
def data() -> Trajectories:
    return simulated(1)


@pytest.fixture(scope="session")
def model(data: Trajectories) -> PSIM:
    return PSIM(3, lags=1, prior="mean", belief_weight=1.0, n_rounds=4, random_state=0).fit(data)
