"""Trees in a fit: chosen where they pay, saved, gone on with, refused where they cannot be."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import psimlearn
from psimlearn.choose import forests
from psimlearn.choose.advice import advice
from psimlearn.datasets import LinearSystem, hard_system, long_memory_system, noisy_pendulum, random_system
from psimlearn.errors import ModelFileError, PsimlearnWarning, SettingsError
from psimlearn.estimator.psim import PSIM
from psimlearn.evaluate import errors_by_horizon
from psimlearn.filter import Forest, Linear
from psimlearn.learners.trees import RidgeAndTrees
from psimlearn.recordings.trajectories import Trajectories

pytestmark = pytest.mark.usefixtures("unchecked")
RNG = np.random.default_rng
GIVEN: dict[str, Any] = {"window": 2, "n_rounds": 1, "lags": 2, "belief_weight": 0.0, "random_state": 0}


def switching(seed: int, m: int = 10) -> Trajectories:
    """x_{t+1} = .9 x_t, and a push back at |x| > 1: linear in three regions."""
    rng, x = RNG(seed), np.empty((m, 60, 2))
    x[:, 0] = rng.standard_normal((m, 2))
    for t in range(59):
        pushed = np.where(np.abs(x[:, t]) > 1, -1.5 * np.sign(x[:, t]), 0.3)
        x[:, t + 1] = 0.9 * x[:, t] + pushed + 0.1 * rng.standard_normal((m, 2))
    return Trajectories.of(x)


@cache
def fitted(learner: str) -> PSIM:
    return PSIM(**GIVEN, learner=learner).fit(switching(0))


def error(model: PSIM) -> np.ndarray:
    return errors_by_horizon(model.filter_, switching(1), 2, skip=5)


def test_trees_beat_a_line_where_the_system_switches() -> None:
    trees = fitted("trees")
    assert isinstance(trees.filter_.regressors[0], Forest)
    assert (error(trees) < [0.3, 0.7] * error(fitted("ridge"))).all()
    assert "trees on its errors" in trees.summary()
    tried = [trial for trial in trees.trials_ if trial["learner"] == "RidgeAndTrees"]
    assert set(forests.RIDGES[:2]) <= {trial["alpha"] for trial in tried} <= set(forests.RIDGES)
    assert {trial["n_features"] for trial in tried} == {0, forests.FEATURES}
    assert tried[-1]["error"] == trees.report_["choices"]["error"]
    said = "two of them on random features too" in trees.summary()
    assert said is bool(trees.report_["choices"]["n_features"])
    assert trees.report_["radius"] == 0.0  # nothing is fed back


def test_auto_tries_trees_where_there_are_rows_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forests, "MANY", 4)
    for enough in (10**6, 100):
        monkeypatch.setattr(forests, "ENOUGH_ROWS", enough)
        model = PSIM(**GIVEN, learner="auto").fit(switching(0, m=5))
        tried = {trial["learner"] for trial in model.trials_}
        assert {"Ridge", "RandomFourierRidge"} <= tried
        assert ("RidgeAndTrees" in tried) is (enough == 100)
        least = min(trial["error"] for trial in model.trials_)
        assert model.report_["choices"]["error"] <= 1.02 * least  # few recordings: levels are in doubt


def test_trees_come_back_from_a_file_without_scikit_learn(tmp_path: Path) -> None:
    model = fitted("trees")
    model.save(tmp_path / "model.psim")
    loaded, filter = PSIM.load(tmp_path / "model.psim"), psimlearn.load(tmp_path / "model.psim")
    data = switching(2)
    np.testing.assert_array_equal(loaded.filter_.forecast(data, 4), model.filter_.forecast(data, 4))
    np.testing.assert_array_equal(filter.forecast(data, 4), model.filter_.forecast(data, 4))
    live = psimlearn.Live(filter)
    for row in data[0].values:
        live.update(row)
    np.testing.assert_allclose(live.forecast(4), model.forecast(data[0].values, 4), rtol=0, atol=1e-10)
    assert loaded.learner_ == model.learner_
    with pytest.raises(ModelFileError, match=r"needs the sums of a Ridge.*received SumsAndSample of a RidgeAndTrees"):
        model.save(tmp_path / "more.psim", with_sums=True)
    with pytest.raises(SettingsError, match="partial_fit needs the sums"):
        loaded.partial_fit(data)


def test_trees_learn_on_from_more_recordings() -> None:
    few = PSIM(**GIVEN, learner=RidgeAndTrees(1e-3, 1, 10)).fit(switching(0, m=4))
    before = error(few)
    with pytest.warns(PsimlearnWarning, match="is due"):
        few.partial_fit(switching(3, m=30))
    assert len(few.sums_.z) == 34 * 58
    assert (error(few) < 0.9 * before).all()


@pytest.mark.parametrize("trainer", ["backprop", "dagger+backprop", "forward"])
@pytest.mark.parametrize("learner", ["trees", RidgeAndTrees()], ids=["word", "object"])
def test_trees_need_dagger(trainer: str, learner: Any) -> None:
    with pytest.raises(SettingsError, match="use trainer='dagger'"):
        PSIM(trainer=trainer, learner=learner).fit(switching(0))


def test_too_few_rows_to_choose() -> None:
    model = PSIM(window=1, learner="trees").fit(RNG(0).standard_normal((20, 1)))
    assert isinstance(model.learner_, RidgeAndTrees)
    assert model.learner_.alpha == 1.0
    assert isinstance(model.filter_.regressors[0], Forest)


LINEAR: list[Callable[[np.random.Generator], LinearSystem]] = [
    *[random_system] * 3,
    hard_system,
    lambda _: long_memory_system(),
]


@pytest.mark.parametrize("seed", range(len(LINEAR)))
def test_nobody_cries_wolf_on_linear_systems(seed: int) -> None:
    data = LINEAR[seed](RNG(seed)).simulate(40, 50, RNG(seed))
    model = PSIM(window=3, n_rounds=4, lags=3, prior="mean", random_state=0).fit(data)
    assert max(model.report_["nonlinear"]) < 0.02
    assert "nonlinear" not in model.summary()


def test_a_nonlinear_system_is_told_with_its_gain() -> None:
    data = noisy_pendulum(40, 60, RNG(0))
    model = PSIM(window=3, n_rounds=4, lags=3, prior="mean", random_state=0).fit(data)
    assert isinstance(model.filter_.regressors[0], Linear)
    gains = model.report_["nonlinear"]
    assert max(gains) > 0.1
    changes = ", ".join(f"{-100 * gain:+.0f}" for gain in gains)
    assert f'held-out error 1 to 3 steps ahead by {changes} %; try learner="auto"' in model.summary()


def test_the_advice_in_words() -> None:
    assert advice(None) == advice([0.049, -0.2]) == advice([float("nan")]) == []
    assert "the held-out error 1 to 2 steps ahead by -12, +3 %; try" in advice([0.12, -0.03])[0]
    assert "the held-out error 1 step ahead by -50 %; try" in advice([0.5])[0]
