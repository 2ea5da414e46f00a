"""Scores of rounds: closed-loop errors on held-out recordings."""

from dataclasses import replace

import numpy as np
import pytest

from oracles import ragged
from psimlearn.errors import DivergedError
from psimlearn.filter import Filter, Linear, Stack
from psimlearn.learners import Ridge
from psimlearn.train import Round, best, dagger
from psimlearn.train.score import forgets, spectral_radius

RNG = np.random.default_rng


def test_the_error_of_a_round_is_the_standardised_closed_loop_error() -> None:
    data, held_out = ragged([20, 25, 30], 2, RNG(0)), ragged([15, 18], 2, RNG(1))
    for round in dagger(data, held_out, Stack(2), Ridge(1e-3), rng=RNG(0), n_rounds=2):
        gap = (held_out.values - round.filter.forecast(held_out, 1)[:, 0]) / data.values.std(axis=0)
        np.testing.assert_allclose(round.error, np.sum(np.mean(gap**2, axis=0)), rtol=1e-12)


def weights_of(filter: Filter) -> np.ndarray:
    (regressor,) = filter.regressors
    assert isinstance(regressor, Linear)
    return np.asarray(regressor.weights)


def test_the_radius_follows_the_regressor_and_the_feedback() -> None:
    """A radius is kept with its regressor: another feedback, or another regressor, has another one."""
    data = ragged([20, 25], 2, RNG(0))
    filter = best(dagger(data, data, Stack(2), Ridge(1e-3), rng=RNG(0), n_rounds=1)).filter
    halved = replace(filter, feedback=filter.feedback._replace(weight=0.5 * filter.feedback.weight))
    for each in (filter, halved, filter, replace(filter, covariance=2 * filter.covariance)):
        one, zero = (each.feedback.linear(m @ weights_of(each)[:4]) for m in (np.eye(4), np.zeros((4, 4))))
        expected = np.abs(np.linalg.eigvals(one - zero)).max()
        assert spectral_radius(each) == pytest.approx(expected, rel=1e-12)
    assert spectral_radius(halved) == pytest.approx(0.5 * (spectral_radius(filter) or 0.0), rel=1e-12)


@pytest.mark.parametrize("radius", [0.3, 0.99, 0.999999, 1.000001, 1.01, 3.0])
@pytest.mark.parametrize("skew", [0.0, 30.0])
def test_a_filter_forgets_if_its_radius_is_at_most_one(radius: float, skew: float) -> None:
    """Eigenvalues decide where the first powers of the map grow, though the map vanishes in the end."""
    data = ragged([20, 25], 2, RNG(0))
    filter = best(dagger(data, data, Stack(2), Ridge(1e-3), rng=RNG(0), n_rounds=0)).filter
    step = radius * np.diag([1.0, 0.5, -0.9, 0.2]) + skew * np.eye(4, k=1)
    unit = np.asarray(filter.feedback.scale) / filter.feedback.weight
    weights = np.concatenate([step * unit, weights_of(filter)[4:]])
    (regressor,) = filter.regressors
    assert isinstance(regressor, Linear)
    made = replace(filter, regressors=(replace(regressor, weights=weights),))
    assert spectral_radius(made) == pytest.approx(radius, rel=1e-12)
    assert forgets(made) is (radius <= 1)


def test_best_refuses_when_everything_diverged() -> None:
    data = ragged([20, 25], 1, RNG(0))
    filter = best(dagger(data, data, Stack(2), Ridge(1e-3), rng=RNG(0), n_rounds=0)).filter
    with pytest.raises(DivergedError, match="every filter diverged"):
        best([Round(0, filter, np.inf, 0.0, 0)])


def test_the_window_counts_the_next_row_as_much_as_all_rows() -> None:
    data, held_out = ragged([20, 25, 30], 2, RNG(0)), ragged([15, 18], 2, RNG(1))
    (round,) = dagger(data, held_out, Stack(3), Ridge(1e-3), rng=RNG(0), n_rounds=0, criterion="window")
    predicted, scale = round.filter.forecast(held_out, 3), data.values.std(axis=0)
    shares = []
    for ahead in range(3):
        errors, of_last = [], []
        for first, last in ((0, 15), (15, 33)):
            for t in range(first + 1, last - 2):  # whole futures, with a row before them
                truth = held_out.values[t + ahead]
                errors.append(np.sum(((predicted[t, ahead] - truth) / scale) ** 2))
                of_last.append(np.sum(((held_out.values[t - 1] - truth) / scale) ** 2))
        shares.append(np.mean(errors) / np.mean(of_last))
    assert round.error == pytest.approx((shares[0] + np.mean(shares)) / 2, rel=1e-12)
