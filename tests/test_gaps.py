"""The reference of benchmarks/gaps.py: its Kalman filter is statsmodels', whatever is missing."""

import numpy as np
import pytest
from scipy.linalg import solve_discrete_lyapunov
from statsmodels.tsa.statespace.kalman_filter import KalmanFilter

from gap_systems import FAMILIES, System, kalman


def by_statsmodels(system: System, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mean and the variance of each row of one recording before it arrives."""
    d, n = len(system.A), system.n
    model = KalmanFilter(k_endog=n, k_states=d, k_posdef=d)
    model.tolerance = 0  # never treat the covariance as converged
    model["design"], model["transition"], model["selection"] = system.C, system.A, np.eye(d)
    model["state_cov"], model["obs_cov"] = system.Q, system.noise * np.eye(n)
    model.initialize_known(np.zeros(d), solve_discrete_lyapunov(system.A, system.Q))
    model.bind(x.copy())
    filtered = model.filter()
    states, covariances = filtered.predicted_state[:, :-1].T, np.moveaxis(filtered.predicted_state_cov, 2, 0)[:-1]
    spread = system.C @ covariances @ system.C.T
    return states @ system.C.T, np.diagonal(spread, axis1=1, axis2=2) + system.noise


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", [0, 1])
def test_the_kalman_filter_of_the_benchmark_is_statsmodels(family: str, seed: int) -> None:
    system, rng = FAMILIES[family].system(seed), np.random.default_rng(seed)
    x = system.simulate(4, 60, rng)
    x[:2, 20:40, 0] = np.nan  # two recordings share a pattern of gaps
    x[2][rng.random(x[2].shape) < 0.3] = np.nan
    x[2, 10:13] = np.nan
    found = kalman(system, x)
    for i, recording in enumerate(x):
        mean, variance = by_statsmodels(system, recording)
        np.testing.assert_allclose(found.mean[i], mean, rtol=0, atol=1e-8 * np.sqrt(variance.max()))
        np.testing.assert_allclose(found.variance[i], variance, rtol=1e-7)


def test_each_seed_gives_one_system_within_its_family() -> None:
    for family in FAMILIES.values():
        systems = [family.system(seed) for seed in range(family.n_systems)]
        assert len({system.radius for system in systems}) == family.n_systems
        for system in systems:
            assert family.radius[0] - 1e-9 <= system.radius <= family.radius[1] + 1e-9
            assert family.noise[0] <= system.noise <= family.noise[1]
            assert family.states[0] <= len(system.A) <= family.states[1]
            assert family.outputs[0] <= system.n <= family.outputs[1]


def test_recordings_begin_in_the_stationary_distribution() -> None:
    system = FAMILIES["noisy"].system(3)
    x = system.simulate(20_000, 4, np.random.default_rng(0))
    expected = system.C @ system.start @ system.C.T + system.noise * np.eye(system.n)
    for t in (0, 3):
        np.testing.assert_allclose(np.cov(x[:, t].T), expected, atol=0.05 * expected.max())
