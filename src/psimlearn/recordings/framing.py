"""Answers as data frames like those that came in: the same library, index, ids, times and order of rows."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np

from psimlearn.errors import DataError
from psimlearn.recordings.columns import column_times
from psimlearn.recordings.following import following
from psimlearn.recordings.index import Keys, level
from psimlearn.recordings.names import listed
from psimlearn.recordings.stamps import stamps_like, wall_of
from psimlearn.recordings.times import Times
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.shapes import Float, Int

__all__ = ["Framing", "after", "keys_of", "like", "plain_frame", "turned_into"]


class Framing(NamedTuple):
    """A data frame that came in, and the packed row of each of its rows."""

    frame: Any
    rows: Int[np.ndarray, " rows"]
    channels: Sequence[Any]
    """The labels of the channels, in the order of the model."""
    columns: Keys = Keys()
    """The columns of ids and times; None where there is none, or where they stand in the index."""
    levels: Keys = Keys()
    """The levels of the index with ids and times."""
    time_format: str | None = None

    @property
    def keys(self) -> dict[Any, "nw.Series[Any]"]:
        """The columns that come back as they came."""
        frame = nw.from_native(self.frame, eager_only=True)
        return {name: frame.get_column(name) for name in self.columns if name is not None}

    @property
    def time(self) -> "nw.Series[Any] | None":
        """The times of all rows."""
        if self.columns.time is not None:
            return self.keys[self.columns.time]
        return None if self.levels.time is None else level(self.frame, self.levels.time)


def like(framing: Framing, values: np.ndarray, labels: Sequence[Any]) -> Any:
    """A frame with one row for each row of the frame that came in: its ids and times, and these columns.

    Args:
        framing: the frame that came in.
        values: one entry for each packed row, of all recordings.
        labels: the names of the columns.
    """
    return _assembled(framing, framing.keys, getattr(framing.frame, "index", None), values[framing.rows], labels)


def after(
    framing: Framing,
    data: Trajectories,
    recordings: Sequence[int],
    values: Float[np.ndarray, "m steps n"],
    labels: Sequence[Any],
) -> Any:
    """A frame with the rows after the end of each recording: its id, the times that follow, and these columns.

    Times that do not count, as by `step=None`, or whose step nobody knows, are missing in the answer.

    Args:
        framing: the frame that came in.
        data: all recordings.
        recordings: the numbers of the recordings in this frame.
        values: one entry for each recording in this frame.
        labels: the names of the columns.
    """
    steps = values.shape[1]
    place = np.full(len(data.values), -1)
    place[framing.rows] = np.arange(len(framing.rows))
    last = np.repeat(place[data.offsets[1:][list(recordings)] - 1], steps)
    stamps = _stamps(framing, data, recordings, place, steps)
    keys = {name: column[last] for name, column in framing.keys.items()}
    if framing.columns.time is not None:
        keys[framing.columns.time] = _no_times(keys[framing.columns.time]) if stamps is None else stamps
    rows = np.concatenate(list(values))
    index = _index_after(framing, last, stamps) if nw.dependencies.is_pandas_dataframe(framing.frame) else None
    return _assembled(framing, keys, index, rows, labels)


def _assembled(
    framing: Framing, keys: Mapping[Any, "nw.Series[Any]"], index: Any, rows: np.ndarray, labels: Sequence[Any]
) -> Any:
    """Keys and columns beside each other, with the index that is given, of a pandas frame."""
    rows = rows[:, None] if rows.ndim == 1 else rows
    if both := [name for name in labels if name in keys]:
        raise DataError(f"required an id and a time with other names than answers have, received {listed(both)}.")
    if not nw.dependencies.is_pandas_dataframe(framing.frame):
        backend = nw.get_native_namespace(framing.frame)
        native = {name: column.to_native() for name, column in keys.items()}  # narwhals 2.0 does not unwrap them
        return nw.from_dict({**native, **_columns(rows, labels)}, backend=backend).to_native()
    made = type(framing.frame)(rows, index=index, columns=list(labels))
    for place, (name, column) in enumerate(keys.items()):
        made.insert(place, name, column.to_native().set_axis(made.index))
    return made


def _columns(rows: np.ndarray, labels: Sequence[Any]) -> dict[str, Any]:
    """The columns of an array by name; polars takes lists where entries are no numbers."""
    parts = {str(name): np.ascontiguousarray(rows[:, i]) for i, name in enumerate(labels)}
    return {name: part.tolist() if part.dtype.kind in "OU" else part for name, part in parts.items()}


# -- times after the end -----------------------------------------------------------------------------------------------


def _stamps(
    framing: Framing, data: Trajectories, recordings: Sequence[int], place: Int[np.ndarray, " rows"], steps: int
) -> "nw.Series[Any] | None":
    """The times after the end of each recording as a column like the times of the frame; None if nobody knows them."""
    column = framing.time
    by_rows = data.roles is not None and data.roles.by_rows
    if column is None or data.step is None or by_rows:
        return None
    parts = [place[slice(*data.offsets[i : i + 2])] for i in recordings]
    parts = [rows[rows >= 0] for rows in parts]  # without the rows that were put in
    times = column_times(column, framing.time_format, "")
    order, offsets = np.concatenate(parts), np.cumsum([0, *map(len, parts)])
    wall = wall_of(column, times)
    wall = None if wall is None else wall._replace(ticks=wall.ticks[order])
    coming = following(Times(times.ticks[order], times.kind), offsets, data.step, steps, wall)
    return stamps_like(column, coming, framing.time_format)


def _no_times(column: "nw.Series[Any]") -> "nw.Series[Any]":
    """The column with all entries missing."""
    frame = column.alias("time").to_frame()
    return frame.select(nw.when(nw.col("time").is_null()).then(nw.col("time")))["time"]


def _index_after(framing: Framing, last: Int[np.ndarray, " rows"], stamps: "nw.Series[Any] | None") -> Any:
    """The pandas index of the rows after the end."""
    pandas, index, n = nw.get_native_namespace(framing.frame), framing.frame.index, len(last)
    if framing.levels == Keys():
        goes_on = isinstance(index, pandas.RangeIndex) and not framing.keys
        start, stride = (index.stop, index.step) if goes_on else (0, 1)
        return pandas.RangeIndex(start, start + n * stride, stride, name=index.name)
    levels = [index.get_level_values(i).take(last) for i in range(index.nlevels)]
    if framing.levels.time is not None:
        before = levels[framing.levels.time]
        levels[framing.levels.time] = _level(pandas, before, stamps)
    if index.nlevels > 1:
        return pandas.MultiIndex.from_arrays(levels, names=index.names)
    return _with_frequency(levels[0], index)


def _level(pandas: Any, before: Any, stamps: "nw.Series[Any] | None") -> Any:
    """A level of times like another one; periods stay periods."""
    if stamps is None:
        return before.where(np.zeros(len(before), dtype=bool))
    coming = pandas.Index(stamps.to_native().array, name=before.name)
    return coming.to_period(before.freq) if hasattr(before, "to_timestamp") else coming


def _with_frequency(coming: Any, index: Any) -> Any:
    """An index with the frequency of the index before, if its times have it."""
    if getattr(index, "freq", None) is not None and getattr(coming, "freq", None) is None:
        try:
            coming.freq = index.freq
        except (AttributeError, ValueError):
            return coming
    return coming


# -- other libraries ---------------------------------------------------------------------------------------------------


def plain_frame(library: str, values: np.ndarray, labels: Sequence[Any], keys: Mapping[str, Any] = {}) -> Any:
    """A frame of a library, "pandas" or "polars", from the values of its columns; `keys` are columns before them."""
    values = values[:, None] if values.ndim == 1 else values
    return import_module(library).DataFrame({**keys, **_columns(values, labels)})


def keys_of(library: Any, data: Trajectories, lengths: Int[np.ndarray, " m"], times: Times | None) -> dict[str, Any]:
    """The columns of ids and times of packed recordings, by name.

    Args:
        library: "pandas" or "polars".
        data: the recordings.
        lengths: how many rows each of them has.
        times: the times of these rows.
    """
    names = Keys("id", "time") if data.roles is None else Keys(data.roles.id or "id", data.roles.time or "time")
    ids = data.ids or range(len(data))
    keys: dict[str, Any] = {str(names.id): [id for id, n in zip(ids, lengths, strict=True) for _ in range(n)]}
    if times is None:
        return keys
    if times.kind == "number":
        return keys | {str(names.time): times.ticks}
    kind = "m8[ns]" if times.kind == "duration" else "M8[ns]"
    stamps = nw.new_series("time", times.ticks.view(kind), backend=library)
    stamps = stamps.dt.replace_time_zone("UTC") if times.kind == "instant" else stamps
    return keys | {str(names.time): stamps.to_native()}


def turned_into(library: str, frame: Any) -> Any:
    """A frame as a frame of another library; ids and times in a pandas index become columns."""
    if nw.get_native_namespace(frame).__name__ == library:
        return frame
    if nw.dependencies.is_pandas_dataframe(frame):
        index = frame.index
        meaning = index.nlevels > 1 or index.name is not None or index.dtype.kind != "i"
        names = [name or ("time" if i == index.nlevels - 1 else "id") for i, name in enumerate(index.names)]
        frame = frame.reset_index(names=names) if meaning else frame
        frame.columns = [str(name) for name in frame.columns]
    columns = nw.from_native(frame, eager_only=True)
    cells = {
        name: column.to_numpy() if column.dtype.is_numeric() else column.to_list()
        for name, column in ((name, columns.get_column(name)) for name in columns.columns)
    }
    return _with_zones(import_module(library).DataFrame(cells), columns)


def _with_zones(made: Any, columns: "nw.DataFrame[Any]") -> Any:
    """A frame whose times have the zones of these columns: polars before 1.6 makes times of UTC without a zone."""
    found = nw.from_native(made, eager_only=True)
    zones = {name: getattr(columns[name].dtype, "time_zone", None) for name in columns.columns}
    lost = [name for name, zone in zones.items() if zone and getattr(found[name].dtype, "time_zone", zone) is None]
    if not lost:
        return made
    mended = (nw.col(name).dt.replace_time_zone("UTC").dt.convert_time_zone(str(zones[name])) for name in lost)
    return found.with_columns(*mended).to_native()
