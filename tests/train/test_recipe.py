"""Which settings go together, and how others are refused."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from oracles import ragged
from psimlearn.errors import SettingsError
from psimlearn.filter import SecondMoment, Stack
from psimlearn.learners import Ridge
from psimlearn.train import Recipe, best, dagger

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
