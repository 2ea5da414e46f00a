"""What the uncertainty of a fitted model promises: intervals that cover, likelihoods near those of the true system."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.linear_model import Ridge as PlainRidge
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

from noisy import QUICK, RNG, drawn, mean_score, simulate, stacked
from psimlearn import PSIM
from psimlearn.datasets import LinearSystem, random_system
from psimlearn.filter import SecondMoment
from psimlearn.learners import RandomFourierRidge, Ridge
from psimlearn.recordings.trajectories import Trajectories


def covered(model: PSIM, test: Trajectories, horizon: int, coverage: float) -> np.ndarray:
    """The share of observations inside the intervals, by channel, over the rows predicted `horizon` steps ahead."""
    low, high = (np.stack(bound) for bound in model.predict_interval(list(stacked(test)), horizon, coverage))
    x = stacked(test)
    inside = (low <= x) & (x <= high)
    return np.asarray(inside[:, horizon - 1 :].mean(axis=(0, 1)))


@pytest.mark.parametrize("freedom", [None, 3.0])
def test_intervals_cover_what_they_promise(freedom: float | None) -> None:
    """Coverage holds in every channel at every horizon up to 20 steps beyond the window, for Gaussian noise and t3.

    Measured at 90 %: 89.9 to 90.5 (Gaussian) and 89.0 to 90.0 (t3); at 50 %: 49.2 to 50.5 and 48.1 to 50.3.
    """
    _, train, validation, test = drawn(freedom)
    model = PSIM(2, random_state=0, validation=validation).fit(train)
    for coverage, low, high in ((0.9, 0.88, 0.92), (0.5, 0.47, 0.53)):
        for horizon in (1, 2, 3, 5, 8, 12, 17, 22):
            share = covered(model, test, horizon, coverage)
            assert (share >= low).all(), (coverage, horizon, share)
            assert (share <= high).all(), (coverage, horizon, share)
    x = stacked(test)
    inside = []
    for end in (10, 22, 34, 46, 58, 70, 78):
        _, lower, upper = model.forecast(x[:, :end], 22, coverage=0.9)
        inside.append((lower <= x[:, end : end + 22]) & (x[:, end : end + 22] <= upper))
    share = np.concatenate(inside).mean(axis=0)
    assert share.shape == (22, 2)
    assert (share >= 0.88).all(), share
    assert (share <= 0.92).all(), share
    _, beyond, above = model.forecast(x[:, :-60], 60, coverage=0.9)  # calibration reaches 22 steps, the model goes on
    share = ((beyond <= x[:, -60:]) & (x[:, -60:] <= above))[:, 22:].mean(axis=(0, 1))
    assert (share >= 0.87).all(), share
    assert (share <= 0.93).all(), share
    assert (np.diff((above - beyond)[0, 21:], axis=0) >= 0).all()


@pytest.mark.parametrize("features", ["stack", "squares", "moments"])
def test_intervals_of_refitted_filters_cover_as_well(features: str) -> None:
    """Errors of filters fitted without a fifth of the recordings stand for the errors of the filter fitted to all.

    Channels have scales far from 1, so that a scale applied twice to claimed variances would show.
    """
    rng = RNG(0)
    system = random_system(rng)
    units = np.array([50.0, 0.02])
    train, test = (stacked(simulate(system, m, rng, 3.0)) * units for m in (200, 400))
    model = PSIM(2, random_state=0, features=features, lags=4, prior="mean", belief_weight=1.0, n_rounds=2).fit(train)
    for horizon in (1, 2, 10):
        share = covered(model, Trajectories.of(test), horizon, 0.9)
        assert (share >= 0.88).all(), (horizon, share)
        assert (share <= 0.92).all(), (horizon, share)


def noisier_when_high(m: int, rng: np.random.Generator, mean: float) -> np.ndarray:
    """Draw a slow wave, observed with noise of standard deviation .2 + |wave|."""
    s, x = rng.standard_normal((m, 1)) * 1.2 + mean, []
    for _ in range(100):
        x.append(s + (0.2 + np.abs(s)) * rng.standard_normal((m, 1)))
        s = mean + 0.97 * (s - mean) + 0.3 * rng.standard_normal((m, 1))
    return np.stack(x, axis=1)


@pytest.mark.parametrize(
    ("learner", "mean", "gain"), [("ridge", 1.5, 0.06), (RandomFourierRidge(200, 1e-4), 0.0, 0.03), ("ridge", 0.0, 0.0)]
)
def test_beliefs_that_know_their_variance_are_more_likely_where_it_changes(
    learner: Any, mean: float, gain: float
) -> None:
    """Features "squares" gain likelihood over "stack" where the noise depends on the level.

    Noise that rises with the level: a linear filter gains .085 nats per row. Noise that rises on both sides of zero:
    E[x^2] is no linear function of observations, so random features gain, and a linear filter loses nothing.
    """
    rng = RNG(0)
    train, validation, test = (noisier_when_high(m, rng, mean) for m in (200, 100, 400))
    score = {
        features: mean_score(
            PSIM(
                3, random_state=0, features=features, learner=learner, validation=Trajectories.of(validation),
                **(QUICK | {"lags": 3}),
            ).fit(train),
            Trajectories.of(test),
        )
        for features in ("stack", "squares")
    }  # fmt: skip
    assert score["squares"] - score["stack"] >= gain - 0.005 * (gain == 0), score


def exact_covariance(system: LinearSystem, window: int) -> np.ndarray:
    """The covariance of the next `window` observations given the past, computed row by row from the model."""
    O, n = system.observability(window), len(system.C)
    covariance = O @ system.stationary.P @ O.T
    noise = np.zeros((window * n, window * n))
    for entry in range(window - 1):  # process noise that enters after row `entry` shows from the next row on
        shown = np.concatenate([np.zeros(((entry + 1) * n, len(system.A))), system.observability(window - 1 - entry)])
        noise += shown @ system.Q @ shown.T
    return np.asarray(covariance + noise + np.kron(np.eye(window), system.R))


def test_continuations_are_as_likely_as_the_kalman_filter_finds_them_where_the_learner_can_square() -> None:
    """E[ff'] = C + E[f]E[f]' is quadratic in the inputs of a step, so a linear learner cannot represent it.

    The means are right for any learner: with the covariance of their errors, the mean log-likelihood of the true
    continuations is within .5 % of the exact one. A learner with squares and products claims an impossible covariance
    (an eigenvalue on the floor) in at most 1 % of the rows, and no more often than a linear learner. Over the other
    rows, the log-likelihood by its claimed covariances is within 5 % of the exact one.
    """
    system, train, validation, test = drawn()
    x = stacked(test)
    f = np.stack([x[:, t : t + 2] for t in range(99)], axis=1).reshape(-1, 2, 2)
    state = system.kalman().states(test).reshape(400, 100, 3)[:, :99].reshape(-1, 3)
    errors = f.reshape(-1, 4) - state @ system.observability(2).T
    exact = multivariate_normal(np.zeros(4), exact_covariance(system, 2)).logpdf(errors)
    np.testing.assert_allclose(np.cov(errors.T), exact_covariance(system, 2), atol=0.15)
    impossible = {}
    for name, learner in (("linear", "ridge"), ("square", make_pipeline(PolynomialFeatures(2), PlainRidge(1.0)))):
        quick = QUICK | {"n_rounds": 3}
        model = PSIM(2, random_state=0, features="moments", learner=learner, validation=validation[:50], **quick)
        filter = model.fit(train).filter_
        assert isinstance(filter.features, SecondMoment)
        belief = filter.run(test)[0].reshape(400, 100, -1)[:, :99].reshape(len(f), -1)
        unit = filter.scaling
        given, units = unit(f.reshape(-1, 2)).reshape(-1, 2, 2), 2 * np.log(unit.scale).sum()
        off = (given - filter.features.observations(belief)).reshape(-1, 4)
        by_mean = multivariate_normal(np.zeros(4), np.cov(off.T)).logpdf(off).mean() - units
        assert abs(by_mean / exact.mean() - 1) <= 0.005
        possible = np.linalg.eigvalsh(filter.features.covariance(belief))[:, 0] > 1e-6
        impossible[name] = 1 - possible.mean()
        claimed = filter.features.log_likelihood(belief, given) - units
        if name == "square":
            assert abs(claimed[possible].mean() / exact[possible].mean() - 1) <= 0.05
    assert impossible["square"] <= 0.01, impossible
    assert impossible["square"] <= impossible["linear"], impossible


def test_failed_assemblies_are_less_likely_than_successful_ones(data_folder: Path) -> None:
    """From forces and moments of the first 10 s, every held-out success scores above every failure: AUC 1.

    The task is easy: successes and failures are two sets of recordings, with the arm in different postures and with
    forces twice as strong in failures. The plain distance from the training mean has AUC .995. So one round of a fixed
    ridge is enough.
    """
    folder = data_folder / "robot_hiro_snap_assembly"
    success = np.load(folder / "hiro_success_20hz_350x12.npz")["X"][20:, :200, :6].astype(np.float64)
    failure = np.load(folder / "hiro_error_40hz_400x12.npz")["X"][:, :, :6].astype(np.float64)
    failure = failure.reshape(16, 200, 2, 6).mean(axis=2)  # 40 Hz to 20 Hz
    mean: list[float] = []
    worst: list[float] = []
    failed = []
    for held in np.array_split(RNG(0).permutation(len(success)), 3):
        settings: dict[str, Any] = {"lags": 5, "prior": "last", "level_weight": None, "belief_weight": 0.3}
        model = PSIM(5, random_state=0, learner=Ridge(1e-3), n_rounds=1, **settings)
        model.fit(np.delete(success, held, axis=0))
        for scores in model.score_samples(list(success[held])):
            mean.append(scores.mean())
            worst.append(np.convolve(scores, np.full(10, 0.1), "valid").min())
        scores = np.stack(model.score_samples(list(failure)))
        moving = [np.convolve(row, np.full(10, 0.1), "valid").min() for row in scores]
        failed.append([scores.mean(axis=1), moving])
    is_failure = np.r_[np.zeros(len(mean)), np.ones(len(failure))]
    by_mean, by_worst = np.mean(failed, axis=0)
    assert roc_auc_score(is_failure, -np.r_[mean, by_mean]) >= 0.97
    assert roc_auc_score(is_failure, -np.r_[worst, by_worst]) >= 0.95
