"""Recordings as arrays in any form, packed: all rows in one array, and where each trajectory begins."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from psimlearn.checks import listing
from psimlearn.errors import DataError
from psimlearn.recordings.alphabet import Alphabet, Symbol, sequences_of
from psimlearn.recordings.arrays import called, check_same_lengths, is_list_of_objects, stacked, turned
from psimlearn.recordings.names import places
from psimlearn.recordings.roles import Roles
from psimlearn.recordings.steps import same_step
from psimlearn.recordings.times import Times, spoken
from psimlearn.recordings.trajectory import Trajectory
from psimlearn.shapes import Float, Int

__all__ = ["Packed", "channels_last", "packed", "packed_symbols"]


class Packed(NamedTuple):
    """The fields of a `Trajectories`, in the same order."""

    values: Float[np.ndarray, "rows n"]
    offsets: Int[np.ndarray, " edges"]
    inputs: Float[np.ndarray, "rows p"] | None = None
    names: tuple[str, ...] | None = None
    ids: tuple[Any, ...] | None = None
    hints: Float[np.ndarray, "rows h"] | None = None
    alphabet: Alphabet | None = None
    step: float | None = None
    times: Times | None = None
    roles: Roles | None = None


def packed(
    recordings: Any,
    inputs: Any,
    hints: Any,
    names: Sequence[str] | None,
    ids: Sequence[Any] | None,
    step: float | None = None,
) -> Packed:
    """Pack recordings of numbers; the arguments are those of `Trajectories.of`."""
    for what, given in (("names", names), ("ids", ids)):
        if given is not None:
            listing(given, what, what)
    parts, carried_names = _by_name(_parts(recordings, "recordings"), ids)
    values, offsets = stacked(list(map(_rows, parts)), "recordings", ids)
    return Packed(
        values,
        offsets,
        _beside(parts, inputs, "inputs", offsets, ids),
        carried_names if names is None else tuple(names),
        None if ids is None else tuple(ids),
        _beside(parts, hints, "hints", offsets, ids),
        _alphabet(parts),
        _step(parts, ids, step),
        _times(parts),
    )


def packed_symbols(
    recordings: Any,
    inputs: Any,
    alphabet: Alphabet | Iterable[Any] | None,
    other: Symbol | None,
    ids: Sequence[Any] | None,
) -> Packed:
    """Pack recordings of symbols as one-hot rows; the arguments are those of `Trajectories.of_symbols`."""
    sequences, _ = sequences_of(recordings)
    if alphabet is None:
        alphabet = Alphabet.of(sequences, other)
    elif not isinstance(alphabet, Alphabet):
        alphabet = Alphabet.listed(alphabet, other)
    rows = [alphabet.one_hot(sequence, f"recordings, {called(i, ids)}") for i, sequence in enumerate(sequences)]
    return packed(rows, inputs, None, None, ids)._replace(alphabet=alphabet)


def channels_last(recordings: Any) -> Any:
    """Arrays (n, T) turned to (T, n), and one array (m, n, T) to (m, T, n); anything else as it is."""
    if isinstance(recordings, Sequence) or is_list_of_objects(recordings):
        return [turned(part, f"recordings, trajectory {i}") for i, part in enumerate(recordings)]
    return turned(recordings, "recordings") if isinstance(recordings, np.ndarray) else recordings


def _parts(recordings: Any, what: str) -> list[Any]:
    """One entry, an array or a `Trajectory`, for each trajectory of any accepted form."""
    if isinstance(recordings, np.ndarray) and not is_list_of_objects(recordings):
        if recordings.ndim not in (2, 3):
            raise DataError(
                f"{what}: required a list of (T, n) arrays, one (T, n) array or one (m, T, n) array; received one "
                f"array of shape {recordings.shape}. For a single channel use x.reshape(-1, 1)."
            )
        return [recordings] if recordings.ndim == 2 else list(recordings)
    if hasattr(type(recordings), "columns"):
        raise DataError(
            f"{what}: required arrays, received a data frame. Use Trajectories.from_frame(frame, id=, time=, "
            "channels=)."
        )
    if not isinstance(recordings, Sequence | np.ndarray) or isinstance(recordings, str | bytes):
        raise DataError(
            f"{what}: required a list of (T, n) arrays, one (T, n) array or one (m, T, n) array; received "
            f"{type(recordings).__name__}. Make it a list of numpy arrays first."
        )
    return list(recordings)


def _rows(part: Any) -> Any:
    return part.values if isinstance(part, Trajectory) else part


def _by_name(parts: list[Any], ids: Sequence[Any] | None) -> tuple[list[Any], tuple[str, ...] | None]:
    """The parts with their channels in one order, that of the first part with names; and these names."""
    required = next((part.names for part in parts if isinstance(part, Trajectory) and part.names is not None), None)
    if required is None:
        return parts, None
    matched = list(parts)
    for i, part in enumerate(parts):
        if isinstance(part, Trajectory) and part.names is not None and part.names != required:
            order = places(part.names, required, f"recordings, {called(i, ids)}: ", "the recordings before")
            matched[i] = replace(part, values=part.values[:, order], names=required)
    return matched, required


def _step(parts: Sequence[Any], ids: Sequence[Any] | None, given: float | None) -> float | None:
    """The step given, or that `Trajectory` values carry; all must agree, and parts without are taken to have it too."""
    known = [(i, part.step, len(part)) for i, part in enumerate(parts) if isinstance(part, Trajectory) and part.step]
    required = given if given is not None else known[0][1] if known else None
    for i, step, length in known:
        if required is not None and not same_step(step, required, length - 1):
            like = f"as in {called(known[0][0], ids)}" if given is None else "by step="
            raise DataError(
                f"recordings, {called(i, ids)}: required a row every {spoken(required)} {like}, received a row every "
                f"{spoken(step)}. Resample: Trajectories.from_frame(.., step=.., resample=True)."
            )
    return required


def _times(parts: Sequence[Any]) -> Times | None:
    """The times that `Trajectory` values carry, if all do and all are of one kind."""
    carried = [part.times if isinstance(part, Trajectory) else None for part in parts]
    known = [times for times in carried if times is not None]
    if len(known) < len(parts) or len({times.kind for times in known}) > 1:
        return None
    return Times(np.concatenate([times.ticks for times in known]), known[0].kind)


def _alphabet(parts: Sequence[Any]) -> Alphabet | None:
    """The alphabet that `Trajectory` values carry."""
    alphabets = [part.alphabet for part in parts if isinstance(part, Trajectory)]
    if any(alphabet != alphabets[0] for alphabet in alphabets):
        raise DataError("required trajectories with one alphabet, received several. Encode all of them with the same.")
    return alphabets[0] if alphabets else None


def _beside(
    parts: Sequence[Any], given: Any, what: str, offsets: Int[np.ndarray, " edges"], ids: Sequence[Any] | None
) -> Float[np.ndarray, "rows p"] | None:
    """The packed inputs or hints: those given, else those that `Trajectory` values carry."""
    arrays = _carried(parts, what) if given is None else list(map(_rows, _parts(given, what)))
    if arrays is None:
        return None
    if len(arrays) != len(parts):
        raise DataError(
            f"{what}: required one array for each of the {len(parts)} trajectories, received {len(arrays)}. "
            "Give one (T, p) array per trajectory."
        )
    rows, their_offsets = stacked(arrays, what, ids)
    check_same_lengths(offsets, their_offsets, what, ids)
    return rows


def _carried(parts: Sequence[Any], what: str) -> list[Any] | None:
    """The inputs or hints of all `Trajectory` values, None if none has any."""
    arrays = [getattr(part, what) if isinstance(part, Trajectory) else None for part in parts]
    without = [i for i, array in enumerate(arrays) if array is None]
    if len(without) == len(arrays):
        return None
    if without:
        raise DataError(
            f"{what}, trajectory {without[0]}: required {what} with every trajectory or with none, received some "
            f"with and this one without. Add its {what}, or pass only the values."
        )
    return arrays
