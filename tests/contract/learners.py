"""What the contract of all learners, features and trainers is held to: the learners, the features, the recordings."""

from typing import Any

import numpy as np
from sklearn.neighbors import KNeighborsRegressor

from psimlearn.datasets import random_system
from psimlearn.filter import SecondMoment, Stack, StackSquares
from psimlearn.learners import RandomFourierRidge, Ridge
from psimlearn.learners.blackbox import SklearnLearner
from psimlearn.recordings.trajectories import Trajectories

RNG = np.random.default_rng
LEARNERS: dict[str, Any] = {
    "ridge": Ridge(1e-2),
    "random features": RandomFourierRidge(40, 1e-2),
    "neighbours": SklearnLearner(KNeighborsRegressor(10, algorithm="kd_tree"), max_rows=1500),
}
FEATURES: dict[str, Any] = {"stack": Stack(2), "squares": StackSquares(2), "moments": SecondMoment(2)}


def recordings(gaps: bool = False) -> Trajectories:
    rng = RNG(0)
    values = random_system(rng).simulate(400, 12, rng).values.copy()
    if gaps:
        values[rng.random(values.shape) < 0.1] = np.nan
    return Trajectories.of([part[: 12 - i % 4] for i, part in enumerate(values.reshape(400, 12, 2))])
