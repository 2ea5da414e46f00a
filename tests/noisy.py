"""Recordings of a random system whose noise is Gaussian or has heavy tails, for tests of uncertainty."""

from functools import cache
from typing import Any

import numpy as np

from psimlearn import PSIM
from psimlearn.datasets import LinearSystem, random_system
from psimlearn.recordings.trajectories import Trajectories

RNG = np.random.default_rng
QUICK: dict[str, Any] = {"lags": 1, "prior": "mean", "belief_weight": 1.0, "n_rounds": 5}
"""Fixed settings, for tests that are not about the choice of settings."""


def simulate(system: LinearSystem, m: int, rng: np.random.Generator, freedom: float | None = None) -> Trajectories:
    """Draw recordings of 100 rows each, with Gaussian noise or Student's t of unit variance."""

    def noise(n: int) -> np.ndarray:
        if freedom is None:
            return rng.standard_normal((m, n))
        heavy: np.ndarray = rng.standard_t(freedom, (m, n)) / np.sqrt(freedom / (freedom - 2))
        return heavy

    Q, R, P = (np.linalg.cholesky(c) for c in (system.Q, system.R, system.stationary.P))
    s, x = system.mean + rng.standard_normal((m, len(P))) @ P.T, []
    for _ in range(100):
        x.append(s @ system.C.T + noise(len(R)) @ R.T)
        s = s @ system.A.T + noise(len(Q)) @ Q.T
    return Trajectories.of(np.stack(x, axis=1))


def stacked(data: Trajectories) -> np.ndarray:
    return data.values.reshape(len(data), -1, data.n_channels)


def mean_score(model: PSIM, data: Trajectories) -> float:
    return float(np.mean(np.stack(model.score_samples(list(stacked(data))))))


@cache
def drawn(freedom: float | None = None) -> tuple[LinearSystem, Trajectories, Trajectories, Trajectories]:
    """A system, and recordings of it for training, calibration and testing."""
    rng = RNG(0)
    system = random_system(rng)
    train, validation, test = (simulate(system, m, rng, freedom) for m in (200, 200, 400))
    return system, train, validation, test
