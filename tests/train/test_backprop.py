"""Back-propagation: the loop and its gradients against numpy, descents against what they promise."""

import pickle
import subprocess
import sys
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, get_args

import jax
import numpy as np
import pytest
import scipy.optimize
from sklearn.base import clone
from sklearn.neighbors import KNeighborsRegressor

import psimlearn
from oracles import loop_beliefs, ragged
from psimlearn import PSIM
from psimlearn.baselines import TrainingMean
from psimlearn.choose import fit as fitting
from psimlearn.datasets import LinearSystem, long_memory_system, random_system
from psimlearn.errors import DataError, DivergedError, MissingExtraError, SettingsError
from psimlearn.evaluate.horizons import errors_by_horizon
from psimlearn.filter.features import SecondMoment, Stack, StackSquares
from psimlearn.filter.filter import Filter
from psimlearn.filter.rollout import roll
from psimlearn.filter.rollout import table as laid_out
from psimlearn.learners.ridge import RandomFourierRidge, Ridge
from psimlearn.recordings.schedule import grids, schedule
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.recordings.windows import example_rows, futures
from psimlearn.train import Recipe, Round, backprop, best, dagger, forward, random_start
from psimlearn.train.backprop import epochs
from psimlearn.train.descent import Optimiser, check_optimiser, descend, patient
from psimlearn.train.unrolled import closed_loop, fixed_of, form_of, parts_of, weights_of, with_weights

RNG = np.random.default_rng
CLOSE = Recipe(lags=3, prior="last", feedthrough=True, box=0.0)
FILTERS: dict[str, tuple[Any, Any, Recipe, float]] = {
    "linear, gaps, lags, last, box": (Stack(3), Ridge(1e-2), CLOSE, 0.2),
    "linear, squares, whole": (StackSquares(2), Ridge(1e-2), replace(CLOSE, prior="zero"), 0.0),
    "linear, moments, gaps": (SecondMoment(2), Ridge(1e-1), Recipe(prior="last", belief_weight=0.3), 0.1),
    "linear, rank, whole": (Stack(3), Ridge(1e-2), Recipe(rank=4, lags=2), 0.0),
    "features and inputs, gaps": (Stack(2), RandomFourierRidge(30, 1e-2), CLOSE, 0.2),
    "features alone, whole": (Stack(2), RandomFourierRidge(30, 1e-2, raw_inputs=False), Recipe(), 0.0),
}


def recordings(missing: float, seed: int = 0) -> Trajectories:
    rng = RNG(seed)
    data = ragged([30, 12, 45, 28, 44], 3, rng, missing)
    return Trajectories(data.values, data.offsets, inputs=rng.standard_normal((len(data.values), 2)))


@cache
def learnt(name: str) -> tuple[Filter, Trajectories]:
    features, learner, recipe, missing = FILTERS[name]
    data = recordings(missing)
    return best(dagger(data, data, features, learner, rng=RNG(1), n_rounds=2, recipe=recipe)).filter, data


def loss_by_hand(filter: Filter, data: Trajectories) -> float:
    """Squared errors of the beliefs that a loop over rows leaves behind, averaged over what was observed."""
    k, errors = filter.features.window, []
    for part in data:
        x = filter.scaling(part.values)
        beliefs = loop_beliefs(filter, part.values, part.inputs)
        for t in range(len(x) - k):
            errors.append(beliefs[t + 1] - filter.features(x[None, t + 1 : t + 1 + k])[0])
    return float(np.nanmean(np.square(errors), axis=0).sum())


def loss_of(filter: Filter, data: Trajectories) -> tuple[float, np.ndarray]:
    """The loss and its gradient by JAX."""
    with jax.enable_x64(True):
        loss = closed_loop(form_of(filter, True)).loss
        value, gradient = jax.jit(jax.value_and_grad(loss))(
            weights_of(filter), fixed_of(filter), tuple(parts_of(filter, data))
        )
        return float(value), np.asarray(gradient)


# -- the loop --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FILTERS)
def test_the_loop_is_the_filters(name: str) -> None:
    filter, data = learnt(name)
    plan = schedule(data.offsets)
    rows = example_rows(plan, filter.features.window)[0]
    after = np.concatenate([loop_beliefs(filter, part.values, part.inputs)[1:] for part in data])[plan.order]
    parts = parts_of(filter, data)
    assert len(parts) > 1  # the recordings differ too much in length for one rectangle
    for part, grid in zip(parts, grids(plan, rows), strict=True):
        with jax.enable_x64(True):
            rolled = jax.jit(closed_loop(form_of(filter, True)).rolled)
            beliefs = np.asarray(rolled(weights_of(filter), fixed_of(filter), part, np.zeros_like(part.y))[0])
        np.testing.assert_allclose(beliefs[grid >= 0], after[grid[grid >= 0]], rtol=0, atol=1e-10)
    if name == "linear, gaps, lags, last, box":
        assert filter.feedback.clipped(filter.feedback(after)).any()  # the box was at work


@pytest.mark.parametrize("name", FILTERS)
def test_gradients_are_finite_differences_of_the_filters_loss(name: str) -> None:
    """To 1e-5, entry by entry: the largest ones, some others, and one direction through all."""
    filter, data = learnt(name)
    value, gradient = loss_of(filter, data)
    assert value == pytest.approx(loss_by_hand(filter, data), rel=1e-12)
    weights = weights_of(filter)

    table = laid_out(filter, data)
    rows, targets = example_rows(table.layout.plan, filter.features.window)
    phi = filter.features(futures(table.layout.x, table.layout.plan, filter.features.window)[targets])

    def numpy_loss(weights: np.ndarray) -> float:
        moved = with_weights(filter, weights)
        return float(np.nanmean((roll(moved, table).beliefs[rows] - phi) ** 2, axis=0).sum())

    def slope(direction: np.ndarray, h: float) -> float:
        return (numpy_loss(weights + h * direction) - numpy_loss(weights - h * direction)) / (2 * h)

    scale = np.abs(gradient).max()
    order = np.argsort(np.abs(gradient).ravel())
    for entry in [*order[-2:], *RNG(0).choice(order[:-2], 2, replace=False)]:
        unit = np.zeros(weights.size)
        unit[entry] = 1.0
        own = slope(unit.reshape(weights.shape), 1e-5)
        assert own == pytest.approx(gradient.ravel()[entry], rel=1e-5, abs=1e-5 * scale)
    direction = gradient / np.linalg.norm(gradient)
    assert slope(direction, 1e-5) == pytest.approx(np.linalg.norm(gradient), rel=1e-5)


# -- from what was learnt --------------------------------------------------------------------------------------------


@cache
def half_learnt() -> tuple[Filter, Trajectories, Trajectories]:
    rng = RNG(3)
    values = long_memory_system().simulate(60, 40, rng).values.copy()
    values[rng.random(values.shape) < 0.1] = np.nan
    data = Trajectories.of([v[: 40 - i % 9] for i, v in enumerate(values.reshape(60, 40, 2))])
    train, validation = data[:40], data[40:]
    return next(dagger(train, validation, Stack(2), Ridge(1e-2), rng=rng)).filter, train, validation


@pytest.mark.parametrize("optimiser", get_args(Optimiser))
def test_from_a_learnt_filter_nothing_gets_worse(optimiser: Optimiser) -> None:
    start, train, validation = half_learnt()
    run = list(epochs(train, validation, start, optimiser=optimiser, n_epochs=8, batch=8, patience=8))
    first, last = run[0], min(run, key=lambda e: e.error)
    assert weights_of(first.round.filter).tolist() == weights_of(start).tolist() or optimiser == "lbfgs"
    assert last.error < first.error  # and better, if not for good
    before, after = (loss_by_hand(epoch.round.filter, train) for epoch in (first, last))
    assert after < before
    assert last.state.loss == pytest.approx(after, rel=1e-9)
    assert all(epoch.state.loss <= first.state.loss for epoch in run)
    again = next(backprop(train, validation, last.round.filter)).error
    assert last.error == pytest.approx(again, rel=1e-9)  # the filter is the one that was scored


def test_refining_reaches_what_an_independent_minimiser_reaches() -> None:
    """scipy's BFGS with differences of the numpy loop for gradients, on a system small enough for it."""
    rng = RNG(0)
    data = random_system(rng).simulate(20, 20, rng)
    start = next(dagger(data, data, Stack(2), Ridge(1e-1), rng=rng, recipe=Recipe(box=None))).filter
    shape = weights_of(start).shape
    table = laid_out(start, data)
    rows, targets = example_rows(table.layout.plan, 2)
    phi = np.concatenate([table.layout.x[table.layout.plan.place(j)] for j in range(2)], axis=1)[targets]

    def loss(weights: np.ndarray) -> float:
        filter = with_weights(start, weights.reshape(shape))
        return float(np.sum((roll(filter, table).beliefs[rows] - phi) ** 2) / len(phi))

    least = scipy.optimize.minimize(loss, weights_of(start).ravel(), method="BFGS", options={"maxiter": 60}).fun
    ours = [e.state.loss for e in epochs(data, data, start, n_epochs=100, patience=100)]
    assert ours[0] == pytest.approx(loss(weights_of(start).ravel()), rel=1e-12)
    assert least < 0.99 * ours[0]
    assert ours[-1] == pytest.approx(least, rel=1e-4)


def distance(filter: Filter, system: LinearSystem, test: Trajectories) -> float:
    """E||prediction - optimal prediction||^2 / e_F, the expected excess."""
    gap = (filter.forecast(test, 1) - system.kalman().forecast(test, 1))[:, 0]
    return float(np.mean(np.sum(gap**2, axis=1)) / np.trace(system.stationary.V))


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "alpha"), [(0, 1e-6), (1, 1e-6), (2, 1e-4)])
def test_refining_the_long_memory_system(seed: int, alpha: float) -> None:
    """1000 recordings x 100: round 3, refined, within 1.1 times the excess of 20 rounds, and round 20 not above it."""
    rng, system = RNG(seed), long_memory_system()
    train, validation, test = (system.simulate(m, 100, rng) for m in (1000, 250, 1000))
    rounds = list(dagger(train, validation, Stack(2), Ridge(alpha), rng=rng))
    excess = {n: distance(rounds[n].filter, system, test) for n in (3, 20)}
    refined = {
        n: distance(best(backprop(train, validation, rounds[n].filter, n_epochs=100)).filter, system, test)
        for n in (3, 20)
    }
    assert excess[3] > 2 * excess[20]  # there was something to do
    assert refined[3] <= 1.1 * excess[20]
    assert refined[20] <= excess[20]


# -- from random weights ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("learner", [Ridge(), RandomFourierRidge(20)], ids=["linear", "features"])
def test_random_weights_learn(learner: Any) -> None:
    rng = RNG(1)
    system = random_system(rng)
    train, validation = system.simulate(60, 30, rng), system.simulate(40, 30, rng)
    start = random_start(train, Stack(2), learner, rng=rng)
    assert 0 < np.abs(weights_of(start)).max() <= 0.01
    trained = best(backprop(train, validation, start, optimiser="rmsprop", rate=3e-3, n_epochs=40)).filter
    floor, mean = (errors_by_horizon(f, validation)[0] for f in (system.kalman(), TrainingMean.fit(train)))
    error = errors_by_horizon(trained, validation)[0]
    assert error - floor < 0.25 * (mean - floor)


def test_without_an_intercept_there_is_none() -> None:
    rng = RNG(2)
    data = random_system(rng).simulate(10, 12, rng)
    start = random_start(data, Stack(2), Ridge(intercept=False), rng=rng, recipe=Recipe.as_published())
    rounds = list(backprop(data, data, start, optimiser="adam", n_epochs=3, intercept=False))
    assert rounds[-1].error < rounds[0].error
    assert all((weights_of(round.filter)[-1] == 0).all() for round in rounds)


# -- descents --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("optimiser", ["adam", "lbfgs"])
def test_a_descent_goes_on_from_where_it_stood(optimiser: Optimiser) -> None:
    start, train, validation = half_learnt()
    options: dict[str, Any] = {"optimiser": optimiser, "n_epochs": 6, "seed": 4}
    whole = list(epochs(train, validation, start, **options))
    kept = pickle.loads(pickle.dumps(next(islice(epochs(train, validation, start, **options), 3, None)).state))
    rest = list(epochs(train, validation, start, **options, state=kept))
    assert [e.round.number for e in rest] == [4, 5, 6]
    for one, other in zip(whole[4:], rest, strict=True):
        assert one.error == other.error
        np.testing.assert_array_equal(one.state.parameters, other.state.parameters)


def bowl(p: Any, fixed: Any, batch: Any) -> Any:
    return ((p - batch) ** 2).sum()


def run(batches: list[float], whole: float, n: int, **options: Any) -> list[Any]:
    arrays = [np.full(2, b) for b in batches]
    return list(islice(descend(bowl, np.zeros(2), None, arrays, np.full(2, whole), seed=0, **options), n + 1))


def test_gradient_descent_by_hand() -> None:
    """Steps of rate * 2 (p - b), halved every 2 epochs; a gradient longer than the clip is shortened to it."""
    states = run([1.0], 1.0, 4, optimiser="gd", rate=0.1, halving=2)
    p, by_hand = 0.0, [0.0]
    for rate in (0.1, 0.1, 0.05, 0.05):
        p -= rate * 2 * (p - 1)
        by_hand.append(p)
    np.testing.assert_allclose([s.parameters[0] for s in states], by_hand, rtol=0, atol=1e-15)
    np.testing.assert_allclose([s.loss for s in states], [2 * (p - 1) ** 2 for p in by_hand], rtol=0, atol=1e-14)
    clipped = run([1.0], 1.0, 1, optimiser="gd", rate=0.1, clip=1.0)[1].parameters
    np.testing.assert_allclose(clipped, np.full(2, 0.1 / np.sqrt(2)), rtol=1e-12)


def test_steps_that_are_not_finite_are_not_taken() -> None:
    states = run([1.0, np.nan, 1.0], 1.0, 3, optimiser="rmsprop", rate=0.1)
    assert [s.rejected for s in states] == [(), (1,), (1,), (1,)]
    assert states[-1].loss < states[0].loss


def test_epochs_that_climb_are_undone_with_half_the_step() -> None:
    states = run([1.0], 1.0, 8, optimiser="gd", rate=6.0)  # 1 - 2 rate: diverges until the rate is below 1
    assert [s.share for s in states[:5]] == [1.0, 0.5, 0.25, 0.125, 0.125]
    assert [s.loss for s in states[:4]] == [2.0] * 4
    assert states[-1].loss < 0.2
    assert len(run([2.0], -1.0, 99, optimiser="gd")) < 99  # the batches lead away from the whole: there is an end


def test_a_descent_needs_a_finite_beginning_and_a_known_optimiser() -> None:
    with pytest.raises(DivergedError, match="required a finite loss"):
        run([1.0], np.inf, 1)
    with pytest.raises(SettingsError, match=r"optimiser: required one of .* received 'newton'"):
        check_optimiser("newton")


def test_patience_ends() -> None:
    filter = half_learnt()[0]
    errors = [5.0, 4.0, 6.0, 3.0, np.inf, 3.0, 2.0, 1.0]
    rounds = [Round(i, filter, e, 0.0, 0) for i, e in enumerate(errors)]
    assert [r.number for r in patient(rounds, 2)] == [0, 1, 2, 3, 4, 5]


def test_the_users_precision_is_left_alone() -> None:
    start, train, validation = half_learnt()
    for epoch in epochs(train, validation, start, n_epochs=2):
        assert jax.numpy.ones(1).dtype == np.float32
        assert epoch.state.parameters.dtype == np.float64
    assert jax.numpy.ones(1).dtype == np.float32


# -- what does not work says so --------------------------------------------------------------------------------------


def test_filters_without_a_gradient_are_refused() -> None:
    rng = RNG(0)
    data = random_system(rng).simulate(60, 8, rng)
    many = best(forward(data, data, Stack(2), Ridge(1e-2), rng=rng)).filter
    with pytest.raises(SettingsError, match="required one linear or random-feature regressor for all times"):
        next(backprop(data, data, many))
    with pytest.raises(DataError, match="required a recording with more rows than the window, at least 3"):
        next(backprop(ragged([2, 1], 2, rng), data, random_start(data, Stack(2), Ridge(), rng=rng)))
    with pytest.raises(SettingsError, match="intercept=False: required a start without an intercept"):
        next(backprop(data, data, next(dagger(data, data, Stack(2), Ridge(), rng=rng)).filter, intercept=False))
    with pytest.raises(SettingsError, match="batch: required at least 1 recording"):
        next(backprop(data, data, random_start(data, Stack(2), Ridge(), rng=rng), batch=0))
    with pytest.raises(SettingsError, match="trainer='backprop': required linear or random Fourier regression"):
        PSIM(2, trainer="backprop", learner=KNeighborsRegressor()).fit(data)


def test_without_the_extra_its_name_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optax", None)
    with pytest.raises(MissingExtraError, match=r"psimlearn\[grad\]"):
        PSIM(2, trainer="dagger+backprop").fit(RNG(0).standard_normal((5, 20, 2)))


def test_nobody_who_does_not_descend_loads_jax() -> None:
    code = (
        "import sys, numpy as np, psimlearn.train, psimlearn.baselines; from psimlearn import PSIM\n"
        "PSIM(2).fit(np.random.default_rng(0).standard_normal((4, 20, 1)))\n"
        "print([name for name in ('jax', 'optax') if name in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


# -- the estimator ---------------------------------------------------------------------------------------------------

GIVEN: dict[str, Any] = {
    "learner": Ridge(1e-4),
    "lags": 1,
    "prior": "mean",
    "belief_weight": 1.0,
    "n_rounds": 3,
    "random_state": 0,
}


def test_the_estimator_refines_what_dagger_has_learnt(tmp_path: Path) -> None:
    rng, system = RNG(0), long_memory_system()
    train, test = system.simulate(60, 40, rng), system.simulate(300, 40, rng)
    plain, refined = (PSIM(2, trainer=t, **GIVEN).fit(train) for t in ("dagger", "dagger+backprop"))
    assert refined.rounds_[3].error == plain.rounds_[3].error
    chosen = plain.report_["choices"]["best_round"]
    assert refined.rounds_[4].error == pytest.approx(plain.rounds_[chosen].error, rel=1e-9)
    assert best(refined.rounds_).error < best(plain.rounds_).error
    gained = [distance(model.filter_, system, test) for model in (plain, refined)]
    assert gained[1] < 0.8 * gained[0]
    assert f"dagger+backprop, round {chosen}, {refined.report_['choices']['epochs']} epochs" in refined.summary()
    refined.save(tmp_path / "model.psim")
    loaded = PSIM.load(tmp_path / "model.psim")
    np.testing.assert_array_equal(loaded.predict(test[:2])[1], refined.predict(test[:2])[1])
    np.testing.assert_array_equal(
        psimlearn.load(tmp_path / "model.psim").forecast(test, 3), refined.filter_.forecast(test, 3)
    )
    live = loaded.start()
    for row in test[0].values[:10]:
        live.update(row)
    np.testing.assert_allclose(live.predict(), refined.predict(test[:1])[0][10], rtol=0, atol=1e-10)
    assert clone(refined).trainer == "dagger+backprop"
    assert not hasattr(refined, "partial_fit")  # it would go on with sums, and forget the refinement


def test_the_estimator_learns_from_random_weights_over_gappy_recordings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "N_EPOCHS", 15)
    rng = RNG(5)
    system = random_system(rng)
    values = system.simulate(30, 40, rng).values.copy()
    values[rng.random(values.shape) < 0.1] = np.nan
    data = Trajectories.of([v[: 40 - i % 5] for i, v in enumerate(values.reshape(30, 40, 2))])
    model = PSIM(2, trainer="backprop", **GIVEN | {"validation": data[24:]}).fit(data[:24])
    errors = [round.error for round in model.rounds_[4:]]
    assert errors[0] > 0.5  # random weights, relative to the last observation
    assert len(errors) == 16
    assert min(errors) < 0.9 * errors[0]
    assert model.report_["choices"]["epochs"] == int(np.argmin(errors))
    assert np.isfinite(model.predict(data)[0]).all()
