"""Doubt beside the errors of hidden entries: the factor, the quantiles and the intervals, by hand and by scipy."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from psimlearn import PSIM, Trajectories
from psimlearn.filter import Filter, Linear, Scaling
from psimlearn.filter.ingaps import AS_CLAIMED, MOST_FACTOR, InGaps, in_gaps
from psimlearn.filter.predict import foretold
from psimlearn.filter.uncertainty import LEVELS, Calibration
from small import ONE, with_inputs

RNG = np.random.default_rng


@pytest.mark.parametrize("factor", [0.5, 1.0, 3.0])
def test_the_factor_of_doubt_is_found(factor: float) -> None:
    rng = RNG(0)
    b, d = rng.uniform(0.5, 2.0, 60_000), rng.uniform(0.0, 5.0, 60_000)
    found = in_gaps(rng.standard_normal(60_000) * np.sqrt(b + factor * d), b, d)
    assert found is not None
    assert found.factor[0] == pytest.approx(factor, rel=0.05)
    np.testing.assert_allclose(found.quantiles[:99], norm.ppf(0.5 + LEVELS[:99] / 2), atol=0.06)


def test_the_factor_solves_its_equation() -> None:
    """Squares weighted by the share of doubt, and the entries that are as claimed, are as large as their variances."""
    rng = RNG(1)
    b, d = rng.uniform(0.5, 2.0, 500), rng.uniform(0.0, 5.0, 500)
    errors = 2.5 * rng.standard_normal(500)
    found = in_gaps(errors, b, d)

    def excess(f: float) -> float:
        w = f * d / (b + f * d)
        return float(np.sum(w * (errors**2 / (b + f * d) - 1)) + AS_CLAIMED * (1 / f - 1))

    assert found is not None
    assert found.factor[0] == pytest.approx(brentq(excess, 0.1, 10), rel=1e-6)


def test_quantiles_are_numpys_weighted_ones() -> None:
    """Each entry counts by the share of its variance that is doubt; entries without doubt or error do not."""
    rng = RNG(2)
    b, d = rng.uniform(0.5, 2.0, 300), rng.uniform(0.0, 5.0, 300)
    errors = rng.standard_t(3, 300)
    errors[::7], d[::5] = np.nan, 0.0
    found = in_gaps(errors, b, d)
    assert found is not None
    some = np.isfinite(errors) & (d > 0)
    variance, weights = (b + found.factor * d)[some], (found.factor * d)[some]
    scores = np.abs(errors[some]) / np.sqrt(variance)
    expected = np.quantile(scores, LEVELS, weights=weights / variance, method="inverted_cdf")
    np.testing.assert_allclose(found.quantiles, expected, rtol=1e-12)


def test_few_gaps_say_little_and_wild_errors_are_bounded() -> None:
    ones = np.ones(3)
    few, wild = in_gaps(2 * ones, 0 * ones + 1e-9, ones), in_gaps(np.full(9999, 1e9), np.ones(9999), np.ones(9999))
    assert few is not None
    assert wild is not None
    assert 1 < few.factor[0] < 1.1
    assert wild.factor[0] == MOST_FACTOR


def test_without_doubt_nothing_is_measured() -> None:
    assert in_gaps(np.ones(4), np.ones(4), np.zeros(4)) is None
    assert in_gaps(np.full(4, np.nan), np.ones(4), np.ones(4)) is None


def test_quantiles_go_from_those_without_gaps_to_those_inside() -> None:
    found = InGaps(np.ones(1), np.where(LEVELS < 0.9, 1.0, 2.0))
    reach = found.reach(0.9, np.array([[0.0, 0.25, 1.0]]), np.full((1, 3), 1.6))
    np.testing.assert_allclose(reach, [[1.6, 1.7, 2.0]])


def first_order(a: float, q: float) -> Filter:
    """Of x' = a x + noise of variance q, seen without noise: one channel, two rows in a belief."""
    filter, one = PSIM(**ONE).fit(with_inputs(10).values.reshape(10, 15, 1)).filter_, Scaling(np.zeros(1), np.ones(1))
    exact = Linear(np.array([[0.0, 0.0], [0.0, 0.0], [a, a**2]]), np.zeros(2))
    filter = replace(filter, scaling=one, regressors=(exact,), initial=np.zeros(2), centre=np.zeros(2), local=None)
    return replace(filter, covariance=np.array([[q]]), starting=None, opening=None)


def test_intervals_in_a_gap_by_hand() -> None:
    """After k rows unseen the model has added q (a^2 + .. + a^2k): widened by the factor, with quantiles of its own."""
    a, q, factor, base, rows = 0.8, 0.5, 1.5, np.array([[0.6], [0.9]]), 14
    calibration = Calibration(base, np.zeros((2, 1)), 2 * LEVELS[:, None, None] * np.ones((1, 2, 1)))
    filter = replace(first_order(a, q), calibration=calibration, in_gaps=InGaps(np.array([factor]), 3 * LEVELS))
    x = RNG(0).standard_normal((rows, 1))
    gappy = np.where((np.arange(rows) >= 8)[:, None] & (np.arange(rows) < 12)[:, None], np.nan, x)
    unseen = np.array([0] * 9 + [1, 2, 3, 4, 0])
    doubt = factor * np.array([q * sum(a ** (2 * j) for j in range(1, k + 1)) for k in unseen])
    ahead = foretold(filter, Trajectories.of([gappy]), 1).at((slice(None), 0))
    np.testing.assert_allclose(ahead.std[:, 0], np.sqrt(0.6 + doubt), rtol=1e-9)
    share = doubt / (0.6 + doubt)
    reach = np.sqrt(0.6 + doubt) * ((1 - share) * 1.8 + share * 2.7)
    low, high = ahead.interval(0.9)
    np.testing.assert_allclose((high - low)[:, 0], 2 * reach, rtol=1e-9)
    last = np.array([x[t - 1 - k, 0] if t - 1 - k >= 0 else 0.0 for t, k in enumerate(unseen)])
    np.testing.assert_allclose(ahead.mean[:, 0], a ** (1 + unseen) * last, rtol=1e-9)
