"""The two guesses by hand; the Kalman filters against two libraries and against plain Gaussian conditioning."""

import numpy as np
import pytest
from filterpy.kalman import KalmanFilter as FilterpyKalman
from statsmodels.tsa.statespace.kalman_filter import KalmanFilter as StatsmodelsKalman

from psimlearn.baselines import LastObservation, TrainingMean
from psimlearn.datasets import LinearSystem, long_memory_system, random_system
from psimlearn.evaluate import Forecaster
from psimlearn.recordings.trajectories import Trajectories

NAN = np.nan
WIDE = np.array([[4.0, 1.0, 0.0], [1.0, 3.0, 0.5], [0.0, 0.5, 2.0]])  # a start that is not the stationary one


def with_gaps(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A third of the entries missing, one row whole and one gone."""
    out = np.where(rng.random(x.shape) < 1 / 3, NAN, x)
    out[0], out[3] = x[0], NAN
    return out


def by_filterpy(system: LinearSystem, start: np.ndarray, x: np.ndarray) -> np.ndarray:
    """C A s_{t-1|t-1} for the prediction of x_t; C mean for the first."""
    library = FilterpyKalman(dim_x=len(system.A), dim_z=len(system.C))
    library.F, library.H, library.Q, library.R = system.A, system.C, system.Q, system.R
    library.x, library.P = system.mean[:, None].copy(), start.copy()
    predicted = [system.C @ system.mean]
    for row in x[:-1]:
        library.update(row[:, None])  # s_{t|t}
        predicted.append(system.C @ system.A @ library.x[:, 0])
        library.predict()
    return np.array(predicted)


def by_statsmodels(system: LinearSystem, start: np.ndarray, x: np.ndarray) -> np.ndarray:
    """E[s_t | what was seen of x_0 .. x_{t-1}]."""
    n_states, n = system.S.shape
    library = StatsmodelsKalman(n, n_states, tolerance=0)
    library["design"], library["transition"], library["selection"] = system.C, system.A, np.eye(n_states)
    library["obs_cov"], library["state_cov"] = system.R, system.Q
    library.bind(np.array(x))
    library.initialize_known(system.mean, start)
    states: np.ndarray = library.filter().predicted_state.T[:-1]
    return states


def by_conditioning(system: LinearSystem, start: np.ndarray, x: np.ndarray, horizon: int) -> np.ndarray:
    """E[x_{t+j} | what was seen of x_0 .. x_{t-1}]: all rows as one matrix times (s_0, w_0, v_0, w_1, v_1, ..)."""
    (n_states, n), T = system.S.shape, len(x)
    total = T + horizon - 1
    noise = np.block([[system.Q, system.S], [system.S.T, system.R]])
    width = n_states + total * (n_states + n)
    source = np.zeros((width, width))
    source[:n_states, :n_states] = start
    state, rows, means = np.eye(n_states, width), [], []
    for t in range(total):
        w = slice(n_states + t * (n_states + n), 2 * n_states + t * (n_states + n))
        v = slice(w.stop, w.stop + n)
        source[w.start : v.stop, w.start : v.stop] = noise
        row = system.C @ state
        row[:, v] += np.eye(n)
        state = system.A @ state
        state[:, w] += np.eye(n_states)
        rows.append(row)
        means.append(system.C @ np.linalg.matrix_power(system.A, t) @ system.mean)
    mean, covariance = np.concatenate(means), np.concatenate(rows) @ source @ np.concatenate(rows).T
    out = np.empty((T, horizon, n))
    for t in range(T):
        seen = np.flatnonzero(~np.isnan(x[:t].ravel()))
        weights = np.linalg.solve(covariance[np.ix_(seen, seen)], (x[:t].ravel() - mean[: t * n])[seen])
        coming = slice(t * n, (t + horizon) * n)
        out[t] = (mean[coming] + covariance[coming, seen] @ weights).reshape(horizon, n)
    return out


def test_training_mean_by_hand() -> None:
    train = Trajectories.of([np.array([[1.0, 10.0], [2.0, NAN]]), np.array([[6.0, 30.0]])])
    guess = TrainingMean.fit(train)
    np.testing.assert_array_equal(guess.forecast(train, 2), np.broadcast_to([3.0, 20.0], (3, 2, 2)))


def test_last_observation_by_hand() -> None:
    mean = np.array([-1.0, -2.0])
    guess = LastObservation(mean)
    first = np.array([[1.0, NAN], [NAN, NAN], [3.0, 7.0], [NAN, 8.0], [5.0, 9.0]])
    second = np.array([[NAN, 20.0], [11.0, 21.0]])
    third = np.array([[31.0, 32.0]])
    expected = [
        *([-1, -2], [1, -2], [1, -2], [3, 7], [3, 8]),  # what each channel showed last, before the row
        *([-1, -2], [-1, 20]),
        [-1, -2],
    ]
    found = guess.forecast(Trajectories.of([first, second, third]), 3)
    np.testing.assert_array_equal(found, np.repeat(np.array(expected, dtype=float)[:, None], 3, axis=1))


def test_last_observation_learns_only_the_mean() -> None:
    train = Trajectories.of(np.array([[1.0, NAN], [3.0, 5.0]]))
    np.testing.assert_array_equal(LastObservation.fit(train).mean, [2, 5])


@pytest.mark.parametrize("seed", range(4))
def test_kalman_is_filterpys(seed: int) -> None:
    rng = np.random.default_rng(seed)
    system = random_system(rng)
    x = system.simulate(1, 60, rng)
    pairs: list[tuple[Forecaster, np.ndarray]] = [
        (system.kalman(), system.stationary.P),
        (system.time_varying_kalman(WIDE), WIDE),
    ]
    for forecaster, start in pairs:
        expected = by_filterpy(system, start, x.values)
        np.testing.assert_allclose(forecaster.forecast(x, 1)[:, 0], expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("seed", range(4))
def test_kalman_is_statsmodels(seed: int) -> None:
    rng = np.random.default_rng(10 + seed)
    system = random_system(rng, n_states=3, n_outputs=1 + seed)
    x = system.simulate(1, 60, rng)
    stationary = system.kalman().states(x)
    np.testing.assert_allclose(stationary, by_statsmodels(system, system.stationary.P, x.values), rtol=0, atol=1e-8)
    gappy = Trajectories.of(with_gaps(x.values, rng))
    for recording in (x, gappy):
        expected = by_statsmodels(system, WIDE, recording.values)
        found = system.time_varying_kalman(WIDE)
        np.testing.assert_allclose(found.states(recording), expected, rtol=0, atol=1e-8)
        ahead = np.stack([system.C @ system.A @ system.A @ s for s in expected])
        np.testing.assert_allclose(found.forecast(recording, 3)[:, 2], ahead, rtol=0, atol=1e-8)


@pytest.mark.parametrize("gaps", [False, True])
def test_kalman_with_correlated_noises_is_conditioning(gaps: bool) -> None:
    rng = np.random.default_rng(20)
    system = long_memory_system()
    assert np.abs(system.S).max() > 1  # without it this would be no test
    x = system.simulate(1, 6, rng, WIDE).values
    recording = Trajectories.of(with_gaps(x, rng) if gaps else x)
    expected = by_conditioning(system, WIDE, recording.values, 3)
    found = system.time_varying_kalman(WIDE).forecast(recording, 3)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8)


def test_stationary_kalman_with_correlated_noises_is_conditioning() -> None:
    rng = np.random.default_rng(21)
    root = rng.standard_normal((5, 5))
    noise = root @ root.T + 0.2 * np.eye(5)
    plain = random_system(rng)
    correlated = LinearSystem(plain.A, plain.C, noise[:3, :3], noise[3:, 3:], noise[:3, 3:], plain.mean)
    for system in (long_memory_system(), correlated):
        x = system.simulate(1, 6, rng)
        expected = by_conditioning(system, system.stationary.P, x.values, 3)
        np.testing.assert_allclose(system.kalman().forecast(x, 3), expected, rtol=0, atol=1e-8)


def test_both_kalman_filters_agree_from_the_stationary_start() -> None:
    system = long_memory_system()
    x = system.simulate(5, 40, np.random.default_rng(22))
    np.testing.assert_allclose(system.time_varying_kalman().states(x), system.kalman().states(x), rtol=0, atol=1e-9)
