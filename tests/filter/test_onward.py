"""Rows beyond the window, folded: equal to those of the textbook."""

from typing import Any

import numpy as np
import pytest

import psimlearn.filter.predict
from oracles import ragged
from psimlearn.filter import Filter, Stack
from psimlearn.filter.onward import runs_onward
from psimlearn.filter.rollout import rolled
from psimlearn.learners import RandomFourierRidge, Ridge
from psimlearn.train import Recipe
from psimlearn.train.ground import ground
from psimlearn.train.start import begin

RNG = np.random.default_rng


def learnt(learner: Any = Ridge(1e-2), missing: float = 0.0, **recipe: Any) -> Filter:
    train = ragged([30, 25, 40, 18, 33], 2, RNG(0), missing)
    return begin(ground(train, Stack(3), "history", Recipe()), learner, "history", Recipe(**recipe), RNG(0)).filter


@pytest.mark.parametrize("missing", [0.0, 0.1], ids=["whole", "gappy"])
@pytest.mark.parametrize(
    "given",
    [
        {},
        {"lags": 4},
        {"lags": 4, "prior": "last"},
        {"lags": 2, "rank": 2},
        {"lags": 3, "belief_weight": 0.0},
        {"box": None, "prior": "last"},
        {"box": 0.0},
        {"states": 3, "past": 5, "lags": 2},
        {"learner": RandomFourierRidge(20, 1e-2), "lags": 2, "prior": "last"},
    ],
    ids=str,
)
def test_forecasts_equal_those_of_the_textbook(
    given: dict[str, Any], missing: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    filter, test = learnt(missing=missing, **given), ragged([12, 9, 20], 2, RNG(1), missing)
    assert runs_onward(filter, rolled(filter, test).before)
    ours = [filter.forecast(test, horizon) for horizon in (4, 12)]  # before the first row too, where the clock is zero
    monkeypatch.setattr(psimlearn.filter.predict, "runs_onward", lambda *_: False)
    for horizon, mine in zip((4, 12), ours, strict=True):
        theirs = filter.forecast(test, horizon)
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-12 * np.abs(theirs).max())
