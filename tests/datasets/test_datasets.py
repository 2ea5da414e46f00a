"""Synthetic systems against their own theory: fixed points, moments, expected errors, exact predictions."""

from itertools import pairwise, product
from math import prod

import numpy as np
import pytest
import scipy.linalg
from scipy.special import j0, j1

from psimlearn.datasets.hmm import HiddenMarkov, three_state_hmm, two_state_hmm
from psimlearn.datasets.linear import LinearSystem, hard_system, long_memory_system, random_system
from psimlearn.datasets.pendulum import PENDULUM_FLOOR, noisy_pendulum
from psimlearn.evaluate import errors_by_horizon
from psimlearn.recordings.trajectories import Trajectories


def correlated_system(seed: int) -> LinearSystem:
    """A random system whose two noises are correlated."""
    rng = np.random.default_rng(seed)
    plain, root = random_system(rng), rng.standard_normal((5, 5))
    noise = root @ root.T + 0.1 * np.eye(5)
    return LinearSystem(plain.A, plain.C, noise[:3, :3], noise[3:, 3:], noise[:3, 3:], plain.mean)


def radius(A: np.ndarray) -> float:
    return float(np.abs(np.linalg.eigvals(A)).max())


SYSTEMS = {
    "random": random_system(np.random.default_rng(1)),
    "hard": hard_system(np.random.default_rng(2)),
    "correlated": correlated_system(3),
    "long memory": long_memory_system(),
}
every_system = pytest.mark.parametrize("system", SYSTEMS.values(), ids=SYSTEMS.keys())
MODELS = [two_state_hmm(), *(three_state_hmm(np.random.default_rng(seed)) for seed in range(2))]
every_model = pytest.mark.parametrize("model", MODELS)


@every_system
def test_stationary_is_a_stable_fixed_point(system: LinearSystem) -> None:
    A, C, (P, V, L) = system.A, system.C, system.stationary
    np.testing.assert_allclose(V, C @ P @ C.T + system.R, rtol=1e-12)
    np.testing.assert_allclose(L @ V, A @ P @ C.T + system.S, rtol=0, atol=1e-9)
    np.testing.assert_allclose(A @ P @ A.T + system.Q - L @ V @ L.T, P, rtol=0, atol=1e-9)
    assert radius(A - L @ C) < 1


@pytest.mark.parametrize("start", [None, np.diag([4.0, 1.0, 0.25])], ids=["stationary", "wide"])
def test_simulated_moments_are_those_of_the_equations(start: np.ndarray | None) -> None:
    system, M, T = SYSTEMS["correlated"], 50_000, 4
    x = system.simulate(M, T, np.random.default_rng(4), start).values.reshape(M, T * 2)
    A, C, P, s = system.A, system.C, system.stationary.P if start is None else start, system.mean
    theory, mean = np.empty((T, 2, T, 2)), np.empty((T, 2))
    for t in range(T):
        mean[t], theory[t, :, t] = C @ s, C @ P @ C.T + system.R
        ahead = A @ P @ C.T + system.S  # cov(s_{t+1}, x_t)
        for later in range(t + 1, T):
            theory[later, :, t] = C @ np.linalg.matrix_power(A, later - t - 1) @ ahead
            theory[t, :, later] = theory[later, :, t].T
        P, s = A @ P @ A.T + system.Q, A @ s
    covariance = theory.reshape(T * 2, T * 2)
    variance = np.diag(covariance)
    assert np.all(np.abs(x.mean(axis=0) - mean.ravel()) < 5 * np.sqrt(variance / M))
    assert np.all(np.abs(np.cov(x.T) - covariance) < 5 * np.sqrt((np.outer(variance, variance) + covariance**2) / M))


@pytest.mark.parametrize("name", ["random", "correlated"])
def test_errors_are_what_the_kalman_filter_makes(name: str) -> None:
    system = SYSTEMS[name]
    measured = errors_by_horizon(system.kalman(), system.simulate(1000, 1000, np.random.default_rng(5)), 3)
    np.testing.assert_allclose(measured, system.errors(3), rtol=0.005)
    assert system.errors(3)[0] == pytest.approx(np.trace(system.stationary.V))


def test_observability() -> None:
    A, C, zero = np.array([[1.0, 2.0], [0.0, 1.0]]), np.array([[1.0, 0.0]]), np.zeros((2, 1))
    by_hand = LinearSystem(A, C, np.eye(2), np.eye(1), zero, zero[:, 0])
    np.testing.assert_array_equal(by_hand.observability(3), [[1, 0], [1, 2], [1, 4]])
    for system in SYSTEMS.values():
        assert system.observability(2).shape == (4, 3)
        assert [np.linalg.matrix_rank(system.observability(k)) for k in (1, 2)] == [2, 3]


def test_long_memory_system_forgets_slowly() -> None:
    system = long_memory_system()
    assert radius(system.A) == pytest.approx(0.95, abs=1e-4)
    observer = np.sort(np.linalg.eigvals(system.A - system.stationary.L @ system.C))
    np.testing.assert_allclose(observer, [-0.9, 0.9, 0.97], rtol=0, atol=1e-6)
    np.testing.assert_allclose(system.stationary.P, 0, atol=1e-9)  # innovations form: the past tells the state
    np.testing.assert_allclose(system.errors(1), [2], rtol=1e-9)


def test_short_autoregressions_fail_on_the_long_memory_system() -> None:
    system = long_memory_system()
    A, C, spread = system.A, system.C, scipy.linalg.solve_discrete_lyapunov(system.A, system.Q)
    gamma = [C @ spread @ C.T + system.R]  # cov(x_{t+h}, x_t)
    gamma += [C @ np.linalg.matrix_power(A, h) @ (A @ spread @ C.T + system.S) for h in range(35)]
    least = np.trace(system.stationary.V)
    assert np.trace(gamma[0]) / least == pytest.approx(20.6, abs=0.1)
    for order, excess in [(5, 0.154), (10, 0.053), (20, 0.017), (35, 0.0054)]:
        past = np.block([[gamma[j - i] if j >= i else gamma[i - j].T for j in range(order)] for i in range(order)])
        across = np.concatenate(gamma[1 : order + 1], axis=1)  # cov(x_t, (x_{t-1}, .., x_{t-order}))
        error = np.trace(gamma[0] - across @ np.linalg.solve(past, across.T))
        assert error / least - 1 == pytest.approx(excess, rel=0.03)


@pytest.mark.parametrize(("n_states", "n_outputs", "asked"), [(3, 2, 0.9), (5, 1, 0.5), (2, 4, 0.99)])
def test_random_system_has_the_radius_asked_for(n_states: int, n_outputs: int, asked: float) -> None:
    system = random_system(np.random.default_rng(6), n_states, n_outputs, asked)
    assert radius(system.A) == pytest.approx(asked, rel=1e-12)
    assert system.C.shape == (n_outputs, n_states)
    assert min(np.linalg.eigvalsh(system.Q).min(), np.linalg.eigvalsh(system.R).min()) > 0.09


def test_hard_system_is_slow_and_noisy() -> None:
    hard, plain = (make(np.random.default_rng(7)) for make in (hard_system, random_system))
    assert radius(hard.A) == pytest.approx(0.99, rel=1e-12)
    np.testing.assert_allclose(hard.R, 30 * plain.R)
    np.testing.assert_array_equal(hard.Q, plain.Q)


@every_system
@pytest.mark.parametrize("lengths", [(50, 50, 50), (7, 50, 1, 23)], ids=["equal", "ragged"])
def test_predictive_filter_is_the_observed_kalman_state(system: LinearSystem, lengths: tuple[int, ...]) -> None:
    rng = np.random.default_rng(8)
    recordings = Trajectories.of([system.simulate(1, length, rng).values for length in lengths])
    expected = system.kalman().states(recordings) @ system.observability(2).T
    beliefs, _ = system.predictive_filter(2).run(recordings)
    np.testing.assert_allclose(beliefs, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


def test_pendulum_has_its_floor_and_its_gravity() -> None:
    M = 100_000
    x = noisy_pendulum(M, 2, np.random.default_rng(9)).values.reshape(M, 2, 2)
    noise, square = PENDULUM_FLOOR / 2, np.sum(x**2, axis=2)  # 1 + 2 sqrt(noise) e + noise chi2_2
    assert abs(square.mean() - 1.18) < 5 * np.sqrt((4 * noise + 4 * noise**2) / square.size)
    # theta_1 = theta_0 - .09 sin(theta_0) + .15 sqrt(1 + .05^2) e, theta_0 uniform
    blur = np.exp(-(0.15**2) * (1 + 0.05**2) / 2)
    fall, turn = x[:, 1, 1] - x[:, 0, 1], np.sum(x[:, 0] * x[:, 1], axis=1)
    assert abs(fall.mean() - blur * j1(0.09)) < 5 * fall.std() / np.sqrt(M)
    assert abs(turn.mean() - blur * j0(0.09)) < 5 * turn.std() / np.sqrt(M)


def test_pendulum_and_systems_follow_the_seed() -> None:
    for make in (noisy_pendulum, long_memory_system().simulate):
        first, again, other = (make(3, 20, np.random.default_rng(seed)) for seed in (1, 1, 2))
        assert (first.lengths.tolist(), first.n_channels) == ([20, 20, 20], 2)
        np.testing.assert_array_equal(first.values, again.values)
        assert not np.allclose(first.values, other.values)


@every_model
def test_hidden_markov_predictions_are_sums_over_paths(model: HiddenMarkov) -> None:
    for part in (model.transition, model.emission, model.start):
        np.testing.assert_allclose(part.sum(axis=0), 1, rtol=1e-12)
        assert part.min() >= 0
    np.testing.assert_allclose(model.transition @ model.start, model.start, rtol=1e-12)
    n = len(model.emission)
    sequences = np.array(list(product(range(n), repeat=4)))
    found = model.predictive(sequences)
    np.testing.assert_allclose(found.sum(axis=2), 1, rtol=1e-12)
    for i, t in product(range(0, len(sequences), 5), range(4)):
        joint = np.zeros(n)  # P(x_0 .. x_{t-1}, x_t), for every x_t
        for path in product(range(len(model.start)), repeat=t + 1):
            moves = prod(model.transition[after, now] for now, after in pairwise(path))
            shows = prod(model.emission[sequences[i, :t], path[:t]])
            joint += model.start[path[0]] * moves * shows * model.emission[:, path[t]]
        np.testing.assert_allclose(found[i, t], joint / joint.sum(), rtol=0, atol=1e-12)


@every_model
def test_hidden_markov_symbols_come_as_often_as_they_should(model: HiddenMarkov) -> None:
    M, n = 200_000, len(model.emission)
    x = model.simulate(M, 3, np.random.default_rng(10))
    pairs = (model.emission * model.start) @ model.transition.T @ model.emission.T  # P(x_t, x_{t+1})
    for t in range(2):
        found = np.bincount(n * x[:, t] + x[:, t + 1], minlength=n * n).reshape(n, n) / M
        assert np.all(np.abs(found - pairs) < 5 * np.sqrt(pairs * (1 - pairs) / M))
