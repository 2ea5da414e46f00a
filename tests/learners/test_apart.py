"""Regressions on examples of which some outputs are missing: each output against scikit-learn on its rows."""

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge as SklearnRidge

from oracles import stacked_ridge
from psimlearn.filter import Linear, RandomFourier
from psimlearn.learners import Apart, ByOutput, RandomFourierRidge, Ridge
from psimlearn.learners.fourier import CHUNK

RNG = np.random.default_rng
LEARNERS: list[Any] = [
    Ridge(1e-3),
    Ridge(1e-3, intercept=False),
    RandomFourierRidge(20, 1e-3),
    RandomFourierRidge(20, 1e-3, raw_inputs=False),
]


def examples(n: int = 300, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = RNG(seed)
    z = rng.standard_normal((n, 5)) + 1.0
    return z, np.tanh(z @ rng.standard_normal((5, 4))) + 0.1 * rng.standard_normal((n, 4)) - 2.0


def gappy(n: int = 300, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Outputs that are missing never, rarely, mostly, and not at random."""
    z, y = examples(n, seed)
    rng = RNG(seed + 1)
    y[rng.random(n) < 0.2, 1] = np.nan
    y[rng.random(n) < 0.8, 2] = np.nan
    y[z[:, 0] > 1.0, 3] = np.nan
    return z, y


def prepared(learner: Any, z: np.ndarray) -> tuple[Any, np.ndarray]:
    """The learner with its directions, and the columns that its ridge regresses on."""
    learner = learner.prepare(z, RNG(1))
    return learner, regressed(learner, z)


def regressed(learner: Any, z: np.ndarray) -> np.ndarray:
    """The columns with one penalty for all."""
    if isinstance(learner, Ridge):
        return z
    columns: np.ndarray = learner.features(z)
    columns[:, :20] /= np.sqrt(10)
    return columns


def close(a: Any, b: Any) -> None:
    np.testing.assert_allclose(a, b, rtol=0, atol=1e-9)


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
@pytest.mark.parametrize("n", [300, CHUNK + 50])
def test_with_all_outputs_seen_it_is_the_learner(learner: Any, n: int) -> None:
    z, y = examples(n)
    learner, _ = prepared(learner, z)
    whole, apart = learner.summarise(z, y), Apart(learner)
    sums = apart.summarise(z, y)
    close(apart.solve(sums)(z), learner.solve(whole)(z))
    assert isinstance(apart.solve(sums), Linear if isinstance(learner, Ridge) else RandomFourier)
    close(apart.solve(ByOutput.of(whole))(z), learner.solve(whole)(z))
    assert ByOutput.of(sums) is sums


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
@pytest.mark.parametrize("n", [300, CHUNK + 50])
def test_each_output_is_sklearns_ridge_on_the_rows_where_it_was_seen(learner: Any, n: int) -> None:
    z, y = gappy(n)
    learner, columns = prepared(learner, z)
    apart = Apart(learner)
    sums = apart.summarise(z, y)
    found = apart.solve(sums)(z)
    for i in range(4):
        seen = ~np.isnan(y[:, i])
        assert sums.parts[i].n == seen.sum()
        oracle = stacked_ridge(columns[seen], y[seen, i], learner.alpha, getattr(learner, "intercept", True))
        close(found[:, i], oracle.predict(columns))


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
def test_sums_are_added_and_fade_like_weights(learner: Any) -> None:
    """Earlier examples, whole or with gaps, fade: scikit-learn weights them."""
    first, second = gappy(200, 3), gappy(150, 5)
    learner, _ = prepared(learner, first[0])
    apart = Apart(learner)
    z, y = (np.concatenate(parts) for parts in zip(first, second, strict=True))
    one, other = apart.summarise(*first), apart.summarise(*second)
    close(apart.solve(apart.merge(one, other))(z), apart.solve(apart.summarise(z, y))(z))
    close(apart.solve(apart.merge(other, one))(z), apart.solve(apart.summarise(z, y))(z))
    found = apart.solve(apart.merge(one.faded(0.6), other))(z)
    columns = regressed(learner, z)
    weights = np.repeat([0.6, 1.0], [200, 150])
    for i in range(4):
        seen = ~np.isnan(y[:, i])
        penalty = learner.alpha * weights[seen].sum()
        oracle = SklearnRidge(alpha=penalty, fit_intercept=learner.intercept, solver="cholesky")
        close(found[:, i], oracle.fit(columns[seen], y[seen, i], weights[seen]).predict(columns))


def test_sums_of_whole_examples_go_on_with_gaps() -> None:
    first, second = examples(200, 3), gappy(150, 5)
    learner = Ridge(1e-3)
    apart = Apart(learner)
    z, y = (np.concatenate(parts) for parts in zip(first, second, strict=True))
    merged = apart.merge(learner.summarise(*first), apart.summarise(*second))
    close(apart.solve(merged)(z), apart.solve(apart.summarise(z, y))(z))


def test_an_output_that_was_never_seen_is_zero() -> None:
    z, y = examples()
    y[:, 2] = np.nan
    apart = Apart(Ridge(1e-3))
    found = apart.solve(apart.summarise(z, y))
    assert np.isfinite(found(z)).all()
    assert not found(z)[:, 2].any()
    close(found(z)[:, [0, 1, 3]], Ridge(1e-3).solve(Ridge().summarise(z, y[:, [0, 1, 3]]))(z))
