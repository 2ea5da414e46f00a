"""Smaller filters: their rank, their predictions on other recordings, and everything that a filter does."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from oracles import ragged
from psimlearn import PSIM
from psimlearn.datasets import random_system
from psimlearn.errors import SettingsError
from psimlearn.filter import Feedback, Filter, Linear, Stack, StackSquares
from psimlearn.filter.reduction import _directions
from psimlearn.filter.statespace import StateSpace
from psimlearn.learners import Ridge
from psimlearn.recordings.trajectories import Trajectories
from random_filters import RNG, WINDOW, N, drawn, made, one_by_one


def wasteful(order: int, n: int, window: int) -> tuple[Filter, Trajectories]:
    """A Kalman filter that feeds back all of its belief, though few directions of it matter; and recordings."""
    system = random_system(RNG(order), order, n)
    filter = StateSpace.of_kalman(system.A, system.C, system.Q, system.R).to_filter(window)
    feedback, (regressor,) = filter.feedback, filter.regressors
    assert isinstance(regressor, Linear)
    assert feedback.directions is not None
    weights = np.vstack([feedback.directions @ regressor.weights[:order], regressor.weights[order:]])
    intercept = regressor.intercept + feedback.shift @ regressor.weights[:order]
    d = len(filter.initial)
    filter = replace(filter, regressors=(Linear(weights, intercept),), feedback=Feedback(np.zeros(d), np.ones(d), 1.0))
    return filter, system.simulate(20, 100, RNG(1))


@pytest.mark.parametrize(("order", "n", "window"), [(3, 2, 4), (5, 3, 4)])
def test_the_order_of_the_system_is_found(order: int, n: int, window: int) -> None:
    filter, data = wasteful(order, n, window)
    smaller = filter.reduced(1e-7)
    assert len(smaller.feedback.mean) == order < len(filter.feedback.mean)
    np.testing.assert_allclose(smaller.run(data)[0], filter.run(data)[0], rtol=0, atol=1e-6)


@pytest.mark.parametrize("tolerance", [0.3, 0.05, 0.01])
def test_predictions_differ_by_less_than_the_tolerance_on_other_recordings(tolerance: float) -> None:
    filter, data = wasteful(8, 3, 5)
    smaller = filter.reduced(tolerance)
    assert len(smaller.feedback.mean) < 8
    slow, fast = one_by_one(filter, data), one_by_one(smaller, data)
    x = filter.scaling(data.values)
    apart, error = np.sqrt(np.mean((slow - fast)[:, :3] ** 2)), np.sqrt(np.mean((x - slow[:, :3]) ** 2))
    assert apart <= 1.5 * tolerance * error  # the filter compared them on recordings that it simulated
    on_data = filter.reduced(tolerance, data)
    apart = np.sqrt(np.mean((slow - one_by_one(on_data, data))[:, :3] ** 2))
    assert apart <= 1.01 * tolerance * error


def test_smaller_filters_have_inputs_lags_boxes_hints_and_gaps() -> None:
    ranks = []
    for seed, (inputs, lags, prior, rank, box) in enumerate(
        product(["none", "inputs", "feedthrough"], [1, 3], ["mean", "last"], [False, True], [False, True])
    ):
        filter = made("linear", Stack(WINDOW), inputs, lags, prior, rank, False, seed)
        data = ragged([40, 30], N, RNG(seed), 0.0)
        if inputs != "none":
            data = replace(data, inputs=RNG(seed + 1).standard_normal((len(data.values), 1)))
        if box:  # wide enough not to clip
            r = len(filter.feedback.mean)
            filter = replace(filter, feedback=filter.feedback._replace(low=np.full(r, -9.0), high=np.full(r, 9.0)))
        smaller = filter.reduced(0.05, data)
        ranks.append(len(filter.feedback.mean) - len(smaller.feedback.mean))
        assert (smaller.feedback.low is None) == (filter.feedback.low is None or (smaller is filter and not box))
        apart = one_by_one(smaller, data) - one_by_one(filter, data)
        unit = np.sqrt(np.diag(filter.covariance))
        error = (filter.scaling(data.values) - one_by_one(filter, data)[:, :N]) / unit
        assert np.sqrt(np.mean((apart[:, :N] / unit) ** 2)) <= 0.05 * np.sqrt(np.mean(error**2))
        gappy = drawn(True, inputs, seed)
        np.testing.assert_allclose(smaller.run(gappy)[0], one_by_one(smaller, gappy), rtol=0, atol=1e-10)
    assert min(ranks) >= 0
    assert np.mean(ranks) > 0.5


def test_a_smaller_model_is_saved_with_its_intervals_and_learns_no_more(tmp_path: Path) -> None:
    data = wasteful(3, 2, 4)[1][:8]
    model = PSIM(window=4, learner=Ridge(1e-3), n_rounds=1, lags=1, init="history", belief_weight=1.0).fit(data)
    smaller = model.reduced(0.05, data)
    r = len(smaller.filter_.feedback.mean)
    assert r < len(model.filter_.feedback.mean)
    assert model.sums_ is not None  # the model itself stays as it was
    path = tmp_path / "small.psim"
    smaller.save(path)
    again = PSIM.load(path)
    assert len(again.filter_.feedback.mean) == r
    for a, b in zip(again.predict_interval(data), smaller.predict_interval(data), strict=True):
        np.testing.assert_array_equal(np.concatenate(a), np.concatenate(b))
    x = np.concatenate(list(model.predict(data)))
    apart = np.sqrt(np.mean((x - np.concatenate(list(smaller.predict(data)))) ** 2))
    assert 0 < apart < 0.1 * np.sqrt(np.mean((x - data.values) ** 2))
    with pytest.raises(SettingsError, match="sums"):
        smaller.partial_fit(data)


def test_what_cannot_be_reduced_is_refused() -> None:
    with pytest.raises(SettingsError, match="linear filter"):
        made("waves", Stack(WINDOW), "none", 1, "mean", False, True, 0).reduced()
    with pytest.raises(SettingsError, match="linear filter"):
        made("variances", StackSquares(WINDOW), "none", 1, "mean", False, True, 0).reduced()
    filter = made("linear", Stack(WINDOW), "none", 1, "mean", False, False, 0)
    for tolerance in (0.0, 1.0, float("nan")):
        with pytest.raises(SettingsError, match="tolerance"):
            filter.reduced(tolerance)
    (regressor,) = filter.regressors
    assert isinstance(regressor, Linear)
    grows = replace(filter, regressors=(replace(regressor, weights=30 * regressor.weights),))
    with pytest.raises(SettingsError, match="forgets"):
        grows.reduced()
    nothing = replace(filter, feedback=filter.feedback._replace(weight=0.0))
    assert nothing.reduced() is nothing


def test_directions_of_what_is_fed_back_have_no_second_moments_in_common() -> None:
    """Balanced: in the directions found, the second moments of what is fed back are a diagonal matrix that falls."""
    filter = random_system(RNG(0)).predictive_filter(2)
    fed = RNG(1).standard_normal((50, 4)) @ RNG(2).standard_normal((4, 4))
    found = _directions(filter, fed, np.ones(2))
    fed_again = fed @ found.into.T
    moments = fed_again.T @ fed_again / len(fed)
    sizes = np.diag(moments)
    np.testing.assert_allclose(moments, np.diag(sizes), rtol=0, atol=1e-10 * sizes[0])
    assert (np.diff(sizes) <= 0).all()
    np.testing.assert_allclose(found.into @ found.back, np.eye(len(found.into)), atol=1e-10)
