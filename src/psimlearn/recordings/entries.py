"""A time as an entry of a table, written as another entry of its column is: a text, a date, a number."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from psimlearn.recordings.following import Wall
from psimlearn.recordings.times import EPOCH, Kind, Times, clock_text

__all__ = ["columns_like", "entry_like", "wall_like"]

MICROSECONDS = len("2024-03-31T00:59:59.123456")


def entry_like(ticks: int | float, kind: Kind, other: Any, format: str | None) -> Any:
    """One time as an entry like another one: a text, a date, or a number.

    Args:
        ticks: the time.
        kind: what it counts.
        other: another entry of the column.
        format: how texts are written; None for ISO 8601.
    """
    if kind == "number":
        return f"{ticks:.16g}" if isinstance(other, str) and isinstance(ticks, float) else _number(ticks, other)
    if kind == "duration":
        passed = timedelta(microseconds=ticks / 1000)
        if isinstance(other, time):
            return (EPOCH + passed).time()
        return clock_text(int(ticks)) if isinstance(other, str) else passed
    moment = EPOCH + timedelta(microseconds=ticks // 1000)
    if not isinstance(other, str):
        zoned = moment.replace(tzinfo=UTC).astimezone(other.tzinfo) if kind == "instant" else moment
        return zoned if isinstance(other, datetime) else date(moment.year, moment.month, moment.day)
    if format is not None:
        return moment.strftime(format)
    return _iso(moment, int(ticks % 1000), kind, other)


def _number(ticks: int | float, other: Any) -> Any:
    return str(ticks) if isinstance(other, str) else ticks


def _iso(moment: datetime, nanoseconds: int, kind: Kind, other: str) -> str:
    """A text in ISO 8601 with the offset, and the sign between date and time, of another one."""
    other = other.strip()
    try:
        before = datetime.fromisoformat(other)
    except ValueError:
        before = datetime(1970, 1, 1, tzinfo=UTC) if kind == "instant" else EPOCH
    if kind == "instant" and before.tzinfo is not None:
        moment = moment.replace(tzinfo=UTC).astimezone(before.tzinfo)
    if len(other) == 10 and moment.time() == before.time():
        return moment.date().isoformat()
    text = moment.isoformat(other[10] if other[10:11] in ("T", " ") else "T", "microseconds" if nanoseconds else "auto")
    if nanoseconds:
        text = f"{text[:MICROSECONDS]}{nanoseconds:03}{text[MICROSECONDS:]}"
    return text.replace("+00:00", "Z") if other.endswith("Z") else text


def columns_like(
    columns: Sequence[Sequence[Any]], rows: Sequence[int], times: Times, format: str | None
) -> list[list[Any]]:
    """Times as the entries of a column, or of a column of dates and a column of clocks.

    Args:
        columns: the columns of the table.
        rows: for each time, the row of the table whose entry it is to be like.
        times: the times.
        format: how texts are written, in two columns with a space between them.
    """
    ticks = times.ticks.tolist()
    if len(columns) == 1:
        return [[entry_like(tick, times.kind, columns[0][row], format) for tick, row in zip(ticks, rows, strict=True)]]
    days, clocks = [], []
    for tick, row in zip(ticks, rows, strict=True):
        day, clock = (str(column[row]) for column in columns)
        words = entry_like(tick, times.kind, f"{day} {clock}", format).split(" ")
        n = len(day.split(" "))
        days.append(" ".join(words[:n]))
        clocks.append(" ".join(words[n:]))
    return [days, clocks]


def wall_like(times: Times, entry: Any) -> Wall | None:
    """The clock on the wall at each time, if it is written without an offset, or if the zone of an entry is known."""
    if times.kind == "local":
        return Wall(times.ticks)
    if times.kind != "instant" or not isinstance(entry, datetime):
        return None
    try:
        zone = ZoneInfo(str(entry.tzinfo))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None
    moments = (EPOCH.replace(tzinfo=UTC) + timedelta(microseconds=tick // 1000) for tick in times.ticks.tolist())
    offsets = [moment.astimezone(zone).utcoffset() or timedelta() for moment in moments]
    ahead = np.array([round(offset.total_seconds()) * 10**9 for offset in offsets], dtype=np.int64)
    return Wall(times.ticks + ahead, zone)
