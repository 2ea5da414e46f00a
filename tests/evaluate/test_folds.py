"""Folds by hand: every recording, or every stretch of one recording, is tested once and never trained on then."""

import numpy as np
import pytest

from psimlearn.errors import SettingsError
from psimlearn.evaluate import folds, time_folds
from psimlearn.evaluate.folds import cut
from psimlearn.recordings.trajectories import Trajectories


def counting(*lengths: int) -> Trajectories:
    """One channel in which row r holds r, counted on through all trajectories."""
    return Trajectories.of(np.split(np.arange(sum(lengths), dtype=float)[:, None], np.cumsum(lengths)[:-1]))


def rows(trajectories: Trajectories) -> list[list[int]]:
    return [one.values[:, 0].astype(int).tolist() for one in trajectories]


def test_folds_test_each_trajectory_once() -> None:
    recordings = Trajectories.of([np.full((2 + i % 3, 1), float(i)) for i in range(7)])
    parts = list(folds(recordings, 3, np.random.default_rng(0)))
    assert sorted(int(one.values[0, 0]) for _, test in parts for one in test) == list(range(7))
    assert sorted(len(test) for _, test in parts) == [2, 2, 3]
    for train, test in parts:
        assert sorted(int(one.values[0, 0]) for one in [*train, *test]) == list(range(7))
        assert all(len(one) == 2 + int(one.values[0, 0]) % 3 for one in [*train, *test])


def test_folds_follow_the_seed() -> None:
    recordings = counting(*[1] * 20)
    first, again, other = (
        [test.values.tolist() for _, test in folds(recordings, 4, np.random.default_rng(seed))] for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


@pytest.mark.parametrize("n_folds", [-1, 0, 1, 4])
def test_folds_need_two_trajectories_or_more(n_folds: int) -> None:
    with pytest.raises(SettingsError, match=f"folds.*received {n_folds}"):
        list(folds(counting(2, 2, 2), n_folds, np.random.default_rng(0)))


def test_time_folds_by_hand() -> None:
    found = [(rows(train), rows(test)) for train, test in time_folds(counting(9), 3, gap=1)]
    assert found == [
        ([[4, 5, 6, 7, 8]], [[0, 1, 2]]),
        ([[0, 1], [7, 8]], [[3, 4, 5]]),
        ([[0, 1, 2, 3, 4]], [[6, 7, 8]]),
    ]
    shuffled = [rows(test)[0][0] for _, test in time_folds(counting(9), 3, 1, np.random.default_rng(0))]
    assert sorted(shuffled) == [0, 3, 6]


def test_time_folds_refuse_what_leaves_nothing_to_train_on() -> None:
    with pytest.raises(SettingsError, match="received a gap of 5 rows and 6 rows"):
        list(time_folds(counting(6), 2, gap=5))
    with pytest.raises(SettingsError, match="received 2 recordings, 6 rows and 2 folds"):
        list(time_folds(counting(3, 3), 2, gap=0))
    with pytest.raises(SettingsError, match="received 1 recordings, 6 rows and 7 folds"):
        list(time_folds(counting(6), 7, gap=0))


def test_a_recording_is_cut_before_a_row() -> None:
    before, after = cut(counting(5), 3)
    assert (rows(before), rows(after)) == ([[0, 1, 2]], [[3, 4]])
