"""How a filter treats gaps is said as it is; squares and moments keep exact gaps, and their intervals hold in them."""

from functools import cache
from typing import Any

import numpy as np
import pytest

from psimlearn import PSIM, SettingsError
from psimlearn.choose.spaces import _priors
from psimlearn.estimator.parameters import interpreted
from psimlearn.learners import Ridge
from psimlearn.recordings.trajectories import Trajectories
from small import ONE, several

OUT = (0, 2, 10, 19)
"""Rows of a channel that are missing before the row predicted."""


def walks(m: int, rows: int, seed: int) -> list[np.ndarray]:
    """Random walks of two channels, of which "last" is the better prior."""
    return list(np.cumsum(np.random.default_rng(seed).standard_normal((m, rows, 2)), axis=1))


@cache
def of_walks(features: str, prior: str) -> PSIM:
    return PSIM(window=3, features=features, prior=prior, n_rounds=2, random_state=0).fit(walks(60, 80, 0))


def held(model: PSIM) -> np.ndarray:
    """The share of 400 recordings whose channel 0 lies in its 90 % interval, after each number of missing rows."""
    new = walks(400, 52, 1)
    gappy = [np.where((np.arange(52) >= 30)[:, None] & [True, False], np.nan, rows) for rows in new]
    low, high = (np.array(bound)[:, :, 0] for bound in model.predict_interval(gappy, coverage=0.9))
    truth = np.array(new)[:, :, 0]
    return np.asarray(((low <= truth) & (truth <= high)).mean(axis=0)[[30 + k for k in OUT]])


@pytest.mark.parametrize("features", ["squares", "moments"])
def test_intervals_hold_in_the_gap_of_one_channel(features: str) -> None:
    """With the prior "last" they held .91, .67, .35 and .28; the bounds are 3 deviations of 400 coins, .015 each."""
    model = of_walks(features, "auto")
    assert model.filter_.gaps == "exact"
    assert "gaps are filled in" not in model.summary()
    assert np.abs(held(model) - 0.9).max() < 0.045


def test_the_prior_last_loses_exact_gaps_and_says_so() -> None:
    model = of_walks("squares", "last")
    assert model.filter_.gaps == "filled"
    assert "note: gaps are filled in: while a channel is missing alone" in model.summary()
    gappy = walks(1, 20, 2)
    gappy[0][5, 0] = np.nan
    for asked in (lambda: model.impute(gappy), lambda: model.smooth(gappy), lambda: model.export("model.h")):
        with pytest.raises(SettingsError, match=r"StackSquares features with prior='last'.*Learn with prior='mean'"):
            asked()


def test_the_prior_last_costs_little_where_it_is_better() -> None:
    new = np.array(walks(400, 52, 1))
    mean, last = (
        np.mean((np.array(of_walks("squares", p).predict(list(new))) - new)[:, 10:] ** 2) for p in ("auto", "last")
    )
    assert mean < 1.005 * last


GAPPY = [np.where(np.arange(len(part))[:, None] % 7 == 5, np.nan, part) for part in several()]


@pytest.mark.parametrize(
    ("settings", "gaps"),
    [
        ({}, "exact"),
        ({"learner": "trees"}, "filled"),
        ({"features": "squares", "learner": "gaussian", "prior": "auto"}, "filled"),
        ({"features": "squares", "prior": "last", "learner": Ridge(1e-2)}, "filled"),
    ],
)
def test_the_filter_says_how_it_treats_gaps(settings: dict[str, Any], gaps: str) -> None:
    whole, gappy = (PSIM(**ONE | settings).fit(data) for data in (several(), GAPPY))
    assert whole.filter_.gaps == gaps
    assert ("gaps are filled in" in whole.summary()) is (settings.get("prior") == "last")
    assert ("gaps are filled in" in gappy.summary()) is (gappy.filter_.gaps == "filled")
    if gaps == "filled":
        assert gappy.filter_.gaps == gaps


@pytest.mark.parametrize(
    ("settings", "priors"),
    [
        ({"features": "squares"}, {"mean"}),
        ({"features": "moments", "learner": "rff"}, {"mean"}),
        ({"features": "squares", "learner": "trees"}, {"mean", "last"}),  # trees fill gaps in whatever the prior is
        ({"features": "squares", "trainer": "forward"}, {"mean", "last"}),
        ({"features": "squares", "prior": "last"}, {"last"}),
        ({}, {"mean", "last"}),
    ],
)
def test_the_prior_last_is_left_out_only_where_it_loses_exact_gaps(settings: dict[str, Any], priors: set[str]) -> None:
    found = interpreted(PSIM(2, **settings).get_params(deep=False), Trajectories.of(several()))
    assert {prior for prior, _ in _priors(found, 1)} == priors
