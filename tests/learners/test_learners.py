"""Gram sums against scikit-learn on stacked examples; random features against the kernel they approximate."""

from collections.abc import Callable
from itertools import combinations, permutations
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi, kstest
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.linear_model import LinearRegression
from sklearn.linear_model import Ridge as SklearnRidge
from sklearn.metrics.pairwise import rbf_kernel

from oracles import stacked_ridge
from psimlearn.errors import DivergedError, SettingsError
from psimlearn.filter import Linear
from psimlearn.filter.fourier import fourier_features
from psimlearn.learners import RandomFourierRidge, Ridge
from psimlearn.learners.blackbox import SklearnLearner
from psimlearn.learners.fourier import CHUNK


def examples(n: int = 400, p: int = 6, q: int = 4, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((n, p)) + 1.5
    return z, np.tanh(z @ rng.standard_normal((p, q))) + 0.1 * rng.standard_normal((n, q)) - 3.0


LEARNERS: list[Any] = [
    Ridge(1e-3),
    Ridge(1e-3, intercept=False),
    RandomFourierRidge(40, 1e-3),
    RandomFourierRidge(40, 1e-3, raw_inputs=False),
]


@pytest.mark.parametrize("alpha", [1e-8, 1e-4, 1.0])
@pytest.mark.parametrize("intercept", [True, False])
def test_ridge_equals_sklearn(alpha: float, intercept: bool) -> None:
    z, y = examples()
    ours = Ridge(alpha, intercept)
    fitted = ours.solve(ours.summarise(z, y))
    np.testing.assert_allclose(fitted(z), stacked_ridge(z, y, alpha, intercept).predict(z), rtol=0, atol=1e-10)


@pytest.mark.parametrize("raw_inputs", [True, False])
def test_random_fourier_ridge_equals_sklearn_on_scaled_features(raw_inputs: bool) -> None:
    z, y = examples()
    learner = RandomFourierRidge(60, 1e-4, raw_inputs=raw_inputs).prepare(z, np.random.default_rng(1))
    assert learner.directions is not None
    mapped = fourier_features(z, learner.directions, raw_inputs)
    mapped[:, :60] /= np.sqrt(30)
    ours = learner.solve(learner.summarise(z, y))(z)
    np.testing.assert_allclose(ours, stacked_ridge(mapped, y, 1e-4).predict(mapped), rtol=0, atol=1e-10)


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
def test_seven_shards_in_any_grouping_equal_one_pass(learner: Any) -> None:
    z, y = examples()
    learner = learner.prepare(z, np.random.default_rng(0))
    whole = learner.solve(learner.summarise(z, y))(z)
    shards = [learner.summarise(*part) for part in zip(np.array_split(z, 7), np.array_split(y, 7), strict=True)]
    rng = np.random.default_rng(0)
    for _ in range(10):  # merge any two until one is left
        heap = [shards[i] for i in rng.permutation(7)]
        while len(heap) > 1:
            i, j = sorted(rng.choice(len(heap), 2, replace=False))
            heap[i] = learner.merge(heap[i], heap.pop(j))
        np.testing.assert_allclose(learner.solve(heap[0])(z), whole, rtol=0, atol=1e-10)


def test_chunks_change_nothing() -> None:
    z, y = examples(CHUNK + 37)
    learner = RandomFourierRidge(20, 1e-3).prepare(z, np.random.default_rng(0))
    once, parts = learner.summarise(z, y), [learner.summarise(z[:50], y[:50]), learner.summarise(z[50:], y[50:])]
    merged = learner.merge(*parts)
    np.testing.assert_allclose(once.zz, merged.zz, rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(once.zy, merged.zy, rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose([once.n, *once.z, *once.y], [merged.n, *merged.z, *merged.y], rtol=1e-12, atol=1e-9)


def test_sums_go_on_from_those_of_the_same_rows_with_other_beliefs() -> None:
    z, y = examples()
    other = z.copy()
    other[:, :4] = np.random.default_rng(3).standard_normal((len(z), 4))
    learner = Ridge(1e-3)
    for r in (4, 6):
        known, whole = learner.summarise(other, y), learner.summarise(z, y)
        short = learner.summarise(z, y, (r, known))
        for a, b in zip(short, whole, strict=True):
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=0, atol=1e-10)


def test_sums_give_the_training_loss_of_any_linear_map() -> None:
    z, y = examples()
    sums = Ridge(intercept=False).summarise(z, y)
    W = np.random.default_rng(5).standard_normal((6, 4))
    loss = (sums.yy - 2 * np.sum(W * sums.zy) + np.sum(W * (sums.zz @ W))) / sums.n
    np.testing.assert_allclose(loss, np.mean(np.sum((y - z @ W) ** 2, axis=1)), rtol=1e-12)


def test_rank_deficient_without_penalty_gives_the_minimum_norm_solution() -> None:
    z, y = examples()
    z = np.concatenate([z, z[:, :3]], axis=1)  # three columns twice
    learner = Ridge(0.0)
    fitted = learner.solve(learner.summarise(z, y))
    np.testing.assert_allclose(fitted(z), LinearRegression().fit(z, y).predict(z), rtol=0, atol=1e-7)
    assert np.abs(fitted.weights).max() < 10


def test_zero_column_costs_nothing() -> None:
    z, y = examples()
    padded = np.concatenate([z, np.zeros((len(z), 2))], axis=1)
    learner = Ridge(1e-6)
    fitted = learner.solve(learner.summarise(padded, y))
    np.testing.assert_array_equal(fitted.weights[-2:], 0)
    np.testing.assert_allclose(fitted(padded), learner.solve(learner.summarise(z, y))(z), rtol=0, atol=1e-10)


def test_sums_that_are_not_finite_are_refused() -> None:
    z, y = examples()
    z[3, 2] = np.inf
    with np.errstate(invalid="ignore"), pytest.raises(DivergedError, match="required finite sums"):
        Ridge().solve(Ridge().summarise(z, y))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Ridge(-0.5), "alpha: required a finite number of at least 0, received -0.5"),
        (lambda: Ridge(float("nan")), "alpha: required a finite number of at least 0, received nan"),
        (lambda: RandomFourierRidge(10, -1.0), "alpha: required a finite number of at least 0, received -1.0"),
        (lambda: RandomFourierRidge(1), "n_features: required a whole number from 2"),
        (lambda: RandomFourierRidge(7), "n_features: required an even number of at least 2, received 7"),
        (lambda: RandomFourierRidge(8, bandwidth_factor=0.0), "bandwidth_factor: required a finite number above 0"),
    ],
)
def test_settings_that_have_no_meaning_are_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        make()


def test_no_examples_say_nothing() -> None:
    learner = Ridge(1e-3)
    fitted = learner.solve(learner.summarise(np.empty((0, 3)), np.empty((0, 2))))
    assert fitted(np.ones((1, 3))).tolist() == [[0, 0]]


@pytest.mark.parametrize("rows", [3, 400])  # below and above the size from which the table of the circle is used
def test_fourier_features_are_cosines_and_sines(rows: int) -> None:
    rng = np.random.default_rng(0)
    z, directions = 5 * rng.standard_normal((rows, 4)), rng.standard_normal((4, 50))
    angle = z @ directions
    expected = np.concatenate([np.cos(angle), np.sin(angle), z], axis=1)
    np.testing.assert_allclose(fourier_features(z, directions, True), expected, rtol=0, atol=1e-13)


def test_fourier_features_of_what_is_not_finite_are_not_finite() -> None:
    z = np.zeros((400, 4))
    z[7] = np.nan, 0, 0, 0
    with np.errstate(invalid="ignore"):
        out = fourier_features(z, np.ones((4, 50)), False)
    assert np.isnan(out[7]).all()
    assert np.isfinite(np.delete(out, 7, axis=0)).all()


def test_random_features_approximate_the_gaussian_kernel() -> None:
    """Inner products approach exp(-|a - b|^2 / 2 s^2) with the bandwidth s = factor x median distance."""
    z, _ = examples(300)
    learner = RandomFourierRidge(40_000, bandwidth_factor=0.7).prepare(z, np.random.default_rng(0))
    assert learner.directions is not None
    distances = np.sqrt([np.sum((a - b) ** 2) for a, b in combinations(z, 2)])
    gamma = 1 / (2 * (0.7 * np.median(distances)) ** 2)
    mapped = fourier_features(z, learner.directions, False) / np.sqrt(20_000)
    np.testing.assert_allclose(mapped @ mapped.T, rbf_kernel(z, gamma=gamma), rtol=0, atol=0.04)


def test_orthogonal_directions_are_orthogonal_in_blocks_and_normal_one_by_one() -> None:
    z = np.random.default_rng(0).standard_normal((50, 5))
    learner = RandomFourierRidge(2 * 7503).prepare(z, np.random.default_rng(1))
    assert learner.directions is not None
    assert learner.directions.shape == (5, 7503)
    for begin in range(0, 7503, 5):
        gram = learner.directions[:, begin : begin + 5].T @ learner.directions[:, begin : begin + 5]
        np.testing.assert_allclose(gram, np.diag(np.diag(gram)), rtol=0, atol=1e-10 * np.trace(gram))
    lengths = np.linalg.norm(learner.directions, axis=0)
    distances = [np.linalg.norm(a - b) for a, b in combinations(z, 2)]
    assert kstest(lengths * np.median(distances), chi(5).cdf).pvalue > 0.01
    assert (
        np.abs(np.mean(np.abs(learner.directions / lengths), axis=1) - 0.375).max() < 0.01
    )  # alike in every direction


def test_orthogonal_directions_tell_a_kernel_better_than_independent_ones() -> None:
    z = np.random.default_rng(0).standard_normal((40, 20))
    distances = [np.linalg.norm(a - b) for a, b in combinations(z, 2)]
    kernel = rbf_kernel(z, gamma=0.5 / np.median(distances) ** 2)

    def error(orthogonal: bool, seed: int) -> float:
        learner = RandomFourierRidge(80, orthogonal=orthogonal).prepare(z, np.random.default_rng(seed))
        assert learner.directions is not None
        mapped = fourier_features(z, learner.directions, False) / np.sqrt(40)
        return float(np.mean((mapped @ mapped.T - kernel) ** 2))

    ours, independent = (np.mean([error(each, seed) for seed in range(40)]) for each in (True, False))
    assert ours < 0.8 * independent


def test_prepare_freezes_once() -> None:
    z, _ = examples()
    first = RandomFourierRidge(20).prepare(z, np.random.default_rng(0))
    assert first.prepare(10 * z, np.random.default_rng(1)).directions is first.directions
    again = RandomFourierRidge(20).prepare(z, np.random.default_rng(0))
    np.testing.assert_array_equal(first.directions, again.directions)


def test_random_features_before_prepare_are_an_error() -> None:
    z, y = examples()
    with pytest.raises(RuntimeError, match="prepare"):
        RandomFourierRidge().summarise(z, y)


def test_constant_inputs_have_a_bandwidth() -> None:
    learner = RandomFourierRidge(10).prepare(np.ones((50, 3)), np.random.default_rng(0))
    assert learner.directions is not None
    assert np.isfinite(learner.directions).all()


@pytest.mark.parametrize("learner", [*LEARNERS, SklearnLearner(LinearRegression())], ids=repr)
def test_drive_and_response_make_up_the_regressor(learner: Any) -> None:
    z, y = examples()
    learner = learner.prepare(z, np.random.default_rng(0))
    fitted = learner.solve(learner.summarise(z, y))
    drive = fitted.drive(z[:, 3:])  # for all rows at once, before the first three columns are known
    for rows in (slice(0, 100), slice(100, 250), slice(250, 400)):
        response = fitted.respond(z[rows, :3], tuple(part[rows] for part in drive))
        np.testing.assert_allclose(response, fitted(z[rows]), rtol=0, atol=1e-12)


def test_sklearn_learner_fits_single_output_estimators() -> None:
    z, y = examples()
    learner = SklearnLearner(GradientBoostingRegressor(n_estimators=5, random_state=0))
    fitted = learner.solve(learner.summarise(z, y))
    for column in range(y.shape[1]):
        alone = GradientBoostingRegressor(n_estimators=5, random_state=0).fit(z, y[:, column])
        np.testing.assert_array_equal(fitted(z)[:, column], alone.predict(z))


def test_sklearn_learner_leaves_the_estimator_alone() -> None:
    z, y = examples()
    estimator = LinearRegression()
    SklearnLearner(estimator).solve(SklearnLearner(estimator).summarise(z, y))
    assert not hasattr(estimator, "coef_")


def test_sklearn_learner_answers_nan_where_the_input_is() -> None:
    z, y = examples()
    learner = SklearnLearner(LinearRegression())
    fitted = learner.solve(learner.summarise(z, y))
    broken = z.copy()
    broken[5, 1] = np.inf
    out = fitted(broken)
    assert np.isnan(out[5]).all()
    np.testing.assert_allclose(np.delete(out, 5, 0), np.delete(fitted(z), 5, 0), rtol=0, atol=1e-12)


def test_capped_examples_are_a_fair_sample_however_merged() -> None:
    z, y = examples(1000)
    learner = SklearnLearner(LinearRegression(), max_rows=100).prepare(z, np.random.default_rng(0))
    shards = [learner.summarise(z[i::4], y[i::4]) for i in range(4)]
    samples = []
    for order in permutations(range(4)):
        total = shards[order[0]]
        for i in order[1:]:
            total = learner.merge(total, shards[i])
        assert len(total.z) == len(total.y) == 100
        samples.append({tuple(row) for row in total.z})
    assert all(sample == samples[0] for sample in samples)
    origins = [sum(tuple(row) in samples[0] for row in z[i::4]) for i in range(4)]
    assert sum(origins) == 100
    assert min(origins) > 10  # no shard is left out; 25 each are expected


def test_linear_is_what_it_says() -> None:
    line = Linear(np.array([[1.0], [2.0]]), np.array([0.5]))
    assert line(np.array([[10.0, 20.0]])).tolist() == [[50.5]]


@pytest.mark.parametrize("n_still", [0, 70])
def test_wide_sums_give_the_predictions_of_sklearn(n_still: int) -> None:
    """Wide sums are solved by substitution of blocks, and inputs that are always zero are left out."""
    z, y = examples(900, 450, 3)
    z[:, 100 : 100 + n_still] = 0.0
    ours, theirs = Ridge(1e-3).solve(Ridge().summarise(z, y)), SklearnRidge(1e-3 * len(z)).fit(z, y)
    np.testing.assert_allclose(ours(z), theirs.predict(z), rtol=0, atol=1e-10)
    assert not ours.weights[100 : 100 + n_still].any()


def test_sums_of_many_columns_contain_the_sums_of_some() -> None:
    (z, y), columns = examples(), np.array([0, 1, 5])
    picked, made = Ridge().summarise(z, y).among(columns), Ridge().summarise(z[:, columns], y)
    parts: list[tuple[Any, Any]] = list(zip(picked, made, strict=True))
    for a, b in parts:
        np.testing.assert_allclose(a, b, rtol=1e-12)
