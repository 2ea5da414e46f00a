"""The names of columns: which of them tell an id or a time, and where the channels of one table stand in another."""

from collections.abc import Sequence
from typing import Any

from psimlearn.errors import DataError

__all__ = ["IDS", "TIMES", "listed", "looks_like", "places"]

IDS = ("id", "recording", "recording_id", "trajectory", "trajectory_id", "trial", "run", "episode", "unique_id")
TIMES = ("time", "t", "ts", "timestamp", "datetime", "date", "ds", "seconds", "time_s")
"""Names, in small letters, that tell the meaning of a column."""
MOST = 10
"""So many names are shown in a message."""


def looks_like(known: Sequence[str], names: Sequence[Any]) -> list[Any]:
    """The names among `names` that tell a meaning, `IDS` or `TIMES`; where none is in `IDS`, names that end in _id."""
    small = {name: name.strip().lower() for name in names if isinstance(name, str)}
    exact = [name for name in names if small.get(name) in known]
    return exact or [name for name in names if known is IDS and small.get(name, "").endswith("_id")]


def places(received: Sequence[str], required: Sequence[str], where: str, like: str) -> list[int]:
    """Where each required name stands among the names received; refuses other names.

    Args:
        received: the names of a table.
        required: the names it must have, in the order that is needed.
        where: words before an error message.
        like: what has the required names, in words.
    """
    absent = [name for name in required if name not in received]
    unknown = [name for name in received if name not in required]
    if absent or unknown:
        lacks = f", received none called {listed(absent)}" if absent else ""
        more = f"{' and' if absent else ', received'} further columns {listed(unknown)}" if unknown else ""
        raise DataError(
            f"{where}required the channels {listed(required)} as in {like}{lacks}{more}. Channels are matched by name: "
            "rename the columns, or leave out those that are no channels."
        )
    return [list(received).index(name) for name in required]


def listed(names: Sequence[Any]) -> str:
    """Names for a message, the first few of many."""
    shown = ", ".join(f"{name!r:.60}" for name in names[:MOST])
    return f"[{shown}, .. {len(names) - MOST} more]" if len(names) > MOST else f"[{shown}]"
