"""What CSV files do to people, through the command line: the right result, or one clear line."""

import io
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from commands import run
from psimlearn.cli.columns import NO_COLUMNS, Columns
from psimlearn.cli.recordings import Recordings, recordings
from psimlearn.errors import DataError
from psimlearn.recordings import delimited, parquet, selection, tables


def read(tmp_path: Path, text: str | bytes, columns: Columns = NO_COLUMNS) -> Recordings:
    path = tmp_path / "x.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return recordings(str(path), columns)


def test_ids_that_look_like_numbers_stay_text(tmp_path: Path) -> None:
    given = read(tmp_path, "id,a\n007,1\n7,2\n007,3\n1e3,4\n")
    assert given.data.ids == ("007", "7", "1e3")
    assert [part.values.ravel().tolist() for part in given.data] == [[1, 3], [2], [4]]
    assert given.keys == {"id": ["007", "7", "007", "1e3"]}
    assert given.order.tolist() == [0, 2, 1, 3]


def test_missing_cells(tmp_path: Path) -> None:
    given = read(tmp_path, "a,b\n1,\nNA,2\n nan ,null\n#N/A,4\n")
    np.testing.assert_array_equal(given.data.values, [[1, np.nan], [np.nan, 2], [np.nan, np.nan], [np.nan, 4]])


def test_byte_order_marks_and_semicolons(tmp_path: Path) -> None:
    given = read(tmp_path, b"\xef\xbb\xbftime;a;b\r\n0;1.5;2\r\n1;;3\r\n")
    assert given.columns == Columns(None, "time", ("a", "b"), ())
    np.testing.assert_array_equal(given.data.values, [[1.5, 2], [np.nan, 3]])


def test_mixed_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Words are left out, and said so; a typo among numbers is no word."""
    given = read(tmp_path, "note,a\nwarm,1\ncold,2\n")
    assert given.columns.channels == ("a",)
    assert "left out as text: note" in capsys.readouterr().err
    path = tmp_path / "typo.csv"
    path.write_text("a,b\n1,2\n1o,3\n")
    assert run("fit", path, "-o", tmp_path / "m.psim") == 2
    assert "line 3, column 'a': required a number, received '1o'" in capsys.readouterr().err


def test_holes_in_time_become_rows_that_were_not_observed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = read(tmp_path, "t,a\n0,1\n1,1\n2,1\n9,1\n10,1\n")
    assert np.isnan(given.data.values[:, 0]).tolist() == [False] * 3 + [True] * 6 + [False] * 2
    assert "note: 6 rows are missing between the times given; they count as not observed." in capsys.readouterr().err
    read(tmp_path, "t,a\n2026-01-01T00:00:00,1\n2026-01-01T00:00:01,1\n2026-01-01T00:00:02,1\n")
    assert "note:" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("t;a\n0;1,5\n1;2,5\n", "required a number with a decimal point, received '1,5', with other marks"),
        ("a,b\n1,5,2,5\n", "line 2: required 2 cells as in the header, received 4"),
        ("t,a\n0,1\n2,1\n1,1\n", "line 4: required times that rise, received 1 after 2. Use --sort"),
        (
            "id,t,a\nx,0,1\ny,0,1\nx,0,2\n",
            "line 4: required one row for each time, received 0 twice. Use --duplicates mean",
        ),
        ("", "required a header and rows, received an empty file"),
        ("a,b\n", "required at least one row, received none"),
        ("a,b\n1,2\n", "required a recording with more rows than the window, at least 6, received at most 1"),
        ("1,2\n3,4\n", "required the names of the columns, received numbers"),
        ("note\nx\ny\n", "no channel left"),
        ("a,,b\n0,1,2\n1,2,3\n", "required a name for every column"),
        ("id,a\nx,1\n,2\n", "required a trajectory id"),
        ("a,b\n1,inf\n2,3\n", "received inf"),
    ],
    ids=[
        "decimal commas",
        "decimal commas between commas",
        "unsorted times",
        "the same time twice",
        "empty",
        "header only",
        "one row",
        "no header",
        "words only",
        "a column without a name",
        "no id",
        "infinity",
    ],
)
def test_clear_errors(text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.csv"
    path.write_text(text)
    assert run("fit", path, "-o", tmp_path / "m.psim") == 2
    told = capsys.readouterr().err.splitlines()[-1]
    assert said in told
    assert not (tmp_path / "m.psim").exists()


def test_ten_gigabytes_are_refused_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file is not read: it says 10 GB, and holds next to nothing."""
    path = tmp_path / "x.csv"
    path.write_text("a,b\n" + "1,2\n" * 20_000)
    with path.open("r+b") as file:
        file.truncate(10 * 10**9)
    assert run("fit", path, "-o", tmp_path / "m.psim") == 2
    said = capsys.readouterr().err
    assert f"required at most {2**31} bytes" in said
    assert "Write several files, each with some recordings" in said
    assert "psimlearn filter MODEL - < FILE" in said


def test_small_files_that_unpack_to_much_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import gzip

    import pyarrow
    import pyarrow.parquet

    for module in (tables, selection, delimited, parquet):
        monkeypatch.setattr(module, "MAX_BYTES", 100_000)
    packed, columns = tmp_path / "x.csv.gz", tmp_path / "x.parquet"
    packed.write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 100_000))
    pyarrow.parquet.write_table(pyarrow.table({"a": np.random.default_rng(0).random(50_000)}), columns)
    for path in (packed, columns):
        with pytest.raises(DataError, match="required at most 100000 bytes"):
            recordings(str(path), NO_COLUMNS)
    packed.write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 10))
    assert len(recordings(str(packed), NO_COLUMNS).data.values) == 10


def test_a_folder_is_a_recording_per_file(tmp_path: Path) -> None:
    for name, text in (("b.csv", "t,a\n0,3\n"), ("a.csv", "t,a\n0,1\n1,2\n")):
        (tmp_path / name).write_text(text)
    given = recordings(str(tmp_path), NO_COLUMNS)
    assert given.data.ids == ("a", "b")
    assert given.keys == {"file": ["a", "a", "b"], "t": ["0", "1", "0"]}


def test_the_columns_of_a_model_are_taken_where_a_table_has_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = Columns("who", "when", None, ())
    path = tmp_path / "x.csv"
    path.write_text("who,when,a\nx,0,1\ny,0,2\n")
    assert recordings(str(path), NO_COLUMNS, usual=usual).data.ids == ("x", "y")
    assert "no column" not in capsys.readouterr().err
    path.write_text("when,a\n0,1\n1,2\n")
    for source in (str(path), "-"):
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(path.read_bytes())))
        given = recordings(source, NO_COLUMNS, usual=usual)
        assert given.columns == Columns(None, "when", ("a",), ())
        assert capsys.readouterr().err.count("no column 'who': every file is taken as one recording.") == 1
    with pytest.raises(
        DataError, match=r"required columns \['who'\], received a file with the columns \['when', 'a'\]"
    ):
        recordings(str(path), usual)
