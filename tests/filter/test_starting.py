"""The errors of first rows beside those of later rows, by hand."""

import numpy as np

from psimlearn.filter.gaps import error_covariance
from psimlearn.filter.uncertainty import LEVELS, Starting, started

RNG = np.random.default_rng
NAN = np.nan


def test_early_errors_are_measured_beside_later_ones() -> None:
    """Ages 0 and 1 differ; five rows are later. Squares over claimed variances are 4, 16; 9; then 1 on average."""
    errors = np.zeros((8, 2, 1))
    errors[:, 0, 0] = [4.0, 8.0, 6.0, 2.0, -2.0, 2.0, 2.0, -2.0]
    errors[:, 1, 0] = [3.0, -3.0, NAN, 1.0, 1.0, 1.0, -1.0, NAN]
    variance = np.broadcast_to(np.array([4.0, 1.0])[:, None], errors.shape)
    age = np.array([0, 0, 1, 2, 3, 4, 5, 6])
    found = started(errors, variance, age, 2)
    # at age 1 nothing was observed two rows ahead: the ratio of one row ahead stands for it
    np.testing.assert_allclose(found.ratio[:, :, 0], [[10.0, 9.0], [9.0, 9.0]])
    scores = np.sort([2 / np.sqrt(10), 4 / np.sqrt(10), 1.0, 1.0])
    expected = [scores[min(int(np.ceil(level * 5 - 1e-9)), 4) - 1] for level in LEVELS]
    np.testing.assert_allclose(found.quantiles[:, 0, 0], expected)
    np.testing.assert_allclose(found.quantiles[:, 1, 0], 1.0)
    np.testing.assert_allclose(found.covariance, error_covariance(errors[:2, 0]))
    np.testing.assert_allclose(found.covariance, [[40.0]])


def test_only_the_ratio_to_later_errors_counts() -> None:
    """Recordings of training have errors that are too small, early and late alike; here early ones are thrice."""
    later = RNG(0).standard_normal((50, 3, 2))
    errors = np.concatenate([3 * later, -3 * later[::-1], later, later])
    age, variance = np.repeat([0, 1, 2, 5], 50), np.ones_like(errors)
    one, other = started(errors, variance, age, 2), started(errors, 0.3 * variance, age, 2)
    np.testing.assert_allclose(one.ratio, 9, rtol=1e-12)
    np.testing.assert_allclose(other.ratio, 9, rtol=1e-12)
    np.testing.assert_allclose(one.quantiles, other.quantiles, rtol=1e-12)


def test_starts_without_later_rows_or_without_any_error() -> None:
    errors = np.array([[[2.0, NAN]], [[-2.0, NAN]]])
    found = started(errors, np.ones_like(errors), np.array([0, 0]), 2)
    np.testing.assert_allclose(found.ratio[:, 0], [[4.0, 1.0], [1.0, 1.0]])
    assert np.isfinite(found.quantiles).all()
    np.linalg.cholesky(found.covariance)


def test_the_factor_and_the_reach_of_an_age() -> None:
    ratio = np.array([[[9.0], [4.0]], [[2.0], [1.5]]])
    quantiles = np.stack([LEVELS, 2 * LEVELS])[:, :, None].swapaxes(0, 1)
    starting = Starting(ratio, quantiles, np.eye(1))
    age, horizon = np.array([0, 0, 0, 1, 1, 2, 50]), np.array([1, 2, 9, 1, 2, 1, 2])
    np.testing.assert_array_equal(starting.factor(age, horizon)[:, 0], [9.0, 4.0, 4.0, 2.0, 1.5, 1.0, 1.0])
    later = np.full((7, 1), 5.0)
    np.testing.assert_allclose(starting.reach(age, 0.9, later)[:, 0], [0.9, 0.9, 0.9, 1.8, 1.8, 5.0, 5.0])
    np.testing.assert_allclose(starting.reach(age, 0.905, later)[:3, 0], 0.905)
