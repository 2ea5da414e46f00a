"""Sums of beliefs, hints and levels, and the numbers that follow: against numpy, scikit-learn and by hand."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge as SklearnRidge

from psimlearn.datasets import random_system
from psimlearn.errors import DataError
from psimlearn.filter import Filter, OneHotProduct, Stack
from psimlearn.learners import Ridge
from psimlearn.recordings.schedule import schedule
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.train import Recipe, best, dagger
from psimlearn.train.hints import hint_sums, merged_hints, with_hints
from psimlearn.train.levels import level_sums, one_step_errors, sensitivities, whitened
from psimlearn.train.partial import check_range
from psimlearn.train.spread import Spread, directions_of, feedback_of, guard_of, moments_of, spread_of
from psimlearn.train.start import _initial
from psimlearn.train.systems import System

RNG = np.random.default_rng


# -- spread ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parts", [(5, 9), (1, 1), (1, 30), (0, 4), (4, 0), (7, 1, 6)])
def test_parts_together_have_the_moments_of_numpy(parts: tuple[int, ...]) -> None:
    vectors = RNG(0).standard_normal((sum(parts), 3)) * [1, 5, 0.1] + [3, -4, 10]
    pieces = np.split(vectors, np.cumsum(parts)[:-1])
    found = moments_of(pieces[0])
    for piece in pieces[1:]:
        found = found.plus(moments_of(piece))
    assert found.n == sum(parts)
    np.testing.assert_allclose(found.mean, vectors.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(found.covariance, np.cov(vectors.T), rtol=1e-9, atol=1e-12)
    if all(parts):
        spread = spread_of(pieces[0])
        for piece in pieces[1:]:
            spread = spread.plus(spread_of(piece))
        assert spread.n == sum(parts)
        np.testing.assert_allclose(spread.mean, vectors.mean(axis=0), rtol=1e-12)
        np.testing.assert_allclose(spread.std, vectors.std(axis=0), rtol=1e-9)
        np.testing.assert_array_equal([spread.low, spread.high], [vectors.min(axis=0), vectors.max(axis=0)])


def test_directions_are_those_in_which_beliefs_vary_most() -> None:
    """Largest first, against a singular value decomposition; signs are free."""
    vectors = RNG(1).standard_normal((200, 4)) @ RNG(2).standard_normal((4, 4))
    _, _, directions = np.linalg.svd(vectors - vectors.mean(axis=0))
    found = directions_of(np.cov(vectors.T), 2)
    assert found.shape == (4, 2)
    np.testing.assert_allclose(np.abs(np.sum(found * directions[:2].T, axis=0)), 1.0, rtol=1e-9)


def test_feedback_by_hand() -> None:
    """Three coordinates: one that moves, one that hardly moved at first, one that is constant; the box is .5 wider."""
    first = Spread(np.array([1.0, 0.0, 2.0]), np.array([2.0, 0.01, 0.0]), np.zeros(3), np.ones(3), 9)
    low, high = np.array([-3.0, -4.0, 2.0]), np.array([5.0, 4.0, 2.0])
    seen = Spread(np.array([1.5, 0.5, 2.0]), np.array([3.0, 2.0, 0.0]), low, high, 9)
    recipe = Recipe(belief_weight=0.5, box=0.5, guard=None)
    found = feedback_of(first, seen, None, recipe)
    assert found.low is not None
    assert found.high is not None
    np.testing.assert_allclose(found.mean, [1, 0, 2])
    np.testing.assert_allclose(found.scale, [2, 0.2, 1])  # at least a tenth of what is seen, and never nothing
    gain = 0.5 / found.scale
    np.testing.assert_allclose(found.low, np.array([-7 - 1, -8, 0]) * gain)
    np.testing.assert_allclose(found.high, np.array([9 - 1, 8, 0]) * gain)
    guarded = feedback_of(first, seen, None, replace(recipe, guard=2.0))
    assert guarded.low is not None
    np.testing.assert_allclose(guarded.low, np.array([1.5 - 1 - 6, 0.5 - 4, -2e-12]) * gain, rtol=1e-6, atol=1e-11)
    below, above = guard_of(seen, found, 2.0)
    np.testing.assert_allclose(0.5 * (above + below), np.array([0.5, 0.5, 0.0]) * gain, atol=1e-15)
    np.testing.assert_allclose(0.5 * (above - below), np.array([6, 4, 0]) * gain, atol=2e-12)
    plain = feedback_of(first, seen, None, Recipe(belief_weight=0.5, box=None, standardise=False))
    assert plain.low is None
    np.testing.assert_array_equal([plain.mean, plain.scale], [np.zeros(3), np.ones(3)])


# -- hints -------------------------------------------------------------------------------------------------------------


@cache
def learnt() -> Filter:
    data = random_system(RNG(0)).simulate(20, 30, RNG(1))
    recipe = Recipe(lags=2, prior="mean")
    return best(dagger(data, data, Stack(2), Ridge(1e-2), rng=RNG(0), n_rounds=1, recipe=recipe)).filter


def hinted(seed: int = 2) -> Trajectories:
    """Three hints, of which the first two are measured at the same rows."""
    data = random_system(RNG(0)).simulate(12, 30, RNG(seed))
    hints = data.values @ RNG(3).standard_normal((2, 3)) + 0.1 * RNG(seed).standard_normal((360, 3)) + 4.0
    hints[::3, :2], hints[1::2, 2] = np.nan, np.nan
    return replace(data, hints=hints)


def by_generalised_cross_validation(z: np.ndarray, y: np.ndarray) -> Any:
    """Scikit-learn's ridge with the penalty, of thirteen decades, that has the least residual for its freedom."""
    n, centred, best = len(z), z - z.mean(axis=0), (np.inf, None)
    for alpha in np.trace(centred.T @ centred / n) / z.shape[1] * 10.0 ** np.arange(-11, 2):
        model = SklearnRidge(alpha * n, solver="cholesky").fit(z, y)
        hat = centred @ np.linalg.solve(centred.T @ centred + alpha * n * np.eye(z.shape[1]), centred.T)
        score = np.mean((y - model.predict(z)) ** 2) / (1 - (1 + np.trace(hat)) / n) ** 2
        best = min(best, (score, model), key=lambda each: each[0])
    return best[1]


def test_hints_are_regressed_on_the_belief_and_the_last_rows_as_scikit_learn_does() -> None:
    """[m_t; x_t; x_{t-1}]: the row itself is seen. Each has its own penalty, also of two measured at the same rows."""
    filter, data = learnt(), hinted()
    found = with_hints(filter, hint_sums(filter, data)).hints(data)
    m, x = filter.run(data)[0], filter.scaling(data.values)
    before = np.arange(360) - 1
    before[data.offsets[:-1]] += 1
    known = np.concatenate([m, x, x[before]], axis=1)
    assert data.hints is not None
    for i, y in enumerate(data.hints.T):
        rows = ~np.isnan(y)
        expected = by_generalised_cross_validation(known[rows], y[rows]).predict(known)
        np.testing.assert_allclose(found[:, i], expected, rtol=0, atol=1e-7)


def test_hints_of_parts_are_those_of_all() -> None:
    """Also where one part measures all of them at all rows, and the other does not."""
    filter, data = learnt(), hinted()
    assert data.hints is not None
    whole = np.where(np.arange(360)[:, None] < data.offsets[4], np.nan_to_num(data.hints, nan=4.0), data.hints)
    data = replace(data, hints=whole)
    parts = merged_hints(hint_sums(filter, data[:4]), hint_sums(filter, data[4:]))
    expected = with_hints(filter, hint_sums(filter, data)).hints(data)
    np.testing.assert_allclose(with_hints(filter, parts).hints(data), expected, rtol=0, atol=1e-9)
    assert merged_hints(hint_sums(filter, replace(data, hints=None)), parts) == parts
    with pytest.raises(DataError, match="required 3 hints as in fit, or none, received 2"):
        merged_hints(parts, hint_sums(filter, replace(data, hints=whole[:, :2])))
    with pytest.raises(DataError, match="hint 2: required at least one measured value"):
        with_hints(filter, hint_sums(filter, replace(data, hints=whole * [1, 1, np.nan])))


# -- levels ------------------------------------------------------------------------------------------------------------


def test_the_level_and_the_first_state_are_found() -> None:
    """Rows without noise that begin in a state around a level: errors are linear in both, and least squares exact."""
    A, C = np.array([[0.9, 0.2], [-0.2, 0.7]]), np.array([[1.0, 0.0], [0.5, -1.0]])
    system = System(A, C, np.array([[0.3, 0.1], [0.0, 0.2]]), np.array([[2.0, 0.5], [0.5, 1.0]]), False)
    lengths, state, mean = [9, 4, 7], np.array([1.0, -2.0]), np.array([3.0, 5.0])
    plan = schedule(np.concatenate([[0], np.cumsum(lengths)]))
    rows = np.concatenate([[C @ np.linalg.matrix_power(A, t) @ state + mean for t in range(T)] for T in lengths])
    x = rows[plan.order]
    found = whitened(system, x, plan)
    assert found is not None
    np.testing.assert_allclose(level_sums(*found, plan).level(), [*state, *mean], rtol=1e-9)
    errors = one_step_errors(system, x, plan)
    D = sensitivities(system, 9)
    np.testing.assert_allclose(errors, D[plan.time] @ [*state, *mean], rtol=0, atol=1e-12)
    np.testing.assert_allclose(found[1] @ np.linalg.cholesky(system.V).T, errors, rtol=0, atol=1e-12)
    assert whitened(system._replace(K=np.array([[0.0, -90.0], [90.0, 0.0]])), x, plan) is None


# -- more recordings ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("far", "channel"), [(9.9, None), (10.1, 0), (10.1, 1)])
def test_recordings_ten_deviations_off_are_refused(far: float, channel: int | None) -> None:
    """Root mean squares over the rows that were seen, in deviations of the earlier recordings."""
    filter = learnt()
    off = np.zeros((6, 2))
    off[:, channel or 0] = far * np.array([1, -1, 1, -1, 1, -1])
    off[2, 1 - (channel or 0)] = np.nan
    data = Trajectories.of([filter.scaling.undo(off)], names=("a", "b"))
    if channel is None:
        check_range(filter, None, data, Recipe())
    else:
        with pytest.raises(DataError, match=rf"channel '{'ab'[channel]}'.*10\.1 times as far"):
            check_range(filter, None, data, Recipe())


def test_the_first_belief_of_symbols_is_smoothed_by_hand() -> None:
    """Two recordings begin with symbol 0; three of four windows are of 1. One more begins like these."""
    first, seen = np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [0.0, 1.0]])
    expected = (np.array([2.0, 0.0]) + [0.25, 0.75] + np.array([0.5, 0.5]) / 4) / (2 + 1 + 1 / 4)
    np.testing.assert_allclose(_initial(OneHotProduct(1), first, seen), expected, rtol=1e-15)
    assert expected.sum() == pytest.approx(1.0, rel=1e-15)
    np.testing.assert_array_equal(_initial(Stack(1), first, seen), [1.0, 0.0])  # of numbers, the plain mean
