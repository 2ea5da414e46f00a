"""The names of columns: which of them tell an id or a time, and where the channels of one table stand in another."""

import re
from collections.abc import Sequence
from typing import Any

from psimlearn.errors import DataError

__all__ = ["COUNTERS", "IDS", "PERHAPS_IDS", "TIMES", "listed", "looks_like", "places"]

OWNERS = ("session", "machine", "subject", "patient", "participant", "device", "asset", "vehicle")
"""Names of ids, unless another column is called `id` or the like: a subject may have several recordings."""
SURE_IDS = ("id", "recording", "recording_id", "trajectory", "trajectory_id", "unique_id")
IDS = (*SURE_IDS, "trial", "run", "episode", *OWNERS)
TIMES = (
    *("time", "t", "ts", "timestamp", "datetime", "date", "ds", "seconds", "time_s", "time_stamp", "date_time"),
    *("zeit", "zeitstempel", "zeitpunkt", "uhrzeit", "datum", "fecha", "horodatage"),
)
"""Names, in small letters, that tell the meaning of a column."""
PERHAPS_IDS = ("unit", "track", "engine", "vessel", "robot", "rig", "station", "person", "animal", "user", "battery")
"""Names of ids, and of quantities as well: a track is also the course of a ship."""
COUNTERS = ("sample", "samples", "frame", "index", "idx", "row", "cycle", "cycles", "tick", "ticks", "counter", "seq")
"""Names of columns that count rows, and of quantities as well: an index may be a price."""
IN_SECONDS = re.compile(r"\s*[\[(]\s*s(ec(onds)?)?\s*[\])]$")
MOST = 10
"""So many names are shown in a message."""


def looks_like(known: Sequence[str], names: Sequence[Any]) -> list[Any]:
    """The names among `names` that tell a meaning, such as `IDS`; where none is in `IDS`, names that end in _id."""
    small = {name: IN_SECONDS.sub("", name.strip().lower()) for name in names if isinstance(name, str)}
    exact = [name for name in names if small.get(name) in known]
    if known is not IDS:
        return exact
    if any(small[name] in SURE_IDS for name in exact):
        return [name for name in exact if small[name] not in OWNERS]
    ends = [name for name in names if small.get(name, "").endswith("_id") and small[name][:-3] not in COUNTERS]
    return exact or ends


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
        fill = "; if a channel was not measured, add the column with NaN" if absent else ""
        leave = "; leave out columns that are no channels" if unknown else ""
        raise DataError(
            f"{where}required the channels {listed(required)} as in {like}{lacks}{more}. Channels are matched by name: "
            f"rename the columns{fill}{leave}."
        )
    return [list(received).index(name) for name in required]


def listed(names: Sequence[Any]) -> str:
    """Names for a message, the first few of many."""
    shown = ", ".join(f"{name!r:.60}" for name in names[:MOST])
    return f"[{shown}, .. {len(names) - MOST} more]" if len(names) > MOST else f"[{shown}]"
