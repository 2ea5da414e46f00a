"""Systems improved by expectation maximisation as starts: what they gain, and that parts of the data add up."""

from typing import Any

import numpy as np
import pytest

from oracles import ragged
from psimlearn.baselines import InnovationsModel, em
from psimlearn.choose.resume import from_json, to_json
from psimlearn.datasets import LinearSystem, random_system
from psimlearn.errors import DivergedError, SettingsError
from psimlearn.estimator.psim import PSIM
from psimlearn.evaluate import errors_by_horizon
from psimlearn.filter import Filter, Stack
from psimlearn.learners import Ridge
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.recordings.windows import evenly_cut
from psimlearn.train import Recipe
from psimlearn.train.improved import improved, pieces
from psimlearn.train.likelihood import Expected, expected
from psimlearn.train.recipe import Size
from psimlearn.train.smoother import records
from psimlearn.train.start import Ground, begin, ground, identifying
from psimlearn.train.systems import NoisySystem, settled

RNG = np.random.default_rng


def simulated(m: int = 20, rows: int = 60) -> tuple[LinearSystem, Trajectories, Trajectories]:
    rng = RNG(0)
    system = random_system(rng, n_states=4, n_outputs=6)
    return system, system.simulate(m, rows, rng), system.simulate(60, 60, rng)


def laid(train: Trajectories) -> Ground:
    return ground(train, Stack(3), "history", Recipe())


def first_filter(train: Trajectories, **recipe: Any) -> Filter:
    chosen = Recipe(**{"states": 4, "past": 5, "box": None} | recipe)
    return begin(laid(train), Ridge(), "history", chosen, RNG(0)).filter


def test_it_is_closer_to_the_optimal_filter_than_the_system_it_started_from() -> None:
    system, train, test = simulated()
    optimal = errors_by_horizon(system.kalman(), test, 3, skip=10)
    before, after = (
        errors_by_horizon(first_filter(train, em_iterations=n), test, 3, skip=10) / optimal for n in (0, 10)
    )
    assert after[0] < before[0]
    assert (after < 1.01 * before).all()


def test_iterations_are_those_of_the_baseline() -> None:
    _, train, _ = simulated()
    found = identifying(laid(train), [Size(5, 4)])
    start, scaling = found.systems[Size(5, 4)], found.scaling
    A, C, K, V, shrunk = start.system
    begun = InnovationsModel(A, C, K, V, start.level, start.state, settled(A, K @ V @ K.T), shrunk).in_units(scaling)
    theirs = em(train, start=begun, n_iter=5, tolerance=0.0)
    assert len(theirs.log_likelihoods) == 6
    assert (np.diff(theirs.log_likelihoods) > 0).all()
    ours = improved(start, pieces(found.x, found.layout.plan, train.offsets), 5)
    np.testing.assert_allclose(ours.A, theirs.A, atol=1e-8)
    np.testing.assert_allclose(ours.K, theirs.K * scaling.scale, atol=1e-8)
    np.testing.assert_allclose(scaling.scale[:, None] * ours.C, theirs.C, atol=1e-8)


def test_sums_of_parts_add_up() -> None:
    system, train, _ = simulated()
    A, C, Q, R, S = system.A, system.C, system.Q, system.R, system.S
    model = NoisySystem(A, C, Q, R, S, np.zeros(len(C)), system.mean, np.eye(len(A)))
    whole, first, second = (
        expected(model, records(each.values, each.offsets)) for each in (train, train[:7], train[7:])
    )
    for name in Expected._fields:
        both, one = (np.asarray(getattr(sums, name)) for sums in (first.plus(second), whole))
        np.testing.assert_allclose(both, one, rtol=1e-9, atol=1e-9 * np.abs(one).max())


def test_long_recordings_are_cut_evenly() -> None:
    assert np.diff(evenly_cut(np.array([0, 450, 460, 860]), 200)).tolist() == [150, 150, 150, 10, 200, 200]


def test_numbers_that_are_not_finite_are_an_error() -> None:
    _, train, _ = simulated()
    found = identifying(laid(train), [Size(5, 4)])
    start = found.systems[Size(5, 4)]
    broken = start._replace(level=np.full_like(start.level, np.nan))
    with pytest.raises(DivergedError, match="expectation maximisation"):
        improved(broken, pieces(found.x, found.layout.plan, train.offsets), 1)


def test_iterations_need_a_system() -> None:
    with pytest.raises(SettingsError, match="required a number of states"):
        ground(ragged([30, 30], 2, RNG(0)), Stack(2), "history", Recipe(em_iterations=3))


def test_files_of_earlier_versions_know_no_iterations() -> None:
    kept = to_json("recipe", Recipe(states=3, em_iterations=5))
    assert from_json(kept) == Recipe(states=3, em_iterations=5)
    del kept["em_iterations"]
    assert from_json(kept) == Recipe(states=3)


def test_the_search_tries_an_improved_system_with_and_without_gaps() -> None:
    _, train, _ = simulated(8, 40)
    gappy = Trajectories(np.where(RNG(1).random(train.values.shape) < 0.05, np.nan, train.values), train.offsets)
    for data in (train, gappy):
        model = PSIM(3, n_rounds=2, random_state=0).fit(data)
        assert any(trial["em_iterations"] for trial in model.trials_)
