"""CSV files as tables of text and numbers.

A CSV reader that infers types turns the id "007" into 7, and a column of measurements into text because of one typo. So
every cell is text first, and `cells` decides its meaning. The reader needs no library beside numpy, and takes some
megabytes of lines at a time: a whole file of Python strings would take ten times its size.
"""

import gzip
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from io import BufferedReader, RawIOBase, TextIOWrapper
from pathlib import Path
from typing import Any

from psimlearn.errors import DataError
from psimlearn.recordings.cells import FIRST, Header, cells_of, header_of, nameless
from psimlearn.recordings.numbers import Numbers, joined, numbers_in
from psimlearn.recordings.selection import MAX_BYTES, TOO_LARGE, Selection, Table, check_size, table_of

__all__ = ["read_csv", "read_header"]

PEEK = 1 << 16
"""Bytes read at a time to find the header."""
LONGEST = 1 << 24
"""The most bytes in a header."""
AT_ONCE = 1 << 18
"""Characters whose cells are taken apart at a time."""


def read_header(file: Path, names: Sequence[str] | None = None) -> Header:
    """The columns of a CSV file, from its beginning alone; `names` are those of a file without a header."""
    return header_of(_beginning(file), str(file), names)


def read_csv(file: Path, header: Header, wanted: Selection) -> Table:
    """Read a CSV file whose header is known."""
    blank = [name for i, name in enumerate(header.names, 1) if name == nameless(i) and name not in wanted.excluded]
    texts = {*wanted.kept, *blank} - set(wanted.excluded)
    asked = {*wanted.numbers, *wanted.either}
    places = {
        name: i
        for i, name in enumerate(header.names)
        if name not in wanted.excluded and (wanted.rest or name in texts or name in asked)
    }
    kept: dict[str, list[Any]] = {name: [] for name in places if name in texts or name in wanted.either}
    parts: dict[str, list[Numbers]] = {name: [] for name in places if name not in texts}
    n_rows, n = 0, len(header.names)
    for cells in _cells(file, header):
        n_rows += len(cells) // n
        check_size(file, n_rows, len(places))
        for name, column in kept.items():
            column += cells[places[name] :: n]
        for name, numbers in parts.items():
            numbers.append(numbers_in(cells[places[name] :: n], wanted.absent))
    called = partial(_called, file, header)
    columns = {
        name: joined(found, name, called, text_allowed=name not in wanted.numbers) for name, found in parts.items()
    }
    words = [name for name, column in columns.items() if column is None]
    table = table_of(
        n_rows,
        {name: column for name, column in columns.items() if column is not None},
        {name: _blank_as_none(kept[name]) for name in kept if name in texts or name in words},
        tuple(name for name in words if name not in wanted.either),
        called,
    )
    return _without_nameless(file, table, [name for name in blank if name not in (*wanted.kept, FIRST)])


def _called(file: Path, header: Header, row: int) -> str:
    """The line of a row, for an error message: the file is read again, as lines of all rows would fill the memory."""
    with _opened(file) as stream:
        for number, line in enumerate(stream, 1):
            if number > header.n_lines and _is_row(line.rstrip("\n"), header):
                row -= 1
                if row < 0:
                    return f"{file}, line {number}"
    return str(file)


def _is_row(line: str, header: Header) -> bool:
    """Whether a line is a row; in a file of one column an empty line is a value that was not observed."""
    return len(header.names) == 1 or bool(line.strip(" "))


def _cells(file: Path, header: Header) -> Iterator[list[str]]:
    """The cells of the rows, one row after the other, some rows at a time."""
    with _opened(file) as stream:
        for _ in range(header.n_lines):
            stream.readline()
        number = header.n_lines + 1
        while lines := stream.readlines(max(AT_ONCE, 2048 * len(header.names))):
            yield _cells_in([line.rstrip("\n") for line in lines], header, file, number)
            number += len(lines)


def _cells_in(lines: Sequence[str], header: Header, file: Path, number: int) -> list[str]:
    """The cells of some lines, the first of which has this number."""
    delimiter, n = header.delimiter, len(header.names)
    rows = [line for line in lines if _is_row(line, header)]
    if rows and all(line.count(delimiter) == n - 1 and '"' not in line for line in rows):
        return delimiter.join(rows).split(delimiter)
    cells = []
    for i, line in enumerate(lines, number):
        if _is_row(line, header):
            row = cells_of(line, delimiter, f"{file}, line {i}: ")
            _check_count(file, i, line, len(row), n)
            cells += row
    return cells


def _check_count(file: Path, number: int, line: str, received: int, required: int) -> None:
    if received != required:
        raise DataError(
            f"{file}, line {number}: required {required} cells as in the header, received {received}: {line[:80]!r}. "
            "Leave cells that were not observed empty, and write decimal points, not commas."
        )


def _beginning(file: Path) -> str:
    """The beginning of a file, with the whole line of the header."""
    with _unpacked(file) as stream:
        raw: bytes = stream.read(PEEK)
        while len(raw) < LONGEST and not _has_line(raw) and (more := stream.read(PEEK)):
            raw += more
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in raw:
        raise DataError(f"{file}: required text in UTF-8, received UTF-16 or binary data. Save it as CSV with UTF-8.")
    if len(raw) >= LONGEST and not _has_line(raw):
        raise DataError(
            f"{file}: required a header of at most {LONGEST} bytes, received a longer line. Check the file."
        )
    return raw.removeprefix(b"\xef\xbb\xbf").decode("utf-8", errors="surrogateescape")  # `header_of` finds these


def _has_line(raw: bytes) -> bool:
    """Whether a line that is not empty has its end here."""
    return any(end in raw.lstrip() for end in (b"\n", b"\r"))


class Limited(RawIOBase):
    """The bytes of a stream, refused where they are too many: a small file can unpack to a thousand times its size."""

    def __init__(self, stream: Any, file: Path) -> None:
        self.stream, self.file, self.size = stream, file, 0

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read some bytes."""
        n = int(self.stream.readinto(buffer))
        self.size += n
        if self.size > MAX_BYTES:
            raise DataError(
                f"{self.file}: required at most {MAX_BYTES} bytes of text once unpacked, received more. {TOO_LARGE}"
            )
        return n


@contextmanager
def _unpacked(file: Path) -> Iterator[BufferedReader]:
    """The bytes of a file; those of a .gz file unpacked."""
    try:
        with gzip.open(file) if file.name.lower().endswith(".gz") else file.open("rb", buffering=0) as raw:
            yield BufferedReader(Limited(raw, file), PEEK)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{file}: required a readable file, received: {error}. Check the path.") from error


@contextmanager
def _opened(file: Path) -> Iterator[TextIOWrapper]:
    """The text of a file; every end of a line is a line feed."""
    try:
        with _unpacked(file) as raw:
            yield TextIOWrapper(raw, "utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{file}: required a CSV file in UTF-8, received the byte {error.object[error.start]:#x}. Save it again as "
            "CSV with UTF-8."
        ) from error


def _without_nameless(file: Path, table: Table, names: Sequence[str]) -> Table:
    """Drop columns without a name if they are empty: a comma at the end of each line makes one."""
    for name in names:
        if any(cell is not None for cell in table.kept.pop(name)):
            raise DataError(
                f"{file}: required a name for every column, received a {name}. Add it to the header, or leave the "
                f"column out: --exclude {name!r}."
            )
    return table


def _blank_as_none(cells: Sequence[str]) -> list[str | None]:
    return [cell if cell.strip() else None for cell in cells]
