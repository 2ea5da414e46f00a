"""The index of a pandas frame: two levels are id and time; one level of dates, or called like a time, is the time."""

from typing import Any, NamedTuple

import narwhals as nw
import numpy as np

from psimlearn.errors import DataError
from psimlearn.recordings.names import IDS, TIMES, listed, looks_like

__all__ = ["Keys", "from_index", "level", "levels"]


class Keys(NamedTuple):
    """Ids and times that stand in an index, or the numbers of their levels; None for those that do not."""

    id: Any = None
    time: Any = None


def levels(frame: Any, id: Any, time: Any) -> Keys:
    """The numbers of the levels of the id and of the time in the index of a pandas frame.

    Args:
        frame: any frame; other libraries have no index.
        id: the name of the level, or of a column; None to recognise it.
        time: the same for the time.
    """
    if not nw.dependencies.is_pandas_dataframe(frame):
        return Keys()
    index = frame.index
    named = {name: i for i, name in enumerate(index.names) if name is not None and name not in frame.columns}
    found = Keys(named.get(id), named.get(time))
    if index.nlevels == 2 and id is None and time is None:
        found = Keys(1, 0) if _are_swapped(index.names) else Keys(0, 1)
    elif index.nlevels > 1 and not (found.id is not None or found.time is not None):
        raise DataError(
            f"required an index of two levels, the id and the time, received {index.nlevels}: {listed(index.names)}. "
            "Name two of them: Trajectories.from_frame(frame, id=.., time=..)."
        )
    elif index.nlevels == 1 and time is None and found.id is None and _is_time(index):
        found = found._replace(time=0)
    if id is None and found.id is None and (like := looks_like(IDS, list(named))):
        raise DataError(
            f"the index {like[0]!r} looks like the id: required its meaning. Call Trajectories.from_frame(frame, "
            f"id={like[0]!r}), or frame.reset_index(drop=True) if it only numbers the rows."
        )
    return found


def from_index(frame: Any, id: Any, time: Any) -> Keys:
    """The id and the time in the index of a pandas frame, as columns; the arguments are those of `levels`."""
    found = levels(frame, id, time)
    return Keys(*(None if i is None else level(frame, i) for i in found))


def _are_swapped(names: Any) -> bool:
    """Whether the names of two levels say that the first is the time, or the second the id."""
    first, second = ([name] for name in names)
    said = bool(looks_like(TIMES, first) or looks_like(IDS, second))
    return said and not (looks_like(IDS, first) or looks_like(TIMES, second))


def _is_time(index: Any) -> bool:
    """Whether the index holds dates or durations, or is called like a time."""
    dates = isinstance(index.dtype, np.dtype) and index.dtype.kind in "mM"
    return dates or hasattr(index, "tz") or hasattr(index, "to_timestamp") or bool(looks_like(TIMES, [index.name]))


def level(frame: Any, number: int) -> "nw.Series[Any]":
    """A level of the index as a column; periods count from their start."""
    entries = frame.index.get_level_values(number)
    entries = entries.to_timestamp() if hasattr(entries, "to_timestamp") else entries
    return nw.from_native(entries.to_series(index=range(len(entries))), series_only=True)
