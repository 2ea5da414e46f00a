"""Recordings as callers hold them, and results in the shape they came in: a list for a list, a frame for a frame."""

from typing import Any, Literal, NamedTuple

import narwhals as nw
import numpy as np
from jaxtyping import Float

from psimlearn.errors import DataError
from psimlearn.recordings.alphabet import Alphabet, sequences_of
from psimlearn.recordings.trajectories import Trajectories, Trajectory, as_trajectories

__all__ = ["Received", "ReceivedSymbols", "is_table", "received", "received_symbols"]


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


class ReceivedSymbols(NamedTuple):
    """Recordings of symbols, and whether there was one that came by itself."""

    trajectories: Trajectories
    single: bool

    def returned(self, rows: Float[np.ndarray, "rows *rest"], *, channels: bool = False) -> Any:
        """Something for every row, one array for each recording; probabilities of channels as the likeliest symbol."""
        own = self._alphabet.likeliest(rows) if channels else rows
        return own if self.single else np.split(own, self.trajectories.offsets[1:-1])

    def one_each(self, rows: Float[np.ndarray, "m *rest v"]) -> np.ndarray:
        """The likeliest symbols for every recording; without the axis of recordings for one that came by itself."""
        own = self._alphabet.likeliest(rows)
        return np.asarray(own[0]) if self.single else own

    @property
    def _alphabet(self) -> Alphabet:
        assert self.trajectories.alphabet is not None  # received_symbols sees to it
        return self.trajectories.alphabet


def received_symbols(recordings: Any, alphabet: Alphabet | None = None) -> ReceivedSymbols:
    """Take recordings of symbols in any form that `Trajectories.of_symbols` takes, or made by it.

    Args:
        recordings: of symbols.
        alphabet: of the filter that is to meet them; None takes theirs.
    """
    if isinstance(recordings, Trajectory | Trajectories) or _is_list_of_trajectories(recordings):
        single = isinstance(recordings, Trajectory)
        data = (
            recordings
            if isinstance(recordings, Trajectories)
            else Trajectories.of([recordings] if single else recordings)
        )
        if data.alphabet is None or (alphabet is not None and data.alphabet.symbols != alphabet.symbols):
            wanted = "an alphabet" if alphabet is None else f"the alphabet {list(alphabet.symbols)!r:.200}"
            own = None if data.alphabet is None else list(data.alphabet.symbols)
            raise DataError(
                f"required trajectories of symbols with {wanted}, received {own!r:.200}. Use Trajectories.of_symbols"
                f"{'' if alphabet is None else '(.., alphabet=model.filter_.alphabet)'}, or give plain sequences."
            )
        return ReceivedSymbols(data, single)
    _, single = sequences_of(recordings)
    return ReceivedSymbols(Trajectories.of_symbols(recordings, alphabet=alphabet), single)


def _is_list_of_trajectories(recordings: Any) -> bool:
    return isinstance(recordings, list | tuple) and any(isinstance(part, Trajectory) for part in recordings)
