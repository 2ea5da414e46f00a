"""The size of errors in a situation, by hand and row by row."""

from itertools import pairwise

import numpy as np
import pytest

from psimlearn.filter.localscale import LocalScale, movement, signs, unrest_after, unrest_before
from psimlearn.filter.uncertainty import LEVELS


def test_unrest_of_whole_recordings_is_that_of_rows_in_turn() -> None:
    rng = np.random.default_rng(0)
    lengths = np.array([1, 7, 300, 2, 33])
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    errors, usual = 3 * rng.standard_normal((offsets[-1], 3)), np.array([0.5, 2.0, 0.0])
    errors[rng.random(errors.shape) < 0.2] = np.nan
    errors[50] = 1e200
    found = unrest_before(errors, offsets, usual, 0.3)
    for first, last in pairwise(offsets):
        now = np.ones((1, 3))
        for t in range(first, last):
            np.testing.assert_allclose(found[t], now[0], rtol=1e-12)
            now = unrest_after(now, errors[t : t + 1], usual, 0.3)


def test_unrest_by_hand() -> None:
    """A quarter of the newest squared error, in usual ones, and at most 100; missing entries change nothing."""
    usual = np.array([4.0, 1.0, 1.0])
    found = unrest_after(np.array([[1.0, 1.0, 1.0]]), np.array([[4.0, np.nan, 50.0]]), usual, 0.25)
    np.testing.assert_allclose(found, [[0.75 + 0.25 * 4, 1.0, 0.75 + 25.0]])


def test_sizes_by_hand() -> None:
    """One channel that is expected to move by 1 and by 3, and one that is constant."""
    ahead = np.array([[[6.0, 1.0], [7.0, 1.0], [10.0, 1.0]]])
    moved = movement(ahead)
    np.testing.assert_allclose(moved, [[5.0, 0.0]])
    usual = np.array([2.0, 0.0])
    columns = signs(np.array([[3.0, 8.0]]), moved, usual)
    logs = np.log([3.001, 2.501])
    np.testing.assert_allclose(columns[0, 0], [1, logs[0], logs[0], logs[1], logs[1]])
    np.testing.assert_allclose(columns[0, 1], [1, np.log(8.001), logs[0], np.log(0.001), logs[1]])
    assert not movement(ahead[:, :1]).any()
    power, level = np.array([[1.0, 0.0], [0.5, 0.0]]), np.array([[2.0, 1.0], [3.0, 1.0]])
    quantiles = LEVELS[:, None, None] * np.array([[1.0, 1.0], [2.0, 1.0]])
    weights, curve = np.array([0.0, 0.0, 1.0, 0.0, 0.0]), (np.array([0.0, 2.0]), np.array([-1.0, 1.0]))
    scale = LocalScale(np.array([0.25]), usual, weights, *curve, power, level, quantiles)
    size = -1 + logs[0]
    np.testing.assert_allclose(scale.sizes(np.array([[3.0, 8.0]]), ahead), [[size, size]])
    factor = scale.factor(np.array([[size, size]]), np.array([[1, 2, 3]]))
    np.testing.assert_allclose(factor[0, :, 0], [2 * np.exp(2 * size), 3 * np.exp(size), 3 * np.exp(size)])
    np.testing.assert_allclose(factor[0, :, 1], 1.0)
    np.testing.assert_allclose(scale.reach(np.array([1, 2]), 0.9), [[0.9, 0.9], [1.8, 0.9]])


@pytest.mark.parametrize("huge", [np.nan, np.inf, 1e300])
def test_sizes_of_a_filter_that_diverged_are_finite(huge: float) -> None:
    usual = np.ones(2)
    scale = LocalScale(
        np.array([0.25]),
        usual,
        np.ones(5),
        np.array([0.0, 1.0]),
        np.array([-1.0, 1.0]),
        np.ones((1, 2)),
        np.ones((1, 2)),
        np.ones((len(LEVELS), 1, 2)),
    )
    assert np.isfinite(scale.sizes(np.array([[1.0, 1.0]]), np.array([[[0.0, huge], [1.0, -huge]]]))).all()
