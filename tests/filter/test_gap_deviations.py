"""Standard deviations grow in a gap and shrink after it, for linear filters and random features."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from psimlearn import PSIM, RandomFourierRidge, Trajectories
from psimlearn.datasets import noisy_pendulum, random_system
from psimlearn.evaluate.calibrate import HORIZON
from psimlearn.filter import Filter
from psimlearn.filter.live import Live
from psimlearn.filter.predict import foretold

RNG = np.random.default_rng
QUICK: dict[str, Any] = {"lags": 1, "prior": "mean", "belief_weight": 1.0, "n_rounds": 2, "random_state": 0}
KINDS = ["linear", "random features"]
SYSTEM = random_system(RNG(5), radius=0.97, noise=0.1)


@cache
def fitted(kind: str) -> PSIM:
    if kind == "linear":
        return PSIM(2, **QUICK).fit(SYSTEM.simulate(100, 40, RNG(0)))
    return PSIM(2, learner=RandomFourierRidge(30, 1e-4), **QUICK).fit(noisy_pendulum(60, 40, RNG(0)))


def recordings(kind: str, m: int = 1, rows: int = 60) -> np.ndarray:
    data = SYSTEM.simulate(m, rows, RNG(1)) if kind == "linear" else noisy_pendulum(m, rows, RNG(1))
    return np.asarray(data.values.reshape(m, rows, -1)).copy()


def deviations(filter: Filter, x: np.ndarray) -> np.ndarray:
    """The standard deviation of every row of one recording before it arrives."""
    return foretold(filter, Trajectories.of([x]), 1).std[:, 0]


@pytest.mark.parametrize("kind", KINDS)
def test_deviations_grow_in_a_gap_of_one_channel_and_shrink_after_it(kind: str) -> None:
    filter, x = fitted(kind).filter_, recordings(kind)[0]
    cut = x.copy()
    cut[20:35, 0] = np.nan
    calm, std = deviations(filter, x), deviations(filter, cut)
    np.testing.assert_array_equal(std[:21], calm[:21])  # the gap begins with row 20, which is not seen yet
    assert (std[21:36] > calm[21:36]).all()
    assert (std[30:36, 0] > 1.1 * calm[30:36, 0]).all()
    assert std[59] == pytest.approx(calm[59], rel=1e-3)
    assert (std[38, 0] - calm[38, 0]) < 0.5 * (std[35, 0] - calm[35, 0])
    if kind == "linear":  # the covariance rises with every row of one pattern, whatever is seen
        assert (np.diff(std[20:36], axis=0) >= -1e-12).all()


@pytest.mark.parametrize("kind", KINDS)
def test_live_streams_say_the_same_and_likelihoods_follow(kind: str) -> None:
    """An error of one size is less surprising for a channel that is back after a gap."""
    filter, x = fitted(kind).filter_, recordings(kind)[0]
    live, calm = Live(filter), Live(filter)
    cut = x.copy()
    cut[20:35, 0] = np.nan
    std = deviations(filter, cut)
    for t in range(35):
        np.testing.assert_allclose(live.predict(return_std=True)[1], std[t], rtol=0, atol=1e-10)
        live.update(cut[t])
        calm.update(x[t])
    surprise = []
    for stream in (live, calm):
        odd = stream.predict() + np.array([4 * std[0, 0], 0.0])
        stream.update(odd)
        surprise.append(stream.log_likelihood)
    assert surprise[0] > surprise[1] + 1


def test_intervals_in_and_after_a_gap_of_one_channel_cover() -> None:
    """Measured on 300 recordings: .91 and .90 in the gap, .89 and .89 after it."""
    x = recordings("linear", 300)
    cut = x.copy()
    cut[:, 20:35, 0] = np.nan
    low, high = fitted("linear").predict_interval(cut, 1, 0.9)
    held = (low <= x) & (x <= high)
    for rows in (slice(21, 36), slice(36, 42)):
        share = held[:, rows].mean(axis=(0, 1))
        assert (share > 0.86).all(), share
        assert (share < 0.94).all(), share


@pytest.mark.parametrize("gaps", ["exact", "filled"])
@pytest.mark.parametrize("kind", KINDS)
def test_forecasts_beyond_the_calibrated_horizon_have_deviations(kind: str, gaps: Any) -> None:
    filter = replace(fitted(kind).filter_, gaps=gaps)
    assert filter.calibration is not None
    last = 2 + HORIZON
    assert filter.calibration.furthest == last
    live = Live(filter, 2)
    for row in recordings(kind, 2, 12).swapaxes(0, 1):
        live.update(row)
    mean, std = live.forecast(3 * last, return_std=True)
    assert std.shape == mean.shape
    assert np.isfinite(std).all()
    assert (np.diff(std[:, last - 1 :], axis=1) >= 0).all()
    np.testing.assert_array_equal(live.forecast(last, return_std=True)[1], std[:, :last])
    _, low, high = live.forecast(3 * last, coverage=0.9)
    assert (np.diff((high - low)[:, last - 1 :], axis=1) >= -1e-12).all()
    live.update(np.full((2, low.shape[2]), np.nan))  # a gap adds to horizons beyond the last as well
    after = live.forecast(3 * last, return_std=True)[1]
    assert np.isfinite(after).all()


@pytest.mark.parametrize("kind", KINDS)
def test_filled_gaps_widen_by_rows_in_which_nothing_was_seen(kind: str) -> None:
    """One missing channel is a guess that counts as observed; whole rows count as a longer horizon."""
    filter, x = replace(fitted(kind).filter_, gaps="filled"), recordings(kind)[0]
    cut = x.copy()
    cut[20:35, 0], cut[50:53] = np.nan, np.nan
    state = filter.run(Trajectories.of([cut[:53]]))[1]
    assert state.doubt is None
    np.testing.assert_array_equal(state.unseen, [3])
    std = deviations(filter, cut)
    np.testing.assert_array_equal(std[21:50], deviations(filter, x)[21:50])
    ahead = filter.predict(filter.run(Trajectories.of([x[:50]]))[1], 5).std[0]
    np.testing.assert_allclose(std[50:54], ahead[:4], rtol=1e-12)
    np.testing.assert_allclose(filter.predict(state, 2).std[0], ahead[3:5], rtol=1e-12)
    np.testing.assert_array_equal(std[54], std[45])
    live = Live(filter)
    for t, row in enumerate(cut):
        np.testing.assert_allclose(live.predict(return_std=True)[1], std[t], rtol=0, atol=1e-10)
        live.update(row)
        assert live.doubt is None
