"""Intervals that follow the situation: they hold their share in every activity; nothing changes on linear systems."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression

from psimlearn import PSIM, load
from psimlearn.datasets import random_system
from psimlearn.evaluate import localscale
from psimlearn.evaluate.calibrate import with_calibration
from psimlearn.filter import Filter
from psimlearn.filter.live import Live
from psimlearn.filter.localscale import LocalScale
from psimlearn.filter.predict import foretold
from psimlearn.recordings.trajectories import Trajectories

RNG = np.random.default_rng
QUICK: dict[str, Any] = {"lags": 5, "prior": "mean", "belief_weight": 1.0, "n_rounds": 2, "random_state": 0}


class Activities(NamedTuple):
    """A linear system whose noise is as large as a hidden activity says: people stand, walk and run."""

    dynamics: np.ndarray
    sizes: np.ndarray
    """Of the noise in each activity."""
    rows: np.ndarray
    """That each activity lasts on average."""
    recordings: int
    length: int

    def simulate(self, m: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Recordings, and the activity at every row."""
        rng, n = RNG(seed), len(self.dynamics)
        activity, x = np.zeros((self.length, m), dtype=int), np.zeros((self.length, m, n))
        activity[0] = rng.integers(3, size=m)
        for t in range(1, self.length):
            others = (activity[t - 1] + rng.integers(1, 3, size=m)) % 3
            activity[t] = np.where(rng.random(m) < 1 / self.rows[activity[t - 1]], others, activity[t - 1])
            x[t] = x[t - 1] @ self.dynamics.T + self.sizes[activity[t], None] * rng.standard_normal((m, n))
        return x.swapaxes(0, 1).copy(), activity.T


FIRST = Activities(0.9 * np.eye(2), np.array([0.1, 0.5, 1.5]), np.array([120, 120, 120]), 60, 150)
SECOND = Activities(
    np.array([[0.8, 0.3, 0], [-0.3, 0.8, 0], [0.2, 0, 0.5]]),
    np.array([0.2, 0.6, 1.2]),
    np.array([150, 60, 40]),
    160,
    200,
)
"""Nothing was tuned on it but the idea that recent rows move away from the row that usually follows."""


@cache
def fitted() -> PSIM:
    return PSIM(5, **QUICK).fit(FIRST.simulate(FIRST.recordings, 0)[0])


def by_activity(filter: Filter, data: Activities, steps: int) -> np.ndarray:
    """The share of observations that 90 % intervals hold in each activity, so many steps ahead."""
    x, activity = data.simulate(100, 1)
    low, high = foretold(filter, Trajectories.of(x), steps).at((slice(None), steps - 1)).interval(0.9)
    low, high = (bound.reshape(x.shape)[:, 20 : data.length + 1 - steps] for bound in (low, high))
    truth, then = x[:, 19 + steps :], activity[:, 19 + steps :]
    inside = (low <= truth) & (truth <= high)
    return np.array([inside[then == a].mean() for a in range(3)])
