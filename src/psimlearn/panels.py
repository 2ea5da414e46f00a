"""Recordings as callers hold them, and results in the shape they came in: a list for a list, a frame for a frame."""

from typing import Any, Literal, NamedTuple

import narwhals as nw
import numpy as np
from jaxtyping import Float
from sklearn.utils.validation import validate_data

from psimlearn.errors import DataError
from psimlearn.trajectories import Trajectories, Trajectory, as_trajectories

__all__ = ["Received", "checked", "is_table", "received", "remember"]


class Received(NamedTuple):
    """Recordings, and what they came as."""

    trajectories: Trajectories
    form: Literal["table", "frame", "cube", "list"]
    source: Any = None
    """The frame, where there was one."""

    def returned(self, rows: Float[np.ndarray, "rows *rest"], *, channels: bool = False) -> Any:
        """Something for every row, as the caller's own recordings are arranged; a frame only for their channels."""
        if self.form == "frame" and channels:
            return _framed(rows, self.source)
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
        return Received(Trajectories.from_frame(recordings, channels=list(recordings.columns)), "frame", recordings)
    if is_table(recordings):
        return Received(Trajectories.of(np.asarray(recordings)), "table")
    form: Literal["cube", "list"] = "cube" if getattr(recordings, "ndim", 0) == 3 else "list"
    return Received(as_trajectories(recordings), form)


def checked(estimator: Any, recordings: Any, *, reset: bool = False, least_rows: int = 1) -> Received:
    """The same for a scikit-learn estimator, which remembers the channels of `fit` and asks for them ever after.

    Args:
        estimator: on which `n_features_in_` and, where channels have names, `feature_names_in_` are kept.
        recordings: in any form.
        reset: whether this is `fit`.
        least_rows: that a table must have.
    """
    if is_table(recordings):  # scikit-learn knows best what can be wrong with a table
        try:
            table = validate_data(
                estimator, recordings, reset=reset, ensure_all_finite="allow-nan", ensure_min_samples=least_rows
            )
        except ValueError as error:
            if "strings" in str(error):
                raise DataError(f"{error} Symbols are learnt with features='onehot'.") from error
            raise
        form: Literal["frame", "table"] = "frame" if hasattr(recordings, "columns") else "table"
        known = getattr(estimator, "feature_names_in_", None) if form == "frame" else None
        return Received(Trajectories.of(table, names=None if known is None else known.tolist()), form, recordings)
    given = received(recordings)
    n, names = given.trajectories.n_channels, given.trajectories.names
    if reset:
        remember(estimator, n, names)
    if n != estimator.n_features_in_:
        raise DataError(f"required {estimator.n_features_in_} channels as in fit, received {n}.")
    known = getattr(estimator, "feature_names_in_", None)
    if names is not None and known is not None and names != tuple(known):
        raise DataError(
            f"required the channels {list(known)} as in fit, received {list(names)}. Put them in that order."
        )
    return given


def remember(estimator: Any, n: int, names: tuple[str, ...] | None) -> None:
    """Channels for `checked` to ask for."""
    estimator.n_features_in_ = n
    if names is not None:
        estimator.feature_names_in_ = np.array(names, dtype=object)
    elif hasattr(estimator, "feature_names_in_"):  # of an earlier fit
        del estimator.feature_names_in_


def is_table(recordings: Any) -> bool:
    """Whether this is one recording rather than several: anything 2-D (or less), or rows of plain numbers."""
    if isinstance(recordings, Trajectories):
        return False
    if hasattr(recordings, "ndim"):
        return recordings.ndim < 3 and not (recordings.ndim == 1 and recordings.dtype == object)
    if not isinstance(recordings, list | tuple):
        return True
    return len(recordings) > 0 and _depth(recordings) <= 2


def _depth(entry: Any) -> int:
    """How deep lists of numbers are nested; arrays, frames and trajectories are deep enough to be recordings."""
    if isinstance(entry, list | tuple):
        return 1 + (_depth(entry[0]) if len(entry) else 0)
    is_recording = isinstance(entry, Trajectory) or hasattr(entry, "columns") or getattr(entry, "ndim", 0) > 0
    return 2 if is_recording else 0


def _framed(rows: Float[np.ndarray, "rows n"], like: Any) -> Any:
    """A frame of the caller's own kind with the same columns; pandas keeps its index."""
    if nw.dependencies.is_pandas_dataframe(like):
        return type(like)(rows, index=like.index, columns=like.columns)
    columns = {name: np.ascontiguousarray(rows[:, i]) for i, name in enumerate(nw.from_native(like).columns)}
    return nw.from_dict(columns, backend=nw.get_native_namespace(like)).to_native()
