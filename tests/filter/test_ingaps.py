"""Doubt beside the errors of hidden entries: the factor and the quantiles, by hand and by scipy."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from psimlearn.filter.ingaps import AS_CLAIMED, MOST_FACTOR, InGaps, in_gaps
from psimlearn.filter.uncertainty import LEVELS

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
