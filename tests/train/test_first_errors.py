"""How recordings begin, as training learns and scores it: by numpy and by hand; whether it is used is `choose`'s."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from psimlearn.datasets import random_system
from psimlearn.filter import Filter, Stack
from psimlearn.filter.opening import Opening
from psimlearn.learners import RandomFourierRidge, Ridge
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.train import Recipe, best, dagger
from psimlearn.train.openings import WIDEST, begins_as_well, can_open, first_errors, with_opening

RNG = np.random.default_rng
ENOUGH = 10
"""Rows after which the start of recordings of 40 rows is forgotten."""


def recordings(m: int = 30, seed: int = 1) -> Trajectories:
    return random_system(RNG(0)).simulate(m, 40, RNG(seed))


@cache
def learnt(lags: int = 2, waves: bool = False) -> Filter:
    learner = RandomFourierRidge(20, 1e-2) if waves else Ridge(1e-2)
    recipe = Recipe(lags=lags, prior="mean")
    return best(dagger(recordings(), recordings(), Stack(2), learner, rng=RNG(0), n_rounds=1, recipe=recipe)).filter


@pytest.mark.parametrize("lags", [1, 3])
def test_at_any_moment_a_memory_is_as_numpy_finds_it_at_later_rows(lags: int) -> None:
    """The mean and covariance of [m_t; x_{t-1}; ..] over all rows that have forgotten their start."""
    filter, data = learnt(lags), recordings(20, 2)
    found = with_opening(filter, data, "any moment")
    assert found is not None
    assert found.opening is not None
    m = replace(filter, opening=None).run(data)[0].reshape(20, 40, -1)
    x = filter.scaling(data.values).reshape(20, 40, -1)
    older = [x[:, ENOUGH - j : 40 - j] for j in range(1, lags)]
    both = np.concatenate([m[:, ENOUGH:], *older], axis=2).reshape(20 * (40 - ENOUGH), -1)
    mean = np.concatenate([found.initial, found.opening.older.ravel()])
    np.testing.assert_allclose(mean, both.mean(axis=0), rtol=0, atol=1e-10)
    covariance = found.opening.root @ found.opening.root.T
    np.testing.assert_allclose(covariance, np.cov(both.T, bias=True), rtol=0, atol=1e-9 * covariance.max())


def test_first_rows_tell_from_twenty_whole_recordings_of_twenty_rows() -> None:
    data, filter = recordings(), learnt()
    holes = data.values.copy()
    holes[data.offsets[0] + 3, 0] = np.nan
    for train, tells in (
        (data[:20], True),
        (data[:19], False),
        (replace(data, values=holes)[:20], False),
        (replace(data, values=holes)[:21], True),
        (Trajectories.of([part.values[:20] for part in data]), True),
        (Trajectories.of([part.values[:19] for part in data]), False),
    ):
        assert (with_opening(filter, train, "first rows") is not None) == tells
    assert with_opening(filter, Trajectories.of([np.zeros((1, 2))] * 30), "any moment") is None


def test_the_means_of_first_rows_are_found() -> None:
    """Recordings that all begin at one place far off, where the steady filter expects the mean of all."""
    data, filter = recordings(200), learnt()
    moved = data.values.reshape(200, 40, 2) + 5 * np.array([1.0, -1.0]) * 0.8 ** np.arange(40)[:, None]
    train, held = Trajectories.of(moved[:100]), Trajectories.of(moved[100:])
    own, any_moment = (with_opening(filter, train, begins) for begins in ("first rows", "any moment"))
    assert own is not None
    assert any_moment is not None
    first, usual = (np.nanmean(first_errors(each, held).squares, axis=0) for each in (own, any_moment))
    assert first[0] < 0.5 * usual[0]  # measured .35
    assert first_errors(own, held).nats.mean() > first_errors(any_moment, held).nats.mean() + 1


def test_squares_of_first_rows_by_hand() -> None:
    """Ten rows at most, summed over channels; none from a missing entry on."""
    opened, data = with_opening(learnt(), recordings(), "any moment"), recordings(5, 4)
    assert opened is not None
    values = data.values.copy()
    values[data.offsets[1] + 4, 1] = np.nan
    data = Trajectories.of([*np.split(values, data.offsets[1:-1])[:4], values[-7:]])
    errors = (data.values - opened.forecast(data, 1)[:, 0]) / opened.scaling.scale
    squares, found = np.split(np.sum(errors**2, axis=1), data.offsets[1:-1]), first_errors(opened, data).squares
    assert found.shape == (5, 10)
    for row, rows in enumerate([10, 4, 10, 10, 7]):  # the shortest one is the last in either order
        np.testing.assert_allclose(found[row, :rows], squares[row][:rows], rtol=1e-9)
        assert np.isnan(found[row, rows:]).all()
    assert np.isnan(first_errors(learnt(), data).nats).all()


def test_likelihoods_of_first_rows_are_scipys_joint_gaussian() -> None:
    """Of all ten rows together: what the memory before them adds, read from predictions that begin elsewhere.

    The filter drops a doubt that adds less than a thousandth of a variance: measured .0005 nats.
    """
    opened, data = with_opening(learnt(), recordings(), "any moment"), recordings(50, 4)
    assert opened is not None
    opening = opened.opening
    assert opening is not None
    d, scale = len(opened.initial), opened.scaling.scale

    def errors(moved: np.ndarray) -> np.ndarray:
        """Of the first rows, if the memory begins elsewhere and no gain corrects it."""
        begun = Opening(opening.older + moved[d:].reshape(opening.older.shape), 0 * opening.root)
        filter = replace(opened, initial=opened.initial + moved[:d], opening=begun)
        off = (data.values - filter.forecast(data, 1)[:, 0]) / scale
        return np.asarray(off.reshape(50, 40 * 2)[:, :20])

    plain = errors(np.zeros(len(opening.root)))
    read = np.array([plain[0] - errors(column)[0] for column in opening.root.T]).T
    joint = multivariate_normal(np.zeros(20), read @ read.T + np.kron(np.eye(10), opened.covariance))
    found = first_errors(opened, data).nats
    np.testing.assert_allclose(found, joint.logpdf(plain) + 10 * np.log(2 * np.pi), rtol=0, atol=0.002)


def test_which_filters_can_open_by_hand() -> None:
    """Four numbers that are fed back, and two for each lag."""
    filter = learnt()
    most = (WIDEST - 4) // 2
    assert can_open(filter)
    assert can_open(replace(filter, lags=most))
    assert not can_open(replace(filter, lags=most + 1))
    assert can_open(replace(filter, lags=most + 2, feedback=filter.feedback._replace(weight=0.0)))
    assert not can_open(replace(filter, gaps="filled"))
    assert not can_open(replace(filter, regressors=2 * filter.regressors))
    assert not can_open(learnt(waves=True))


def test_a_start_is_as_good_up_to_a_twentieth_by_hand() -> None:
    nan = np.nan
    plain = np.array([[1.0, 2.0, 2.0], [3.0, 4.0, nan]])
    for opened, good in (
        ([[1.0, 2.0, 2.0], [3.2, 4.0, nan]], True),
        ([[1.0, 2.0, 2.0], [3.21, 0.0, nan]], False),
        ([[1.0, 2.4, 1.0], [3.0, 5.0, nan]], True),
        ([[0.0, 2.4, 1.01], [0.0, 5.0, nan]], False),
    ):
        assert begins_as_well(np.array(opened), plain) == good
