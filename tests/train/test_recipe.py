"""Which settings go together, and how others are refused."""

import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from oracles import ragged
from psimlearn.errors import DataError, SettingsError
from psimlearn.filter import OneHotProduct, SecondMoment, Stack, StackSquares
from psimlearn.learners import Ridge
from psimlearn.train import Recipe, best, dagger
from psimlearn.train.recipe import check

RNG = np.random.default_rng


BAD = [
    ({"prior": "last"}, SecondMoment(2), None),
    ({"rank": 2}, SecondMoment(2), "rank needs Stack or StackSquares features, received SecondMoment"),
    ({"feedthrough": True}, Stack(2), "feedthrough=True needs trajectories with inputs"),
]


@pytest.mark.parametrize(("settings", "features", "message"), BAD)
def test_which_settings_go_together(settings: dict[str, Any], features: Any, message: str | None) -> None:
    data = ragged([20, 25], 1, RNG(0))
    rounds = dagger(data, data, features, Ridge(1e-2), rng=RNG(0), n_rounds=1, recipe=Recipe(**settings))
    if message is None:
        assert np.isfinite(best(rounds).error)
    else:
        with pytest.raises(SettingsError, match=message):
            list(rounds)


@pytest.mark.parametrize(
    ("settings", "features", "lengths", "message"),
    [
        # window 3, two channels: at most min(3, 4 - 1) x 2 = 6 states; at most 2 x 2 if the past is shorter
        ({"states": 6, "past": 4}, Stack(3), (20, 20), None),
        ({"states": 7, "past": 4}, Stack(3), (20, 20), "states: required at most 3 times the number of channels"),
        ({"states": 4, "past": 3}, Stack(3), (20, 20), None),
        ({"states": 5, "past": 3}, Stack(3), (20, 20), "states: required at most 2 times the number of channels"),
        ({"states": 2, "rank": 2}, Stack(3), (20, 20), "states needs Stack features, rank=None"),
        ({"states": 2, "belief_weight": 0.0}, Stack(3), (20, 20), "a belief weight above 0"),
        ({"states": 2}, StackSquares(3), (20, 20), "states needs Stack features"),
        ({"rank": 2}, StackSquares(3), (20, 20), None),
        ({"cross_weight": 0.5}, Stack(3), (20, 20), None),
        ({"cross_weight": 0.5}, StackSquares(3), (20, 20), "cross_weight below 1 needs Stack features"),
        ({"prior": "last", "level_weight": 0.5}, Stack(3), (20, 20), None),
        ({"prior": "mean", "level_weight": 0.5}, Stack(3), (20, 20), "level_weight needs prior='last' and Stack"),
        (
            {"prior": "last", "level_weight": 0.5},
            StackSquares(3),
            (20, 20),
            "level_weight needs prior='last' and Stack",
        ),
        # an example needs a row and the three after it, all of them behind the rows to skip
        ({}, Stack(3), (20, 4), None),
        ({}, Stack(3), (20, 3), "trajectory 1: required more rows than the window, at least 4, received 3 .1 of 2"),
        ({"skip": 5}, Stack(3), (9, 4), None),
        ({"skip": 6}, Stack(3), (9, 4), "at least 10, received at most 9. Use a smaller skip"),
        # symbols have a recipe of their own, in which only lags and inputs may differ
        ({"for symbols": 1}, OneHotProduct(2), (20, 20), None),
        ({"for symbols": 4}, OneHotProduct(2), (20, 20), None),
        ({}, OneHotProduct(2), (20, 20), "keep beliefs on a simplex and have no prior, box, rank or weight"),
    ],
)
def test_bounds_of_settings_by_hand(
    settings: dict[str, Any], features: Any, lengths: tuple[int, ...], message: str | None
) -> None:
    symbols = settings.get("for symbols")
    recipe = Recipe(**settings) if symbols is None else Recipe.for_symbols(symbols)
    data = ragged(list(lengths), 2, RNG(0))
    if message is None:
        check(data, features, recipe, "history")
    else:
        with pytest.raises((SettingsError, DataError), match=message):
            check(data, features, recipe, "history")


def test_states_need_recordings_without_inputs() -> None:
    data = ragged([20, 20], 1, RNG(0))
    with pytest.raises(SettingsError, match="states needs recordings without inputs"):
        check(replace(data, inputs=np.zeros((40, 1))), Stack(3), Recipe(states=2), "history")
    check(replace(data, inputs=np.zeros((40, 1))), Stack(3), Recipe(feedthrough=True), "history")


def test_features_without_persist_have_no_last_prior() -> None:
    class Bare:
        window = 2

        def __call__(self, f: np.ndarray) -> np.ndarray:
            return f.reshape(len(f), -1)

        def observations(self, m: np.ndarray) -> np.ndarray:
            return m.reshape(len(m), 2, -1)

    data = ragged([20, 25], 1, RNG(0))
    assert np.isfinite(best(dagger(data, data, Bare(), Ridge(1e-3), rng=RNG(0), n_rounds=1)).error)
    with pytest.raises(SettingsError, match="prior='last' needs features with persist"):
        list(dagger(data, data, Bare(), Ridge(), rng=RNG(0), recipe=Recipe(prior="last")))


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("init='warm'", "init: required one of ('history', 'teacher', 'zero'), received 'warm'."),
        ("recipe=Recipe(prior='median')", "prior: required one of ('mean', 'last', 'zero'), received 'median'."),
    ],
)
def test_unknown_words_are_refused(setting: str, message: str) -> None:
    """In a process of its own: here the run-time type checks would speak first."""
    code = f"""
import numpy as np
from psimlearn import Recipe, Ridge, Stack, Trajectories, dagger
data = Trajectories.of(np.zeros((9, 1)))
list(dagger(data, data, Stack(2), Ridge(), rng=np.random.default_rng(0), {setting}))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip().endswith(f"SettingsError: {message}")
