"""Numbers by likelihood, and numbers driven by symbols."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats

from psimlearn import PSIM, Trajectories
from psimlearn.baselines import Kalman
from psimlearn.errors import SettingsError
from psimlearn.filter import StackSquares
from psimlearn.learners import Ridge
from psimlearn.learners.gaussian import GaussianLearner, nats_and_gradient
from psimlearn.recordings.alphabet import Alphabet
from psimlearn.train import Recipe, best, dagger
from psimlearn.train.losses import GaussianNLL
from psimlearn.train.score import held_out, scored

RNG = np.random.default_rng


def uneven(m: int, T: int, rng: np.random.Generator) -> Trajectories:
    """A hidden level, and noise that grows with it."""
    level, out = np.zeros(m), np.empty((m, T, 1))
    for t in range(T):
        level = 0.95 * level + 0.3 * rng.standard_normal(m)
        out[:, t, 0] = level + 0.2 * np.exp(0.8 * level) * rng.standard_normal(m)
    return Trajectories.of(out)


def test_gradient_of_the_gaussian_likelihood() -> None:
    rng = RNG(1)
    z, mean = rng.standard_normal((30, 4)), rng.standard_normal((30, 2))
    square, weights = mean**2 + 0.1, 0.3 * rng.standard_normal((2, 4, 2))
    value, gradient = nats_and_gradient(weights, z, mean, square, 1e-2)
    for i in range(weights.size):
        step = np.zeros(weights.size)
        step[i] = 1e-6
        up, down = (
            nats_and_gradient(weights + s * step.reshape(weights.shape), z, mean, square, 1e-2)[0] for s in (1, -1)
        )
        assert gradient[i] == pytest.approx((up - down) / 2e-6, rel=1e-5, abs=1e-8)
    assert np.isfinite(value)


def test_mean_and_log_variance_are_found() -> None:
    rng = RNG(2)
    z = rng.standard_normal((20_000, 2))
    f = z @ [[1.0], [-0.5]] + np.exp(0.5 * (z @ [[0.6], [0.2]] - 1.0)) * rng.standard_normal((20_000, 1))
    learner = GaussianLearner(0.0, seed=0)
    fitted = learner.solve(learner.summarise(z, np.concatenate([f, f**2], axis=1)))
    np.testing.assert_allclose(fitted.linear.weights, [[1.0, 0.6], [-0.5, 0.2]], atol=0.03)
    np.testing.assert_allclose(fitted.linear.intercept, [0.0, -1.0], atol=0.03)
    moments = fitted(z[:5])
    np.testing.assert_allclose(moments[:, 1] - moments[:, 0] ** 2, np.exp(fitted.linear(z[:5])[:, 1]), rtol=1e-12)


def test_likelihood_beats_least_squares_at_likelihood() -> None:
    rng = RNG(0)
    train, held, test = (uneven(m, 50, rng) for m in (100, 30, 100))
    nats = {}
    learners: dict[str, Any] = {"gaussian": GaussianLearner(1e-3, max_rows=4000), "ridge": Ridge(1e-3)}
    for name, learner in learners.items():
        rounds = dagger(
            train,
            held,
            StackSquares(2),
            learner,
            rng=rng,
            n_rounds=2,
            recipe=Recipe(prior="zero"),
            loss=GaussianNLL(),
        )
        filter = best(rounds).filter
        nats[name] = scored(0, filter, held_out(filter, test, "one-step", GaussianNLL())).error
    constant = scipy.stats.norm(train.values.mean(), train.values.std())
    marginal = -constant.logpdf(test.values).mean() - np.log(train.values.std())  # in standardised units
    assert nats["gaussian"] < nats["ridge"]
    assert nats["gaussian"] < marginal - 0.3


def test_psim_by_likelihood(tmp_path: Path) -> None:
    data = uneven(60, 40, RNG(3))
    model = PSIM(2, features="squares", learner="gaussian", n_rounds=2, lags=1, belief_weight=1.0, random_state=0)
    model.fit(data)
    test = uneven(60, 40, RNG(4))
    assert model.score(test) > 0.5
    _, std = model.forecast(test, 1, return_std=True)
    high = model.predict(test)
    assert np.corrcoef(std[:, 0, 0], [part[-1, 0] for part in high])[0, 1] > 0.5  # high levels are noisy ones
    model.save(tmp_path / "m.psim")
    np.testing.assert_array_equal(PSIM.load(tmp_path / "m.psim").predict(test)[0], high[0])
    with pytest.raises(SettingsError, match="features='squares'"):
        PSIM(2, learner="gaussian").fit(data)


MODES = Alphabet(("down", "idle", "up"))


def driven(m: int, T: int, rng: np.random.Generator) -> tuple[Trajectories, np.ndarray]:
    """A damped rotation that is seen through noise and pushed by modes; and what the pushes alone would do."""
    A, push = 0.97 * np.array([[0.9, 0.2], [-0.2, 0.9]]), np.array([[-0.5, 0.0, 0.5], [0.2, -0.1, 0.3]])
    x, pushed = np.empty((m, T, 1)), np.empty((m, T, 1))
    words = rng.choice(MODES.symbols, size=(m, T))
    u = np.stack([MODES.one_hot(own) for own in words])
    s, d = np.zeros((m, 2)), np.zeros((m, 2))
    for t in range(T):
        x[:, t], pushed[:, t] = s[:, :1] + np.sqrt(0.3) * rng.standard_normal((m, 1)), d[:, :1]
        s = s @ A.T + u[:, t] @ push.T + np.sqrt(0.05) * rng.standard_normal((m, 2))
        d = d @ A.T + u[:, t] @ push.T
    return Trajectories.of(x, inputs=u), pushed.reshape(-1, 1)


@pytest.mark.usefixtures("unchecked")
def test_a_filter_with_symbols_as_inputs_nears_the_kalman_filter_that_knows_the_system() -> None:
    """By superposition the latter filters what is left of the observations without the pushes."""
    A = 0.97 * np.array([[0.9, 0.2], [-0.2, 0.9]])
    train, _ = driven(150, 60, RNG(0))
    test, pushed = driven(150, 60, RNG(1))
    kalman = Kalman(
        A, np.eye(1, 2), 0.05 * np.eye(2), np.array([[0.3]]), np.zeros((2, 1)), np.zeros(2), np.zeros((2, 2))
    )
    left = Trajectories.of((test.values - pushed).reshape(150, 60, 1))
    exact = kalman.forecast(left, 1)[:, 0] + pushed
    learnt = PSIM(5, random_state=0).fit(train).filter_.forecast(test, 1)[:, 0]
    least = np.mean((test.values - exact) ** 2)
    assert least == pytest.approx(0.42, abs=0.03)
    assert np.mean((learnt - exact) ** 2) < 0.01 * least


def test_numbers_are_filtered_with_symbols_as_inputs() -> None:
    """A level that drifts to where a mode pulls it; the mode is known, and is a word."""
    rng = RNG(0)
    modes = Alphabet(("down", "idle", "up"))
    pull = {"down": -1.0, "idle": 0.0, "up": 1.0}
    values, words = [], []
    for _ in range(80):
        own = np.repeat(rng.choice(modes.symbols, 12), 5)
        level, rows = 0.0, []
        for mode in own:
            rows.append([level + 0.2 * rng.standard_normal()])
            level = 0.8 * level + 0.5 * pull[str(mode)] + 0.05 * rng.standard_normal()
        values.append(np.array(rows))
        words.append(own)
    inputs = [modes.one_hot(own) for own in words]
    with_modes, without = Trajectories.of(values, inputs), Trajectories.of(values)
    settings: dict[str, Any] = {"n_rounds": 3, "lags": 1, "prior": "mean", "random_state": 0}
    scores = [PSIM(2, **settings).fit(data[:60]).score(data[60:]) for data in (with_modes, without)]
    assert scores[0] > scores[1] + 0.02
    model = PSIM(2, **settings).fit(with_modes)
    up, down = (modes.one_hot([mode] * 10)[None] for mode in ("up", "down"))
    higher, lower = (model.forecast(with_modes[:1], 10, future_inputs=u)[0, -1, 0] for u in (up, down))
    assert higher > 1.5
    assert lower < -1.5
