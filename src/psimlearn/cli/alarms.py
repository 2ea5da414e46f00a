"""The columns of alarms in a table of answers."""

from collections.abc import Sequence

import numpy as np

from psimlearn.recordings.alphabet import Alphabet
from psimlearn.shapes import Bool

__all__ = ["alarm_columns", "names_of_alarms"]


def names_of_alarms(alphabet: Alphabet | None, rate: float | None) -> list[str]:
    """The names of the columns of alarms; none without a rate, and no channel for symbols."""
    return [] if rate is None else ["alarm", "alarm.channel"] if alphabet is None else ["alarm"]


def alarm_columns(
    alarm: Bool[np.ndarray, " rows"], channel: np.ndarray, names: Sequence[str]
) -> tuple[list[int], list[str | None]]:
    """1 for rows in alarm and 0 for others, and the names of the channels, of which models without names have numbers.

    >>> alarm_columns(np.array([True, False]), np.array([1, None]), ["force", "angle"])
    ([1, 0], ['angle', None])
    """
    return alarm.astype(int).tolist(), [names[c] if isinstance(c, int) else c for c in channel.tolist()]
