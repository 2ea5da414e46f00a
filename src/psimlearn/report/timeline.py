"""The rows of recordings on an axis and in words: by their times where these are known, else by their numbers."""

from typing import Any

import numpy as np

from psimlearn.extras import imported
from psimlearn.recordings.trajectories import Trajectories

__all__ = ["called", "dress", "places", "stretch", "unit"]


def unit(data: Trajectories) -> str:
    """The word for what tells rows apart: "time" or "row"."""
    return "row" if data.times is None else "time"


def places(data: Trajectories) -> np.ndarray:
    """Where the rows of one recording stand on an axis: at dates, at seconds, or at their numbers."""
    if data.times is None:
        return np.arange(len(data.values))
    if data.times.kind in ("instant", "local"):
        return data.times.ticks.astype("datetime64[ns]")
    return np.asarray(data.times.ticks * data.times.unit)


def dress(ax: Any, data: Trajectories) -> None:
    """Name the axis of rows, and write dates as short as they can be."""
    ax.set_xlabel(unit(data))
    if places(data).dtype.kind == "M":
        dates = imported("matplotlib.dates", "plot")
        locator = dates.AutoDateLocator(minticks=3, maxticks=6)
        ax.xaxis.set_major_locator(locator)
        ax.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))


def called(data: Trajectories, row: int | np.integer, recording: int = 0) -> str:
    """A row of a recording in words: its time, or its number."""
    if data.times is None:
        return str(row)
    place = data.offsets[recording] + row
    return f"{data.times.ticks[place]:.10g}" if data.times.kind == "number" else data.times.shown(place)


def stretch(data: Trajectories, start: int, end: int) -> str:
    """Rows of one recording from `start` up to but without `end`, in words."""
    first, last = called(data, start), called(data, end - 1)
    return f"{'rows ' if data.times is None else ''}{first} to {last}"
