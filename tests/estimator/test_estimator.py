"""PSIM from fit to file: scikit-learn's own checks, horizons by hand, settings refused by name, wild data survived."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge as SklearnRidge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks

import psimlearn
from oracles import ragged
from psimlearn.datasets import random_system
from psimlearn.errors import DataError, DivergedError, ModelFileError, PsimlearnError, SettingsError
from psimlearn.estimator.psim import PSIM
from psimlearn.estimator.saved import with_infinities, without_infinities
from psimlearn.estimator.scaler import TrajectoryScaler
from psimlearn.files import model as io
from psimlearn.filter.features import Stack, StackSquares
from psimlearn.learners.ridge import RandomFourierRidge, Ridge
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.train import Recipe
from strategies import wild_recordings

RNG = np.random.default_rng
QUICK: dict[str, Any] = {
    "window": 2,
    "n_rounds": 2,
    "lags": 1,
    "prior": "mean",
    "belief_weight": 1.0,
    "validation": 0.5,
    "random_state": 0,
}
ONE: dict[str, Any] = QUICK | {"learner": Ridge(1e-2)}
"""Nothing is chosen but the round."""


def several(seed: int = 0, n: int = 2) -> list[np.ndarray]:
    return [part.values.copy() for part in ragged([9, 14, 7, 20, 11, 13, 8, 16], n, RNG(seed))]


@cache
def model() -> PSIM:
    return PSIM(**ONE).fit(several())


def with_inputs(m: int = 20, feedthrough: bool = False, seed: int = 1) -> Trajectories:
    """x_{t+1} = .5 x_t + u_t, and two hints: twice x, everywhere, and thrice x, at every other row."""
    rng = RNG(seed)
    u, x = rng.standard_normal((m, 15, 1)), np.zeros((m, 15, 1))
    for t in range(14):
        x[:, t + 1] = 0.5 * x[:, t] + u[:, t + feedthrough] + 0.01 * rng.standard_normal((m, 1))
    hints = np.concatenate([2 * x, 3 * x], axis=2)
    hints[:, ::2, 1] = np.nan
    return Trajectories.of(x, u, hints=hints)


def called(case: object) -> str:
    """A case in words that are the same in every process."""
    return re.sub(r" (object )?at 0x\w+", "", str(case))


def apart(code: str) -> None:
    """Run code in a process of its own, where shapes are not checked and everything is several times faster."""
    path = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path), "SCIPY_ARRAY_API": "1"}
    command = [sys.executable, "-W", "error", "-c", f"import test_estimator; test_estimator.{code}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr


# -- scikit-learn's own checks -----------------------------------------------------------------------------------------

MEMORY = dict.fromkeys(
    ["check_methods_sample_order_invariance", "check_methods_subset_invariance"], "a filter has memory"
)


@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [PSIM(**QUICK), TrajectoryScaler()],
    expected_failed_checks=lambda estimator: MEMORY if isinstance(estimator, PSIM) else {},
)
def test_scikit_learns_own_checks(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)


@pytest.mark.parametrize("own", ["", "learner='rff', window=2, n_rounds=3", "trainer='forward'"])
def test_scikit_learns_own_checks_with_the_defaults(own: str) -> None:
    apart(f"check_defaults({own})")


def check_defaults(**own: Any) -> None:
    """All checks, that of the array API included, which needs an environment of its own."""
    results = check_estimator(PSIM(**own), expected_failed_checks=MEMORY, on_fail="raise", on_skip=None)
    statuses = [result["status"] for result in results]
    assert len(results) > 40
    assert statuses.count("xfail") == len(MEMORY)
    assert statuses.count("passed") == len(results) - len(MEMORY)


# -- horizons ----------------------------------------------------------------------------------------------------------


@cache
def stays() -> PSIM:
    """A filter that says "the last observation stays": what it predicts can be written down by hand."""
    recipe = Recipe(prior="last", belief_weight=0.0)
    learner = Ridge(1e12, intercept=False)
    return PSIM(2, learner=learner, recipe=recipe, random_state=0).fit(np.arange(80.0).reshape(8, 10, 1))


@pytest.mark.parametrize("horizon", [1, 2, 3, 5])
def test_horizons_by_hand(horizon: int) -> None:
    """Counting 0, 1, 2, ..: what was last seen `horizon` rows ago."""
    predicted = stays().predict(np.arange(10.0)[:, None], horizon)[:, 0]
    np.testing.assert_allclose(predicted[horizon:], np.arange(10.0 - horizon), rtol=0, atol=1e-6)


def test_before_anything_is_seen_the_first_rows_of_training_are_expected() -> None:
    predicted = stays().predict(np.arange(10.0)[:, None], 2)[:2, 0]
    np.testing.assert_allclose(predicted, [35.0, 36.0], rtol=0, atol=1e-6)  # means of first and second rows


@pytest.mark.parametrize("horizon", [1, 2, 4])
def test_predictions_are_those_of_the_filter(horizon: int) -> None:
    data = Trajectories.of(several(1))
    predicted, ahead = model().predict(data, horizon), data.unpacked(model().filter_.forecast(data, horizon))
    for ours, theirs in zip(predicted, ahead, strict=True):
        for t in range(len(ours)):
            made = max(t - horizon + 1, 0)
            np.testing.assert_array_equal(ours[t], theirs[made, t - made])


@pytest.mark.parametrize("horizon", [1, 2, 3, 6])
def test_the_future_changes_nothing(horizon: int) -> None:
    x = several(1)[3]
    before = model().predict(x, horizon)
    for t in range(horizon, len(x)):
        changed = x.copy()
        changed[t - horizon + 1 :] = 1e3
        np.testing.assert_allclose(model().predict(changed, horizon)[: t + 1], before[: t + 1], rtol=0, atol=1e-12)
        changed[t - horizon] = 1e3
        assert not np.allclose(model().predict(changed, horizon)[t], before[t])


@pytest.mark.parametrize("steps", [1, 2, 7])
def test_forecasts_go_on_where_predictions_end(steps: int) -> None:
    """A forecast is what `predict` says of rows that were not observed."""
    x = several(1)[3]
    beyond = np.concatenate([x, np.full((steps, 2), np.nan)])
    ahead = model().forecast(x, steps)
    np.testing.assert_allclose(ahead[0], model().predict(beyond, 1)[len(x)], rtol=0, atol=1e-12)
    np.testing.assert_allclose(ahead[-1], model().predict(beyond, steps)[-1], rtol=0, atol=1e-12)
    mean, std = model().forecast(x, steps, return_std=True)
    middle, low, high = model().forecast(x, steps, coverage=0.8)
    np.testing.assert_array_equal(mean, ahead)
    np.testing.assert_array_equal(middle, ahead)
    assert (std > 0).all()
    assert ((low < ahead) & (ahead < high)).all()


def test_forecasts_know_their_inputs() -> None:
    data = with_inputs()
    fitted = PSIM(**ONE | {"learner": Ridge(1e-6)}).fit(data)
    u = RNG(3).standard_normal((20, 6, 1))
    by_hand = np.empty((20, 6, 1))
    x, known = data.values.reshape(20, 15, 1)[:, -1], data.inputs
    assert known is not None
    now = known.reshape(20, 15, 1)[:, -1]
    for h in range(6):
        x = 0.5 * x + now
        by_hand[:, h], now = x, u[:, h]
    np.testing.assert_allclose(fitted.forecast(data, 6, future_inputs=u), by_hand, rtol=0, atol=0.05)
    assert fitted.forecast(data[:1], 6, future_inputs=u[0]).shape == (1, 6, 1)
    assert fitted.forecast(data, 2).shape == (20, 2, 1)  # inside the window the inputs to come are averaged over
    with pytest.raises(DataError, match="future_inputs"):
        fitted.forecast(data, 6)


@pytest.mark.parametrize(
    "future_inputs",
    [
        np.zeros((20, 3, 1)),
        np.zeros((19, 6, 1)),
        np.zeros((20, 6, 2)),
        np.zeros((6, 1)),
        np.zeros(6),
        "words",
        [[1], 2],
    ],
)
def test_future_inputs_of_another_shape_are_refused(future_inputs: Any) -> None:
    with pytest.raises(DataError, match="future_inputs: required"):
        driven().forecast(with_inputs(), 6, future_inputs=future_inputs)
    with pytest.raises(DataError, match="future_inputs: required"):
        driven().forecast(with_inputs(), 6, future_inputs=np.full((20, 6, 1), np.nan))
    with pytest.raises(DataError, match="future_inputs: required"):
        model().forecast(several(), 3, future_inputs=np.zeros((8, 3, 1)))


@cache
def driven() -> PSIM:
    return PSIM(**ONE).fit(with_inputs())


def test_inputs_that_act_at_once() -> None:
    data, test = with_inputs(feedthrough=True), with_inputs(feedthrough=True, seed=2)
    options = ONE | {"learner": Ridge(1e-6)}
    with_it, without = (PSIM(**options | {"feedthrough": f}).fit(data).score(test) for f in (True, False))
    assert with_it > 0.99
    assert without < 0.5


# -- what can be asked of a fitted model -------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [1, 2, 3, 5])
@pytest.mark.parametrize("gap", [False, True])
def test_recordings_of_any_length(rows: int, gap: bool) -> None:
    fitted = PSIM(**ONE | {"window": 4}).fit(with_inputs())
    whole = with_inputs(2, seed=9)
    values, inputs = (np.array(rows_).reshape(2, 15, 1)[:, :rows] for rows_ in (whole.values, whole.inputs))
    if gap:
        values[0, 0] = np.nan
    short = Trajectories.of(values, inputs)
    answers = [
        *fitted.predict(short),
        *fitted.predict(short, 3),
        *fitted.transform(short),
        *fitted.score_samples(short),
        *fitted.hints(short),
        fitted.forecast(short, 6, future_inputs=np.zeros((2, 6, 1))),
    ]
    assert all(np.isfinite(answer).all() for answer in answers)
    assert not fitted.score(short) > 1  # NaN if nothing varies


def test_the_score_is_r_squared() -> None:
    data = several(1)
    x, predicted = np.concatenate(data), np.concatenate(model().predict(data))
    expected = np.mean(1 - np.sum((x - predicted) ** 2, axis=0) / np.sum((x - x.mean(axis=0)) ** 2, axis=0))
    assert model().score(data) == pytest.approx(expected, abs=1e-12)
    assert np.isnan(model().score(np.ones((5, 2))))


def test_what_is_surprising_scores_low() -> None:
    x = several(1)[3]
    usual = model().score_samples(x)
    x[10] += 50
    assert model().score_samples(x)[10] < usual.min() - 100


def test_beliefs_hold_the_next_predictions() -> None:
    x = several(1)[3]
    beliefs, scaling = model().transform(x), model().filter_.scaling
    np.testing.assert_allclose(scaling.undo(beliefs[:-1, :2]), model().predict(x)[1:], rtol=0, atol=1e-12)


def test_hints_are_estimated_where_they_were_not_measured() -> None:
    test = with_inputs(5, seed=4)
    for estimate, part in zip(driven().hints(test), test, strict=True):
        np.testing.assert_allclose(estimate, part.values * [2.0, 3.0], rtol=0, atol=1e-3)
    with pytest.raises(SettingsError, match="hints need a filter learnt from trajectories with hints"):
        model().hints(several())


def test_a_hint_that_was_never_measured_is_refused() -> None:
    data = with_inputs()
    hints = np.array(data.hints)
    hints[:, 1] = np.nan
    with pytest.raises(DataError, match="hint 1: required at least one measured value"):
        PSIM(**ONE).fit(Trajectories.of(data, hints=hints.reshape(20, 15, 2)))


@pytest.mark.parametrize(
    "ask",
    [
        lambda m: m.predict(several()),
        lambda m: m.predict_interval(several()),
        lambda m: m.forecast(several(), 3),
        lambda m: m.transform(several()),
        lambda m: m.score(several()),
        lambda m: m.score_samples(several()),
        lambda m: m.hints(several()),
        lambda m: m.start(),
        lambda m: m.summary(),
        lambda m: m.save("never.psim"),
    ],
)
def test_nothing_before_fit(ask: Callable[[PSIM], Any]) -> None:
    with pytest.raises(NotFittedError):
        ask(PSIM())


def test_other_channels_or_inputs_are_refused() -> None:
    for ask in (model().predict, model().transform, model().score, model().score_samples, model().partial_fit):
        with pytest.raises(DataError, match="required 2 channels as in fit, received 3"):
            ask([np.zeros((5, 3))])
        with pytest.raises(ValueError, match="X has 3 features, but PSIM is expecting 2"):
            ask(np.zeros((5, 3)))
    with pytest.raises(DataError, match="required 2 channels and 0 inputs"):
        model().predict(Trajectories.of(np.zeros((4, 2)), np.zeros((4, 1))))
    with pytest.raises(DataError, match="1 channels and 1 inputs"):
        driven().predict(np.zeros((4, 1)))


@pytest.mark.parametrize("bad", [0, -1, True])
def test_counts_are_counts(bad: int) -> None:
    with pytest.raises(SettingsError, match="horizon: required a whole number of at least 1"):
        model().predict(several(), bad)
    with pytest.raises(SettingsError, match="steps: required a whole number of at least 1"):
        model().forecast(several(), bad)


def test_a_model_at_work_agrees_with_the_whole_recording() -> None:
    x = several(1)[3]
    live = model().start()
    for row in x:
        live.update(row)
    np.testing.assert_allclose(live.predict(horizon=5), model().forecast(x, 5)[4], rtol=0, atol=1e-12)


# -- settings ----------------------------------------------------------------------------------------------------------


class Bare:
    """Features without persist."""

    window = 2

    def __call__(self, f: np.ndarray) -> np.ndarray:
        return f.reshape(len(f), -1)

    def observations(self, m: np.ndarray) -> np.ndarray:
        return m.reshape(len(m), 2, -1)


BAD: list[tuple[dict[str, Any], str]] = [
    *(({"window": bad}, "window") for bad in (0, -1, 2.0, "5", None, True)),
    *(({"features": bad}, "features") for bad in ("stacks", None, 3, Stack)),
    *(({"learner": bad}, "learner") for bad in ("lasso", None, 3, Ridge, SklearnRidge, TrajectoryScaler())),
    *(({"trainer": bad}, "trainer") for bad in ("backwards", None, 1)),
    *(({"n_rounds": bad}, "n_rounds") for bad in (0, -1, 2.5, "many", None, True)),
    *(({"init": bad}, "init") for bad in ("warm", None, 0)),
    *(({"lags": bad}, "lags") for bad in (0, -1, 1.5, "few", None)),
    *(({"prior": bad}, "prior") for bad in ("median", None, 0)),
    *(({"belief_weight": bad}, "belief_weight") for bad in (-0.1, np.nan, np.inf, "some", None, True)),
    *(({"level_weight": bad}, "level_weight") for bad in (-0.1, np.nan, np.inf, "some", True)),
    *(({"rank": bad}, "rank") for bad in (0, -1, 1.5, "low", True)),
    *(({"box": bad}, "box") for bad in ("yes", None, 2)),
    *(({"feedthrough": bad}, "feedthrough") for bad in ("yes", None, 1, True)),  # True needs inputs
    *(({"recipe": bad}, "recipe") for bad in ("published", 3, Recipe)),
    *(({"criterion": bad}, "criterion") for bad in ("mse", None)),
    *(({"validation": bad}, "validation") for bad in (0, 1, 0.0, 1.0, 1.5, -0.2, np.nan, True, None, "some")),
    *(({"refit": bad}, "refit") for bad in ("yes", None, 1)),
    *(({"random_state": bad}, "random_state") for bad in ("seed", -1, 1.5)),
    ({"prior": "last", "features": Bare()}, "prior='last' needs features with persist"),
    ({"prior": "mean", "level_weight": 0.5}, "level_weight"),
    ({"prior": "zero", "level_weight": 0.5}, "level_weight"),
    ({"prior": "last", "level_weight": 0.5, "features": "squares"}, "level_weight"),
    ({"prior": "last", "level_weight": 0.5, "learner": SklearnRidge()}, "level_weight"),
    ({"rank": 2, "features": "moments"}, "rank"),
    ({"rank": "auto", "features": "moments"}, "rank"),
    ({"recipe": Recipe(lags=0)}, "lags"),
    ({"recipe": Recipe(box=-1.0)}, "box"),
    ({"features": Stack(0)}, "window"),
]


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


# -- more recordings ---------------------------------------------------------------------------------------------------


def regime(coefficient: float, seed: int, m: int = 20, offset: float = 0.0) -> Trajectories:
    rng = RNG(seed)
    x = np.zeros((m, 30, 1))
    for t in range(1, 30):
        x[:, t] = coefficient * x[:, t - 1] + rng.standard_normal((m, 1))
    return Trajectories.of(x + offset)


def test_a_first_partial_fit_is_fit() -> None:
    np.testing.assert_array_equal(
        PSIM(**ONE).partial_fit(several()).predict(several())[0], model().predict(several())[0]
    )


@pytest.mark.parametrize("learner", [Ridge(1e-2), RandomFourierRidge(20, 1e-2), KNeighborsRegressor(5)], ids=called)
def test_more_recordings_teach_a_new_regime(learner: Any) -> None:
    fitted = PSIM(**ONE | {"learner": learner}).fit(regime(0.8, 0))
    scaling, box, sums = fitted.filter_.scaling, fitted.filter_.feedback, fitted.sums_
    test = regime(-0.8, 2)
    before = fitted.score(test)
    fitted.partial_fit(regime(-0.8, 1, m=200))
    assert fitted.score(test) > before + 0.5
    for ours, theirs in zip((*fitted.filter_.scaling, *fitted.filter_.feedback), (*scaling, *box), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    if isinstance(learner, Ridge | RandomFourierRidge):
        assert fitted.sums_.n == sums.n + (fitted.n_rounds_ + 1) * 200 * 28


def test_more_recordings_equal_one_bigger_regression() -> None:
    """Without a belief nothing depends on the order: the sums of both are those of a regression on all rows."""
    first, more = regime(0.8, 0), regime(0.3, 1)
    fitted = PSIM(2, lags=3, prior="mean", belief_weight=0.0, learner=Ridge(1e-2), random_state=0).fit(first)
    assert fitted.n_rounds_ == 0
    fitted.partial_fit(more)
    scaling = fitted.filter_.scaling
    z_all, y_all = [], []
    for data in (first, more):
        for part in data:
            x = scaling(part.values)
            for t in range(len(x) - 2):
                z_all.append(np.concatenate([x[max(t - j, 0)] for j in range(3)]))
                y_all.append(x[t + 1 : t + 3].ravel())
    z, y = np.array(z_all), np.array(y_all)
    oracle = SklearnRidge(alpha=1e-2 * len(z), solver="cholesky").fit(z, y)
    x = scaling(more[0].values)
    history = np.array([np.concatenate([x[max(t - j, 0)] for j in range(3)]) for t in range(len(x))])
    np.testing.assert_allclose(fitted.transform(more[0].values), oracle.predict(history), rtol=0, atol=1e-10)


def test_recordings_outside_the_box_are_told() -> None:
    fitted = PSIM(**ONE).fit(regime(0.8, 0))
    assert "outside" not in fitted.summary()
    assert fitted.partial_fit(regime(0.8, 1)).report_["outside"] == 0
    assert fitted.partial_fit(regime(0.8, 1, offset=100.0)).report_["outside"] > 0.9
    assert "of later examples outside it" in fitted.summary()


def test_a_partial_fit_that_fails_changes_nothing() -> None:
    fitted = PSIM(**ONE).fit(with_inputs())
    state = dict(vars(fitted))
    fresh = with_inputs(seed=5)
    bad: list[tuple[Any, type[PsimlearnError]]] = [
        (np.zeros((20, 5, 2)), DataError),
        (Trajectories.of(np.full((2, 9, 1), 1e200), np.zeros((2, 9, 1))), DivergedError),
        (Trajectories.of(np.zeros((1, 1, 1)), np.zeros((1, 1, 1))), DataError),
        (Trajectories.of(fresh, hints=np.zeros((20, 15, 5))), DataError),
    ]
    for data, error in bad:
        with pytest.raises(error):
            fitted.partial_fit(data)
        assert vars(fitted).keys() == state.keys()
        assert all(vars(fitted)[name] is state[name] for name in state)


def test_forward_training_has_no_partial_fit() -> None:
    assert not hasattr(PSIM(trainer="forward"), "partial_fit")
    assert hasattr(PSIM(), "partial_fit")


def test_hints_go_on_learning() -> None:
    """Hints measured at other rows than before, or not at all, do no harm."""
    fitted = PSIM(**ONE).fit(with_inputs())
    fresh = with_inputs(seed=5)
    hints = np.array(fresh.hints)
    hints[::3, 0] = np.nan
    fitted.partial_fit(Trajectories.of(fresh, hints=hints.reshape(20, 15, 2)))
    fitted.partial_fit(Trajectories.of(fresh.values.reshape(20, 15, 1), np.array(fresh.inputs).reshape(20, 15, 1)))
    test = with_inputs(5, seed=4)
    for estimate, part in zip(fitted.hints(test), test, strict=True):
        np.testing.assert_allclose(estimate, part.values * [2.0, 3.0], rtol=0, atol=1e-3)


@pytest.mark.parametrize(
    "own",
    [{}, {"learner": RandomFourierRidge(20, 1e-2)}, {"prior": "last", "level_weight": 0.3}, {"rank": 1}],
    ids=called,
)
def test_learning_goes_on_from_a_file(own: dict[str, Any], tmp_path: Path) -> None:
    fitted = PSIM(**ONE | own).fit(with_inputs())
    fitted.save(tmp_path / "model.psim", with_sums=True)
    loaded = PSIM.load(tmp_path / "model.psim")
    more, test = with_inputs(seed=5), with_inputs(5, seed=4)
    for one in (fitted, loaded):
        one.partial_fit(more)
    for ask in (PSIM.predict, PSIM.transform, PSIM.hints, PSIM.score_samples):
        for ours, theirs in zip(ask(fitted, test), ask(loaded, test), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)
    assert loaded.sums_.n == fitted.sums_.n


def test_a_file_without_sums_does_not_go_on(tmp_path: Path) -> None:
    model().save(tmp_path / "model.psim")
    with pytest.raises(SettingsError, match=r"save\(path, with_sums=True\)"):
        PSIM.load(tmp_path / "model.psim").partial_fit(several())


# -- files -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "own",
    [
        {},
        {"learner": "rff"},
        {"trainer": "forward"},
        {"features": StackSquares(2), "random_state": np.random.RandomState(0)},
        {"lags": np.int64(2), "n_rounds": np.int64(2), "refit": np.True_},
        {"validation": several(3)},
    ],
    ids=called,
)
def test_a_file_gives_the_model_back(own: dict[str, Any], tmp_path: Path) -> None:
    fitted = PSIM(**QUICK | own).fit(several())
    fitted.save(tmp_path / "model.psim")
    loaded = PSIM.load(tmp_path / "model.psim")
    np.testing.assert_array_equal(loaded.forecast(several(1), 5), fitted.forecast(several(1), 5))
    for ours, theirs in zip(loaded.score_samples(several(1)), fitted.score_samples(several(1)), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert loaded.summary() == fitted.summary()
    assert loaded.trials_ == fitted.trials_
    assert loaded.report_ == fitted.report_
    assert loaded.n_rounds_ == fitted.n_rounds_
    assert loaded.recipe_ == fitted.recipe_
    kept = {"random_state": 0 if "random_state" not in own else None, "validation": 0.5}
    kept |= {"validation": 0.2} if "validation" in own else {}
    assert loaded.get_params() == fitted.get_params() | kept
    loaded.save(tmp_path / "again.psim")
    assert (tmp_path / "again.psim").read_bytes() == (tmp_path / "model.psim").read_bytes()


def test_a_file_remembers_the_names_of_channels(tmp_path: Path) -> None:
    frame = pd.DataFrame(several()[3], columns=["left", "right"])
    PSIM(**ONE).fit(frame).save(tmp_path / "model.psim")
    loaded = PSIM.load(tmp_path / "model.psim")
    assert list(loaded.predict(frame).columns) == ["left", "right"]
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(frame[["right", "left"]])


def test_infinite_errors_go_through_a_file(tmp_path: Path) -> None:
    fitted = PSIM(**ONE).fit(several())
    fitted.trials_ = [*fitted.trials_, fitted.trials_[0] | {"error": np.inf, "alpha": None}]
    fitted.report_ = fitted.report_ | {"errors": {"PSIM": [1.0, 2.0], "autoregression": [np.inf, 1.0]}}
    fitted.save(tmp_path / "model.psim")
    loaded = PSIM.load(tmp_path / "model.psim")
    assert loaded.trials_ == fitted.trials_
    assert loaded.trials_[-1]["error"] == np.inf
    assert loaded.trials_[-1]["alpha"] is None
    assert loaded.report_ == fitted.report_
    assert loaded.summary() == fitted.summary()
    nested = {"error": np.inf, "errors": {"a": [np.inf, 1.0]}, "rank": None, "rows": [{"error": np.inf}]}
    assert with_infinities(without_infinities(nested)) == nested


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"learner": SklearnRidge()}, "learner: required .* received Ridge"),
        ({"learner": KNeighborsRegressor(3)}, "learner: required .* received KNeighborsRegressor"),
        ({"features": Bare()}, "features: required .* received Bare"),
    ],
)
def test_what_only_code_can_hold_is_not_saved(own: dict[str, Any], message: str, tmp_path: Path) -> None:
    fitted = PSIM(**ONE | own).fit(several())
    with pytest.raises(ModelFileError, match=message):
        fitted.save(tmp_path / "model.psim")
    assert not any(tmp_path.iterdir())


def test_no_sums_to_save_after_forward_training(tmp_path: Path) -> None:
    fitted = PSIM(**ONE | {"trainer": "forward"}).fit(several())
    with pytest.raises(ModelFileError, match="with_sums=True needs the sums"):
        fitted.save(tmp_path / "model.psim", with_sums=True)


def test_the_file_of_a_filter_is_not_that_of_an_estimator(tmp_path: Path) -> None:
    psimlearn.save(model().filter_, tmp_path / "filter.psim")
    with pytest.raises(ModelFileError, match=r"required a file written by PSIM.save.*psimlearn.load"):
        PSIM.load(tmp_path / "filter.psim")
    model().save(tmp_path / "model.psim")
    assert isinstance(psimlearn.load(tmp_path / "model.psim"), psimlearn.Filter)


@pytest.mark.parametrize("own", [{}, {"learner": RandomFourierRidge(20, 1e-2)}, {"prior": "last", "level_weight": 0.3}])
def test_sums_that_do_not_fit_are_refused(own: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "model.psim"
    PSIM(**ONE | own).fit(with_inputs()).save(path, with_sums=True)
    filter, notes, arrays = io.read(path)
    assert arrays
    io.save(filter, path, notes=notes, arrays=arrays)
    assert PSIM.load(path).sums_ is not None  # as they are, they are accepted
    for name, array in arrays.items():
        tampered: list[dict[str, Any]] = [
            {name: np.concatenate([array, array[:1]])},
            {name: array[:-1]},
            {name: array[..., None]},
            {"surplus": array},
            {},
        ]
        for change in tampered:
            kept = {other: own for other, own in arrays.items() if change or other != name}
            io.save(filter, path, notes=notes, arrays=kept | change)
            with pytest.raises(ModelFileError, match=r"required a file written by PSIM\.save"):
                PSIM.load(path)


def test_notes_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.psim"
    model().save(path)
    filter, notes, _ = io.read(path)
    strange: list[dict[str, Any]] = [{}, {"n_rounds": 0}, {"trials": []}, {"more": 1}, {"settings": {"window": 3}}]
    for change in strange:
        io.save(filter, path, notes=notes | change)
        PSIM.load(path)  # of one piece all the same
    senseless: list[dict[str, Any]] = [
        *({name: None} for name in notes),
        {"settings": {"windows": 5}},
        {"settings": notes["settings"] | {"learner": {"type": "os.system", "command": "true"}}},
        {"settings": notes["settings"] | {"learner": {"type": "Ridge", "alpha": -1}}},
        {"settings": notes["settings"] | {"learner": {"type": "Ridge", "alpha": "much"}}},
        {"learner": {"type": "Recipe"}},
        {"recipe": "as published"},
        {"report": {}},
        {"report": notes["report"] | {"data": {}}},
        {"n_rounds": -1},
        {"n_rounds": True},
        {"trials": {}},
    ]
    for change in senseless:
        io.save(filter, path, notes=notes | change)
        with pytest.raises(ModelFileError, match=r"required a file written by PSIM\.save"):
            PSIM.load(path)


def test_a_file_holds_no_recordings(tmp_path: Path) -> None:
    """A value that stands in the recordings stands nowhere in the file, with sums or without, as number or as text."""
    telling = 123.456789012345
    data = several()
    for part in data:
        part[4, 0] = telling
    fitted = PSIM(**QUICK | {"validation": data}).fit(data)
    for with_sums in (False, True):
        fitted.save(tmp_path / "model.psim", with_sums=with_sums)
        held = (tmp_path / "model.psim").read_bytes()
        assert np.float64(telling).tobytes() not in held
        assert b"123.45678" not in held


# -- what it says ------------------------------------------------------------------------------------------------------


def test_the_summary_says_it_all(capsys: pytest.CaptureFixture[str]) -> None:
    data = several()
    data[3][5] = np.nan
    fitted = PSIM(**QUICK | {"prior": "auto", "verbose": True}).fit(data)
    said = fitted.summary()
    for words in (
        "8 recordings of 7 to 20 rows, 98 in all, 2 channels, 1.0% missing",
        "linear regression, ridge",
        "lags",
        "prior",
        "belief weight",
        "rank full",
        "dagger, round",
        "settings tried",
        "diverged",
        "of beliefs on the edge of the box",
        "spectral radius",
        "training mean",
        "last observation",
        "autoregression",
        "PSIM",
    ):
        assert words in said
    for error in fitted.report_["errors"]["PSIM"]:
        assert f"{error:.4g}" in said
    told = capsys.readouterr()
    assert told.out == ""
    assert "psimlearn: tried" in told.err
    PSIM(**ONE).fit(data)
    assert capsys.readouterr().err == ""


def test_the_summary_of_inputs_and_hints() -> None:
    assert "1 channels, 1 inputs, 2 hints" in driven().summary()


# -- bad days ----------------------------------------------------------------------------------------------------------

MANY = int(os.environ.get("PSIMLEARN_EXAMPLES", "40"))


def survives(data: list[np.ndarray]) -> None:
    """Finite predictions or an error of ours; never a warning, never another exception."""
    try:
        fitted = PSIM(window=2 if len(data) % 2 else 5, n_rounds=2, random_state=0).fit(data)
    except PsimlearnError:
        return
    for horizon in (1, 3):
        assert all(np.isfinite(part).all() for part in fitted.predict(data, horizon))
    assert np.isfinite(fitted.forecast(data, 4)).all()
    assert all((part < np.inf).all() for part in fitted.score_samples(data))  # -inf is fair, NaN is not
    assert all(np.isfinite(part).all() for part in fitted.transform(data))
    assert not fitted.score(data) > 1
    assert fitted.summary()


def survives_anything() -> None:
    limits = settings(max_examples=MANY, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    limits(given(wild_recordings())(survives))()


def test_any_finite_recordings_are_survived() -> None:
    apart("survives_anything()")


def test_a_system_is_learnt_almost_to_its_limit() -> None:
    rng = RNG(0)
    system = random_system(rng)
    train, test = system.simulate(60, 40, rng), system.simulate(100, 40, rng)
    fitted = PSIM(2, n_rounds=5, random_state=0).fit(train)
    ours = np.mean((test.values - np.concatenate(fitted.predict(test))) ** 2, axis=0)
    best = np.mean((test.values - system.kalman().forecast(test, 1)[:, 0]) ** 2, axis=0)
    assert (ours <= 1.05 * best).all()
