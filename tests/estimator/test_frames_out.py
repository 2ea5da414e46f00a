"""Frames in, frames out: every line of the table in docs/my-data.md is a test here."""

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from psimlearn.errors import DataError, ModelFileError, SettingsError
from psimlearn.estimator.psim import PSIM
from psimlearn.estimator.scaler import TrajectoryScaler
from psimlearn.files import model as io
from psimlearn.recordings.trajectories import Trajectories
from small import ONE, RNG, model, several

PAGE = Path(__file__).parent.parent.parent / "docs" / "my-data.md"
NAMES = ["a", "b"]
BERLIN = "Europe/Berlin"


def hours(n: int, zone: str | None = None) -> pd.DatetimeIndex:
    return pd.date_range("2024-03-30", periods=n, freq="h", tz=zone)


def long_frame(times: Callable[[int], Any] = lambda n: hours(n, BERLIN)) -> pd.DataFrame:
    """All recordings, one below the other, with an id and a time."""
    parts = [
        pd.DataFrame(part, columns=NAMES).assign(run=f"r{i}", when=times(len(part))) for i, part in enumerate(several())
    ]
    return pd.concat(parts, ignore_index=True)


@cache
def hourly() -> PSIM:
    """As `model()`, from a long frame."""
    return PSIM(**ONE).fit(Trajectories.from_frame(long_frame(), id="run", time="when"))


def numbers(frame: Any) -> np.ndarray:
    return np.asarray(frame[NAMES].to_numpy(), dtype=np.float64)


def recording(i: int = 3) -> np.ndarray:
    return several()[i]


# -- each line of the table --------------------------------------------------------------------------------------------


def a_pandas_frame() -> None:
    frame = pd.DataFrame(recording(), columns=NAMES, index=np.arange(100, 120))
    found = model().predict(frame)
    assert found.index.equals(frame.index)
    np.testing.assert_array_equal(numbers(found), model().predict(recording()))
    assert hourly().forecast(frame.reset_index(drop=True), 2).index.tolist() == [20, 21]


def a_pandas_frame_with_dates() -> None:
    for zone in (None, BERLIN, "UTC"):
        frame = pd.DataFrame(recording(), columns=NAMES, index=hours(20, zone))
        assert model().predict(frame).index.equals(frame.index)
        coming = model().forecast(frame, 10)
        assert coming.index.equals(hours(30, zone)[20:])  # the clocks in Berlin change within these hours
        assert coming.index.freq == frame.index.freq
        np.testing.assert_array_equal(numbers(coming), model().forecast(recording(), 10))


def a_pandas_frame_with_id_and_time() -> None:
    frame = long_frame().set_index(["run", "when"])
    assert hourly().predict(frame).index.equals(frame.index)
    coming = hourly().forecast(frame, 2)
    assert coming.index.names == ["run", "when"]
    ends = [(f"r{i}", time) for i, part in enumerate(several()) for time in hours(len(part) + 2, BERLIN)[-2:]]
    assert coming.index.tolist() == ends
    np.testing.assert_array_equal(numbers(coming), np.concatenate(list(model().forecast(several(), 2))))


def a_pandas_frame_with_periods() -> None:
    frame = pd.DataFrame(recording(), columns=NAMES, index=pd.period_range("2020-01", periods=20, freq="M"))
    assert model().predict(frame).index.equals(frame.index)
    assert model().forecast(frame, 2).index.equals(pd.period_range("2021-09", periods=2, freq="M"))


def a_polars_frame() -> None:
    frame = pl.DataFrame(recording(), schema=NAMES)
    found = model().predict(frame)
    assert isinstance(found, pl.DataFrame)
    assert found.columns == NAMES
    np.testing.assert_array_equal(numbers(found), model().predict(recording()))
    np.testing.assert_array_equal(numbers(model().forecast(frame, 2)), model().forecast(recording(), 2))


def a_long_frame() -> None:
    ours, theirs = long_frame(), pl.from_pandas(long_frame())
    for frame in (ours, theirs):
        found = hourly().predict(frame)
        assert type(found) is type(frame)
        assert list(found.columns) == ["run", "when", "a", "b"]
        assert found["run"].to_list() == frame["run"].to_list()
        assert found["when"].dtype == frame["when"].dtype
        assert found["when"].to_list() == frame["when"].to_list()
        np.testing.assert_array_equal(numbers(found), np.concatenate(model().predict(several())))
        coming = hourly().forecast(frame, 3)
        assert coming["when"].dtype == frame["when"].dtype
        ends = [time for part in several() for time in hours(len(part) + 3, BERLIN)[-3:]]
        assert coming["when"].to_list() == ends
        assert coming["run"].to_list() == [f"r{i}" for i in range(8) for _ in range(3)]


def ids_of_every_type() -> None:
    frame = long_frame()
    places = frame["run"].str[1:].astype(int)
    for ids in (frame["run"], places, frame["run"].astype("category"), frame["run"].astype(object)):
        found = hourly().predict(frame.assign(run=ids))
        assert found["run"].dtype == ids.dtype
        assert hourly().forecast(frame.assign(run=ids), 1)["run"].dtype == ids.dtype
    theirs = pl.from_pandas(frame)
    for kind in (pl.String, pl.Categorical, pl.Enum([f"r{i}" for i in range(8)])):
        given = theirs.with_columns(pl.col("run").cast(kind))
        assert hourly().predict(given)["run"].dtype == kind
        assert hourly().forecast(given, 2)["run"].to_list() == [f"r{i}" for i in range(8) for _ in range(2)]


def rows_in_any_order() -> None:
    frame = long_frame()
    order = RNG(0).permutation(len(frame))
    whole = np.concatenate(model().predict(several()))
    found = hourly().predict(frame.iloc[order])
    assert found.index.tolist() == order.tolist()
    np.testing.assert_array_equal(numbers(found), whole[order])
    np.testing.assert_array_equal(numbers(hourly().predict(pl.from_pandas(frame)[order])), whole[order])
    one = pd.DataFrame(recording(), columns=NAMES, index=hours(20))
    np.testing.assert_array_equal(numbers(model().predict(one[::-1])), model().predict(recording())[::-1])
    assert model().forecast(one[::-1], 1).index == hours(21)[20:]


def missing_stamps() -> None:
    frame = pd.DataFrame(recording(), columns=NAMES, index=hours(20))
    holes = recording()
    holes[[4, 5, 11]] = np.nan
    kept = [row for row in range(20) if row not in (4, 5, 11)]
    for method in ("predict", "score_samples", "impute", "smooth", "transform"):
        found = getattr(model(), method)(frame.iloc[kept])
        assert found.index.equals(frame.index[kept])
        filled = getattr(model(), method)(holes)[kept]
        np.testing.assert_array_equal(np.asarray(found).reshape(filled.shape), filled)
    there = frame.iloc[kept].asfreq("h")
    np.testing.assert_array_equal(numbers(model().impute(there)), model().impute(holes))  # put in, and filled


def a_list_of_frames() -> None:
    ours = [pd.DataFrame(part, columns=NAMES, index=hours(len(part))) for part in several()]
    theirs = [pl.DataFrame(part, schema=NAMES) for part in several()]
    for frames in (ours, theirs, tuple(ours)):
        found = model().predict(frames)
        assert isinstance(found, list)
        assert all(type(a) is type(b) for a, b in zip(found, frames, strict=True))
        for ours_, plain in zip(found, model().predict(several()), strict=True):
            np.testing.assert_array_equal(numbers(ours_), plain)
    coming = model().forecast(ours, 2)
    assert [part.index[0] for part in coming] == [hours(len(part) + 1)[-1] for part in several()]


def a_dictionary_of_frames() -> None:
    frames = {f"r{i}": pl.DataFrame(part, schema=NAMES) for i, part in enumerate(several())}
    for method in ("predict", "impute"):
        found = getattr(model(), method)(frames)
        assert list(found) == list(frames)
        np.testing.assert_array_equal(numbers(found["r2"]), getattr(model(), method)(several())[2])
    coming = model().forecast(frames, 2)
    np.testing.assert_array_equal(numbers(coming["r5"]), model().forecast(several(), 2)[5])


def times_that_do_not_count() -> None:
    frame = long_frame(lambda n: pd.bdate_range("2024-03-28", periods=n))
    fitted = PSIM(**ONE).fit(Trajectories.from_frame(frame, id="run", time="when", step=None))
    for given in (frame, pl.from_pandas(frame)):
        np.testing.assert_array_equal(numbers(fitted.predict(given)), np.concatenate(model().predict(several())))
        coming = fitted.forecast(given, 2)
        assert coming["when"].dtype == given["when"].dtype
        assert not any(time == time and time is not None for time in coming["when"].to_list())


def arrays() -> None:
    assert isinstance(model().predict(recording()), np.ndarray)
    assert [type(part) for part in hourly().predict(several())] == [np.ndarray] * 8
    assert hourly().forecast(several(), 2).shape == (8, 2, 2)


def trajectories() -> None:
    data = Trajectories.from_frame(long_frame(), id="run", time="when")
    assert [type(part) for part in hourly().predict(data)] == [np.ndarray] * 8
    for library, module in (("pandas", pd), ("polars", pl)):
        wants = clone(hourly()).set_output(library).fit(data)
        found = wants.predict(data)
        assert isinstance(found, module.DataFrame)
        assert list(found.columns) == ["run", "when", "a", "b"]
        assert found["run"].to_list() == long_frame()["run"].to_list()
        assert found["when"].to_list() == long_frame()["when"].to_list()  # the same moments, in UTC
        coming = wants.forecast(data, 2)
        assert coming["when"].to_list() == hourly().forecast(long_frame(), 2)["when"].to_list()


def arrays_asked_for() -> None:
    wants = clone(hourly()).set_output("numpy").fit(Trajectories.from_frame(long_frame(), id="run", time="when"))
    frame = long_frame()
    order = RNG(1).permutation(len(frame))
    np.testing.assert_array_equal(wants.predict(frame.iloc[order]), np.concatenate(model().predict(several()))[order])
    assert wants.forecast(frame, 2).shape == (8, 2, 2)
    assert wants.score_samples(frame).shape == (len(frame),)


def frames_asked_for() -> None:
    ours, theirs = (clone(hourly()).set_output(transform=kind) for kind in ("pandas", "polars"))
    for wants, module in ((ours, pd), (theirs, pl)):
        wants.fit(several())
        assert isinstance(wants.predict(recording()), module.DataFrame)
        assert list(wants.predict(recording()).columns) == ["channel0", "channel1"]
        assert [type(part) for part in wants.predict(several())] == [module.DataFrame] * 8
        assert [part.shape for part in wants.forecast(np.stack([recording()] * 3), 4)] == [(4, 2)] * 3
    dated = pd.DataFrame(recording(), columns=NAMES, index=hours(20, BERLIN).rename("when"))
    found = theirs.fit(dated).predict(dated)
    assert found.columns == ["when", "a", "b"]
    assert found["when"].to_list() == dated.index.tolist()
    back = ours.fit(found.drop("when")).predict(found.drop("when"))
    assert isinstance(back, pd.DataFrame)


LINES: dict[str, Callable[[], None]] = {
    "a pandas frame": a_pandas_frame,
    "a pandas frame with dates in its index, with or without a zone": a_pandas_frame_with_dates,
    "a pandas frame with an index of two levels, id and time": a_pandas_frame_with_id_and_time,
    "a pandas frame with periods in its index": a_pandas_frame_with_periods,
    "a polars frame": a_polars_frame,
    "a long frame, pandas or polars, whose columns `fit` has learnt": a_long_frame,
    "ids as numbers, text, categories or enums": ids_of_every_type,
    "rows in any order": rows_in_any_order,
    "rows missing in time": missing_stamps,
    "a list of frames": a_list_of_frames,
    "a dictionary of frames": a_dictionary_of_frames,
    "times that do not count, by `step=None`": times_that_do_not_count,
    "arrays, and lists of arrays": arrays,
    "a `Trajectories`": trajectories,
    'anything, after `set_output("numpy")`': arrays_asked_for,
    'anything, after `set_output("pandas")` or `"polars"`': frames_asked_for,
}


@pytest.mark.parametrize("line", LINES)
def test_line(line: str) -> None:
    LINES[line]()


def test_the_page_has_these_lines() -> None:
    section = PAGE.read_text(encoding="utf-8").split("### Frames in, frames out")[1].split("\n### ")[0]
    table = section.split("| came in |")[1].split("\n\n")[0]
    assert re.findall(r"^\| (.+?) \|", table.split("\n", 2)[2], re.MULTILINE) == list(LINES)


# -- all answers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_every_answer_is_a_frame_with_the_same_ids_and_times(library: str) -> None:
    frame = long_frame() if library == "pandas" else pl.from_pandas(long_frame())
    data = Trajectories.from_frame(long_frame(), id="run", time="when")
    fitted = hourly()
    answers: dict[str, tuple[Any, list[str]]] = {
        "predict": (fitted.predict(frame), NAMES),
        "low": (fitted.predict_interval(frame)[0], NAMES),
        "high": (fitted.predict_interval(frame)[1], NAMES),
        "impute": (fitted.impute(frame), NAMES),
        "smoothed std": (fitted.smooth(frame, return_std=True)[1], NAMES),
        "score_samples": (fitted.score_samples(frame), ["log_likelihood"]),
        "transform": (fitted.transform(frame), fitted.get_feature_names_out().tolist()),
        "alarm": (fitted.alarms(frame, 0.05).alarm, ["alarm"]),
        "channel": (fitted.alarms(frame, 0.05).channel, ["channel"]),
    }
    for what, (found, columns) in answers.items():
        assert type(found) is type(frame), what
        assert list(found.columns) == ["run", "when", *columns], what
        assert found["when"].to_list() == frame["when"].to_list(), what
    whole = np.concatenate(fitted.score_samples(data))
    np.testing.assert_array_equal(answers["score_samples"][0]["log_likelihood"].to_numpy(), whole)
    np.testing.assert_array_equal(
        answers["transform"][0]["belief3"].to_numpy(), np.concatenate(fitted.transform(data))[:, 3]
    )
    for part, plain in zip(
        fitted.forecast(frame, 2, coverage=0.9), fitted.forecast(data, 2, coverage=0.9), strict=True
    ):
        np.testing.assert_array_equal(numbers(part), np.concatenate(list(plain)))


def test_hints_come_back_by_name_and_are_not_needed() -> None:
    frame = long_frame(np.arange).assign(pose=lambda f: 2 * f["a"])
    fitted = PSIM(**ONE).fit(Trajectories.from_frame(frame, id="run", time="when", channels=NAMES, hints=["pose"]))
    found = fitted.hints(pl.from_pandas(frame.drop(columns="pose")))
    assert found.columns == ["run", "when", "pose"]
    np.testing.assert_array_equal(found["pose"].to_numpy(), fitted.hints(frame)["pose"].to_numpy())


def test_columns_that_play_no_role_are_left_out() -> None:
    """The frame of fit comes back with all its columns; other columns are no channels either."""
    frame = long_frame().assign(note="windy", rig=7, pose=1.5)
    named = {"id": "run", "time": "when", "channels": NAMES}
    fitted = PSIM(**ONE).fit(Trajectories.from_frame(frame, **named))
    unnamed = PSIM(**ONE).fit(Trajectories.from_frame(frame[["note", "run", "when", *NAMES]], id="run", time="when"))
    for each, given in ((fitted, frame), (unnamed, frame), (hourly(), frame.assign(more=1.0))):
        for library in (pd.DataFrame, pl.from_pandas):
            np.testing.assert_array_equal(
                numbers(each.predict(library(given))), numbers(hourly().predict(long_frame()))
            )
            coming = each.forecast(library(given), 2)
            assert list(coming.columns) == ["run", "when", *NAMES]
            np.testing.assert_array_equal(numbers(coming), numbers(hourly().forecast(long_frame(), 2)))


def test_the_frame_of_fit_is_taken_after_loading(tmp_path: Path) -> None:
    """Columns that look like an id were left out by name in fit: the file knows it."""
    frame = long_frame().assign(
        patient=lambda f: f["run"].str[1:].astype(int), sample=lambda f: f.groupby("run").cumcount()
    )
    fitted = PSIM(**ONE).fit(Trajectories.from_frame(frame, id="run", time="when", channels=NAMES))
    fitted.save(tmp_path / "model.psim")
    np.testing.assert_array_equal(
        numbers(PSIM.load(tmp_path / "model.psim").predict(frame)),
        numbers(fitted.predict(frame[["run", "when", *NAMES]])),
    )


def test_an_id_under_another_name_is_asked_for() -> None:
    """Without its id the frame would be one recording."""
    renamed = long_frame().rename(columns={"run": "machine"})
    with pytest.raises(
        DataError, match=r"'machine' \(an id\?\), received none\. Call .*frame, id='machine', time='when'"
    ):
        hourly().predict(renamed)
    with pytest.raises(DataError, match=r"'aggregate' \(each value fills one block of rows: an id\?\)"):
        hourly().predict(renamed.rename(columns={"machine": "aggregate"}))
    with pytest.raises(DataError, match=r"'stamp' \(it holds dates: a time\?\)"):
        hourly().predict(long_frame().rename(columns={"when": "stamp"}))


def test_a_channel_that_is_missing_is_added_with_nan() -> None:
    frame = long_frame().drop(columns="b")
    plain = PSIM(**ONE).fit([pd.DataFrame(part, columns=NAMES) for part in several()])
    for fitted, lacking in ((hourly(), frame), (plain, frame[["a"]])):
        with pytest.raises(DataError, match="if a channel was not measured, add the column with NaN"):
            fitted.predict(lacking)
    found = hourly().predict(frame.assign(b=np.nan))
    expected = hourly().predict(Trajectories.from_frame(frame.assign(b=np.nan), id="run", time="when"))
    np.testing.assert_array_equal(numbers(found), np.concatenate(expected))


def test_a_single_recording_needs_no_id_and_rows_of_unknown_step_no_time() -> None:
    one = long_frame().query("run == 'r3'")
    np.testing.assert_array_equal(numbers(hourly().predict(one.drop(columns="run"))), model().predict(recording()))
    found = hourly().predict(one[NAMES])
    assert list(found.columns) == NAMES
    np.testing.assert_array_equal(numbers(found), model().predict(recording()))


def test_a_file_keeps_the_columns(tmp_path: Path) -> None:
    path = tmp_path / "model.psim"
    hourly().save(path)
    pd.testing.assert_frame_equal(PSIM.load(path).forecast(long_frame(), 2), hourly().forecast(long_frame(), 2))
    saved = io.read(path)
    for wrong in ({"id": 3}, {"inputs": [1]}, {"categories": {"mode": ["a", "a"]}}, {"categories": 1}, [1]):
        report = saved.notes["report"] | {"columns": wrong}
        io.save(saved.filter, path, notes=saved.notes | {"report": report}, arrays=saved.arrays)
        with pytest.raises(ModelFileError):
            PSIM.load(path)


@pytest.mark.filterwarnings("ignore:partial_fit:psimlearn.errors.PsimlearnWarning")  # a refit is due
def test_partial_fit_takes_frames_by_their_columns() -> None:
    frame = long_frame()
    data = Trajectories.from_frame(frame, id="run", time="when")
    ours, theirs = (PSIM(**ONE).fit(data) for _ in range(2))
    ours.partial_fit(pl.from_pandas(frame))
    theirs.partial_fit(data)
    np.testing.assert_array_equal(ours.forecast(several(), 3), theirs.forecast(several(), 3))


# -- set_output --------------------------------------------------------------------------------------------------------


def test_set_output_in_the_words_of_scikit_learn() -> None:
    fitted = clone(model()).fit(several())
    assert fitted.set_output() is fitted
    with config_context(transform_output="pandas"):
        assert isinstance(fitted.transform(recording()), pd.DataFrame)
        assert isinstance(clone(fitted).set_output("numpy").fit(several()).transform(recording()), np.ndarray)
    line = Pipeline([("scale", TrajectoryScaler()), ("filter", PSIM(**ONE))])
    line[-1].set_output(transform="polars")
    assert isinstance(line.fit(several()).transform(several())[0], pl.DataFrame)
    with pytest.raises(SettingsError, match="transform: required one of"):
        fitted.set_output("arrow")


def test_answers_that_would_hide_an_id_are_refused() -> None:
    frame = long_frame().rename(columns={"run": "log_likelihood"})
    fitted = PSIM(**ONE).fit(Trajectories.from_frame(frame, id="log_likelihood", time="when"))
    assert list(fitted.predict(frame).columns) == ["log_likelihood", "when", "a", "b"]
    with pytest.raises(DataError, match="other names than answers have"):
        fitted.score_samples(frame)


def test_nothing_that_came_in_is_altered() -> None:
    frame = long_frame()
    before = frame.copy()
    hourly().predict(frame)
    hourly().forecast(frame, 2)
    pd.testing.assert_frame_equal(frame, before)
