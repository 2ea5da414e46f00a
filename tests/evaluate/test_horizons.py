"""Scores by hand: rows are numbered, so a prediction that is one row off shows."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from psimlearn.errors import DataError
from psimlearn.evaluate import errors_by_horizon, mean_square, power
from psimlearn.recordings.trajectories import Trajectories


def counting(*lengths: int) -> Trajectories:
    """One channel in which row r holds r, counted on through all trajectories."""
    return Trajectories.of(np.split(np.arange(sum(lengths), dtype=float)[:, None], np.cumsum(lengths)[:-1]))


@dataclass(frozen=True)
class Counter:
    """Knows that row r + j holds r + j, and errs by offsets[j] + slope * r on purpose."""

    offsets: Sequence[float]
    slope: float = 0.0
    n: int = 1

    def forecast(self, trajectories: Trajectories, horizon: int) -> np.ndarray:
        row = np.arange(len(trajectories.values), dtype=float)[:, None, None]
        ahead = np.arange(horizon, dtype=float)[None, :, None]
        wrong = np.array(self.offsets[:horizon])[None, :, None] + self.slope * row
        return np.tile(row + ahead + wrong, (1, 1, self.n))


@dataclass(frozen=True)
class Constant:
    """Predicts one number everywhere."""

    value: float

    def forecast(self, trajectories: Trajectories, horizon: int) -> np.ndarray:
        return np.full((len(trajectories.values), horizon, trajectories.n_channels), self.value)


def test_each_horizon_meets_its_own_row() -> None:
    np.testing.assert_array_equal(errors_by_horizon(Counter((0, 0, 0)), counting(6), 3), [0, 0, 0])
    np.testing.assert_array_equal(errors_by_horizon(Counter((1, -2, 5)), counting(6), 3), [1, 4, 25])


def test_ragged_lengths_never_reach_into_the_next_trajectory() -> None:
    # rows 0 1 | 2 3 4 5 6 | 7 8 9: with horizon 3 the first has none, then 2 3 4, then 7
    found = errors_by_horizon(Counter((0, 0, 0), slope=1), counting(2, 5, 3), 3)
    np.testing.assert_allclose(found, np.full(3, (4 + 9 + 16 + 49) / 4))
    np.testing.assert_array_equal(errors_by_horizon(Counter((3, 1, 2)), counting(2, 5, 3), 3), [9, 1, 4])


def test_all_horizons_are_scored_from_the_same_rows() -> None:
    found = errors_by_horizon(Counter((0, 0, 0), slope=1), counting(5), 3)  # rows 0, 1, 2 and no other
    np.testing.assert_allclose(found, np.full(3, (0 + 1 + 4) / 3))
    np.testing.assert_allclose(errors_by_horizon(Counter((0,), slope=1), counting(5), 1), [(1 + 4 + 9 + 16) / 5])


def test_skip_counts_from_the_beginning_of_each_trajectory() -> None:
    found = errors_by_horizon(Counter((0, 0), slope=1), counting(4, 5), 2, skip=2)  # rows 2 | 6, 7
    np.testing.assert_allclose(found, np.full(2, (4 + 36 + 49) / 3))


def test_scale_divides_each_channel() -> None:
    both = Trajectories.of(np.tile(counting(6).values, (1, 2)))
    found = errors_by_horizon(Counter((1, 3), n=2), both, 2, scale=np.array([2.0, 0.5]))
    np.testing.assert_allclose(found, [1 / 4 + 4, 9 / 4 + 36])
    np.testing.assert_allclose(errors_by_horizon(Counter((1, 3), n=2), both, 2), [2, 18])  # summed, not averaged


def test_missing_entries_are_left_out() -> None:
    x = np.tile(counting(5).values, (1, 2))
    x[2, 0] = np.nan
    found = errors_by_horizon(Counter((0, 0), slope=1, n=2), Trajectories.of(x), 2)
    # errors r of rows 0 1 2 3; channel 0 cannot be scored where x_2 is the target: row 2 at one step, row 1 at two
    np.testing.assert_allclose(found, [(1 + 9) / 3 + 14 / 4, (4 + 9) / 3 + 14 / 4])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_one_prediction_that_is_not_finite_costs_everything(bad: float) -> None:
    np.testing.assert_array_equal(errors_by_horizon(Counter((1, bad)), counting(5), 2), [np.inf, np.inf])
    x = counting(5).values.copy()
    x[2] = np.nan  # even where nothing was there to compare with
    np.testing.assert_array_equal(errors_by_horizon(Constant(bad), Trajectories.of(x), 1), [np.inf])


def test_nothing_to_score() -> None:
    np.testing.assert_array_equal(errors_by_horizon(Counter((0, 0, 2)), counting(2, 5), 3, skip=2), [0, 0, 4])
    with pytest.raises(DataError, match=r"longer than 5 rows \(skip 3, horizon 3\), received at most 5"):
        errors_by_horizon(Counter((0, 0, 0)), counting(2, 5), 3, skip=3)
    with pytest.raises(DataError, match="only NaN"):
        errors_by_horizon(Constant(0.0), Trajectories.of(np.full((4, 2), np.nan)), 1)


def test_power_by_hand() -> None:
    assert power(Trajectories.of([np.array([[3.0, 4.0]]), np.array([[1.0, 0.0], [0.0, 2.0]])])) == 30 / 3
    assert power(Trajectories.of(np.array([[3.0, np.nan], [1.0, 2.0]]))) == (9 + 1) / 2 + 4
    x = np.random.default_rng(0).standard_normal((7, 5, 3))
    np.testing.assert_allclose(errors_by_horizon(Constant(0.0), Trajectories.of(x)), [power(Trajectories.of(x))])
    np.testing.assert_allclose(mean_square(np.array([[[1.0, 2.0]], [[3.0, np.nan]]])), [(1 + 9) / 2 + 4])
