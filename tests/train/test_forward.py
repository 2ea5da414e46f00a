"""Forward Training against a loop."""

import numpy as np
import pytest

from oracles import ragged, stacked_ridge
from psimlearn.datasets import random_system
from psimlearn.errors import DataError
from psimlearn.filter import Stack
from psimlearn.learners import Ridge
from psimlearn.train import Recipe, best, forward
from psimlearn.train.forward import step_by_step
from psimlearn.train.ground import ground
from psimlearn.train.start import begin

PLAIN = Recipe(prior="zero", box=None, standardise=False, guard=None)


RNG = np.random.default_rng


def test_forward_training_learns_one_regressor_for_each_step() -> None:
    """Against a loop: F_t is the ridge of phi(f_{t+1}) on (m_t, x_t), then all beliefs move on by F_t."""
    rng = RNG(0)
    system = random_system(rng)
    data = system.simulate(50, 8, rng)
    x, k, alpha = data.values.reshape(50, 8, 2), 2, 1e-4
    filter = best(forward(data, data, Stack(k), Ridge(alpha), rng=rng, recipe=PLAIN)).filter
    assert len(filter.regressors) == 8 - k
    belief = np.tile(x[:, :k].reshape(50, -1).mean(axis=0), (50, 1))
    for t, regressor in enumerate(filter.regressors):
        z = np.concatenate([belief, x[:, t]], axis=1)
        model = stacked_ridge(z, x[:, t + 1 : t + 1 + k].reshape(50, -1), alpha)
        np.testing.assert_allclose(regressor(z), model.predict(z), rtol=0, atol=1e-8)
        belief = regressor(z)


def test_disjoint_forward_training_uses_each_trajectory_once() -> None:
    rng = RNG(0)
    data = random_system(rng).simulate(200, 8, rng)
    together, apart = (
        best(forward(data, data, Stack(2), Ridge(1e-4), rng=RNG(1), disjoint=disjoint)).filter
        for disjoint in (False, True)
    )
    assert len(apart.regressors) == len(together.regressors) == 6
    z = rng.standard_normal((20, 6))
    assert all(np.abs(a(z) - t(z)).max() > 1e-3 for a, t in zip(apart.regressors, together.regressors, strict=True))


def test_forward_training_needs_many_trajectories() -> None:
    data = ragged([20] * 11, 2, RNG(0))
    with pytest.raises(DataError, match=r"required at least 12 trajectories for each step.*received 11"):
        list(forward(data, data, Stack(2), Ridge(), rng=RNG(0)))
    ends_early = ragged([20] * 11 + [10] * 5, 2, RNG(0))  # enough for the 8 steps that all have, then too few
    assert len(best(forward(ends_early, ends_early, Stack(2), Ridge(), rng=RNG(0))).filter.regressors) == 8


def test_where_recordings_become_too_few_the_last_regressor_stays_or_the_first_filter_takes_over() -> None:
    rng = RNG(0)
    data = random_system(rng).simulate(50, 8, rng)
    begun = begin(ground(data, Stack(2), "history", PLAIN), Ridge(1e-4), "history", PLAIN, RNG(0))
    stays, goes_on = step_by_step(begun), step_by_step(begun, tail=True)
    z = RNG(1).standard_normal((3, 6))
    assert len(goes_on.regressors) == len(stays.regressors) + 1
    np.testing.assert_array_equal(goes_on.regressors[-2](z), stays.regressors[-1](z))
    np.testing.assert_array_equal(goes_on.regressors[-1](z), begun.filter.regressors[0](z))
