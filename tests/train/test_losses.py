"""Losses against scipy, and the property that makes them losses of conditional means."""

from typing import Any

import numpy as np
import pytest
import scipy.stats

from psimlearn.filter import Features, OneHotProduct, Stack, StackSquares
from psimlearn.train.losses import GaussianNLL, LogLoss, Loss, Squared

RNG = np.random.default_rng


def charge(loss: Loss, features: Features, guess: np.ndarray, outcomes: np.ndarray, p: np.ndarray) -> float:
    """The expected charge of one guess, if the outcomes come with probabilities p."""
    return float(
        sum(q * loss.errors(features, guess[None], x[None, None])[0] for q, x in zip(p, outcomes, strict=True))
    )


def squared_gap(mean: np.ndarray, guess: np.ndarray) -> float:
    return float(np.sum((mean - guess) ** 2))


def kullback_leibler(mean: np.ndarray, guess: np.ndarray) -> float:
    return float(scipy.stats.entropy(mean, guess))


@pytest.mark.parametrize(
    ("loss", "features", "excess"),
    [(Squared(), Stack(1), squared_gap), (LogLoss(), OneHotProduct(1), kullback_leibler)],
)
def test_the_conditional_mean_is_charged_least(loss: Any, features: Any, excess: Any) -> None:
    """The excess of any other guess is its divergence from the mean: the mark of a Bregman divergence."""
    rng = RNG(0)
    p, outcomes = rng.dirichlet(np.ones(5)), np.eye(5)
    at_mean = charge(loss, features, p, outcomes, p)
    for other in rng.dirichlet(np.ones(5), 50):
        assert charge(loss, features, other, outcomes, p) - at_mean == pytest.approx(excess(p, other), abs=1e-12)


def test_the_gaussian_loss_is_the_likelihood_of_scipy() -> None:
    """Beliefs [mean; second moment] of two rows of two channels; an entry that was not observed costs nothing."""
    rng = RNG(0)
    mean, variance = rng.standard_normal((30, 2, 2)), rng.random((30, 2, 2)) + 0.1
    truth = rng.standard_normal((30, 2, 2))
    truth[rng.random(truth.shape) < 0.2] = np.nan
    m = np.concatenate([mean.reshape(30, 4), (mean**2 + variance).reshape(30, 4)], axis=1)
    nats = -scipy.stats.norm.logpdf(truth, mean, np.sqrt(variance))
    expected = np.nanmean(nats, axis=0).sum(axis=1)
    np.testing.assert_allclose(GaussianNLL().errors(StackSquares(2), m, truth), expected, rtol=1e-12)


def test_the_gaussian_loss_is_a_bregman_divergence() -> None:
    """G = -1/2 sum log variance generates it: -G(m) - <gradient of G at m, phi - m>, and constants."""
    rng = RNG(0)
    mean, variance, x = rng.standard_normal(2), rng.random(2) + 0.1, rng.standard_normal(2)
    m, phi = np.concatenate([mean, mean**2 + variance]), np.concatenate([x, x**2])
    gradient = np.concatenate([mean / variance, -0.5 / variance])
    generated = 0.5 * np.log(variance).sum() - gradient @ (phi - m) + np.log(2 * np.pi) + 1
    assert GaussianNLL().errors(StackSquares(1), m[None], x[None, None])[0] == pytest.approx(generated, rel=1e-12)


def test_far_horizons_count_relative_to_the_last_observation() -> None:
    truth, stays = np.array([[[1.0], [3.0]], [[-1.0], [1.0]]]), np.zeros((2, 1))
    np.testing.assert_allclose(Squared().weights(truth, stays), [1 / (2 * 1.0), 1 / (2 * 5.0)], rtol=1e-12)
    for loss in (LogLoss(), GaussianNLL()):
        assert loss.weights(truth, stays).tolist() == [0.5, 0.5]
