"""Readers of users' files: every dialect of CSV, Parquet and npz, by hand on small files, and damaged on purpose."""

import gzip
import io
import os
import sys
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from psimlearn.errors import DataError, MissingExtraError, SettingsError
from psimlearn.recordings import archives, delimited, parquet, selection, tables
from psimlearn.recordings.cells import Header, header_of
from psimlearn.recordings.selection import Selection
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.serve.rows import Wanted, csv_rows


def written(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_a_csv_file_with_everything(tmp_path: Path) -> None:
    text = "id,t,x,u,pose,note\n007,0,1.5,0,,a\n007,1,,1,2.5,b\n7,0, +3 ,0,NA,c\n007,2,-1e3,1,NaN,\n"
    recordings = tables.read(
        written(tmp_path / "a.csv", text), id="id", time="t", channels=["x"], inputs=["u"], hints=["pose"]
    )
    assert recordings.ids == ("007", "7")
    np.testing.assert_array_equal(recordings.values[:, 0], [1.5, np.nan, -1000, 3])
    assert recordings.inputs is not None
    np.testing.assert_array_equal(recordings.inputs[:, 0], [0, 1, 1, 0])
    assert recordings.hints is not None
    np.testing.assert_array_equal(recordings.hints[:, 0], [np.nan, 2.5, np.nan, np.nan])
    by_default = tables.read(tmp_path / "a.csv", id="id", time="t")
    assert by_default.names == ("x", "u", "pose")


VARIANTS: dict[str, bytes] = {
    "plain.csv": b"a,b\n1,2\n3,4\n",
    "windows.csv": b"a,b\r\n1,2\r\n3,4\r\n",
    "no end of line.csv": b"a,b\n1,2\n3,4",
    "byte order mark.csv": b"\xef\xbb\xbfa,b\n1,2\n3,4\n",
    "semicolons.csv": b"a;b\n1;2\n3;4\n",
    "tabs.tsv": b"a\tb\n1\t2\n3\t4\n",
    "quotes.csv": b'"a","b"\n"1","2"\n"3","4"\n',
    "commas at the end.csv": b'"a","b",\n1,2,\n3,4,\n\n',
    "empty lines.csv": b"\n\na,b\n\n1,2\n\n3,4\n\n",
    "blanks.csv": b"a , b\n 1, 2\n3 ,4 \n",
    "zipped.csv.gz": gzip.compress(b"a,b\n1,2\n3,4\n"),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_csv_dialects(tmp_path: Path, name: str) -> None:
    recordings = tables.read(written(tmp_path / name, VARIANTS[name]))
    assert recordings.names == ("a", "b")
    assert recordings.ids == (name.partition(".")[0],)
    np.testing.assert_array_equal(recordings.values, [[1, 2], [3, 4]])


def test_an_empty_line_of_a_single_column_is_a_missing_value(tmp_path: Path) -> None:
    values = tables.read(written(tmp_path / "a.csv", "x\n1\n\n3\n")).values
    np.testing.assert_array_equal(values[:, 0], [1, np.nan, 3])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "an empty file"),
        ("\n\n", "an empty file"),
        ("a,b\n", "at least one row"),
        ("1,2\n3,4\n", "line 1: required the names of the columns"),
        ("a,a\n3,4\n", r"\['a'\] twice"),
        ("a,b\n1,2\n3\n", "line 3: required 2 cells as in the header, received 1: '3'"),
        ("a,b\n1,2\n3,4,5\n", "line 3: required 2 cells as in the header, received 3"),
        ("a,b\n1,5,2,5\n", "line 2: .*decimal points, not commas"),
        ("a;b\n1;2\n1;2,5\n", "line 3, column 'b': .*decimal point, received '2,5'"),
        ("a;b\n1,5;2,5\n", "line 2, column 'a': .*decimal point"),
        ('a,b\n1,"1,234"\n', "line 2, column 'b': .*between thousands"),
        ("a,b\n1,2\n3,oops\n5,6\n", "line 3, column 'b': required a number, received 'oops'"),
        ("a,b,\n1,2,3\n", "column 3 without a name"),
        ("a,b\nx,y\n", "no channel left"),
        ("a,b\n1,inf\n", "finite"),
        ("a,b\n1,2\n3,\xe9\n", "oops|UTF-8"),
    ],
)
def test_csv_files_that_are_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(DataError, match=rf"a\.csv.*({said})"):
        tables.read(written(tmp_path / "a.csv", text.encode("latin-1")))


def test_csv_columns_that_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "id,t,x,word\na,0,1,up\na,0,2,down\n,1,2,down\n")
    refused: list[tuple[dict[str, Any], str]] = [
        ({"channels": ["word"]}, "line 2, column 'word': required a number, received 'up'"),
        ({"channels": ["z"]}, r"required columns \['z'\]"),
        ({"time": "word", "channels": ["x"]}, r"line 2, column 'word'"),
        ({"time": "t", "channels": ["x"]}, "trajectory 'a', .*a.csv, line 3: required one row for each time"),
        ({"id": "id", "channels": ["x"]}, "line 4, column 'id': required a trajectory id"),
    ]
    for options, said in refused:
        with pytest.raises(DataError, match=said):
            tables.read(path, **options)
    with pytest.raises(DataError, match="UTF-16"):
        tables.read(written(tmp_path / "b.csv", "a,b\n1,2\n".encode("utf-16")))
    with pytest.raises(DataError, match=r"binary\.csv: required text in UTF-8, received UTF-16 or binary data"):
        tables.read(written(tmp_path / "binary.csv", b"a,b\n1,\x002\n"))
    with pytest.raises(DataError, match=r"c\.csv\.gz: required a readable file"):
        tables.read(written(tmp_path / "c.csv.gz", b"no gzip"))
    for path in (tmp_path / "none.csv", written(tmp_path / "a.xlsx", "")):
        with pytest.raises(DataError, match="required a file"):
            tables.read(path)


def test_ids_and_counters_that_nobody_named_are_asked_for(tmp_path: Path) -> None:
    x = np.repeat([0.0, 9.0, -4.0], 20) + np.sin(np.arange(60) / 9)
    rows = "".join(f"{'pqr'[t // 20]},{t // 20},{t % 20},{x[t]:.4f}\n" for t in range(60))
    path = written(tmp_path / "a.csv", f"machine,part,n,x\n{rows}")
    with pytest.raises(
        DataError, match=r"a\.csv: required the meaning of the columns 'machine' \(an id\?\) and 'n' \(it "
    ):
        tables.read(path)
    with pytest.raises(DataError, match=r"Pass id='part', time='n'; else name the channels: channels=\['x'\]"):
        tables.read(path, exclude=["machine"])
    data = tables.read(path, exclude=["machine"], id="part", time="n")
    assert (data.ids, data.names, data.step) == (("0", "1", "2"), ("x",), 1.0)
    assert tables.read(path, channels=["part", "n", "x"]).names == ("part", "n", "x")


def test_times_may_be_dates(tmp_path: Path) -> None:
    text = "t,x\n2024-01-31T23:59:59{0},1\n2024-02-01T00:00:00{0},2\n"
    for zone in ("", "Z"):
        assert len(tables.read(written(tmp_path / "a.csv", text.format(zone)), time="t")[0]) == 2
    with pytest.raises(DataError, match="rise"):
        tables.read(written(tmp_path / "a.csv", "t,x\n2024-02-01,1\n2024-01-31,2\n"), time="t")
    text = "".join(f"{t},{t}\n" for t in (8, 9, 10, 11))  # as text, 10 comes before 9
    assert len(tables.read(written(tmp_path / "a.csv", "t,x\n" + text), time="t")[0]) == 4


def test_a_folder_has_one_trajectory_per_file(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    written(folder / "007.csv", "t,x,file\n0,1,5\n1,2,6\n")
    written(folder / "7.csv", "file,t,x\n9,0,8\n")
    pa.parquet.write_table(pa.table({"t": [0, 1], "x": [3, None], "file": [0.5, 0.25]}), folder / "8.parquet")
    written(folder / "README.md", "passed over")
    written(folder / ".hidden.csv", "passed over")
    recordings = tables.read(folder, time="t")
    assert (recordings.ids, recordings.names) == (("007", "7", "8"), ("x", "file"))
    np.testing.assert_array_equal(recordings.values, [[1, 5], [2, 6], [8, 9], [3, 0.5], [np.nan, 0.25]])
    written(folder / "9.csv", "t,x\n0,1\n")
    with pytest.raises(DataError, match=r"9\.csv: required the same columns.*'file'"):
        tables.read(folder, time="t")
    assert len(tables.read(folder, time="t", channels=["x"])) == 4
    written(folder / "9.csv", "t,x\n")
    with pytest.raises(DataError, match=r"9\.csv: required at least one row"):
        tables.read(folder, time="t", channels=["x"])
    written(folder / "9.csv", "t,x\n0,1\n")
    written(folder / "9.tsv", "t\tx\n0\t1\n")
    with pytest.raises(DataError, match=r"9\.tsv beside 9\.csv"):
        tables.read(folder, time="t", channels=["x"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="a folder with such files"):
        tables.read(tmp_path / "empty")


def test_trajectories_may_go_on_in_the_next_file(tmp_path: Path) -> None:
    written(tmp_path / "1.csv", "id,t,x\na,0,1\nb,0,2\n")
    written(tmp_path / "2.csv", "id,t,x\na,1,3\n")
    recordings = tables.read(tmp_path, id="id", time="t")
    assert recordings.ids == ("a", "b")
    np.testing.assert_array_equal(recordings.values[:, 0], [1, 3, 2])


def test_parquet(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    columns = {
        "id": pa.array(["007", "7", "007"]).dictionary_encode(),
        "t": [0, 0, 1],
        "x": pa.array([1, None, 3], pa.int32()),
        "on": [True, False, True],
        "word": ["a", None, "b"],
    }
    pa.parquet.write_table(pa.table(columns), path)
    recordings = tables.read(path, id="id", time="t")
    assert (recordings.ids, recordings.names) == (("007", "7"), ("x", "on"))
    np.testing.assert_array_equal(recordings.values, [[1, 1], [3, 1], [np.nan, 0]])
    assert tables.read(path, channels=["x"], inputs=["on"]).n_inputs == 1
    with pytest.raises(DataError, match="row 0, column 'word': required a number, received 'a'"):
        tables.read(path, channels=["word"])
    with pytest.raises(DataError, match=r"b\.parquet: required a Parquet file"):
        tables.read(written(tmp_path / "b.parquet", b"PAR1"))
    pa.parquet.write_table(pa.table({"x": pa.array([], pa.float64())}), path)
    with pytest.raises(DataError, match="at least one row"):
        tables.read(path)


def test_parquet_alone_needs_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CSV in any dialect is read by the core installation."""
    paths = [written(tmp_path / name, content) for name, content in VARIANTS.items()]
    pa.parquet.write_table(pa.table({"x": [1.0]}), tmp_path / "a.parquet")
    np.savez(tmp_path / "a.npz", x=np.zeros((3, 1)))
    for module in [name for name in sys.modules if name.partition(".")[0] in ("pyarrow", "pandas", "polars")]:
        monkeypatch.setitem(sys.modules, module, None)
    for path in paths:
        np.testing.assert_array_equal(tables.read(path).values, [[1, 2], [3, 4]])
    assert len(tables.read(tmp_path / "a.npz")) == 1
    with pytest.raises(MissingExtraError, match=r"'pyarrow'.*pip install 'psimlearn\[data\]'"):
        tables.read(tmp_path / "a.parquet")


def test_archives(tmp_path: Path) -> None:
    one, two = np.arange(6.0).reshape(3, 2), np.ones((4, 2))
    np.savez(tmp_path / "a.npz", first=one, second=two, rate=20.0, about="a note", names=np.array(["x", "y"]))
    recordings = tables.read(tmp_path / "a.npz")
    assert (recordings.ids, recordings.lengths.tolist()) == (("first", "second"), [3, 4])
    np.savez_compressed(tmp_path / "b.npz", X=np.zeros((5, 7, 2)))
    assert tables.read(tmp_path / "b.npz").ids == ("0", "1", "2", "3", "4")
    np.savez(tmp_path / "c.npz", one)
    assert tables.read(tmp_path / "c.npz").ids == ("c",)
    together = tables.read(tmp_path)
    assert together.ids == ("a/first", "a/second", *(f"b/{i}" for i in range(5)), "c")
    with pytest.raises(SettingsError, match="no columns"):
        tables.read(tmp_path / "a.npz", time="t")
    written(tmp_path / "d.csv", "x,y\n1,2\n")
    with pytest.raises(DataError, match=r"d\.csv beside a\.npz"):
        tables.read(tmp_path)


@pytest.mark.parametrize(
    "stored",
    [
        {},
        {"x": np.zeros(5)},
        {"x": np.zeros((5, 2)), "t": np.arange(5)},
        {"x": np.zeros((2, 5, 2)), "y": np.zeros((2, 5))},
    ],
    ids=["nothing", "1-D", "1-D beside", "3-D and 2-D"],
)
def test_archives_that_are_not_recordings(tmp_path: Path, stored: dict[str, Any]) -> None:
    np.savez(tmp_path / "a.npz", **stored)
    with pytest.raises(DataError, match=r"a\.npz: required 2-D arrays"):
        tables.read(tmp_path / "a.npz")


def lying_archive(path: Path) -> None:
    """A header that promises 32 GiB and nothing behind it."""
    header = io.BytesIO()
    description = {"descr": "<f8", "fortran_order": False, "shape": (2**20, 2**12)}
    np.lib.format.write_array_header_1_0(header, description)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", header.getvalue())


def pickled_archive(path: Path) -> None:
    np.savez(path, x=np.array([{}, None], dtype=object))


def cut_archive(path: Path) -> None:
    np.savez(path, x=np.zeros((100, 2)))
    path.write_bytes(path.read_bytes()[:-50])


def damaged_archive(path: Path) -> None:
    np.savez(path, x=np.zeros((100, 2)))
    raw = bytearray(path.read_bytes())
    raw[600] ^= 1
    path.write_bytes(raw)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lying_archive, "when unpacked"),
        (pickled_archive, "pickled Python objects"),
        (cut_archive, "a whole npz archive"),
        (damaged_archive, "a whole npz archive"),
    ],
)
def test_archives_that_are_not_trusted(tmp_path: Path, make: Callable[[Path], None], said: str) -> None:
    make(tmp_path / "a.npz")
    with pytest.raises(DataError, match=said):
        tables.read(tmp_path / "a.npz")


def test_archives_that_swell_are_refused_before_they_are_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez_compressed(path, x=np.zeros((1000, 1000)))
    assert path.stat().st_size < 20_000
    with pytest.raises(DataError, match="at most 1000000 bytes when unpacked, received one of 8000128"):
        archives.arrays(path, max_unpacked=1_000_000)


# Everyday files


@pytest.mark.parametrize("first", ["0,1,2", "1,2,3", "0,1,0"], ids=["pandas", "R", "two frames in one"])
@pytest.mark.parametrize("name", ["", '""'])
def test_a_nameless_first_column_that_counts_rows_is_left_out(tmp_path: Path, first: str, name: str) -> None:
    numbers = first.split(",")
    text = f"{name},a,b\n" + "".join(f"{number},{t},{t / 2}\n" for t, number in enumerate(numbers))
    recordings = tables.read(written(tmp_path / "a.csv", text))
    assert recordings.names == ("a", "b")
    np.testing.assert_array_equal(recordings.values, [[0, 0], [1, 0.5], [2, 1]])


def test_a_nameless_first_column_of_something_else_is_asked_for(tmp_path: Path) -> None:
    text = ",a\n2024-01-01,1\n2024-01-02,2\n"
    path = written(tmp_path / "a.csv", text)
    with pytest.raises(DataError, match=r"column 1 without a name that does not count rows.*time='column 1 without"):
        tables.read(path)
    assert tables.read(path, time="column 1 without a name").names == ("a",)
    assert tables.read(path, exclude=["column 1 without a name"]).names == ("a",)


def test_the_index_of_pandas_in_parquet(tmp_path: Path) -> None:
    import pandas as pd

    frame = pd.DataFrame({"a": [1.0, 2.0, 4.0]}, index=[0, 1, 3])
    frame.to_parquet(tmp_path / "a.parquet")
    with pytest.raises(DataError, match="column 1 without a name"):
        tables.read(tmp_path / "a.parquet")
    recordings = tables.read(tmp_path / "a.parquet", time="column 1 without a name")
    np.testing.assert_array_equal(recordings.values[:, 0], [1, 2, np.nan, 4])


def test_files_without_a_header(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "1,2\n3,4\n")
    with pytest.raises(DataError, match=r"received numbers: '1,2'.*--no-header or --header A,B"):
        tables.read(path)
    bare, named = tables.read(path, header=False), tables.read(path, header=["x", "y"])
    assert (bare.names, named.names) == (("column1", "column2"), ("x", "y"))
    np.testing.assert_array_equal(bare.values, [[1, 2], [3, 4]])
    np.testing.assert_array_equal(named.values, [[1, 2], [3, 4]])
    with pytest.raises(DataError, match="line 1: required 3 cells"):
        tables.read(path, header=["x", "y", "z"])


def test_codes_for_missing_values(tmp_path: Path) -> None:
    """A number stands for its value, however it is written; a word for itself, in any letters."""
    path = written(tmp_path / "a.csv", "a,b\n1,?\n-999,2\n-999.0,3\n4,-9.99e2\n5,Bad\n")
    recordings = tables.read(path, missing=["-999", "?", "bad"])
    nan = np.nan
    np.testing.assert_array_equal(recordings.values, [[1, nan], [nan, 2], [nan, 3], [4, nan], [5, nan]])
    pa.parquet.write_table(pa.table({"a": [1, -999], "b": [-999.0, 2]}), tmp_path / "a.parquet")
    np.testing.assert_array_equal(tables.read(tmp_path / "a.parquet", missing=["-999"]).values, [[1, nan], [nan, 2]])


def test_columns_that_are_excluded(tmp_path: Path) -> None:
    """They are not even looked at: a broken cell in them is no mistake."""
    path = written(tmp_path / "a.csv", "a,row,b\n1,7,2\n3,oops,4\n")
    np.testing.assert_array_equal(tables.read(path, exclude=["row"]).values, [[1, 2], [3, 4]])
    with pytest.raises(DataError, match=r"required columns \['rows'\]"):
        tables.read(path, exclude=["rows"])


def test_true_and_false_are_numbers(tmp_path: Path) -> None:
    text = "a,on,note\n1,True,true\n2,FALSE,so\n3,,false\n4,true,\n"
    recordings = tables.read(written(tmp_path / "a.csv", text))
    assert recordings.names == ("a", "on")
    np.testing.assert_array_equal(recordings.values[:, 1], [1, 0, np.nan, 1])
    read, _ = csv_rows("a,on", Wanted(("a", "on"), (), None, None))
    assert read("1,True", pytest.fail).numbers == [1, 1]


def test_several_paths(tmp_path: Path) -> None:
    """Names tell files apart; with folders, where names alone do not."""
    for name in ("x/1.csv", "y/1.csv", "y/2.csv"):
        written(tmp_path / name, "a\n1\n2\n")
    assert tables.read([tmp_path / "x", tmp_path / "y" / "2.csv"]).ids == ("1", "2")
    assert tables.read([tmp_path / "x/1.csv", tmp_path / "y"]).ids == ("x/1", "y/1", "y/2")
    with pytest.raises(DataError, match=r"1\.csv beside 1\.csv"):
        tables.read([tmp_path / "x", tmp_path / "x/1.csv"])


def test_times_in_files(tmp_path: Path) -> None:
    """Holes become rows that were not observed; other formats need their name, and so does everything out of order."""
    path = written(tmp_path / "a.csv", "t,x\n31/12/2023 23:00,1\n01/01/2024 00:00,2\n01/01/2024 02:00,4\n")
    with pytest.raises(DataError, match=r"a\.csv, line 2, column 't': required a time"):
        tables.read(path, time="t")
    values = tables.read(path, time="t", time_format="%d/%m/%Y %H:%M").values
    np.testing.assert_array_equal(values[:, 0], [1, 2, np.nan, 4])
    path = written(tmp_path / "a.csv", "t,x\n1,1\n0,0\n1,3\n2,5\n")
    np.testing.assert_array_equal(tables.read(path, time="t", sort=True, duplicates="mean").values[:, 0], [0, 2, 5])
    path = written(tmp_path / "a.csv", "t,x\n0,0\n1,1\n2,2\n3,3\n4.4,4.4\n")
    with pytest.raises(DataError, match="resample=True"):
        tables.read(path, time="t", step=1)
    np.testing.assert_allclose(tables.read(path, time="t", step=0.5, resample=True).values[:3, 0], [0, 0.5, 1])
    assert len(tables.read(path, time="t", step=None).values) == 5


def test_arrays_by_name(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, x=np.zeros((5, 2)), t=np.arange(5), y=np.ones((4, 2)), many=np.zeros((3, 5, 2)))
    assert tables.read(path, array=["x"]).ids == ("a",)
    assert tables.read(path, array=["y", "x"]).ids == ("y", "x")
    assert tables.read(path, array=["many"]).ids == ("0", "1", "2")
    with pytest.raises(DataError, match=r"required arrays \['z'\], received \['x', 't', 'y', 'many'\]"):
        tables.read(path, array=["z"])
    with pytest.raises(DataError, match="Choose arrays with --array"):
        tables.read(path)


def test_npy_files(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(6.0).reshape(3, 2))
    np.save(tmp_path / "b.npy", np.arange(8.0).reshape(4, 2))
    recordings = tables.read(tmp_path)
    assert (recordings.ids, recordings.lengths.tolist()) == (("a", "b"), [3, 4])
    np.save(tmp_path / "a.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(DataError, match="pickled Python objects"):
        tables.read(tmp_path)
    written(tmp_path / "a.npy", b"none")
    with pytest.raises(DataError, match=r"a\.npy: required a whole npz archive or npy file"):
        tables.read(tmp_path)


# Files that hang, fill memory, or take for ever


def test_pipes_and_dangling_links_are_refused(tmp_path: Path) -> None:
    written(tmp_path / "a.csv", "x\n1\n")
    (tmp_path / "b.csv").symlink_to(tmp_path / "gone.csv")
    for path in (tmp_path, tmp_path / "b.csv"):
        with pytest.raises(DataError, match=r"b\.csv: .*a link to a file that does not exist"):
            tables.read(path)
    (tmp_path / "b.csv").unlink()
    os.mkfifo(tmp_path / "b.csv")
    for path in (tmp_path, tmp_path / "b.csv"):
        with pytest.raises(DataError, match=r"b\.csv: .*no regular file.*standard input"):
            tables.read(path)
    (tmp_path / "b.csv").unlink()
    (tmp_path / "b.csv").mkdir()
    assert len(tables.read(tmp_path)) == 1  # a folder within the folder


def test_arrays_without_numbers_are_refused(tmp_path: Path) -> None:
    """A header of 182 bytes may promise a million million recordings of no rows."""
    path = tmp_path / "a.npz"
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (10**12, 0, 5)})
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", header.getvalue())
    with pytest.raises(DataError, match=r"at least one number, received \{'x': \(1000000000000, 0, 5\)\}"):
        tables.read(path)


def test_numbers_are_counted_before_they_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal values take next to nothing in Parquet, and an empty cell is one byte in CSV; in memory all take eight."""
    equal, commas, small = tmp_path / "a.parquet", tmp_path / "b.csv", tmp_path / "c.npy"
    pa.parquet.write_table(pa.table({"a": np.zeros(200_000)}), equal)
    written(commas, "a,b,c,d\n" + ",,,\n" * 30_000)
    np.save(small, np.zeros((200_000, 1), dtype=np.int8))
    assert sum(path.stat().st_size for path in (equal, commas)) < 200_000
    for module in (selection, delimited, parquet):
        monkeypatch.setattr(module, "MAX_BYTES", 500_000)
    for path in (equal, commas, small):
        with pytest.raises(DataError, match=f"{path.name}: required at most 500000 bytes of numbers"):
            tables.read(path)
    assert len(tables.read(written(commas, "a,b,c,d\n" + ",,,1\n" * 1_000)).values) == 1_000


def test_reading_takes_a_small_multiple_of_the_numbers(tmp_path: Path) -> None:
    """A file of a few bytes may hold numbers up to the limit: the memory must not be many times these numbers."""
    path = tmp_path / "a.parquet"
    pa.parquet.write_table(pa.table({"a": np.ones(300_000), "b": np.ones(300_000)}), path)
    tables.read(path)  # imports
    tracemalloc.start()
    try:
        data = tables.read(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(data.values) == 300_000
    assert peak < 4 * data.values.nbytes


def test_gzipped_text_is_counted_while_it_is_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "a.csv.gz", gzip.compress(b"a,b\n" + b"1,2\n" * 100_000))
    monkeypatch.setattr(delimited, "MAX_BYTES", 100_000)
    with pytest.raises(DataError, match="at most 100000 bytes of text once unpacked"):
        tables.read(path)


def test_wide_tables(tmp_path: Path) -> None:
    """The header is longer than the first reading, and no step looks through all columns for each column."""
    names = [f"sensor_channel_number_{i}" for i in range(4000)]
    values = np.arange(8000.0).reshape(2, 4000)
    text = "\n".join(",".join(map(str, row)) for row in (names, *values.tolist()))
    recordings = tables.read(written(tmp_path / "a.csv", text))
    assert recordings.names == tuple(names)
    np.testing.assert_array_equal(recordings.values, values)


# One header


@pytest.mark.parametrize(
    ("text", "header"),
    [
        ("a,b\n1,2\n", Header(["a", "b"], ",", 1)),
        ("\n\n a ; b \n1;2\n", Header(["a", "b"], ";", 3)),
        ('"x, y"\tb\tc\n', Header(["x, y", "b", "c"], "\t", 1)),
        ("a,b,\n", Header(["a", "b", "column 3 without a name"], ",", 1)),
        ("x\n", Header(["x"], ",", 1)),
    ],
)
def test_headers_by_hand(text: str, header: Header) -> None:
    assert header_of(text, "x") == header


def test_given_names_take_the_place_of_a_header() -> None:
    assert header_of("1;2\n", "x", ["a", "b"]) == Header(["a", "b"], ";", 0)
    with pytest.raises(DataError, match=r"x, given names: required different names, received \['a'\] twice"):
        header_of("1,2\n", "x", ["a", "a"])
    with pytest.raises(DataError, match="x, given names: required the names of the columns, received numbers: '1,2'"):
        header_of("1,2\n", "x", ["1", "2"])


@pytest.mark.parametrize("name", [name for name in VARIANTS if not name.endswith(".gz")])
def test_files_and_pipes_agree_on_the_header(tmp_path: Path, name: str) -> None:
    header = delimited.read_header(written(tmp_path / name, VARIANTS[name]))
    lines = VARIANTS[name].decode("utf-8-sig").splitlines()[header.n_lines - 1 :]
    read, _ = csv_rows(lines[0], Wanted(("b", "a"), (), None, None))
    assert read(next(line for line in lines[1:] if line), pytest.fail).numbers == [2, 1]


def test_the_header_of_each_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only calls can tell: every reading gives the same names."""
    seen: list[str] = []
    monkeypatch.setattr(delimited, "header_of", lambda *given: seen.append(given[1]) or header_of(*given))  # type: ignore[func-returns-value]
    paths = [written(tmp_path / name, "a,b\n1,2\n") for name in ("1.csv", "2.csv")]
    found = tables.find(tmp_path)
    assert found.columns == ["a", "b"]
    assert len(tables.read_table(found, Selection(), None)[0].values) == 2
    assert seen == [str(path) for path in paths]


# Damage


def damaged(content: bytes, seed: int) -> bytes:
    """The end cut off, one byte replaced by any character of ASCII, or by a digit, in turns."""
    rng = np.random.default_rng(seed)
    place = int(rng.integers(len(content)))
    put = [b"", bytes([rng.integers(128)]), b"%d" % rng.integers(10)][seed % 3]
    return content[:place] + (put + content[place + 1 :] if put else b"")


def outcomes(folder: Path, name: str, content: bytes, n: int = 200) -> tuple[int, int]:
    """How many damaged copies of a file are read, and how many are refused; anything but a DataError is a bug."""
    read = 0
    for seed in range(n):
        try:
            recordings = tables.read(written(folder / name, damaged(content, seed)))
        except DataError:
            continue
        assert isinstance(recordings, Trajectories)
        assert not np.isinf(recordings.values).any()
        read += 1
    return read, n - read


def test_damaged_csv_is_read_or_refused(tmp_path: Path) -> None:
    rows = "".join(f"{t * t % 11},{np.sin(t):.5f},{-t}\n" for t in range(30))
    read, refused = outcomes(tmp_path, "a.csv", f"c,a,b\n{rows}".encode())
    assert read > 40  # digits that became other digits
    assert refused > 40


def test_damaged_archives_and_parquet_are_read_or_refused(tmp_path: Path) -> None:
    """Checksums find damage to the numbers; some bytes of both formats carry no meaning."""
    np.savez(tmp_path / "a.npz", x=np.arange(20.0).reshape(10, 2))
    pa.parquet.write_table(pa.table({"a": np.arange(30.0)}), tmp_path / "b.parquet", write_page_checksum=True)
    for name in ("a.npz", "b.parquet"):
        content = (tmp_path / name).read_bytes()
        (tmp_path / name).unlink()
        assert len(tables.read(written(tmp_path / "whole" / name, content)).values) in (10, 30)
        read, refused = outcomes(tmp_path / "damaged", name, content)
        assert refused > 100
        assert read > 0
        (tmp_path / "damaged" / name).unlink()
