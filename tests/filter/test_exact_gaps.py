"""With the exact weights of a known system, a filter is its Kalman filter, whatever is missing."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal
from statsmodels.tsa.statespace.kalman_filter import KalmanFilter

from psimlearn.datasets import LinearSystem, random_system
from psimlearn.filter import Filter
from psimlearn.filter.predict import foretold
from psimlearn.filter.uncertainty import LEVELS, Calibration
from psimlearn.recordings.trajectories import Trajectories

RNG = np.random.default_rng
ROWS, HORIZON = 8, 5
SHAPES = [(3, 2, 2), (4, 3, 2), (2, 1, 3)]
"""States, outputs and windows of systems."""


@cache
def known(shape: tuple[int, int, int]) -> tuple[LinearSystem, Filter]:
    """A system, and its filter with the variances that errors have where nothing is missing."""
    n_states, n_outputs, window = shape
    system = random_system(RNG(n_states), n_states, n_outputs)
    P, base = system.stationary.P, []
    for _ in range(HORIZON):
        base.append(np.diag(system.C @ P @ system.C.T + system.R))
        P = system.A @ P @ system.A.T + system.Q
    gaussian = np.broadcast_to(np.linspace(0.01, 3.0, len(LEVELS))[:, None, None], (len(LEVELS), *np.shape(base)))
    calibration = Calibration(np.array(base), np.zeros(np.shape(base)), gaussian.copy())
    return system, replace(system.predictive_filter(window), calibration=calibration)


@cache
def joint(shape: tuple[int, int, int]) -> tuple[np.ndarray, np.ndarray]:
    """The mean and the covariance of all rows of a recording and of the rows after it, side by side."""
    system, _ = known(shape)
    rows, (d, n) = ROWS + HORIZON, system.S.shape
    # every state and row as a linear map of the first state and of all noises
    state, maps = np.eye(d, d + rows * (d + n)), []
    for t in range(rows):
        row = system.C @ state
        first = d + t * (d + n)
        row[:, first + d : first + d + n] += np.eye(n)
        maps.append(row)
        state = system.A @ state
        state[:, first : first + d] += np.eye(d)
    noise = np.block([[system.Q, system.S], [system.S.T, system.R]])
    of_all = np.zeros((d + rows * (d + n),) * 2)
    of_all[:d, :d], of_all[d:, d:] = system.stationary.P, np.kron(np.eye(rows), noise)
    M = np.concatenate(maps)
    return M[:, :d] @ system.mean, M @ of_all @ M.T


def by_brute_force(
    shape: tuple[int, int, int], x: np.ndarray
) -> tuple[list[np.ndarray], list[np.ndarray], list[float]]:
    """Means and variances of the next rows before every row, and its log-likelihood, from the joint Gaussian."""
    mean, covariance = joint(shape)
    n = x.shape[1]
    flat = np.concatenate([x.ravel(), np.full(HORIZON * n, np.nan)])
    means, variances, nats = [], [], []
    for t in range(len(x)):
        seen = np.flatnonzero(~np.isnan(flat[: t * n]))
        ahead = np.arange(t * n, (t + HORIZON) * n)
        gain = np.linalg.solve(covariance[np.ix_(seen, seen)], covariance[np.ix_(seen, ahead)]).T
        expected = mean[ahead] + gain @ (flat - mean)[seen]
        spread = covariance[np.ix_(ahead, ahead)] - gain @ covariance[np.ix_(seen, ahead)]
        means.append(expected.reshape(HORIZON, n))
        variances.append(np.diag(spread).reshape(HORIZON, n))
        o = np.flatnonzero(~np.isnan(x[t]))
        nats.append(float(multivariate_normal.logpdf(x[t, o], expected[o], spread[np.ix_(o, o)])) if len(o) else 0.0)
    return means, variances, nats


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@settings(max_examples=40, deadline=None)
@given(missing=st.lists(st.booleans(), min_size=3 * ROWS, max_size=3 * ROWS), seed=st.integers(0, 1000))
def test_every_pattern_of_gaps_equals_the_joint_gaussian(
    shape: tuple[int, int, int], missing: list[bool], seed: int
) -> None:
    system, filter = known(shape)
    x = system.simulate(1, ROWS, RNG(seed)).values.copy()
    x[np.array(missing).reshape(ROWS, 3)[:, : x.shape[1]]] = np.nan
    data = Trajectories.of([x])
    means, variances, nats = by_brute_force(shape, x)
    told = foretold(filter, data, HORIZON)
    np.testing.assert_allclose(told.mean, means, rtol=0, atol=1e-8)
    np.testing.assert_allclose(told.std**2, variances, rtol=0, atol=1e-8)
    np.testing.assert_allclose(filter.forecast(data, HORIZON), means, rtol=0, atol=1e-8)
    np.testing.assert_allclose(filter.log_likelihood(data), nats, rtol=0, atol=1e-8)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_statsmodels_and_the_time_varying_filter_agree(shape: tuple[int, int, int]) -> None:
    """Long gaps of one channel, of all, and entries missing at random: four recordings at once."""
    system, filter = known(shape)
    d, n = system.S.shape
    x = system.simulate(4, 60, RNG(9)).values.reshape(4, 60, n).copy()
    x[0, 10:40, 0], x[1, 20:30], x[2, :3] = np.nan, np.nan, np.nan
    x[3][RNG(1).random((60, n)) < 0.5] = np.nan
    data = Trajectories.of(x)
    told, nats = foretold(filter, data, 1), filter.log_likelihood(data).reshape(4, 60)
    kalman = system.time_varying_kalman().forecast(data, HORIZON)
    np.testing.assert_allclose(filter.forecast(data, HORIZON), kalman, rtol=0, atol=1e-8)
    for i, recording in enumerate(x):
        theirs = KalmanFilter(k_endog=n, k_states=d, k_posdef=d)
        theirs.tolerance = 0  # never treat the covariance as converged
        theirs["design"], theirs["transition"], theirs["selection"] = system.C, system.A, np.eye(d)
        theirs["state_cov"], theirs["obs_cov"] = system.Q, system.R
        theirs.initialize_known(system.mean, system.stationary.P)
        theirs.bind(recording.copy())
        result, rows = theirs.filter(), slice(60 * i, 60 * i + 60)
        np.testing.assert_allclose(told.mean[rows, 0], result.predicted_state[:, :-1].T @ system.C.T, rtol=0, atol=1e-8)
        P = np.moveaxis(result.predicted_state_cov, 2, 0)[:-1]
        variance = np.diagonal(system.C @ P @ system.C.T + system.R, axis1=1, axis2=2)
        np.testing.assert_allclose(told.std[rows, 0] ** 2, variance, rtol=0, atol=1e-8)
        np.testing.assert_allclose(nats[i], result.llf_obs, rtol=0, atol=1e-8)
