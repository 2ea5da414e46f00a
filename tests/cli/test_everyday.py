"""Everyday files through the command line, each as people have them: "My data look like this" in docs/my-data.md."""

import csv
import io
import json
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from commands import run
from psimlearn import PSIM, Trajectories
from psimlearn.cli.columns import NO_COLUMNS, Columns, Reading
from psimlearn.cli.files import write_table
from psimlearn.cli.recordings import Recordings, recordings
from psimlearn.errors import DataError

RNG = np.random.default_rng
FAST = ["--window", "1", "--lags", "1", "--validation", "0.5"]


def read(
    path: Path, text: str, columns: Columns = NO_COLUMNS, reading: Reading = Reading(), **known: Any
) -> Recordings:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return recordings(str(path), columns._replace(**known), reading)


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Any:
    """The messages since the last call."""
    return lambda: capsys.readouterr().err


# -- headers and first columns -----------------------------------------------------------------------------------------


def test_row_numbers_of_pandas_are_left_out_aloud(tmp_path: Path, told: Any) -> None:
    given = read(tmp_path / "a.csv", ",a,b\n0,1,2\n1,3,4\n")
    assert given.columns.channels == ("a", "b")
    assert "left out: the first column, which has no name and counts rows" in told()


def test_times_of_pandas_without_a_name_are_the_time(tmp_path: Path, told: Any) -> None:
    """Also row numbers with holes: rows that were dropped are rows that were not observed."""
    given = read(tmp_path / "a.csv", ",a\n2024-01-01 00:00:00,1\n2024-01-01 01:00:00,2\n2024-01-01 03:00:00,4\n")
    np.testing.assert_array_equal(given.data.values[:, 0], [1, 2, np.nan, 4])
    assert "guessed: the first column, which has no name, is the time" in told()
    given = read(tmp_path / "a.csv", ",a\n0,1\n1,2\n4,5\n5,6\n6,7\n")
    np.testing.assert_array_equal(given.data.values[:, 0], [1, 2, np.nan, np.nan, 5, 6, 7])
    with pytest.raises(DataError, match="--exclude 'column 1 without a name'"):
        read(tmp_path / "a.csv", ",a\n0,1\n1,2\n4,5\n", reading=Reading(guess=False))


def test_files_without_a_header(tmp_path: Path) -> None:
    text = "1,2\n3,4\n"
    with pytest.raises(DataError, match="--no-header or --header A,B"):
        read(tmp_path / "a.csv", text)
    assert read(tmp_path / "a.csv", text, reading=Reading(header=False)).columns.channels == ("column1", "column2")
    given = read(tmp_path / "a.csv", text, reading=Reading(header=("t", "x")))
    assert (given.columns.time, given.columns.channels) == ("t", ("x",))


# -- times -------------------------------------------------------------------------------------------------------------


def test_date_and_time_of_day_in_two_columns(tmp_path: Path, told: Any) -> None:
    given = read(
        tmp_path / "a.csv", "Date,Time,a\n2024-01-01,23:00:00,1\n2024-01-02,00:00:00,2\n2024-01-02,02:00:00,4\n"
    )
    np.testing.assert_array_equal(given.data.values[:, 0], [1, 2, np.nan, 4])
    assert "guessed: columns 'Date' and 'Time' are the time (--time 'Date,Time')" in told()
    assert list(given.keys) == ["Date", "Time"]
    given = read(
        tmp_path / "a.csv",
        "day,clock,a\n31.12.2023,23:00,1\n01.01.2024,00:00,2\n",
        time="day,clock",
        time_format="%d.%m.%Y %H:%M",
    )
    assert given.data.lengths.tolist() == [2]


def test_times_in_other_formats_are_advised(tmp_path: Path) -> None:
    text = "Date,a\n12/31/2023,1\n01/01/2024,2\n01/02/2024,3\n"
    with pytest.raises(DataError, match=r"line 2, column 'Date': required a time.*--time-format.*--exclude 'Date'"):
        read(tmp_path / "a.csv", text)
    given = read(tmp_path / "a.csv", text, time_format="%m/%d/%Y")
    assert given.data.lengths.tolist() == [3]
    assert read(tmp_path / "a.csv", text, exclude=("Date",)).columns.time is None


def test_times_that_need_mending_are_mended_where_asked(tmp_path: Path) -> None:
    text = "t,a\n0,0\n2,4\n1,2\n2,6\n"
    with pytest.raises(DataError, match="Use --sort"):
        read(tmp_path / "a.csv", text)
    with pytest.raises(DataError, match="Use --duplicates mean"):
        read(tmp_path / "a.csv", text, reading=Reading(sort=True))
    given = read(tmp_path / "a.csv", text, reading=Reading(sort=True, duplicates="mean"))
    np.testing.assert_array_equal(given.data.values[:, 0], [0, 2, 5])
    keys, answers = given.answered(given.data.values)
    assert (keys["t"], answers[:, 0].tolist()) == (["0", "2", "1"], [0, 5, 2])
    given = read(tmp_path / "a.csv", "t,a\n0,0\n1,1\n2,2\n4,4\n", reading=Reading(step="500ms", resample=True))
    keys, answers = given.answered(given.data.values)
    assert keys["t"] == ["0", "0.5", "1", "1.5", "2", "2.5", "3", "3.5", "4"]
    np.testing.assert_allclose(answers[:5, 0], [0, 0.5, 1, 1.5, 2])


def test_holes_and_inputs(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"required inputs at every step, received a hole in time.*--step none"):
        read(tmp_path / "a.csv", "t,a,u\n0,1,1\n1,1,1\n2,1,1\n5,1,1\n", inputs=("u",))


def test_several_recordings_without_an_id_are_advised_to_name_it(tmp_path: Path) -> None:
    """One after the other, or in turns; the column may hold words or numbers."""
    rows = [(f"{name},{number}", t) for name, number in (("ann", 1), ("bob", 2)) for t in range(3)]
    for order in (rows, sorted(rows, key=lambda row: row[1])):
        text = "name,nr,t,a\n" + "".join(f"{who},{t},{t / 2}\n" for who, t in order)
        with pytest.raises(
            DataError, match=r"received 0 (after 2|twice)\. Times rise .* the same 'name, nr': use --id name"
        ):
            read(tmp_path / "a.csv", text)
        assert read(tmp_path / "a.csv", text, id="name").data.ids == ("ann", "bob")
    with pytest.raises(DataError, match="use --id if there are several recordings"):
        read(tmp_path / "a.csv", "t,a\n0,1\n1,2\n0,3\n1,4\n")


# -- cells and columns -------------------------------------------------------------------------------------------------


def test_codes_words_and_columns_to_leave_out(tmp_path: Path, told: Any) -> None:
    given = read(
        tmp_path / "a.csv", "a,on,row\n1,True,5\n-999,false,6\n?,TRUE,7\n", missing=("-999", "?"), exclude=("row",)
    )
    assert given.columns.channels == ("a", "on")
    np.testing.assert_array_equal(given.data.values, [[1, 1], [np.nan, 0], [np.nan, 1]])
    with pytest.raises(DataError, match=r"columns \['row'\]: required one meaning"):
        read(tmp_path / "a.csv", "a,row\n1,5\n", exclude=("row",), inputs=("row",))


# -- files -------------------------------------------------------------------------------------------------------------


def test_several_files_and_arrays(tmp_path: Path, told: Any) -> None:
    for name in ("x", "y"):
        (tmp_path / f"{name}.csv").write_text("a\n1\n2\n")
    given = recordings([str(tmp_path / "x.csv"), str(tmp_path / "y.csv")], NO_COLUMNS)
    assert given.data.ids == ("x", "y")
    np.save(tmp_path / "z.npy", np.zeros((3, 9)))
    told()
    assert recordings(str(tmp_path / "z.npy"), NO_COLUMNS).data.n_channels == 9
    assert "at most 3 rows of 9 channels. Use --channels-first if arrays are (channel, time)." in told()
    turned = recordings(str(tmp_path / "z.npy"), NO_COLUMNS, Reading(channels_first=True))
    assert (turned.data.n_channels, told()) == (3, "")
    np.savez(tmp_path / "w.npz", x=np.zeros((4, 2)), t=np.arange(4))
    assert recordings(str(tmp_path / "w.npz"), NO_COLUMNS, Reading(array=("x",))).data.lengths.tolist() == [4]
    with pytest.raises(DataError, match="required - alone"):
        recordings(["-", "x.csv"], NO_COLUMNS)


# -- words as inputs, hints, groups ------------------------------------------------------------------------------------


def driven(path: Path, n: int = 20, length: int = 30) -> Path:
    """x moves by the mode, which is a word, and by the switch; the pose is twice x."""
    rng, push = RNG(0), {"idle": 0.0, "push": 1.0, "pull": -1.0}
    rows = ["id,subject,t,x,mode,on,pose"]
    for i in range(n):
        x = 0.0
        for t in range(length):
            mode, on = rng.choice(list(push)), rng.random() > 0.5
            rows.append(f"r{i},s{i % 5},{t},{x if rng.random() > 0.1 else -999:.4f},{mode},{on},{2 * x:.4f}")
            x = 0.6 * x + push[mode] + 0.5 * on + 0.05 * rng.standard_normal()
    path.write_text("\n".join(rows) + "\n")
    return path


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A model with inputs of words, hints and codes, learnt by the command line."""
    folder = tmp_path_factory.mktemp("driven")
    data, model = driven(folder / "a.csv"), folder / "m.psim"
    words = ["--channels", "x", "--inputs", "mode,on", "--hints", "pose", "--missing", "-999"]
    with redirect_stderr(io.StringIO()), redirect_stdout(io.StringIO()):
        assert run("fit", data, "-o", model, *words, *FAST) == 0
    return {"folder": folder, "data": data, "model": model}


def by_hand(path: Path) -> Trajectories:
    """The same recordings with one-hot inputs, made without the reader."""
    rows = rows_of(path.read_text())
    ids = list(dict.fromkeys(row["id"] for row in rows))
    parts = [[row for row in rows if row["id"] == id] for id in ids]

    def array(rows: Sequence[dict[str, str]], *names: str) -> np.ndarray:
        cells = [[row[name] for name in names] for row in rows]
        return np.array([[np.nan if cell == "-999.0000" else float(cell) for cell in row] for row in cells])

    def inputs(row: dict[str, str]) -> list[float]:
        return [*(float(row["mode"] == word) for word in ("idle", "pull", "push")), float(row["on"] == "True")]

    return Trajectories.of(
        [array(part, "x") for part in parts],
        [np.array([inputs(row) for row in part]) for part in parts],
        hints=[array(part, "pose") for part in parts],
        names=["x"],
        ids=ids,
    )


def test_words_as_inputs_and_hints_as_python_learns_them(
    kit: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    data = by_hand(kit["data"])
    ours = PSIM(1, lags=1, validation=0.5, random_state=0).fit(data)
    loaded = PSIM.load(kit["model"])
    np.testing.assert_allclose(loaded.filter_.forecast(data, 1), ours.filter_.forecast(data, 1), rtol=1e-9, atol=1e-12)
    assert run("filter", kit["model"], kit["data"]) == 0
    answers = rows_of(capsys.readouterr().out)
    found = [float(row["pose.estimated"]) for row in answers]
    np.testing.assert_allclose(found, ours.filter_.hints(data)[:, 0], rtol=1e-6, atol=1e-9)


def test_a_word_that_was_not_seen_is_refused(kit: dict[str, Any], tmp_path: Path, told: Any) -> None:
    (tmp_path / "new.csv").write_text("t,x,mode,on\n0,1,push,True\n1,2,jump,True\n")
    assert run("filter", kit["model"], tmp_path / "new.csv") == 2
    assert "line 3, column 'mode': required one of ['idle', 'pull', 'push'] as in training, received 'jump'" in told()


def test_future_inputs_may_be_words(kit: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "now.csv").write_text("t,x,mode,on\n" + "".join(f"{t},0,idle,False\n" for t in range(5)))
    answers = {}
    for mode in ("push", "pull"):
        (tmp_path / "plan.csv").write_text("mode,on\nidle,False\n" + f"{mode},False\n" * 2)
        words = ["--steps", "3", "--future-inputs", str(tmp_path / "plan.csv")]
        assert run("forecast", kit["model"], tmp_path / "now.csv", *words) == 0
        answers[mode] = [float(row["x"]) for row in rows_of(capsys.readouterr().out)]
    assert answers["push"][-1] > 0.5
    assert answers["pull"][-1] < -0.5


def test_info_shows_words_hints_and_codes(kit: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert run("info", kit["model"]) == 0
    said = capsys.readouterr().out
    assert "\ninputs     mode (idle, pull, push), on\nhints      pose\n" in said
    assert "\nmissing    -999\n" in said


def test_holes_are_answered_where_the_file_has_rows(kit: dict[str, Any], tmp_path: Path, told: Any) -> None:
    """A filter answers the rows of the file; impute adds the rows between them."""
    (tmp_path / "train.csv").write_text("t,x\n" + "".join(f"{t},{np.sin(t):.4f}\n" for t in range(60)))
    (tmp_path / "new.csv").write_text("t,x\n2024-01-01T00:00:00Z,0\n2024-01-01T00:00:01Z,1\n2024-01-01T00:00:04Z,0\n")
    model, out, filled = (tmp_path / name for name in ("m.psim", "out.csv", "filled.csv"))
    assert run("fit", tmp_path / "train.csv", "-o", model, *FAST) == 0
    told()
    assert run("filter", model, tmp_path / "new.csv", "-o", out) == 0
    assert "2 rows are missing between the times given" in told()
    assert [row["t"][-4:] for row in rows_of(out.read_text())] == [":00Z", ":01Z", ":04Z"]
    assert run("impute", model, tmp_path / "new.csv", "-o", filled) == 0
    rows = rows_of(filled.read_text())
    assert [row["t"] for row in rows] == [f"2024-01-01T00:00:0{t}Z" for t in range(5)]
    assert all(np.isfinite(float(row["x"])) for row in rows)


def test_the_step_of_the_model_is_required_of_new_data(tmp_path: Path, told: Any) -> None:
    """Half the rate is refused, or resampled where asked."""
    minutes = [f"2024-01-01T{t // 60:02}:{t % 60:02}" for t in range(120)]
    rows = [f"{minute},{np.sin(t / 3):.4f}\n" for t, minute in enumerate(minutes)]
    (tmp_path / "train.csv").write_text("time,x\n" + "".join(rows))
    (tmp_path / "half.csv").write_text("time,x\n" + "".join(rows[::2]))
    model, out = tmp_path / "m.psim", tmp_path / "out.csv"
    assert run("fit", tmp_path / "train.csv", "-o", model, *FAST) == 0
    told()
    assert run("filter", model, tmp_path / "half.csv", "-o", out) == 2
    assert "required a row every 1 min, received a row every 2 min. Use --resample" in told()
    assert run("filter", model, tmp_path / "half.csv", "-o", out, "--resample") == 0
    assert len(rows_of(out.read_text())) == 119
    assert run("filter", model, tmp_path / "half.csv", "-o", out, "--step", "2min", "--force") == 2
    assert "required a row every 1 min as in fit, received a row every 2 min" in told()
    assert run("filter", model, tmp_path / "half.csv", "-o", out, "--step", "none", "--force") == 0
    assert len(rows_of(out.read_text())) == 60
    assert run("info", model) == 0


def test_times_in_parquet_are_numbers_and_instants(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet

    for times, kind in (
        (["1", "2.5"], pa.float64()),
        (["1", "2"], pa.int64()),
        (["2024-01-01 00:00", "2024-01-01 01:00"], pa.timestamp("ns")),
        (["2024-01-01T00:00Z", "2024-01-01T01:00Z"], pa.timestamp("ns", tz="UTC")),
        (["1.1.2024", "2.1.2024"], pa.string()),
    ):
        write_table(tmp_path / "a.parquet", {"id": ["007", "7"], "t": times}, ["x"], np.ones((2, 1)), ["t"])
        assert pa.parquet.read_schema(tmp_path / "a.parquet").types == [pa.string(), kind, pa.float64()]


def test_groups_stay_together(kit: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: Any) -> None:
    heard: list[Any] = []
    fit = PSIM.fit

    def listening(self: PSIM, X: Any, y: Any = None, *, groups: Any = None) -> PSIM:
        heard.append((X.ids, groups))
        return fit(self, X, y, groups=groups)

    monkeypatch.setattr(PSIM, "fit", listening)
    words = ["--channels", "x", "--group", "subject", "--missing", "-999", *FAST]
    assert run("fit", kit["data"], "-o", tmp_path / "m.psim", *words) == 0
    ((ids, groups),) = heard
    assert groups == [f"s{i % 5}" for i in range(20)]
    assert ids == tuple(f"r{i}" for i in range(20))
    (tmp_path / "a.csv").write_text("id,subject,x\n" + "1,a,2\n1,b,3\n")
    assert run("fit", tmp_path / "a.csv", "-o", tmp_path / "n.psim", "--group", "subject") == 2
    assert "recording '1': required one group in column 'subject'" in told()


# -- symbols -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wards(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Walks through three wards, and a model learnt from them by the command line."""
    folder, rng = tmp_path_factory.mktemp("wards"), RNG(0)
    turns = {"A": ("AB", 0.8), "B": ("BC", 0.7), "C": ("CA", 0.9)}
    rows = ["patient,day,ward"]
    for patient in range(12):
        ward = "A"
        for day in range(15):
            rows.append(f"{patient:03},{day},{ward if rng.random() > 0.05 else 'NA'}")
            names, share = turns[ward]
            ward = names[int(rng.random() < share)]
    data, model = folder / "a.csv", folder / "m.psim"
    data.write_text("\n".join(rows) + "\n")
    with redirect_stderr(io.StringIO()), redirect_stdout(io.StringIO()):
        words = ["--id", "patient", "--time", "day", "--symbols", "ward", *FAST]
        assert run("fit", data, "-o", model, *words) == 0
    return data, model


def sequences(path: Path) -> list[list[str | None]]:
    rows = rows_of(path.read_text())
    ids = dict.fromkeys(row["patient"] for row in rows)
    return [[None if row["ward"] == "NA" else row["ward"] for row in rows if row["patient"] == id] for id in ids]


def test_symbols_as_python_learns_them(wards: tuple[Path, Path]) -> None:
    data, path = wards
    ours = PSIM(1, features="onehot", lags=1, validation=0.5, random_state=0).fit(sequences(data))
    loaded = PSIM.load(path)
    assert loaded.filter_.alphabet == ours.filter_.alphabet
    for mine, theirs in zip(loaded.predict_proba(sequences(data)), ours.predict_proba(sequences(data)), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9)


def test_symbols_in_and_out(wards: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    data, path = wards
    model = PSIM.load(path)
    assert run("filter", path, data) == 0
    answers = rows_of(capsys.readouterr().out)
    assert list(answers[0])[:6] == ["patient", "day", "log_likelihood", "A.expected", "B.expected", "C.expected"]
    expected = np.array([[float(row[f"{ward}.expected"]) for ward in "ABC"] for row in answers])
    np.testing.assert_allclose(expected, np.concatenate(model.predict_proba(sequences(data))), atol=1e-10)
    assert run("forecast", path, data, "--steps", "2") == 0
    answers = rows_of(capsys.readouterr().out)
    assert [row["likeliest"] for row in answers] == model.forecast(sequences(data), 2).ravel().tolist()
    np.testing.assert_allclose(sum(float(answers[0][ward]) for ward in "ABC"), 1)


def test_evaluating_symbols_is_in_nats(wards: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    data, path = wards
    assert run("evaluate", path, data, "--train", data) == 0
    said = capsys.readouterr().out
    lines = {line.split()[0]: line.split() for line in said.splitlines() if line}
    assert "nats per symbol by steps ahead" in said
    assert float(lines["PSIM"][1].rstrip("*")) < float(lines["frequencies"][1])  # the star marks the winner
    model, truth = PSIM.load(path), sequences(data)
    guesses = [
        p == s
        for part, seen in zip(model.predict(truth), truth, strict=True)
        for p, s in zip(part, seen, strict=True)
        if s
    ]
    assert f"right at {np.mean(guesses):.1%} of rows" in said


def test_info_shows_the_alphabet(wards: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    _, path = wards
    assert run("info", path) == 0
    assert "\nsymbols    A, B, C\nin column  ward\n" in capsys.readouterr().out
    assert run("info", path, "--json") == 0
    assert json.loads(capsys.readouterr().out)["alphabet"] == ["A", "B", "C"]


def test_a_symbol_that_was_not_seen_is_refused(wards: tuple[Path, Path], tmp_path: Path, told: Any) -> None:
    (tmp_path / "new.csv").write_text("patient,day,ward\n1,0,A\n1,1,D\n")
    assert run("filter", wards[1], tmp_path / "new.csv") == 2
    assert "line 3: required one of ['A', 'B', 'C'], received 'D'" in told()


def test_whole_numbers_are_symbols_too(tmp_path: Path) -> None:
    given = read(tmp_path / "a.csv", "s\n1\n\n2\n", symbols="s")
    assert given.data.alphabet is not None
    assert given.data.alphabet.symbols == (1, 2)
    given = read(tmp_path / "a.csv", "s\n007\n7\n", symbols="s")
    assert given.data.alphabet is not None
    assert given.data.alphabet.symbols == ("007", "7")


# -- the pipe ----------------------------------------------------------------------------------------------------------


def piped(model: Path, text: str, *words: str) -> tuple[list[dict[str, str]], str]:
    """The answers of `psimlearn filter MODEL -`, and its messages."""
    command = [sys.executable, "-m", "psimlearn", "filter", str(model), "-", *words]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    return rows_of(done.stdout), done.stderr


def test_a_pipe_reads_words_and_codes_as_files_do(
    kit: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "t,x,mode,on\n0,1,push,True\n1,-999,pull,false\n2,0.5,idle,TRUE\n"
    (tmp_path / "a.csv").write_text(text)
    assert run("filter", kit["model"], tmp_path / "a.csv") == 0
    by_file = rows_of(capsys.readouterr().out)
    by_pipe, said = piped(kit["model"], text)
    assert said == ""
    lines = (
        json.dumps({"t": 0, "x": 1, "mode": "push", "on": True}),
        '{"t": 1, "x": -999, "mode": "pull", "on": false}',
    )
    command = [sys.executable, "-m", "psimlearn", "filter", str(kit["model"]), "-"]
    done = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, check=True)
    by_json = [json.loads(line) for line in done.stdout.splitlines()]
    for name in ("log_likelihood", "x.expected", "x.ahead1"):
        expected = [float(row[name]) for row in by_file]
        np.testing.assert_allclose([float(row[name]) for row in by_pipe], expected, atol=1e-9)
        np.testing.assert_allclose([row[name] for row in by_json], expected[:2], atol=1e-9)


def test_a_pipe_without_a_header(wards: tuple[Path, Path]) -> None:
    answers, _ = piped(wards[1], "A\nB\n", "--no-header", "--symbols", "column1")
    assert len(answers) == 2
    _, said = piped(wards[1], "A\nB\n", "--sort")
    assert "--sort is for files" in said
