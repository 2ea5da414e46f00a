"""Places in messages: the file and line of a table of text, the row of a frame, however rows are gathered."""

import gzip
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest

from commands import run
from psimlearn import DataError, Trajectories
from psimlearn.recordings import tables

BLANK = "\n\n"
GOOD = "id,t,x,u,w\nb,0,1,1,on\na,0,2,1,off\n" + BLANK + "b,1,3,1,on\na,1,4,1,off\nb,2,5,1,on\na,2,6,1,off\n"
"""Ids alternate, and two lines between are empty: the rows stand in lines 2, 3, 6, 7, 8, 9."""
OPTIONS: dict[str, Any] = {"id": "id", "time": "t", "channels": ["x"]}
CASES = [  # an edit, options, and the line that a text editor shows
    ("a,1,4,", "a,noon,4,", {}, "line 7, column 't': required a time"),
    ("a,0,2,", "a,soon,2,", {}, "line 3, column 't': required a time"),
    ("a,1,4,", "a,2024-01-01,4,", {}, "line 7, column 't': required numbers as in the rows before"),
    ("a,2,6,", "a,0.5,6,", {}, "trajectory 'a', PATH, line 9: required times that rise"),
    ("b,2,5,", "b,1,5,", {}, "trajectory 'b', PATH, line 8: required one row for each time"),
    ("b,2,5,", "b,1.5,5,", {}, "trajectory 'b', PATH, line 8: required rows 1 s apart"),
    ("a,2,6,", "a,2e9,6,", {}, "2e+09 steps of 1 s, with 23148.1 d after PATH, line 7"),
    ("b,1,3,", "b,1,three,", {}, "line 6, column 'x': required a number"),
    ("a,1,4,", ",1,4,", {}, "line 7, column 'id': required a trajectory id"),
    ("b,2,5,", "b,3,5,", {"inputs": ["u"]}, "trajectory 'b', after PATH, line 6: required inputs at every step"),
]


@pytest.mark.parametrize("ending", [".csv", ".csv.gz"])
@pytest.mark.parametrize(("old", "new", "options", "said"), CASES)
def test_a_row_of_a_file_is_named_by_its_line(
    old: str, new: str, options: dict[str, Any], said: str, ending: str, tmp_path: Path
) -> None:
    path, text = tmp_path / f"log{ending}", GOOD.replace(old, new)
    assert text != GOOD
    path.write_bytes(gzip.compress(text.encode()) if ending == ".csv.gz" else text.encode())
    with pytest.raises(DataError) as caught:
        tables.read(path, **OPTIONS | options)
    assert said.replace("PATH", str(path)) in str(caught.value)
    assert str(path) in str(caught.value)


def test_the_rows_of_several_files_are_named_by_theirs(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.csv").write_text("t,x\n0,1\n1,2\n2,3\n")
    (tmp_path / "two.csv").write_text("t,x\n0,1\n1,2\nx,3\n")
    with pytest.raises(DataError, match=r"two\.csv, line 4, column 't': required a time"):
        tables.read([tmp_path / "one.csv", tmp_path / "two.csv"], time="t")


def test_files_without_a_header_begin_at_line_1(tmp_path: Path) -> None:
    path = tmp_path / "bare.csv"
    path.write_text("0,1\n1,2\nx,3\n")
    with pytest.raises(DataError, match=r"bare\.csv, line 3, column 't': required a time"):
        tables.read(path, time="t", header=["t", "x"])


def test_the_command_names_the_same_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "log.csv"
    path.write_text(GOOD.replace("a,1,4,", "a,noon,4,"))
    assert run("fit", path, "--id", "id", "--time", "t", "--channels", "x", "-o", tmp_path / "m.psim") == 2
    assert f"{path}, line 7, column 't': required a time" in capsys.readouterr().err


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame])
def test_a_row_of_a_frame_is_named_by_its_place_in_the_frame(library: Any) -> None:
    columns: dict[str, Any] = {"id": list("bababa"), "t": [0, 0, 1, 1, 2, 2], "x": [1.0] * 6}
    refused: dict[str, list[float]] = {
        "frame row 5: required times that rise": [0, 0, 1, 1, 2, 0.5],
        "frame row 4: required one row for each time": [0, 0, 1, 1, 1, 2],
        "frame row 3: required rows 1 s apart": [0, 0, 1, 0.4, 2, 2],
    }
    for said, times in refused.items():
        with pytest.raises(DataError, match=said):
            Trajectories.from_frame(
                library(columns | {"t": [float(time) for time in times]}), id="id", time="t", step=1
            )
    frames = [library({"t": times, "x": [1.0] * 3}) for times in ([0, 1, 2], [0, 2, 1])]
    with pytest.raises(DataError, match="trajectory 1, frame row 2: required times that rise"):
        Trajectories.from_frame(frames, time="t")
