"""Features by hand, and beliefs about second moments against numpy and scipy."""

from dataclasses import dataclass
from textwrap import dedent
from typing import Any

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from psimlearn.filter import Features, SecondMoment, Stack, StackSquares, features
from psimlearn.filter.features import VARIANCE_FLOOR, Persistent, Variances
from psimlearn.learners import Ridge
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.train import dagger

WINDOW = np.array([[[1.0, 2.0], [3.0, -4.0]]])  # one window of two rows, two channels
BUILT_IN = [Stack, StackSquares, SecondMoment]


def gaussian_belief(mean: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """The belief of `SecondMoment` that stands for N(mean, covariance)."""
    second = covariance + np.outer(mean, mean)
    return np.concatenate([mean, second[np.triu_indices(len(mean))]])[None]


def test_stack_by_hand() -> None:
    np.testing.assert_array_equal(Stack(2)(WINDOW), [[1, 2, 3, -4]])


def test_stack_squares_by_hand() -> None:
    np.testing.assert_array_equal(StackSquares(2)(WINDOW), [[1, 2, 3, -4, 1, 4, 9, 16]])


def test_second_moment_by_hand() -> None:
    products = [1 * 1, 1 * 2, 1 * 3, 1 * -4, 2 * 2, 2 * 3, 2 * -4, 3 * 3, 3 * -4, -4 * -4]
    np.testing.assert_array_equal(SecondMoment(2)(WINDOW), [[1, 2, 3, -4, *products]])


@pytest.mark.parametrize("kind", BUILT_IN)
@pytest.mark.parametrize(("window", "n"), [(1, 1), (1, 3), (2, 2), (4, 3)])
def test_observations_undo_the_call(kind: Any, window: int, n: int) -> None:
    f = np.random.default_rng(0).standard_normal((5, window, n))
    phi = kind(window)
    np.testing.assert_array_equal(phi.observations(phi(f)), f)


@pytest.mark.parametrize("kind", BUILT_IN)
@pytest.mark.parametrize(("window", "n"), [(1, 1), (3, 2)])
def test_persist_is_phi_of_a_row_that_stays(kind: Any, window: int, n: int) -> None:
    x = np.random.default_rng(1).standard_normal((4, n))
    still = np.stack([x] * window, axis=1)
    np.testing.assert_array_equal(kind(window).persist(x), kind(window)(still))


def test_who_can_do_what() -> None:
    for kind in BUILT_IN:
        assert isinstance(kind(2), Features)
        assert isinstance(kind(2), Persistent)
    assert [isinstance(kind(2), Variances) for kind in BUILT_IN] == [False, True, True]


def test_stack_squares_variance_by_hand() -> None:
    belief = np.array([[1.0, 2.0, 3.0, -4.0, 1.5, 4.0, 8.0, 20.0]])  # E[x], then E[x^2]
    expected = [[[0.5, VARIANCE_FLOOR], [VARIANCE_FLOOR, 4.0]]]  # 4 - 2^2 is none at all, 8 - 3^2 impossible
    np.testing.assert_array_equal(StackSquares(2).variance(belief), expected)


def test_second_moment_covariance_by_hand() -> None:
    belief = np.array([[1.0, 2.0, 3.0, 2.5, 8.0]])  # E[a], E[b], E[aa], E[ab], E[bb]
    np.testing.assert_allclose(SecondMoment(1).covariance(belief), [[[2.0, 0.5], [0.5, 4.0]]], rtol=1e-14)
    np.testing.assert_allclose(SecondMoment(1).variance(belief), [[[2.0, 4.0]]], rtol=1e-14)
    np.testing.assert_allclose(SecondMoment(2).variance(belief), [[[2.0], [4.0]]], rtol=1e-14)


def test_mean_of_phi_over_samples_holds_their_covariance() -> None:
    rng = np.random.default_rng(2)
    f = (rng.standard_normal((200, 6)) @ rng.standard_normal((6, 6)) + 3.0).reshape(200, 3, 2)
    flat = f.reshape(200, 6)
    full, squares = (phi(f).mean(axis=0, keepdims=True) for phi in (SecondMoment(3), StackSquares(3)))
    np.testing.assert_allclose(SecondMoment(3).covariance(full)[0], np.cov(flat.T, bias=True), atol=1e-12)
    np.testing.assert_allclose(SecondMoment(3).observations(full)[0], f.mean(axis=0), atol=1e-13)
    np.testing.assert_allclose(SecondMoment(3).variance(full)[0], f.var(axis=0), atol=1e-12)
    np.testing.assert_allclose(StackSquares(3).variance(squares)[0], f.var(axis=0), atol=1e-12)


@pytest.mark.parametrize(("window", "n"), [(1, 1), (2, 1), (1, 3), (4, 2), (5, 5)])
def test_log_likelihood_is_scipys(window: int, n: int) -> None:
    rng = np.random.default_rng(3)
    w = window * n
    f = rng.standard_normal((3, window, n))
    means = rng.standard_normal((3, w))
    roots = rng.standard_normal((3, w, w)) / np.sqrt(w)
    covariances = roots @ np.swapaxes(roots, 1, 2) + 0.3 * np.eye(w)
    beliefs = np.concatenate([gaussian_belief(*pair) for pair in zip(means, covariances, strict=True)])
    expected = [multivariate_normal.logpdf(*triple) for triple in zip(f.reshape(3, w), means, covariances, strict=True)]
    np.testing.assert_allclose(SecondMoment(window).log_likelihood(beliefs, f), expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("scale", [1.0, 1e4, 1e8, 1e12])
def test_impossible_beliefs_keep_a_variance_and_a_likelihood(scale: float) -> None:
    beliefs = scale * np.random.default_rng(4).standard_normal((100, 4 + 10))  # E[aa] < 0 and worse
    beliefs[0] = 0.0  # certain of everything
    phi = SecondMoment(2)
    assert np.linalg.eigvalsh(phi.covariance(beliefs)).min() > -1e-12 * scale**2
    variance = phi.variance(beliefs)
    assert np.isfinite(variance).all()
    assert variance.min() >= VARIANCE_FLOOR * (1 - 1e-12)
    assert np.isfinite(phi.log_likelihood(beliefs, np.ones((100, 2, 2)))).all()


def test_the_floor_is_the_eigenvalue_of_a_certain_belief() -> None:
    certain = gaussian_belief(np.array([1.0, -2.0]), np.zeros((2, 2)))
    np.testing.assert_allclose(SecondMoment(2).covariance(certain)[0], VARIANCE_FLOOR * np.eye(2), rtol=1e-12)
    at_the_mean = -np.log(2 * np.pi) - np.log(VARIANCE_FLOOR)
    found = SecondMoment(2).log_likelihood(certain, np.array([[[1.0], [-2.0]]]))
    np.testing.assert_allclose(found, [at_the_mean], rtol=1e-12)


def test_the_example_of_the_documentation_learns() -> None:
    lines = (features.__doc__ or "").splitlines()
    code = dedent("\n".join(line for line in lines if line.startswith("    ") or not line))
    namespace: dict[str, Any] = {"np": np, "dataclass": dataclass, "__name__": __name__}
    exec(code, namespace)
    phi = namespace["StackAbsolute"](2)
    assert isinstance(phi, Features)
    assert not isinstance(phi, Persistent)
    np.testing.assert_array_equal(phi(WINDOW), [[1, 2, 3, -4, 1, 2, 3, 4]])
    np.testing.assert_array_equal(phi.observations(phi(WINDOW)), WINDOW)

    rng = np.random.default_rng(5)
    x = rng.standard_normal((30, 20, 1))
    for t in range(1, 20):
        x[:, t] += 0.9 * x[:, t - 1]
    recordings = Trajectories.of(x)
    rounds = list(dagger(recordings[:20], recordings[20:], phi, Ridge(1e-3), rng=rng, n_rounds=2))
    assert len(rounds) == 3
    assert all(0 < round.error < 0.6 for round in rounds)  # standardised: the mean has 1, the truth about .25
    assert rounds[-1].filter.forecast(recordings, 4).shape == (600, 4, 1)
