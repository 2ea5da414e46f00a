"""What every combination must keep: any learner with any features and trainer."""

from typing import Any

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsRegressor

from oracles import loop_beliefs
from psimlearn.baselines import TrainingMean
from psimlearn.datasets import random_system
from psimlearn.evaluate import errors_by_horizon
from psimlearn.filter import Features, SecondMoment, Stack, StackSquares
from psimlearn.learners import Learner, RandomFourierRidge, Ridge
from psimlearn.learners.blackbox import SklearnLearner
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.train import best, dagger, forward

RNG = np.random.default_rng
LEARNERS: dict[str, Any] = {
    "ridge": Ridge(1e-2),
    "random features": RandomFourierRidge(40, 1e-2),
    "neighbours": SklearnLearner(KNeighborsRegressor(10, algorithm="kd_tree"), max_rows=1500),
}
FEATURES: dict[str, Any] = {"stack": Stack(2), "squares": StackSquares(2), "moments": SecondMoment(2)}
TRAINERS: dict[str, Any] = {"dagger": dagger, "forward": forward}


def recordings(gaps: bool = False) -> Trajectories:
    rng = RNG(0)
    values = random_system(rng).simulate(400, 12, rng).values.copy()
    if gaps:
        values[rng.random(values.shape) < 0.1] = np.nan
    return Trajectories.of([part[: 12 - i % 4] for i, part in enumerate(values.reshape(400, 12, 2))])


@pytest.mark.parametrize("gaps", [False, True], ids=["whole", "gappy"])
@pytest.mark.parametrize("trainer", TRAINERS)
@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize("learner", LEARNERS)
def test_any_learner_features_and_trainer(learner: str, features: str, trainer: str, gaps: bool) -> None:
    data = recordings(gaps)
    train, test = data[:350], data[350:]
    options = {"n_rounds": 2} if trainer == "dagger" else {}
    assert isinstance(LEARNERS[learner], Learner)
    assert isinstance(FEATURES[features], Features)
    runs = [
        list(TRAINERS[trainer](train, test, FEATURES[features], LEARNERS[learner], rng=RNG(1), **options))
        for _ in range(2)
    ]
    filter, again = (best(run).filter for run in runs)
    predicted = filter.forecast(test, 4)
    assert predicted.shape == (len(test.values), 4, 2)
    assert np.isfinite(predicted).all()
    np.testing.assert_array_equal(predicted, again.forecast(test, 4))  # the seed decides everything
    assert errors_by_horizon(filter, test)[0] < errors_by_horizon(TrainingMean.fit(train), test)[0]
    slow = loop_beliefs(filter, test[0].values)[:-1]
    np.testing.assert_allclose(filter.run(test)[0][: len(slow)], slow, rtol=0, atol=1e-10)
