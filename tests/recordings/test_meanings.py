"""Columns that are ids, times or counters by their names or their cells, and channels that look a little like them."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from psimlearn.errors import DataError
from psimlearn.recordings.meanings import suspects
from psimlearn.recordings.trajectories import Trajectories

RUNS, ROWS = 4, 25
N = RUNS * ROWS


def told(columns: dict[str, Any], groups: Any = None, *, timed: bool = False) -> dict[str, str]:
    return {name: suspect.what for name, suspect in suspects(columns, groups, timed=timed).items()}


def walks(seed: int = 0) -> np.ndarray:
    """A channel of several recordings, one below the other."""
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.standard_normal() * 9 + np.cumsum(rng.standard_normal(ROWS)) for _ in range(RUNS)])


BLOCKS = np.repeat([3, 7, 4, 9], ROWS)
SAMPLES = np.tile(np.arange(ROWS), RUNS)
IDS: dict[str, Any] = {
    "numbers": BLOCKS,
    "numbers from 0 on": np.repeat(np.arange(RUNS), ROWS),
    "words": np.repeat(["m3", "m7", "m4", "m9"], ROWS).tolist(),
    "two words": np.repeat(["left", "right"], 2 * ROWS).tolist(),
}
COUNTERS: dict[str, Any] = {
    "from 0 on in each recording": SAMPLES,
    "from 1 on": SAMPLES + 1,
    "over all rows": np.arange(N),
    "years": 1900 + np.arange(N),
    "every tenth": 10 * SAMPLES,
    "seconds": SAMPLES * 0.05,
    "seconds at 30 Hz, in milliseconds": np.round(SAMPLES / 30, 3),
    "ms at 30 Hz": np.rint(SAMPLES * 1000 / 30).astype(int),
    "clock that goes on": np.arange(N) * 0.1 + 1.7e9,
    "a few frames dropped": np.delete(np.arange(N + 3), [20, 50, 51]),
}


@pytest.mark.parametrize("name", IDS)
def test_values_that_fill_a_block_each_are_an_id(name: str) -> None:
    assert told({"x": walks(), "part": IDS[name]}) == {"part": "id"}
    assert told({"x": walks(), "part": IDS[name]}, SAMPLES * 0) == {}  # there is an id already
    assert told({"x": walks(), "part": IDS[name]}, timed=True) == {"part": "id"}


def test_recordings_of_unequal_length() -> None:
    lengths, rng = [5, 40, 35, 20], np.random.default_rng(8)
    x = np.concatenate([10 * i + np.cumsum(rng.standard_normal(n)) for i, n in enumerate(lengths)])
    part, counter = np.repeat([1, 2, 3, 4], lengths), np.concatenate([np.arange(n) for n in lengths])
    assert told({"x": x, "part": part}) == {"part": "id"}
    assert told({"x": x, "part": part, "n": counter}) == {"part": "id", "n": "time"}
    assert told({"x": rng.standard_normal(100), "part": part}) == {"part": "id"}  # of noise nobody can tell


@pytest.mark.parametrize("name", COUNTERS)
def test_numbers_that_count_up_are_a_time(name: str) -> None:
    assert told({"x": walks(), "n": COUNTERS[name]}) == {"n": "time"}
    assert told({"x": walks(), "n": COUNTERS[name], "part": BLOCKS}) == {"n": "time", "part": "id"}
    restarts = bool((np.diff(COUNTERS[name]) < 0).any())
    assert told({"x": walks(), "n": COUNTERS[name]}, timed=True) == ({"n": "time"} if restarts else {})


@pytest.mark.parametrize("id", ["numbers", "words"])
def test_recordings_that_take_turns(id: str) -> None:
    """Rows in the order of time: each time comes once for each id."""
    turned = np.arange(N).reshape(RUNS, ROWS).T.ravel()
    columns = {"x": walks()[turned], "n": SAMPLES[turned], "part": np.array(IDS[id])[turned]}
    columns["part"] = columns["part"].tolist() if id == "words" else columns["part"]
    assert told(columns) == {"n": "time", "part": "id"}
    assert told({"x": columns["x"], "n": columns["n"]}, BLOCKS[turned]) == {"n": "time"}


def _steps() -> np.ndarray:
    rng = np.random.default_rng(1)
    return np.repeat(rng.integers(-5, 6, 20), 5)


CHANNELS: dict[str, Any] = {
    "a binary flag": (np.random.default_rng(0).random(N) < 0.5).astype(int),
    "a fault flag that goes on": (np.arange(N) >= 60).astype(int),
    "a flag that goes on and off": ((np.arange(N) // 30) % 2).astype(int),
    "a flag that changes in each row": np.arange(N) % 2,
    "a constant": np.full(N, 7),
    "a step of a set point": np.where(np.arange(N) < 50, 20, 25),
    "set points that are no whole numbers": np.repeat([20.5, 21.5, 19.5, 25.5], ROWS),
    "set points as floats": np.repeat([20.0, 21.0, 19.0, 25.0], ROWS),
    "whole set points that come again": _steps(),
    "a gear": np.repeat([1, 2, 3, 2, 1, 2, 3, 4, 3, 2], 10),
    "an encoder": np.cumsum(np.random.default_rng(2).integers(0, 5, N)),
    "an encoder that never stands still": np.cumsum(np.random.default_rng(2).integers(80, 120, N)),
    "pulses": np.random.default_rng(3).poisson(2.0, N),
    "a quantised sine": np.rint(10 * np.sin(np.arange(N) / 5)).astype(int),
    "a sine": np.sin(np.arange(N) / 5),
    "an angle that wraps": np.mod(np.arange(N) * 0.37, 2 * np.pi),
    "a triangle": np.abs(np.arange(N) % 40 - 20),
    "an energy meter": np.cumsum(np.random.default_rng(4).random(N)),
    "a ramp with noise": np.arange(N) + 0.2 * np.random.default_rng(5).standard_normal(N),
    "numbers with empty cells": np.where(np.arange(N) == 50, np.nan, np.arange(N)),
    "words that come again": np.tile(np.repeat(["slow", "fast"], 10), N // 20).tolist(),
    "one word": ["windy"] * N,
    "notes": [f"note {i}" for i in range(N)],
    "few rows": np.arange(9),
}


@pytest.mark.parametrize("name", CHANNELS)
def test_channels_are_no_ids_and_no_times(name: str) -> None:
    columns = {"x": walks()[: len(CHANNELS[name])], "y": CHANNELS[name]}
    assert told(columns) == told(columns, timed=True) == {}


def test_whole_numbers_at_random_are_channels() -> None:
    """Flags, levels, counts and walks of whole numbers beside a channel that goes on, in 2000 columns."""
    rng = np.random.default_rng(6)
    odd = []
    for _ in range(500):
        n, stays = int(rng.integers(20, 400)), rng.random() * 0.2
        switches = np.cumsum(rng.random(n) < stays)
        levels = rng.integers(0, int(rng.integers(2, 40)), n + 1)[switches]
        columns = {"flag": switches % 2, "level": levels, "walk": np.cumsum(rng.integers(-1, 2, n))}
        columns["count"] = rng.poisson(rng.random() * 5, n)
        x = np.cumsum(rng.standard_normal(n))
        odd += [name for name, column in columns.items() if told({"x": x, "y": column})]
    assert len(odd) <= 10
    assert set(odd) <= {"level"}  # a few levels that never come back, where the walk jumped by chance


def test_a_set_point_is_told_from_an_id_by_what_the_channels_do() -> None:
    """A staircase of whole numbers: a lagging channel goes on at its edges, and jumps where recordings begin."""
    level = np.repeat([20, 60, 40, 80], ROWS)
    lagging = np.zeros(N)
    for t in range(1, N):
        lagging[t] = 0.9 * lagging[t - 1] + 0.1 * level[t - 1]
    assert told({"x": lagging, "y": level}) == {}
    assert told({"x": walks(), "y": level}) == {"y": "id"}
    assert told({"x": lagging, "y": level, "n": SAMPLES}) == {"y": "id", "n": "time"}  # a counter begins anew


NAMES = {
    "id": [
        "machine",
        "subject",
        "patient",
        "participant",
        "device",
        "asset",
        "vehicle",
        "session",
        "Machine",
        "part_id",
    ],
    "time": ["Zeit", "Zeitstempel", "datum", "Time [s]", "t (s)", "seconds"],
}


@pytest.mark.parametrize(("what", "name"), [(what, name) for what, names in NAMES.items() for name in names])
def test_names_that_tell(what: str, name: str) -> None:
    assert told({"x": walks(), name: walks(1)}) == {name: what}


@pytest.mark.parametrize("name", ["unit", "track", "engine"])
def test_names_that_tell_an_id_if_the_cells_agree(name: str) -> None:
    again = np.tile(np.repeat([1, 2], 10), N // 20)  # rows of two recordings, in turn
    assert told({"x": walks(), name: again}) == told({"x": walks(), name: again.astype(str).tolist()}) == {name: "id"}
    assert told({"x": walks(), name: 180 + walks(1)}) == {}


@pytest.mark.parametrize("name", ["sample", "frame", "index", "cycle"])
def test_names_that_tell_a_counter_if_the_cells_rise(name: str) -> None:
    uneven = np.cumsum(np.random.default_rng(7).integers(1, 9, N))
    assert told({"x": walks(), name: uneven}) == {name: "time"}
    assert told({"x": walks(), "y": uneven}) == {}
    assert told({"x": walks(), name: walks(1)}) == {}


def test_an_id_is_sure_beside_other_names() -> None:
    several = {"subject": BLOCKS, "id": np.repeat(np.arange(2 * RUNS), ROWS // 2 + 1)[:N], "x": walks()}
    assert told(several) == {"id": "id"}
    assert told({"frame_id": SAMPLES, "x": walks()}) == {"frame_id": "time"}  # another one in each row


def test_dates_are_no_ids() -> None:
    days = np.repeat(["2024-01-01", "2024-01-02", "2024-01-03", "2024-01-04"], ROWS).tolist()
    clocks = [f"{i:02}:00:00" for i in SAMPLES]
    assert told({"Date": days, "Time": clocks, "x": walks()}) == {"Date": "time"}
    assert told({"d": days, "x": walks()}) == {"d": "time"}
    assert told({"d": days, "x": walks()}, timed=True) == {}


def test_a_frame_without_other_channels_is_a_channel() -> None:
    assert told({"x": np.arange(N)}) == {}
    assert told({"t": np.arange(N)}) == {"t": "time"}


# -- frames ------------------------------------------------------------------------------------------------------------

both = pytest.mark.parametrize("Frame", [pd.DataFrame, pl.DataFrame])


@both
def test_the_call_of_the_error_reads_the_frame(Frame: Any) -> None:
    frame = Frame({"part": BLOCKS, "n": SAMPLES, "x": walks()})
    with pytest.raises(DataError) as error:
        Trajectories.from_frame(frame)
    assert str(error.value) == (
        "required the meaning of the columns 'part' (each value fills one block of rows: an id?) and 'n' (it counts "
        "up: a time?), received none. Call Trajectories.from_frame(frame, id='part', time='n'); else name the channels "
        "there: channels=['x'], and this one if it is one."
    )
    made = Trajectories.from_frame(frame, id="part", time="n")
    assert made.ids == (3, 7, 4, 9)
    assert made.names == ("x",)
    np.testing.assert_array_equal(made.values[:, 0], walks())
    assert Trajectories.from_frame(frame, channels=["x", "n"]).names == ("x", "n")  # the user knows better
    with pytest.raises(DataError, match=r"Call Trajectories.from_frame\(frame, id='part', time='n'\)"):
        Trajectories.from_frame(frame, id="part")
    with pytest.raises(DataError, match=r"Call .*id='part', time='n', inputs=\['u'\]\)"):
        Trajectories.from_frame(Frame({"part": BLOCKS, "n": SAMPLES, "x": walks(), "u": walks(1)}), inputs=["u"])


@both
def test_true_and_false_and_missing_numbers_are_no_ids(Frame: Any) -> None:
    columns = {"x": walks(), "on": (np.arange(N) > 50).tolist(), "level": [None, *BLOCKS[1:].tolist()]}
    assert Trajectories.from_frame(Frame(columns)).names is not None


def test_words_that_tell_recordings_apart_are_not_left_out_in_silence() -> None:
    frame = pd.DataFrame({"part": IDS["words"], "x": walks()})
    for words in (frame, frame.astype({"part": "category"}), pl.from_pandas(frame)):
        with pytest.raises(DataError, match=r"'part' \(each value fills one block of rows: an id\?\)"):
            Trajectories.from_frame(words)


def test_each_of_several_frames_is_one_recording() -> None:
    frames = [pd.DataFrame({"level": BLOCKS, "x": walks(i)}) for i in range(3)]
    assert len(Trajectories.from_frame(frames)) == 3
    with pytest.raises(DataError, match=r"frame 0: required the meaning of the column 'n' \(it counts up: a time\?\)"):
        Trajectories.from_frame([frame.assign(n=np.arange(N)) for frame in frames])
