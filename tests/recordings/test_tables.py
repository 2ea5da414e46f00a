"""Readers of users' files: every dialect of CSV, Parquet and npz, by hand on small files, and damaged on purpose."""

import gzip
import io
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from psimlearn.cli.rows import Wanted, csv_rows
from psimlearn.errors import DataError, MissingExtraError, SettingsError
from psimlearn.recordings import archives, delimited, tables
from psimlearn.recordings.cells import Header, header_of
from psimlearn.recordings.trajectories import Trajectories


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
        ("a;b\n1;2\n1;2,5\n", "column 'b', row 1: .*decimal point, received '2,5'"),
        ("a;b\n1,5;2,5\n", "column 'a', row 0: .*decimal point"),
        ('a,b\n1,"1,234"\n', "column 'b', row 0: .*between thousands"),
        ("a,b\n1,2\n3,oops\n5,6\n", "column 'b', row 1: required a number, received 'oops'"),
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
        ({"channels": ["word"]}, "column 'word', row 0: required a number, received 'up'"),
        ({"channels": ["z"]}, r"required columns \['z'\]"),
        ({"time": "word"}, "column 'word', row 0"),
        ({"time": "t", "channels": ["x"]}, "required one row for each time, received 0.0 twice"),
        ({"id": "id", "channels": ["x"]}, "column 'id', frame row 2: required a trajectory id"),
    ]
    for options, said in refused:
        with pytest.raises(DataError, match=said):
            tables.read(path, **options)
    with pytest.raises(DataError, match="UTF-16"):
        tables.read(written(tmp_path / "b.csv", "a,b\n1,2\n".encode("utf-16")))
    with pytest.raises(DataError, match=r"c\.csv\.gz: required a readable file"):
        tables.read(written(tmp_path / "c.csv.gz", b"no gzip"))
    for path in (tmp_path / "none.csv", written(tmp_path / "a.xlsx", "")):
        with pytest.raises(DataError, match="required a file"):
            tables.read(path)


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
    assert (recordings.ids, recordings.names) == (("007", "7"), ("x",))
    np.testing.assert_array_equal(recordings.values[:, 0], [1, 3, np.nan])
    assert tables.read(path, channels=["x"], inputs=["on"]).n_inputs == 1
    with pytest.raises(DataError, match="column 'word', row 0: required a number, received 'a'"):
        tables.read(path, channels=["word"])
    with pytest.raises(DataError, match=r"b\.parquet: required a Parquet file"):
        tables.read(written(tmp_path / "b.parquet", b"PAR1"))
    pa.parquet.write_table(pa.table({"x": pa.array([], pa.float64())}), path)
    with pytest.raises(DataError, match="at least one row"):
        tables.read(path)


def test_tables_need_their_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "a.csv", "x\n1\n")
    np.savez(tmp_path / "a.npz", x=np.zeros((3, 1)))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"'pyarrow'.*pip install 'psimlearn\[data\]'"):
        tables.read(path)
    assert len(tables.read(tmp_path / "a.npz")) == 1


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
    monkeypatch.setattr(delimited, "header_of", lambda text, file: seen.append(file) or header_of(text, file))  # type: ignore[func-returns-value]
    paths = [written(tmp_path / name, "a,b\n1,2\n") for name in ("1.csv", "2.csv")]
    found = tables.find(tmp_path)
    assert found.columns == ["a", "b"]
    assert tables.read_table(found, None, None, None)[0].num_rows == 2
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
    rows = "".join(f"{t},{t / 7:.5f},{-t}\n" for t in range(30))
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
