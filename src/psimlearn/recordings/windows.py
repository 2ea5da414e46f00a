"""Windows of time around every row: futures, histories, lags, the examples of training and the rows of blocks.

Times are added and subtracted in this module and in `schedule`, and nowhere else. Time is counted from 0 in the code:
row t of a trajectory is x_t, the belief m_t is held BEFORE x_t is seen, and the example of row t is
((m_t, x_t), phi(f_{t+1})) with f_{t+1} = (x_{t+1}, .., x_{t+k}). A trajectory of T rows therefore gives T - k examples.
"""

from itertools import pairwise

import numpy as np

from psimlearn.recordings.schedule import RowIndex, Schedule, schedule
from psimlearn.shapes import Bool, Float, Int

__all__ = [
    "ages_after",
    "are_long",
    "beliefs_before",
    "blocks_of",
    "carried_forward",
    "coming_places",
    "enough_rows",
    "example_blocks",
]
__all__ += ["example_places", "example_rows", "foretelling", "futures", "futures_of", "histories", "lag_places"]
__all__ += ["first_rows", "last_rows", "late_at_end", "late_before", "next_rows", "preceding", "row_times", "settled"]
__all__ += ["unseen_at_end", "unseen_before", "whole_futures"]

SETTLED = 10
"""Rows after which a filter has forgotten how a recording began."""
LONG = 5
"""Recordings are long if they have this many times as many rows as there are first rows to be left out."""
CACHED_ROWS = 4096
"""Rows of histories that are gathered at a time, so that they stay in cache."""


def futures(x: Float[np.ndarray, "rows n"], plan: Schedule, window: int) -> Float[np.ndarray, "rows window n"]:
    """f_t = (x_t, .., x_{t+window-1}) at every scheduled row; NaN beyond the end of a trajectory."""
    f = np.empty((len(x), window, x.shape[1]))
    for j in range(window):
        f[:, j] = x.take(plan.place(j), axis=0)
        f[~plan.reaches(j), j] = np.nan
    return f


def futures_of(
    x: Float[np.ndarray, "rows n"], offsets: Int[np.ndarray, " edges"], window: int
) -> Float[np.ndarray, "rows window n"]:
    """`futures` at every packed row.

    >>> futures_of(np.arange(4.0)[:, None], np.array([0, 3, 4]), 2)[:, :, 0]
    array([[ 0.,  1.],
           [ 1.,  2.],
           [ 2., nan],
           [ 3., nan]])
    """
    plan = schedule(offsets)
    return np.asarray(plan.packed(futures(x[plan.order], plan, window)))


def whole_futures(plan: Schedule, window: int, first: bool = True) -> RowIndex:
    """The scheduled rows whose f_t lies within their trajectory, with or without the first row of each trajectory."""
    return _as_slice(np.flatnonzero(plan.reaches(window - 1) & (first | plan.reaches(-1))))


def example_rows(plan: Schedule, window: int, skip: int = 0) -> tuple[RowIndex, RowIndex]:
    """The rows t that make an example, t = skip .. T-k-1, and for each the row t+1 where its target begins."""
    rows = np.flatnonzero(plan.reaches(window) & plan.reaches(-skip))
    return _as_slice(rows), _as_slice(plan.place(1)[rows])


def example_places(
    lengths: Int[np.ndarray, " m"], window: int, numbers: Int[np.ndarray, " some"], skip: int = 0
) -> tuple[Int[np.ndarray, " some"], Int[np.ndarray, " some"]]:
    """The trajectory and the time of some of `example_rows`, by their numbers, without a schedule of all rows.

    >>> example_places(np.array([3, 5]), 2, np.array([0, 1, 2, 3]))
    (array([1, 0, 1, 1]), array([0, 0, 1, 2]))
    >>> example_places(np.array([3, 5]), 2, np.array([0, 1]), skip=1)
    (array([1, 1]), array([1, 2]))
    """
    longest_first = np.argsort(-lengths, kind="stable")
    times = np.arange(skip, max(int(lengths.max()) - window, skip))
    running = np.searchsorted(-lengths[longest_first], -(times + window), side="left")
    starts = np.concatenate([[0], np.cumsum(running)])
    time = np.searchsorted(starts, numbers, side="right") - 1
    return longest_first[numbers - starts[time]], times[time]


def example_blocks(plan: Schedule, window: int) -> list[slice]:
    """`example_rows` time by time: for each t, the scheduled rows whose trajectory has a whole f_{t+1}."""
    running = np.diff(plan.starts)
    return [slice(int(plan.starts[t]), int(plan.starts[t] + running[t + window])) for t in range(len(running) - window)]


def histories(x: Float[np.ndarray, "rows n"], plan: Schedule, length: int) -> Float[np.ndarray, "rows past"]:
    """(x_{t-1}, .., x_{t-length}) before every scheduled row; zero before the beginning."""
    padded = np.concatenate([np.zeros((1, x.shape[1])), x])  # row 0 stands for all rows before the beginning
    before = np.concatenate([[0], np.where(plan.reaches(-1), plan.place(-1) + 1, 0)])
    past = np.empty((len(x), length, x.shape[1]))
    for start in range(0, len(x), CACHED_ROWS):
        rows = slice(start, start + CACHED_ROWS)
        place = np.arange(start + 1, min(rows.stop, len(x)) + 1)
        for j in range(length):
            place = before.take(place)
            past[rows, j] = padded.take(place, axis=0)
    return past.reshape(len(x), -1)


def carried_forward(x: Float[np.ndarray, "rows n"], plan: Schedule) -> Float[np.ndarray, "rows n"]:
    """Missing entries replaced by the last entry seen in their channel; zero if there is none."""
    out, row, first = x.copy(), np.arange(len(x)), plan.packed(plan.order - plan.time)
    for c in np.flatnonzero(np.isnan(x).any(axis=0)):
        channel = plan.packed(x[:, c])
        last = np.maximum.accumulate(np.where(np.isnan(channel), -1, row))  # may lie in a trajectory before
        out[:, c] = np.where(last >= first, channel.take(last), 0.0)[plan.order]
    return out


def unseen_before(x: Float[np.ndarray, "rows n"], plan: Schedule) -> Int[np.ndarray, " rows"]:
    """How many rows just before each scheduled row, within its trajectory, had nothing observed."""
    blind = np.isnan(x).all(axis=1)
    if not blind.any():
        return np.zeros(len(x), dtype=np.int64)
    row = np.arange(len(x))
    last = np.maximum.accumulate(np.where(plan.packed(blind), -1, row))  # may lie in a trajectory before
    before = np.concatenate([[-1], last[:-1]])[plan.order]
    return np.asarray(plan.order - 1 - np.maximum(before, plan.order - plan.time - 1))


def late_before(x: Float[np.ndarray, "rows n"], plan: Schedule) -> Int[np.ndarray, " rows"]:
    """How many rows before each scheduled row came before anything was observed in its trajectory."""
    blind = np.isnan(x).all(axis=1)
    if not blind.any():
        return np.zeros(len(x), dtype=np.int64)
    first_seen = plan.length[plan.block(0)].copy()
    np.minimum.at(first_seen, plan.stream[~blind], plan.time[~blind])
    return np.asarray(np.minimum(first_seen[plan.stream], plan.time))


def ages_after(x: Float[np.ndarray, "rows n"], plan: Schedule) -> Int[np.ndarray, " rows"]:
    """How many rows each trajectory has had up to each scheduled row, from the first in which anything was observed."""
    late, blind = late_before(x, plan), np.isnan(x).all(axis=1)
    return np.asarray(plan.time + 1 - late - (blind & (late == plan.time)))


def settled(
    plan: Schedule, late: Int[np.ndarray, " rows"], enough: int | None = None
) -> tuple[Bool[np.ndarray, " rows"], int]:
    """Mark the rows before which a filter has seen enough to have forgotten its start; and how many rows are enough.

    These are `enough_rows` of the trajectories, unless a number is given: that of all shards, for one of them.
    """
    enough = enough_rows(plan.length[plan.block(0)]) if enough is None else enough
    return plan.time - late >= enough, enough


def enough_rows(lengths: Int[np.ndarray, " m"]) -> int:
    """The rows after which a start is forgotten: ten, or a third of a recording of median length if that is less."""
    return int(min(SETTLED, max(1, np.median(lengths) // 3)))


def are_long(lengths: Int[np.ndarray, " m"], rows: int = SETTLED) -> bool:
    """Whether so many rows at the beginning of each recording are few among all rows.

    >>> are_long(np.array([60, 40])), are_long(np.array([60, 39]))
    (True, False)
    """
    return bool(lengths.sum() >= LONG * rows * len(lengths))


def late_at_end(values: Float[np.ndarray, "rows n"], offsets: Int[np.ndarray, " edges"]) -> Int[np.ndarray, " m"]:
    """How many rows at the beginning of each packed trajectory have nothing observed.

    >>> late_at_end(np.array([[np.nan], [1.0], [np.nan], [np.nan]]), np.array([0, 3, 4]))
    array([1, 1])
    """
    seen = np.where(np.isnan(values).all(axis=1), len(values), np.arange(len(values)))
    first_seen = np.minimum.reduceat(seen, offsets[:-1])
    return np.asarray(np.minimum(first_seen, offsets[1:]) - offsets[:-1])


def unseen_at_end(values: Float[np.ndarray, "rows n"], offsets: Int[np.ndarray, " edges"]) -> Int[np.ndarray, " m"]:
    """How many rows at the end of each packed trajectory have nothing observed.

    >>> unseen_at_end(np.array([[1.0], [np.nan], [np.nan], [2.0]]), np.array([0, 3, 4]))
    array([2, 0])
    """
    seen = np.where(np.isnan(values).all(axis=1), -1, np.arange(len(values)))
    last_seen = np.maximum.reduceat(seen, offsets[:-1])
    return np.asarray(offsets[1:] - 1 - np.maximum(last_seen, offsets[:-1] - 1))


def lag_places(plan: Schedule, lags: int) -> Int[np.ndarray, "rows lags"]:
    """The scheduled rows of x_t, x_{t-1}, .., x_{t-lags+1}; the first row is repeated before the beginning."""
    return np.stack([plan.place(-j) for j in range(lags)], axis=1)


def next_rows(offsets: Int[np.ndarray, " edges"]) -> Int[np.ndarray, " rows"]:
    """The packed row after every packed row; the last row of each trajectory is followed by itself.

    >>> next_rows(np.array([0, 3, 4]))
    array([1, 2, 2, 3])
    """
    after = np.arange(1, offsets[-1] + 1)
    after[offsets[1:] - 1] -= 1
    return after


def first_rows(offsets: Int[np.ndarray, " edges"], count: int) -> list[Int[np.ndarray, " _"]]:
    """The first packed rows of each trajectory, up to this number.

    >>> first_rows(np.array([0, 3, 4]), 2)
    [array([0, 1]), array([3])]
    """
    return [np.arange(begin, min(begin + count, end)) for begin, end in pairwise(offsets.tolist())]


def last_rows(offsets: Int[np.ndarray, " edges"], lags: int) -> Int[np.ndarray, "m lags"]:
    """The last packed rows of each trajectory, newest first; the first row is repeated before the beginning.

    >>> last_rows(np.array([0, 3, 4]), 2)
    array([[2, 1],
           [3, 3]])
    """
    return np.asarray(np.maximum(offsets[1:, None] - 1 - np.arange(lags), offsets[:-1, None]))


def coming_places(plan: Schedule, horizon: int) -> Int[np.ndarray, "rows horizon"]:
    """The scheduled rows of time t, t+1, .., t+horizon-1; the last row is repeated beyond the end."""
    return np.stack([plan.place(j) for j in range(horizon)], axis=1)


def foretelling(offsets: Int[np.ndarray, " edges"], horizon: int) -> tuple[RowIndex, RowIndex]:
    """For every packed row, the row whose belief predicts it `horizon` steps ahead, and how many rows later it comes.

    Near the beginning of a trajectory there are fewer steps: nothing is seen before the first row.

    >>> foretelling(np.array([0, 4]), 3)
    (array([0, 0, 0, 1]), array([0, 1, 2, 2]))
    """
    later = np.minimum(row_times(offsets), horizon - 1)
    return np.arange(offsets[-1]) - later, later


def row_times(offsets: Int[np.ndarray, " edges"]) -> Int[np.ndarray, " rows"]:
    """The time of every packed row within its trajectory.

    >>> row_times(np.array([0, 3, 5]))
    array([0, 1, 2, 0, 1])
    """
    return np.asarray(np.arange(offsets[-1]) - np.repeat(offsets[:-1], np.diff(offsets)))


def preceding(
    codes: Int[np.ndarray, " rows"], offsets: Int[np.ndarray, " edges"], length: int
) -> Int[np.ndarray, "rows length"]:
    """The last `length` entries before every packed row, oldest first; -1 before the beginning of its trajectory.

    >>> preceding(np.array([5, 6, 7, 8]), np.array([0, 3, 4]), 2)
    array([[-1, -1], [-1,  5], [ 5,  6], [-1, -1]])
    """
    first = np.repeat(offsets[:-1], np.diff(offsets))
    place = np.arange(len(codes))[:, None] - np.arange(length, 0, -1)
    return np.where(place >= first[:, None], codes.take(np.maximum(place, 0)), -1)


def beliefs_before(
    after: Float[np.ndarray, "rows *d"], initial: Float[np.ndarray, "*d"], plan: Schedule
) -> Float[np.ndarray, "rows *d"]:
    """m_t at every scheduled row, from the belief m_{t+1} after each row and the initial belief."""
    before = after.take(plan.place(-1), axis=0)
    before[plan.block(0)] = initial
    return before


def blocks_of(offsets: Int[np.ndarray, " edges"], length: int, gap: int) -> list[Int[np.ndarray, " _"]]:
    """The packed rows of blocks of `length` adjacent rows with `gap` rows between; a shorter trajectory is one block.

    >>> blocks_of(np.array([0, 6, 7]), 2, 1)
    [array([0, 1]), array([3, 4]), array([6])]
    """
    return [
        np.arange(start, min(start + length, end))
        for first, end in pairwise(offsets.tolist())
        for start in range(first, max(end - length, first) + 1, length + gap)
    ]


def _as_slice(rows: Int[np.ndarray, " some"]) -> RowIndex:
    """Adjacent rows as a slice, which copies nothing: trajectories of equal length always give one."""
    adjacent = len(rows) and rows[-1] - rows[0] == len(rows) - 1
    return slice(int(rows[0]), int(rows[-1]) + 1) if adjacent else rows
