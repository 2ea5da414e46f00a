"""The order in which a filter meets the rows of many trajectories, and the steps from a row to its neighbours.

Times are added and subtracted in this module and in `windows`, and nowhere else.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from psimlearn.shapes import Bool, Int

__all__ = ["Chunks", "RowIndex", "Schedule", "gridded", "grids", "in_chunks", "schedule"]

SIMILAR = 0.75
"""Trajectories are of similar length down to this share of the longest."""
RowIndex = slice | Int[np.ndarray, " some"]
"""Some scheduled rows in rising order, as a slice where they are adjacent or evenly spaced."""


class Schedule(NamedTuple):
    """Rows in the order a filter meets them: all trajectories at time 0, then all that reach time 1, and so on.

    Trajectories are sorted by length, longest first, so that at every time the trajectories still running are a
    prefix: a step touches one contiguous block, and nothing is padded or masked.
    """

    order: Int[np.ndarray, " rows"]
    """The packed row that stands at each scheduled place."""
    starts: Int[np.ndarray, " edges"]
    """Where the block of each time begins; the block of time t is `starts[t]` to `starts[t + 1]`."""
    stream: Int[np.ndarray, " rows"]
    """The place of each scheduled row within its block: trajectories counted longest first."""
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
        """For every time but the last: the rows that have a next row, and their next rows."""
        steps = pairwise(self.blocks())
        return [(slice(now.start, now.start + later.stop - later.start), later) for now, later in steps]

    def from_time(self, t: int) -> "Schedule":
        """The rows from time t on, as a schedule of the trajectories that have such rows: these rows are the last ones.

        >>> schedule(np.array([0, 2, 5])).from_time(1).order
        array([3, 1, 4])
        """
        edges = self.starts[min(t, len(self.starts) - 1) :]
        rows = slice(int(edges[0]), None)
        order, stream, time, length = (part[rows] for part in (self.order, self.stream, self.time, self.length))
        return Schedule(order, edges - edges[0], stream, time - t, length - t)

    def ending(self) -> list[int]:
        """For every time, the number of trajectories whose last row it is; they are the last of its block."""
        running = np.diff(self.starts)
        return [int(n) for n in running - np.append(running[1:], 0)]

    def place(self, shift: int) -> Int[np.ndarray, " rows"]:
        """The scheduled row `shift` steps away in the same trajectory, held at its first and last row."""
        time = np.clip(self.time + shift, 0, self.length - 1)
        return np.asarray(self.starts.take(time) + self.stream)

    def reaches(self, shift: int) -> Bool[np.ndarray, " rows"]:
        """Whether the trajectory of each scheduled row has a row `shift` steps away."""
        return (self.time + shift >= 0) & (self.time + shift < self.length)

    def last(self) -> Int[np.ndarray, " m"]:
        """The scheduled row at which each trajectory ends, trajectories in the order of the recordings."""
        ends = np.flatnonzero(~self.reaches(1))
        return ends[np.argsort(self.order[ends])]

    def trajectories(self) -> Int[np.ndarray, " m"]:
        """The trajectory of each scheduled row at time 0, as counted in the recordings."""
        return np.argsort(np.argsort(self.order[self.block(0)]))

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


class Chunks(NamedTuple):
    """Trajectories cut into chunks of equal length, of which the last chunk of each trajectory may be shorter.

    Chunks are sorted by length, longest first, as trajectories are in a schedule: those that reach a row are a prefix.
    """

    length: int
    rows: list[slice | Int[np.ndarray, " _"]]
    """For each place in a chunk, the scheduled rows that stand there."""
    later: Int[np.ndarray, " later"]
    """The chunks that continue another chunk, in the order of time."""
    before: Int[np.ndarray, " later"]
    """The chunk that each of these continues."""
    starts: Int[np.ndarray, " edges"]
    """As in the schedule."""
    time: Int[np.ndarray, " chunks"]
    stream: Int[np.ndarray, " chunks"]
    """The time at which each chunk begins, and its trajectory."""

    def lead(self, early: int) -> list[slice | Int[np.ndarray, " _"]]:
        """The scheduled rows that come `early`, .., 1 rows before the chunks of `later`."""
        time, stream = self.time[self.later], self.stream[self.later]
        return [self.starts.take(time - j) + stream for j in range(early, 0, -1)]


def in_chunks(plan: Schedule, length: int) -> Chunks:
    """Cut all trajectories into chunks.

    >>> in_chunks(schedule(np.array([0, 7, 10])), 3).rows        # rows 1, 3, 5 are those of the shorter trajectory
    [array([0, 1, 6, 9]), array([2, 3, 7]), array([4, 5, 8])]
    """
    start = np.flatnonzero(plan.time % length == 0)
    size = np.minimum(plan.length[start] - plan.time[start], length)
    longest_first = np.argsort(-size, kind="stable")
    start, size = start[longest_first], size[longest_first]
    time, stream, alone = plan.time[start], plan.stream[start], plan.starts[1] == 1
    running = np.searchsorted(-size, -np.arange(length), side="left")
    if alone:
        rows: list[slice | np.ndarray] = [slice(j, len(plan.order), length) for j in range(length)]
    else:
        rows = [plan.starts.take(time[:b] + j) + stream[:b] for j, b in enumerate(running.tolist())]
    number = np.empty(len(plan.order), dtype=np.int64)
    number[start] = np.arange(len(start))
    later = np.flatnonzero(time > 0)
    later = later[np.argsort(time[later], kind="stable")]
    before = plan.starts.take(time[later] - length) + stream[later]
    return Chunks(length, rows, later, number[before], plan.starts, time, stream)


def grids(plan: Schedule, rows: RowIndex) -> list[Int[np.ndarray, "_ _"]]:
    """Scheduled rows as rectangles of (time, trajectory), with -1 where a trajectory has ended.

    Trajectories of similar length share a rectangle, so that rectangles are nearly full however ragged the lengths.

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
        here = (stream >= first) & (stream < beyond)
        grid[time[here], stream[here] - first] = chosen[here]
        out.append(grid)
        first = beyond
    return out


def gridded(grid: Int[np.ndarray, "T b"], rows: np.ndarray) -> np.ndarray:
    """Scheduled rows at the places of a grid, zero where it has none."""
    out: np.ndarray = rows[grid]
    out[grid < 0] = 0
    return out
