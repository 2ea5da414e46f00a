"""Data frames, pandas or polars, as packed arrays: a long frame, a frame for each recording, or one recording."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise, starmap
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np

from psimlearn.errors import DataError, SettingsError
from psimlearn.recordings.categories import one_hot, words_of
from psimlearn.recordings.columns import called, column_times, holds_numbers, holds_words, missing, numbers, words
from psimlearn.recordings.index import from_index
from psimlearn.recordings.meanings import suspects
from psimlearn.recordings.names import listed, places
from psimlearn.recordings.packing import Packed
from psimlearn.recordings.regular import Timing as Timing
from psimlearn.recordings.regular import check_inputs, regular
from psimlearn.recordings.roles import Roles as Roles
from psimlearn.recordings.roles import check_roles
from psimlearn.recordings.times import Times
from psimlearn.recordings.trajectory import Trajectory
from psimlearn.shapes import Float, Int

__all__ = ["Framed", "Roles", "is_frame", "packed_frame", "unframed"]

WHERE_TO_SAY = " These are arguments of Trajectories.from_frame."


class Framed(NamedTuple):
    """The fields of a `Trajectories`, and the rows from which they came."""

    packed: Packed
    source: Int[np.ndarray, " rows"]
    """The row of the frame, or of all frames one below the other, at each packed row; -1 where there is none."""


class _Table(NamedTuple):
    """One frame, its ids and its times."""

    columns: "nw.DataFrame[Any]"
    id: "nw.Series[Any] | None"
    time: "nw.Series[Any] | None"
    where: str
    """Words before an error message."""
    key: Any
    """The id of all rows if the frame is one of several."""

    @property
    def bare(self) -> bool:
        """Whether the names only number the columns, as they do if a bare array was made a frame."""
        names = list(self.columns.columns)
        return not any(isinstance(name, str) for name in names) or names == [f"column_{i}" for i in range(len(names))]


def is_frame(entry: Any) -> bool:
    """Whether this is a data frame of any library; the class is asked, since a lazy frame has to work to tell."""
    return hasattr(type(entry), "columns")


def packed_frame(
    frame: Any,
    roles: Roles = Roles(),
    timing: Timing = Timing(),
    *,
    strict: bool = False,
    known: Collection[Any] | None = None,
) -> Framed:
    """Gather the rows of each trajectory in order of first appearance, at equal distances in time.

    Args:
        frame: a long frame; or a list or dictionary of frames, each of which is one trajectory.
        roles: the meaning of the columns.
        timing: how times become rows.
        strict: refuse text where no channels are named, instead of leaving it out; take no numbers for names.
        known: the columns that a model knows, so that nobody need ask what they mean; None where `channels` are all
            that is known, which leaves nothing to ask.
    """
    check_roles(roles)
    tables = list(_tables(frame, roles))
    for table in tables if known is not None or roles.channels is None else []:
        _check_meaning(table, roles, known or ())
    channels = list(roles.channels) if roles.channels is not None else _channels(tables[0], roles, strict)
    if not channels and not (roles.channels == () and roles.inputs):  # inputs alone are those of rows to come
        raise _no_channels(tables[0])
    chosen = [_matched(table, tables[0], channels, roles, strict) for table in tables]
    roles = _with_categories(tables, roles)
    values = np.concatenate([_columns(table, names, roles) for table, names in zip(tables, chosen, strict=True)])
    groups = _grouped(tables)
    keys, order = list(groups), np.concatenate(list(groups.values()))
    offsets = np.cumsum([0, *map(len, groups.values())])
    times = _times(tables, roles)
    called_row = partial(_called_row, [len(table.columns) for table in tables])
    source, step = order, None
    if times is None:
        values, step = values[order], _step_alone(timing, strict)
    else:
        ordered = times._replace(ticks=times.ticks[order])
        try:
            names = [f"trajectory {key!r}" for key in keys]
            values, offsets, step, source, times = regular(
                values[order], ordered, offsets, timing, names.__getitem__, lambda row: called_row(int(order[row]))
            )
        except DataError as error:
            raise DataError(f"{error}{WHERE_TO_SAY * strict}") from None
        source = np.where(source < 0, -1, order[source])
    parts = np.split(values, np.cumsum([len(channels), roles.n_inputs]), axis=1)
    check_inputs(parts[1], source, offsets, keys, called_row)
    left_out = tuple(name for name in tables[0].columns.columns if name not in {*channels, *roles.beside})
    packed = Packed(
        parts[0],
        offsets,
        parts[1] if roles.inputs else None,
        None if strict and tables[0].bare else tuple(str(name) for name in channels),
        tuple(keys) if isinstance(frame, Mapping) or tables[0].id is not None else None,
        parts[2] if roles.hints else None,
        step=step,
        times=times,
        roles=roles._replace(channels=tuple(channels), by_rows=timing.step is None, exclude=left_out),
    )
    return Framed(packed, source)


def unframed(recordings: Sequence[Any], ids: Sequence[Any] | None, step: float | None) -> list[Any]:
    """A list in which frames may stand for recordings, with a `Trajectory` in place of each.

    Args:
        recordings: frames and anything else.
        ids: the caller's names of the recordings.
        step: the step of frames that have times, in seconds; None for the usual distance of their rows.
    """
    places = [i for i, part in enumerate(recordings) if is_frame(part)]
    frames = {i if ids is None else ids[i]: recordings[i] for i in places}
    packed = packed_frame(frames, timing=Timing("auto" if step is None else step), strict=True).packed
    parts = list(recordings)
    for i, rows in zip(places, starmap(slice, pairwise(packed.offsets)), strict=True):
        times = packed.times and packed.times._replace(ticks=packed.times.ticks[rows])
        parts[i] = Trajectory(packed.values[rows], names=packed.names, step=packed.step, times=times)
    return parts


def _tables(frame: Any, roles: Roles) -> Iterator[_Table]:
    """Each frame with its ids and times."""
    if is_frame(frame) or not isinstance(frame, list | tuple | Mapping):
        yield _table(frame, roles, "", None)
        return
    if not frame:
        raise DataError("recordings: required at least one frame, received none. Check that they were loaded.")
    for key, part in frame.items() if isinstance(frame, Mapping) else enumerate(frame):
        table = _table(part, roles, f"frame {key!r}: ", key)
        if table.id is not None:
            raise DataError(
                f"frame {key!r}: required one recording in each of several frames, received a frame with the ids of "
                "several. Concatenate the frames, and pass the long frame with id=."
            )
        yield table


def _table(frame: Any, roles: Roles, where: str, key: Any) -> _Table:
    try:
        columns = nw.from_native(frame, eager_only=True)
        names = list(columns.columns)
    except nw.exceptions.DuplicateError:
        raise DataError(f"{where}required different names, received a name twice. Rename the columns.") from None
    except TypeError:
        raise DataError(
            f"{where}required a pandas or polars data frame in memory, received {type(frame).__name__}. Collect a lazy "
            "frame first; for arrays use Trajectories.of."
        ) from None
    if not len(columns):
        raise DataError(
            f"{where}the frame has no rows: required at least one, received none. Check the filter that made it."
        )
    index = from_index(frame, roles.id, roles.time)
    needed = [
        name
        for name in roles.beside + list(roles.channels or ())
        if not (name == roles.id and index.id is not None) and not (name == roles.time and index.time is not None)
    ]
    if absent := [name for name in needed if name not in names]:
        fill = "; if a channel was not measured, add the column with NaN"
        raise DataError(
            f"{where}required columns {listed(absent)}, received a frame with {listed(names)}. Correct the names, or "
            f"rename the frame's columns{fill if set(absent) & set(roles.channels or ()) else ''}."
        )
    id = columns.get_column(roles.id) if roles.id in names else index.id
    time = columns.get_column(roles.time) if roles.time in names else index.time
    return _Table(columns, id, time, where, key)


def _channels(table: _Table, roles: Roles, strict: bool) -> list[Any]:
    """Every column that nothing else was named for: of numbers, or with `strict`, whatever they hold."""
    free = [name for name in table.columns.columns if name not in roles.beside]
    return free if strict else [name for name in free if holds_numbers(table.columns.get_column(name))]


def _no_channels(table: _Table) -> DataError:
    kinds = {name: str(kind) for name, kind in table.columns.schema.items()}
    return DataError(
        f"{table.where}no channel left: required at least one numeric column beside id, time, inputs and hints, "
        f"received {kinds!s:.300}. Name channels=, or convert columns to numbers."
    )


def _check_meaning(table: _Table, roles: Roles, known: Collection[Any]) -> None:
    """Refuse columns that may be an id or a time, as their names or their cells say, and that nobody has named so."""
    timed = table.time is not None
    if timed and table.id is not None:
        return
    free = [name for name in table.columns.columns if name not in roles.beside and name not in known]
    groups = None if table.id is None else _numbered(table.id)
    cells = {name: _cells(table.columns.get_column(name)) for name in free}
    found = suspects(cells, groups, timed=timed, alone=not known)
    if table.key is not None:  # one of several frames is one recording, unless a name says otherwise
        found = {name: suspect for name, suspect in found.items() if suspect.what == "time" or not suspect.why}
    if not found:
        return
    asked = " and ".join(f"{name!r} ({suspect.asked})" for name, suspect in found.items())
    given = {"id": roles.id, "time": roles.time} | {suspect.what: name for name, suspect in found.items()}
    given |= {what: list(getattr(roles, what)) or None for what in ("inputs", "hints")}
    call = ", ".join(f"{what}={name!r}" for what, name in given.items() if name is not None)
    otherwise = "else leave it out"
    if not known:
        numeric = [name for name in free if isinstance(cells[name], np.ndarray)]
        channels = [name for name in numeric if name not in found]
        otherwise = f"else name the channels there: channels={listed(channels or numeric)}, and this one if it is one"
    raise DataError(
        f"{table.where}required the meaning of the column{'s' * (len(found) > 1)} {asked}, received none. Call "
        f"Trajectories.from_frame(frame, {call}); {otherwise}."
    )


def _cells(column: "nw.Series[Any]") -> Any:
    """The cells that tell the meaning of a column: numbers as an array, words as a list, None of true and false."""
    if column.dtype.is_numeric():
        return column.to_numpy()
    if column.dtype.is_temporal():
        return column.head(1).to_list()  # one date tells it
    return words(column) if holds_words(column) else None


def _numbered(ids: "nw.Series[Any]") -> Int[np.ndarray, " rows"]:
    """The number of the recording of each row."""
    try:
        numbers: dict[Any, int] = {}
        return np.array([numbers.setdefault(id, len(numbers)) for id in ids.to_list()])
    except TypeError:  # ids that are no ids are refused where they are used
        return np.zeros(len(ids), dtype=np.int64)


def _matched(table: _Table, first: _Table, channels: list[Any], roles: Roles, strict: bool) -> list[Any]:
    """The columns to take from one of several frames: matched by name, or by position where there are no names."""
    beside = [*roles.inputs, *roles.hints]
    if table is first or roles.channels is not None:
        return [*channels, *beside]
    theirs = _channels(table, roles, strict)
    if not (table.bare or first.bare):
        places(theirs, channels, table.where, f"frame {first.key!r}")
        return [*channels, *beside]
    if len(theirs) != len(channels):
        raise DataError(
            f"{table.where}required {len(channels)} channels as in frame {first.key!r}, received {len(theirs)}. All "
            "recordings must have the same channels; mark channels that were not observed with NaN."
        )
    return [*theirs, *beside]


def _grouped(tables: list[_Table]) -> dict[Any, Int[np.ndarray, " T"]]:
    """The rows of each trajectory, by id, counted over all frames."""
    rows: dict[Any, list[int]] = {}
    if tables[0].id is None:
        ends = np.cumsum([0, *(len(table.columns) for table in tables)])
        return {0 if t.key is None else t.key: np.arange(*ends[i : i + 2]) for i, t in enumerate(tables)}
    column = tables[0].id
    for row, (key, absent) in enumerate(zip(column.to_list(), missing(column), strict=True)):
        if absent:
            raise DataError(
                f"{called(column)}, frame row {row}: required a trajectory id, received {key!r}. "
                "Fill it in or drop the row."
            )
        try:
            rows.setdefault(key, []).append(row)
        except TypeError:
            raise DataError(
                f"{called(column)}, frame row {row}: required a number or text as id, received {type(key).__name__}."
            ) from None
    return {key: np.array(members) for key, members in rows.items()}


def _called_row(lengths: Sequence[int], row: int) -> str:
    """A row of all frames one below the other, in the words of an error message: its place in its own frame."""
    ends = np.cumsum(lengths)
    i = int(np.searchsorted(ends, row, side="right"))
    return f"frame row {row - ends[i] + lengths[i]}"


def _with_categories(tables: list[_Table], roles: Roles) -> Roles:
    """The words of all inputs that hold words; those of a model stay as they are."""
    columns = {name: [table.columns.get_column(name) for table in tables] for name in roles.inputs}
    found = {
        name: words_of([cell for part in parts for cell in words(part)], name)
        for name, parts in columns.items()
        if name not in roles.categories and any(map(holds_words, parts))
    }
    return roles._replace(categories={**roles.categories, **found}) if found else roles


def _columns(table: _Table, names: Sequence[Any], roles: Roles) -> Float[np.ndarray, "rows columns"]:
    """Columns of numbers as they are, and inputs of words as a column for each word."""
    parts = []
    for name in names:
        column = table.columns.get_column(name)
        known = roles.categories.get(name)
        if known is None:
            parts.append(numbers(column, table.where)[:, None])
        else:
            parts.append(one_hot(words(column), known, name, lambda row: f"{table.where}frame row {row}"))
    return np.concatenate(parts, axis=1)


# -- times -------------------------------------------------------------------------------------------------------------


def _times(tables: list[_Table], roles: Roles) -> Times | None:
    """The times of all rows, None if there are none."""
    found = [column_times(table.time, roles.time_format, table.where) for table in tables if table.time is not None]
    if not found:
        return None
    if len(found) < len(tables) or any(times.kind != found[0].kind for times in found):
        raise DataError("required times of one kind in all frames, received some frames without, or of another kind.")
    return Times(np.concatenate([times.ticks for times in found]), found[0].kind)


def _step_alone(timing: Timing, strict: bool) -> float | None:
    """The step of rows without times: the step that the caller names. A model sorts rows only if they have times."""
    if (timing.sort and not strict) or timing.resample or timing.duplicates != "refuse":
        raise SettingsError("sort, duplicates and resample: required a time, received none. Name the column: time=.")
    return timing.seconds
