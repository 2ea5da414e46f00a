"""Derived beginnings: arithmetic on shared sums equals fresh sums."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from oracles import ragged
from psimlearn.filter import Stack
from psimlearn.learners import GramSums, RandomFourierRidge, Ridge
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.train import Recipe
from psimlearn.train.dagger import first_round, next_round
from psimlearn.train.derived import beside, initial_sums, revised, with_fewer_lags, with_ridge
from psimlearn.train.examples import examples as examples_of
from psimlearn.train.ground import ground
from psimlearn.train.score import NEARLY, forgetful, held_out, spectral_radius
from psimlearn.train.start import Beginning, begin
from psimlearn.train.systems import LARGEST_POLE

RNG = np.random.default_rng


def recordings(seed: int = 0, missing: float = 0.0, n: int = 2) -> Trajectories:
    return ragged([30, 25, 40, 18, 33, 27], n, RNG(seed), missing)


def beginning(data: Trajectories, recipe: Recipe, learner: Any, init: Any = "history") -> Beginning:
    return begin(ground(data, Stack(2), init, Recipe()), learner, init, recipe, RNG(0))


@pytest.mark.parametrize("init", ["history", "teacher"])
@pytest.mark.parametrize("missing", [0.0, 0.2], ids=["whole", "gappy"])
@pytest.mark.parametrize("lags", [1, 3])
@pytest.mark.parametrize("belief_weight", [0.0, 0.3, 1.0])
@pytest.mark.parametrize(
    ("prior", "level_weight", "cross_weight"),
    [("mean", None, 1.0), ("last", None, 0.3), ("last", 1.0, 1.0), ("last", 0.1, 0.3)],
)
def test_revised_sums_equal_fresh_ones(
    prior: Any,
    level_weight: float | None,
    cross_weight: float,
    belief_weight: float,
    lags: int,
    missing: float,
    init: Any,
) -> None:
    data, test = recordings(missing=missing), recordings(1, missing)
    shared = beginning(data, Recipe(lags=lags), Ridge(7.0), init)
    recipe = Recipe(lags, prior, belief_weight, level_weight, cross_weight)
    fresh = beginning(data, recipe, Ridge(1e-3), init)
    ours = with_ridge(revised(shared, prior, belief_weight, level_weight, cross_weight), 1e-3)
    np.testing.assert_allclose(ours.filter.forecast(test, 4), fresh.filter.forecast(test, 4), rtol=0, atol=1e-8)
    (own, begun), (others, anew) = ((held_out(b.filter, test, "window"), b) for b in (ours, fresh))
    first = first_round(begun, own), first_round(anew, others)
    for mine, theirs in (first, (next_round(first[0], begun, own), next_round(first[1], anew, others))):
        assert mine.error == pytest.approx(theirs.error, rel=1e-8)
        assert mine.clipped == theirs.clipped
        np.testing.assert_allclose(mine.filter.forecast(test, 3), theirs.filter.forecast(test, 3), rtol=0, atol=1e-8)


@pytest.mark.parametrize("missing", [0.0, 0.2], ids=["whole", "gappy"])
def test_sums_with_many_lags_contain_those_with_fewer(missing: float) -> None:
    data = recordings(missing=missing)
    initial = initial_sums(ground(data, Stack(2), "history", Recipe()), "history", Recipe(lags=4))
    for lags in (1, 3, 4):
        recipe = Recipe(lags=lags)
        assert initial.serve(recipe)
        assert_same(with_fewer_lags(initial, recipe), beginning(data, recipe, Ridge()).sums)
    assert not initial.serve(Recipe(lags=5))
    assert not initial.serve(Recipe(lags=1, box=None))
    assert not initial.serve(Recipe(lags=1, rank=2))


@pytest.mark.parametrize(("prior", "level_weight"), [("mean", None), ("last", None), ("last", 1.0)])
def test_rounds_from_a_system_share_sums_with_regressions(prior: Any, level_weight: float | None) -> None:
    """A system brings its states; products of lags with lags and with targets are those of every regression."""
    data, test = recordings(), recordings(1)
    laid = ground(data, Stack(2), "history", Recipe())
    recipe = Recipe(lags=2, prior=prior, level_weight=level_weight, states=2, past=3)
    known = beside(initial_sums(laid, "history", Recipe(lags=4)), recipe)
    found = []
    for given in (None, known):
        begun = begin(laid, Ridge(1e-2), "history", recipe, RNG(0), given)
        held = held_out(begun.filter, test, "window")
        first = first_round(begun, held)
        second = next_round(next_round(first, begun, held), begun, held)
        found.append((second, begun))
    (alone, begun), (sharing, _) = found
    assert sharing.error == pytest.approx(alone.error, rel=1e-9)
    np.testing.assert_allclose(sharing.filter.forecast(test, 3), alone.filter.forecast(test, 3), rtol=0, atol=1e-9)
    rolled = examples_of(first_round(begun, held).filter, begun.training)
    assert_same(next_round(first_round(begun, held), begun, held).sums, Ridge().summarise(rolled.z, rolled.y))


def test_another_ridge_needs_no_other_sums() -> None:
    data, test = recordings(), recordings(1)
    for learner in (Ridge(1.0), RandomFourierRidge(20, 1.0)):
        ours = with_ridge(beginning(data, Recipe(), learner), 1e-4)
        fresh = beginning(data, Recipe(), replace(learner, alpha=1e-4))
        np.testing.assert_allclose(ours.filter.forecast(test, 3), fresh.filter.forecast(test, 3), rtol=0, atol=1e-9)


def test_a_first_filter_that_nearly_forgets_is_made_to_forget() -> None:
    begun, alphas = beginning(recordings(7), Recipe(), Ridge(1.0)), np.geomspace(1e-4, 1e-2, 9)
    assert begun.training.same is not None
    sums = begun.training.same[1]
    regressions = [replace(begun.filter, regressors=(Ridge(alpha).solve(sums),)) for alpha in alphas]
    before = np.array([spectral_radius(filter) for filter in regressions])
    after = np.array([spectral_radius(with_ridge(begun, alpha).filter) for alpha in alphas])
    nearly = (before > 1) & (before <= NEARLY)
    assert 0 < nearly.sum() < len(alphas)
    np.testing.assert_allclose(after, np.where(nearly, LARGEST_POLE, before), rtol=1e-9)
    filter = regressions[int(nearly.argmax())]
    steps = [np.asarray(each.regressors[0](np.eye(6))) for each in (filter, forgetful(filter))]
    constant = np.asarray(filter.regressors[0](np.zeros((1, 6))))
    ratio = (steps[1] - constant) / (steps[0] - constant)
    np.testing.assert_allclose(ratio[:4], LARGEST_POLE / before[nearly.argmax()], rtol=1e-9)  # of the feedback
    np.testing.assert_allclose(ratio[4:], 1.0, rtol=1e-9)
    unboxed = replace(filter, feedback=filter.feedback._replace(low=None, high=None))
    assert forgetful(unboxed) is unboxed  # as published


def examples() -> tuple[np.ndarray, np.ndarray]:
    rng = RNG(0)
    z = rng.standard_normal((50, 4)) * [1.0, 2.0, 3.0, 4.0] + 5.0
    return z, z @ rng.standard_normal((4, 3)) + rng.standard_normal((50, 3))


def assert_same(ours: GramSums, theirs: GramSums) -> None:
    for name in GramSums._fields:
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-10, atol=1e-9)


def test_scaled_sums_are_those_of_scaled_examples() -> None:
    z, y = examples()
    scale = np.array([0.0, 1.0, -2.0, 0.5])
    assert_same(Ridge().summarise(z, y).scaled(scale), Ridge().summarise(z * scale, y))


def test_sums_less_a_map_are_those_of_lessened_examples() -> None:
    z, y = examples()
    weights, constant = RNG(1).standard_normal((4, 3)), np.array([1.0, -2.0, 3.0])
    lessened = y - z @ weights - constant
    assert_same(Ridge().summarise(z, y).less(weights, constant), Ridge().summarise(z, lessened))
