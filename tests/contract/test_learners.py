"""What every combination must keep: any learner with any features and trainer."""

from typing import Any

import numpy as np
import pytest

from contract.learners import FEATURES, LEARNERS, RNG, recordings
from oracles import loop_beliefs
from psimlearn.baselines import TrainingMean
from psimlearn.evaluate import errors_by_horizon
from psimlearn.filter import Features
from psimlearn.learners import Learner
from psimlearn.train import best, dagger, forward

TRAINERS: dict[str, Any] = {"dagger": dagger, "forward": forward}


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
