"""Recordings in one order that their contents decide, and notes on them."""

import numpy as np

from psimlearn.choose.settings import Settings
from psimlearn.choose.splits import long_enough
from psimlearn.choose.summary import counted
from psimlearn.filter import OneHot
from psimlearn.filter.scaling import constant_channels
from psimlearn.recordings.order import one_order
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.shapes import Int

__all__ = ["in_order"]


def in_order(
    data: Trajectories, settings: Settings, groups: Int[np.ndarray, " m"] | None
) -> tuple[Trajectories, Int[np.ndarray, " kept"] | None, list[str]]:
    """The recordings that are long enough, in one order, with their groups; and notes on them."""
    order = one_order(data)
    data, groups = data[order], None if groups is None else groups[order]
    data, groups, notes = long_enough(data, settings.features.window, groups)
    return data, groups, notes if isinstance(settings.features, OneHot) else notes + _constants(data)


def _constants(data: Trajectories) -> list[str]:
    """A note on channels that never change."""
    names = [repr(c if data.names is None else data.names[c]) for c in constant_channels(data.values)]
    if not names:
        return []
    some = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    count = counted(len(names), "channel")
    return [f"{count} never changed in these recordings ({some}): not calibrated; alarms ring as soon as one moves"]
