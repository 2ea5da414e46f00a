"""Gaps filled from both sides: against brute force, statsmodels, and recordings whose gaps were cut by hand."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from psimlearn import PSIM, RandomFourierRidge, Trajectories
from psimlearn.datasets import noisy_pendulum, random_system
from psimlearn.errors import SettingsError
from psimlearn.filter import Filter, RandomFourier
from psimlearn.filter.innovations import innovations, memory
from psimlearn.filter.smooth import Reads, backward, forward, smooth

RNG = np.random.default_rng
GIVEN: dict[str, Any] = {"lags": 2, "prior": "mean", "belief_weight": 1.0, "random_state": 0}
"""Fixed settings: these tests are not about the choice of settings."""


@cache
def learnt(case: str) -> Filter:
    """A small linear filter; what is tested holds for any weights."""
    rng = RNG(3)
    system = random_system(RNG(1))
    if case == "exact":
        return system.predictive_filter(2)
    data = system.simulate(30, 30, rng)
    if "inputs" in case:
        data = Trajectories.of(list(data.unpacked(data.values)), rng.standard_normal((30, 30, 1)))
    settings: dict[str, Any] = {
        "lags": 3 if "lags" in case else 1,
        "prior": "last" if "last" in case else "mean",
        "level_weight": None,
        "rank": 3 if "rank" in case else None,
        "feedthrough": "feedthrough" in case,
        "box": False,
    }
    filter = PSIM(2, random_state=0, n_rounds=2, belief_weight=1.0, **settings).fit(data).filter_
    return replace(filter, opening=None)  # its covariance is dropped after some rows: see test_opening.py


CASES = ["exact", "plain", "lags", "lags last rank", "inputs lags", "inputs feedthrough last"]


def both_sides(filter: Filter, x: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Our smoother on one standardised recording."""
    model = innovations(filter)
    steps = forward(model, memory(filter, model, filter.start()), x, u)
    read = np.eye(model.n, model.s + model.n, model.s)
    move, variance = backward(model, steps, Reads(read, read))
    return np.array([step.taken.x[0] for step in steps]) + move, variance


def brute_force(filter: Filter, x: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Condition the joint Gaussian of all observations, built by pushing each unit of noise through the model."""
    rows, n = x.shape
    model = innovations(filter)

    def simulated(noise: np.ndarray) -> np.ndarray:
        S, out = memory(filter, model, filter.start()), []
        for t in range(rows):
            out.append(model.expected(S)[0] + noise[t])
            w = np.concatenate([S, out[-1][None]], axis=1)
            S = model.following(model.z(w, u[t : t + 1], np.array([t == 0])))
        return np.array(out)

    mean = simulated(np.zeros((rows, n)))
    response = [(simulated(unit.reshape(rows, n)) - mean).ravel() for unit in np.eye(rows * n)]
    noise = np.kron(np.eye(rows), model.noise)
    noise[:n, :n] = model.first_noise
    covariance = np.transpose(response) @ noise @ np.array(response)
    seen = ~np.isnan(x.ravel())
    gain = np.linalg.solve(covariance[np.ix_(seen, seen)], covariance[np.ix_(seen, ~seen)]).T
    values, variance = x.ravel().copy(), np.zeros(rows * n)
    values[~seen] = mean.ravel()[~seen] + gain @ (x.ravel() - mean.ravel())[seen]
    variance[~seen] = np.diag(covariance[np.ix_(~seen, ~seen)] - gain @ covariance[np.ix_(seen, ~seen)])
    return values.reshape(rows, n), variance.reshape(rows, n)


@pytest.mark.parametrize("case", CASES)
@settings(max_examples=25, deadline=None)
@given(missing=st.lists(st.booleans(), min_size=18, max_size=18), seed=st.integers(0, 1000))
def test_every_pattern_of_gaps_equals_brute_force(case: str, missing: list[bool], seed: int) -> None:
    filter = learnt(case)
    x, u = RNG(seed).standard_normal((9, 2)), RNG(seed).standard_normal((9, filter.feedthrough + 1))
    u = u[:, : 0 if filter.input_scaling is None else None]
    x[np.array(missing).reshape(9, 2)] = np.nan
    ours, expected = both_sides(filter, x, u), brute_force(filter, x, u)
    np.testing.assert_allclose(ours[0], expected[0], rtol=0, atol=1e-8)
    np.testing.assert_allclose(ours[1], expected[1], rtol=0, atol=1e-8)


def test_the_smoother_of_statsmodels_agrees() -> None:
    """The innovations model with the noise in the state: x_t = [H I] [S_t; e_t]."""
    from statsmodels.tsa.statespace.kalman_smoother import KalmanSmoother

    filter = learnt("exact")
    model = innovations(filter)
    x = RNG(0).standard_normal((40, 2))
    x[10:25, 0], x[18:20], x[0, 1] = np.nan, np.nan, np.nan
    s, n = model.s, model.n
    T = model.transition(np.zeros((1, 0)), np.array([False]))
    theirs = KalmanSmoother(k_endog=n, k_states=s + n, k_posdef=n)
    theirs["design"] = np.concatenate([model.H, np.eye(n)], axis=1)
    theirs["transition"] = np.block([[T[:, :s] + T[:, s:] @ model.H, T[:, s:]], [np.zeros((n, s + n))]])
    theirs["selection"] = np.eye(s + n, n, -s)
    theirs["state_cov"] = model.noise
    theirs.bind(np.asfortranarray(x.T))
    first = np.zeros((s + n, s + n))
    first[s:, s:] = model.noise
    theirs.initialize_known(np.concatenate([memory(filter, model, filter.start())[0], np.zeros(n)]), first)
    result = theirs.smooth()
    design = theirs["design"]
    mean, variance = both_sides(filter, x, np.zeros((40, 0)))
    np.testing.assert_allclose(mean, (design @ result.smoothed_state).T, rtol=0, atol=1e-8)
    spread = np.einsum("ij,jkt,ik->ti", design, result.smoothed_state_cov, design)
    np.testing.assert_allclose(variance, np.where(np.isnan(x), spread, 0.0), rtol=0, atol=1e-8)


def test_the_slope_of_random_features_equals_finite_differences() -> None:
    data = noisy_pendulum(20, 30, RNG(0))
    learner = RandomFourierRidge(20, 1e-3)
    filter = PSIM(2, learner=learner, n_rounds=2, **GIVEN).fit(data).filter_
    map, z = innovations(filter).map, RNG(1).standard_normal((1, 8))
    assert isinstance(map, RandomFourier)
    slope = map.slope(z)[0]
    for i, step in enumerate(1e-6 * np.eye(8)):
        np.testing.assert_allclose(slope[:, i], ((map(z + step) - map(z - step)) / 2e-6)[0], rtol=0, atol=1e-8)


def test_a_gap_is_filled_better_from_both_sides_than_from_one() -> None:
    """One sensor out for ten rows: smoothed against filtered, with the bands that the model claims.

    A hundred gaps would be too few to tell 90 % from 93 %.
    """
    system = random_system(RNG(5), radius=0.97, noise=0.1)
    model = PSIM(3, n_rounds=4, **GIVEN).fit(system.simulate(100, 60, RNG(0)))
    whole = system.simulate(300, 36, RNG(1)).values.reshape(300, 36, 2)
    cut = whole.copy()
    cut[:, 16:26, 0] = np.nan
    mean, low, high = model.smooth(cut, coverage=0.9)
    gap = (slice(None), slice(16, 26), 0)
    filtered = model.predict(cut)[gap]
    smoothed_error, filtered_error = (np.mean((guess - whole[gap]) ** 2) for guess in (mean[gap], filtered))
    assert smoothed_error < 0.8 * filtered_error
    assert 0.87 < np.mean((low[gap] <= whole[gap]) & (whole[gap] <= high[gap])) < 0.93
    seen = ~np.isnan(cut)
    np.testing.assert_array_equal(mean[seen], cut[seen])
    np.testing.assert_array_equal(low[seen], high[seen])


def test_forms_come_back_as_they_went_in() -> None:
    import pandas as pd

    data = noisy_pendulum(20, 30, RNG(0))
    model = PSIM(2, n_rounds=1, **GIVEN).fit(list(data.unpacked(data.values)))
    recordings = [part.copy() for part in data.unpacked(data.values)[:2]]
    recordings[0][4:6] = np.nan
    filled = model.impute(recordings)
    assert [part.shape for part in filled] == [(30, data.n_channels)] * 2
    np.testing.assert_array_equal(filled[1], recordings[1])
    assert np.isfinite(filled[0]).all()
    frame = pd.DataFrame(recordings[0], index=pd.RangeIndex(5, 35))
    framed = model.impute(frame)
    assert framed.index.equals(frame.index)
    np.testing.assert_array_equal(framed.to_numpy(), filled[0])
    mean, std = model.smooth(recordings[0], return_std=True)
    np.testing.assert_array_equal(mean, filled[0])
    assert (std[4:6] > 0).all()
    assert np.delete(std, [4, 5], axis=0).max() == 0
    assert np.isnan(recordings[0][4:6]).all()  # the caller's array is left alone


def test_filters_that_cannot_be_smoothed_are_refused() -> None:
    from sklearn.neighbors import KNeighborsRegressor

    data = noisy_pendulum(20, 30, RNG(0))
    opaque = PSIM(2, learner=KNeighborsRegressor(3), n_rounds=1, **GIVEN).fit(data)
    with pytest.raises(
        SettingsError, match=r"required a linear filter or one of random features.*received 1 of BlackBox"
    ):
        opaque.impute(data)
    with pytest.raises(SettingsError, match="required a calibrated filter"):
        smooth(learnt("exact"), data)
