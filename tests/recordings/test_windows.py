"""Time arithmetic by hand, on sequences that count: an off-by-one slips past every statistical test."""

import numpy as np
import pytest

from psimlearn.filter import Stack
from psimlearn.filter.rollout import inputs_at
from psimlearn.learners import Ridge
from psimlearn.recordings.schedule import schedule
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.recordings.windows import (
    ages_after,
    beliefs_before,
    carried_forward,
    coming_places,
    enough_rows,
    example_blocks,
    example_rows,
    futures,
    histories,
    lag_places,
    late_at_end,
    late_before,
    settled,
    unseen_at_end,
    unseen_before,
    whole_futures,
)
from psimlearn.train import Recipe
from psimlearn.train.ground import ground
from psimlearn.train.start import begin

# Three trajectories: 10 11 12, then 20 .. 24, then 30. Scheduled longest first, time by time.
VALUES = np.array([10.0, 11, 12, 20, 21, 22, 23, 24, 30])
OFFSETS = np.array([0, 3, 8, 9])
SCHEDULED = np.array([20.0, 10, 30, 21, 11, 22, 12, 23, 24])
PLAN = schedule(OFFSETS)
X = VALUES[PLAN.order][:, None]
nan = np.nan


def test_schedule_by_hand() -> None:
    assert X[:, 0].tolist() == SCHEDULED.tolist()
    assert PLAN.starts.tolist() == [0, 3, 5, 7, 8, 9]
    assert PLAN.time.tolist() == [0, 0, 0, 1, 1, 2, 2, 3, 4]
    assert PLAN.stream.tolist() == [0, 1, 2, 0, 1, 0, 1, 0, 0]
    assert PLAN.length.tolist() == [5, 3, 1, 5, 3, 5, 3, 5, 5]
    assert [X[PLAN.block(t), 0].tolist() for t in range(5)] == [[20, 10, 30], [21, 11], [22, 12], [23], [24]]


def test_packed_undoes_the_schedule() -> None:
    assert PLAN.packed(X)[:, 0].tolist() == VALUES.tolist()


def test_neighbours_by_hand() -> None:
    assert X[PLAN.place(-1), 0].tolist() == [20, 10, 30, 20, 10, 21, 11, 22, 23]
    assert X[PLAN.place(1), 0].tolist() == [21, 11, 30, 22, 12, 23, 12, 24, 24]
    assert X[PLAN.last(), 0].tolist() == [12, 24, 30]  # in the order of the recordings
    assert X[lag_places(PLAN, 3), 0].tolist() == [
        [20, 20, 20], [10, 10, 10], [30, 30, 30],
        [21, 20, 20], [11, 10, 10],
        [22, 21, 20], [12, 11, 10],
        [23, 22, 21],
        [24, 23, 22],
    ]  # fmt: skip
    assert X[coming_places(PLAN, 2), 0].tolist() == [
        [20, 21], [10, 11], [30, 30], [21, 22], [11, 12], [22, 23], [12, 12], [23, 24], [24, 24],
    ]  # fmt: skip


def test_futures_by_hand() -> None:
    f = futures(X, PLAN, 2)[:, :, 0]
    expected = [[20, 21], [10, 11], [30, nan], [21, 22], [11, 12], [22, 23], [12, nan], [23, 24], [24, nan]]
    np.testing.assert_array_equal(f, expected)
    assert X[whole_futures(PLAN, 2), 0].tolist() == [20, 10, 21, 11, 22, 23]


def test_histories_by_hand() -> None:
    expected = [[0, 0], [0, 0], [0, 0], [20, 0], [10, 0], [21, 20], [11, 10], [22, 21], [23, 22]]
    assert histories(X, PLAN, 2).tolist() == expected


def test_example_rows_by_hand() -> None:
    """With window 2 the row 20 is paired with the future (21, 22): T - k = 3 and 1 examples, none from 30."""
    rows, targets = example_rows(PLAN, 2)
    assert X[rows, 0].tolist() == [20, 10, 21, 22]
    assert futures(X, PLAN, 2)[targets][:, :, 0].tolist() == [[21, 22], [11, 12], [22, 23], [23, 24]]
    assert [X[block, 0].tolist() for block in example_blocks(PLAN, 2)] == [[20, 10], [21], [22]]


def test_first_rows_are_skipped_by_hand() -> None:
    rows, targets = example_rows(PLAN, 2, skip=1)
    assert X[rows, 0].tolist() == [21, 22]
    assert futures(X, PLAN, 2)[targets][:, :, 0].tolist() == [[22, 23], [23, 24]]


def test_example_rows_are_slices_for_one_length() -> None:
    plan = schedule(np.array([0, 4, 8]))
    assert example_rows(plan, 2) == (slice(0, 4), slice(2, 6))
    assert example_rows(plan, 2, skip=1) == (slice(2, 4), slice(4, 6))


def test_carried_forward_by_hand() -> None:
    x = np.array([[nan], [10], [30], [21], [nan], [nan], [nan], [nan], [24]])
    assert carried_forward(x, PLAN)[:, 0].tolist() == [0, 10, 30, 21, 10, 21, 10, 21, 24]
    assert np.isnan(x).sum() == 5  # the argument is left alone


# The same three trajectories: 12 is seen, and before it nothing; of 20 .. 24 the second and, in one channel, the last;
# of the third nothing.
SEEN = np.array([[nan, nan], [nan, nan], [12, 12], [nan, nan], [21, 21], [nan, nan], [nan, nan], [nan, 24], [nan, nan]])


def test_late_rows_by_hand() -> None:
    """Rows before anything was observed: they stop counting at the first row in which one channel is seen."""
    assert PLAN.packed(late_before(SEEN[PLAN.order], PLAN)).tolist() == [0, 1, 2, 0, 1, 1, 1, 1, 0]
    assert late_at_end(SEEN, OFFSETS).tolist() == [2, 1, 1]
    assert late_before(np.column_stack([X, SEEN[PLAN.order]]), PLAN).tolist() == [0] * 9


def test_ages_by_hand() -> None:
    """Rows up to and with each row, from the first that was observed: 0 as long as there is none."""
    assert PLAN.packed(ages_after(SEEN[PLAN.order], PLAN)).tolist() == [0, 0, 1, 0, 1, 2, 3, 4, 0]
    assert PLAN.packed(ages_after(X, PLAN)).tolist() == [1, 2, 3, 1, 2, 3, 4, 5, 1]


def test_unseen_rows_by_hand() -> None:
    """Rows just before each row in which nothing was observed; those of another trajectory do not count."""
    assert PLAN.packed(unseen_before(SEEN[PLAN.order], PLAN)).tolist() == [0, 1, 2, 0, 1, 0, 1, 2, 0]
    assert unseen_at_end(SEEN, OFFSETS).tolist() == [0, 0, 1]
    assert unseen_before(X, PLAN).tolist() == [0] * 9


def test_settled_rows_by_hand() -> None:
    """A row is settled once as many rows as are enough stand between it and the first row that was observed."""
    late = late_before(SEEN[PLAN.order], PLAN)
    for enough, expected in ((1, [22, 23, 24]), (2, [23, 24]), (3, [24]), (4, [])):
        rows, used = settled(PLAN, late, enough)
        assert used == enough
        assert X[rows, 0].tolist() == expected
    rows, used = settled(PLAN, np.zeros(9, dtype=np.int64))  # a third of the median length 3
    assert used == 1
    assert X[rows, 0].tolist() == [21, 11, 22, 12, 23, 24]


@pytest.mark.parametrize(
    ("lengths", "enough"), [([1], 1), ([5], 1), ([6], 2), ([6, 9], 2), ([29, 29, 500], 9), ([30], 10), ([900], 10)]
)
def test_enough_rows_by_hand(lengths: list[int], enough: int) -> None:
    assert enough_rows(np.array(lengths)) == enough


def test_beliefs_before_by_hand() -> None:
    after = X + 0.5  # the belief that row 20 leaves behind is called 20.5
    before = beliefs_before(after, np.array([-1.0]), PLAN)
    assert before[:, 0].tolist() == [-1, -1, -1, 20.5, 10.5, 21.5, 11.5, 22.5, 23.5]


@pytest.mark.parametrize("skip", [0, 1])
@pytest.mark.parametrize("lags", [1, 2])
def test_training_examples_by_hand(lags: int, skip: int) -> None:
    """What a trainer sees of 1 2 3 4 5 6 with window 2, nothing standardised, beliefs taken from the truth."""
    recipe = Recipe(lags=lags, prior="zero", box=None, standardise=False, guard=None, skip=skip)
    counted = Trajectories.of(np.arange(1.0, 7)[:, None])
    start = begin(ground(counted, Stack(2), "teacher", recipe), Ridge(), "teacher", recipe, np.random.default_rng(0))
    filter, _, stats, lessons = start[:4]
    x = lessons.x
    m = filter.features(futures(x, lessons.table.layout.plan, 2))[lessons.rows]
    z = inputs_at(filter, m, x, lessons.table.layout, lessons.rows)
    expected = [[1, 2, 1], [2, 3, 2], [3, 4, 3], [4, 5, 4]]  # (m_t = f_t, x_t)
    older = [[1], [1], [2], [3]]
    assert z.tolist() == (expected if lags == 1 else np.concatenate([expected, older], axis=1).tolist())[skip:]
    assert lessons.y.tolist() == [[2, 3], [3, 4], [4, 5], [5, 6]][skip:]  # phi(f_{t+1})
    assert filter.initial.tolist() == [1, 2]
    assert stats is not None
    assert stats.n == 4 - skip
    np.testing.assert_array_equal(stats.zy, z.T @ lessons.y)


@pytest.mark.parametrize("seed", range(5))
def test_schedule_of_random_lengths(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 9, size=12)
    plan = schedule(np.concatenate([[0], np.cumsum(lengths)]))
    assert sorted(plan.order.tolist()) == list(range(lengths.sum()))
    assert plan.blocks() == [plan.block(t) for t in range(lengths.max())]
    for t, block in enumerate(plan.blocks()):  # at every time, exactly those long enough, longest first
        assert block.stop - block.start == (lengths > t).sum()
        assert np.all(np.diff(plan.length[block]) <= 0)
