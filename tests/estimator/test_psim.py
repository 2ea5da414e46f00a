"""PSIM on whole recordings: horizons by hand, forecasts, scores, hints and the summary."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from psimlearn.datasets import random_system
from psimlearn.errors import DataError, SettingsError
from psimlearn.estimator.psim import PSIM
from psimlearn.learners import Ridge
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.train import Recipe
from small import ONE, QUICK, driven, model, several, with_inputs

RNG = np.random.default_rng


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


@pytest.mark.filterwarnings("ignore::psimlearn.errors.PsimlearnWarning")  # 1000 is far outside
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


def test_inputs_that_act_at_once() -> None:
    data, test = with_inputs(feedthrough=True), with_inputs(feedthrough=True, seed=2)
    options = ONE | {"learner": Ridge(1e-6)}
    with_it, without = (PSIM(**options | {"feedthrough": f}).fit(data).score(test) for f in (True, False))
    assert with_it > 0.99
    assert without < 0.5


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
    assert "20 recordings of 15 rows, 300 in all, 1 channel, 1 input, 2 hints" in driven().summary()


def test_a_system_is_learnt_almost_to_its_limit() -> None:
    rng = RNG(0)
    system = random_system(rng)
    train, test = system.simulate(60, 40, rng), system.simulate(100, 40, rng)
    fitted = PSIM(2, n_rounds=5, random_state=0).fit(train)
    ours = np.mean((test.values - np.concatenate(fitted.predict(test))) ** 2, axis=0)
    best = np.mean((test.values - system.kalman().forecast(test, 1)[:, 0]) ** 2, axis=0)
    assert (ours <= 1.05 * best).all()
