"""Parameters of PSIM: every setting gives a filter, or is refused by its name."""

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge as SklearnRidge
from sklearn.neighbors import KNeighborsRegressor

from psimlearn.errors import DataError, SettingsError
from psimlearn.estimator.psim import PSIM
from psimlearn.estimator.scaler import TrajectoryScaler
from psimlearn.filter import Stack, StackSquares
from psimlearn.learners import RandomFourierRidge, Ridge
from psimlearn.train import Recipe
from small import ONE, QUICK, Bare, Plain, WithCoordinates, called, several

BAD: list[tuple[dict[str, Any], str]] = [  # tests/test_settings.py has the values that no combination allows
    *(({"features": bad}, "features") for bad in ("stacks", None, Stack)),
    *(({"learner": bad}, "learner") for bad in ("lasso", None, Ridge, SklearnRidge, TrajectoryScaler())),
    ({"feedthrough": True}, "feedthrough"),  # needs inputs
    ({"prior": "last", "features": Bare()}, "prior='last' needs features with persist"),
    ({"prior": "mean", "level_weight": 0.5}, "level_weight"),
    ({"prior": "zero", "level_weight": 0.5}, "level_weight"),
    ({"prior": "last", "level_weight": 0.5, "features": "squares"}, "level_weight"),
    ({"prior": "last", "level_weight": 0.5, "learner": SklearnRidge()}, "level_weight"),
    ({"prior": "last", "level_weight": 0.5, "learner": Plain()}, "level_weight"),
    ({"cross_weight": 0.3, "features": "squares"}, "cross_weight"),
    ({"cross_weight": 0.3, "learner": "rff"}, "cross_weight"),
    ({"cross_weight": 0.3, "learner": RandomFourierRidge(10)}, "cross_weight"),
    ({"rank": 2, "features": "moments"}, "rank"),
    ({"rank": "auto", "features": "moments"}, "rank"),
]


OVERRULED: list[tuple[dict[str, Any], str]] = [
    ({"lags": 3}, r"received lags=3\. Put it"),
    ({"feedthrough": True}, "received feedthrough=True"),
    ({"prior": "last", "rank": "auto", "box": False}, r"received prior='last', rank='auto', box=False\. Put them"),
    ({"belief_weight": 0.5, "cross_weight": 0.3}, "received belief_weight=0.5, cross_weight=0.3"),
    ({"level_weight": 0.1}, "received level_weight=0.1"),
    ({"lags": np.array([1, 2])}, "received lags=a ndarray"),
]


@pytest.mark.parametrize(("beside", "words"), OVERRULED, ids=called)
def test_parameters_that_a_recipe_would_overrule_are_refused(beside: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError, match=f"recipe: required none of .*{words}"):
        PSIM(2, recipe=Recipe(), n_rounds=1, **beside).fit(several())


def test_parameters_that_say_what_the_recipe_says_are_taken() -> None:
    own: dict[str, Any] = {"lags": 2, "prior": "mean", "belief_weight": 1, "box": False, "opening": False}
    model = PSIM(2, recipe=Recipe(lags=2, box=None), n_rounds=1, random_state=0, **own).fit(several())
    assert model.filter_.lags == 2


@pytest.mark.parametrize(("bad", "name"), BAD, ids=called)
def test_bad_settings_are_refused_by_name(bad: dict[str, Any], name: str) -> None:
    with pytest.raises(SettingsError, match=name):
        PSIM(**QUICK | bad).fit(several())


def test_validation_recordings_must_fit() -> None:
    with pytest.raises(DataError, match="validation: required 2 channels and 0 inputs as in X, received 3 and 0"):
        PSIM(**QUICK | {"validation": [np.zeros((9, 3))]}).fit(several())
    with pytest.raises(DataError, match=r"validation: .*finite"):
        PSIM(**QUICK | {"validation": [np.full((9, 2), np.inf)]}).fit(several())


@pytest.mark.parametrize(
    "own",
    [
        {"features": "squares"},
        {"features": "moments"},
        {"features": StackSquares(3)},
        {"features": Bare()},
        {"learner": RandomFourierRidge(20, 1e-2)},
        {"learner": KNeighborsRegressor(5)},
        {"learner": "auto", "lags": np.int64(2)},
        {"trainer": "forward"},
        {"init": "teacher"},
        {"init": "zero"},
        {"prior": "last", "level_weight": 0.5},
        {"cross_weight": 0.3},
        {"cross_weight": 0.3, "rank": 2},
        {"prior": "zero"},
        {"belief_weight": 0},
        {"rank": 1},
        {"rank": "auto"},
        {"box": False},
        {"criterion": "one-step"},
        {"refit": False},
        {"random_state": np.random.RandomState(0)},
    ],
    ids=called,
)
def test_every_setting_gives_a_filter(own: dict[str, Any]) -> None:
    fitted = PSIM(**ONE | own).fit(several())
    assert np.isfinite(np.concatenate(fitted.predict(several(1), 3))).all()
    assert not np.isnan(np.concatenate(fitted.score_samples(several(1)))).any()


def test_a_new_learner_uses_level_weights_if_it_has_coordinates() -> None:
    """Without coordinates all level weights would give the same filter, so none is tried."""
    options = QUICK | {"prior": "auto", "lags": 2, "refit": False}
    plain, relative, ridge = (
        PSIM(**options, learner=a).fit(several()) for a in (Plain(), WithCoordinates(), Ridge(1e-2))
    )
    assert {trial["level_weight"] for trial in plain.trials_} == {None}
    assert {trial["level_weight"] for trial in relative.trials_} == {None, 1.0, 0.1}
    np.testing.assert_allclose(relative.predict(several(1)[0]), ridge.predict(several(1)[0]), rtol=0, atol=1e-10)
