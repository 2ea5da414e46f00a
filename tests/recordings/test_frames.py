"""Frames as they come: matched by name, ids and times recognised or asked for, errors without data."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_array_equal

from psimlearn.errors import DataError, PsimlearnError, SettingsError
from psimlearn.recordings.forms import received
from psimlearn.recordings.trajectories import Trajectories

nan = np.nan
both = pytest.mark.parametrize("Frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
SECRET = 31337.25
LONG = {"id": ["b", "a", "b", "a", "b"], "t": [0, 0, 1, 1, 3], "x": [1.0, 2, 3, 4, 5], "y": [6.0, 7, 8, 9, SECRET]}


# -- several frames ----------------------------------------------------------------------------------------------------


@both
def test_frames_are_matched_by_name(Frame: Any) -> None:
    a, b = Frame({"x": [1.0, 2], "y": [3.0, 4]}), Frame({"y": [5.0], "x": [6.0]})
    for made in (Trajectories.of([a, b]), received([a, b]).trajectories, Trajectories.from_frame([a, b])):
        assert_array_equal(made.values, [[1, 3], [2, 4], [6, 5]])
        assert (made.names, made.offsets.tolist()) == (("x", "y"), [0, 2, 3])


@both
@pytest.mark.parametrize(
    ("other", "said"),
    [
        (
            {"x": [SECRET], "z": [1.0]},
            r"frame 1: required the channels \['x', 'y'\] as in frame 0, received none called",
        ),
        ({"x": [SECRET]}, r"received none called \['y'\]. Channels are matched by name: rename"),
        ({"x": [SECRET], "y": [1.0], "z": [1.0]}, r"as in frame 0, received further columns \['z'\]"),
        ({"x": [SECRET], "y": ["word"]}, r"frame 1: column 'y': required numbers, received String. Convert it"),
        (
            {"x": [SECRET], "y": [1.0], "time": [1.0]},
            r"frame 1: required the meaning of the column 'time' \(a time\?\)",
        ),
    ],
)
def test_other_columns_are_named_and_no_data_are_shown(Frame: Any, other: dict[str, Any], said: str) -> None:
    frames = [Frame({"x": [1.0, 2], "y": [3.0, 4]}), Frame(other)]
    for read in (Trajectories.of, received):
        with pytest.raises(DataError, match=said) as error:
            read(frames)
        assert "31337" not in str(error.value)
        assert "word" not in str(error.value)


@both
def test_dictionaries_of_frames_are_recordings(Frame: Any) -> None:
    frames = {"left": Frame({"x": [1.0, 2], "y": [3.0, 4]}), 7: Frame({"y": [5.0], "x": [6.0]})}
    for made in (Trajectories.of(frames), received(frames).trajectories, Trajectories.from_frame(frames)):
        assert_array_equal(made.values, [[1, 3], [2, 4], [6, 5]])
        assert (made.names, made.ids) == (("x", "y"), ("left", 7))
    answers = received(frames).returned(np.arange(6.0).reshape(3, 2), channels=True)
    assert list(answers) == ["left", 7]
    assert_array_equal(answers[7], [[4, 5]])
    arrays = Trajectories.of({"a": np.zeros((2, 1)), "b": [[1.0]]})
    assert (arrays.ids, arrays.lengths.tolist()) == (("a", "b"), [2, 1])


@both
def test_several_frames_with_times(Frame: Any) -> None:
    frames = {
        "p": Frame({"when": ["2024-01-01", "2024-01-02"], "x": [1, 2]}),
        "q": Frame({"when": ["2024-03-01", "2024-03-04"], "x": [3, 4]}),
    }
    made = Trajectories.from_frame(frames, time="when")
    assert_array_equal(made.values[:, 0], [1, 2, 3, nan, nan, 4])
    assert made.step == 86400.0


def test_bare_columns_go_by_place() -> None:
    made = Trajectories.of([pd.DataFrame([[1.0, 2]]), pl.DataFrame(np.array([[3.0, 4]])), np.array([[5.0, 6]])])
    assert_array_equal(made.values, [[1, 2], [3, 4], [5, 6]])
    assert made.names is None
    mixed = Trajectories.of([np.array([[5.0, 6]]), pd.DataFrame({"y": [1.0], "x": [2.0]})])
    assert mixed.names == ("y", "x")
    with pytest.raises(DataError, match="frame 1: required 2 channels as in frame 0, received 1"):
        Trajectories.of([pd.DataFrame([[1.0, 2]]), pd.DataFrame([[1.0]])])


def test_inputs_in_frames_are_matched_by_name_too() -> None:
    push = [pd.DataFrame({"u": [1.0], "v": [2.0]}), pd.DataFrame({"v": [4.0], "u": [3.0]})]
    made = Trajectories.of([np.zeros((1, 1)), np.zeros((1, 1))], push)
    assert_array_equal(made.inputs, [[1, 2], [3, 4]])


def test_trajectories_in_a_list_are_matched_by_name() -> None:
    a = Trajectories.of([[[1.0, 2]]], names=["x", "y"])
    b = Trajectories.of([[[3.0, 4]]], names=["y", "x"])
    assert_array_equal(Trajectories.of([*a, *b]).values, [[1, 2], [4, 3]])
    with pytest.raises(DataError, match="trajectory 1: required the channels"):
        Trajectories.of([*a, *Trajectories.of([[[3.0, 4]]], names=["y", "z"])])


# -- one frame ---------------------------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize(
    ("drop", "call"),
    [([], "id='id', time='t'"), (["t"], "id='id'"), (["id"], "time='t'")],
)
def test_ids_and_times_are_asked_for(Frame: Any, drop: list[str], call: str) -> None:
    frame = Frame({name: column for name, column in LONG.items() if name not in drop})
    for read in (received, Trajectories.from_frame):
        with pytest.raises(DataError, match="required the meaning of the column") as error:
            read(frame)
        assert f"Call Trajectories.from_frame(frame, {call});" in str(error.value)
    options: dict[str, Any] = eval(f"dict({call})") | ({"duplicates": "mean", "sort": True} if "id" in drop else {})
    assert Trajectories.from_frame(frame, **options).names == ("x", "y")  # the call is right
    assert Trajectories.from_frame(frame, channels=["x"]).names == ("x",)  # nothing is asked


@both
def test_a_text_column_is_refused_without_data(Frame: Any) -> None:
    with pytest.raises(DataError, match=r"column 'word': required numbers, received String\. Convert it") as error:
        received(Frame({"x": [1.0, SECRET], "word": ["hush", "secret"]}))
    assert "secret" not in str(error.value)


def test_two_levels_of_an_index_are_id_and_time() -> None:
    frame = pd.DataFrame(LONG).set_index(["id", "t"])
    for made in (Trajectories.from_frame(frame), received(frame).trajectories):
        assert_array_equal(made.values[:, 0], [1, 3, nan, 5, 2, 4])
        assert (made.ids, made.names, made.step) == (("b", "a"), ("x", "y"), 1.0)
    given = received(frame)
    answer = given.returned(given.trajectories.values * 2, channels=True)
    pd.testing.assert_frame_equal(answer, frame * 2)  # the caller's rows in the caller's order
    coming = given.one_each(np.arange(8.0).reshape(2, 2, 2))
    assert coming.index.tolist() == [("b", 4), ("b", 5), ("a", 2), ("a", 3)]
    assert_array_equal(coming.to_numpy(), np.arange(8.0).reshape(4, 2))
    assert given._replace(output="numpy").one_each(np.zeros((2, 4, 2))).shape == (2, 4, 2)
    named = Trajectories.from_frame(pd.DataFrame(LONG).set_index(["t", "id"]), id="id", time="t")
    assert_array_equal(named.values, made.values)


@pytest.mark.parametrize("names", [["t", "id"], ["Time", None], [None, "Run"], ["t", "machine_id"]])
def test_levels_that_are_called_the_other_way_round_are_time_and_id(names: list[Any]) -> None:
    frame = pd.DataFrame(LONG)
    expected = Trajectories.from_frame(frame, id="id", time="t")
    made = received(frame.set_index(["t", "id"]).rename_axis(names)).trajectories
    assert_array_equal(made.values, expected.values)
    assert (made.ids, made.step) == (expected.ids, 1.0)
    unnamed = frame.set_index(["id", "t"]).rename_axis([None, None])
    assert received(unnamed).trajectories.ids == expected.ids


@both
def test_any_column_of_ids_and_any_column_of_dates_are_asked_for(Frame: Any) -> None:
    with pytest.raises(DataError, match=r"Call Trajectories.from_frame\(frame, id='Machine_ID', time='ts'\)"):
        received(Frame({"Machine_ID": [1, 1], "part_id": [1, 2], "ts": [0.0, 1], "x": [0.5, 2]}))
    with pytest.raises(
        DataError,
        match=r"'started' \(it holds dates: a time\?\).* Call Trajectories.from_frame\(frame, time='started'\)",
    ):
        received(Frame({"started": pd.to_datetime(["2024-01-01", "2024-01-02"]), "x": [0.5, 2]}))


def test_other_indices() -> None:
    frame = pd.DataFrame(LONG)
    with pytest.raises(DataError, match=r"index of two levels, the id and the time, received 3: \['id', 't', 'x'\]"):
        received(frame.set_index(["id", "t", "x"]))
    with pytest.raises(DataError, match=r"index 'id' looks like the id.*from_frame\(frame, id='id'\)"):
        received(frame.drop(columns="t").set_index("id"))
    assert Trajectories.from_frame(frame.drop(columns="t").set_index("id"), id="id").ids == ("b", "a")
    plain = pd.DataFrame({"x": [1.0, 2, 3]}, index=[5, 1, 9])  # numbers of rows, whatever they are
    assert received(plain).trajectories.step is None


@pytest.mark.parametrize(
    "index",
    [
        pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-04"]),
        pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-04"]).tz_localize("Europe/Berlin"),
        pd.to_timedelta([0, 1, 3], "D"),
        pd.Index([0.0, 86400, 3 * 86400], name="Time"),
        pd.PeriodIndex(["2024-01-01", "2024-01-02", "2024-01-04"], freq="D"),
    ],
    ids=["dates", "zone", "durations", "name", "periods"],
)
def test_an_index_of_dates_is_the_time(index: Any) -> None:
    given = received(pd.DataFrame({"x": [1.0, 2, 3]}, index=index))
    assert_array_equal(given.trajectories.values[:, 0], [1, 2, nan, 3])
    assert given.trajectories.step == pytest.approx(86400.0)
    assert_array_equal(given.returned(np.arange(4.0)[:, None], channels=True)["x"], [0, 1, 3])


def test_an_id_in_one_of_several_frames_is_refused() -> None:
    frame = pd.DataFrame(LONG).set_index(["id", "t"])
    with pytest.raises(DataError, match="frame 0: required one recording in each of several frames"):
        Trajectories.of([frame])
    with pytest.raises(DataError, match="required different names, received a name twice"):
        received(pd.DataFrame([[1.0, 2]], columns=["x", "x"]))


# -- times in frames ---------------------------------------------------------------------------------------------------


def at(times: Any, Frame: Any = pd.DataFrame, **options: Any) -> Trajectories:
    return Trajectories.from_frame(Frame({"when": times, "x": np.arange(float(len(times)))}), time="when", **options)


@both
def test_text_times_are_times(Frame: Any) -> None:
    assert at(["8", "9", "10"], Frame).step == 1.0  # "9" was refused after "10" as text
    clock = ["2024-03-31T01:59:59+01:00", "2024-03-31T03:00:00+02:00", "2024-03-31T03:00:01+02:00"]
    assert at(clock, Frame).step == 1.0
    with pytest.raises(DataError, match="column 'when', frame row 0: required a time as a number or in ISO 8601"):
        at(["12/20/2023", "01/01/2024"], Frame)  # was taken, as text
    said = at(["12/20/2023", "12/21/2023"], Frame, time_format="%m/%d/%Y")
    assert said.step == 86400.0
    with pytest.raises(DataError, match="frame row 1: required numbers as in the rows before"):
        at(["1", "2024-01-01"], Frame)


@both
def test_a_hole_is_filled(Frame: Any) -> None:
    made = at([*range(40), *range(100, 120)], Frame)
    assert len(made.values) == 120
    assert np.isnan(made.values[40:100]).all()
    assert at([*range(40), *range(100, 120)], Frame, step=None).lengths.tolist() == [60]


@both
def test_mending_where_asked(Frame: Any) -> None:
    assert at([2, 0, 1], Frame, sort=True).values[:, 0].tolist() == [1, 2, 0]
    assert at([0, 1, 1, 2], Frame, duplicates="mean").values[:, 0].tolist() == [0, 1.5, 3]
    assert at(np.arange(5) * 0.5, Frame, step="1s", resample=True).step == 1.0
    with pytest.raises(DataError, match="required a row every 500 ms, received a row every 1 s"):
        at(np.arange(5.0), Frame, step="500ms")
    with pytest.raises(SettingsError, match="sort, duplicates and resample: required a time"):
        Trajectories.from_frame(Frame({"x": [1.0, 2]}), sort=True)
    assert Trajectories.from_frame(Frame({"x": [1.0, 2]}), step="20Hz").step == 0.05


@pytest.mark.parametrize("unit", ["ns", "us", "ms", "s"])
def test_dates_of_every_resolution(unit: str) -> None:
    times = np.array(["2024-01-01", "2024-01-02", "2024-01-04"], "M8[D]").astype(f"M8[{unit}]")
    assert at(times).lengths.tolist() == [4]
    if unit != "s":
        assert at(times, pl.DataFrame).lengths.tolist() == [4]
    if unit != "ns":
        late = np.array(["3000-01-01", "3000-01-02"], "M8[D]").astype(f"M8[{unit}]")
        with pytest.raises(DataError, match="between the years 1678 and 2261"):
            at(late)


def test_inputs_are_not_guessed_in_holes() -> None:
    frame = pd.DataFrame({"when": [0, 1, 3], "x": [1.0, 2, 3], "u": [1.0, 2, 3]})
    with pytest.raises(DataError, match="trajectory 0, after frame row 1: required inputs at every step"):
        Trajectories.from_frame(frame, time="when", inputs=["u"])
    assert len(Trajectories.from_frame(frame, time="when", inputs=["u"], step=None).values) == 3


def test_objects_that_are_numbers() -> None:
    made = received(pd.DataFrame({"x": [1, None, 2.5], "y": [True, 2, 3]}, dtype=object)).trajectories
    assert_array_equal(made.values, [[1, 1], [nan, 2], [2.5, 3]])
    with pytest.raises(DataError, match="column 'x': required numbers, received Object"):
        received(pd.DataFrame({"x": [1, "2"]}, dtype=object))


FRAME = pd.DataFrame({"k": [[1], [2]], "x": [1.0, 2.0], "w": ["1", "2"]})


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda: Trajectories.from_frame(np.zeros((3, 2))), "required a pandas or polars data frame.*received ndarray"),
        (lambda: Trajectories.from_frame(FRAME, id="k"), "column 'k', frame row 0: required a number or text as id"),
        (lambda: Trajectories.from_frame(FRAME, time=["x"]), "time: required the name of one column"),
        (lambda: Trajectories.from_frame(FRAME, channels="x"), "channels: required a list of names, received 'x'"),
        (lambda: Trajectories.from_frame(FRAME, time="w", time_format=3), "format: required text such as"),
        (lambda: received(FRAME[["x"]].set_index(pd.to_datetime(["2024", None]))), "the index, frame row 1: required"),
        (lambda: Trajectories.of({}), "required at least one trajectory, received none"),
        (lambda: received({"a": [1.0, 2.0]}), "required a 2-D array"),
    ],
)
def test_mistakes_are_told(read: Any, message: str) -> None:
    with pytest.raises(PsimlearnError, match=message):
        read()


# -- the step goes along -----------------------------------------------------------------------------------------------


def test_the_step_goes_along() -> None:
    data = Trajectories.of([np.zeros((6, 1)), np.ones((7, 1))], step="50ms")
    assert data.step == data[0].step == data[:1].step == data.blocks(2).step == 0.05
    assert Trajectories.of(list(data)).step == Trajectories.of(data).step == 0.05
    assert data.split(0.5, np.random.default_rng(0))[0].step == 0.05
    other = Trajectories.of([np.zeros((600, 1))], step=0.1)
    with pytest.raises(
        DataError, match=r"trajectory 2: required a row every 50 ms as in trajectory 0, received.*100 ms"
    ):
        Trajectories.of([*data, *other])
    assert Trajectories.of([*data, np.zeros((3, 1))]).step == 0.05
    with pytest.raises(
        DataError, match="trajectory 0: required a row every 50 ms by step=, received a row every 100 ms"
    ):
        Trajectories.of(list(other), step=0.05)
    dated = pd.DataFrame({"x": [1.0, 2]}, index=pd.to_datetime(["2024-01-01", "2024-01-04"]))
    assert len(Trajectories.of([dated], step="1d").values) == 4
