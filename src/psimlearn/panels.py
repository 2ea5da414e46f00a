"""Recordings as callers hold them, and results in the shape they came in: a list for a list, a frame for a frame."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import narwhals as nw
import numpy as np
from jaxtyping import Float

from psimlearn.trajectories import Trajectories, Trajectory, as_trajectories

__all__ = ["Received", "is_table", "received"]


class Received(NamedTuple):
    """Recordings, and what they came as."""

    trajectories: Trajectories
    form: Literal["table", "frame", "cube", "list"]
    source: Any = None
    """The frame, where there was one."""

    def returned(self, rows: Float[np.ndarray, "rows *rest"], names: Sequence[str] | None = None) -> Any:
        """Something for every row, as the caller's own recordings are arranged."""
        if self.form == "frame" and names is not None and len(names) == rows.shape[-1] and rows.ndim == 2:
            return _framed(rows, names, self.source)
        if self.form in ("table", "frame"):
            return rows
        parts = self.trajectories.unpacked(rows)
        return np.stack(parts) if self.form == "cube" else parts

    def one_each(self, rows: Float[np.ndarray, "m *rest"]) -> Float[np.ndarray, "*shape"]:
        """Something for every trajectory; for a single table without the axis of trajectories."""
        return rows[0] if self.form in ("table", "frame") else rows


def received(recordings: Any) -> Received:
    """Take recordings in any form that `PSIM` accepts.

    A 2-D array, a nested list of numbers or a data frame is one recording, a 3-D array (trajectory, time, channel),
    anything else what `Trajectories.of` makes of it.
    """
    if isinstance(recordings, Trajectories):
        return Received(recordings, "list")
    if hasattr(recordings, "columns"):
        frame = nw.from_native(recordings, eager_only=True)
        names = tuple(str(name) for name in frame.columns)
        return Received(Trajectories.of(frame.to_numpy(), names=names), "frame", recordings)
    if is_table(recordings):
        return Received(Trajectories.of(np.asarray(recordings)), "table")
    form: Literal["cube", "list"] = "cube" if getattr(recordings, "ndim", 0) == 3 else "list"
    return Received(as_trajectories(recordings), form)


def is_table(recordings: Any) -> bool:
    """Whether this is one recording rather than several: anything 2-D (or less), or rows of plain numbers."""
    if isinstance(recordings, Trajectories):
        return False
    if hasattr(recordings, "ndim"):
        return recordings.ndim < 3 and not (recordings.dtype == object and recordings.ndim == 1)
    if not isinstance(recordings, list | tuple):
        return True
    first = recordings[0] if recordings else ()
    return not isinstance(first, Trajectory | np.ndarray) and np.ndim(first) < 2 and not hasattr(first, "columns")


def _framed(rows: Float[np.ndarray, "rows n"], names: Sequence[str], like: Any) -> Any:
    """A frame of the caller's own kind; pandas keeps its index."""
    columns = {name: np.ascontiguousarray(rows[:, i]) for i, name in enumerate(names)}
    out = nw.from_dict(columns, backend=nw.get_native_namespace(like)).to_native()
    if nw.dependencies.is_pandas_dataframe(like):
        out.index = like.index
    return out
