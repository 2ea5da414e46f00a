"""Whether a filter learns how recordings begin: by held-out first rows, and never against a setting."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import psimlearn.train.openings
from gap_systems import FAMILIES
from psimlearn.datasets import random_system
from psimlearn.estimator.psim import PSIM
from psimlearn.filter import Linear
from psimlearn.filter.rollout import rolled
from psimlearn.learners import RandomFourierRidge
from psimlearn.recordings.shards import Shards
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.train import Recipe
from psimlearn.train.openings import MOST_DIRECTIONS, STEPS, _maximised, can_open, first_errors, with_opening

RNG = np.random.default_rng
GIVEN: dict[str, Any] = {"window": 2, "n_rounds": 4, "lags": 1, "prior": "mean", "init": "history", "random_state": 0}


def stationary(n: int, seed: int, length: int = 60) -> Trajectories:
    """Recordings that begin at any moment of a system that has run for long."""
    return Trajectories.of(FAMILIES["noisy"].system(38).simulate(n, length, RNG(seed)))


@cache
def model(**settings: Any) -> PSIM:
    return PSIM(**GIVEN, **settings).fit(stationary(80, 1))


def test_recordings_that_begin_at_any_moment_are_recognised_and_begin_better() -> None:
    test, plain = stationary(500, 2), model(opening=False)
    assert model().report_["choices"]["begins"] == "any moment"
    assert "recordings begin at any moment" in model().summary()
    rest = [first_errors(each.filter_, test).squares[:, 1:].sum() for each in (model(), plain)]
    assert rest[0] < 0.9 * rest[1]


def test_recordings_that_begin_in_a_way_of_their_own_are_recognised() -> None:
    """The paper's systems begin at N(1, Sigma_s): the spread at any moment is far too wide."""
    fitted = PSIM(**GIVEN).fit(random_system(RNG(4)).simulate(80, 60, RNG(5)))
    assert fitted.report_["choices"]["begins"] != "any moment"
    held = random_system(RNG(4)).simulate(500, 12, RNG(6))
    any_moment = with_opening(fitted.filter_, random_system(RNG(4)).simulate(80, 60, RNG(5)), "any moment")
    assert any_moment is not None
    ours, others = (first_errors(each, held).squares.sum() for each in (fitted.filter_, any_moment))
    assert ours < others


@pytest.mark.parametrize("given", [{"opening": False}, {"recipe": Recipe(lags=1)}])
def test_openings_are_switched_off(given: dict[str, Any]) -> None:
    fitted = model(**given)
    assert fitted.filter_.opening is None
    assert fitted.report_["choices"]["begins"] is None
    assert "first rows" not in fitted.summary()


def test_other_learners_begin_as_before() -> None:
    for given in ({"learner": RandomFourierRidge(20, 1e-3)}, {"features": "squares", "trainer": "forward"}):
        settings = GIVEN | {"window": 1, "lags": 1, "init": "auto"} | given
        assert PSIM(**settings).fit(stationary(80, 1, 30)).filter_.opening is None


def test_shards_learn_how_recordings_begin_from_their_sample() -> None:
    fitted = PSIM(**GIVEN).fit(Shards.cut(stationary(80, 1), 4), sample_rows=2400)
    assert fitted.filter_.opening is not None
    assert fitted.report_["choices"]["begins"] == "any moment"


def test_few_or_short_recordings_tell_nothing_of_first_rows() -> None:
    filter = model().filter_
    assert with_opening(filter, stationary(19, 3), "first rows") is None
    assert with_opening(filter, stationary(19, 3), "any moment") is not None
    assert with_opening(filter, stationary(40, 3, 19), "first rows") is None
    still = replace(filter, regressors=(Linear(np.zeros((6, 4)), np.zeros(4)),), lags=1)
    assert with_opening(still, stationary(5, 3), "any moment") is None  # its memory never moves


def smooth(n: int, seed: int) -> Trajectories:
    """Recordings of 40 channels that mix six slow swings, and begin in their midst: memories of 320 numbers."""
    rng = RNG(seed)
    mix = RNG(1).standard_normal((6, 40))
    angle = rng.uniform(0, 2 * np.pi, (n, 1, 6)) + np.arange(60)[:, None] * np.linspace(0.05, 0.3, 6)
    return Trajectories.of(np.sin(angle) @ mix + 0.1 * rng.standard_normal((n, 60, 40)))


def test_wide_memories_open_along_the_directions_in_which_recordings_differ_most() -> None:
    filter = PSIM(**GIVEN | {"window": 3, "lags": 6}).fit(smooth(40, 2)).filter_
    narrow = replace(filter, opening=None)
    opened = with_opening(narrow, smooth(40, 2), "any moment")
    assert opened is not None
    assert opened.opening is not None
    root = opened.opening.root
    assert root.shape == (320, MOST_DIRECTIONS)
    # the same directions, found by a singular value decomposition of the memories themselves
    rollout = rolled(narrow, smooth(40, 2))
    plan = rollout.layout.plan
    later = np.flatnonzero(plan.time >= 10)
    older = rollout.observed(plan.place(-1)[later])[:, :5].reshape(len(later), -1)
    both = np.concatenate([rollout.held[later], older], axis=1)
    _, sizes, axes = np.linalg.svd((both - both.mean(axis=0)) / np.sqrt(len(both)), full_matrices=False)
    expected = (axes[:MOST_DIRECTIONS].T * sizes[:MOST_DIRECTIONS] ** 2) @ axes[:MOST_DIRECTIONS]
    np.testing.assert_allclose(root @ root.T, expected, atol=1e-8)
    ours, without = (first_errors(each, smooth(200, 3)).squares[:, 1:5].sum() for each in (opened, narrow))
    assert ours < 0.7 * without


def test_memories_beyond_the_widest_do_not_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psimlearn.train.openings, "WIDEST", 5)
    fitted = PSIM(**GIVEN | {"lags": 3}).fit(stationary(20, 1))
    assert not can_open(fitted.filter_)
    assert fitted.filter_.opening is None


def test_first_rows_tell_the_distribution_before_them_as_the_gaussian_of_all_rows_does() -> None:
    """Expectation maximisation by the whole covariance of the errors, which `_maximised` never makes."""
    rng, V = RNG(0), np.array([[1.0, 0.3], [0.3, 0.5]])
    read, errors = rng.standard_normal((20, 5)), rng.standard_normal((30, 20))
    mean, covariance, noise = np.zeros(5), np.eye(5), np.kron(np.eye(10), V)
    for _ in range(STEPS):
        gain = covariance @ read.T @ np.linalg.inv(read @ covariance @ read.T + noise)
        moved = mean + (errors - read @ mean) @ gain.T
        left = covariance - gain @ read @ covariance
        mean, covariance = moved.mean(axis=0), np.cov(moved.T, bias=True) + left
    found = _maximised(errors, read, V)
    np.testing.assert_allclose(found[0], mean, atol=1e-12)
    np.testing.assert_allclose(found[1], covariance, atol=1e-12)


def test_more_recordings_keep_the_opening() -> None:
    fitted = PSIM(**GIVEN).fit(stationary(80, 1))
    before = fitted.filter_.opening
    fitted.partial_fit(stationary(20, 7))
    assert fitted.filter_.opening is before
