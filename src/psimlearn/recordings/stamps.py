"""Times as a column of the same kind as another column: dates with their zone, durations, numbers or text."""

from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import narwhals as nw
import numpy as np

from psimlearn.recordings.entries import entry_like
from psimlearn.recordings.following import Wall
from psimlearn.recordings.times import Times

__all__ = ["stamps_like", "wall_of"]


def wall_of(column: "nw.Series[Any]", times: Times) -> Wall | None:
    """The clock on the wall at each row of a column of times; None for numbers, durations and unknown zones."""
    if times.kind == "local":
        return Wall(times.ticks)
    name = _zone(column)
    if times.kind != "instant" or name is None:
        return None
    try:
        zone = ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None
    shown = column.dt.replace_time_zone(None).dt.timestamp("ns").to_numpy().astype(np.int64)
    return Wall(shown, zone)


def _zone(column: "nw.Series[Any]") -> str | None:
    """The name of the zone of a column of dates; narwhals does not know all zones of pandas."""
    zone = getattr(column.dtype, "time_zone", None) or getattr(column.to_native().dtype, "tz", None)
    return None if zone is None else str(zone)


def stamps_like(column: "nw.Series[Any]", times: Times, format: str | None) -> "nw.Series[Any]":
    """These times as a column with the name, kind, zone and unit of another column of times.

    Args:
        column: the times before, at least one.
        times: the new times.
        format: how texts are written; None for ISO 8601.
    """
    kind, backend, name = column.dtype, column.implementation, column.name
    name = "time" if name is None else name  # narwhals requires a name; the caller knows the right one
    if kind == nw.Datetime or kind == nw.Date or _zone(column) is not None:
        stamps = nw.new_series(name, times.ticks.astype(np.int64).view("M8[ns]"), backend=backend)
        zoned = stamps if _zone(column) is None else stamps.dt.replace_time_zone("UTC")
        if column.implementation.is_pandas():
            return nw.from_native(zoned.to_native().astype(column.to_native().dtype), series_only=True)
        return zoned.cast(kind)
    if kind == nw.Duration:
        return nw.new_series(name, times.ticks.astype(np.int64).view("m8[ns]"), backend=backend).cast(kind)
    if kind.is_numeric():
        whole = kind.is_integer() and bool((times.ticks == np.rint(times.ticks)).all())
        stamps = nw.new_series(name, times.ticks, backend=backend)
        return stamps.cast(kind) if whole or kind.is_float() else stamps
    last = column.to_list()[-1]
    return nw.new_series(
        name, [entry_like(ticks.item(), times.kind, last, format) for ticks in times.ticks], backend=backend
    )
