"""The step: rows come at equal distances, holes are rows, and all else is mended where asked or refused."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from psimlearn.errors import DataError, SettingsError
from psimlearn.recordings.regular import Regular, Timing, regular
from psimlearn.recordings.steps import Beat, Clock, check_step, same_step, steps_between, usual_step
from psimlearn.recordings.times import Moment, moment_of, seconds_between, times_of

nan = np.nan


def made(times: Any, offsets: Any = None, **timing: Any) -> Regular:
    """A counting sequence at these times."""
    column = times_of(np.asarray(times) if not isinstance(times, list) else times)
    rows = np.arange(len(column.ticks), dtype=float)[:, None]
    return regular(rows, column, np.array(offsets or [0, len(rows)]), Timing(**timing))


def test_a_hole_becomes_rows_that_were_not_observed() -> None:
    found = made([0.0, 1, 2, 5, 6], [0, 4, 5])
    assert_array_equal(found.values[:, 0], [0, 1, 2, nan, nan, 3, 4])
    assert found.offsets.tolist() == [0, 6, 7]
    assert found.source.tolist() == [0, 1, 2, -1, -1, 3, 4]
    assert found.times.ticks.tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert found.step == 1.0


def test_times_without_a_hole_leave_rows_as_they_are() -> None:
    found = made(np.arange(5) * 0.05)
    assert found.values[:, 0].tolist() == [0, 1, 2, 3, 4]
    assert found.step == pytest.approx(0.05)


def test_no_step_takes_rows_as_they_are() -> None:
    found = made([0.0, 1, 1.3, 9], step=None)
    assert found.values[:, 0].tolist() == [0, 1, 2, 3]
    assert found.step is None
    assert made([3.0], [0, 1]).step is None  # nobody can know


def test_rounded_times_give_the_true_step() -> None:
    """Camera frames at 30 Hz, written in milliseconds: 33, 33, 34; a median would drift by a row every 3 seconds."""
    at = np.rint(np.arange(3000) * 1000 / 30).astype(np.int64)
    keep = np.delete(np.arange(3000), np.arange(1000, 1060))
    found = made(at[keep].astype("m8[ms]"))
    assert found.step == pytest.approx(1 / 30, rel=1e-4)
    assert len(found.values) == 3000
    assert np.flatnonzero(np.isnan(found.values[:, 0])).tolist() == list(range(1000, 1060))


def test_nanoseconds_are_not_lost() -> None:
    """Seconds since 1970 as floats are 240 ns apart; these rows are 10 ns apart."""
    start = np.datetime64("2024-03-31T12:00:00.000000001", "ns")
    at = start + np.array([0, 10, 20, 40]) * np.timedelta64(1, "ns")
    found = made(at)
    assert found.step == pytest.approx(1e-8, rel=1e-9)
    assert_array_equal(found.values[:, 0], [0, 1, 2, nan, 3])
    assert np.diff(found.times.ticks).tolist() == [10, 10, 10, 10]


def test_months_are_one_step() -> None:
    found = made(np.arange("2023-01", "2025-01", dtype="M8[M]"))
    assert len(found.values) == 24


def test_unsorted_rows() -> None:
    with pytest.raises(
        DataError, match=r"trajectory 0, row 2: required times that rise, received 1 after 2. Pass sort"
    ):
        made([0, 2, 1, 3])
    assert made([0, 2, 1, 3], sort=True).source.tolist() == [0, 2, 1, 3]
    assert made([5, 4, 2, 1], [0, 2, 4], sort=True).source.tolist() == [1, 0, 3, 2]


def test_duplicates() -> None:
    with pytest.raises(DataError, match=r"row 2: required one row for each time, received 1 twice. Pass duplicates"):
        made([0, 1, 1, 2])
    assert made([0, 1, 1, 2], duplicates="mean").values[:, 0].tolist() == [0, 1.5, 3]
    rows = np.array([[0.0, nan], [nan, nan], [4, nan], [2, 1]])
    found = regular(rows, times_of([0, 1, 1, 1]), np.array([0, 4]), Timing(duplicates="mean"))
    assert_array_equal(found.values, [[0, nan], [3, 1]])


@pytest.mark.parametrize(
    ("times", "offsets", "timing", "message"),
    [
        ([0.0, 1, 2, 2.6, 4], None, {}, "row 3: required rows 1 s apart.*received 600 ms before 2.6; 2 of 4 rows"),
        ([0.0, 1, 2, 3.4], None, {}, "row 3: required rows 1 s apart.*received 1.4 s before 3.4.*resample=True"),
        ([0, 1, 2, 3, 0, 2, 4, 6], [0, 4, 8], {"step": 1}, "trajectory 1: required a row every 1 s.*every 2 s"),
        ([0.0, 1, 2, 3, 0, 0.5, 1, 1.5], [0, 4, 8], {"step": 1}, "trajectory 1, row 5: required rows 1 s apart"),
        (np.arange(200) * 1.02, None, {"step": 1}, "required a row every 1 s, received a row every 1.02 s"),
        ([0.0, 1, 2, 999999999], None, {}, "4 rows over 1e[+]09 steps of 1 s, with 11574.1 d after row 2"),
        ([-(2**62), 0, 2**62], None, {}, "trajectory 0: required times within 146 years"),
        ([0.0, 1, 2, 1e18], None, {"resample": True}, "4 rows over 1e[+]18 steps"),
    ],
)
def test_irregular_times_are_refused(times: Any, offsets: Any, timing: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        made(times, offsets, **timing)


def test_jitter_is_the_same_step() -> None:
    at = np.arange(1000) + np.random.default_rng(0).uniform(-0.12, 0.12, 1000)
    found = made(at)
    assert found.source.tolist() == list(range(1000))
    assert found.step == pytest.approx(1, rel=1e-3)
    assert made(at, step="1s").step == 1.0


def test_resampling_to_a_longer_step_takes_means() -> None:
    found = made(np.arange(9) * 0.5, step=1, resample=True)  # rows within half a step of each time
    assert_allclose(found.values[:, 0], [0, 1.5, 3.5, 5.5, 7.5])
    assert found.times.ticks.tolist() == [0, 1, 2, 3, 4]
    assert set(found.source) == {-1}
    assert found.step == 1


def test_resampling_to_a_shorter_step_draws_lines() -> None:
    at = np.array([0, 1, 2, 6, 7], "m8[s]")
    found = made(at, step="500ms", resample=True)
    assert_allclose(found.values[:, 0], [0, 0.5, 1, 1.5, 2, *[nan] * 7, 3, 3.5, 4])  # a hole stays a hole
    assert found.times.ticks[-1] == 7 * 10**9


def test_resampling_evens_irregular_rows() -> None:
    rng = np.random.default_rng(0)
    at = np.sort(rng.uniform(0, 100, 400))
    column = times_of(at)
    found = regular(np.stack([at, 3 - 2 * at], axis=1), column, np.array([0, 400]), Timing(step=0.7, resample=True))
    seen = ~np.isnan(found.values[:, 0])
    assert seen.mean() > 0.9
    # a mean of a line over rows near a time is close to the line at that time
    assert_allclose(found.values[seen, 0], found.times.ticks[seen], atol=0.4)
    fine = regular(at[:, None], column, np.array([0, 400]), Timing(step=0.2, resample=True))
    seen = ~np.isnan(fine.values[:, 0])
    assert_allclose(fine.values[seen, 0], fine.times.ticks[seen], atol=1e-9)


def test_missing_values_do_not_spread_when_rows_stay() -> None:
    rows = np.array([[0.0], [nan], [2.0], [3.0]])
    found = regular(rows, times_of([0.0, 1, 2, 3]), np.array([0, 4]), Timing(resample=True))
    assert_array_equal(found.values, rows)


@pytest.mark.parametrize(
    ("timing", "message"),
    [
        ({"duplicates": "drop"}, "duplicates: required 'refuse' or 'mean', received 'drop'"),
        ({"sort": 1}, "sort: required True or False, received 1"),
        ({"step": None, "resample": True}, "resample: required a step or 'auto', received step=None"),
        ({"step": "fast"}, "step: required a time above 0"),
    ],
)
def test_words_without_a_meaning(timing: Any, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        made([0, 1], **timing)


def test_the_usual_step() -> None:
    assert usual_step(times_of([0.0, 1, 9, 10, 11]), np.array([0, 2, 5])) == 1.0
    assert usual_step(times_of([0.0, 1]), np.array([0, 1, 2])) is None


def test_the_same_step() -> None:
    assert same_step(0.05, 0.0504, 1000)
    assert not same_step(0.05, 0.0506, 10_000)
    assert same_step(1 / 120, 0.008, 4)  # four rows in whole milliseconds
    assert not same_step(0.05, 0.1, 4)
    check_step(None, 0.1, 5)
    check_step(0.1, None, 5)
    check_step(0.1, 0.1, 5)
    with pytest.raises(DataError, match="required a row every 50 ms as in fit, received a row every 100 ms"):
        check_step(0.05, 0.1, 500)


def test_live_rows() -> None:
    clock = Clock("1s")
    times = ["2024-03-31T01:59:58+01:00", "2024-03-31T01:59:59.1+01:00", "2024-03-31T03:00:28+02:00"]
    assert [clock.advance(time) for time in times] == [1, 1, 29]
    for bad, message in [
        (times[2], "required times that rise"),
        ("2024-03-31T03:00:28.2+02:00", "required a row every 1 s, received one 200 ms after"),
        ("nan", "required a time"),
        (7, "required dates and times with an offset"),
    ]:
        with pytest.raises(DataError, match=message):
            clock.advance(bad)
    assert clock.advance("2024-03-31T03:00:29+02:00") == 1  # refused times changed nothing
    assert steps_between(None, Moment(5, "number"), 1.0) == (1, Beat(Moment(5, "number")))
    assert steps_between(Beat(moment_of(5)), moment_of(1006), 1.0)[0] == 1001
    with pytest.raises(
        DataError, match=r"at most 1000 missed rows of 1 s, received a row .* after the last one\. Drop"
    ):
        steps_between(Beat(moment_of(5)), moment_of(999999999), 1.0)


def test_a_clock_that_is_always_a_little_late_counts_the_steps_that_passed() -> None:
    """Times that are 30 % of a step apart too far: 13 steps pass in 10 rows, jitter of 30 % passes none."""
    clock, jittery = Clock(1.0), Clock(1.0)
    assert sum(clock.advance(1.3 * row) for row in range(1, 11)) == 13
    assert [jittery.advance(row + 0.3 * (row % 2)) for row in range(10)] == [1] * 10


@pytest.mark.parametrize("start", [3, 2.5, "2024-03-31T01:59:59.25+01:00", "00:10:00"])
def test_the_beat_of_a_row_one_step_later(start: Any) -> None:
    beat = Beat(moment_of(start), late=0.2)
    assert seconds_between(beat.moment, beat.after(0.05).moment) == pytest.approx(0.05)
    assert beat.after(0.05).late == 0.2
    assert type(beat.after(1.0).moment.ticks) is (int if isinstance(start, str) else float)
