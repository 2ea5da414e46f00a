"""Times as people and programs write them, understood in one way: numbers, ISO 8601 with or without offset, durations.

A moment is a count of ticks: whole nanoseconds where the calendar is known, so that nothing is rounded, and seconds
where it is a plain number. Differences are taken between ticks, and only then expressed in seconds.
"""

import re
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from typing import Any, Literal, NamedTuple

import numpy as np

from psimlearn.errors import DataError, SettingsError
from psimlearn.recordings.cells import MISSING, NUMBER
from psimlearn.shapes import Float, Int

__all__ = [
    "UNITS",
    "Kind",
    "Moment",
    "Times",
    "clock_text",
    "moment_of",
    "seconds_between",
    "spoken",
    "step_of",
    "times_of",
]

Kind = Literal["number", "instant", "local", "duration"]
"""Numbers; instants (an offset or a zone is known); dates and times without an offset; times since a start."""
UNITS: dict[Kind, float] = {"number": 1.0, "instant": 1e-9, "local": 1e-9, "duration": 1e-9}
"""Seconds in a tick. Plain numbers count as seconds."""
WORDS: dict[Kind, str] = {
    "number": "numbers",
    "instant": "dates and times with an offset or zone",
    "local": "dates and times without an offset",
    "duration": "times since a start",
}
EPOCH = datetime(1970, 1, 1)
LARGEST = 2**63 - 1
PARTS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0}
PARTS |= {"min": 60.0, "h": 3600.0, "d": 86400.0}
"""Seconds in the units of a step."""
STEP = re.compile(r"\s*([0-9]*\.?[0-9]+(?:e[+-]?[0-9]+)?)?\s*([a-zµμ]*)\s*", re.IGNORECASE)
ISO = re.compile(r"[0-9]{4}-?[0-9Ww-]{2,6}([Tt ][0-9].*)?")  # `fromisoformat` takes any character between date and time
FRACTION = re.compile(r"[.,][0-9]{6}([0-9]+)")
CLOCK = re.compile(r"([0-9]+):([0-5][0-9])(?::([0-5][0-9])(?:[.,]([0-9]{1,9}))?)?")
ZONE = re.compile(r"\s*(?:UTC|GMT|Z)$", re.IGNORECASE)
BRACKETS = re.compile(r"(?<=[0-9Zz])\[[^\]]*\]$")
TYPES = (int, float, np.number, datetime, date, timedelta, time)


class Moment(NamedTuple):
    """One time: ticks since the origin of its kind."""

    ticks: int | float
    kind: Kind


class Times(NamedTuple):
    """The times of many rows, all of one kind."""

    ticks: Int[np.ndarray, " rows"] | Float[np.ndarray, " rows"]
    kind: Kind

    @property
    def unit(self) -> float:
        """Seconds in a tick."""
        return UNITS[self.kind]

    def shown(self, row: int | np.integer) -> str:
        """One time in words."""
        ticks = self.ticks[row]
        if self.kind in ("instant", "local"):
            text = str(np.datetime64(int(ticks), "ns")).rstrip("0").rstrip(".")  # nanoseconds where there are some
            return text + ("Z" if self.kind == "instant" else "")
        return spoken(float(ticks) * self.unit) if self.kind == "duration" else str(ticks.item()).removesuffix(".0")


def times_of(column: Any, format: str | Any | None = None, place: Callable[[int], str] = "row {}".format) -> Times:
    """A column of times.

    Args:
        column: numbers, texts, datetimes, dates or durations: an array or any iterable of one kind.
        format: how texts are written, as in `datetime.strptime`; by default as numbers or in ISO 8601.
        place: a row in the words of an error message.
    """
    array = column if isinstance(column, np.ndarray) else None
    if array is not None and array.dtype.kind in "iufmM":
        return _from_array(array, place)
    moments = []
    for row, entry in enumerate(column):
        try:
            moments.append(moment_of(entry, format))
        except DataError as error:
            raise DataError(f"{place(row)}: {error}") from None
        if moments[row].kind != moments[0].kind:
            raise DataError(
                f"{place(row)}: required {WORDS[moments[0].kind]} as in the rows before, received one of the "
                f"{WORDS[moments[row].kind]}. Write all times in one way."
            )
    kind = moments[0].kind if moments else "number"
    whole = all(isinstance(moment.ticks, int) for moment in moments)
    return Times(np.array([m.ticks for m in moments], dtype=np.int64 if whole else np.float64), kind)


def moment_of(entry: Any, format: str | Any | None = None) -> Moment:
    """One time: a number, a text, a datetime, a date, a duration; raises DataError for anything else, and if missing.

    >>> moment_of("2024-03-31T03:00:00+02:00") == moment_of("2024-03-31 01:00Z")
    True
    """
    if isinstance(entry, str):
        return _from_text(entry.strip(), format)
    if isinstance(entry, np.datetime64 | np.timedelta64):
        times = _from_array(np.array([entry]), "row {}".format)
        return Moment(int(times.ticks[0]), times.kind)
    if isinstance(entry, bool | np.bool) or not isinstance(entry, TYPES):
        raise _not_a_time(entry)
    if isinstance(entry, int | float | np.number):
        return _from_number(entry) if format is None else _from_text(str(entry), format)
    if entry != entry:  # pandas.NaT
        raise _not_a_time(entry)
    if isinstance(entry, timedelta):
        return Moment(_nanoseconds(entry) + getattr(entry, "nanoseconds", 0), "duration")
    if isinstance(entry, time):
        entry = timedelta(hours=entry.hour, minutes=entry.minute, seconds=entry.second, microseconds=entry.microsecond)
        return Moment(_nanoseconds(entry), "duration")
    if not isinstance(entry, datetime):
        entry = datetime(entry.year, entry.month, entry.day)
    return _from_datetime(entry, getattr(entry, "nanosecond", 0))


def clock_text(ticks: int) -> str:
    """A time since a start as hours, minutes and seconds, which `moment_of` reads."""
    seconds, rest = divmod(ticks, 10**9)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return text + (f".{rest:09}".rstrip("0") if rest else "")


def seconds_between(earlier: Moment, later: Moment) -> float:
    """The seconds from one moment to another of the same kind."""
    if earlier.kind != later.kind:
        raise DataError(
            f"required {WORDS[earlier.kind]} as before, received one of the {WORDS[later.kind]}. Write all times in "
            "one way."
        )
    return float(later.ticks - earlier.ticks) * UNITS[earlier.kind]


def step_of(value: Any, name: str = "step") -> float:
    """The seconds of a step: a number of seconds, a text such as "50ms", "1 min" or "20 Hz", or a timedelta.

    >>> step_of("50ms"), step_of("20Hz"), step_of("2h")
    (0.05, 0.05, 7200.0)
    """
    seconds = np.nan
    if isinstance(value, str):
        seconds = _from_step(value)
    elif isinstance(value, timedelta | np.timedelta64):
        seconds = float(np.timedelta64(value) / np.timedelta64(1, "ns")) * 1e-9
    elif isinstance(value, int | float | np.number) and not isinstance(value, bool):
        seconds = float(value)
    if not 0 < seconds < np.inf:
        raise SettingsError(
            f"{name}: required a time above 0, as a number of seconds or with a unit ('50ms', '1min', '20Hz'), "
            f"received {value!r:.80}."
        )
    return seconds


def spoken(seconds: float) -> str:
    """Seconds in words, in the unit that suits them.

    >>> spoken(0.05), spoken(1.0), spoken(5400.0)
    ('50 ms', '1 s', '1.5 h')
    """
    fitting = [name for name in ("ns", "us", "ms", "s", "min", "h", "d") if PARTS[name] <= abs(seconds) * (1 + 1e-9)]
    unit = fitting[-1] if fitting else "ns"
    return f"{seconds / PARTS[unit]:.6g} {unit}"


def _from_step(text: str) -> float:
    match = STEP.fullmatch(text)
    if match is None or not (match[1] or match[2]):
        return float("nan")
    number, unit = float(match[1] or 1), match[2].lower() or "s"
    if unit in ("hz", "khz"):
        return 1 / number / (1 if unit == "hz" else 1000) if number else float("nan")
    return number * PARTS.get(unit, float("nan"))


def _from_array(array: np.ndarray, place: Callable[[int], str]) -> Times:
    """Numbers, datetime64 or timedelta64; 64-bit whole numbers stay whole."""
    if array.dtype.kind in "mM":
        missing = np.isnat(array)
        kind: Kind = "local" if array.dtype.kind == "M" else "duration"
        seconds = array.astype(f"{array.dtype.kind}8[s]").view(np.int64)
        wrapped = ~missing & (np.abs(seconds) > LARGEST // 10**9 - 1)
        within = array.copy()
        within[wrapped] = "NaT"  # as nanoseconds they would wrap around, or be an error of numpy from 2.5 on
        ticks = within.astype(f"{array.dtype.kind}8[ns]")
    else:
        kind = "number"
        whole = array.dtype.kind == "i" or (array.dtype.kind == "u" and array.dtype.itemsize < 8)
        ticks = array.astype(np.int64 if whole else np.float64)
        missing, wrapped = ~np.isfinite(ticks), np.zeros(len(array), dtype=bool)
    if missing.any():
        row = int(np.argmax(missing))
        raise DataError(f"{place(row)}: required a time, received {array[row]}. Fill it in or drop the row.")
    if wrapped.any():
        row = int(np.argmax(wrapped))
        raise DataError(f"{place(row)}: {_out_of_range()}")
    return Times(ticks.view(np.int64) if kind != "number" else ticks, kind)


def _from_number(entry: Any) -> Moment:
    value = entry.item() if isinstance(entry, np.number) else entry
    if isinstance(value, int) and abs(value) <= LARGEST:
        return Moment(value, "number")
    try:
        value = float(value)
    except (OverflowError, TypeError):
        raise _not_a_time(entry) from None
    if not np.isfinite(value):
        raise _not_a_time(entry)
    return Moment(value, "number")


def _from_text(text: str, format: Any) -> Moment:
    if text.lower() in (*MISSING, "nat"):
        raise _not_a_time(text)
    if not isinstance(format, str | None):
        raise SettingsError(f"format: required text such as '%d/%m/%Y %H:%M', received {format!r:.80}.")
    if format is not None:
        try:
            return _from_datetime(datetime.strptime(text, format))
        except ValueError:
            raise DataError(
                f"required a time written as {format!r}, received {text!r:.80}. Correct the format."
            ) from None
    if re.fullmatch(NUMBER, text):
        return _from_number(int(text) if re.fullmatch("[+-]?[0-9]+", text) else float(text))
    if clock := CLOCK.fullmatch(text):
        hours, minutes, seconds, fraction = clock.groups()
        whole = (int(hours) * 60 + int(minutes)) * 60 + int(seconds or 0)
        return _in_range(whole * 10**9 + int((fraction or "0").ljust(9, "0")), "duration")
    plain = ZONE.sub("+00:00", BRACKETS.sub("", text))
    try:
        moment = datetime.fromisoformat(plain if ISO.fullmatch(plain) else "")
    except ValueError:
        raise _not_a_time(text) from None
    fraction = FRACTION.search(plain)
    return _from_datetime(moment, int(fraction[1][:3].ljust(3, "0")) if fraction else 0)


def _from_datetime(moment: datetime, nanosecond: int = 0) -> Moment:
    """A datetime and the nanoseconds that it cannot hold."""
    offset = moment.utcoffset()
    # a pandas.Timestamp has its own arithmetic, and the last years of the calendar have no UTC
    plain = datetime(*moment.timetuple()[:6], moment.microsecond)
    ticks = _nanoseconds(plain - EPOCH) - _nanoseconds(offset or timedelta()) + nanosecond
    return _in_range(ticks, "local" if offset is None else "instant")


def _in_range(ticks: int, kind: Kind) -> Moment:
    if abs(ticks) > LARGEST:
        raise DataError(_out_of_range())
    return Moment(ticks, kind)


def _nanoseconds(duration: timedelta) -> int:
    return ((duration.days * 86400 + duration.seconds) * 10**6 + duration.microseconds) * 1000


def _not_a_time(entry: Any) -> DataError:
    return DataError(
        f"required a time as a number or in ISO 8601, such as 2024-03-31T02:00:00+01:00, received {entry!r:.80}. "
        "Correct it, or name the format in which times are written, such as '%d/%m/%Y %H:%M'."
    )


def _out_of_range() -> str:
    return "required a time between the years 1678 and 2261, received another. Correct it."
