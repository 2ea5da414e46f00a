"""The contract of a forecaster, written once and held by every member: baselines, known systems and filters."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge as SklearnRidge

from oracles import ragged
from psimlearn.baselines import (
    Autoregression,
    KGram,
    Lagged,
    LastObservation,
    RecurrentNetwork,
    TrainingMean,
    em,
    ivr,
    n4sid,
    spectral,
    word_moments,
)
from psimlearn.datasets import random_system, three_state_hmm
from psimlearn.errors import DataError, SettingsError
from psimlearn.evaluate import Forecaster
from psimlearn.filter import SecondMoment, Stack
from psimlearn.learners import RandomFourierRidge, Ridge
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.train import Recipe, best, dagger, forward

RNG = np.random.default_rng
HORIZON = 4
TRAIN, TEST = [30, 12, 45, 9, 1, 30], [12, 1, 30, 7]
EDGE = 20
"""A row of the third test recording, which holds rows 13 to 42: its row 7."""


def system() -> Any:
    return random_system(RNG(0))


def network(cell: Any) -> Callable[[Trajectories], Forecaster]:
    def fit(train: Trajectories) -> Forecaster:
        pytest.importorskip("jax")
        pytest.importorskip("optax")
        return RecurrentNetwork.fit(train, train, 3, hidden=4, cell=cell, n_epochs=2, batch=2)

    return fit


def machine(learner: Any, features: Any = Stack(2), trainer: Any = dagger, **recipe: Any) -> Any:
    options = {"n_rounds": 3} if trainer is dagger else {}

    def fit(train: Trajectories) -> Forecaster:
        cut = train.blocks(4) if trainer is forward else train  # one regressor a step needs many recordings
        long = cut[cut.lengths > features.window]  # shorter ones are refused in training
        return best(trainer(long, long, features, learner, rng=RNG(0), recipe=Recipe(**recipe), **options)).filter

    return fit


MEMBERS: dict[str, Callable[[Trajectories], Forecaster]] = {
    "training mean": TrainingMean.fit,
    "last observation": LastObservation.fit,
    "autoregression": lambda train: Autoregression.fit(train, 3, 2, alpha=1e-3),
    "autoregression, last": lambda train: Autoregression.fit(train, 3, 2, alpha=1e-3, prior="last"),
    "lagged": lambda train: Lagged.fit(train, SklearnRidge(), 3, HORIZON),
    "cva": lambda train: n4sid(train, 2, block_rows=3),
    "n4sid": lambda train: n4sid(train, 2, block_rows=3, weighting="n4sid"),
    "ivr": lambda train: ivr(train, 2, window=2, past=3),
    "em": lambda train: em(train, 2, block_rows=3, n_iter=3),
    "tanh network": network("tanh"),
    "gated network": network("gru"),
    "kalman": lambda train: system().time_varying_kalman(),
    "stationary kalman": lambda train: system().kalman(),
    "psim": machine(Ridge(1e-2), lags=2),
    "psim, prior": machine(Ridge(1e-2), lags=2, prior="last"),
    "psim, moments": machine(Ridge(10.0), SecondMoment(2)),  # smaller ridges are unstable on so few rows
    "psim, random features": machine(RandomFourierRidge(20, 1e-2)),
    "psim, forward": machine(Ridge(1e-2), trainer=forward),
}
SYMBOLS: dict[str, Callable[[Trajectories], Forecaster]] = {
    "k-grams": lambda train: KGram.fit(train, 3),
    "operators": lambda train: spectral(word_moments(train), 2, floor=0.01),
}
REFUSE_GAPS = {"stationary kalman"}
FOLLOW_THE_ORDER = {"tanh network", "gated network"}
"""Their batches are made of recordings as these come."""
ALL = MEMBERS | SYMBOLS


def recordings(name: str, lengths: list[int], seed: int, missing: float) -> Trajectories:
    """Numbers or one-hot symbols, as the member takes them."""
    if name in MEMBERS:
        return ragged(lengths, 2, RNG(seed), missing)
    rng = RNG(seed)
    values = np.eye(3)[three_state_hmm(RNG(0)).simulate(1, sum(lengths), rng)[0]]
    values[rng.random(len(values)) < missing] = np.nan
    return Trajectories.of(np.split(values, np.cumsum(lengths)[:-1]))


@cache
def training(name: str, missing: float) -> Trajectories:
    return recordings(name, TRAIN, 60, missing)


@cache
def fitted(name: str, missing: float) -> Forecaster:
    return ALL[name](training(name, missing))


@pytest.fixture(params=[0.0, 0.15], ids=["whole", "gappy"])
def missing(request: pytest.FixtureRequest) -> float:
    share: float = request.param
    return share


@pytest.fixture(params=ALL)
def name(request: pytest.FixtureRequest, missing: float) -> str:
    if missing and request.param in REFUSE_GAPS:
        pytest.skip("refuses gaps, which test_gaps_are_allowed_or_refused_clearly checks")
    return str(request.param)


def test_one_finite_prediction_for_each_row_horizon_and_channel(name: str, missing: float) -> None:
    test = recordings(name, TEST, 61, missing)
    found = fitted(name, missing).forecast(test, HORIZON)
    assert found.shape == (50, HORIZON, test.n_channels)
    assert np.isfinite(found).all()


def test_recordings_passed_in_are_not_altered(name: str, missing: float) -> None:
    test = recordings(name, TEST, 61, missing)
    fitted(name, missing).forecast(test, HORIZON)
    np.testing.assert_array_equal(training(name, missing).values, recordings(name, TRAIN, 60, missing).values)
    np.testing.assert_array_equal(test.values, recordings(name, TEST, 61, missing).values)


def test_the_past_alone_decides(name: str, missing: float) -> None:
    model, test = fitted(name, missing), recordings(name, TEST, 61, missing)
    found = model.forecast(test, HORIZON)
    values = test.values.copy()
    values[EDGE:43] = values[EDGE:43] + 100.0 if name in MEMBERS else np.roll(values[EDGE:43], 1, axis=1)
    changed = model.forecast(Trajectories(values, test.offsets), HORIZON)
    np.testing.assert_array_equal(changed[: EDGE + 1], found[: EDGE + 1])  # row EDGE is predicted from rows before it
    np.testing.assert_array_equal(changed[43:], found[43:])
    if name != "training mean":
        assert np.abs(changed[EDGE + 1 : 43] - found[EDGE + 1 : 43]).max() > 1e-3
    head = model.forecast(Trajectories.of(test[2].values[:9]), HORIZON)
    np.testing.assert_allclose(head, found[13:22], rtol=0, atol=1e-9)


def test_recordings_do_not_touch_each_other(name: str, missing: float) -> None:
    model, test = fitted(name, missing), recordings(name, TEST, 61, missing)
    found = test.unpacked(model.forecast(test, HORIZON))
    order = [2, 0, 3, 1]
    shuffled = test[order]
    for i, other in zip(order, shuffled.unpacked(model.forecast(shuffled, HORIZON)), strict=True):
        np.testing.assert_allclose(other, found[i], rtol=0, atol=1e-9)
        np.testing.assert_allclose(model.forecast(test[[i]], HORIZON), found[i], rtol=0, atol=1e-9)


def test_the_order_of_training_recordings_does_not_matter(name: str, missing: float) -> None:
    if name in FOLLOW_THE_ORDER:
        pytest.skip("trained by stochastic gradient")
    test = recordings(name, TEST, 61, missing)
    other = ALL[name](training(name, missing)[[3, 5, 0, 4, 2, 1]])
    found = fitted(name, missing).forecast(test, HORIZON)
    np.testing.assert_allclose(other.forecast(test, HORIZON), found, rtol=0, atol=1e-7)


def test_a_shorter_horizon_is_the_beginning_of_a_longer_one(name: str, missing: float) -> None:
    model, test = fitted(name, missing), recordings(name, TEST, 61, missing)
    found = model.forecast(test, HORIZON)
    for horizon in (1, 2, 3):
        np.testing.assert_allclose(model.forecast(test, horizon), found[:, :horizon], rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ALL)
def test_gaps_are_allowed_or_refused_clearly(name: str) -> None:
    model, test = fitted(name, 0.0), recordings(name, TEST, 62, 0.3)
    if name in REFUSE_GAPS:
        with pytest.raises(DataError, match=r"required .* received \d+ missing entries.* Use"):
            model.forecast(test, 1)
    else:
        assert np.isfinite(model.forecast(test, HORIZON)).all()


def test_a_horizon_beyond_the_fitted_one_is_refused_clearly() -> None:
    """All members but this one go on by feeding predictions back."""
    test = recordings("lagged", TEST, 61, 0.0)
    with pytest.raises(SettingsError, match="horizon: required a whole number from 1 to 4, received 5"):
        fitted("lagged", 0.0).forecast(test, HORIZON + 1)
    for name in MEMBERS.keys() - {"lagged", "tanh network", "gated network"}:
        assert fitted(name, 0.0).forecast(test, HORIZON + 3).shape == (50, HORIZON + 3, 2)
