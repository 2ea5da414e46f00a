"""A larger penalty on columns of other channels than that of the output, against scikit-learn channel by channel."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge as SklearnRidge

from psimlearn.datasets import random_system
from psimlearn.errors import SettingsError
from psimlearn.evaluate import errors_by_horizon
from psimlearn.filter import Stack
from psimlearn.learners import OF_NONE, Apart, Channels, RandomFourierRidge, Ridge
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.train import Recipe, best, dagger
from psimlearn.train.coordinates import channels_of
from psimlearn.train.ground import ground
from psimlearn.train.start import begin

RNG = np.random.default_rng
CHANNELS = Channels(np.array([0, 1, 2, 0, 1, 2, OF_NONE]), np.array([0, 1, 2, 0, 1, 2]), 0.3)


def examples(scale: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    rng = RNG(0)
    z = rng.standard_normal((60, 7)) * scale + 1.0
    return z, z @ rng.standard_normal((7, 6)) + rng.standard_normal((60, 6))


def predicted(z: np.ndarray, y: np.ndarray, alpha: float, channels: Channels, intercept: bool = True) -> np.ndarray:
    """By scikit-learn: columns of other channels are made smaller, which penalises their weights more."""
    out = np.empty_like(y)
    for j, c in enumerate(channels.of_y):
        columns = z * np.where((channels.of_z == c) | (channels.of_z == OF_NONE), 1.0, channels.weight)
        model = SklearnRidge(alpha * len(z), fit_intercept=intercept, solver="cholesky").fit(columns, y[:, j])
        out[:, j] = model.predict(columns)
    return out


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("weight", [0.01, 0.3, 0.99])
@pytest.mark.parametrize("alpha", [1e-8, 1e-2, 10.0])
def test_it_is_a_ridge_on_smaller_columns_of_other_channels(alpha: float, weight: float, intercept: bool) -> None:
    z, y = examples()
    channels = CHANNELS._replace(weight=weight)
    learner = Ridge(alpha, intercept, channels=channels)
    ours = learner.solve(learner.summarise(z, y))(z)
    np.testing.assert_allclose(ours, predicted(z, y, alpha, channels, intercept), rtol=0, atol=1e-9)


def test_columns_that_are_copies_of_others_do_no_harm() -> None:
    """As in a linear system without noise, where the sums are singular."""
    z, y = examples()
    z = np.concatenate([z[:, :6], z[:, :6], z[:, 6:]], axis=1)
    channels = CHANNELS._replace(of_z=np.append(np.tile(CHANNELS.of_z[:6], 2), OF_NONE))
    learner = Ridge(1e-10, channels=channels)
    ours = learner.solve(learner.summarise(z, y))(z)
    np.testing.assert_allclose(ours, predicted(z, y, 1e-10, channels), rtol=0, atol=1e-5)


def test_a_column_that_is_always_zero_is_left_out() -> None:
    z, y = examples()
    z[:, 1] = 0.0
    learner = Ridge(1e-2, intercept=False, channels=CHANNELS)
    ours = learner.solve(learner.summarise(z, y))(z)
    np.testing.assert_allclose(ours, predicted(z, y, 1e-2, CHANNELS, False), rtol=0, atol=1e-9)


def test_where_rounding_spoils_the_quick_way_channels_are_solved_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    z, y = examples()
    learner = Ridge(1e-2, channels=CHANNELS)
    sums = learner.summarise(z, y)
    quick = learner.solve(sums)(z)

    def fails(*_: object) -> np.ndarray:
        raise np.linalg.LinAlgError

    monkeypatch.setattr("psimlearn.learners.ridge.solved_by_channel", fails)
    np.testing.assert_allclose(learner.solve(sums)(z), quick, rtol=0, atol=1e-10)


def test_outputs_apart_know_their_channel() -> None:
    """Where entries are missing, each output has sums of its own."""
    z, y = examples()
    learner = Ridge(1e-2, channels=CHANNELS)
    apart = Apart(learner)
    together = learner.solve(learner.summarise(z, y))(z)
    np.testing.assert_allclose(apart.solve(apart.summarise(z, y))(z), together, rtol=0, atol=1e-9)


def test_channels_of_a_filter_by_hand() -> None:
    data = random_system(RNG(0), n_outputs=2).simulate(5, 30, RNG(1))
    recipe = Recipe(lags=2, cross_weight=0.3)
    begun = begin(ground(data, Stack(3), "history", recipe), Ridge(), "history", recipe, RNG(0))
    found = channels_of(begun.filter, 0.3)
    # [m_t; x_t; x_{t-1}]: the belief holds the channels of three rows
    assert found.of_z.tolist() == [0, 1, 0, 1, 0, 1, 0, 1, 0, 1]
    assert found.of_y.tolist() == [0, 1, 0, 1, 0, 1]
    assert isinstance(begun.learner, Ridge)
    assert begun.learner.channels is not None
    assert begun.learner.channels.of_z.tolist() == found.of_z.tolist()
    of_directions = Recipe(lags=1, rank=4, cross_weight=0.3)
    begun = begin(ground(data, Stack(3), "history", of_directions), Ridge(), "history", of_directions, RNG(0))
    assert channels_of(begun.filter, 0.3).of_z.tolist() == [OF_NONE] * 4 + [0, 1]


def apart_from_each_other(n: int, seed: int) -> Trajectories:
    """Systems that have nothing to do with each other, beside each other: other channels only add noise."""
    rng = RNG(seed)
    system = random_system(RNG(0), n_states=2, n_outputs=1)
    parts = [system.simulate(n, 60, rng).values for _ in range(12)]
    return Trajectories.of(np.split(np.concatenate(parts, axis=1), n))


def test_less_of_others_helps_where_they_say_nothing() -> None:
    train, held, test = (apart_from_each_other(n, seed) for seed, n in enumerate((4, 4, 40)))
    errors = []
    for weight in (1.0, 0.1):
        rounds = dagger(train, held, Stack(2), Ridge(1e-2), rng=RNG(0), n_rounds=3, recipe=Recipe(cross_weight=weight))
        errors.append(errors_by_horizon(best(rounds).filter, test, skip=10)[0])
    assert errors[1] < 0.8 * errors[0]


def test_learners_that_cannot_refuse() -> None:
    data = apart_from_each_other(3, 0)
    recipe = Recipe(cross_weight=0.3)
    with pytest.raises(SettingsError, match="cross_weight below 1 required linear regression"):
        list(dagger(data, data, Stack(2), RandomFourierRidge(10), rng=RNG(0), n_rounds=1, recipe=recipe))
