"""Recordings as callers hold them, and results in the same form: a list for a list, a frame for a frame.

Recordings of numbers and of symbols become one value, `Received`; a symbolic one also turns probabilities into symbols.
"""

from typing import Any, Literal, NamedTuple

import narwhals as nw
import numpy as np

from psimlearn.errors import DataError
from psimlearn.recordings.alphabet import Alphabet, sequences_of
from psimlearn.recordings.arrays import unmasked
from psimlearn.recordings.trajectories import Trajectories, as_trajectories
from psimlearn.recordings.trajectory import Trajectory
from psimlearn.shapes import Float

__all__ = ["Form", "Received", "is_table", "received", "received_symbols"]

Form = Literal["table", "frame", "cube", "list"]
"""One recording, as a table of rows or a data frame; or several, as one 3-D array or a list."""


class Received(NamedTuple):
    """Recordings, and the form in which they came."""

    trajectories: Trajectories
    form: Form
    source: Any = None
    """The data frame, if the recordings came as one."""
    alphabet: Alphabet | None = None
    """The symbols in which answers about channels are given; None gives numbers."""

    def returned(self, rows: Float[np.ndarray, "rows *rest"], *, channels: bool = False) -> Any:
        """An array with one entry per row, in the caller's form.

        Args:
            rows: one entry for each packed row.
            channels: whether entries are channels: then a frame comes back for a frame, and the likeliest symbols for
                probabilities of symbols.
        """
        if self.form == "frame" and channels:
            return _framed(rows, self.source)
        answers = self._decoded(rows) if channels else rows
        if self.form in ("table", "frame"):
            return answers
        parts = np.split(answers, self.trajectories.offsets[1:-1])
        return np.stack(parts) if self.form == "cube" else parts

    def one_each(self, rows: Float[np.ndarray, "m *rest"]) -> np.ndarray:
        """Channels with one entry per trajectory; a single recording comes back without the axis of trajectories."""
        answers = self._decoded(rows)
        return np.asarray(answers[0]) if self.form in ("table", "frame") else answers

    def _decoded(self, rows: Float[np.ndarray, "*rows n"]) -> np.ndarray:
        return rows if self.alphabet is None else self.alphabet.likeliest(rows)


def received(recordings: Any) -> Received:
    """Take recordings of numbers in any form that `PSIM` accepts.

    A 2-D array, a nested list of numbers or a data frame is one recording; a 3-D array is (trajectory, time, channel);
    anything else is packed by `Trajectories.of`.
    """
    if hasattr(recordings, "columns"):
        return Received(Trajectories.from_frame(recordings, channels=list(recordings.columns)), "frame", recordings)
    if is_table(recordings):
        return Received(Trajectories.of(np.asarray(unmasked(recordings))), "table")
    return Received(as_trajectories(recordings), "cube" if getattr(recordings, "ndim", 0) == 3 else "list")


def received_symbols(recordings: Any, alphabet: Alphabet | None = None) -> Received:
    """Take recordings of symbols: sequences in any form that `Trajectories.of_symbols` takes, or trajectories it made.

    Args:
        recordings: sequences of symbols, or trajectories with an alphabet.
        alphabet: the symbols of the filter that is to run; None takes those of the recordings.
    """
    if isinstance(recordings, Trajectory | Trajectories) or _is_list_of_trajectories(recordings):
        single = isinstance(recordings, Trajectory)
        data = as_trajectories([recordings] if single else recordings)
        _check_alphabet(data.alphabet, alphabet)
    else:
        single = sequences_of(recordings)[1]
        data = Trajectories.of_symbols(recordings, alphabet=alphabet)
    return Received(data, "table" if single else "list", alphabet=data.alphabet)


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
    """How deep lists of numbers are nested; arrays, frames and trajectories count as tables, so as 2."""
    if isinstance(entry, list | tuple):
        return 1 + (_depth(entry[0]) if len(entry) else 0)
    is_recording = isinstance(entry, Trajectory) or hasattr(entry, "columns") or getattr(entry, "ndim", 0) > 0
    return 2 if is_recording else 0


def _is_list_of_trajectories(recordings: Any) -> bool:
    return isinstance(recordings, list | tuple) and any(isinstance(part, Trajectory) for part in recordings)


def _check_alphabet(given: Alphabet | None, required: Alphabet | None) -> None:
    """Refuse trajectories without symbols, or with other symbols than the filter's."""
    if given is None or (required is not None and given.symbols != required.symbols):
        wanted = "an alphabet" if required is None else f"the alphabet {list(required.symbols)!r:.200}"
        raise DataError(
            f"required trajectories of symbols with {wanted}, received "
            f"{None if given is None else list(given.symbols)!r:.200}. Use Trajectories.of_symbols"
            f"{'' if required is None else '(.., alphabet=model.filter_.alphabet)'}, or give plain sequences."
        )


def _framed(rows: Float[np.ndarray, "rows n"], like: Any) -> Any:
    """A frame of the same library with the same columns; pandas keeps its index."""
    if nw.dependencies.is_pandas_dataframe(like):
        return type(like)(rows, index=like.index, columns=like.columns)
    columns = {name: np.ascontiguousarray(rows[:, i]) for i, name in enumerate(nw.from_native(like).columns)}
    return nw.from_dict(columns, backend=nw.get_native_namespace(like)).to_native()
