"""Sums of lags and futures from shared products: equal to sums of the examples themselves."""

from typing import Any

import numpy as np
import pytest

import psimlearn.train.stacked
from oracles import ragged
from psimlearn.filter import Features, Stack, StackSquares
from psimlearn.learners import GramSums, Ridge
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.train import Recipe
from psimlearn.train.ground import Ground, ground, relating
from psimlearn.train.history import history_beliefs, past_of, sums_of, unfilled
from psimlearn.train.recipe import Past
from psimlearn.train.stacked import history_stats, shared, stretch_moments
from psimlearn.train.start import begin
from psimlearn.train.subspace import related

RNG = np.random.default_rng


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Narrow and short recordings share products too."""
    monkeypatch.setattr(psimlearn.train.stacked, "WIDE", 1)
    monkeypatch.setattr(psimlearn.train.stacked, "LONG", 0)


def recordings(seed: int = 0, missing: float = 0.0) -> Trajectories:
    return ragged([30, 25, 40, 18, 6, 27], 2, RNG(seed), missing)


def apart_from_shared(data: Trajectories, window: int = 3) -> tuple[Ground, Ground]:
    """The same ground without shared products, and with them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(psimlearn.train.stacked, "WIDE", 10**9)
        plain = ground(data, Stack(window), "history", Recipe())
    both = ground(data, Stack(window), "history", Recipe())
    assert plain.apart is None
    assert both.apart is not None
    return plain, both


def assert_same(ours: GramSums, theirs: GramSums) -> None:
    for name in GramSums._fields:
        mine, other = getattr(ours, name), getattr(theirs, name)
        np.testing.assert_allclose(mine, other, rtol=0, atol=1e-12 * max(1.0, np.abs(theirs.zz).max()))


@pytest.mark.usefixtures("narrow")
def test_the_regression_on_history_has_the_same_sums() -> None:
    plain, both = apart_from_shared(recordings())
    layout, features = plain.layout, plain.features
    assert both.apart is not None
    direct = sums_of(unfilled(layout, features), layout, features)
    assert_same(history_stats(both.apart, past_of(features), features.window), direct.stats)
    for ours, theirs in zip(
        history_beliefs(layout, features, both.apart), history_beliefs(layout, features), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-9)


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("lags", [1, 4, 14])
@pytest.mark.parametrize("prior", ["mean", "last", "zero"])
@pytest.mark.parametrize("skip", [0, 2, 10])  # with 10, the shortest recording has no example, and nothing is shared
def test_first_examples_have_the_same_sums(lags: int, prior: Any, skip: int) -> None:
    plain, both = apart_from_shared(recordings())
    both = both._replace(beliefs=plain.beliefs, spreads=plain.spreads)
    recipe = Recipe(lags=lags, prior=prior, skip=skip)
    ours, theirs = (begin(each, Ridge(), "history", recipe, RNG(0)).sums for each in (both, plain))
    assert_same(ours, theirs)


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("recipe", [Recipe(lags=3), Recipe(lags=3, prior="last"), Recipe(states=2, past=3, lags=2)])
def test_first_filters_are_the_same(recipe: Recipe) -> None:
    data = recordings(1)
    ours, theirs = (begin(each, Ridge(1e-2), "history", recipe, RNG(0)) for each in apart_from_shared(data)[::-1])
    np.testing.assert_allclose(ours.filter.forecast(data, 3), theirs.filter.forecast(data, 3), rtol=0, atol=1e-8)


@pytest.mark.usefixtures("narrow")
def test_past_and_future_are_related_alike() -> None:
    plain, both = apart_from_shared(ragged([30, 25, 40, 18], 2, RNG(0)))
    assert both.apart is not None
    found = stretch_moments(both.apart, 5)
    assert found is not None
    direct = related(plain.x, plain.layout.plan, 5, "cva", 1e-3)
    np.testing.assert_allclose(found[0], direct.moments, rtol=0, atol=1e-12 * np.abs(direct.moments).max())
    values = relating(both, [Past(5, 1e-3)]).related[Past(5, 1e-3)].values
    np.testing.assert_allclose(values, direct.values, rtol=0, atol=1e-10)
    assert stretch_moments(both.apart, 10) is None  # one recording has 18 rows: stretches are picked row by row
    six, many = Past(6, 1e-3), Past(1000, 1e-3)
    assert set(relating(both, [six, many]).related) == set(relating(plain, [six, many]).related) == {six}


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize(
    ("given", "features"),
    [({"missing": 0.1}, Stack(3)), ({}, StackSquares(3))],
    ids=["gappy", "squares"],
)
def test_nothing_is_shared_where_sums_differ(given: dict[str, Any], features: Features) -> None:
    assert ground(recordings(**given), features, "history", Recipe()).apart is None


def test_nothing_is_shared_among_few_or_narrow_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    layout = ground(recordings(), Stack(3), "history", Recipe()).layout
    assert shared(layout, Stack(3), 10) is None
    monkeypatch.setattr(psimlearn.train.stacked, "WIDE", 1)
    assert shared(layout, Stack(3), 10) is None
    assert shared(layout, Stack(1), 1) is not None
