"""What commands write: at once or not at all, and over nothing unasked."""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from psimlearn.cli.formats import csv_cell, csv_numbers
from psimlearn.errors import DataError
from psimlearn.extras import imported
from psimlearn.files.atomic import atomic

__all__ = ["check_free", "csv_text", "write_table", "write_text", "written"]

CHUNK = 4096
"""Rows that are turned into text at a time."""


def check_free(path: Path | None, force: bool) -> None:
    """Refuse, before any work is done, a file that could not be written after it."""
    if path is None:
        return
    if path.is_dir():
        raise DataError(f"{path}: required the name of a file to write, received a folder. Add a name to it.")
    if path.exists() and not force:
        raise DataError(f"{path}: required a file that does not exist yet, received one. Use --force to replace it.")
    if not os.access(path.absolute().parent, os.W_OK):
        raise DataError(f"{path}: required a folder to write to, received none that is writable. Create it.")


@contextmanager
def written(path: Path) -> Iterator[BufferedIOBase]:
    """A file that takes its name when everything is in it."""
    try:
        with atomic(path) as file:
            yield file
    except OSError as error:
        raise DataError(f"{path}: required a place to write to, received: {error}. Check folder and space.") from error


def write_text(path: Path, text: str) -> None:
    """A page."""
    with written(path) as file:
        file.write(text.encode())


def write_table(
    path: Path | None, keys: Mapping[str, Sequence[Any]], names: Sequence[str], rows: Float[np.ndarray, "rows columns"]
) -> None:
    """Keys and numbers as Parquet or CSV, by the ending of the path; as CSV on standard output without one."""
    if path is None:
        for text in csv_text(keys, names, rows):
            sys.stdout.write(text)
        sys.stdout.flush()
        return
    if path.suffix not in (".csv", ".parquet"):
        raise DataError(f"{path}: required a name that ends in .csv or .parquet, received another. Rename it.")
    with written(path) as file:
        if path.suffix == ".csv":
            file.writelines(text.encode() for text in csv_text(keys, names, rows))
        else:
            _write_parquet(file, keys, names, rows)


def csv_text(
    keys: Mapping[str, Sequence[Any]], names: Sequence[str], rows: Float[np.ndarray, "rows columns"]
) -> Iterator[str]:
    """A header and rows, piece by piece; NaN is an empty cell."""
    yield ",".join(map(csv_cell, [*keys, *names])) + "\n"
    for start in range(0, len(rows), CHUNK):
        numbers = csv_numbers(rows[start : start + CHUNK])
        own = [map(csv_cell, column[start : start + CHUNK]) for column in keys.values()]
        yield "".join(",".join(cells) + "\n" for cells in zip(*own, numbers, strict=True))


def _write_parquet(
    file: BufferedIOBase,
    keys: Mapping[str, Sequence[Any]],
    names: Sequence[str],
    rows: Float[np.ndarray, "rows columns"],
) -> None:
    pa, parquet = imported("pyarrow", "data"), imported("pyarrow.parquet", "data")
    numbers = dict(zip(names, rows.T, strict=True))
    parquet.write_table(pa.table({**{name: list(own) for name, own in keys.items()}, **numbers}), file)
