"""Long data frames, pandas or polars, as packed arrays: one row of the frame per trajectory and time."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import narwhals as nw
import numpy as np

from psimlearn.errors import DataError
from psimlearn.recordings.packing import Packed
from psimlearn.shapes import Bool, Float, Int

__all__ = ["packed_frame"]


def packed_frame(
    frame: Any,
    id: str | None,
    time: str | None,
    channels: Sequence[str] | None,
    inputs: Sequence[str],
    hints: Sequence[str],
) -> Packed:
    """Gather the rows of each trajectory in order of first appearance; the arguments are those of `from_frame`."""
    try:
        table = nw.from_native(frame, eager_only=True)
    except TypeError:
        raise DataError(
            f"required a pandas or polars data frame in memory, received {type(frame).__name__}. Collect a lazy frame "
            "first; for arrays use Trajectories.of."
        ) from None
    taken = [name for name in (id, time) if name is not None] + [*inputs, *hints]
    if channels is None:
        channels = [name for name in table.columns if name not in taken and table.get_column(name).dtype.is_numeric()]
    if absent := [name for name in [*taken, *channels] if name not in table.columns]:
        raise DataError(
            f"required columns {absent}, received a frame with {list(table.columns)}. Correct the names, or rename "
            "the frame's columns."
        )
    if not channels:
        raise DataError(
            "no channel left: required at least one numeric column beside id, time, inputs and hints, received "
            f"{dict(table.schema)}. Name channels=, or convert columns to numbers."
        )
    groups = _rows_by_id(table, id)
    order = np.concatenate(list(groups.values()))
    offsets = np.cumsum([0, *(len(rows) for rows in groups.values())])
    if time is not None:
        _check_times(table.get_column(time), order, offsets, list(groups))
    return Packed(
        _columns(table, channels)[order],
        offsets,
        _columns(table, inputs)[order] if inputs else None,
        tuple(str(name) for name in channels),  # pandas numbers the columns of a bare array
        None if id is None else tuple(groups),
        _columns(table, hints)[order] if hints else None,
    )


def _rows_by_id(table: "nw.DataFrame[Any]", id: str | None) -> dict[Any, Int[np.ndarray, " T"]]:
    """The frame's rows of each trajectory, by id."""
    if not len(table):
        raise DataError("the frame has no rows: required at least one, received none. Check the filter that made it.")
    if id is None:
        return {0: np.arange(len(table))}
    column = table.get_column(id)
    rows: dict[Any, list[int]] = {}
    for row, (key, missing) in enumerate(zip(column.to_list(), _missing(column), strict=True)):
        if missing:
            raise DataError(
                f"column {id!r}, frame row {row}: required a trajectory id, received {key!r}. "
                "Fill it in or drop the row."
            )
        rows.setdefault(key, []).append(row)
    return {key: np.array(members) for key, members in rows.items()}


def _columns(table: "nw.DataFrame[Any]", names: Sequence[Any]) -> Float[np.ndarray, "rows columns"]:
    return np.stack([_numbers(table.get_column(name)) for name in names], axis=1)


def _numbers(column: "nw.Series[Any]") -> Float[np.ndarray, " rows"]:
    """A column as float64, null as NaN."""
    if not (column.dtype.is_numeric() or column.dtype == nw.Boolean):
        example = next((entry for entry in column.to_list() if entry is not None), None)
        raise DataError(
            f"column {column.name!r}: required numbers, received {column.dtype} (for example {example!r}). "
            "Convert it, or leave it out of channels, inputs and hints."
        )
    return column.cast(nw.Float64).fill_null(float("nan")).to_numpy().astype(np.float64)


def _missing(column: "nw.Series[Any]") -> Bool[np.ndarray, " rows"]:
    """Where a column holds null or NaN."""
    null = column.is_null()
    return (null | column.is_nan() if column.dtype.is_float() else null).to_numpy().astype(bool)


def _check_times(
    column: "nw.Series[Any]", order: Int[np.ndarray, " rows"], offsets: Int[np.ndarray, " edges"], keys: list[Any]
) -> None:
    """Refuse times that are missing, or that do not rise within a trajectory."""
    times, missing = column.to_numpy()[order], _missing(column)[order]
    for key, (start, end) in zip(keys, pairwise(offsets), strict=True):
        theirs, gone = times[start:end], missing[start:end]
        if gone.any():
            row = int(np.argmax(gone))
            raise DataError(
                f"trajectory {key!r}, row {row}: required a time in column {column.name!r}, received {theirs[row]}. "
                "Fill it in or drop the row."
            )
        rising = theirs[1:] > theirs[:-1]
        if not rising.all():
            row = int(np.argmin(rising)) + 1
            raise DataError(
                f"trajectory {key!r}, row {row}: required times in column {column.name!r} that rise, received "
                f"{theirs[row]} after {theirs[row - 1]}. Sort the frame by time, and drop or average duplicate times."
            )
