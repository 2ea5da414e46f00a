"""The columns of the answers to live rows."""

from collections.abc import Sequence

import numpy as np

from psimlearn.filter.tabulate import answer_names
from psimlearn.recordings.alphabet import Alphabet
from psimlearn.serve.rows import Wanted
from psimlearn.serve.symbols import symbol_names
from psimlearn.shapes import Bool

__all__ = ["alarm_columns", "names_of_alarms", "names_of_answers"]


def names_of_answers(wanted: Wanted, steps: int) -> list[str]:
    """The names of the columns of answers."""
    if wanted.alphabet is None:
        return answer_names(wanted.channels, steps)
    return symbol_names(wanted.alphabet, steps)


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
