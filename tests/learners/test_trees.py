"""Ridge and trees: each part against scikit-learn; the sample in any grouping of the examples."""

from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np
import pytest

from oracles import stacked_ridge
from psimlearn.errors import SettingsError
from psimlearn.filter import Forest
from psimlearn.learners import Ridge
from psimlearn.learners.trees import FOURIER_RIDGES, STRONGER, RidgeAndTrees, SumsAndSample

RNG = np.random.default_rng
FED = 2


def examples(n: int = 400, seed: int = 0, noise: float = 0.05) -> tuple[np.ndarray, np.ndarray]:
    """A linear map of z, and steps in an input beside the belief, which no linear map can follow."""
    rng = RNG(seed)
    z = rng.standard_normal((n, 6))
    y = z @ RNG(9).standard_normal((6, 3)) + np.where(z[:, [FED]] > 0.3, 2.0, -1.0) * [1.0, 0.0, -1.0]
    return z, y + noise * rng.standard_normal((n, 3))


def prepared(**settings: Any) -> RidgeAndTrees:
    learner = RidgeAndTrees(**{"alpha": 1e-3, "n_ridges": 1, "n_trees": 20, "n_fed": FED} | settings)
    return learner.prepare(examples()[0], RNG(0))


def test_both_parts_equal_scikit_learn() -> None:
    (z, y), (new, _) = examples(noise=0.5), examples(seed=1)
    learner = prepared(min_leaf=20)  # in small nodes two splits often part the rows alike, and rounding decides
    fitted = learner.solve(learner.summarise(z, y))
    ridge = stacked_ridge(z, y, 1e-3)
    np.testing.assert_allclose(fitted.linear(new), ridge.predict(new), rtol=0, atol=1e-10)
    # the trees speak in directions of weighted errors: from one space to the other by least squares
    errors = y - ridge.predict(z)
    told = np.linalg.lstsq(fitted.directions.T, errors.T, rcond=None)[0].T
    np.testing.assert_allclose(told @ fitted.directions, errors, rtol=0, atol=1e-8)  # here all directions are kept
    forest = learner.grown(z[:, FED:], told)
    for estimator in forest.estimators_:
        estimator.tree_.value[...] = estimator.tree_.value.astype(np.float32)
    expected = ridge.predict(new) + forest.predict(new[:, FED:]) @ fitted.directions
    np.testing.assert_allclose(fitted(new), expected, rtol=0, atol=1e-6)


def test_trees_follow_what_the_ridge_cannot() -> None:
    (z, y), (new, truth) = examples(2000), examples(seed=1)
    learner = prepared()
    stats = learner.summarise(z, y)
    errors = [np.mean((fitted(new) - truth) ** 2) for fitted in (learner.solve(stats), Ridge(1e-3).solve(stats.sums))]
    assert errors[0] < 0.2 * errors[1]
    moved = new + np.where(np.arange(6) < FED, 1.0, 0.0)  # another belief moves the linear part only
    fitted = learner.solve(stats)
    np.testing.assert_allclose(fitted(moved) - fitted(new), fitted.linear(moved) - fitted.linear(new), atol=1e-12)


def test_several_ridges_are_averaged() -> None:
    """Each has trees on its errors, and the filter is the mean of all."""
    (z, y), (new, _) = examples(noise=0.5), examples(seed=1)
    learner = prepared(n_ridges=3, n_trees=5)
    fitted = learner.solve(learner.summarise(z, y))
    ridges = [stacked_ridge(z, y, 1e-3 * STRONGER**i) for i in range(3)]
    np.testing.assert_allclose(fitted.linear(new), np.mean([r.predict(new) for r in ridges], axis=0), atol=1e-10)
    assert len(fitted.trees.roots) == 15
    for ridge, roots in zip(ridges, np.split(fitted.trees.roots, 3), strict=True):
        alone = replace(fitted.trees, roots=roots)(z[:, FED:]) @ fitted.directions
        errors = y - ridge.predict(z)
        assert np.mean((errors - alone) ** 2) < 0.3 * np.mean(errors**2)  # leaves of two examples fit closely


def test_ridges_on_random_features_join_the_mean() -> None:
    """Regressions on cosines and sines of scikit-learn's ridge; without the features the others stay as they were."""
    (z, y), (new, _) = examples(noise=0.5), examples(seed=1)
    plain, learner = prepared(n_trees=5), prepared(n_trees=5, n_features=60)
    fitted = learner.solve(learner.summarise(z, y))
    assert plain.solve(plain.summarise(z, y)).waves is None
    assert learner.frequencies is not None
    half = learner.frequencies.shape[1]

    def seen(rows: np.ndarray) -> np.ndarray:
        angles = rows[:, FED:] @ learner.frequencies
        return np.concatenate([np.cos(angles) / np.sqrt(half), np.sin(angles) / np.sqrt(half), rows], axis=1)

    told = [stacked_ridge(z, y, 1e-3).predict(new)]
    told += [stacked_ridge(seen(z), y, alpha).predict(seen(new)) for alpha in FOURIER_RIDGES]
    assert fitted.waves is not None
    smooth = fitted.linear(new) + fitted.waves(new[:, FED:])
    np.testing.assert_allclose(smooth, np.mean(told, axis=0), rtol=0, atol=1e-8)
    assert len(fitted.trees.roots) == 3 * 5
    moved = new + np.where(np.arange(6) < FED, 1.0, 0.0)  # another belief moves the linear part only
    np.testing.assert_allclose(fitted(moved) - fitted(new), fitted.linear(moved) - fitted.linear(new), atol=1e-12)


def test_random_features_are_no_more_than_examples() -> None:
    z, y = examples(21)
    learner = RidgeAndTrees(n_trees=2, n_features=1000).prepare(z, RNG(0))
    assert learner.frequencies is not None
    assert learner.frequencies.shape == (6, 10)
    again = learner.prepare(examples()[0], RNG(1))
    assert again.frequencies is learner.frequencies  # frozen
    assert np.isfinite(learner.solve(learner.summarise(z, y))(z)).all()


def test_the_sample_is_the_same_in_any_grouping() -> None:
    z, y = examples()
    learner = prepared(max_rows=100)
    parts = [learner.summarise(z[i::3], y[i::3]) for i in range(3)]
    whole = learner.summarise(z, y)
    assert len(whole.z) == 100
    for a, b, c in permutations(parts):
        for merged in (learner.merge(learner.merge(a, b), c), learner.merge(a, learner.merge(b, c))):
            order, expected = np.argsort(merged.key), np.argsort(whole.key)
            np.testing.assert_array_equal(merged.z[order], whole.z[expected])
            np.testing.assert_array_equal(merged.y[order], whole.y[expected])
            np.testing.assert_allclose(merged.sums.zz, whole.sums.zz, rtol=1e-12)
            assert merged.sums.n == 400


def test_the_sample_is_fair() -> None:
    z, y = examples(20_000)
    kept = prepared(max_rows=2000).summarise(z, y)
    deviation = y.std(axis=0) / np.sqrt(2000)
    assert (np.abs(kept.y.mean(axis=0) - y.mean(axis=0)) < 4 * deviation).all()


def test_a_newer_belief_replaces_an_older_one() -> None:
    z, y = examples()
    learner = prepared()
    later = z + np.where(np.arange(6) < FED, 1.0, 0.0)
    first = learner.summarise(z, y)
    merged = learner.merge(first, learner.summarise(later, y, (FED, first)))
    assert isinstance(merged, SumsAndSample)
    np.testing.assert_array_equal(merged.z, later)
    assert merged.sums.n == 800
    np.testing.assert_allclose(merged.sums.zz, z.T @ z + later.T @ later, rtol=1e-10, atol=1e-8)
    more, _ = examples(seed=5)
    assert len(learner.merge(merged, learner.summarise(more, y)).z) == 800  # other rows, as `partial_fit` meets


def test_the_sample_does_not_change_with_work_space() -> None:
    z, y = examples()
    stats = prepared().summarise(z, y)
    kept = stats.z.copy()
    z[:] = 0
    np.testing.assert_array_equal(stats.z, kept)


def test_the_seed_decides() -> None:
    z, y = examples()
    one, two, other = (RidgeAndTrees(n_trees=3).prepare(z, RNG(seed)) for seed in (0, 0, 1))
    a, b, c = (learner.solve(learner.summarise(z, y))(z) for learner in (one, two, other))
    np.testing.assert_array_equal(a, b)
    assert not np.array_equal(a, c)


def test_errors_that_are_nothing_need_no_trees() -> None:
    z = RNG(0).standard_normal((50, 6))
    learner = prepared(alpha=0.0)
    fitted = learner.solve(learner.summarise(z, np.zeros((50, 1))))
    assert isinstance(fitted, Forest)
    np.testing.assert_allclose(fitted(z), 0, atol=1e-12)


@pytest.mark.parametrize(
    "settings",
    [
        {"alpha": -1.0},
        {"n_trees": 0},
        {"n_ridges": 0},
        {"min_leaf": 0},
        {"max_inputs": 0},
        {"max_rows": 1},
        {"seed": -1},
        {"n_trees": 10**9},
        {"n_features": -2},
    ],
)
def test_settings_without_meaning(settings: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=next(iter(settings))):
        RidgeAndTrees(**settings)
