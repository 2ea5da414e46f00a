"""Arrays of users: one 2-D float64 array per trajectory, or an error that says where and why it cannot be used."""

from collections.abc import Mapping, Sequence, Sized
from typing import Any

import numpy as np

from psimlearn.errors import DataError

__all__ = [
    "beside",
    "called",
    "check_finite",
    "check_labels",
    "check_offsets",
    "check_same_lengths",
    "frozen",
    "is_dictionary",
    "is_list_of_objects",
    "is_number",
    "numbers",
    "stacked",
    "turned",
    "unmasked",
]


def stacked(parts: list[Any], what: str, ids: Sequence[Any] | None) -> tuple[np.ndarray, np.ndarray]:
    """One array of the rows of all parts, and where each part begins.

    Args:
        parts: one array-like (T, n) for each trajectory.
        what: "recordings", "inputs" or "hints", for error messages.
        ids: the caller's names of the trajectories, for error messages.
    """
    if not parts:
        raise DataError(
            f"{what}: required at least one trajectory, received none. Check that the recordings were loaded."
        )
    _check_ids(ids, len(parts))
    arrays = [_numeric(part, f"{what}, {called(i, ids)}") for i, part in enumerate(parts)]
    for i, array in enumerate(arrays):
        if array.shape[1] != arrays[0].shape[1]:
            raise DataError(
                f"{what}, {called(i, ids)}: required {arrays[0].shape[1]} channels as in {called(0, ids)}, "
                f"received {array.shape[1]}. All trajectories must have the same channels; mark channels "
                "that were not observed with NaN."
            )
    offsets = np.cumsum([0, *(len(array) for array in arrays)])
    check_offsets(offsets, int(offsets[-1]), ids)
    return np.concatenate(arrays), offsets


def _numeric(part: Any, where: str) -> np.ndarray:
    """One trajectory as a 2-D float64 array, or an error that points at the first entry that is not a number."""
    raw = _array(part, where)
    if raw.ndim != 2 or raw.shape[1] == 0:
        raise DataError(
            f"{where}: required a 2-D array (time, channel) with at least one channel, received shape {raw.shape}. "
            "For a single channel use x.reshape(-1, 1)."
        )
    if raw.dtype.kind in "biuf":
        return raw.astype(np.float64)
    if raw.dtype.kind == "O":
        for row, column in np.ndindex(raw.shape):
            if not is_number(raw[row, column]):
                raise DataError(
                    f"{where}, row {row}, column {column}: required a number, received {raw[row, column]!r}. "
                    "Convert or drop the column; mark missing values with NaN."
                )
        return raw.astype(np.float64)
    raise DataError(
        f"{where}, row 0: required numbers, received dtype {raw.dtype}. Convert the columns to float, or encode "
        "categories as numbers first."
    )


def _array(part: Any, where: str) -> np.ndarray:
    try:
        return np.asarray(unmasked(part))
    except ValueError as error:
        raise DataError(
            f"{where}: required a 2-D array (time, channel), received rows of unequal length: {error} "
            "Mark values that were not observed with NaN."
        ) from error


def unmasked(entry: Any) -> Any:
    """The entry with NaN in place of masked numbers, also inside lists: masked means not observed."""
    if isinstance(entry, np.ma.MaskedArray):
        numbers: Any = entry.astype(np.float64) if entry.dtype.kind in "biuf" else entry
        return numbers.filled(np.nan) if numbers.dtype.kind in "fO" else np.asarray(entry)
    if isinstance(entry, list | tuple) and _has_masks(entry):
        return [unmasked(part) for part in entry]
    return entry


def _has_masks(entry: Any) -> bool:
    if isinstance(entry, list | tuple):
        return any(map(_has_masks, entry))
    return isinstance(entry, np.ma.MaskedArray)


def is_number(entry: Any) -> bool:
    """Whether an entry of a list or of an array of objects is a number, or None for one that is missing."""
    if isinstance(entry, str | bytes):  # float() would read "1.5"
        return False
    try:
        float(np.nan if entry is None else entry)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def is_list_of_objects(recordings: Any) -> bool:
    """Whether this is a 1-D array of objects, as numpy makes of a ragged list."""
    return isinstance(recordings, np.ndarray) and recordings.dtype == object and recordings.ndim == 1


def is_dictionary(recordings: Any) -> bool:
    """Whether recordings come by name; a sparse matrix may be a mapping too, and is none."""
    return isinstance(recordings, Mapping) and not hasattr(recordings, "shape")


def turned(part: Any, where: str) -> np.ndarray:
    """The array with time and channel exchanged; a 1-D array as it is."""
    array = _array(part, where)
    return np.swapaxes(array, -1, -2) if array.ndim > 1 else array


def called(i: int, ids: Sequence[Any] | None) -> str:
    """A trajectory in the words of an error message."""
    return f"trajectory {i}" if ids is None else f"trajectory {i} ({ids[i]!r})"


def check_offsets(offsets: np.ndarray, n_rows: int, ids: Sequence[Any] | None) -> None:
    """Refuse offsets that do not cut the rows into trajectories of at least one row."""
    if len(offsets) < 2 or offsets[0] != 0 or offsets[-1] != n_rows:
        raise DataError(f"offsets must run from 0 to the number of rows, {n_rows}; received {offsets.tolist()}.")
    _check_ids(ids, len(offsets) - 1)
    if np.any(np.diff(offsets) < 1):
        i = int(np.argmax(np.diff(offsets) < 1))
        raise DataError(f"{called(i, ids)}: required at least 1 row, received none. Leave empty trajectories out.")


def _check_ids(ids: Sequence[Any] | None, n: int) -> None:
    if ids is not None and len(ids) != n:
        raise DataError(
            f"ids must name every trajectory: required {n}, received {len(ids)}. Give one id per trajectory."
        )


def check_labels(names: Sequence[str] | None, symbols: Sized | None, n: int) -> None:
    """Refuse names or symbols that are not one for each of n channels."""
    if names is not None and len(names) != n:
        raise DataError(
            f"names must name every channel: required {n} names, received {len(names)}: {list(names)}. Give one name "
            "per channel."
        )
    if symbols is not None and len(symbols) != n:
        raise DataError(
            f"alphabet: required one symbol for each of {n} channels, received {len(symbols)}. Use "
            "Trajectories.of_symbols."
        )


def check_same_lengths(offsets: np.ndarray, others: np.ndarray, what: str, ids: Sequence[Any] | None) -> None:
    """Refuse inputs or hints whose trajectories differ in length from the observations."""
    if np.any(offsets != others):
        i = int(np.argmax(np.diff(offsets) != np.diff(others)))
        raise DataError(
            f"{what}, {called(i, ids)}: required {np.diff(offsets)[i]} rows as in the observations, "
            f"received {np.diff(others)[i]}. Cut or extend the {what} to match."
        )


def check_finite(array: np.ndarray, what: str, place: Any, *, missing_allowed: bool) -> None:
    """Refuse infinities, and NaN unless values may be missing; `place` puts a row into words."""
    bad = np.isinf(array) if missing_allowed else ~np.isfinite(array)
    if bad.any():
        row, column = np.argwhere(bad)[0].tolist()
        advice = "use NaN for a value that was not observed" if missing_allowed else "inputs are known, so fill them in"
        raise DataError(
            f"{what}, {place(row)}, column {column}: required a finite number, received {array[row, column]}; {advice}."
        )


def beside(rows: Any, what: str, n_rows: int, place: Any) -> np.ndarray:
    """A private, read-only copy of the inputs or hints that accompany `n_rows` rows of values, checked."""
    copied = frozen(np.array(unmasked(rows), dtype=np.float64, order="C"))
    check_finite(copied, what, place, missing_allowed=what == "hints")
    if len(copied) != n_rows:
        raise DataError(
            f"{what} need one row for each row of values: required {n_rows} rows, received {len(copied)}; cut or "
            f"extend the {what} to match."
        )
    return copied


def frozen(array: np.ndarray) -> np.ndarray:
    """The same array, read-only from here on."""
    array.flags.writeable = False
    return array


def numbers(value: Any, shape: tuple[int, ...], what: str) -> np.ndarray:
    """Convert a value to float64 of this shape, or refuse it."""
    try:
        raw = np.asarray(unmasked(value))
        if raw.dtype.kind not in "biufO":  # astype would read the text "1.5" as a number
            raise TypeError(f"dtype {raw.dtype}")
        array = raw.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{what}: required numbers of shape {shape}, received {value!r} ({error}).") from error
    if array.shape != shape:
        advice = " Put NaN where a channel was not observed; pass None if nothing arrived." if what == "x" else ""
        raise DataError(f"{what}: required shape {shape}, received {array.shape}.{advice}")
    return array
