"""The times of the rows after the end of recordings: they go on at the step of the recording.

Steps of whole days are taken on the clock on the wall, so that daily rows keep their time of day when the clocks
change; and rows on one day of every month, or on its last day, go on by months.
"""

from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np

from psimlearn.recordings.steps import close_to
from psimlearn.recordings.times import Times
from psimlearn.shapes import Int

__all__ = ["Wall", "following"]

DAY = 86_400 * 10**9
"""Nanoseconds."""
SHORTEST_MONTH = 27 * 86_400
"""Seconds: rows that are closer together do not stand for months."""
SHORTEST_DAY = 0.9 * 86_400
"""Seconds: a day on which the clocks change has 23 hours."""
EPOCH = datetime(1970, 1, 1)
A_DAY, A_MONTH = np.timedelta64(1, "D"), np.timedelta64(1, "M")


class Wall(NamedTuple):
    """The clock on the wall at each row."""

    ticks: Int[np.ndarray, " rows"]
    """Nanoseconds since 1970, as the clock shows them."""
    zone: ZoneInfo | None = None
    """The zone of the clock; None for times without one."""


def following(
    times: Times, offsets: Int[np.ndarray, " edges"], step: float, steps: int, wall: Wall | None = None
) -> Times:
    """The times of the next `steps` rows of each recording, one recording after the other.

    Args:
        times: the times of all rows.
        offsets: where each recording begins.
        step: the step in seconds.
        steps: how many rows.
        wall: the clock on the wall at each row, for dates and times.
    """
    parts = []
    for start, end in pairwise(offsets):
        found = None if wall is None else _by_calendar(wall.ticks[start:end], step, steps)
        if found is None or wall is None:
            parts.append(_by_step(times, times.ticks[start:end], step, steps))
        else:
            parts.append(found if wall.zone is None else _instants(found, wall.zone))
    return Times(np.concatenate(parts), times.kind)


def _by_step(times: Times, ticks: np.ndarray, step: float, steps: int) -> np.ndarray:
    """Times one step apart: the usual distance of the rows of the recording to the tick, if it has one."""
    count, usual = np.arange(1, steps + 1), _usual(np.diff(ticks))
    if usual is not None and close_to(np.array([usual * times.unit]), step)[0]:
        return np.asarray(ticks[-1] + usual * count)
    ahead = step / times.unit * count
    return np.asarray(ticks[-1] + (ahead if times.kind == "number" else np.rint(ahead).astype(np.int64)))


def _usual(apart: np.ndarray) -> Any:
    """The distance that at least half of the rows have to the row before; None if there is none."""
    if not len(apart):
        return None
    values, counts = np.unique(apart, return_counts=True)
    return values[np.argmax(counts)] if 2 * counts.max() >= len(apart) else None


def _by_calendar(wall: Int[np.ndarray, " T"], step: float, steps: int) -> Int[np.ndarray, " steps"] | None:
    """Times a number of months or days apart, None if the rows are not: all must have one time of day."""
    days, clock = np.divmod(wall, DAY)
    if step < SHORTEST_DAY or (clock != clock[0]).any():
        return None
    dates = days.astype("M8[D]")
    found = _months(dates, steps) if step > SHORTEST_MONTH else None
    if found is None and (usual := _usual(np.diff(days))) is not None:
        found = dates[-1] + (usual * np.arange(1, steps + 1)).astype("m8[D]")
    return None if found is None else found.astype(np.int64) * DAY + clock[0]


def _months(dates: np.ndarray, steps: int) -> np.ndarray | None:
    """The next dates of rows on one day of the month, or on its last day; None if rows are on other days."""
    months = dates.astype("M8[M]")
    usual, day = _usual(np.diff(months.astype(np.int64))), dates - months.astype("M8[D]")
    last = ((dates + A_DAY).astype("M8[M]") != months).all()
    if not usual or not (last or (day == day[0]).all()):
        return None
    ahead = months[-1] + (usual * np.arange(1, steps + 1)).astype("m8[M]")
    ends = (ahead + A_MONTH).astype("M8[D]") - A_DAY
    return np.asarray(ends if last else np.minimum(ahead.astype("M8[D]") + day[0], ends))


def _instants(wall: Int[np.ndarray, " steps"], zone: ZoneInfo) -> Int[np.ndarray, " steps"]:
    """The moments at which a clock on the wall shows these times; where it skips a time, the moment after the jump."""
    shown = [EPOCH + timedelta(microseconds=int(ticks) // 1000) for ticks in wall]
    offsets = [moment.replace(tzinfo=zone).utcoffset() or timedelta() for moment in shown]
    return np.asarray(wall - np.array([round(offset.total_seconds()) * 10**9 for offset in offsets], dtype=np.int64))
