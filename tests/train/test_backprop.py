"""Back-propagation: epochs against their promises, and the estimator that uses them."""

import pickle
import subprocess
import sys
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
from oracles import loss_by_hand, ragged
from psimlearn import PSIM
from psimlearn.baselines import TrainingMean
from psimlearn.choose import descents
from psimlearn.datasets import LinearSystem, long_memory_system, random_system
from psimlearn.errors import DataError, MissingExtraError, SettingsError
from psimlearn.evaluate import errors_by_horizon
from psimlearn.filter import Filter, Stack
from psimlearn.filter.rollout import roll
from psimlearn.filter.rollout import table as laid_out
from psimlearn.learners import RandomFourierRidge, Ridge
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.recordings.windows import example_rows
from psimlearn.train import Recipe, backprop, best, dagger, forward, random_start
from psimlearn.train.backprop import epochs
from psimlearn.train.descent import Optimiser
from psimlearn.train.unrolled import weights_of, with_weights

RNG = np.random.default_rng


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


def test_the_users_precision_is_left_alone() -> None:
    start, train, validation = half_learnt()
    for epoch in epochs(train, validation, start, n_epochs=2):
        assert jax.numpy.ones(1).dtype == np.float32
        assert epoch.state.parameters.dtype == np.float64
    assert jax.numpy.ones(1).dtype == np.float32


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
    with pytest.raises(SettingsError, match="batch: required None or a whole number of at least 1"):
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
        "PSIM(2, lags=1, n_rounds=1).fit(np.random.default_rng(0).standard_normal((4, 20, 1)))\n"
        "print([name for name in ('jax', 'optax') if name in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


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
    monkeypatch.setattr(descents, "N_EPOCHS", 15)
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
