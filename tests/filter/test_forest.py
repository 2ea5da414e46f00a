"""Trees against scikit-learn's predictions, and the parts of a step against the whole."""

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor

from psimlearn.filter import Forest, Linear, RandomFourier
from psimlearn.filter.forest import AT_ONCE, MAPPED, Trees
from psimlearn.learners.trees import stacked_trees

RNG = np.random.default_rng


def examples(n: int, k: int = 7, q: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = RNG(n)
    x = rng.standard_normal((n, k)).round(2)  # thresholds and values meet
    return x, np.sin(3 * x[:, :q]) + 0.1 * rng.standard_normal((n, q))


def rounded(forest: RandomForestRegressor) -> RandomForestRegressor:
    """The forest with outputs of float32, as files hold them."""
    for estimator in forest.estimators_:
        estimator.tree_.value[...] = estimator.tree_.value.astype(np.float32)
    return forest


@pytest.mark.parametrize("kind", [ExtraTreesRegressor, RandomForestRegressor])
@pytest.mark.parametrize("leaf", [1, 4, 200])  # 200: every tree is a leaf
def test_trees_equal_scikit_learn(kind: type[RandomForestRegressor], leaf: int) -> None:
    x, y = examples(300)
    forest = kind(20, min_samples_leaf=leaf, random_state=0).fit(x, y)
    trees = stacked_trees(forest.estimators_)
    new = np.concatenate([x, RNG(1).standard_normal((100, 7)), np.full((1, 7), 1e300), np.full((1, 7), -1e30)])
    at_thresholds = np.resize(trees.threshold, (50, 7)) if leaf < 200 else new[:50]
    for rows in (new[:-2], at_thresholds, np.nextafter(at_thresholds, np.inf)):
        np.testing.assert_allclose(trees(rows), rounded(forest).predict(rows), rtol=0, atol=1e-12)
        np.testing.assert_array_equal(trees(rows[:1]), trees(rows)[:1])
    assert np.isfinite(trees(new)).all()  # scikit-learn refuses numbers beyond float32
    assert trees.depth == max(estimator.tree_.max_depth for estimator in forest.estimators_)


def test_many_rows_go_in_parts() -> None:
    x, y = examples(300)
    trees = stacked_trees(ExtraTreesRegressor(30, random_state=0).fit(x, y).estimators_)
    many = RNG(2).standard_normal((AT_ONCE // 30 + 100, 7))
    np.testing.assert_array_equal(trees(many)[-50:], trees(many[-50:]))


def test_a_forest_works_in_two_parts() -> None:
    rng = RNG(3)
    x, y = examples(200, k=5)
    trees = stacked_trees(ExtraTreesRegressor(5, random_state=0).fit(x, y).estimators_)
    linear = Linear(rng.standard_normal((9, 6)), rng.standard_normal(6))
    forest = Forest(linear, trees, rng.standard_normal((3, 6)), 4)
    z = rng.standard_normal((50, 9))
    expected = z @ linear.weights + linear.intercept + trees(z[:, 4:]) @ forest.directions
    np.testing.assert_allclose(forest(z), expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(forest.respond(z[:, :4], forest.drive(z[:, 4:])), expected, rtol=0, atol=1e-12)


def test_random_features_see_what_the_trees_see() -> None:
    rng = RNG(4)
    x, y = examples(200, k=5)
    trees = stacked_trees(ExtraTreesRegressor(5, random_state=0).fit(x, y).estimators_)
    linear, amplitudes = (Linear(rng.standard_normal((rows, 6)), np.zeros(6)) for rows in (9, 14))
    waves = RandomFourier(rng.standard_normal((5, 7)), False, amplitudes)
    forest = Forest(linear, trees, rng.standard_normal((3, 6)), 4, waves)
    z = rng.standard_normal((MAPPED // 14 + 50, 9))  # more rows than are mapped at a time
    angles = z[:, 4:] @ waves.directions
    mapped = np.concatenate([np.cos(angles), np.sin(angles)], axis=1) @ amplitudes.weights
    expected = z @ linear.weights + trees(z[:, 4:]) @ forest.directions + mapped
    np.testing.assert_allclose(forest(z), expected, rtol=0, atol=1e-10)
    np.testing.assert_allclose(forest.respond(z[:, :4], forest.drive(z[:, 4:])), expected, rtol=0, atol=1e-10)


def test_a_row_that_is_not_finite_has_no_answer() -> None:
    x, y = examples(50, k=2, q=1)
    trees = stacked_trees(ExtraTreesRegressor(3, random_state=0).fit(x, y[:, 0]).estimators_)
    forest = Forest(Linear(np.ones((2, 1)), np.zeros(1)), trees, np.ones((1, 1)), 0)
    assert np.isnan(forest(np.array([[np.nan, 0.0]]))).all()


def test_a_tree_by_hand() -> None:
    trees = Trees(
        np.array([1]),
        np.array([0.5]),
        np.array([-1]),
        np.array([-2]),
        np.array([0, -3]),
        np.array([[1.0], [3.0], [10.0]]),
    )
    np.testing.assert_array_equal(trees(np.array([[9.0, 0.5], [9.0, 0.6]])), [[5.5], [6.5]])
