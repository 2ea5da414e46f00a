"""Long data frames, pandas or polars, as packed arrays: one row of the frame per trajectory and time."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
from jaxtyping import Float, Int

from psimlearn.errors import DataError

__all__ = ["Packed", "packed"]


class Packed(NamedTuple):
    """The fields of a `Trajectories`, in its order."""

    values: Float[np.ndarray, "rows n"]
    offsets: Int[np.ndarray, " edges"]
    inputs: Float[np.ndarray, "rows p"] | None
    names: tuple[str, ...]
    ids: tuple[Any, ...] | None


def packed(
    frame: Any, id: str | None, time: str | None, channels: Sequence[str] | None, inputs: Sequence[str]
) -> Packed:
    """Gather the rows of each trajectory, in order of first appearance, and check that time rises in each."""
    table = nw.from_native(frame, eager_only=True)
    taken = [name for name in (id, time) if name is not None] + list(inputs)
    if channels is None:
        channels = [name for name in table.columns if name not in taken and table[name].dtype.is_numeric()]
    if absent := [name for name in [*taken, *channels] if name not in table.columns]:
        raise DataError(f"columns {absent} are not in the frame; it has {list(table.columns)}.")
    if not channels:
        raise DataError("no channel left: name at least one numeric column in channels=.")
    groups = _rows_by_id(table, id)
    order = np.concatenate(list(groups.values()))
    offsets = np.cumsum([0, *(len(rows) for rows in groups.values())])
    if time is not None:
        _check_times(table[time].to_numpy()[order], offsets, list(groups), time)
    return Packed(
        np.stack([_numbers(table[name]) for name in channels], axis=1)[order],
        offsets,
        np.stack([_numbers(table[name]) for name in inputs], axis=1)[order] if inputs else None,
        tuple(channels),
        None if id is None else tuple(groups),
    )


def _rows_by_id(table: "nw.DataFrame[Any]", id: str | None) -> dict[Any, Int[np.ndarray, " T"]]:
    if not len(table):
        raise DataError("the frame has no rows; required at least one.")
    if id is None:
        return {0: np.arange(len(table))}
    rows: dict[Any, list[int]] = {}
    for row, key in enumerate(table[id].to_list()):
        if key is None or key != key:  # NaN is the one value that differs from itself
            raise DataError(f"column {id!r}, frame row {row}: required a trajectory id, received {key!r}.")
        rows.setdefault(key, []).append(row)
    return {key: np.array(members) for key, members in rows.items()}


def _numbers(column: "nw.Series[Any]") -> Float[np.ndarray, " rows"]:
    """A column as float64, null as NaN."""
    if not (column.dtype.is_numeric() or column.dtype == nw.Boolean):
        example = next((entry for entry in column.to_list() if entry is not None), None)
        raise DataError(
            f"column {column.name!r}: required numbers, received {column.dtype} (for example {example!r}). "
            "Convert it, or leave it out of channels and inputs."
        )
    return column.cast(nw.Float64).fill_null(float("nan")).to_numpy().astype(np.float64)


def _check_times(times: np.ndarray, offsets: Int[np.ndarray, " edges"], keys: list[Any], name: str) -> None:
    for key, (start, end) in zip(keys, pairwise(offsets), strict=True):
        own = times[start:end]
        rising = np.concatenate([own[:1] == own[:1], own[1:] > own[:-1]])  # a missing time equals nothing
        if not rising.all():
            row = int(np.argmin(rising))
            raise DataError(
                f"trajectory {key!r}, row {row}: required times in column {name!r} that rise, received {own[row]}"
                + (f" after {own[row - 1]}" if row else "")
                + ". Sort the frame by time, and drop or average duplicate times."
            )
