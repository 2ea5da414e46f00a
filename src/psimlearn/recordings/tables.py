"""Recordings from files: CSV, Parquet and npz, one file or a folder of them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from psimlearn.errors import DataError, SettingsError
from psimlearn.extras import imported
from psimlearn.recordings.archives import MAX_UNPACKED, arrays
from psimlearn.recordings.cells import Header
from psimlearn.recordings.delimited import read_csv, read_header
from psimlearn.recordings.trajectories import Trajectories

__all__ = ["MAX_BYTES", "Files", "find", "read", "read_archives", "read_table"]

SUFFIXES = (".csv", ".csv.gz", ".tsv", ".parquet", ".npz")
MAX_BYTES = MAX_UNPACKED
"""Larger files are refused: a table takes several times as much memory while it is checked."""
DEFLATES = 1032
"""No gzip file unpacks to more than this many times its size."""


class Files(NamedTuple):
    """The files behind one path, all tables or all archives; the header of each table is read once, here."""

    path: Path
    files: list[Path]
    headers: list[Header]
    """The columns of each table; empty for archives, which have none."""

    @property
    def columns(self) -> list[str]:
        """The columns of the first table."""
        return self.headers[0].names if self.headers else []


def find(path: str | Path) -> Files:
    """The files of a path and their columns, before any row is read."""
    files = _files(Path(path))
    archives = files[0].suffix == ".npz"
    return Files(Path(path), files, [] if archives else list(map(_header, files)))


def read(
    path: str | Path,
    id: str | None = None,
    time: str | None = None,
    channels: Sequence[str] | None = None,
    inputs: Sequence[str] = (),
    hints: Sequence[str] = (),
) -> Trajectories:
    """Recordings from a CSV, Parquet or npz file, or from all such files of a folder, in the order of their names.

    Each file is one trajectory and its id is the file's name without ending, unless a column `id` tells trajectories
    apart. CSV and Parquet need the extra `data`. In CSV files ids stay text ("007" is not 7), empty cells and NA mean
    "not observed", and cells are separated by commas, semicolons or tabs.

    An npz archive has no columns: each 2-D array in it is a trajectory, or its one 3-D array holds many. Single numbers
    and text beside them are ignored. Files of more than 2 GiB once unpacked (`archives.MAX_UNPACKED`) are refused.

    Args:
        path: the file or folder.
        id: the column that tells trajectories apart; they may go on from one file to the next.
        time: a column that must rise within each trajectory: numbers, or dates and times in ISO 8601.
        channels: the observed columns; by default every column of numbers not named otherwise.
        inputs: columns of known controls.
        hints: columns of quantities measured in training only.
    """
    found = find(path)
    if not found.headers:
        if id or time or channels or inputs or hints:
            raise SettingsError(
                f"{path}: npz archives have no columns, so id, time, channels, inputs and hints must not be given. "
                "Load the arrays with numpy and use Trajectories.of(values, inputs, hints=)."
            )
        return read_archives(found)
    whole, column = read_table(found, id, time, channels, (*inputs, *hints))
    try:
        return Trajectories.from_frame(whole, id=column, time=time, channels=channels, inputs=inputs, hints=hints)
    except DataError as error:
        raise DataError(f"{path}: {error}") from error


def read_table(
    found: Files, id: str | None, time: str | None, channels: Sequence[str] | None, beside: Sequence[str] = ()
) -> tuple[Any, str]:
    """CSV or Parquet files as one pyarrow table in the order of their rows, and the name of its column of ids.

    That column is `id`, or a new column with the names of the files.
    """
    files = found.files
    _check_size(found)
    tables = [_table(*pair, id, time, channels, beside) for pair in zip(files, found.headers, strict=True)]
    column = id or _unused(tables[0].column_names)
    if id is None:
        tables = [_marked(table, column, _stem(file)) for file, table in zip(files, tables, strict=True)]
    whole = imported("pyarrow", "data").concat_tables(_alike(files, tables), promote_options="permissive")
    return whole, column


def _header(file: Path) -> Header:
    """The columns of a CSV or Parquet file."""
    if file.suffix != ".parquet":
        return read_header(file)
    pa, parquet = imported("pyarrow", "data"), imported("pyarrow.parquet", "data")
    try:
        return Header([str(name) for name in parquet.read_schema(str(file)).names])
    except (OSError, pa.ArrowException) as error:
        raise _not_parquet(file, error) from error


def _check_size(found: Files) -> None:
    """Refuse, before any row is read, tables that would not fit in memory."""
    size = sum(map(_unpacked, found.files))
    if size > MAX_BYTES:
        raise DataError(
            f"{found.path}: required at most {MAX_BYTES} bytes of text, or of columns once unpacked, received {size}. "
            "Learn from a part of the recordings. To filter all of them, stream them: psimlearn filter MODEL - < FILE."
        )


def _unpacked(file: Path) -> int:
    """The bytes in a file once unpacked; a compressed file is unpacked only until they are too many."""
    pa, parquet = imported("pyarrow", "data"), imported("pyarrow.parquet", "data")
    size = file.stat().st_size
    try:
        if file.suffix == ".parquet":
            metadata = parquet.read_metadata(str(file))
            return sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))
        if file.suffix == ".gz" and size * DEFLATES > MAX_BYTES:
            with pa.input_stream(str(file)) as stream:
                size = 0
                while size <= MAX_BYTES and (chunk := stream.read(1 << 20)):
                    size += len(chunk)
    except (OSError, pa.ArrowException):
        return size  # the reader of the file says what is wrong
    return size


def _files(path: Path) -> list[Path]:
    """The files of a path, all tables or all archives, with different names."""
    if not path.exists():
        raise DataError(f"{path}: required a file or a folder, received a path that does not exist. Check it.")
    listed = sorted(path.iterdir()) if path.is_dir() else [path]
    files = [file for file in listed if file.name.lower().endswith(SUFFIXES) and not file.name.startswith(".")]
    if not files:
        raise DataError(
            f"{path}: required a file that ends in {', '.join(SUFFIXES)}, or a folder with such files, received none."
        )
    stems = [_stem(file) for file in files]
    for i, file in enumerate(files):
        if (file.suffix == ".npz") != (files[0].suffix == ".npz") or stems.index(stems[i]) != i:
            raise DataError(
                f"{path}: required files with different names, archives apart from tables, received {file.name} beside "
                f"{files[0].name if stems.index(stems[i]) == i else files[stems.index(stems[i])].name}. Move one away."
            )
    return files


def _stem(file: Path) -> str:
    """A file's name without its ending, which may be double (.csv.gz)."""
    ending = max((suffix for suffix in SUFFIXES if file.name.lower().endswith(suffix)), key=len)
    return file.name[: -len(ending)]


def _table(
    file: Path,
    header: Header,
    id: str | None,
    time: str | None,
    channels: Sequence[str] | None,
    beside: Sequence[str],
) -> Any:
    """A pyarrow table of the chosen columns, numbers as float64."""
    numeric = {*(channels or ()), *beside}
    if file.suffix == ".parquet":
        table = _read_parquet(file, [name for name in (id, time) if name], numeric, channels is None)
    else:
        table = read_csv(file, header, id, time, numeric, channels is None)
    if absent := sorted(({name for name in (id, time) if name} | numeric) - set(table.column_names)):
        raise DataError(
            f"{file}: required columns {absent}, received a file with the columns {header.names}. Correct the names."
        )
    if not table.column_names:
        raise DataError(
            f"{file}: no channel left: required at least one column of numbers, received none. Check the file."
        )
    if not table.num_rows:
        raise DataError(f"{file}: required at least one row, received none. Leave out empty files.")
    return table


def _read_parquet(file: Path, kept: Sequence[str], numeric: set[str], rest: bool) -> Any:
    """Columns in `kept` as they are, columns in `numeric` as float64; with `rest`, all other numbers too."""
    pa, parquet = imported("pyarrow", "data"), imported("pyarrow.parquet", "data")
    try:
        with parquet.ParquetFile(str(file), page_checksum_verification=True) as opened:
            table = opened.read()
    except (OSError, pa.ArrowException) as error:
        raise _not_parquet(file, error) from error
    columns: dict[str, Any] = {}
    for name in table.column_names:
        column, kind = table.column(name), table.schema.field(name).type
        number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
        if name in kept:
            columns[name] = column.cast(kind.value_type) if pa.types.is_dictionary(kind) else column
        elif (number and rest) or (name in numeric and (number or pa.types.is_boolean(kind) or pa.types.is_null(kind))):
            columns[name] = column.cast(pa.float64(), safe=False)
        elif name in numeric:
            row = next((row for row, cell in enumerate(column.to_pylist()) if cell is not None), 0)
            raise DataError(
                f"{file}, column {name!r}, row {row}: required a number, received {column[row].as_py()!r}. Convert the "
                "column, or leave it out of channels, inputs and hints."
            )
    return pa.table(columns)


def _not_parquet(file: Path, error: Exception) -> DataError:
    return DataError(f"{file}: required a Parquet file, received: {error}. Write it again.")


def _alike(files: Sequence[Path], tables: Sequence[Any]) -> list[Any]:
    """All tables with the columns of the first, in its order."""
    first = tables[0].column_names
    for file, table in zip(files, tables, strict=True):
        if different := sorted(set(first) ^ set(table.column_names)):
            raise DataError(
                f"{file}: required the same columns of numbers as in {files[0].name}, received a difference in "
                f"{different}. Name channels= that all files have, or add empty columns."
            )
    return [table.select(first) for table in tables]


def _unused(names: Sequence[str]) -> str:
    """A name that no column has yet."""
    name = "file"
    while name in names:
        name += "_"
    return name


def _marked(table: Any, column: str, stem: str) -> Any:
    return table.append_column(column, imported("pyarrow", "data").array([stem] * table.num_rows))


def read_archives(found: Files) -> Trajectories:
    """The trajectories of all archives, named by file, by array, or by both, as needed to tell them apart."""
    trajectories: dict[str, np.ndarray] = {}
    for file in found.files:
        stored = _trajectories(file)
        for name, rows in stored.items():
            within = f"{_stem(file)}/{name}" if len(stored) > 1 else _stem(file)
            trajectories[name if len(found.files) == 1 and len(stored) > 1 else within] = rows
    return Trajectories.of(list(trajectories.values()), ids=tuple(trajectories))


def _trajectories(file: Path) -> dict[str, np.ndarray]:
    """The trajectories of one archive by name; numbers and text beside them are passed over."""
    stored = {name: array for name, array in arrays(file).items() if array.ndim and array.dtype.kind not in "SU"}
    dimensions = [array.ndim for array in stored.values()]
    if dimensions == [3]:
        (many,) = stored.values()
        return {str(i): rows for i, rows in enumerate(many)}
    if not dimensions or set(dimensions) != {2}:
        shapes = {name: array.shape for name, array in stored.items()}
        raise DataError(
            f"{file}: required 2-D arrays (time, channel), one per trajectory, or a single 3-D array (trajectory, "
            f"time, channel), received {shapes}. Leave other arrays out; for a single channel use x.reshape(-1, 1)."
        )
    return stored
