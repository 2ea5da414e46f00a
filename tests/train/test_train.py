"""DAgger and Forward Training against stacked refits, literal algorithms and plain autoregression."""

import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.linear_model import Ridge as SklearnRidge

from oracles import literal_dagger, loop_beliefs, loop_examples, ragged, stacked_ridge
from psimlearn.datasets import hard_system, random_system
from psimlearn.errors import DataError, DivergedError, SettingsError
from psimlearn.evaluate.horizons import errors_by_horizon
from psimlearn.filter.features import SecondMoment, Stack, StackSquares
from psimlearn.filter.regressors import Linear
from psimlearn.learners.blackbox import SklearnLearner
from psimlearn.learners.ridge import GramSums, RandomFourierRidge, Ridge
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.train import Recipe, Round, best, dagger, forward

PLAIN = Recipe(prior="zero", box=None, standardise=False, guard=None)
RNG = np.random.default_rng


def test_every_round_equals_a_stacked_refit_of_all_its_forebears() -> None:
    """Gram sums against scikit-learn on all examples ever met, one round at a time, ragged recordings."""
    whole = random_system(RNG(0)).simulate(16, 30, RNG(1))
    data = Trajectories.of([part.values[: 12 + 2 * i] for i, part in enumerate(whole)][::-1])
    features, alpha = Stack(3), 1e-3
    rounds = list(dagger(data, data, features, Ridge(alpha), rng=RNG(0), n_rounds=4, recipe=PLAIN))
    met = [_initial_examples(data, features)]
    for round in rounds:
        z, y = (np.concatenate(part) for part in zip(*met, strict=True))
        expected = stacked_ridge(z, y, alpha).predict(z)
        np.testing.assert_allclose(round.filter.regressors[0](z), expected, rtol=0, atol=1e-10)
        for trajectory in data:
            beliefs = loop_beliefs(round.filter, trajectory.values)
            met.append(loop_examples(trajectory.values, beliefs, features, lags=1))
    assert all(np.isfinite(round.error) for round in rounds)


def _initial_examples(data: Trajectories, features: Stack) -> tuple[np.ndarray, np.ndarray]:
    """D_0 by hand: futures regressed on the last ten observations, zeros before the first, the mean at the first."""
    k, n, p = features.window, data.n_channels, 10
    rows = []
    for i, trajectory in enumerate(data):
        x = trajectory.values
        padded = np.concatenate([np.zeros((p, n)), x])
        for t in range(len(x)):
            future = x[t : t + k].ravel() if t + k <= len(x) else None
            rows.append((i, t, padded[t : t + p][::-1].ravel(), future, x[t]))
    fit = [(h, f) for _, t, h, f, _ in rows if f is not None and t > 0]
    h, f = np.array([h for h, _ in fit]), np.array([f for _, f in fit])
    first = np.mean([f for _, t, _, f, _ in rows if t == 0 and f is not None], axis=0)
    scores = {}
    centred = h - h.mean(axis=0)
    unit = np.mean(centred**2)
    for power in range(-11, 2):  # generalised cross-validation from its definition
        alpha = unit * 10.0**power
        model = stacked_ridge(h, f, alpha)
        hat = centred @ np.linalg.solve(centred.T @ centred + alpha * len(h) * np.eye(h.shape[1]), centred.T)
        residual = np.sum((f - model.predict(h)) ** 2) / len(h)
        scores[alpha] = residual / (1 - (1 + np.trace(hat)) / len(h)) ** 2
    model = stacked_ridge(h, f, min(scores, key=lambda alpha: scores[alpha]))
    z, y = [], []
    for (i, t, h_t, _, x_t), (j, _, _, future, _) in pairwise(rows):
        if i == j and future is not None:  # the next row's future is this row's target
            belief = first if t == 0 else model.predict(h_t[None])[0]
            z.append(np.concatenate([belief, x_t]))
            y.append(future)
    return np.array(z), np.array(y)


def test_a_stored_aggregate_gives_the_same_rounds() -> None:
    """The trainer never asks which learner it has: Gram sums and stacked rows with a black box agree."""
    data = ragged([15, 30, 22, 18] * 3, 2, RNG(0))
    learners: list[Any] = [Ridge(1e-13), SklearnLearner(LinearRegression())]
    gram, stored = (
        list(dagger(data, data, Stack(2), learner, rng=RNG(0), n_rounds=3, recipe=Recipe(lags=2, prior="last")))
        for learner in learners
    )
    for ours, theirs in zip(gram, stored, strict=True):
        np.testing.assert_allclose(ours.filter.forecast(data, 2), theirs.filter.forecast(data, 2), rtol=0, atol=1e-6)


def test_as_published_is_algorithm_2_to_the_letter() -> None:
    rng = RNG(1)
    system = random_system(rng)
    data = system.simulate(60, 20, rng)
    x = data.values.reshape(60, 20, 2)
    weights, first = literal_dagger(x, window=2, alpha=1e-3, n_rounds=4, rng=rng)
    learner = Ridge(1e-3, intercept=False)
    rounds = list(dagger(data, data, Stack(2), learner, rng=rng, n_rounds=4, init="zero", recipe=Recipe.as_published()))
    np.testing.assert_allclose(rounds[0].filter.initial, first, rtol=0, atol=1e-12)
    z = rng.standard_normal((50, 6))
    for round, expected in zip(rounds, weights, strict=True):
        np.testing.assert_allclose(round.filter.regressors[0](z), z @ expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("rank", [None, 5])
@pytest.mark.parametrize("prior", ["mean", "last"])
@pytest.mark.parametrize("lags", [1, 4])
def test_without_belief_it_is_direct_autoregression(rank: int | None, prior: Any, lags: int) -> None:
    data = ragged([15, 40, 22, 31], 3, RNG(0))
    k, alpha = 3, 1e-2
    recipe = Recipe(lags=lags, prior=prior, belief_weight=0.0, rank=rank)
    filter = best(dagger(data, data, Stack(k), Ridge(alpha), rng=RNG(0), n_rounds=3, recipe=recipe)).filter
    mean, std = data.values.mean(axis=0), data.values.std(axis=0)
    inputs, targets, last = [], [], []
    for trajectory in data:
        x = (trajectory.values - mean) / std
        for t in range(len(x) - k):
            inputs.append(np.concatenate([x[max(t - j, 0)] for j in range(lags)]))
            targets.append(x[t + 1 : t + 1 + k].ravel())
            last.append(np.tile(x[t], k) if prior == "last" else np.zeros(k * 3))
    model = SklearnRidge(alpha * len(inputs), solver="cholesky").fit(inputs, np.array(targets) - last)
    predicted = filter.forecast(data, k)
    for i, trajectory in enumerate(data):
        x = (trajectory.values - mean) / std
        for t in range(1, len(x)):
            z = np.concatenate([x[max(t - 1 - j, 0)] for j in range(lags)])
            expected = model.predict(z[None])[0] + (np.tile(x[t - 1], k) if prior == "last" else 0)
            np.testing.assert_allclose(
                predicted[data.offsets[i] + t], expected.reshape(k, 3) * std + mean, rtol=0, atol=1e-10
            )


def test_a_round_costs_the_same_whatever_came_before_it() -> None:
    """7.11: every round summarises the same rows once and solves once, and what is kept does not grow."""
    calls: list[tuple[str, int]] = []

    class Counting(Ridge):
        def summarise(self, z: np.ndarray, y: np.ndarray, same: tuple[int, GramSums] | None = None) -> GramSums:
            calls.append(("summarise", len(z)))
            return super().summarise(z, y, same)

        def solve(self, stats: GramSums) -> Linear:
            calls.append(("solve", sum(np.size(part) for part in stats)))
            return super().solve(stats)

    data = ragged([20, 25, 30], 2, RNG(0))
    list(dagger(data, data, Stack(2), Counting(1e-3), rng=RNG(0), n_rounds=6))
    assert calls == [("summarise", 69), ("solve", 1 + 6 + 4 + 36 + 24 + 1)] * 7


def test_rounds_are_numbered_and_the_last_refit_is_a_candidate() -> None:
    data = ragged([20, 25], 1, RNG(0))
    rounds = list(dagger(data, data, Stack(2), Ridge(1e-3), rng=RNG(0), n_rounds=5))
    assert [round.number for round in rounds] == [0, 1, 2, 3, 4, 5]
    assert best(rounds).error == min(round.error for round in rounds)


def test_the_error_of_a_round_is_the_standardised_closed_loop_error() -> None:
    data, held_out = ragged([20, 25, 30], 2, RNG(0)), ragged([15, 18], 2, RNG(1))
    for round in dagger(data, held_out, Stack(2), Ridge(1e-3), rng=RNG(0), n_rounds=2):
        gap = (held_out.values - round.filter.forecast(held_out, 1)[:, 0]) / data.values.std(axis=0)
        np.testing.assert_allclose(round.error, np.sum(np.mean(gap**2, axis=0)), rtol=1e-12)


def test_best_refuses_when_everything_diverged() -> None:
    data = ragged([20, 25], 1, RNG(0))
    filter = best(dagger(data, data, Stack(2), Ridge(1e-3), rng=RNG(0), n_rounds=0)).filter
    with pytest.raises(DivergedError, match="every filter diverged"):
        best([Round(0, filter, np.inf, 0.0, 0)])


@pytest.mark.parametrize(("learner", "rounds"), [(Ridge(1e-3), 4), (RandomFourierRidge(30, 1e-2), 1)], ids=repr)
def test_scale_and_shift_of_channels_do_not_matter(learner: Any, rounds: int) -> None:
    data = ragged([20, 35, 28] * 3, 3, RNG(0))
    scale, shift = np.array([1e-6, 1.0, 1e5]), np.array([3e-6, -10.0, 1e6])
    other = Trajectories(data.values * scale + shift, data.offsets)
    recipe = Recipe(lags=2)
    for features in (Stack(3), StackSquares(2)):
        a, b = (
            best(dagger(d, d, features, learner, rng=RNG(0), n_rounds=rounds, recipe=recipe)).filter.forecast(d, 5)
            for d in (data, other)
        )
        np.testing.assert_allclose((b - shift) / scale, a, rtol=0, atol=1e-9)


@pytest.mark.parametrize("trainer", [dagger, forward])
def test_the_order_of_trajectories_does_not_matter(trainer: Any) -> None:
    data, held_out = ragged([20, 35, 28] * 8, 2, RNG(0)), ragged([30, 30], 2, RNG(1))
    shuffled = data[RNG(2).permutation(len(data))]
    a, b = (
        best(trainer(d, held_out, Stack(2), Ridge(1e-3), rng=RNG(0))).filter.forecast(held_out, 3)
        for d in (data, shuffled)
    )
    np.testing.assert_allclose(a, b, rtol=0, atol=1e-9)


@pytest.mark.parametrize("learner", [Ridge(1e-3), RandomFourierRidge(30, 1e-3)], ids=repr)
def test_the_same_seed_gives_the_same_filter(learner: Any) -> None:
    data = ragged([20, 35, 28] * 3, 2, RNG(0))
    a, b = (best(dagger(data, data, Stack(2), learner, rng=RNG(7))).filter.forecast(data, 3) for _ in range(2))
    np.testing.assert_array_equal(a, b)


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


BAD = [
    ({"prior": "last"}, SecondMoment(2), None),
    ({"rank": 2}, SecondMoment(2), "rank needs Stack or StackSquares features, received SecondMoment"),
    ({"rank": 0}, Stack(2), "rank: required None or at least 1, received 0"),
    ({"lags": 0}, Stack(2), "lags: required at least 1, received 0"),
    ({"belief_weight": -1.0}, Stack(2), "belief_weight: required at least 0, received -1.0"),
    ({"guard": 0.0}, Stack(2), "guard: required None or above 0, received 0.0"),
    ({"box": -1.0}, Stack(2), "box: required None or at least 0, received -1.0"),
    ({"feedthrough": True}, Stack(2), "feedthrough=True needs trajectories with inputs"),
    ({}, Stack(0), "window: required at least 1, received 0"),
]


@pytest.mark.parametrize(("settings", "features", "message"), BAD)
def test_which_settings_go_together(settings: dict[str, Any], features: Any, message: str | None) -> None:
    data = ragged([20, 25], 1, RNG(0))
    rounds = dagger(data, data, features, Ridge(1e-2), rng=RNG(0), n_rounds=1, recipe=Recipe(**settings))
    if message is None:
        assert np.isfinite(best(rounds).error)
    else:
        with pytest.raises(SettingsError, match=message):
            list(rounds)


def test_features_without_persist_have_no_last_prior() -> None:
    class Bare:
        window = 2

        def __call__(self, f: np.ndarray) -> np.ndarray:
            return f.reshape(len(f), -1)

        def observations(self, m: np.ndarray) -> np.ndarray:
            return m.reshape(len(m), 2, -1)

    data = ragged([20, 25], 1, RNG(0))
    assert np.isfinite(best(dagger(data, data, Bare(), Ridge(1e-3), rng=RNG(0), n_rounds=1)).error)
    with pytest.raises(SettingsError, match="prior='last' needs features with persist"):
        list(dagger(data, data, Bare(), Ridge(), rng=RNG(0), recipe=Recipe(prior="last")))


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("init='warm'", "init: required one of ('history', 'teacher', 'zero'), received 'warm'."),
        ("recipe=Recipe(prior='median')", "prior: required one of ('mean', 'last', 'zero'), received 'median'."),
    ],
)
def test_unknown_words_are_refused(setting: str, message: str) -> None:
    """In a process of its own: here the run-time type checks would speak first."""
    code = f"""
import numpy as np
from psimlearn import Recipe, Ridge, Stack, Trajectories, dagger
data = Trajectories.of(np.zeros((9, 1)))
list(dagger(data, data, Stack(2), Ridge(), rng=np.random.default_rng(0), {setting}))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip().endswith(f"SettingsError: {message}")


@pytest.mark.parametrize("init", ["history", "teacher", "zero"])
def test_every_start_learns(init: Any) -> None:
    rng = RNG(0)
    system = random_system(rng)
    data, held_out = system.simulate(200, 40, rng), system.simulate(50, 40, rng)
    rounds = list(dagger(data, held_out, Stack(2), Ridge(1e-4), rng=rng, init=init))
    unit = data.values.std(axis=0)
    gap = (held_out.values - system.kalman().forecast(held_out, 1)[:, 0]) / unit
    assert best(rounds).error <= 1.05 * np.sum(np.mean(gap**2, axis=0))


def test_the_box_rescues_what_explodes_without_it() -> None:
    """A weak ridge on a hard system from a zero start: open, beliefs blow up; boxed, every round stays finite."""
    rng = RNG(1)
    system = hard_system(rng)
    data, held_out = system.simulate(300, 32, rng), system.simulate(20, 32, rng)
    boxed, opened = (
        list(
            dagger(data, held_out, Stack(2), Ridge(1e-9), rng=RNG(0), init="zero", recipe=Recipe(box=box, guard=guard))
        )
        for box, guard in ((1.0, 8.0), (None, None))
    )
    assert max(round.error for round in opened) == np.inf
    assert all(np.isfinite(round.error) for round in boxed)
    assert max(round.clipped for round in boxed) > 0


def test_rows_whose_belief_ran_away_are_not_learnt_from() -> None:
    rng = RNG(1)
    system = hard_system(rng)
    data, held_out = system.simulate(300, 32, rng), system.simulate(20, 32, rng)
    rounds = list(
        dagger(data, held_out, Stack(2), Ridge(1e-9), rng=RNG(0), init="zero", recipe=Recipe(box=None, guard=8.0))
    )
    assert any(round.dropped > 0 for round in rounds)
    assert np.isfinite(rounds[-1].error)


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
