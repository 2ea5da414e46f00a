"""Comparisons by hand and by scipy; failures are values that stop nothing."""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.stats import ttest_rel

from psimlearn.errors import DataError, SettingsError
from psimlearn.evaluate import Comparison, compare, folds
from psimlearn.evaluate.compare import Failure, attempted, scores
from psimlearn.recordings.trajectories import Trajectories


@dataclass(frozen=True)
class Constant:
    """Predicts one number everywhere."""

    value: float

    def forecast(self, trajectories: Trajectories, horizon: int) -> np.ndarray:
        return np.full((len(trajectories.values), horizon, trajectories.n_channels), self.value)


def mean_of(train: Trajectories) -> Constant:
    return Constant(float(np.nanmean(train.values)))


def zero(_: Trajectories) -> Constant:
    return Constant(0.0)


def picky(train: Trajectories) -> Constant:
    """Needs a recording that begins with 5."""
    if 5.0 not in train.values[train.offsets[:-1], 0]:
        raise DataError(f"required a 5, received {train.values[0, 0]:g}")
    return Constant(0.0)


def test_comparison_by_hand_and_by_scipy() -> None:
    a, b = [1.0, 2.0, 6.0], [2.0, 5.0, 5.0]
    comparison = Comparison(("a", "b"), np.array([[[e, 10 * e] for e in method] for method in (a, b)]))
    np.testing.assert_allclose(comparison.mean(), [[3, 30], [4, 40]])
    np.testing.assert_allclose(comparison.std(), [[7**0.5, 10 * 7**0.5], [3**0.5, 10 * 3**0.5]])
    mean, standard_error, wins = comparison.paired("a", "b")  # gaps -1, -3, 1
    assert (mean, wins) == (-1, 2)
    assert standard_error == pytest.approx((4 / 3) ** 0.5)
    assert mean / standard_error == pytest.approx(ttest_rel(a, b).statistic)
    assert comparison.paired("b", "a", horizon=2)[::2] == (10, 1)


def test_comparison_refuses_what_was_not_compared() -> None:
    comparison = Comparison(("a", "b"), np.ones((2, 3, 2)))
    for horizon in (-1, 0, 3):
        with pytest.raises(SettingsError, match=f"from 1 to 2, received {horizon}"):
            comparison.paired("a", "b", horizon)
        with pytest.raises(SettingsError, match="from 1 to 2"):
            comparison.table((1, horizon))
    with pytest.raises(ValueError, match="not in tuple"):
        comparison.paired("a", "c")


def test_table_has_a_line_for_every_method() -> None:
    comparison = Comparison(("PSIM", "last observation"), np.array([[[1.0, 3.0], [2.0, 4.0]], [[5.0, 7.0]] * 2]))
    head, *lines = comparison.table((1, 2)).splitlines()
    assert head.split() == ["1", "step", "2", "steps"]
    assert lines[0].split() == ["PSIM", "1.5", "+-", "0.71", "3.5", "+-", "0.71"]
    assert lines[1].split() == ["last", "observation", "5", "+-", "0", "7", "+-", "0"]
    assert len(head) == len(lines[0]) == len(lines[1])


def test_compare_is_fit_and_score_on_the_same_folds() -> None:
    x = np.random.default_rng(3).standard_normal((6, 8, 2)) + np.arange(6)[:, None, None]
    recordings, scale = Trajectories.of(x), np.array([1.0, 2.0])
    methods = {"mean": mean_of, "zero": lambda train: Constant(0.0)}
    found = compare(methods, recordings, 2, n_folds=3, rng=np.random.default_rng(7), skip=1, scale=scale)
    assert found.methods == ("mean", "zero")
    assert found.errors.shape == (2, 3, 2)
    for i, (train, test) in enumerate(folds(recordings, 3, np.random.default_rng(7))):
        y = np.stack([one.values for one in test]) / scale
        for method, guess in enumerate([train.values.mean(), 0.0]):
            square = np.sum((y - guess / scale) ** 2, axis=-1)
            np.testing.assert_allclose(found.errors[method, i], [square[:, 1:7].mean(), square[:, 2:8].mean()])


def numbered(m: int) -> Trajectories:
    return Trajectories.of([np.full((3, 1), float(i)) for i in range(m)])


def test_a_failed_method_is_noted_and_the_others_still_run() -> None:
    told: list[str] = []
    data = numbered(6)
    splits = list(folds(data, 3, np.random.default_rng(0)))
    found = Comparison.of(scores({"picky": picky, "zero": zero}, splits, 2, tell=told.append))
    without = [5.0 not in train.values for train, _ in splits]
    assert sum(without) == 1
    np.testing.assert_array_equal(np.isinf(found.errors[0]), np.repeat(np.array(without)[:, None], 2, axis=1))
    assert np.isfinite(found.errors[1]).all()
    assert list(found.failures) == ["picky"]
    assert found.failures["picky"].startswith("required a 5, received ")
    assert told == ["picky", "zero"] * 3


def test_compare_raises_the_error_of_a_failed_method() -> None:
    with pytest.raises(DataError, match="required a 5"):
        compare({"zero": zero, "picky": picky}, numbered(6), n_folds=3, rng=np.random.default_rng(0))


def test_data_and_numbers_may_fail_and_mistakes_may_not() -> None:
    assert attempted(lambda x: x + 1, 2) == 3
    singular = attempted(np.linalg.inv, np.zeros((2, 2)))
    assert isinstance(singular, Failure)
    assert isinstance(singular.error, np.linalg.LinAlgError)
    with pytest.raises(ZeroDivisionError):
        attempted(lambda: 1 // 0)
