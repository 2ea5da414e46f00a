"""DAgger against stacked refits, the literal algorithm and plain autoregression."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.linear_model import Ridge as SklearnRidge

from oracles import literal_dagger, loop_beliefs, loop_examples, ragged, stacked_ridge
from psimlearn.datasets import hard_system, random_system
from psimlearn.files.model import read, save
from psimlearn.filter import Linear, Stack, StackSquares
from psimlearn.learners import GramSums, RandomFourierRidge, Ridge
from psimlearn.learners.blackbox import SklearnLearner
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.train import (
    Aggregation,
    Recipe,
    begin,
    best,
    dagger,
    first_round,
    forward,
    ground,
    held_out,
    next_round,
)

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


@pytest.mark.parametrize("rank", [5, 6, 7])
def test_the_rank_is_that_of_the_feedback_and_a_full_one_leaves_the_belief_as_it_is(rank: int) -> None:
    """A belief of six numbers: with six directions or more nothing is turned, and rounds are those without a rank."""
    data = ragged([15, 40, 22, 31], 3, RNG(0))
    filters = [
        list(dagger(data, data, Stack(2), Ridge(1e-2), rng=RNG(0), n_rounds=1, recipe=Recipe(rank=each)))[-1].filter
        for each in (rank, None)
    ]
    found, plain = filters
    if rank < 6:
        assert found.feedback.directions is not None
        assert found.feedback.directions.shape == (6, rank)
    else:
        assert found.feedback.directions is None
        np.testing.assert_array_equal(found.forecast(data, 2), plain.forecast(data, 2))


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


# -- stopped, written down, and gone on with ---------------------------------------------------------------------------

GOES_ON: dict[str, tuple[Any, dict[str, Any], float, bool]] = {
    "linear": (Ridge(1e-3), {}, 0.0, False),
    "levels and changes": (Ridge(1e-3), {"recipe": Recipe(3, "last", 0.5, level_weight=0.3)}, 0.0, False),
    "rank": (Ridge(1e-3), {"recipe": Recipe(rank=2)}, 0.0, False),
    "random features": (RandomFourierRidge(20, 1e-3), {}, 0.0, False),
    "gaps": (Ridge(1e-3), {}, 0.2, False),
    "random features, gaps, inputs": (RandomFourierRidge(20, 1e-3), {"recipe": Recipe(lags=2)}, 0.2, True),
    "inputs": (Ridge(1e-3), {"recipe": Recipe(feedthrough=True)}, 0.0, True),
    "nothing kept of the start": (Ridge(1e-3), {"recipe": Recipe(keep_start=False)}, 0.0, False),
    "a zero start": (Ridge(1e-3), {"init": "zero"}, 0.0, False),
    "as published": (Ridge(intercept=False), {"init": "zero", "recipe": Recipe.as_published()}, 0.0, False),
}


def written(stopped: Aggregation, path: Path) -> Aggregation:
    """The value from a model file: the filter, its sums as arrays, its scores as text, since one may be infinite."""
    sums = {} if stopped.sums is None else {name: np.atleast_1d(v) for name, v in stopped.sums._asdict().items()}
    scores = (stopped.number, stopped.error, stopped.clipped, stopped.dropped)
    save(stopped.filter, path, notes={"scores": [repr(float(score)) for score in scores]}, arrays=sums)
    filter, notes, arrays = read(path)
    number, error, clipped, dropped = (float(score) for score in notes["scores"])
    plain: dict[str, Any] = {name: array.item() if name in ("n", "yy") else array for name, array in arrays.items()}
    return Aggregation(int(number), filter, GramSums(**plain) if plain else None, error, clipped, int(dropped))


@pytest.mark.parametrize("name", GOES_ON)
def test_a_run_stopped_after_any_round_goes_on_bit_for_bit(name: str, tmp_path: Path) -> None:
    """With the written value and a beginning that is made again, in place of the process that was stopped."""
    learner, options, missing, with_inputs = GOES_ON[name]
    rng = RNG(0)
    data = ragged([20, 25, 30, 22], 2, rng, missing)
    if with_inputs:
        data = replace(data, inputs=rng.standard_normal((len(data.values), 1)))
    settings: Any = {"init": "history", "recipe": Recipe()} | options

    def afresh() -> tuple[Any, Any]:
        first = ground(data, Stack(2), settings["init"], settings["recipe"])
        begun = begin(first, learner, settings["init"], settings["recipe"], RNG(1))
        return begun, held_out(begun.filter, data, "one-step")

    begun, held = afresh()
    whole = [first_round(begun, held)]
    for _ in range(4):
        whole.append(next_round(whole[-1], begun, held))
    rounds = list(dagger(data, data, Stack(2), learner, rng=RNG(1), n_rounds=4, **settings))
    assert [r.error for r in rounds] == [one.error for one in whole]
    for stop in range(4):
        begun, held = afresh()
        current = written(whole[stop], tmp_path / "stopped.psim")
        for expected in whole[stop + 1 :]:
            current = next_round(current, begun, held)
            assert_identical(current, expected)


def assert_identical(one: Aggregation, other: Aggregation) -> None:
    assert one.round._replace(filter=other.filter) == other.round
    for a, b in zip(one.sums, other.sums, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(one.filter.covariance, other.filter.covariance)
    linear, same = (_linear(x.filter.regressors[0]) for x in (one, other))
    np.testing.assert_array_equal(linear.weights, same.weights)
    np.testing.assert_array_equal(linear.intercept, same.intercept)


def _linear(regressor: Any) -> Linear:
    linear = getattr(regressor, "linear", regressor)
    assert isinstance(linear, Linear)
    return linear


def test_a_round_that_is_not_scored_learns_the_same() -> None:
    data = ragged([20, 14, 17], 2, RNG(0))
    begun = begin(ground(data, Stack(2), "history", Recipe()), Ridge(1e-3), "history", Recipe(), RNG(0))
    held = held_out(begun.filter, data, "window")
    scored, unscored = (next_round(first_round(begun, held), begun, by) for by in (held, None))
    assert np.isfinite(scored.error)
    assert np.isnan([unscored.error, unscored.clipped]).all()
    z = np.eye(6)
    np.testing.assert_array_equal(scored.filter.regressors[0](z), unscored.filter.regressors[0](z))
    np.testing.assert_array_equal(scored.sums.zz, unscored.sums.zz)
    assert (scored.number, scored.dropped) == (unscored.number, unscored.dropped)


@pytest.mark.parametrize("exact", [False, True])
def test_recordings_that_score_teach_nothing(exact: bool) -> None:
    """With gaps, guesses depend on the covariance of errors: what trains must not know that of the held-out rows."""
    from psimlearn.train.refined import refined

    def gappy(seed: int, noise: float) -> Trajectories:
        rng = RNG(seed)
        values = random_system(RNG(0)).simulate(8, 30, rng).values + noise * rng.standard_normal((240, 2))
        values[rng.random(values.shape) < 0.3] = np.nan
        return Trajectories.of(values.reshape(8, 30, 2))

    def weights(validation: Trajectories) -> list[np.ndarray]:
        begun = begin(ground(gappy(1, 0.0), Stack(2), "history", Recipe()), Ridge(1e-3), "history", Recipe(), RNG(0))
        held = held_out(begun.filter, validation, "window")
        if exact:
            rounds = list(refined(begun.filter, begun, held, 3))
        else:
            rounds = [first_round(begun, held)]
            for _ in range(3):
                rounds.append(next_round(rounds[-1], begun, held))
        regressors = [each.filter.regressors[0] for each in rounds]
        return [each.weights for each in regressors if isinstance(each, Linear)]

    alike, noisy = weights(gappy(2, 0.0)), weights(gappy(3, 5.0))
    assert len(alike) == 4
    for one, other in zip(alike, noisy, strict=True):
        np.testing.assert_array_equal(one, other)
