"""Recordings from files: CSV, Parquet and npz, one file or a folder of them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from psimlearn.errors import DataError, SettingsError
from psimlearn.extras import imported
from psimlearn.recordings.archives import MAX_UNPACKED, arrays
from psimlearn.recordings.delimited import header, read_csv
from psimlearn.recordings.trajectories import Trajectories

__all__ = ["column_names", "read", "read_table"]

SUFFIXES = (".csv", ".csv.gz", ".tsv", ".parquet", ".npz")
MAX_BYTES = MAX_UNPACKED
"""Files that hold more than this are refused: a table takes several times as much while it is checked."""
DEFLATES = 1032
"""No gzip file unpacks to more than this many times its size."""


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
    apart. CSV and Parquet need the extra `data`. In CSV files ids stay text ("007" is not 7), empty cells and NA are
    missing, and commas, semicolons or tabs may stand between cells.

    An npz archive has no columns: each 2-D array in it is a trajectory, or its one 3-D array holds many. Single numbers
    and text beside them are passed over. Archives that unpack to more than 2 GiB (`archives.MAX_UNPACKED`) are refused,
    and so are CSV and Parquet files that hold more.

    Args:
        path: the file or folder.
        id: the column that tells trajectories apart; they may go on from one file to the next.
        time: a column that must rise within each trajectory: numbers, or dates and times in ISO 8601.
        channels: the observed columns; by default every column of numbers not named otherwise.
        inputs: columns of known controls.
        hints: columns of quantities measured in training only.
    """
    files = _files(Path(path))
    if files[0].suffix == ".npz":
        if id or time or channels or inputs or hints:
            raise SettingsError(
                f"{path}: npz archives have no columns, so id, time, channels, inputs and hints must not be given. "
                "Load the arrays with numpy and use Trajectories.of(values, inputs, hints=)."
            )
        return _from_archives(files)
    whole, column = read_table(path, id, time, channels, (*inputs, *hints))
    try:
        return Trajectories.from_frame(whole, id=column, time=time, channels=channels, inputs=inputs, hints=hints)
    except DataError as error:
        raise DataError(f"{path}: {error}") from error


def read_table(
    path: str | Path, id: str | None, time: str | None, channels: Sequence[str] | None, beside: Sequence[str] = ()
) -> tuple[Any, str]:
    """CSV or Parquet files as one pyarrow table in the order of their rows, and its column of ids.

    That column is `id`, or one that is added with the names of the files.
    """
    files = _files(Path(path))
    _check_size(path, files)
    tables = [_table(file, id, time, channels, beside) for file in files]
    column = id or _unused(tables[0].column_names)
    if id is None:
        tables = [_marked(table, column, _stem(file)) for file, table in zip(files, tables, strict=True)]
    whole = imported("pyarrow", "data").concat_tables(_alike(files, tables), promote_options="permissive")
    return whole, column


def column_names(path: str | Path) -> list[str]:
    """The columns of a CSV or Parquet file, or of the first of a folder; none for archives."""
    file = _files(Path(path))[0]
    if file.suffix == ".npz":
        return []
    if file.suffix != ".parquet":
        return header(file).names
    pa, parquet = imported("pyarrow", "data"), imported("pyarrow.parquet", "data")
    try:
        return [str(name) for name in parquet.read_schema(str(file)).names]
    except (OSError, pa.ArrowException) as error:
        raise _not_parquet(file, error) from error


def _check_size(path: str | Path, files: Sequence[Path]) -> None:
    """Refuse, before any row is read, what would not fit in memory."""
    size = sum(_unpacked(file) for file in files)
    if size > MAX_BYTES:
        raise DataError(
            f"{path}: required at most {MAX_BYTES} bytes of text, or of columns once unpacked, received {size}. Learn "
            "from a part of the recordings. To filter all of them, let them pass by: psimlearn filter MODEL - < FILE."
        )


def _unpacked(file: Path) -> int:
    """How much a file holds; of one that is compressed, as much as it takes to know that it is too much."""
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
        return size  # whoever reads it says what is wrong
    return size


def _files(path: Path) -> list[Path]:
    """What there is to read, all of one kind."""
    if not path.exists():
        raise DataError(f"{path}: required a file or a folder, received a path where there is none. Check it.")
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
    """The name without its ending, which may be double."""
    ending = max((suffix for suffix in SUFFIXES if file.name.lower().endswith(suffix)), key=len)
    return file.name[: -len(ending)]


def _table(file: Path, id: str | None, time: str | None, channels: Sequence[str] | None, beside: Sequence[str]) -> Any:
    """A pyarrow table of the columns that matter, numbers as float64."""
    numeric = {*(channels or ()), *beside}
    if file.suffix == ".parquet":
        table = _read_parquet(file, [name for name in (id, time) if name], numeric, channels is None)
    else:
        table = read_csv(file, id, time, numeric, channels is None)
    if absent := sorted(({name for name in (id, time) if name} | numeric) - set(table.column_names)):
        raise DataError(
            f"{file}: required columns {absent}, received a file with other columns, {table.column_names} among them. "
            "Correct the names."
        )
    if not table.column_names:
        raise DataError(
            f"{file}: no channel left: required at least one column of numbers, received none. Check the file."
        )
    if not table.num_rows:
        raise DataError(f"{file}: required at least one row, received none. Leave out empty files.")
    return table


def _read_parquet(file: Path, kept: Sequence[str], numeric: set[str], rest: bool) -> Any:
    """Columns in `kept` as they are, those in `numeric` as float64; with `rest`, all other numbers too."""
    pa, parquet = imported("pyarrow", "data"), imported("pyarrow.parquet", "data")
    try:
        with parquet.ParquetFile(str(file)) as opened:
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
    """All with the columns of the first, in its order."""
    first = tables[0].column_names
    for file, table in zip(files, tables, strict=True):
        if different := sorted(set(first) ^ set(table.column_names)):
            raise DataError(
                f"{file}: required the same columns of numbers as in {files[0].name}, received a difference in "
                f"{different}. Name channels= that all files have, or add empty columns."
            )
    return [table.select(first) for table in tables]


def _unused(names: Sequence[str]) -> str:
    """A name that no column has."""
    name = "file"
    while name in names:
        name += "_"
    return name


def _marked(table: Any, column: str, stem: str) -> Any:
    return table.append_column(column, imported("pyarrow", "data").array([stem] * table.num_rows))


def _from_archives(files: Sequence[Path]) -> Trajectories:
    """Trajectories of all archives, called by file, by array, or by both, whichever is needed to tell them apart."""
    found: dict[str, np.ndarray] = {}
    for file in files:
        own = _trajectories(file)
        for name, rows in own.items():
            within = f"{_stem(file)}/{name}" if len(own) > 1 else _stem(file)
            found[name if len(files) == 1 and len(own) > 1 else within] = rows
    return Trajectories.of(list(found.values()), ids=tuple(found))


def _trajectories(file: Path) -> dict[str, np.ndarray]:
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
