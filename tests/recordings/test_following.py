"""Times after the end of a recording, beside those of pandas."""

from datetime import timedelta
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pytest

from psimlearn.recordings.columns import column_times
from psimlearn.recordings.following import following
from psimlearn.recordings.stamps import stamps_like, wall_of
from psimlearn.recordings.steps import usual_step
from psimlearn.recordings.times import Times

BERLIN = "Europe/Berlin"


def gone_on(before: Any, steps: int, format: str | None = None) -> Any:
    """The times after a column of times of one recording, as a column of the same library."""
    column = nw.from_native(before, series_only=True)
    times = column_times(column, format, "")
    offsets = np.array([0, len(times.ticks)])
    step = usual_step(times, offsets)
    assert step is not None
    return stamps_like(column, following(times, offsets, step, steps, wall_of(column, times)), format).to_native()


@pytest.mark.parametrize("freq", ["h", "15min", "D", "2D", "W", "MS", "ME", "QS", "QE", "YS", "YE", "50ms", "7ns"])
@pytest.mark.parametrize("zone", [None, BERLIN, "America/New_York", "UTC", "+05:30"])
def test_every_frequency_of_pandas_goes_on(freq: str, zone: str | None) -> None:
    """Over a change of the clocks, too: both ends of summer time of both zones lie in the days."""
    for start in ("2023-03-01", "2023-09-20 12:00"):
        whole = pd.date_range(start, periods=24, freq=freq, tz=zone)
        exact = zone != "+05:30" or freq not in ("MS", "ME", "QS", "QE", "YS", "YE")  # an offset has no calendar
        if exact:
            found = gone_on(pd.Series(whole[:14]), 10)
            pd.testing.assert_series_equal(found, pd.Series(whole[14:]), check_names=False, check_freq=False)


def test_polars_columns_go_on_in_their_unit_and_zone() -> None:
    whole = pl.datetime_range(
        pl.datetime(2024, 3, 28), pl.datetime(2024, 4, 2), "1d", time_unit="ms", time_zone=BERLIN, eager=True
    ).alias("when")
    assert gone_on(whole[:3], 3).equals(whole[3:])  # the clocks change on 31 March
    days = pl.date_range(pl.date(2024, 2, 27), pl.date(2024, 3, 3), "1d", eager=True).alias("day")
    found = gone_on(days[:2], 4)
    assert found.dtype == pl.Date
    assert found.to_list() == days[2:].to_list()
    passed = pl.Series("passed", [timedelta(seconds=i) for i in range(4)])
    assert gone_on(passed[:2], 2).equals(passed[2:])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([1, 3, 5], [7, 9]),
        ([0.5, 1.0, 1.5], [2.0, 2.5]),
        (["2024-03-30", "2024-03-31"], ["2024-04-01", "2024-04-02"]),
        (["2024-01-31", "2024-02-29", "2024-03-31"], ["2024-04-30", "2024-05-31"]),
        (
            ["2024-03-31T01:59:58+01:00", "2024-03-31T01:59:59+01:00"],
            ["2024-03-31T02:00:00+01:00", "2024-03-31T02:00:01+01:00"],
        ),
        (["2024-03-31 01:00Z", "2024-03-31 02:00Z"], ["2024-03-31 03:00:00Z", "2024-03-31 04:00:00Z"]),
        (["10", "12"], ["14", "16"]),
        (["0:59:58", "0:59:59"], ["01:00:00", "01:00:01"]),
    ],
)
@pytest.mark.parametrize("Series", [pd.Series, pl.Series])
def test_numbers_and_texts_go_on_as_they_are_written(before: list[Any], after: list[Any], Series: Any) -> None:
    found = gone_on(Series(before), len(after)).to_list()
    assert found == after
    assert [type(entry) for entry in found] == [type(entry) for entry in after]


def test_texts_of_a_format_go_on_in_it() -> None:
    assert gone_on(pd.Series(["30/03/2024 23:00", "31/03/2024 00:00"]), 2, "%d/%m/%Y %H:%M").tolist() == [
        "31/03/2024 01:00",
        "31/03/2024 02:00",
    ]


def test_whole_numbers_at_a_step_of_a_half_become_fractions() -> None:
    times = Times(np.array([0, 1]), "number")
    assert following(times, np.array([0, 2]), 1.0, 2).ticks.tolist() == [2, 3]
    alone = following(Times(np.array([4]), "number"), np.array([0, 1]), 0.5, 2)  # the step of a model
    assert stamps_like(nw.from_native(pd.Series([4]), series_only=True), alone, None).to_list() == [4.5, 5.0]


def test_rows_with_jitter_go_on_at_the_mean_step() -> None:
    ticks = np.array([0.0, 1.02, 1.97, 3.01, 4.0])
    found = following(Times(ticks, "number"), np.array([0, 5]), 1.0, 2)
    np.testing.assert_allclose(found.ticks, [5.0, 6.0], rtol=0, atol=1e-12)


def test_every_recording_goes_on_from_its_end() -> None:
    ticks = np.array([0, 10, 20, 100, 110]) * 10**9
    found = following(Times(ticks, "duration"), np.array([0, 3, 5]), 10.0, 2)
    assert (found.ticks // 10**9).tolist() == [30, 40, 120, 130]


def test_a_time_that_the_clock_skips_is_the_moment_after_the_jump() -> None:
    """Daily at half past two: on 31 March the clock in Berlin goes from two to three."""
    days = pd.Series(pd.date_range("2024-03-27 02:30", periods=4, freq="D", tz=BERLIN))
    found = gone_on(days, 2)
    assert found[0] == pd.Timestamp("2024-03-31 03:30", tz=BERLIN)
    assert found[1] == pd.Timestamp("2024-04-01 02:30", tz=BERLIN)
