"""Examples of recordings with gaps and inputs."""

from dataclasses import replace

import numpy as np
import pytest

from psimlearn.datasets import random_system
from psimlearn.evaluate import errors_by_horizon
from psimlearn.filter import Stack, StackSquares
from psimlearn.learners import Ridge
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.train import Recipe, best, dagger

RNG = np.random.default_rng


def test_squares_of_missing_observations_are_not_taken_for_small() -> None:
    """White noise of variance one with a third missing: a belief that squared filled-in values would say 2/3."""
    rng = RNG(0)
    x = rng.standard_normal((200, 30, 1))
    x[rng.random(x.shape) < 1 / 3] = np.nan
    data = Trajectories.of(x)
    filter = best(dagger(data, data, StackSquares(2), Ridge(1e-2), rng=rng, n_rounds=5)).filter
    variance = StackSquares(2).variance(filter.run(data)[0]) * filter.scaling.scale**2
    np.testing.assert_allclose(variance.mean(axis=(0, 2)), 1.0, rtol=0, atol=0.05)


def test_missing_entries_cost_little() -> None:
    """A fifth of the entries missing: within 2 % of a Kalman filter that knows the system and skips them."""
    rng = RNG(0)
    system = random_system(rng)

    def with_gaps(m: int) -> Trajectories:
        values = system.simulate(m, 60, rng).values.copy()
        values[rng.random(values.shape) < 0.2] = np.nan
        return Trajectories.of(values.reshape(m, 60, 2))

    train, validation, test = with_gaps(200), with_gaps(50), with_gaps(200)
    filter = best(dagger(train, validation, Stack(2), Ridge(1e-5), rng=rng, n_rounds=8)).filter
    ours, theirs = (
        np.nanmean((test.values - f.forecast(test, 1)[:, 0]) ** 2, axis=0).sum()
        for f in (filter, system.time_varying_kalman())
    )
    assert ours <= 1.02 * theirs


@pytest.mark.parametrize("feedthrough", [False, True])
def test_known_inputs_are_used(feedthrough: bool) -> None:
    """s_{t+1} = .8 s_t + u_t + noise, x_t = s_t (+ 2 u_t if inputs act at once) + noise: the floor needs the inputs."""
    rng = RNG(0)

    def simulate(m: int) -> Trajectories:
        u, s, x = rng.standard_normal((m, 50, 1)), np.zeros((m, 1)), np.empty((m, 50, 1))
        for t in range(50):
            x[:, t] = s + 2 * feedthrough * u[:, t] + 0.1 * rng.standard_normal((m, 1))
            s = 0.8 * s + u[:, t] + 0.1 * rng.standard_normal((m, 1))
        return Trajectories.of(x, u)

    def error(train: Trajectories, test: Trajectories, recipe: Recipe) -> float:
        filter = best(dagger(train, train, Stack(2), Ridge(1e-6), rng=rng, n_rounds=10, recipe=recipe)).filter
        return float(errors_by_horizon(filter, test, skip=5)[0])

    train, test = simulate(200), simulate(200)
    P = 0.01
    for _ in range(100):  # scalar Riccati equation: the floor of a filter that knows everything
        P = 0.64 * P - 0.64 * P**2 / (P + 0.01) + 0.01
    right = error(train, test, Recipe(feedthrough=feedthrough))
    assert right <= 1.02 * (P + 0.01)
    assert error(replace(train, inputs=None), replace(test, inputs=None), Recipe()) > 10 * right
    if feedthrough:
        assert error(train, test, Recipe()) > 10 * right


def test_forecasts_use_the_inputs_that_are_known_to_come() -> None:
    """s_{t+1} = .8 s_t + u_t + noise: four steps ahead the inputs are most of what happens."""
    rng = RNG(0)
    u, s, x = rng.standard_normal((300, 40, 1)), np.zeros((300, 1)), np.empty((300, 40, 1))
    for t in range(40):
        x[:, t] = s + 0.1 * rng.standard_normal((300, 1))
        s = 0.8 * s + u[:, t] + 0.1 * rng.standard_normal((300, 1))
    data = Trajectories.of(x, u)
    train, test = data[:200], data[200:]
    filter = best(dagger(train, train, Stack(2), Ridge(1e-6), rng=rng, n_rounds=10)).filter
    P = 0.01
    for _ in range(100):
        P = 0.64 * P - 0.64 * P**2 / (P + 0.01) + 0.01
    floor = []
    for _ in range(4):
        floor.append(P + 0.01)
        P = 0.64 * P + 0.01
    np.testing.assert_allclose(errors_by_horizon(filter, test, 4, skip=5), floor, rtol=0.06)
