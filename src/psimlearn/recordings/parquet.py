"""Parquet files as tables of numbers and kept columns."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from psimlearn.errors import DataError
from psimlearn.extras import imported
from psimlearn.recordings.cells import FIRST, Header
from psimlearn.recordings.selection import MAX_BYTES, TOO_LARGE, Selection, Table, check_size, table_of
from psimlearn.recordings.times import clock_text

__all__ = ["read_parquet", "read_schema"]

INDEX = "__index_level_0__"
"""The name that pandas gives an index without a name."""


def read_schema(file: Path) -> Header:
    """The columns of a Parquet file."""
    pa, parquet = imported("pyarrow", "data"), imported("pyarrow.parquet", "data")
    try:
        return Header([FIRST if name == INDEX else str(name) for name in parquet.read_schema(str(file)).names])
    except (OSError, pa.ArrowException) as error:
        raise _not_parquet(file, error) from error


def read_parquet(file: Path, wanted: Selection) -> Table:
    """Read the columns of numbers, and the columns to keep, of a Parquet file."""
    pa, parquet = imported("pyarrow", "data"), imported("pyarrow.parquet", "data")
    try:
        with parquet.ParquetFile(str(file), page_checksum_verification=True) as opened:
            kinds = {FIRST if field.name == INDEX else field.name: field.type for field in opened.schema_arrow}
            taken = [name for name, kind in kinds.items() if _is_taken(kind, name, wanted)]
            _check_memory(file, opened.metadata, taken)
            table = opened.read(columns=[INDEX if name == FIRST else name for name in taken])
    except (OSError, pa.ArrowException) as error:
        raise _not_parquet(file, error) from error
    columns = dict(zip(taken, table.columns, strict=True))
    texts = {*wanted.kept, FIRST, *(name for name in wanted.either if name in kinds and not _is_number(kinds[name]))}
    kept = {name: _values(column) for name, column in columns.items() if name in texts}
    numbers = {name: _numbers(file, name, column, wanted) for name, column in columns.items() if name not in texts}
    left_out = tuple(name for name in kinds if name not in taken and name not in wanted.excluded)
    return table_of(table.num_rows, numbers, kept, left_out if wanted.rest else (), f"{file}, row {{}}".format)


def _is_taken(kind: Any, name: str, wanted: Selection) -> bool:
    if name in wanted.excluded:
        return False
    asked = (*wanted.kept, *wanted.numbers, *wanted.either, FIRST)
    return name in asked or (wanted.rest and _is_number(kind) and not imported("pyarrow", "data").types.is_null(kind))


def _is_number(kind: Any) -> bool:
    is_ = imported("pyarrow", "data").types
    return any(is_a(kind) for is_a in (is_.is_integer, is_.is_floating, is_.is_decimal, is_.is_boolean, is_.is_null))


def _check_memory(file: Path, metadata: Any, taken: list[str]) -> None:
    """Refuse by its directory a file that needs too much memory: a million equal values take a few bytes of it."""
    check_size(file, metadata.num_rows, max(1, len(taken)))
    size = sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))
    if size > MAX_BYTES:
        raise DataError(f"{file}: required at most {MAX_BYTES} bytes of columns, received {size}. {TOO_LARGE}")


def _numbers(file: Path, name: str, column: Any, wanted: Selection) -> np.ndarray:
    """A column as float64, NaN where nothing was observed."""
    pa = imported("pyarrow", "data")
    if not _is_number(column.type):
        cells = _values(column)
        row = next((row for row, cell in enumerate(cells) if cell is not None), 0)
        raise DataError(
            f"{file}, row {row}, column {name!r}: required a number, received {str(cells[row])[:80]!r}. "
            "Convert the column, or leave it out of channels, inputs and hints."
        )
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    values = column.cast(pa.float64(), safe=False).to_numpy()
    absent = np.isin(values, list(wanted.absent.numbers))
    return np.where(absent, np.nan, values) if absent.any() else np.asarray(values)


def _values(column: Any) -> list[Any]:
    """A column as Python values; those of a dictionary are made once."""
    pa = imported("pyarrow", "data")
    if getattr(column.type, "unit", None) == "ns":
        return _times(column)
    if not pa.types.is_dictionary(column.type):
        return list(column.to_pylist())
    found: list[Any] = []
    for chunk in column.chunks:
        values: Mapping[int | None, Any] = dict(enumerate(chunk.dictionary.to_pylist())) | {None: None}
        found += [values[code] for code in chunk.indices.to_pylist()]
    return found


def _times(column: Any) -> list[Any]:
    """Times in nanoseconds: as Python has them if they are whole microseconds, else as text that `moment_of` reads.

    pyarrow makes them values of pandas, and without pandas an error.
    """
    pa = imported("pyarrow", "data")
    kind, ticks = column.type, column.cast(pa.int64()).to_pylist()
    stamps = pa.types.is_timestamp(kind)
    if not any(tick is not None and tick % 1000 for tick in ticks):
        make = pa.duration if pa.types.is_duration(kind) else pa.time64
        return list(column.cast(pa.timestamp("us", tz=kind.tz) if stamps else make("us")).to_pylist())
    if not stamps:
        below = any(tick is not None and tick < 0 for tick in ticks)
        return [tick if tick is None else np.timedelta64(tick, "ns") if below else clock_text(tick) for tick in ticks]
    micro = pa.array([None if tick is None else tick // 1000 for tick in ticks], pa.int64())
    moments = micro.cast(pa.timestamp("us", tz=kind.tz)).to_pylist()
    texts = [None if moment is None else moment.isoformat(timespec="microseconds") for moment in moments]
    n = len("2024-03-31T00:59:59.123456")
    return [text and f"{text[:n]}{tick % 1000:03}{text[n:]}" for text, tick in zip(texts, ticks, strict=True)]


def _not_parquet(file: Path, error: Exception) -> DataError:
    return DataError(f"{file}: required a Parquet file, received: {error}. Write it again.")
