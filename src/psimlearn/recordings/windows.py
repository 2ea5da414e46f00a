"""Time arithmetic: futures, histories, lags and the order in which rows are met. It happens here only.

Time is counted from 0 in the code: row t of a trajectory is x_t, the belief m_t is held BEFORE x_t is seen,
and the example of row t is ((m_t, x_t), phi(f_{t+1})) with f_{t+1} = (x_{t+1}, .., x_{t+k}). A trajectory of
T rows therefore gives T - k examples.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

__all__ = [
    "RowIndex",
    "Schedule",
    "beliefs_before",
    "carried_forward",
    "coming_places",
    "example_blocks",
    "example_rows",
    "foretelling",
    "futures",
    "gridded",
    "grids",
    "histories",
    "lag_places",
    "later_futures",
    "preceding",
    "schedule",
    "unseen_at_end",
    "unseen_before",
    "whole_futures",
]

CACHED_ROWS = 4096
"""How many rows of a history are gathered at a time."""
SIMILAR = 0.75
"""Trajectories are of similar length down to this share of the longest."""
RowIndex = slice | Int[np.ndarray, " some"]
"""Scheduled rows: some of them in rising order, as a slice where they are adjacent."""


class Schedule(NamedTuple):
    """Rows in the order a filter meets them: all trajectories at time 0, then all that reach time 1, and so on.

    Trajectories are sorted by length, longest first, so that at every time those still running are a prefix:
    a step touches one contiguous block, and nothing is padded or masked.
    """

    order: Int[np.ndarray, " rows"]
    """The packed row that stands at each scheduled place."""
    starts: Int[np.ndarray, " edges"]
    """Where the block of each time begins; the block of time t is `starts[t]` to `starts[t + 1]`."""
    stream: Int[np.ndarray, " rows"]
    """The place, within its block, of each scheduled row: trajectories counted longest first."""
    time: Int[np.ndarray, " rows"]
    """The time index of each scheduled row."""
    length: Int[np.ndarray, " rows"]
    """The length of each scheduled row's trajectory."""

    def block(self, t: int) -> slice:
        """The scheduled rows of time t."""
        return slice(int(self.starts[t]), int(self.starts[t + 1]))

    def blocks(self) -> list[slice]:
        """The scheduled rows of every time."""
        return [slice(*bounds) for bounds in pairwise(self.starts.tolist())]

    def moves(self) -> list[tuple[slice, slice]]:
        """For every time but the last: the rows that have a next row, and those next rows."""
        return [
            (slice(now.start, now.start + later.stop - later.start), later) for now, later in pairwise(self.blocks())
        ]

    def place(self, shift: int) -> Int[np.ndarray, " rows"]:
        """The scheduled row `shift` steps away in the same trajectory, held at its first and last row."""
        time = np.clip(self.time + shift, 0, self.length - 1)
        place: np.ndarray = self.starts.take(time) + self.stream
        return place

    def reaches(self, shift: int) -> Bool[np.ndarray, " rows"]:
        """Whether the trajectory of each scheduled row has a row `shift` steps away."""
        return (self.time + shift >= 0) & (self.time + shift < self.length)

    def before(self) -> Int[np.ndarray, " rows"]:
        """The scheduled row before each; a first row stands for itself."""
        return self.place(-1)

    def after(self) -> Int[np.ndarray, " rows"]:
        """The scheduled row after each; a last row stands for itself."""
        return self.place(1)

    def last(self) -> Int[np.ndarray, " m"]:
        """The scheduled row at which each trajectory ends, trajectories in the order of the recordings."""
        ends = np.flatnonzero(~self.reaches(1))
        return ends[np.argsort(self.order[ends])]

    def packed(self, rows: np.ndarray) -> np.ndarray:
        """Put scheduled rows back in the order of the recordings."""
        out = np.empty_like(rows)
        out[self.order] = rows
        return out


def schedule(offsets: Int[np.ndarray, " edges"]) -> Schedule:
    """The order in which a filter meets the rows of packed trajectories.

    >>> schedule(np.array([0, 2, 5])).order         # trajectories of rows 0, 1 and of rows 2, 3, 4
    array([2, 0, 3, 1, 4])
    """
    lengths = np.diff(offsets)
    longest_first = np.argsort(-lengths, kind="stable")
    running = np.searchsorted(-lengths[longest_first], -np.arange(lengths.max()), side="left")
    starts = np.concatenate([[0], np.cumsum(running)])
    time = np.repeat(np.arange(len(running)), running)
    stream = np.arange(starts[-1]) - starts[time]
    trajectory = longest_first[stream]
    return Schedule(offsets[trajectory] + time, starts, stream, time, lengths[trajectory])


def futures(x: Float[np.ndarray, "rows n"], plan: Schedule, window: int) -> Float[np.ndarray, "rows window n"]:
    """f_t = (x_t, .., x_{t+window-1}) at every scheduled row; NaN beyond the end of a trajectory."""
    f = np.empty((len(x), window, x.shape[1]))
    for j in range(window):
        f[:, j] = x.take(plan.place(j), axis=0)
        f[~plan.reaches(j), j] = np.nan
    return f


def later_futures(plan: Schedule, window: int) -> RowIndex:
    """The scheduled rows, but for the first of each trajectory, whose f_t lies within their trajectory."""
    return _as_slice(np.flatnonzero(plan.reaches(window - 1) & plan.reaches(-1)))


def whole_futures(plan: Schedule, window: int) -> RowIndex:
    """The scheduled rows whose f_t lies within their trajectory."""
    return _as_slice(np.flatnonzero(plan.reaches(window - 1)))


def example_rows(plan: Schedule, window: int) -> tuple[RowIndex, RowIndex]:
    """The scheduled rows t that make an example, t = 0 .. T-k-1, and for each the row t+1 where its target begins."""
    rows = np.flatnonzero(plan.reaches(window))
    return _as_slice(rows), _as_slice(plan.place(1)[rows])


def example_blocks(plan: Schedule, window: int) -> list[slice]:
    """`example_rows` time by time: for each t, the scheduled rows whose trajectory has a whole f_{t+1}."""
    running = np.diff(plan.starts)
    return [slice(int(plan.starts[t]), int(plan.starts[t] + running[t + window])) for t in range(len(running) - window)]


def grids(plan: Schedule, rows: RowIndex) -> list[Int[np.ndarray, "_ _"]]:
    """Scheduled rows as rectangles of (time, trajectory), with -1 where a trajectory has ended.

    Trajectories of similar length share a rectangle, so that little of it is empty however ragged they are.

    >>> grids(schedule(np.array([0, 2, 5])), slice(None))
    [array([[0],
           [2],
           [4]]), array([[1],
           [3]])]
    """
    chosen = np.arange(len(plan.order))[rows]
    time, stream = plan.time[chosen], plan.stream[chosen]
    lengths = np.bincount(stream)  # trajectories are scheduled longest first
    out: list[np.ndarray] = []
    first = 0
    while first < len(lengths):
        beyond = int(np.count_nonzero(lengths >= SIMILAR * lengths[first]))
        grid = np.full((int(lengths[first]), beyond - first), -1)
        own = (stream >= first) & (stream < beyond)
        grid[time[own], stream[own] - first] = chosen[own]
        out.append(grid)
        first = beyond
    return out


def gridded(grid: Int[np.ndarray, "T b"], rows: np.ndarray) -> np.ndarray:
    """Scheduled rows at the places of a grid, zero where it has none."""
    out: np.ndarray = rows[grid]
    out[grid < 0] = 0
    return out


def histories(x: Float[np.ndarray, "rows n"], plan: Schedule, length: int) -> Float[np.ndarray, "rows past"]:
    """(x_{t-1}, .., x_{t-length}) before every scheduled row; zero before the beginning."""
    padded = np.concatenate([np.zeros((1, x.shape[1])), x])  # row 0 stands for all that came before the beginning
    before = np.concatenate([[0], np.where(plan.reaches(-1), plan.before() + 1, 0)])
    past = np.empty((len(x), length, x.shape[1]))
    for start in range(0, len(x), CACHED_ROWS):  # a few rows at a time stay in cache
        rows = slice(start, start + CACHED_ROWS)
        place = np.arange(start + 1, min(rows.stop, len(x)) + 1)
        for j in range(length):
            place = before.take(place)
            past[rows, j] = padded.take(place, axis=0)
    return past.reshape(len(x), -1)


def carried_forward(x: Float[np.ndarray, "rows n"], plan: Schedule) -> Float[np.ndarray, "rows n"]:
    """Missing entries replaced by the last one seen in their channel; zero where there is none."""
    out = x.copy()
    before = np.zeros_like(x[plan.block(0)])
    for block in plan.blocks():
        now = out[block]
        before = np.where(np.isnan(now), before[: len(now)], now)
        out[block] = before
    return out


def unseen_before(x: Float[np.ndarray, "rows n"], plan: Schedule) -> Int[np.ndarray, " rows"]:
    """How many rows just before each scheduled row, within its trajectory, had nothing observed."""
    blind = np.isnan(x).all(axis=1)
    unseen = np.zeros(len(x), dtype=np.int64)
    for now, later in plan.moves():
        unseen[later] = np.where(blind[now], unseen[now] + 1, 0)
    return unseen


def unseen_at_end(values: Float[np.ndarray, "rows n"], offsets: Int[np.ndarray, " edges"]) -> Int[np.ndarray, " m"]:
    """How many rows at the end of each packed trajectory have nothing observed.

    >>> unseen_at_end(np.array([[1.0], [np.nan], [np.nan], [2.0]]), np.array([0, 3, 4]))
    array([2, 0])
    """
    rows = np.arange(len(values))
    seen = np.where(np.isnan(values).all(axis=1), -1, rows)
    last_seen = np.maximum.reduceat(seen, offsets[:-1])
    unseen: np.ndarray = offsets[1:] - 1 - np.maximum(last_seen, offsets[:-1] - 1)
    return unseen


def lag_places(plan: Schedule, lags: int) -> Int[np.ndarray, "rows lags"]:
    """The scheduled rows of x_t, x_{t-1}, .., x_{t-lags+1}; the first row is repeated before the beginning."""
    return np.stack([plan.place(-j) for j in range(lags)], axis=1)


def coming_places(plan: Schedule, horizon: int) -> Int[np.ndarray, "rows horizon"]:
    """The scheduled rows of time t, t+1, .., t+horizon-1; the last row is repeated beyond the end."""
    return np.stack([plan.place(j) for j in range(horizon)], axis=1)


def foretelling(offsets: Int[np.ndarray, " edges"], horizon: int) -> tuple[RowIndex, RowIndex]:
    """For every packed row, the row before which it was to be predicted `horizon` steps ahead, and how many rows later.

    Near the beginning of a trajectory fewer steps have to do: nothing is seen before the first row.

    >>> foretelling(np.array([0, 4]), 3)
    (array([0, 0, 0, 1]), array([0, 1, 2, 2]))
    """
    rows = np.arange(offsets[-1])
    time = rows - np.repeat(offsets[:-1], np.diff(offsets))
    later = np.minimum(time, horizon - 1)
    return rows - later, later


def preceding(
    codes: Int[np.ndarray, " rows"], offsets: Int[np.ndarray, " edges"], length: int
) -> Int[np.ndarray, "rows length"]:
    """The last `length` entries before every packed row, oldest first; -1 before the beginning of its trajectory.

    >>> preceding(np.array([5, 6, 7, 8]), np.array([0, 3, 4]), 2)
    array([[-1, -1], [-1,  5], [ 5,  6], [-1, -1]])
    """
    rows = np.arange(len(codes))
    first = np.repeat(offsets[:-1], np.diff(offsets))
    place = rows[:, None] - np.arange(length, 0, -1)
    return np.where(place >= first[:, None], codes.take(np.maximum(place, 0)), -1)


def beliefs_before(
    after: Float[np.ndarray, "rows d"], initial: Float[np.ndarray, " d"], plan: Schedule
) -> Float[np.ndarray, "rows d"]:
    """m_t at every scheduled row, from the beliefs m_{t+1} that each row left behind and the initial one."""
    before = after.take(plan.place(-1), axis=0)
    before[plan.block(0)] = initial
    return before


def _as_slice(rows: Int[np.ndarray, " some"]) -> RowIndex:
    """Adjacent rows as a slice, which copies nothing: so it is for trajectories of one length."""
    adjacent = len(rows) and rows[-1] - rows[0] == len(rows) - 1
    return slice(int(rows[0]), int(rows[-1]) + 1) if adjacent else rows
