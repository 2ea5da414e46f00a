"""Calibration of long and of many recordings: in bounded memory, from rows spread over all of them."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from psimlearn import PSIM, Ridge
from psimlearn.evaluate import calibrate
from psimlearn.evaluate.calibrate import thinned, with_calibration
from psimlearn.filter import Filter, Linear, Scaling, Stack
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.train import best, dagger
from small import ONE, with_inputs

pytestmark = pytest.mark.usefixtures("unchecked")
RNG = np.random.default_rng


def noise(rows: int, n: int = 2, growth: float = 1.0) -> np.ndarray:
    """An autoregression whose noise grows evenly to `growth` times its size."""
    w = RNG(0).standard_normal((rows, n)) * np.linspace(1, growth, rows)[:, None]
    x = np.zeros((rows, n))
    for t in range(1, rows):
        x[t] = 0.5 * x[t - 1] + w[t]
    return x


def learnt(data: Trajectories, window: int = 2) -> Filter:
    return best(dagger(data, data, Stack(window), Ridge(1e-3), rng=RNG(0), n_rounds=1)).filter


def test_one_long_recording_is_thinned_over_its_whole_length() -> None:
    counting = Trajectories.of(np.arange(100_000.0)[:, None])
    some = thinned(counting, 9_000)
    assert 8_000 < len(some.values) <= 9_000
    firsts = some.values[some.offsets[:-1], 0]
    assert len(firsts) >= 20
    assert firsts[0] < 3_000
    assert firsts[-1] > 95_000
    assert np.ptp(np.diff(firsts)) <= 450  # stretches of 450 rows, spread evenly up to one
    assert all((np.diff(part.values[:, 0]) == 1).all() for part in some)


@pytest.mark.parametrize("lengths", [np.full(1000, 30), np.arange(1, 1000), np.array([5, 20_000, 5, 5])])
def test_many_recordings_are_thinned_evenly_and_stay_whole_if_short(lengths: np.ndarray) -> None:
    data = Trajectories.of([np.full((length, 1), float(i)) for i, length in enumerate(lengths)])
    some = thinned(data, 3_000)
    assert 0.6 * 3_000 < len(some.values) <= 3_000
    assert abs(np.median(some.values) - np.median(data.values)) < 0.05 * len(lengths)
    assert thinned(data, len(data.values)) is data


def test_what_comes_late_counts_as_what_comes_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors that grow to five times their size; the first rows alone would tell of the smallest ones."""
    data = Trajectories.of(noise(20_000, growth=5.0))
    filter = learnt(data)
    every = with_calibration(filter, [(filter, data)]).calibration
    monkeypatch.setattr(calibrate, "MOST_ENTRIES", 4_000 * 22 * 2)
    some = with_calibration(filter, [(filter, data)]).calibration
    assert every is not None
    assert some is not None
    np.testing.assert_allclose(some.base, every.base, rtol=0.1)
    np.testing.assert_allclose(some.reach(np.array([1, 5]), 0.9), every.reach(np.array([1, 5]), 0.9), rtol=0.1)


@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_recordings_together_or_some_at_a_time_are_the_same(missing: float, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = noise(3_000)
    rows[RNG(1).random(rows.shape) < missing] = np.nan
    data = Trajectories.of(np.split(rows, [40, 90, 400, 600, 1500, 1503]))
    filter = learnt(data)
    monkeypatch.setattr(calibrate, "CHUNK", 10**9)
    whole = with_calibration(filter, [(filter, data)], [(filter, data)])
    monkeypatch.setattr(calibrate, "CHUNK", 100 * 22 * 2)
    parts = with_calibration(filter, [(filter, data)], [(filter, data)])
    assert whole.starting is not None
    assert parts.starting is not None
    np.testing.assert_allclose(parts.covariance, whole.covariance, rtol=1e-10)
    for ours, theirs in zip(parts.calibration or (), whole.calibration or (), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9)
    np.testing.assert_allclose(parts.starting.ratio, whole.starting.ratio, rtol=1e-9)


def test_memory_is_bounded_by_the_errors_kept_not_by_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibrate, "MOST_ENTRIES", 300_000)
    monkeypatch.setattr(calibrate, "CHUNK", 100_000)
    monkeypatch.setattr(calibrate, "MOST_SITUATIONS", 2_000)
    filter, peaks = learnt(Trajectories.of(noise(1_000))), []
    for rows in (20_000, 80_000):
        data = Trajectories.of(noise(rows))
        tracemalloc.start()
        with_calibration(filter, [(filter, data)], [(filter, data)])
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0] + 2 * data.values.nbytes
    assert peaks[1] < 8 * 8 * 300_000 + 2 * data.values.nbytes


def exact(feedthrough: bool) -> Filter:
    """Of x_{t+1} = .5 x_t + u_t, or + u_{t+1} with feed-through: both rows of the belief come from the last row."""
    filter = PSIM(**ONE, feedthrough=feedthrough).fit(with_inputs(10, feedthrough)).filter_
    one = Scaling(np.zeros(1), np.ones(1))
    of_inputs = [[0.0, 0.0], [1.0, 0.5]] if feedthrough else [[1.0, 0.5]]
    weights = np.array([[0.0, 0.0], [0.0, 0.0], [0.5, 0.25], *of_inputs])
    regressor = Linear(weights, np.zeros(2))
    filter = replace(filter, scaling=one, input_scaling=one, initial=np.zeros(2), centre=np.zeros(2))
    return replace(filter, regressors=(regressor,))


@pytest.mark.parametrize("feedthrough", [False, True])
def test_inputs_that_are_not_known_count_as_errors(feedthrough: bool) -> None:
    """Mean squares of all rows from the fifth on, by numpy: the three kinds of knowledge must not be mixed up.

    What is not known is left out two steps ahead, and with feed-through the inputs of the last row stand for the next.
    """
    filter, data = exact(feedthrough), with_inputs(400, feedthrough, seed=3)
    found = with_calibration(filter, [(filter, data)], [(filter, data)])
    assert data.inputs is not None
    x, u = (values.reshape(400, 15) for values in (data.values, data.inputs))

    def base(near: np.ndarray, far: np.ndarray) -> list[float]:
        """Of what is not explained one and two steps ahead by these inputs, rows 5 to 14."""
        return [
            np.mean((x[:, 5:] - 0.5 * x[:, 4:-1] - near) ** 2),
            np.mean((x[:, 6:] - 0.25 * x[:, 4:-2] - 0.5 * far[:, :-1]) ** 2),
        ]

    last, now = base(u[:, 4:-1], u[:, 4:-1]), base(u[:, 5:], u[:, 5:])
    assert found.calibration is not None
    assert found.calibration_blind is not None
    np.testing.assert_allclose(found.calibration_blind.base[:, 0], last, rtol=1e-9)
    np.testing.assert_allclose(last, [2.0, 1.5] if feedthrough else [0.0, 1.0], rtol=0.05, atol=1e-3)
    assert (found.calibration.base[:2] < 1e-3).all()
    if not feedthrough:
        assert found.calibration_next is None
    else:
        assert found.calibration_next is not None
        np.testing.assert_allclose(found.calibration_next.base[:, 0], now, rtol=1e-9)
        np.testing.assert_allclose(now, [0.0, 1.0], rtol=0.05, atol=1e-3)
