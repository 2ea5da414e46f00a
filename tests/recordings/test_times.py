"""Times: every way to write one moment gives the same ticks, and nothing else is taken for a time."""

from datetime import UTC, date, datetime, time, timedelta, timezone
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from psimlearn.errors import DataError, SettingsError
from psimlearn.recordings.times import Moment, moment_of, seconds_between, spoken, step_of, times_of

NOON = 1_711_886_400 * 10**9  # 2024-03-31T12:00:00Z


@pytest.mark.parametrize(
    "entry",
    [
        "2024-03-31T12:00:00Z",
        "2024-03-31T12:00:00+00:00",
        "2024-03-31 14:00:00.000+02:00",
        "2024-03-31T14:00+0200",
        "2024-03-31T14:00:00+02:00[Europe/Berlin]",
        "20240331T120000Z",
        "2024-03-31 12:00:00 UTC",
        " 2024-03-31T07:00-05 ",
        datetime(2024, 3, 31, 12, tzinfo=UTC),
        datetime(2024, 3, 31, 14, tzinfo=timezone(timedelta(hours=2))),
        pd.Timestamp("2024-03-31T14:00", tz="Europe/Berlin"),
    ],
)
def test_one_instant_in_many_words(entry: Any) -> None:
    assert moment_of(entry) == Moment(NOON, "instant")


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (3, Moment(3, "number")),
        (0.5, Moment(0.5, "number")),
        (np.int32(3), Moment(3, "number")),
        (np.float32(0.5), Moment(0.5, "number")),
        ("3", Moment(3, "number")),
        ("-1.5e3", Moment(-1500.0, "number")),
        ("1711886400000000001", Moment(1711886400000000001, "number")),  # no float could hold it
        ("2024-03-31T12:00:00", Moment(NOON, "local")),
        ("2024-03-31T12:00:00.000000007", Moment(NOON + 7, "local")),
        ("2024-03-31T12:00:00,1234567", Moment(NOON + 123_456_700, "local")),
        (datetime(2024, 3, 31, 12), Moment(NOON, "local")),
        (pd.Timestamp("2024-03-31T12:00:00.000000007"), Moment(NOON + 7, "local")),
        (np.datetime64("2024-03-31T12", "h"), Moment(NOON, "local")),
        (date(1970, 1, 2), Moment(86400 * 10**9, "local")),
        ("1969-12-31T23:59:59.5", Moment(-(10**9) // 2, "local")),
        (timedelta(milliseconds=50), Moment(50 * 10**6, "duration")),
        (pd.Timedelta(7, "ns"), Moment(7, "duration")),
        (np.timedelta64(50, "ms"), Moment(50 * 10**6, "duration")),
        ("01:00:00.5", Moment(3600 * 10**9 + 5 * 10**8, "duration")),
        (time(1, 0, 0, 500_000), Moment(3600 * 10**9 + 5 * 10**8, "duration")),
    ],
)
def test_every_kind(entry: Any, expected: Moment) -> None:
    assert moment_of(entry) == expected
    assert type(moment_of(entry).ticks) is type(expected.ticks)


def test_a_format_for_other_words() -> None:
    assert moment_of("31/03/2024 12:00", "%d/%m/%Y %H:%M") == Moment(NOON, "local")
    assert moment_of("3/31/24 14:00 +0200", "%m/%d/%y %H:%M %z") == Moment(NOON, "instant")
    with pytest.raises(DataError, match="required a time written as '%d/%m/%Y', received '2024-03-31'"):
        moment_of("2024-03-31", "%d/%m/%Y")


@pytest.mark.parametrize(
    "entry",
    [
        *["", "NaN", "nat", None, np.nan, np.inf, "inf", pd.NaT, True, b"1", [1], "1_000", 10**400, "\u0661"],
        *["12/20/2023", "noon", "2024-13-01", "2024-01-01+02:00", "2024-01-01Z", "2024-01-01x10:00"],
    ],
    ids=repr,
)
def test_no_times(entry: Any) -> None:
    with pytest.raises(DataError, match=r"required a time.*received"):
        moment_of(entry)


@pytest.mark.parametrize("entry", ["3000-01-01", datetime(1, 1, 1), "9999-12-31T23:59:59-10:00", "99999999:00:00"])
def test_times_beyond_nanoseconds(entry: Any) -> None:
    with pytest.raises(DataError, match="between the years 1678 and 2261"):
        moment_of(entry)
    with pytest.raises(DataError, match=r"row 1: .*between the years 1678 and 2261"):
        times_of(np.array(["2000-01-01", "3000-01-01"], "M8[s]"))


@given(st.datetimes(datetime(1700, 1, 1), datetime(2250, 1, 1)))
def test_texts_and_arrays_agree(when: datetime) -> None:
    expected = np.datetime64(when, "us").astype("M8[ns]").astype(np.int64)
    assert moment_of(when.isoformat()).ticks == moment_of(when).ticks == expected
    assert times_of(np.array([when], "M8[us]")).ticks[0] == expected


def test_columns() -> None:
    assert times_of(["10", "9"]).ticks.tolist() == [10, 9]
    assert times_of([1, 2.5]).ticks.dtype == np.float64
    assert times_of(np.array([2**62, 2**62 + 1])).ticks.tolist() == [2**62, 2**62 + 1]
    assert times_of(np.array([1, 2], np.uint8)).ticks.dtype == np.int64
    assert times_of([]).ticks.shape == (0,)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (["1", "x"], "here, row 1: required a time as a number or in ISO 8601.*'x'"),
        (["1", "2024-01-01"], "here, row 1: required numbers as in the rows before, received one of the dates"),
        (["2024-01-01", "2024-01-01Z"], "row 1: required a time"),
        (["2024-01-01T00:00", "2024-01-01T00:00Z"], "row 1: required dates and times without an offset"),
        (np.array([0.0, np.nan]), "here, row 1: required a time, received nan"),
        (np.array(["2024-01-01", "NaT"], "M8[D]"), "here, row 1: required a time, received NaT"),
    ],
)
def test_columns_refused(column: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        times_of(column, place="here, row {}".format)


def test_seconds_across_a_change_of_the_clock() -> None:
    before, after = moment_of("2024-03-31T01:59:59+01:00"), moment_of("2024-03-31T03:00:00+02:00")
    assert seconds_between(before, after) == 1.0
    with pytest.raises(DataError, match="required dates and times with an offset or zone as before"):
        seconds_between(before, moment_of(3))


@pytest.mark.parametrize(
    ("step", "seconds"),
    [
        *[("50ms", 0.05), ("50 ms", 0.05), (0.05, 0.05), ("0.05", 0.05), ("20Hz", 0.05), ("1kHz", 1e-3), ("s", 1.0)],
        *[("2min", 120.0), ("1.5h", 5400.0), ("1D", 86400.0), ("3us", 3e-6), ("3µs", 3e-6), ("5ns", 5e-9), (1, 1.0)],
        *[(timedelta(seconds=2), 2.0), (np.timedelta64(20, "ms"), 0.02), (pd.Timedelta("20ms"), 0.02)],
    ],
)
def test_steps(step: Any, seconds: float) -> None:
    assert step_of(step) == pytest.approx(seconds, rel=1e-12)


@pytest.mark.parametrize("step", ["", "auto", "50 parsecs", "-1s", 0, -1, np.nan, np.inf, None, True, [1], "0Hz", "0s"])
def test_no_steps(step: Any) -> None:
    with pytest.raises(SettingsError, match=r"step: required a time above 0.*received"):
        step_of(step)


def test_steps_in_words() -> None:
    said = [spoken(seconds) for seconds in (5e-9, 0.05, 1 / 30, 1.0, 90.0, 86400.0, 1e-12)]
    assert said == ["5 ns", "50 ms", "33.3333 ms", "1 s", "1.5 min", "1 d", "0.001 ns"]
