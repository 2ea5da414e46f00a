"""CSV files as tables of text and numbers.

A CSV reader that infers types turns the id "007" into 7, and a column of measurements into text because of one typo. So
every cell is read as text first, and `cells` decides its meaning.
"""

from collections.abc import Collection
from io import TextIOWrapper
from pathlib import Path
from typing import Any

from psimlearn.errors import DataError
from psimlearn.extras import imported
from psimlearn.recordings.cells import MARKED, MISSING, NUMBER, Header, cells_of, header_of, what_is_wrong

__all__ = ["read_csv", "read_header"]

PEEK = 1 << 16
"""Bytes read to find the header."""


def read_header(file: Path) -> Header:
    """The columns of a CSV file, from its beginning alone."""
    return header_of(_beginning(file), str(file))


def read_csv(file: Path, header: Header, id: str | None, time: str | None, numeric: Collection[str], rest: bool) -> Any:
    """Read a CSV file whose header is known as a pyarrow table.

    Args:
        file: the CSV file.
        header: its header, from `read_header`.
        id: a column to keep as text.
        time: a column to read as numbers or instants.
        numeric: columns that must hold numbers.
        rest: whether to keep the other columns that hold numbers too; columns of text are left out.
    """
    pa = imported("pyarrow", "data")
    texts = _texts(file, header)
    columns: dict[str, Any] = {}
    for name in texts.column_names:
        column, where = texts.column(name).combine_chunks(), f"{file}, column {name!r}"
        if name == id:
            columns[name] = _blank_as_null(column)
        elif name == time:
            columns[name] = _times(column, where)
        elif name in numeric:
            columns[name] = _numbers(column, where, text_allowed=False)
        elif rest and (numbers := _numbers(column, where, text_allowed=True)) is not None:
            columns[name] = numbers
    return pa.table(columns)


def _texts(file: Path, header: Header) -> Any:
    """Every cell as text."""
    pa, arrow = imported("pyarrow", "data"), imported("pyarrow.csv", "data")
    _check_quotes(file, header.delimiter)
    ragged: list[Any] = []

    def refused(row: Any) -> str:
        ragged.append(row)
        return "error"

    try:
        table = arrow.read_csv(
            str(file),
            read_options=arrow.ReadOptions(use_threads=False, column_names=header.names, skip_rows=header.n_lines),
            parse_options=arrow.ParseOptions(
                delimiter=header.delimiter,
                # in a file of one column an empty line is a value that was not observed
                ignore_empty_lines=len(header.names) > 1,
                invalid_row_handler=refused,
            ),
            convert_options=arrow.ConvertOptions(
                column_types=dict.fromkeys(header.names, pa.string()), strings_can_be_null=False
            ),
        )
    except (pa.ArrowInvalid, OSError) as error:
        if ragged:
            raise _ragged(file, ragged[0]) from error
        raise DataError(
            f"{file}: required a CSV file in UTF-8, received: {error}. Save it again as CSV with UTF-8."
        ) from error
    return _without_nameless(file, table, header.names)


def _beginning(file: Path) -> str:
    pa = imported("pyarrow", "data")
    try:
        with pa.input_stream(str(file)) as stream:  # unpacks .gz
            raw: bytes = stream.read(PEEK)
    except (OSError, pa.ArrowInvalid) as error:
        raise _unreadable(file, error) from error
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in raw:
        raise DataError(f"{file}: required text in UTF-8, received UTF-16 or binary data. Save it as CSV with UTF-8.")
    return raw.removeprefix(b"\xef\xbb\xbf").decode("utf-8", errors="surrogateescape")  # `header_of` finds these


def _check_quotes(file: Path, delimiter: str) -> None:
    """Refuse a quote that is not closed on its line: pyarrow would take the rows below for a part of the cell."""
    pa = imported("pyarrow", "data")
    try:
        with pa.input_stream(str(file)) as stream:
            if not any(b'"' in chunk for chunk in iter(lambda: stream.read(1 << 20), b"")):
                return
        with pa.input_stream(str(file)) as stream:
            for number, line in enumerate(TextIOWrapper(stream, "utf-8", errors="surrogateescape"), 1):
                if '"' in line:
                    cells_of(line.rstrip("\n"), delimiter, f"{file}, line {number}: ")
    except (OSError, pa.ArrowInvalid) as error:
        raise _unreadable(file, error) from error


def _unreadable(file: Path, error: Exception) -> DataError:
    return DataError(f"{file}: required a readable file, received: {error}. Check the path.")


def _ragged(file: Path, row: Any) -> DataError:
    return DataError(
        f"{file}, line {row.number}: required {row.expected_columns} cells as in the header, received "
        f"{row.actual_columns}: {row.text!r}. Leave cells that were not observed empty, and write decimal points, not "
        "commas."
    )


def _without_nameless(file: Path, table: Any, names: list[str]) -> Any:
    """Drop columns without a name if they are empty: a comma at the end of each line makes one."""
    pc = imported("pyarrow.compute", "data")
    for name in names:
        if name.endswith(" without a name"):
            if pc.any(pc.not_equal(pc.utf8_trim_whitespace(table.column(name)), "")).as_py():
                raise DataError(f"{file}: required a name for every column, received a {name}. Add it to the header.")
            table = table.drop_columns([name])
    return table


def _blank_as_null(texts: Any) -> Any:
    pc = imported("pyarrow.compute", "data")
    return pc.if_else(pc.equal(pc.utf8_trim_whitespace(texts), ""), None, texts)


def _times(texts: Any, where: str) -> Any:
    """A column as instants if it holds dates and times in ISO 8601, else as numbers."""
    pa = imported("pyarrow", "data")
    for kind in (pa.timestamp("ns"), pa.timestamp("ns", tz="UTC")):
        try:
            return _blank_as_null(texts).cast(kind)
        except pa.ArrowInvalid:
            continue
    return _numbers(texts, where, text_allowed=False)


def _numbers(texts: Any, where: str, *, text_allowed: bool) -> Any:
    """A column as float64, cells in `MISSING` as null; None for a column of words if `text_allowed`."""
    pa, pc = imported("pyarrow", "data"), imported("pyarrow.compute", "data")
    trimmed = pc.utf8_trim_whitespace(texts)
    missing = pc.is_in(pc.utf8_lower(trimmed), pa.array(MISSING))
    cells = pc.if_else(missing, None, trimmed)
    wrong = pc.invert(pc.match_substring_regex(cells, NUMBER))
    n_wrong = pc.sum(wrong).as_py() or 0
    if not n_wrong:
        return pc.replace_substring_regex(cells, r"^\+", "").cast(pa.float64())
    if text_allowed and n_wrong == len(cells) - cells.null_count:
        wrong = pc.match_substring_regex(cells, MARKED)  # among words, an odd number is no mistake
        if 2 * (pc.sum(wrong).as_py() or 0) < n_wrong:
            return None
    row = pc.index(wrong, True).as_py()
    raise DataError(f"{where}, row {row}: {what_is_wrong(texts[row].as_py())}")
