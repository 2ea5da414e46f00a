"""The uncertainty of a filter: likelihoods, intervals, and standard deviations after gaps."""

from functools import cache

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from noisy import QUICK, RNG, drawn, mean_score, stacked
from psimlearn import PSIM
from psimlearn.filter import SecondMoment
from psimlearn.filter.uncertainty import LEVELS, Correlation, calibrated, misfit
from psimlearn.learners import Ridge
from psimlearn.recordings.trajectories import Trajectories


def random_covariance(n: int, rng: np.random.Generator) -> np.ndarray:
    root = rng.standard_normal((n, n))
    return root @ root.T + 0.1 * np.eye(n)


# -- likelihoods -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 5, 12])
def test_the_likelihood_of_rows_is_scipys(n: int) -> None:
    """All rows share the correlations of one matrix; each row has different variances; entries are missing."""
    rng = RNG(n)
    covariance, errors = random_covariance(n, rng), rng.standard_normal((40, n))
    variance = rng.uniform(0.1, 5.0, (40, n))
    errors[20:][rng.random((20, n)) < 0.4] = np.nan
    errors[39] = np.nan
    deviation = np.sqrt(np.diag(covariance))
    expected = []
    for e, v in zip(errors, variance, strict=True):
        seen = np.flatnonzero(~np.isnan(e))
        cov = covariance / np.outer(deviation, deviation) * np.sqrt(np.outer(v, v))
        expected.append(multivariate_normal.logpdf(e[seen], cov=cov[np.ix_(seen, seen)]) if len(seen) else 0.0)
    found = misfit(errors, Correlation.of(covariance), variance).nats
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)
    whole = misfit(errors[:20], Correlation.of(covariance), variance[:20]).nats
    np.testing.assert_allclose(whole, expected[:20], rtol=1e-10, atol=1e-10)


def test_a_huge_error_has_likelihood_zero_and_does_not_crash() -> None:
    correlation = Correlation.of(random_covariance(3, RNG(0)))
    found = misfit(np.array([[1e200, 0.0, 0.0], [1e200, np.nan, 0.0]]), correlation, np.ones((2, 3))).nats
    np.testing.assert_array_equal(found, [-np.inf, -np.inf])


@cache
def fitted(units: tuple[float, float] = (1.0, 1.0)) -> PSIM:
    _, train, validation, _ = drawn()
    held = Trajectories.of(stacked(validation) * units)
    return PSIM(2, random_state=0, validation=held, **QUICK).fit(stacked(train) * units)


def test_scores_are_the_kalman_filters_log_likelihoods() -> None:
    """The mean score was measured .0004 nats per row below the truth."""
    system, _, _, test = drawn()
    errors = test.values - system.kalman().forecast(test, 1)[:, 0]
    true = multivariate_normal(np.zeros(2), system.stationary.V).logpdf(errors).mean()
    assert abs(mean_score(fitted(), test) - true) <= 0.004


@pytest.mark.parametrize("label", [0.0, 3.7, -1e9])
def test_scores_with_a_channel_that_never_changes_are_scipys_of_the_others(label: float) -> None:
    """Rows that have forgotten the start; the errors are those of predictions, the covariance that of the filter."""
    rng, parts = RNG(0), []
    for _ in range(8):
        x = np.cumsum(rng.standard_normal((20, 2)), axis=0) @ [[1.0, 0.3], [0.0, 5.0]]
        parts.append(np.column_stack([x - x.mean(axis=0), np.full(20, label)]))
    model = PSIM(2, random_state=0, learner=Ridge(1e-2), validation=0.5, **(QUICK | {"n_rounds": 2})).fit(parts)
    scale, errors = model.filter_.scaling.scale[:2], np.stack(parts) - np.stack(model.predict(parts))
    normal = multivariate_normal(np.zeros(2), model.filter_.covariance[:2, :2] * np.outer(scale, scale))
    found = np.stack(model.score_samples(parts))
    np.testing.assert_allclose(found[:, 10:], normal.logpdf(errors[:, 10:, :2]), rtol=1e-9)


def test_scores_are_in_the_units_of_the_recordings() -> None:
    _, _, _, test = drawn()
    scaled = mean_score(fitted(units=(1000.0, 1.0)), Trajectories.of(stacked(test) * [1000.0, 1.0]))
    np.testing.assert_allclose(scaled, mean_score(fitted(), test) - np.log(1000), rtol=1e-9)


# -- intervals ---------------------------------------------------------------------------------------------------------


def test_quantiles_are_those_of_split_conformal_prediction() -> None:
    """At level c it is the ceil(c (rows + 1))th smallest |error|, or the largest; numpy calls it "inverted_cdf"."""
    errors = RNG(1).standard_t(3, (150, 3, 2))
    errors[:50, 1, 0] = np.nan
    calibration = calibrated(errors, None)
    for j, c in np.ndindex(3, 2):
        e = np.abs(errors[:, j, c])
        e = e[~np.isnan(e)]
        np.testing.assert_allclose(calibration.base[j, c], np.mean(e**2), rtol=1e-12)
        for level in (0.5, 0.8, 0.9, 0.95, 0.99):
            share = min(np.ceil(level * (len(e) + 1) - 1e-9) / len(e), 1.0)
            by_numpy = np.quantile(e, share, method="inverted_cdf")
            reach = calibration.reach(np.array(j + 1), level)[c] * np.sqrt(calibration.base[j, c])
            np.testing.assert_allclose(reach, by_numpy, rtol=1e-12)
    assert (np.diff(calibration.quantiles, axis=0) >= 0).all()
    assert len(calibration.quantiles) == len(LEVELS)


def test_after_a_gap_deviations_are_those_of_a_further_horizon() -> None:
    """The model adds in a gap of whole rows about as much as calibration found for predictions so far ahead.

    Intervals cover in the gap and right after it: measured 90 % at the first row, 88 % at the third.
    """
    model, (_, _, _, test) = fitted(), drawn()
    x = stacked(test)
    gappy = x.copy()
    for start in (20, 45, 70):
        gappy[:, start : start + 5] = np.nan
    low, high = (np.stack(bound) for bound in model.predict_interval(list(gappy), 1, 0.9))
    whole = {h: np.stack(model.predict_interval(list(x), h, 0.9)) for h in (1, 4, 6)}
    for row, horizon in ((19, 1), (20, 1), (23, 4), (25, 6), (73, 4), (75, 6)):
        expected = (whole[horizon][1] - whole[horizon][0])[:, 50]
        np.testing.assert_allclose((high - low)[:, row], expected, rtol=1e-12 if row in (19, 20) else 0.05)
    _, std = model.forecast(gappy[:, :25], 3, return_std=True)
    _, straight = model.forecast(x[:, :20], 8, return_std=True)
    np.testing.assert_allclose(std, straight[:, 5:], rtol=0.05)
    inside = (low <= x) & (x <= high)
    for later in range(9):
        share = inside[:, [20 + later, 45 + later, 70 + later]].mean()
        assert 0.85 <= share <= 0.95, (later, share)


# -- whole continuations -----------------------------------------------------------------------------------------------


def test_the_likelihood_of_continuations_adds_up_over_units_and_independent_rows() -> None:
    """Without correlations between rows, the log-likelihood of a continuation is the sum over its rows."""
    rng = RNG(2)
    mean, variance, f = rng.standard_normal(6), rng.uniform(0.5, 2.0, 6), rng.standard_normal((1, 3, 2))
    second = np.diag(variance) + np.outer(mean, mean)
    belief = np.concatenate([mean, second[np.triu_indices(6)]])[None]
    found = SecondMoment(3).log_likelihood(belief, f)[0]
    rows = [
        multivariate_normal.logpdf(f[0, t], mean[2 * t : 2 * t + 2], np.diag(variance[2 * t : 2 * t + 2]))
        for t in range(3)
    ]
    np.testing.assert_allclose(found, sum(rows), rtol=1e-10)
