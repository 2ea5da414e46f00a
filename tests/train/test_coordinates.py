"""Coordinates of levels and changes, against explicit columns."""

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge as SklearnRidge

from oracles import ragged
from psimlearn.evaluate import errors_by_horizon
from psimlearn.filter import Stack
from psimlearn.filter.fourier import fourier_features
from psimlearn.filter.rollout import inputs_at
from psimlearn.learners import RandomFourierRidge, Ridge
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.train import Recipe, best, dagger
from psimlearn.train.coordinates import relative
from psimlearn.train.ground import ground
from psimlearn.train.start import Beginning, begin

RNG = np.random.default_rng


def recordings(seed: int = 0, missing: float = 0.0, n: int = 2) -> Trajectories:
    return ragged([30, 25, 40, 18, 33, 27], n, RNG(seed), missing)


def beginning(data: Trajectories, recipe: Recipe, learner: Any, init: Any = "history") -> Beginning:
    return begin(ground(data, Stack(2), init, Recipe()), learner, init, recipe, RNG(0))


def examples() -> tuple[np.ndarray, np.ndarray]:
    rng = RNG(0)
    z = rng.standard_normal((50, 4)) * [1.0, 2.0, 3.0, 4.0] + 5.0
    return z, z @ rng.standard_normal((4, 3)) + rng.standard_normal((50, 3))


def in_coordinates(learner: Any, lags: int = 3) -> tuple[Beginning, np.ndarray, np.ndarray]:
    """A beginning in coordinates of levels and changes, and the examples that it was fitted to."""
    recipe = Recipe(lags=lags, prior="last", belief_weight=0.5, level_weight=0.2)
    base = ground(recordings(), Stack(2), "history", recipe)
    begun = begin(base, learner, "history", recipe, RNG(0))
    training = begun.training
    z = inputs_at(begun.filter, base.beliefs[training.rows], base.x, training.table.layout, training.rows)
    return begun, z, training.y


@pytest.mark.parametrize("alpha", [1e-4, 1.0])
def test_ridge_in_coordinates_is_ridge_on_explicit_columns(alpha: float) -> None:
    begun, z, y = in_coordinates(Ridge(alpha))
    assert isinstance(begun.learner, Ridge)
    assert begun.learner.coordinates is not None
    explicit = np.column_stack([z @ begun.learner.coordinates.ridge.toarray(), np.ones(len(z))])
    oracle = SklearnRidge(alpha=alpha * len(z), fit_intercept=False, solver="cholesky").fit(explicit, y)
    np.testing.assert_allclose(begun.filter.regressors[0](z), oracle.predict(explicit), rtol=0, atol=1e-10)


@pytest.mark.parametrize("alpha", [1e-4, 1.0])
def test_random_features_in_coordinates_are_ridge_on_explicit_columns(alpha: float) -> None:
    begun, z, y = in_coordinates(RandomFourierRidge(20, alpha))
    learner = begun.learner
    assert isinstance(learner, RandomFourierRidge)
    assert learner.coordinates is not None
    assert learner.directions is not None
    waves = fourier_features(z, learner.directions, raw_inputs=False) / np.sqrt(10)
    explicit = np.column_stack([waves, z @ learner.coordinates.ridge.toarray(), np.ones(len(z))])
    oracle = SklearnRidge(alpha=alpha * len(z), fit_intercept=False, solver="cholesky").fit(explicit, y)
    np.testing.assert_allclose(begun.filter.regressors[0](z), oracle.predict(explicit), rtol=0, atol=1e-10)


def test_coordinates_are_surprises_levels_and_changes() -> None:
    """By hand: z = [m; x_t; x_{t-1}; x_{t-2}] of two channels, with a window of 2."""
    begun, z, _ = in_coordinates(Ridge(1.0))
    feedback = begun.filter.feedback
    changed = z @ relative(begun.filter, z.shape[1]).toarray()
    x = [z[:, 4 + 2 * j : 6 + 2 * j] for j in range(3)]
    np.testing.assert_allclose(changed[:, 4:6], x[0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(changed[:, 6:8], x[0] - x[1], rtol=0, atol=1e-12)
    np.testing.assert_allclose(changed[:, 8:10], x[1] - x[2], rtol=0, atol=1e-12)
    stays = feedback.linear(np.tile(x[0], (1, 2)))
    np.testing.assert_allclose(changed[:, :4], z[:, :4] - stays, rtol=0, atol=1e-12)
    learner = begun.learner
    assert isinstance(learner, Ridge)
    assert learner.coordinates is not None
    deviations = np.std(z @ learner.coordinates.ridge.toarray(), axis=0)
    np.testing.assert_allclose(deviations, [*[0.5] * 4, *[0.2] * 2, *[1.0] * 4], rtol=1e-9)


def test_a_small_level_weight_forgives_offsets() -> None:
    """Every recording has an offset of its own: trained on few, a filter of changes does better on others."""
    rng = RNG(0)

    def drifting(m: int) -> Trajectories:
        x = np.zeros((m, 40, 1))
        for t in range(2, 40):
            x[:, t] = 1.6 * x[:, t - 1] - 0.7 * x[:, t - 2] + rng.standard_normal((m, 1))
        return Trajectories.of(x + 30 * rng.standard_normal((m, 1, 1)))

    train, test = drifting(4), drifting(200)
    small, none = (
        best(dagger(train, train, Stack(2), Ridge(1e-3), rng=RNG(0), n_rounds=2, recipe=recipe)).filter
        for recipe in (Recipe(3, "last", 0.0, level_weight=0.01), Recipe(3, "mean", 0.0))
    )
    assert errors_by_horizon(small, test, skip=3)[0] < errors_by_horizon(none, test, skip=3)[0]
