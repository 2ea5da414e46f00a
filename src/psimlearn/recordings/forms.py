"""Recordings as callers hold them, and results in the same form: a list for a list, a frame for a frame.

Recordings of numbers and of symbols become one value, `Received`; a symbolic one also turns probabilities into symbols.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import narwhals as nw
import numpy as np

from psimlearn.errors import DataError
from psimlearn.recordings.alphabet import Alphabet, sequences_of
from psimlearn.recordings.arrays import is_dictionary, unmasked
from psimlearn.recordings.frames import is_frame, packed_frame
from psimlearn.recordings.names import places
from psimlearn.recordings.regular import Timing
from psimlearn.recordings.trajectories import Trajectories, as_trajectories
from psimlearn.recordings.trajectory import Trajectory
from psimlearn.shapes import Float, Int

__all__ = ["Form", "Received", "in_order", "is_table", "received", "received_symbols"]

Form = Literal["table", "frame", "long", "cube", "list", "dict"]
"""One recording, as a table of rows or a data frame; or several: a long frame, one 3-D array, a list, a dictionary."""


class Received(NamedTuple):
    """Recordings, and the form in which they came."""

    trajectories: Trajectories
    form: Form
    source: Any = None
    """The data frame, if the recordings came as one."""
    alphabet: Alphabet | None = None
    """The symbols in which answers about channels are given; None gives numbers."""
    rows: Int[np.ndarray, " rows"] | None = None
    """The packed row of each row of the data frame; None if they are the same."""

    def returned(self, rows: np.ndarray, *, channels: bool = False) -> Any:
        """An array with one entry per row, in the caller's form.

        Args:
            rows: one entry for each packed row.
            channels: whether entries are channels: then a frame comes back for a frame, and the likeliest symbols for
                probabilities of symbols.
        """
        if self.form in ("frame", "long"):
            rows = rows if self.rows is None else rows[self.rows]
            return _framed(rows, self.source) if channels else rows
        answers = self._decoded(rows) if channels else rows
        if self.form == "table":
            return answers
        parts = np.split(answers, self.trajectories.offsets[1:-1])
        if self.form == "dict":
            return dict(zip(self.trajectories.ids or (), parts, strict=True))
        return np.stack(parts) if self.form == "cube" else parts

    def one_each(self, rows: Float[np.ndarray, "m *rest"]) -> np.ndarray:
        """Channels with one entry per trajectory; a single recording comes back without the axis of trajectories."""
        answers = self._decoded(rows)
        return np.asarray(answers[0]) if self.form in ("table", "frame") else answers

    def _decoded(self, rows: Float[np.ndarray, "*rows n"]) -> np.ndarray:
        return rows if self.alphabet is None else self.alphabet.likeliest(rows)


def received(recordings: Any, names: Sequence[str] | None = None, step: float | None = None) -> Received:
    """Take recordings of numbers in any form that `PSIM` accepts.

    A 2-D array, a nested list of numbers or a data frame is one recording, unless the index of the frame has the levels
    id and time; a 3-D array is (trajectory, time, channel); anything else is packed by `Trajectories.of`.

    Args:
        recordings: in any form.
        names: the channels in the order that is needed; recordings with names must have the same.
        step: the seconds between rows that frames with times must have; None for the usual distance of their rows.
    """
    if is_frame(recordings):
        return _received_frame(recordings, names, step)
    if is_table(recordings):
        return Received(Trajectories.of(np.asarray(unmasked(recordings))), "table")
    frames = is_dictionary(recordings) or (isinstance(recordings, list | tuple) and any(map(is_frame, recordings)))
    data = Trajectories.of(recordings, step=step) if frames else as_trajectories(recordings)
    data = in_order(data, names)
    if is_dictionary(recordings):
        return Received(data, "dict")
    return Received(data, "cube" if getattr(recordings, "ndim", 0) == 3 else "list")


def in_order(data: Trajectories, names: Sequence[str] | None) -> Trajectories:
    """Trajectories with the channels in the order of these names; as they are if they have no names."""
    if names is None or data.names is None or tuple(names) == data.names:
        return data
    order = places(data.names, names, "", "fit")
    return replace(data, values=data.values[:, order], names=tuple(names))


def _received_frame(frame: Any, names: Sequence[str] | None, step: float | None) -> Received:
    """One frame: its answers have one row for each row of the frame, also where holes were filled."""
    packed, source = packed_frame(frame, timing=Timing("auto" if step is None else step), strict=True)
    data = in_order(Trajectories(*packed), names)
    if data.names is not None and data.names != packed.names:
        frame = nw.from_native(frame).select(*data.names).to_native()
    rows = np.empty(int(np.sum(source >= 0)), dtype=np.int64)
    rows[source[source >= 0]] = np.flatnonzero(source >= 0)
    return Received(data, "frame" if data.ids is None else "long", frame, rows=rows)


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
    if isinstance(recordings, Trajectories) or is_dictionary(recordings):
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
    is_recording = isinstance(entry, Trajectory) or is_frame(entry) or getattr(entry, "ndim", 0) > 0
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
