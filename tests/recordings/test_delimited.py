"""CSV from a file and CSV through a pipe: the same numbers, or refused by both."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from psimlearn.cli.stream import batches, without_blank_start
from psimlearn.errors import DataError
from psimlearn.recordings import tables
from psimlearn.serve.rows import Wanted, csv_rows, json_rows


def by_file(folder: Path, content: bytes, **options: Any) -> np.ndarray:
    (folder / "a.csv").write_bytes(content)
    return np.asarray(tables.read(folder / "a.csv", **options).values)


def by_pipe(content: bytes, channels: tuple[str, ...]) -> np.ndarray:
    """The rows that a pipe takes; a line that is left out, or a cell that is complained of, raises."""

    def complain(reason: str) -> None:
        raise DataError(reason)

    source, end = os.pipe()
    os.write(end, content)
    os.close(end)
    lines = [line for batch in batches(source) for line in batch]
    os.close(source)
    first, *rest = [line or "" for line in without_blank_start(lines)[0]]
    read, _ = csv_rows(first, Wanted(channels, (), None, None))
    return np.array([read(line.rstrip("\r"), complain).numbers for line in rest if line.strip(" \r")])


def both(folder: Path, content: str | bytes, channels: tuple[str, ...] = ("a", "b")) -> np.ndarray:
    raw = content.encode() if isinstance(content, str) else content
    ours, theirs = by_file(folder, raw, channels=channels), by_pipe(raw, channels)
    np.testing.assert_array_equal(ours, theirs)
    return ours


def refused_by_both(folder: Path, content: str | bytes, said: str, channels: tuple[str, ...] = ("a", "b")) -> None:
    raw = content.encode() if isinstance(content, str) else content
    with pytest.raises(DataError, match=said):
        by_file(folder, raw, channels=channels)
    with pytest.raises(DataError, match=said):
        by_pipe(raw, channels)


# Quotes


@pytest.mark.parametrize(
    "rows",
    [
        '1,2,"x\n3,4,y\n5,6,z\n',
        '1,2,"x\n3,4,"y\n5,6,z\n',
        '1,2,"x\n3,4,y"\n5,6,z\n',
        '1,2,x\n3,4,"y',
        '1,2,"x\r\n3,4,y\r\n',
        '1,2,"x\r3,4,y\r',
        '1,2,"x"y\n',
        '1,"2\n3",x\n',
    ],
)
def test_a_quote_closes_on_its_line(tmp_path: Path, rows: str) -> None:
    """The column in question need not be among the channels: rows would vanish all the same."""
    refused_by_both(tmp_path, "a,b,note\n" + rows, "required a closing quote")
    with pytest.raises(DataError, match=r"a\.csv, line [23]: required a closing quote"):
        by_file(tmp_path, ("a,b,note\n" + rows).encode(), channels=("a",))


def test_a_quote_in_the_header_closes_on_its_line(tmp_path: Path) -> None:
    refused_by_both(tmp_path, 'a,"b\n1,2\n', "line 1: required a closing quote")


def test_quotes_that_are_closed(tmp_path: Path) -> None:
    rows = '"1","2","say ""hi"", x"\n3,4,5" pipe\n"5",6,\n'
    np.testing.assert_array_equal(both(tmp_path, "a,b,note\n" + rows), [[1, 2], [3, 4], [5, 6]])


# Lines


@pytest.mark.parametrize("mark", ["\f", "\v", "\x85", "\u2028", "\u2029", "\x1c", "\f\n", "\v\n\u2028\n", "\ufeff"])
def test_marks_before_the_header_take_no_row(tmp_path: Path, mark: str) -> None:
    np.testing.assert_array_equal(both(tmp_path, mark + "a,b\n1,2\n3,4\n"), [[1, 2], [3, 4]])


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_ends_of_lines(tmp_path: Path, end: str) -> None:
    text = end.join(["", "a,b", "1,2", "3,4", ""])
    np.testing.assert_array_equal(both(tmp_path, text), [[1, 2], [3, 4]])


def test_a_line_end_between_two_readings_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("psimlearn.cli.stream.AT_ONCE", 1)
    for end in ("\n", "\r\n", "\r"):
        np.testing.assert_array_equal(by_pipe(end.join(["a,b", "1,2", "3,4"]).encode(), ("a", "b")), [[1, 2], [3, 4]])


# Cells


@pytest.mark.parametrize("cell", ["+-1", "-+1", "++1", "--1", "1_000", "\uff11", "\u0661", "0x10", "1d5", "1e", "- 1"])
def test_cells_that_are_no_numbers(tmp_path: Path, cell: str) -> None:
    refused_by_both(tmp_path, f"a,b\n{cell},1\n2,3\n", "required a number")


@pytest.mark.parametrize("cell", ["+1", "1.", "01", " 1 ", "+1e0", "1E+0", "\u00a01", "\v1\x1c", "\u20281"])
def test_cells_that_are_one(tmp_path: Path, cell: str) -> None:
    np.testing.assert_array_equal(both(tmp_path, f"a,b\n{cell},2\n"), [[1, 2]])


MARKED = ["1,234.5", "1'234", "5%", "-1,234", "1.234.567", "1.234,5", "1 234,5", "1\u202f234", "$5", "5 \u20ac", "0,5"]
MARKED += ["\u22125", "1\u2019234.5", "12,5 %", "1,234,567.89", "1,5e3"]


@pytest.mark.parametrize("cell", MARKED)
def test_columns_of_numbers_with_marks_do_not_vanish(tmp_path: Path, cell: str) -> None:
    text = f"a;b\n1;{cell}\n2;{cell}\n3;NA\n4;{cell}\n"
    with pytest.raises(DataError, match=r"a\.csv, line 2, column 'b': required a number"):
        by_file(tmp_path, text.encode())
    refused_by_both(tmp_path, text, "required a number")


def test_one_odd_word_does_not_hide_a_column_of_marked_numbers(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"line 3, column 'b': required a number.*'5%'"):
        by_file(tmp_path, b"a;b\n1;-\n2;5%\n3;6%\n")


WORDS = ["up", "2024-01-31", "12:30:00", "192.168.0.1", "1.2.3", "A7", "3a", "10-20", "-", "?", "1st"]


@pytest.mark.parametrize("cell", WORDS)
def test_columns_of_words_are_still_left_out(tmp_path: Path, cell: str) -> None:
    np.testing.assert_array_equal(by_file(tmp_path, f"a,b\n1,{cell}\n2,{cell}\n".encode()), [[1], [2]])


def test_a_remark_with_a_number_is_a_word(tmp_path: Path) -> None:
    np.testing.assert_array_equal(by_file(tmp_path, b"a,note\n1,fine\n2,5%\n3,off\n"), [[1], [2], [3]])


# Encodings


def test_other_encodings_are_refused(tmp_path: Path) -> None:
    refused_by_both(tmp_path, "dr\u00fcck,b\n1,2\n".encode("latin-1"), "line 1: required text in UTF-8", ("b",))
    with pytest.raises(DataError, match="UTF-8"):
        by_file(tmp_path, "a,note\n1,na\u00efve\n".encode("latin-1"), channels=("a",))
    np.testing.assert_array_equal(both(tmp_path, "dr\u00fcck,b\n1,2\n", ("dr\u00fcck", "b")), [[1, 2]])


def test_ids_in_other_encodings_are_not_taken_for_one_another() -> None:
    """The pipe leaves these lines out; elsewhere in a line, odd bytes cost a cell, or nothing."""
    wanted = Wanted(("a",), (), "id", None)
    read, _ = csv_rows("id,a,note", wanted)
    for row in (read, json_rows(wanted)):
        for id in "\u00e9\u00e8":
            line = f"{id},1,x" if row is read else f'{{"id": "{id}", "a": 1}}'
            assert row(line, pytest.fail).id == id
            with pytest.raises(DataError, match="required text in UTF-8, received the byte 0xe"):
                row(line.encode("latin-1").decode(errors="surrogateescape"), pytest.fail)
    assert read("x,1,\udce9", pytest.fail).numbers == [1]


def test_a_long_file_is_not_cut_within_a_letter(tmp_path: Path) -> None:
    rows = "".join("\u00fc" * (1 + t % 3) + f",{t}\n" for t in range(20000))
    assert len(by_file(tmp_path, f"note,a\n{rows}".encode(), channels=["a"])) == 20000


# Parquet


def test_checksums_of_parquet_pages_are_checked(tmp_path: Path) -> None:
    values, path = np.random.default_rng(0).standard_normal(1000), tmp_path / "a.parquet"
    how: dict[str, Any] = {"write_page_checksum": True, "compression": "none", "use_dictionary": False}
    pa.parquet.write_table(pa.table({"a": values}), path, **how)
    np.testing.assert_array_equal(tables.read(path).values[:, 0], values)
    content = bytearray(path.read_bytes())
    content[content.index(values[500].tobytes()) + 1] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"a\.parquet: required a Parquet file, received: .*(CRC|checksum)"):
        tables.read(path)
