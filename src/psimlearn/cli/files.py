"""Files that commands write: whole or not at all, and never over a file without --force."""

import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path
from typing import Any

import numpy as np

from psimlearn.cli.formats import csv_cell, csv_numbers
from psimlearn.cli.options import say
from psimlearn.errors import DataError
from psimlearn.extras import imported
from psimlearn.files.atomic import atomic
from psimlearn.recordings.times import times_of
from psimlearn.shapes import Float

__all__ = ["check_free", "check_names", "csv_text", "kept", "write_table", "write_text", "written"]

CHUNK = 4096
"""Rows that are formatted at a time."""


def check_free(path: Path | None, force: bool) -> None:
    """Refuse, before any work is done, a path that cannot be written when the work is done."""
    if path is None:
        return
    if path.is_dir():
        raise DataError(f"{path}: required the name of a file to write, received a folder. Add a name to it.")
    if path.exists() and not force:
        raise DataError(f"{path}: required a file that does not exist yet, received one. Use --force to replace it.")
    if not os.access(path.absolute().parent, os.W_OK):
        raise DataError(
            f"{path}: required a writable folder, received {path.absolute().parent}, which is absent or read-only. "
            "Create it, or choose another."
        )


def check_names(names: Sequence[str]) -> None:
    """Refuse, before any work is done, a table in which two columns would have one name."""
    if twice := sorted({name for name, n in Counter(names).items() if n > 1}):
        raise DataError(
            f"answers: required columns with different names, received {', '.join(map(repr, twice))} twice. Names of "
            "channels, ids and times must differ from the names of answers: rename these columns, and fit again."
        )


@contextmanager
def written(path: Path, keep_whole_lines: bool = False) -> Iterator[BufferedIOBase]:
    """A file to write to, which gets its name when it is complete.

    Args:
        path: the file.
        keep_whole_lines: keep the lines that are whole if writing is stopped or fails.
    """
    try:
        with atomic(path, keep_whole_lines) as file:
            yield file
    except OSError as error:
        raise DataError(
            f"{path}: required a file that can be written, received: {error}. Check folder and space."
        ) from error


@contextmanager
def kept(path: Path) -> Iterator[BufferedIOBase]:
    """A file to write lines to. If writing is stopped or fails, the whole lines get its name, and a message says so."""
    some = False
    try:
        with written(path, keep_whole_lines=True) as file:
            try:
                yield file
            except BaseException:
                some = file.tell() > 0
                raise
    except BaseException:
        if some:
            say(f"psimlearn: the answers so far are kept in {path}.")
        raise


def write_text(path: Path, text: str) -> None:
    """Write text, such as an HTML page, to a file."""
    with written(path) as file:
        file.write(text.encode())


def write_table(
    path: Path | None,
    keys: Mapping[str, Sequence[Any]],
    names: Sequence[str],
    rows: Float[np.ndarray, "rows columns"],
    times: Sequence[str] = (),
    last: Mapping[str, Sequence[Any]] | None = None,
) -> None:
    """Write a table as Parquet or CSV, by the ending of the path; as CSV to standard output without a path.

    Args:
        path: the file.
        keys: columns of ids, times and the like, which come first.
        names: the names of the columns of numbers.
        rows: the numbers; NaN becomes an empty cell.
        times: keys that are times: numbers and instants in Parquet, as they came in CSV.
        last: columns of whole numbers or words, which come last.
    """
    last = last or {}
    check_names([*keys, *names, *last])
    if path is None:
        for text in csv_text(keys, names, rows, last):
            sys.stdout.write(text)
        sys.stdout.flush()
        return
    if path.suffix not in (".csv", ".parquet"):
        raise DataError(f"{path}: required a name that ends in .csv or .parquet, received {path.name!r}. Rename it.")
    with written(path) as file:
        if path.suffix == ".csv":
            file.writelines(text.encode() for text in csv_text(keys, names, rows, last))
        else:
            _write_parquet(file, {n: _typed(c) if n in times else list(c) for n, c in keys.items()}, names, rows, last)


def csv_text(
    keys: Mapping[str, Sequence[Any]],
    names: Sequence[str],
    rows: Float[np.ndarray, "rows columns"],
    last: Mapping[str, Sequence[Any]],
) -> Iterator[str]:
    """A header and rows as CSV, some rows at a time; NaN becomes an empty cell."""
    yield ",".join(map(csv_cell, [*keys, *names, *last])) + "\n"
    for start in range(0, len(rows), CHUNK):
        numbers = csv_numbers(rows[start : start + CHUNK])
        first, end = (
            [map(csv_cell, column[start : start + CHUNK]) for column in side.values()] for side in (keys, last)
        )
        yield "".join(",".join(cells) + "\n" for cells in zip(*first, numbers, *end, strict=True))


def _write_parquet(
    file: BufferedIOBase,
    keys: Mapping[str, Any],
    names: Sequence[str],
    rows: Float[np.ndarray, "rows columns"],
    last: Mapping[str, Any],
) -> None:
    pa, parquet = imported("pyarrow", "data"), imported("pyarrow.parquet", "data")
    numbers = dict(zip(names, rows.T, strict=True))
    parquet.write_table(pa.table({**keys, **numbers, **last}), file)


def _typed(times: Sequence[Any]) -> Any:
    """Times as numbers or instants; as they are where they are written in another way."""
    pa = imported("pyarrow", "data")
    try:
        found = times_of(times)
    except DataError:
        return list(times)
    if found.kind == "duration":
        return list(times)
    if found.kind == "number":
        return found.ticks
    return pa.array(found.ticks, pa.timestamp("ns", tz="UTC" if found.kind == "instant" else None))
