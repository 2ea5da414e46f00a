"""Rows through a pipe: the answers are those to whole recordings, at once, in flat memory, whatever else comes by."""

import csv
import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modelfiles import situated
from psimlearn import Ridge, Stack, Trajectories
from psimlearn.cli import sessions
from psimlearn.cli import stream as streaming
from psimlearn.cli.stream import stream
from psimlearn.errors import DataError
from psimlearn.evaluate.calibrate import with_calibration
from psimlearn.files.model import save
from psimlearn.filter import Features, Filter, OneHotProduct, Scaling, SecondMoment, StackSquares
from psimlearn.filter.live import Live
from psimlearn.filter.tabulate import answer_names, answers_to
from psimlearn.learners.symbolic import SymbolRidge
from psimlearn.serve.rows import Wanted
from psimlearn.train import Recipe, dagger

RNG = np.random.default_rng
CHANNELS = ("a", "b")


def recordings(n: int = 6, length: int = 30, gaps: float = 0.1) -> Trajectories:
    rng = np.random.default_rng(3)
    u = rng.standard_normal((n, length, 1))
    x = np.cumsum(0.3 * u + 0.2 * rng.standard_normal((n, length, 2)), axis=1)
    x[rng.random(x.shape) < gaps] = np.nan
    x[:, 12:14] = np.nan  # nothing at all for a while
    return Trajectories.of(x, u, names=CHANNELS)


def learnt(features: Features = Stack(3), inputs: bool = False, feedthrough: bool = False) -> Filter:
    data = recordings()
    data = data if inputs else replace(data, inputs=None)
    recipe = Recipe(lags=2, feedthrough=feedthrough)
    rounds = dagger(data, data, features, Ridge(1e-3), rng=np.random.default_rng(0), n_rounds=1, recipe=recipe)
    last = list(rounds)[-1].filter
    return replace(with_calibration(last, [(last, data)]), names=CHANNELS)


@cache
def plain() -> Filter:
    """The filter of most tests: of means, without inputs, calibrated."""
    return learnt()


def through(
    filter: Filter,
    chunks: Sequence[bytes],
    wanted: Wanted = Wanted(CHANNELS, (), None, None),
    steps: int = 1,
    header: Sequence[str] | None = None,
) -> str:
    """What comes out when chunks go in one after the other."""
    source, end = os.pipe()
    out = io.BytesIO()

    def write() -> None:
        for chunk in chunks:
            os.write(end, chunk)
        os.close(end)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        stream(filter, wanted, steps, source, out, header)
    finally:
        os.close(source)
        writer.join()
    return out.getvalue().decode()


def cell(value: float) -> str:
    return "" if np.isnan(value) else repr(float(value))


def lines_of(rows: np.ndarray) -> list[bytes]:
    return [(",".join(map(cell, row)) + "\n").encode() for row in rows]


def parsed(text: str) -> np.ndarray:
    return np.array([[float(value or "nan") for value in row] for row in list(csv.reader(io.StringIO(text)))[1:]])


CASES: dict[str, Callable[[], Filter]] = {
    "means": plain,
    "a local scale": lambda: situated(plain()),
    "variances": lambda: learnt(StackSquares(3)),
    "moments": lambda: learnt(SecondMoment(2)),
    "inputs": lambda: learnt(inputs=True),
    "inputs at once": lambda: learnt(inputs=True, feedthrough=True),
    "uncalibrated": lambda: replace(plain(), calibration=None),
}


@pytest.mark.parametrize("case", CASES)
def test_a_pipe_answers_as_to_a_whole_recording(case: str) -> None:
    filter, one = CASES[case](), recordings()[:1]
    with_inputs = filter.input_scaling is not None
    data = one if with_inputs else replace(one, inputs=None)
    steps = 2 if with_inputs else 6  # without inputs, beyond the window too
    rows = np.concatenate([data.values, data.inputs], axis=1) if data.inputs is not None else data.values
    names = CHANNELS + ("u",) * with_inputs
    wanted = Wanted(CHANNELS, names[2:], None, None)
    text = through(filter, [(",".join(names) + "\n").encode(), *lines_of(rows)], wanted, steps)
    assert text.splitlines()[0] == ",".join(answer_names(CHANNELS, steps))
    expected = answers_to(filter, data, steps)
    np.testing.assert_allclose(parsed(text), expected, rtol=1e-8, atol=1e-10)
    if case == "inputs at once":  # a pipe does not know the next input yet: what comes next is told as if it stayed
        assert data.inputs is not None
        held = replace(data, inputs=np.concatenate([data.inputs[:29], data.inputs[28:29]]))
        np.testing.assert_allclose(parsed(text)[28], answers_to(filter, held[:1], steps)[28], rtol=1e-8, atol=1e-10)
    assert np.isnan(parsed(text)[:, 3]).any() == (case == "uncalibrated")


@pytest.mark.parametrize("at_once", [False, True])
def test_a_model_of_an_older_file_answers_without_the_deviations_that_it_does_not_know(at_once: bool) -> None:
    """Deviations for unknown inputs were not measured: their cells are empty, and the pipe goes on."""
    filter, data = learnt(inputs=True, feedthrough=at_once), recordings()[:1]
    old = replace(filter, calibration_blind=None, calibration_next=None)
    names = answer_names(CHANNELS, 2)
    empty = np.isnan(answers_to(old, data, 2)).all(axis=0)
    unknown = {"ahead2.std", "ahead1.std"} if at_once else {"ahead2.std"}
    assert [name for name, e in zip(names, empty, strict=True) if e] == [
        name for name in names if name.partition(".")[2] in unknown
    ]
    np.testing.assert_array_equal(answers_to(old, data, 2)[:, ~empty], answers_to(filter, data, 2)[:, ~empty])


def test_lines_together_or_one_by_one_or_cut_anywhere_are_the_same() -> None:
    lines = [b"a,b\n", *lines_of(recordings()[0].values)]
    whole = b"".join(lines)
    pieces = [whole[i : i + 7] for i in range(0, len(whole), 7)]
    expected = parsed(through(plain(), [whole]))
    assert len(expected) == 30
    np.testing.assert_allclose(parsed(through(plain(), lines)), expected, rtol=1e-11)
    np.testing.assert_allclose(parsed(through(plain(), [whole.rstrip(b"\n")])), expected, rtol=1e-11)
    np.testing.assert_allclose(parsed(through(plain(), pieces)), expected, rtol=1e-11)


@pytest.mark.parametrize(
    "dialect",
    [
        lambda text: b"\xef\xbb\xbf" + text,
        lambda text: text.replace(b",", b";"),
        lambda text: text.replace(b",", b"\t"),
        lambda text: text.replace(b"\n", b"\r\n"),
        lambda text: b"\n\n" + text.replace(b"\n", b"\n\n"),
        lambda text: text.replace(b"a,b\n", b'"a" , "b"\n').replace(b'"a" ', b'"a"').replace(b' "b"', b'"b"'),
        lambda text: text.replace(b",\n", b",NA\n").replace(b"\n,", b"\nnull,"),
        lambda text: text + text[:4],
    ],
    ids=["BOM", "semicolons", "tabs", "CRLF", "empty lines", "quotes", "NA", "header again"],
)
def test_dialects(dialect: Callable[[bytes], bytes]) -> None:
    text = b"".join([b"a,b\n", *lines_of(recordings()[0].values)])
    changed = dialect(text)
    assert changed != text
    np.testing.assert_array_equal(parsed(through(plain(), [changed])), parsed(through(plain(), [text])))


def test_columns_in_any_order_with_others_between() -> None:
    x = recordings()[0].values
    rows = [b"note,b,a\n", *(f'"x, y",{cell(b)},{cell(a)}\n'.encode() for a, b in x)]
    expected = parsed(through(plain(), [b"a,b\n", *lines_of(x)]))
    np.testing.assert_array_equal(parsed(through(plain(), rows)), expected)


def test_recordings_may_alternate() -> None:
    data = replace(recordings()[:3], inputs=None)
    wanted = Wanted(CHANNELS, (), "id", "t")
    rows = [
        f"r{i},{t},{cell(a)},{cell(b)}\n".encode() for t in range(30) for i in (2, 0, 1) for a, b in [data[i].values[t]]
    ]
    text = through(plain(), [b"id,t,a,b\n", *rows], wanted)
    head, *answers = csv.reader(io.StringIO(text))
    assert head[:3] == ["id", "t", "log_likelihood"]
    assert [row[:2] for row in answers[:4]] == [["r2", "0"], ["r0", "0"], ["r1", "0"], ["r2", "1"]]
    for i in range(3):
        own = np.array([[float(v or "nan") for v in row[2:]] for row in answers if row[0] == f"r{i}"])
        np.testing.assert_allclose(own, answers_to(plain(), data[[i]], 1), rtol=1e-8, atol=1e-10)


def test_ids_are_text() -> None:
    """7 and 007 are two recordings: the second begins where nothing was seen."""
    wanted = Wanted(CHANNELS, (), "id", None)
    _, first, second, third = csv.reader(io.StringIO(through(plain(), [b"id,a,b\n7,1,2\n007,1,2\n7,1,2\n"], wanted)))
    assert (first[0], second[0]) == ("7", "007")
    assert first[1:] == second[1:]
    assert third[1:] != first[1:]


def test_the_recording_that_was_silent_longest_is_forgotten_and_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sessions, "MOST_SESSIONS", 2)
    wanted = Wanted(CHANNELS, (), "id", None)
    text = through(plain(), [b"id,a,b\n0,1,2\n1,1,2\n0,1,2\n2,1,2\n0,1,2\n1,1,2\n"], wanted)
    _, zero, one, again, _, third, forgotten = csv.reader(io.StringIO(text))
    assert zero[1:] == one[1:] == forgotten[1:]
    assert again[1:] != third[1:]
    said = capsys.readouterr().err
    assert said.count("required at most 2 recordings at a time, received more") == 1
    assert "recordings were forgotten 2 times" in said


def test_json_lines() -> None:
    data = replace(recordings()[:1], inputs=None)
    wanted = Wanted(CHANNELS, (), "id", "t")
    lines = [
        json.dumps({"t": t, "id": "x", "more": [1], "b": b, **({} if np.isnan(a) else {"a": a})}).replace("NaN", "null")
        + "\n"
        for t, (a, b) in enumerate(data.values.tolist())
    ]
    answers = [json.loads(line) for line in through(plain(), [line.encode() for line in lines], wanted, 2).splitlines()]
    assert list(answers[0]) == ["id", "t", *answer_names(CHANNELS, 2)]
    assert [(answer["id"], answer["t"]) for answer in answers] == [("x", t) for t in range(30)]
    told = [[np.nan if value is None else value for value in list(answer.values())[2:]] for answer in answers]
    np.testing.assert_allclose(told, answers_to(plain(), data, 2), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"1,2,3\n", "line 3: required 2 cells as in the header, received 3: '1,2,3'. Left out."),
        (b"1\n", "line 3: required 2 cells as in the header, received 1: '1'. Left out."),
        (b"ERR,2\n", "line 3, column 'a': required a number, received 'ERR'."),
        (b"1_0,2\n", "line 3, column 'a': required a number, received '1_0'."),
        (b"inf,2\n", "line 3, column 'a': required a finite number, received inf. Taken as not observed."),
        (b'"1,5",2\n', "line 3, column 'a': required a number with a decimal point, received '1,5', with other marks."),
        (b"\xff\xfe,2\n", "line 3, column 'a': required a number"),
    ],
)
def test_a_bad_row_is_named_and_the_stream_goes_on(line: bytes, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = through(plain(), [b"a,b\n0.1,0.2\n" + line + b"0.3,0.4\n"])
    assert said in capsys.readouterr().err
    assert len(text.splitlines()) == 4  # every row has its answer
    whole = said.endswith("Left out.")
    clean = through(plain(), [b"a,b\n0.1,0.2\n" + (b"" if whole else b",2\n") + b"0.3,0.4\n"])
    assert text.splitlines()[-1] == clean.splitlines()[-1]
    if whole:
        assert set(text.splitlines()[2]) == {","}
        assert text.splitlines()[:2] == clean.splitlines()[:2]


@pytest.mark.parametrize(
    "line",
    [
        b"{\n",
        b"[1, 2]\n",
        b'{"a": "x", "b": 2}\n',
        b'{"a": [true], "b": 2}\n',
        b"[" * 5000 + b"\n",
        b'{"a": 1' + b"0" * 309 + b', "b": 2}\n',
        b'{"a": 1' + b"0" * 5000 + b', "b": 2}\n',
        b'{"a": 1, "b": Infinity}\n',
    ],
    ids=lambda line: repr(line[:20]),
)
def test_bad_json_is_named_and_the_stream_goes_on(line: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    good = b'{"a": 0.1, "b": 0.2}\n'
    text = through(plain(), [good + line + good])
    assert "line 2" in capsys.readouterr().err
    answers = [json.loads(answer) for answer in text.splitlines()]
    assert len(answers) == 3
    assert all(answer["log_likelihood"] is not None for answer in (answers[0], answers[2]))


def test_damaged_rows_are_answered_or_left_out_one_by_one(capsys: pytest.CaptureFixture[str]) -> None:
    """One character of each line is replaced by another: every line keeps its answer, and most are not left out."""
    rng = np.random.default_rng(0)
    lines = []
    for line in (f"{a:.3f},{b:.3f}" for a, b in rng.standard_normal((200, 2))):
        place = int(rng.integers(len(line)))
        lines.append(line[:place] + "0123456789-.,;x"[rng.integers(15)] + line[place + 1 :])
    answers = through(plain(), ["\n".join(["a,b", *lines]).encode()]).splitlines()[1:]
    left_out = sum(set(answer) == {","} for answer in answers)
    assert len(answers) == len(lines)
    assert 0 < left_out < 50
    assert capsys.readouterr().err.splitlines()[-1] == f"psimlearn: {left_out} of 201 lines were left out."


@pytest.mark.parametrize(
    ("times", "said"),
    [
        (("1", "3", "2"), "line 4: required times that rise, or an id for a new recording, received 2 after 3."),
        (("1", "2", "2"), "line 4: required times that rise"),
        (("2026-01-01", "2026-01-02T00:00:01", "2026-01-02"), "line 4: required times that rise"),
        (("1", "2", "2026-01-02"), "line 4: required times of one kind"),
        (("1", "2", "noon"), "line 4: required a time as a number or in ISO 8601"),
        (("1", "2", "inf"), "line 4: required a time as a number or in ISO 8601"),
        (("1", "2", "nan"), "line 4: required a time as a number or in ISO 8601"),
    ],
)
def test_times_must_rise(times: Sequence[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    rows = "".join(f"{time},1,2\n" for time in times)
    text = through(plain(), [f"t,a,b\n{rows}".encode()], Wanted(CHANNELS, (), None, "t"))
    assert said in capsys.readouterr().err
    assert len(text.splitlines()) == 4
    assert set(text.splitlines()[3]) == {","}


def test_inputs_that_were_not_observed_leave_a_row_out(capsys: pytest.CaptureFixture[str]) -> None:
    filter, wanted = learnt(inputs=True), Wanted(CHANNELS, ("u",), None, None)
    text = through(filter, [b"a,b,u\n1,2,3\n1,2,\n2,1,3\n"], wanted)
    clean = through(filter, [b"a,b,u\n1,2,3\n2,1,3\n"], wanted)
    assert "line 3" in capsys.readouterr().err
    assert text.splitlines()[3] == clean.splitlines()[2]


def test_rows_without_a_header() -> None:
    lines = lines_of(recordings()[0].values)
    expected = through(plain(), [b"a,b\n", *lines])
    assert through(plain(), lines, header=["a", "b"]) == expected
    swapped = [b";".join(reversed(line.strip().split(b","))) + b"\n" for line in lines]
    assert through(plain(), swapped, header=["b", "a"]) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "required rows, received nothing"),
        (b"\n \n", "required rows, received nothing"),
        (b"1,2\n3,4\n", "required the names of the columns, received numbers"),
        (b"a,c\n1,2\n", r"required columns \['b'\] as the model was learnt with, received \['a', 'c'\]"),
        (b"a,b,a\n1,2,3\n", "required different names"),
    ],
)
def test_streams_that_are_none(text: bytes, said: str) -> None:
    with pytest.raises(DataError, match=said):
        through(plain(), [text])


def test_a_header_alone_gets_a_header_alone() -> None:
    assert through(plain(), [b"a,b\n"]).splitlines() == [",".join(answer_names(CHANNELS, 1))]


def test_an_empty_line_is_a_row_of_a_single_channel() -> None:
    data = Trajectories.of(recordings().values[:, :1].reshape(6, 30, 1), names=["a"])
    rounds = dagger(data, data, Stack(2), Ridge(1e-3), rng=np.random.default_rng(0), n_rounds=0)
    text = through(next(rounds).filter, [b"a\n1\n\n2\n"], Wanted(("a",), (), None, None))
    assert [line.split(",")[0] == "0" for line in text.splitlines()[1:]] == [False, True, False]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_lines_that_are_too_long_are_left_out(
    end: bytes, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Wherever the pieces are cut; the rows around a long line have the answers that they would have without it."""
    monkeypatch.setattr(streaming, "LONGEST", 1000)
    lines = [b"a,b", b"0.1,0.2", b"1" * 5000, b"0.3,0.4", b"," * 1001, b"0.5,0.6"]
    clean = through(plain(), [end.join(line for line in lines if len(line) < 1000) + end]).splitlines()
    whole = end.join(lines) + end
    for size in (1, 7, 999, 1000, 1001, len(whole)):
        monkeypatch.setattr(streaming, "AT_ONCE", size)
        answers = through(plain(), [whole]).splitlines()
        assert "line 3: required at most 1000 bytes, received more. Left out." in capsys.readouterr().err
        assert [line for line in answers if set(line) != {","}] == clean
        assert [set(line) == {","} for line in answers] == [False, False, True, False, True, False]
    with pytest.raises(DataError, match="required a first line of at most 1000 bytes"):
        through(plain(), [b"x" * 1001])


def test_a_long_last_line_without_end_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "LONGEST", 1000)
    answers = through(plain(), [b"a,b\n0.1,0.2\n" + b"1" * 5000])
    assert [set(line) == {","} for line in answers.splitlines()] == [False, False, True]


TIMED = Wanted(CHANNELS, (), "id", "t")


def timed(times: Sequence[Any], wanted: Wanted = TIMED) -> list[dict[str, Any]]:
    rows = [[None if np.isnan(x) else x for x in row] for row in recordings()[0].values.tolist()]
    lines = [json.dumps({"t": time, "a": rows[i][0], "b": rows[i][1]}) for i, time in enumerate(times)]
    text = through(plain(), ["\n".join(lines).encode()], wanted)
    return [json.loads(line) for line in text.splitlines()]


def test_a_wrong_time_does_not_silence_a_stream(capsys: pytest.CaptureFixture[str]) -> None:
    """One time far in the future costs two rows, and then the recording goes on with all that it knew."""
    answers = timed([0, 1, 2, 999999999, *range(4, 12)])
    left_out = [i for i, answer in enumerate(answers) if answer["log_likelihood"] is None]
    assert left_out == [4, 5]
    said = capsys.readouterr().err
    assert "line 5: required times that rise, or an id for a new recording, received 4 after 999999999." in said
    assert "line 7, the time 999999999 was wrong: the recording goes on at 6." in said
    kept = [row for i, row in enumerate(recordings()[0].values[:12]) if i not in left_out]
    expected = answers_to(plain(), Trajectories.of([np.array(kept)]), 1)[:, 0]
    told = [answer["log_likelihood"] for i, answer in enumerate(answers) if i not in left_out]
    np.testing.assert_allclose(told, expected, rtol=1e-8, atol=1e-10)


def test_a_clock_that_was_set_back_begins_a_new_recording(capsys: pytest.CaptureFixture[str]) -> None:
    answers = timed([100, 101, 102, 103, *range(8)])
    left_out = [i for i, answer in enumerate(answers) if answer["log_likelihood"] is None]
    assert left_out == [4, 5]
    assert "line 7, times begin again at 2: a new recording begins here" in capsys.readouterr().err
    expected = answers_to(plain(), Trajectories.of([recordings()[0].values[6:12]]), 1)[:, 0]
    np.testing.assert_allclose([a["log_likelihood"] for a in answers[6:]], expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(
    "time", [float("nan"), float("inf"), "nan", True, [1], {"a": 1}, 10**400, "x" * 10**6], ids="{!r:.20}".format
)
def test_times_that_are_none_cost_one_row(time: Any, capsys: pytest.CaptureFixture[str]) -> None:
    answers = timed([0, 1, time, 3, 4])
    assert [answer["log_likelihood"] is None for answer in answers] == [False, False, True, False, False]
    assert "line 3: required a" in (said := capsys.readouterr().err)
    assert len(said) < 1000


STEPPED = Wanted(CHANNELS, (), "id", "t", step=0.5)


def with_holes(x: np.ndarray, steps: Sequence[int]) -> np.ndarray:
    """Rows at these steps, and rows in which nothing was observed between them."""
    filled = np.full((steps[-1] + 1, x.shape[1]), np.nan)
    filled[list(steps)] = x
    return filled


def test_rows_that_were_missed_count_as_not_observed(capsys: pytest.CaptureFixture[str]) -> None:
    """A model that knows its step: a row that is 28 steps late is answered as after 27 empty rows."""
    steps = [0, 1, 2, 30, 31, 33]
    answers = timed([10 + 0.5 * step + 0.01 * (step % 3) for step in steps], STEPPED)
    filled = with_holes(recordings()[0].values[:6], steps)
    expected = answers_to(plain(), Trajectories.of([filled]), 1)[steps]
    received = np.array([[np.nan if v is None else v for v in list(a.values())[2:]] for a in answers])
    np.testing.assert_allclose(received, expected, rtol=1e-8, atol=1e-10)
    said = capsys.readouterr().err
    assert "line 4, 27 rows were missed; they count as not observed." in said
    assert "line 6, a row was missed; it counts as not observed." in said
    assert said.count("missed") == 2


@pytest.mark.parametrize("feedthrough", [False, True])
def test_inputs_of_rows_that_were_missed_stay(feedthrough: bool) -> None:
    filter, data, steps = learnt(inputs=True, feedthrough=feedthrough), recordings()[:1], [0, 1, 4, 5]
    assert data.inputs is not None
    x, u = data.values[:4], data.inputs[:4]
    rows = [f"{t},{cell(a)},{cell(b)},{cell(v)}\n".encode() for t, (a, b), (v,) in zip(steps, x, u, strict=True)]
    text = through(filter, [b"t,a,b,u\n", *rows], Wanted(CHANNELS, ("u",), None, "t", step=1.0))
    held = u[[0, 1, 1, 1, 2, 3]]
    expected = answers_to(filter, Trajectories.of([with_holes(x, steps)], [held]), 1)[steps]
    received = np.array([[float(v or "nan") for v in line.split(",")[1:]] for line in text.splitlines()[1:]])
    np.testing.assert_allclose(received, expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("rate", [3.0, 2.0, 1.4, 1.2, 0.8, 0.5])
def test_another_rate_is_noticed(rate: float, capsys: pytest.CaptureFixture[str]) -> None:
    """As many rows count as steps have passed: others are left out, and rows that are missing are not observed."""
    answers = timed([0.5 / rate * i for i in range(30)], STEPPED)
    taken = sum(answer["log_likelihood"] is not None for answer in answers)
    missed = capsys.readouterr().err.count("a row was missed")
    assert abs(taken + missed - 29 / rate) <= 2
    assert taken == 30 if rate < 1 else taken < 30


def test_jitter_and_drift_of_a_clock_are_forgiven(capsys: pytest.CaptureFixture[str]) -> None:
    jitter = np.random.default_rng(0).uniform(-0.2, 0.2, 30)
    answers = timed([0.5 * (1.01 * i + e) for i, e in enumerate(jitter.tolist())], STEPPED)
    assert all(answer["log_likelihood"] is not None for answer in answers)
    assert capsys.readouterr().err == ""


def test_a_glitch_of_a_stream_with_a_step_costs_one_row(capsys: pytest.CaptureFixture[str]) -> None:
    answers = timed([0, 0.5, 999999999, 1.5, 2], STEPPED)
    assert [answer["log_likelihood"] is None for answer in answers] == [False, False, True, False, False]
    said = capsys.readouterr().err
    assert "line 3: required at most 1000 missed rows of 500 ms, received 999999999 after 0.5." in said
    assert "line 4, a row was missed" in said


def test_a_long_silence_begins_a_new_recording(capsys: pytest.CaptureFixture[str]) -> None:
    answers = timed([0, 0.5, *(86400 + 0.5 * i for i in range(6))], STEPPED)
    assert [answer["log_likelihood"] is None for answer in answers] == [False, False, True, True, *[False] * 4]
    assert "line 5, 86401.0 is far from 0.5: a new recording begins here" in capsys.readouterr().err
    expected = answers_to(plain(), Trajectories.of([recordings()[0].values[4:8]]), 1)[:, 0]
    np.testing.assert_allclose([a["log_likelihood"] for a in answers[4:]], expected, rtol=1e-8, atol=1e-10)


def test_times_in_a_format_of_their_own() -> None:
    wanted = Wanted(CHANNELS, (), None, "t", time_format="%d/%m/%Y", step=86400.0)
    text = through(plain(), [b"t,a,b\n30/12/2023,1,2\n31/12/2023,1,2\n01/01/2024,1,2\n02/01/2024,1,2\n"], wanted)
    assert text == through(
        plain(),
        [b"t,a,b\n30/12/2023,1,2\n31/12/2023,1,2\n01/01/2024,1,2\n02/01/2024,1,2\n"],
        wanted._replace(step=None),
    )
    assert not any(set(line) == {","} for line in text.splitlines())


@pytest.mark.parametrize("at_once", [True, False])
def test_a_channel_in_other_units_is_told_once(at_once: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """The channel, the factor and the line, when it comes first; later rows and rows within the range are not told."""
    filter = learnt(inputs=True)
    x, u = filter.scaling.mean, filter.input_scaling.mean if filter.input_scaling else np.zeros(1)
    wrong, wrong_input = x + np.array([0, 300]) * filter.scaling.scale, u + 1000
    rows = [[*x, *u], [*wrong, *u], [*wrong, *u], [*x, *wrong_input], [*wrong, *wrong_input], [*x, *u]]
    lines = [b"a,b,u\n", *lines_of(np.array(rows))]
    chunks = [b"".join(lines)] if at_once else lines
    assert len(parsed(through(filter, chunks, Wanted(CHANNELS, ("u",), None, None)))) == len(rows)
    said = capsys.readouterr().err
    assert (
        "line 3, channel 'b' lies 300 standard deviations from the mean of the training data. Check its units" in said
    )
    assert "line 5, input 0 lies" in said
    assert said.count("standard deviations") == 2


def test_late_rows_in_turn_do_not_move_a_stream_back() -> None:
    """Two sources that take turns, one of them a little late: the late one is left out for ever."""
    answers = timed([time for t in range(10, 18) for time in (t, t - 0.5)])
    assert [answer["log_likelihood"] is None for answer in answers] == [False] + [True, False] * 7 + [True]


@pytest.mark.parametrize("line", [b'{"x": 1, "y": 2}', b"{}", b'{"t": 1}', b'{"A": 1, " b": 2}'])
def test_json_without_any_channel_is_left_out(line: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    good = b'{"a": 0.1, "b": 0.2}'
    answers = [json.loads(a) for a in through(plain(), [b"\n".join([good, line, good])]).splitlines()]
    assert [answer["log_likelihood"] is None for answer in answers] == [False, True, False]
    assert "line 2: required at least one of the channels ['a', 'b'], received the names" in capsys.readouterr().err
    nothing = [json.loads(a) for a in through(plain(), [b'{"a": null}\n' + good]).splitlines()]
    assert nothing[0]["log_likelihood"] == 0  # said to be not observed


def test_a_stream_of_which_no_row_could_be_used_is_an_error() -> None:
    with pytest.raises(DataError, match="received 3 lines of which none could be used"):
        through(plain(), [b'{"x": 1}\n' * 3])


@pytest.mark.parametrize("id", ["[1]", '{"a": 2}', '"' + "x" * 1001 + '"', r'"\udc80"'])
def test_ids_that_are_none_are_left_out(id: str) -> None:
    good = '{"id": "x", "a": 0.1, "b": 0.2}\n'
    text = through(plain(), [(good + good.replace('"x"', id) + good).encode()], Wanted(CHANNELS, (), "id", None))
    assert [json.loads(a)["log_likelihood"] is None for a in text.splitlines()] == [False, True, False]


# -- symbols -----------------------------------------------------------------------------------------------------------


@cache
def of_symbols() -> Filter:
    data = Trajectories.of_symbols([["a", "b", "a", "b", 7, "a"] * 5] * 4)
    learner = SymbolRidge(OneHotProduct(2))
    rounds = dagger(data, data, OneHotProduct(2), learner, rng=RNG(0), n_rounds=1, recipe=Recipe.for_symbols(2))
    return list(rounds)[-1].filter


def symbols_through(text: bytes) -> str:
    return through(of_symbols(), [text], Wanted(("letter",), (), None, None, of_symbols().alphabet), 2)


SPOKEN = ["a", "b", None, 7, "a", "b"]


def test_symbols_are_answered_by_probabilities() -> None:
    expected = answers_to(of_symbols(), Trajectories.of_symbols([SPOKEN], alphabet=of_symbols().alphabet), 2)
    head, *rows = csv.reader(io.StringIO(symbols_through(b"letter\na\nb\n\n7\n a \nb\n")))
    names = [f"{symbol}.{what}" for what in ("expected", "ahead1", "ahead2") for symbol in (7, "a", "b")]
    assert head == ["log_likelihood", *names]
    kept = [0, *(1 + 6 * j + i for j in range(3) for i in range(3))]
    numbers = np.array(rows, dtype=float)
    np.testing.assert_allclose(numbers, expected[:, kept], rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(numbers[:, 1:].reshape(6, 3, 3).sum(axis=2), 1)
    lines = "\n".join(json.dumps({"letter": symbol}) for symbol in SPOKEN)
    answers = [json.loads(line) for line in symbols_through(lines.encode()).splitlines()]
    assert list(answers[0]) == head
    np.testing.assert_allclose([list(answer.values()) for answer in answers], numbers, rtol=1e-8)


@pytest.mark.parametrize("cell", ["z", "0.5", "1e400", "-1"])
def test_symbols_that_the_model_does_not_know_are_not_observed(cell: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = symbols_through(f"letter\na\n{cell}\nb\n".encode()).splitlines()
    assert lines == symbols_through(b"letter\na\nNA\nb\n").splitlines()
    assert f"line 3, column 'letter': required one of [7, 'a', 'b'], received '{cell}'" in capsys.readouterr().err
    for value in ("true", "[1]", '{"a": 1}', "0.5", "1e400", '"' + cell + '"'):
        answers = symbols_through(b'{"letter": "a"}\n{"letter": %b}\n' % value.encode()).splitlines()
        assert json.loads(answers[1])["log_likelihood"] == 0


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="asks Linux how much memory was used")
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="asks Linux how much memory was used")
def test_memory_stays_flat(tmp_path: Path) -> None:
    """Four times as many rows take no more at their peak."""
    process = piped(tmp_path)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("a,b\n")
    process.stdout.readline()

    def peak_after(n_rows: int) -> int:
        """KiB."""
        rows, answers = process.stdin, process.stdout
        assert rows is not None
        assert answers is not None
        writer = threading.Thread(target=lambda: rows.write("0.123456789,0.987654321\n" * n_rows))
        writer.start()
        for _ in range(n_rows):
            assert answers.readline()
        writer.join()
        status = Path(f"/proc/{process.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0])

    few, many = peak_after(20_000), peak_after(60_000)
    process.communicate()
    assert many - few < 2048


def piped(folder: Path) -> subprocess.Popen[str]:
    save(plain(), folder / "m.psim")
    command = [sys.executable, "-m", "psimlearn", "filter", str(folder / "m.psim")]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)


def test_each_row_is_answered_before_the_next_is_sent(tmp_path: Path) -> None:
    """Through a real pipe to a real process."""
    process = piped(tmp_path)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("a,b\n")
    assert process.stdout.readline().startswith("log_likelihood,a.expected")
    for row in ("0.1,0.2\n", "0.3,\n", "x,1,2\n", "0.1,0.4\n"):
        process.stdin.write(row)
        assert len(process.stdout.readline().split(",")) == 9
    process.stdin.close()
    assert process.stdout.read() == ""
    assert process.wait() == 0
    process.stdout.close()


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_stopped_stream_keeps_its_answers(name: str, tmp_path: Path) -> None:
    save(plain(), tmp_path / "m.psim")
    out = tmp_path / "answers.csv"
    command = [sys.executable, "-m", "psimlearn", "filter", str(tmp_path / "m.psim"), "-", "-o", str(out)]
    number = getattr(signal, name)
    usual = signal.default_int_handler if name == "SIGINT" else signal.SIG_DFL
    before = signal.signal(number, usual)  # tests in the background hand down to ignore it
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    signal.signal(number, before)
    assert process.stdin is not None
    process.stdin.write(b"a,b\n" + b"0.1,0.2\n" * 5)
    process.stdin.flush()
    while not any(part.stat().st_size for part in tmp_path.glob(".psimlearn-*")):
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(number)
    assert process.stderr is not None
    said = process.stderr.read().decode()
    assert process.wait() == 128 + number
    process.stdin.close()
    process.stderr.close()
    assert f"the answers so far are kept in {out}" in said
    assert len(out.read_text().splitlines()) == 6
    assert sorted(path.name for path in tmp_path.iterdir()) == ["answers.csv", "m.psim"]


def test_a_reader_that_leaves_is_no_error(tmp_path: Path) -> None:
    save(plain(), tmp_path / "m.psim")
    (tmp_path / "x.csv").write_bytes(b"a,b\n" + b"0.1,0.2\n" * 50_000)
    words = (f"filter {tmp_path}/m.psim - < {tmp_path}/x.csv", f"info {tmp_path}/m.psim", "--help")
    for word in words:
        command = f"({sys.executable} -m psimlearn {word}; echo code $? >&2) | (read line; exec 0<&-; echo $line)"
        told = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
        assert told.stderr == "code 0\n"


MOST = 1.797e308
HUGE = {
    "every channel": (MOST, MOST),
    "of both signs": (MOST, -MOST),
    "one channel": (0.1, -MOST),
    "beside a missing one": (np.nan, MOST),
}


@pytest.mark.parametrize("features", [Stack(3), StackSquares(2), SecondMoment(2)], ids=str)
@pytest.mark.parametrize("unit", [1.0, 1e-4])
@pytest.mark.parametrize("what", HUGE)
def test_a_huge_row_has_no_likelihood(features: Features, unit: float, what: str) -> None:
    """-inf, in batch, live and in pipes; also at later rows, for as long as a filter that it broke predicts nothing."""
    filter = learnt(features)
    filter = replace(filter, scaling=Scaling(unit * filter.scaling.mean, unit * filter.scaling.scale))
    rows = unit * recordings()[0].values[:11]
    rows[5] = HUGE[what]
    live, stepped = Live(filter), []
    with np.errstate(all="ignore"):
        batch = answers_to(filter, Trajectories.of([rows]), 1)
        np.testing.assert_array_equal(filter.log_likelihood(Trajectories.of([rows])) + 0.0, batch[:, 0])
        for row in rows:
            expected = live.predict()
            live.update(row)
            stepped.append([live.log_likelihood, *expected])
        lines = ["a,b", *(",".join("" if np.isnan(x) else repr(float(x)) for x in row) for row in rows)]
        objects = [json.dumps({c: None if np.isnan(x) else x for c, x in zip(CHANNELS, r, strict=True)}) for r in rows]
        by_csv = csv.reader(io.StringIO(through(filter, ["\n".join(lines).encode()])))
        by_json = map(json.loads, through(filter, ["\n".join(objects).encode()]).splitlines())
    piped = np.array([[float(cell or "nan") for cell in answer] for answer in list(by_csv)[1:]])
    spoken = np.array([list(answer.values()) for answer in by_json], dtype=float)
    spoken[spoken[:, 0] == -np.finfo(float).max, 0] = -np.inf  # JSON has no infinity
    for answers in (batch, np.array(stepped), piped, spoken):
        nats, broken = answers[:, 0], np.isnan(answers[:, 1:3]).any(axis=1)
        assert np.isfinite(nats[:5]).all()
        assert nats[5] == -np.inf
        assert not np.isnan(nats).any()
        assert (nats[broken & ~np.isnan(rows).any(axis=1)] == -np.inf).all()


@pytest.mark.parametrize(
    ("shell", "said"),
    [
        ("<&-", "standard input: required rows, received a closed input"),
        ("-o {0}/x.parquet < /dev/null", "answered as text"),
        ("-o {0}/x.csv < /dev/null", "standard input: required rows, received nothing"),
    ],
)
def test_inputs_and_outputs_that_are_none(shell: str, said: str, tmp_path: Path) -> None:
    save(plain(), tmp_path / "m.psim")
    command = f"{sys.executable} -m psimlearn filter {tmp_path}/m.psim - {shell.format(tmp_path)}"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert said in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["m.psim"]


def test_a_pipe_whose_reads_do_not_wait() -> None:
    source, end = os.pipe()
    os.set_blocking(source, False)
    out = io.BytesIO()

    def write() -> None:
        os.write(end, b"a,b\n1,2\n")
        os.close(end)

    writer = threading.Timer(0.1, write)
    writer.start()
    stream(plain(), Wanted(CHANNELS, (), None, None), 1, source, out)
    writer.join()
    os.close(source)
    assert len(out.getvalue().splitlines()) == 2


def test_an_input_that_cannot_be_read(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(DataError, match=r"standard input: required rows, received: \[Errno 21\]"):
        stream(plain(), Wanted(CHANNELS, (), None, None), 1, folder, io.BytesIO())
    os.close(folder)


def test_rows_without_the_times_of_the_model_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    text = through(plain(), [b"a,b\n1,2\n1,2\n"], STEPPED)
    assert len(text.splitlines()) == 3
    assert capsys.readouterr().err == "psimlearn: no column 't': every row counts as the next step, late or not.\n"
