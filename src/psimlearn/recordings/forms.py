"""Recordings as callers hold them, of numbers or of symbols, become one value, `Received`."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import narwhals as nw
import numpy as np

from psimlearn.errors import DataError
from psimlearn.recordings.alphabet import Alphabet, sequences_of
from psimlearn.recordings.arrays import is_dictionary, unmasked
from psimlearn.recordings.frames import is_frame, packed_frame
from psimlearn.recordings.framing import Framing
from psimlearn.recordings.index import Keys, levels
from psimlearn.recordings.names import places
from psimlearn.recordings.plans import Plan, inputs_after
from psimlearn.recordings.received import Form, Received
from psimlearn.recordings.recoded import recoded
from psimlearn.recordings.regular import Timing
from psimlearn.recordings.roles import Roles
from psimlearn.recordings.trajectories import Trajectories, as_trajectories
from psimlearn.recordings.trajectory import Trajectory
from psimlearn.shapes import Float, Int

__all__ = [
    "are_frames",
    "in_order",
    "inputs_to_come",
    "is_table",
    "received",
    "received_symbols",
]


def received(
    recordings: Any,
    names: Sequence[str] | None = None,
    step: float | None = None,
    roles: Roles | None = None,
    *,
    sort: bool = False,
) -> Received:
    """Take recordings of numbers in any form that `PSIM` accepts.

    A 2-D array, a nested list of numbers or a data frame is one recording, unless an id tells the rows of the frame
    apart; a 3-D array is (trajectory, time, channel); anything else is packed by `Trajectories.of`.

    Args:
        recordings: in any form.
        names: the channels in the order that is needed; recordings with names must have the same.
        step: the seconds between rows that frames with times must have; None for the usual distance of their rows.
        roles: the meaning of the columns of frames, as a model remembers it; None if there is none to remember.
        sort: whether the rows of frames with times may come in any order.
    """
    if are_frames(recordings):
        return _received_frames(recordings, names, roles, step, sort)
    if is_table(recordings):
        return Received(Trajectories.of(np.asarray(unmasked(recordings))), "table")
    frames = is_dictionary(recordings) or (isinstance(recordings, list | tuple) and any(map(is_frame, recordings)))
    data = Trajectories.of(recordings, step=step) if frames else as_trajectories(recordings)
    data = in_order(data, names)
    if is_dictionary(recordings):
        return Received(data, "dict")
    if isinstance(recordings, Trajectories):
        return Received(data if roles is None else recoded(data, roles), "packed")
    return Received(data, "cube" if getattr(recordings, "ndim", 0) == 3 else "list")


def in_order(data: Trajectories, names: Sequence[str] | None) -> Trajectories:
    """Trajectories with the channels in the order of these names; as they are if they have no names."""
    if names is None or data.names is None or tuple(names) == data.names:
        return data
    order = places(data.names, names, "", "fit")
    return replace(data, values=data.values[:, order], names=tuple(names))


def are_frames(recordings: Any) -> bool:
    """Whether this is a frame, or a list or a dictionary of frames, at least one, and nothing else."""
    parts = _parts(recordings)
    return isinstance(parts, list | tuple) and len(parts) > 0 and all(map(is_frame, parts))


def _parts(recordings: Any) -> Any:
    """The entries of a list or a dictionary, or a list with the one frame."""
    if is_frame(recordings):
        return [recordings]
    return list(recordings.values()) if is_dictionary(recordings) else recordings


def _received_frames(
    recordings: Any, names: Sequence[str] | None, roles: Roles | None, step: float | None, sort: bool
) -> Received:
    """Frames: their answers have one row for each of their rows, in the same order, also where holes were filled."""
    alone, frames = is_frame(recordings), _parts(recordings)
    given = Roles() if roles is None else _present(roles, frames)
    timing = Timing(None if given.by_rows else "auto" if step is None else step, sort=sort)
    packed, source = packed_frame(recordings, given, timing, strict=True, known=_known(roles, names))
    data = in_order(Trajectories(*packed), names)
    if roles is None:
        data = replace(data, roles=None)  # nobody has told a meaning: the next frames are read as strictly
    rows = np.empty(int(np.sum(source >= 0)), dtype=np.int64)
    rows[source[source >= 0]] = np.flatnonzero(source >= 0)
    ends = np.cumsum([len(frame) for frame in frames])[:-1]
    framings = [_framing(f, r, data, given) for f, r in zip(frames, np.split(rows, ends), strict=True)]
    form: Form = (
        "dict" if is_dictionary(recordings) else "list" if not alone else "frame" if data.ids is None else "long"
    )
    return Received(data, form, tuple(framings))


def _present(roles: Roles, frames: Sequence[Any]) -> Roles:
    """The roles of a model for these frames, which need have neither its id nor its time nor its hints."""

    def there(name: Any) -> bool:
        return all(name in _columns(frame) or _in_index(frame, name) for frame in frames)

    id, time = (name if name is not None and there(name) else None for name in (roles.id, roles.time))
    hints = roles.hints if all(map(there, roles.hints)) else ()
    return roles._replace(id=id, time=time, channels=roles.channels or None, hints=hints)


def _known(roles: Roles | None, names: Sequence[str] | None) -> list[Any] | None:
    """The columns that a model knows: of the frame in fit, or its channels; None if this is fit."""
    if roles is None:
        return None if names is None else list(names)
    return [*roles.beside, *(roles.channels or ()), *roles.exclude]


def inputs_to_come(
    frames: Any, roles: Roles, data: Trajectories, steps: int, step: float | None
) -> Float[np.ndarray, "m steps p"]:
    """The inputs of the rows after each recording, from frames with the columns of a model's inputs.

    Args:
        frames: a frame for one recording, a long frame with the id of the model, or a list or dictionary of frames.
        roles: the meaning of the columns, as the model remembers it.
        data: the recordings.
        steps: how many rows.
        step: the seconds between rows that the times of the frames must have; None if no time counts.
    """
    given = _present(roles, _parts(frames))._replace(channels=(), hints=())
    packed = packed_frame(frames, given, Timing(None, sort=True), strict=True, known=_known(roles, None)).packed
    assert packed.inputs is not None
    times = None if roles.by_rows else packed.times
    return inputs_after(Plan(packed.inputs, packed.offsets, packed.ids, times), data, steps, step)


def _columns(frame: Any) -> list[Any]:
    """The columns of a frame; none if it is of an unknown library, which its reader refuses in words."""
    known = nw.from_native(frame, pass_through=True)
    return list(known.columns) if isinstance(known, nw.DataFrame) else []


def _in_index(frame: Any, name: Any) -> bool:
    return nw.dependencies.is_pandas_dataframe(frame) and name in frame.index.names


def _framing(frame: Any, rows: Int[np.ndarray, " rows"], data: Trajectories, roles: Roles) -> Framing:
    """A frame, and where its channels, ids and times stand."""
    columns = _columns(frame)
    named = Keys(*(name if name in columns else None for name in (roles.id, roles.time)))
    named_channels = data.names or roles.channels or [name for name in columns if name not in roles.beside]
    return Framing(frame, rows, list(named_channels), named, levels(frame, roles.id, roles.time), roles.time_format)


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
    packed = isinstance(recordings, Trajectories)
    return Received(data, "table" if single else "packed" if packed else "list", alphabet=data.alphabet)


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
