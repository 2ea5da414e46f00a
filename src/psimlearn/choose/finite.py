"""Whether everything in a learnt filter is a number, before anybody is given it."""

from collections.abc import Sequence

import numpy as np

from psimlearn.errors import DivergedError
from psimlearn.evaluate.calibrate import Unseen
from psimlearn.files.parts import CONSTANTS, PARTS, Constants
from psimlearn.filter import Filter
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.recordings.windows import enough_rows, late_at_end, row_times
from psimlearn.shapes import Bool

__all__ = ["check_filter"]

MEASURED = ("calibration", "calibration_blind", "calibration_next")
"""NaN stands there at horizons that no recording was long enough for."""
BY_CHANNEL = ("", "scaling", "starting", "local", *MEASURED)
"""The parts with arrays whose last axis is that of channels."""


def check_filter(filter: Filter, unseen: Sequence[Unseen]) -> None:
    """Refuse a filter that holds NaN or infinite numbers; name the part and the channel.

    Args:
        filter: all that was learnt.
        unseen: the recordings on which it was calibrated: a channel seen there must have been calibrated.
    """
    constants = Constants(filter.initial, filter.covariance, filter.centre, filter.span)
    parts = {"": (CONSTANTS, constants)} | {name: (codec, getattr(filter, name)) for name, codec in PARTS.items()}
    n = len(filter.scaling.mean)
    for part, (codec, value) in parts.items():
        for name, array in {} if value is None else codec.arrays(value).items():
            if array is None:
                continue
            bad = np.isinf(array) if part in MEASURED else ~np.isfinite(array)
            if part in MEASURED and name == "base":
                bad[0] |= np.isnan(array[0]) & _observed([held for _, held in unseen], n)
            if bad.any():
                by_channel = part in BY_CHANNEL and array.shape[-1] == n
                _refuse(filter, f"{part}.{name}".lstrip("."), int(np.argwhere(bad)[0][-1]) if by_channel else None)


def _observed(parts: Sequence[Trajectories], n: int) -> Bool[np.ndarray, " n"]:
    """The channels that were observed in most rows whose errors calibrate: those after the first rows."""
    seen, rows = np.zeros(n), 0
    for held in parts:
        age = row_times(held.offsets) - np.repeat(late_at_end(held.values, held.offsets), held.lengths)
        later = held.values[age >= enough_rows(held.lengths)]
        seen, rows = seen + np.count_nonzero(~np.isnan(later), axis=0), rows + len(later)
    return np.asarray(seen > rows / 2)


def _refuse(filter: Filter, array: str, channel: int | None) -> None:
    called = (
        "" if channel is None else f" of channel {channel if filter.names is None else repr(filter.names[channel])}"
    )
    raise DivergedError(
        f"fit: required finite numbers in everything that was learnt, received others in {array}{called}. Look for "
        "extreme values in the recordings" + (", or leave the channel out." if called else ".")
    )
