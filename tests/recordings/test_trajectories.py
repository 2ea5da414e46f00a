"""The gate: every way in gives the same packed rows, and whatever cannot be used is refused in words that help."""

import re
import subprocess
import sys
from dataclasses import replace
from datetime import date, datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_array_equal
from sklearn.model_selection import GroupKFold, train_test_split
from sklearn.utils import _safe_indexing

from psimlearn.errors import DataError, SettingsError
from psimlearn.recordings.trajectories import Trajectories, as_trajectories
from psimlearn.recordings.trajectory import Trajectory

nan, inf = np.nan, np.inf
SHORT, LONG = np.array([[1.0, 2], [nan, 4]]), np.array([[5.0, 6], [7, 8], [9, nan]])
ROWS, OFFSETS = np.concatenate([SHORT, LONG]), [0, 2, 5]
PUSH = [np.array([[10.0], [11]]), np.array([[12.0], [13], [14]])]  # inputs for SHORT and LONG
FULL = Trajectories.of([SHORT, LONG], PUSH, names=["x", "y"], ids=["a", "b"])
COUNTING = Trajectories.of([np.arange(10.0)[:, None], 20 + np.arange(2.0)[:, None], 30 + np.arange(7.0)[:, None]])
RAGGED = np.empty(2, dtype=object)  # what numpy makes of a ragged list
RAGGED[:] = SHORT, LONG

both_frames = pytest.mark.parametrize("Frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])


def refused(message: str, error: type[Exception] = DataError) -> Any:
    """The error whose message is this, with anything in the place of three dots."""
    return pytest.raises(error, match=".*".join(map(re.escape, message.split("..."))))


def assert_packed(made: Trajectories, rows: np.ndarray, offsets: list[int]) -> None:
    assert_array_equal(made.values, rows.astype(np.float64), strict=True)
    assert made.values.flags.c_contiguous
    assert made.offsets.tolist() == offsets


def assert_same(a: Trajectories, b: Trajectories) -> None:
    assert_packed(a, b.values, b.offsets.tolist())
    assert (a.inputs is None) == (b.inputs is None)
    assert_array_equal(a.inputs, b.inputs)
    assert (a.names, a.ids) == (b.names, b.ids)


# Every way in


@pytest.mark.parametrize(
    "recordings",
    [
        [SHORT, LONG],
        (SHORT, LONG),
        RAGGED,
        [Trajectory(SHORT), LONG],
        FULL,
        [SHORT.tolist(), LONG.tolist()],
        [SHORT.astype(np.float32), np.asfortranarray(LONG)],
        [[[1, 2], [None, 4]], np.array([[5, 6], [7, 8], [9, None]], dtype=object)],
        [pd.DataFrame(SHORT), pl.DataFrame(LONG)],
    ],
    ids=["list", "tuple", "object", "trajectory", "packed", "nested", "float32", "none", "frames"],
)
def test_ragged_forms(recordings: Any) -> None:
    assert_packed(as_trajectories(recordings), ROWS, OFFSETS)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.uint8, np.bool_, object])
def test_block_forms(dtype: Any) -> None:
    block = np.array([[[0, 1], [1, 1], [1, 0]], [[1, 0], [0, 0], [0, 1]]], dtype=dtype)
    assert_packed(Trajectories.of(block), block.reshape(6, 2), [0, 3, 6])
    assert_packed(Trajectories.of(block.tolist()), block.reshape(6, 2), [0, 3, 6])
    assert_packed(Trajectories.of(block[0]), block[0], [0, 3])


@pytest.mark.parametrize(
    ("recordings", "inputs"),
    [
        ([SHORT, LONG], [push.tolist() for push in PUSH]),
        ([Trajectory(SHORT, PUSH[0]), Trajectory(LONG, PUSH[1])], None),
        ([Trajectory(SHORT, -PUSH[0]), Trajectory(LONG)], PUSH),  # said outright, so it counts
        (FULL, None),
    ],
    ids=["arrays", "carried", "replaced", "packed"],
)
def test_forms_of_inputs(recordings: Any, inputs: Any) -> None:
    assert_same(Trajectories.of(recordings, inputs, names=("x", "y"), ids=["a", "b"]), FULL)


def test_channels_first() -> None:
    turned = RAGGED.copy()
    turned[:] = SHORT.T, LONG.T
    for recordings in (turned, list(turned)):
        assert_packed(Trajectories.from_channels_first(recordings, names=["x", "y"]), ROWS, OFFSETS)
    block = np.arange(12.0).reshape(2, 3, 2)
    assert_packed(Trajectories.from_channels_first(block), block.swapaxes(1, 2).reshape(4, 3), [0, 2, 4])
    assert_packed(Trajectories.from_channels_first(block[0]), block[0].T, [0, 2])


# Frames


@both_frames
def test_frame_with_everything(Frame: Any) -> None:
    frame = Frame(
        {
            "who": ["007", "b", "007", "b", "007"],  # interleaved, and a number only to the careless
            "when": [1, 5, 2, 6, 3],
            "x": [1, 2, None, 4, 5],
            "y": [0.5, nan, 2.5, None, 4.5],
            "note": ["p", "q", "r", "s", "t"],
            "u": [10, 11, 12, 13, 14],
        }
    )
    made = Trajectories.from_frame(frame, id="who", time="when", inputs=["u"])
    assert_packed(made, np.array([[1, 0.5], [nan, 2.5], [5, 4.5], [2, nan], [4, nan]]), [0, 3, 5])
    assert_array_equal(made.inputs, [[10.0], [12], [14], [11], [13]])
    assert (made.names, made.ids, made.step) == (("x", "y"), ("007", "b"), 1.0)
    chosen = Trajectories.from_frame(frame, id="who", channels=["y", "when"])
    assert (chosen.names, chosen.inputs) == (("y", "when"), None)
    assert_array_equal(chosen[1].values, [[nan, 5], [nan, 6]])


@both_frames
def test_frame_without_id_is_one_trajectory(Frame: Any) -> None:
    made = Trajectories.from_frame(Frame({"x": [3, 1, 2], "on": [True, False, True]}), channels=["x", "on"])
    assert_packed(made, np.array([[3, 1], [1, 0], [2, 1]]), [0, 3])
    assert made.ids is None


@pytest.mark.parametrize("dtype", ["Int64", "Float32", "boolean", "double[pyarrow]"])
def test_null_in_each_of_pandas_own_types(dtype: str) -> None:
    frame = pd.DataFrame({"x": pd.array([1, None, 0], dtype=dtype)}, index=[7, 7, 3])
    assert_packed(Trajectories.from_frame(frame, channels=["x"]), np.array([[1], [nan], [0]]), [0, 3])
    with refused("column 'x', frame row 1: required a trajectory id, received ... Fill it in or drop the row"):
        Trajectories.from_frame(frame.assign(y=1.0), id="x")


def test_numbered_columns_of_pandas() -> None:
    made = Trajectories.from_frame(pd.DataFrame(LONG))
    assert_packed(made, LONG, [0, 3])
    assert made.names == ("0", "1")


DAY, STARTS = timedelta(1), [0, 0.5, datetime(2024, 1, 31, 23), date(2024, 2, 28), timedelta(0)]


@both_frames
@pytest.mark.parametrize("start", STARTS, ids=lambda start: type(start).__name__)
def test_times_rise_within_each_trajectory(Frame: Any, start: Any) -> None:
    step: Any = {int: 1, float: 0.25}.get(type(start), DAY)
    early, late, latest = start, start + step, start + step + step

    def packed(*times: Any) -> Trajectories:
        frame = Frame({"who": ["b", "a", "a", "b"], "t": times, "x": range(4)})
        return Trajectories.from_frame(frame, id="who", time="t", channels=["x"])

    assert_array_equal(packed(late, early, latest, latest).values[:, 0], [0, 3, 1, nan, 2])  # one row is missing
    with refused("trajectory 'a', frame row 2: required times that rise, received ... after ... Pass sort=True"):
        packed(early, late, early, late)
    with refused("trajectory 'a', frame row 2: required one row for each time, ... twice. Pass duplicates='mean'"):
        packed(early, late, late, late)
    for row, times in enumerate([[early, None, late, late], [early, late, None, late]], 1):
        with refused(f"column 't', frame row {row}: required a time, received none. Drop the row"):
            packed(*times)


TABLE = {"id": ["a", "a", "b"], "x": [1.0, 2, 3], "text": ["p", "q", "r"]}


@both_frames
@pytest.mark.parametrize(
    ("changed", "options", "message"),
    [
        ({}, {"id": "who", "channels": ["x", "z"]}, "required columns ['who', 'z'], received ...'x', 'text']. Correct"),
        ({}, {"time": "t"}, "required columns ['t'], received a frame with ['id', 'x', 'text']. Correct the names"),
        ({}, {"channels": ["text"]}, "column 'text': required numbers, received String. Convert it"),
        ({}, {"id": "id", "hints": ["text"]}, "column 'text': required numbers, received String. Convert it"),
        (
            {},
            {"id": "id", "inputs": ["x"]},
            "at least one numeric column ... received ... 'text': 'String'}. Name channels=",
        ),
        ({}, {"channels": []}, "no channel left: required at least one ... received ... Name channels="),
        ({"id": ["a", None, "b"]}, {"id": "id"}, "'id', frame row 1: required ... id, received ... Fill it in"),
        ({"id": [1.0, 2.0, nan]}, {"id": "id"}, "'id', frame row 2: required ... id, received nan. Fill it in"),
        (
            {"t": [nan, 1, 2]},
            {"time": "t", "channels": ["x"]},
            "column 't', frame row 0: required a time, received none.",
        ),
        ({"x": [1.0, 2, inf]}, {"id": "id"}, "1 ('b'), row 0, column 0: required a finite ... received inf; use NaN"),
        (
            {"u": [1, None, 3]},
            {"id": "id", "inputs": ["u"]},
            "inputs, trajectory 0 ('a'), row 1, ...finite ... received nan; ...fill",
        ),
    ],
)
def test_frames_refused(Frame: Any, changed: dict[str, Any], options: dict[str, Any], message: str) -> None:
    with refused(message):
        Trajectories.from_frame(Frame(TABLE | changed), **options)


@both_frames
def test_empty_and_misplaced_frames_refused(Frame: Any) -> None:
    with refused("no rows: required at least one, received none. Check the filter"):
        Trajectories.from_frame(Frame(TABLE)[:0])
    for make in (Trajectories.of, Trajectories.from_channels_first):
        with refused("recordings: required arrays, received a data frame. Use Trajectories.from_frame("):
            make(Frame(TABLE))


# What is refused


@pytest.mark.parametrize(
    ("recordings", "message"),
    [
        ([SHORT, [[1, 2], [3, inf]]], "1, row 1, column 1: required a finite number, received inf; use NaN"),
        ([[[1, 2], [-inf, 3]], LONG], "0, row 1, column 0: required a finite number, received -inf; use NaN"),
        (np.zeros(3), "a list of (T, n) arrays, ... received one array of shape (3,). ... x.reshape(-1, 1)"),
        (np.zeros((2, 2, 2, 2)), "a list of (T, n) arrays, ... received one array of shape (2, 2, 2, 2)."),
        (np.array(None), "a list of (T, n) arrays, ... received one array of shape ()."),
        ("recordings.csv", "a list of (T, n) arrays, ... received str. Make it a list of numpy arrays first."),
        ((part for part in [SHORT]), "a list of (T, n) arrays, ... received generator. Make it a list"),
        ([SHORT, np.zeros(3)], "1: required a 2-D array (time, channel)...received shape (3,). ... x.reshape(-1, 1)"),
        ([1.0, 2.0], "0: required a 2-D array (time, channel) ... received shape ()."),
        ([np.zeros((1, 2, 2))], "0: required a 2-D array (time, channel) ... received shape (1, 2, 2)."),
        ([], "at least one trajectory, received none. Check that the recordings were loaded"),
        (np.zeros((0, 4, 2)), "at least one trajectory, received none. Check that the recordings were loaded"),
        (np.zeros((4, 0)), "0: required ... with at least one channel, received shape (4, 0)."),
        ([SHORT, [[1, 2], [3]]], "1: required a 2-D array ... received rows of unequal length: ... Mark ... with NaN"),
        ([SHORT, np.zeros((2, 3))], "1: required 2 channels as in trajectory 0, received 3. ... mark ... with NaN"),
        ([SHORT, np.zeros((0, 2))], "1: required at least 1 row, received none. Leave empty trajectories out"),
        ([SHORT, np.array([["1", "2"]])], "1, row 0: required numbers, received dtype <U1. Convert"),
        (SHORT * 1j, "0, row 0: required numbers, received dtype complex128. Convert"),
        (np.zeros((2, 1), "M8[s]"), "0, row 0: required numbers, received dtype datetime64[s]. Convert"),
        ([[[1, None], [2, "high"]]], "0, row 1, column 1: required a number, received 'high'. Convert or drop"),
        ([[[1, None], [2, "3.5"]]], "0, row 1, column 1: required a number, received '3.5'. Convert or drop"),
        ([[[1, None], [1j, 2]]], "0, row 1, column 0: required a number, received 1j. Convert or drop"),
        ([[[None, 10**400]]], "0, row 0, column 1: required a number, received 1000...000. Convert or drop"),
        ([Trajectory(SHORT, PUSH[0]), LONG], "1: required inputs with every ... received some ... Add its inputs"),
    ],
)
def test_recordings_refused(recordings: Any, message: str) -> None:
    with refused(f"trajectory {message}" if message[0].isdigit() else f"recordings: required {message}"):
        Trajectories.of(recordings)


def test_channels_first_refused() -> None:
    with refused("recordings: required a list of (T, n) arrays, ... received one array of shape (3,)."):
        Trajectories.from_channels_first(np.zeros(3))
    with refused("recordings: required a list of (T, n) arrays, ... received int. Make it a list"):
        Trajectories.from_channels_first(3)
    for part in (np.zeros(2), [[1, 2], [3]], Trajectory(SHORT)):  # a Trajectory has time first already
        with refused("trajectory 1: required a 2-D array ... received "):
            Trajectories.from_channels_first([SHORT, part])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"inputs": PUSH[:1]}, "inputs: required one array for each of the 2 trajectories, received 1. Give one"),
        ({"inputs": []}, "inputs: required one array for each of the 2 trajectories, received 0. Give one"),
        ({"inputs": PUSH[::-1]}, "inputs, trajectory 0 ('a'): required 2 rows ... received 3. Cut or extend"),
        ({"inputs": [PUSH[0]] * 2}, "inputs, trajectory 1 ('b'): required 3 rows ... received 2. Cut or extend"),
        ({"inputs": [PUSH[0], [[1], [2], [nan]]]}, "1 ('b'), row 2, ... finite ... received nan;...fill them in"),
        ({"inputs": [PUSH[0], [[1], [-inf], [2]]]}, "1 ('b'), row 1, ... finite ... received -inf;...fill them in"),
        ({"inputs": np.zeros(5)}, "inputs: required a list of (T, n) arrays, ... received one array of shape (5,)."),
        ({"inputs": [PUSH[0], LONG]}, "inputs, trajectory 1 ('b'): required 1 channels ... received 2."),
        ({"names": ["x"]}, "names must name every channel: required 2 names, received 1: ['x']. Give one name"),
        ({"ids": ["a", "b", "c"]}, "ids must name every trajectory: required 2, received 3. Give one id"),
    ],
)
def test_companions_refused(options: dict[str, Any], message: str) -> None:
    with refused(message):
        Trajectories.of([SHORT, LONG], **({"ids": ["a", "b"]} | options))


@pytest.mark.parametrize("offsets", [[0], [0, 4], [1, 5]])
def test_offsets_refused(offsets: list[int]) -> None:
    with refused(f"offsets must run from 0 to the number of rows, 5; received {offsets}"):
        Trajectories(ROWS, np.array(offsets))


# Choosing, cutting, putting together


def test_what_it_says_of_itself() -> None:
    assert (len(FULL), FULL.n_channels, FULL.n_inputs, FULL.lengths.tolist()) == (2, 2, 1, [2, 3])
    assert repr(FULL) == "Trajectories(2 trajectories, 5 rows, 2 channels, 1 inputs)"
    assert repr(COUNTING) == "Trajectories(3 trajectories, 19 rows, 1 channels)"
    assert COUNTING.n_inputs == 0
    assert as_trajectories(FULL) is FULL


@pytest.mark.parametrize("index", [1, -1, np.int64(1), np.int32(-1), np.uint8(1)])
def test_one_trajectory(index: int) -> None:
    one = FULL[index]
    assert isinstance(one, Trajectory)
    assert len(one) == 3
    assert_array_equal(one.values, LONG)
    assert_array_equal(one.inputs, PUSH[1])
    assert COUNTING[index].inputs is None


@pytest.mark.parametrize("index", [2, -3, np.int64(2), [0, 2]])
def test_out_of_range(index: Any) -> None:
    with pytest.raises(IndexError, match="out of"):
        FULL[index]


def test_iteration_goes_in_order() -> None:
    for part, values, inputs in zip(FULL, [SHORT, LONG], PUSH, strict=True):
        assert_array_equal(part.values, values)
        assert_array_equal(part.inputs, inputs)


@pytest.mark.parametrize(
    ("index", "chosen"),
    [
        (slice(1, 9), [1]),
        (slice(None, None, -1), [1, 0]),
        ([-1, 0, 1], [1, 0, 1]),
        (np.array([1, 0]), [1, 0]),
        ([False, True], [1]),
        (np.array([True, False]), [0]),
    ],
)
def test_several_trajectories(index: Any, chosen: list[int]) -> None:
    parts, inputs = [[SHORT, LONG][i] for i in chosen], [PUSH[i] for i in chosen]
    assert_same(FULL[index], Trajectories.of(parts, inputs, names=["x", "y"], ids=["ab"[i] for i in chosen]))


@pytest.mark.parametrize("index", [slice(0), [], [False, False], np.array([], dtype=int)])
def test_empty_selection_refused(index: Any) -> None:
    with refused(f"required at least one of the 2, received {index!r}. Check the condition"):
        FULL[index]


@pytest.mark.parametrize(("fraction", "n_second"), [(0.3, 3), (0.01, 1), (0.99, 9)])
def test_split_is_seeded_disjoint_and_complete(fraction: float, n_second: int) -> None:
    numbered = Trajectories.of(np.arange(10.0).repeat(3).reshape(10, 3, 1), ids=range(10))
    first, second = numbered.split(fraction, np.random.default_rng(4))
    numbers = [[part.values[0, 0] for part in half] for half in (first, second)]
    assert (len(second), sorted(numbers[0] + numbers[1])) == (n_second, list(range(10)))
    assert (first.ids, second.ids) == (tuple(numbers[0]), tuple(numbers[1]))
    assert_same(numbered.split(fraction, np.random.default_rng(4))[1], second)
    others = {numbered.split(fraction, np.random.default_rng(seed))[1].ids for seed in range(20)}
    assert len(others) > 1


@pytest.mark.parametrize(("recordings", "fraction"), [(FULL, 0.0), (FULL, 1.0), (FULL[:1], 0.5)])
def test_split_refused(recordings: Trajectories, fraction: float) -> None:
    with refused(f"at least 2 ... received {len(recordings)} trajectories and {fraction}. ... blocks()", SettingsError):
        recordings.split(fraction, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("length", "gap", "blocks"),
    [
        (3, 0, [[0, 1, 2], [3, 4, 5], [6, 7, 8], [20, 21], [30, 31, 32], [33, 34, 35]]),
        (3, 1, [[0, 1, 2], [4, 5, 6], [20, 21], [30, 31, 32], [34, 35, 36]]),
        (5, 0, [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9], [20, 21], [30, 31, 32, 33, 34]]),
        (2, 6, [[0, 1], [8, 9], [20, 21], [30, 31]]),
        (8, 0, [list(range(8)), [20, 21], list(range(30, 37))]),
        (1, 4, [[0], [5], [20], [30], [35]]),
        (99, 99, [list(range(10)), [20, 21], list(range(30, 37))]),
    ],
)
def test_blocks_by_hand(length: int, gap: int, blocks: list[list[float]]) -> None:
    assert [part.values[:, 0].tolist() for part in COUNTING.blocks(length, gap)] == blocks


def test_blocks_carry_inputs_and_names() -> None:
    inputs = np.array([10.0, 12, 14])[:, None, None]
    assert_same(FULL.blocks(1, gap=1), Trajectories.of(ROWS[[0, 2, 4], None], inputs, names=["x", "y"]))


@pytest.mark.parametrize(("length", "gap"), [(0, 0), (-1, 0), (2, -1)])
def test_blocks_refused(length: int, gap: int) -> None:
    wrong = f"gap: required a whole number of at least 0, received {gap}"
    wrong = f"length: required a whole number of at least 1, received {length}" if length < 1 else wrong
    with refused(wrong, SettingsError):
        COUNTING.blocks(length, gap)


def floats(T: int, n: int) -> st.SearchStrategy[np.ndarray]:
    return hnp.arrays(np.float64, (T, n), elements=st.floats(allow_infinity=False))


ragged = st.integers(1, 4).flatmap(
    lambda n: st.lists(st.integers(1, 6).flatmap(lambda T: floats(T, n)), min_size=1, max_size=6)
)


@settings(deadline=None)
@given(parts=ragged)
def test_unpacking_gives_back_every_bit(parts: list[np.ndarray]) -> None:
    made = Trajectories.of(parts)
    for back in (made.unpacked(made.values), [part.values for part in made]):
        assert [part.shape for part in back] == [part.shape for part in parts]
        assert [part.tobytes() for part in back] == [part.tobytes() for part in parts]


def test_unpacked_takes_any_shape_of_row() -> None:
    assert [part.tolist() for part in FULL.unpacked(np.arange(5.0))] == [[0, 1], [2, 3, 4]]
    assert [part.shape for part in FULL.unpacked(np.zeros((5, 3, 2)))] == [(2, 3, 2), (3, 3, 2)]


# Nobody else's arrays


def test_nothing_can_be_changed() -> None:
    held: list[Any] = [FULL.values, FULL.offsets, FULL.inputs, FULL[0].values, FULL[0].inputs, FULL[[1, 0]].values]
    for array in held:
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


def test_nothing_is_shared_with_the_caller() -> None:
    values, inputs, offsets = ROWS.copy(), np.concatenate(PUSH), np.array(OFFSETS)
    frame = pd.DataFrame(values, columns=["x", "y"])
    made = [
        Trajectories(values, offsets, inputs),
        Trajectories.of(values, inputs),
        Trajectories.of(values[None], inputs[None]),
        Trajectories.of([Trajectory(values, inputs)]),
        Trajectories.from_channels_first(values.T),
        Trajectories.from_frame(frame),
    ]
    values[:], inputs[:], offsets[1:], frame[:] = -1, -1, 1, -1  # the caller's arrays stay writeable, and the caller's
    for recordings in made:
        assert_array_equal(recordings.values, ROWS)
        assert recordings.inputs is None or recordings.inputs.tolist() == [[10], [11], [12], [13], [14]]
    assert made[0].offsets.tolist() == OFFSETS


# With scikit-learn


def test_train_test_split() -> None:
    numbered = Trajectories.of([np.full((T, 2), float(T)) for T in range(1, 9)], [np.ones((T, 1)) for T in range(1, 9)])
    train, test = (Trajectories.of(part) for part in train_test_split(numbered, test_size=0.25, random_state=0))
    assert (len(train), len(test)) == (6, 2)
    assert sorted([*train.lengths, *test.lengths]) == list(range(1, 9))
    assert all((part.values == len(part)).all() for part in [*train, *test])
    assert train.n_inputs == test.n_inputs == 1


def test_folds_by_group() -> None:
    seen = []
    for train, test in GroupKFold(2).split(COUNTING, groups=["a", "b", "a"]):
        assert_same(Trajectories.of(_safe_indexing(COUNTING, train)), COUNTING[train])
        assert_same(Trajectories.of(_safe_indexing(COUNTING, test)), COUNTING[test])
        seen.append(sorted(COUNTING[test].lengths))
    assert sorted(seen) == [[2], [7, 10]]


def test_masked_entries_are_missing() -> None:
    masked = np.ma.MaskedArray([[1.0, 2.0], [3.0, 4.0]], mask=[[False, True], [False, False]])
    np.testing.assert_array_equal(Trajectories.of([masked]).values, [[1, np.nan], [3, 4]])


def test_packing_again_keeps_names_and_ids() -> None:
    again = Trajectories.of(Trajectories.of([np.zeros((2, 1))], names=["a"], ids=["run 7"]))
    assert (again.names, again.ids) == (("a",), ("run 7",))


def test_unpacked_refuses_other_rows() -> None:
    with pytest.raises(DataError, match="required one entry for each of 3 rows, received 4"):
        Trajectories.of(np.zeros((3, 1))).unpacked(np.zeros((4, 1)))


def test_lazy_frames_are_refused() -> None:
    with pytest.raises(DataError, match="Collect a lazy frame"):
        Trajectories.from_frame(pl.LazyFrame({"x": [1.0]}))


def test_the_room_imports_numpy_only() -> None:
    """A program that only runs a filter loads neither frames, nor tables, nor scikit-learn."""
    code = (
        "import sys, psimlearn.recordings\n"
        "print(sorted({'narwhals', 'pandas', 'polars', 'pyarrow', 'scipy', 'sklearn'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_rows_keep_their_times() -> None:
    """Through selection, blocks, iteration and packing again; a hole has times too; unknown where some are unknown."""
    frame = pd.DataFrame({"id": [1] * 4 + [2] * 3, "t": [0, 1, 2, 4, 10, 11, 12], "x": np.arange(7.0)})
    data = Trajectories.from_frame(frame, id="id", time="t")

    def ticks(of: Any) -> list[float]:
        assert of.times is not None
        assert of.times.kind == "number"
        return list(of.times.ticks)

    assert ticks(data) == [0, 1, 2, 3, 4, 10, 11, 12]
    assert ticks(data[[1]]) == ticks(data[1]) == [10, 11, 12]
    assert ticks(data.blocks(2)) == [0, 1, 2, 3, 10, 11]
    assert ticks(Trajectories.of(list(data)[::-1])) == [10, 11, 12, 0, 1, 2, 3, 4]
    assert Trajectories.of([data[0], np.zeros((2, 1))]).times is None
    with refused("times: required one for each of 8 rows, received 3."):
        replace(data, times=data[1].times)
