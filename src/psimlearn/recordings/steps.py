"""The step of a recording: the time from one row to the next. A filter counts rows, so it must be the same for all."""

from itertools import pairwise
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from psimlearn.errors import DataError
from psimlearn.recordings.times import Moment, Times, moment_of, seconds_between, spoken, step_of

__all__ = ["Clock", "check_step", "close_to", "pooled_step", "same_step", "steps_between", "usual_step"]

JITTER = 0.25
"""A row may follow the row before by this share of a step too early or too late, and counts as one step."""
SAME = 0.01
"""Steps that differ by at most this share are the same."""


def usual_step(times: Times, offsets: Int[np.ndarray, " edges"]) -> float | None:
    """The step of times that rise, in seconds: None if no recording has two rows."""
    return pooled_step([np.diff(times.ticks[start:end]) * times.unit for start, end in pairwise(offsets)])


def same_step(a: float, b: float, n_steps: int) -> bool:
    """Whether two steps are the same, if one was measured over `n_steps` rows: times are rounded, and clocks drift."""
    return abs(a - b) <= (SAME + 2 * JITTER / max(n_steps, 1)) * max(a, b)


def check_step(required: float | None, received: float | None, n_rows: int, where: str = "") -> None:
    """Refuse recordings with another step than a model's; a step that is not known is accepted.

    Args:
        required: the step of the model in seconds.
        received: the step of the recordings in seconds.
        n_rows: the number of rows from which the step of the recordings is known.
        where: words before the error message.
    """
    if required is None or received is None or same_step(required, received, n_rows - 1):
        return
    raise DataError(
        f"{where}required a row every {spoken(required)} as in fit, received a row every {spoken(received)}: every "
        "prediction would be wrong. Resample: Trajectories.from_frame(.., time=.., step=model.step_, resample=True). "
        "If the times are not to be trusted, pass step=None there."
    )


def steps_between(earlier: Moment | None, later: Moment, step: float) -> int:
    """How many steps lie between two live rows: 1 for the next row, more after a hole.

    Args:
        earlier: the time of the row before; None before the first row, which counts as one step.
        later: the time of the row.
        step: the step in seconds.

    Raises:
        DataError: times that do not rise, that are of two kinds, or less than half a step apart.
    """
    if earlier is None:
        return 1
    seconds = seconds_between(earlier, later)
    if seconds <= 0:
        raise DataError(
            f"required times that rise, received a row {spoken(-seconds)} before the last one. Drop the row, or give a "
            "new recording a new id."
        )
    if seconds < step / 2:
        raise DataError(
            f"required a row every {spoken(step)}, received one {spoken(seconds)} after the last. Drop the row, or "
            "resample."
        )
    return round(seconds / step)


class Clock:
    """Counts steps by the times of live rows.

    >>> clock = Clock(step="1s")
    >>> clock.advance("2024-03-31T01:59:59+01:00"), clock.advance("2024-03-31T03:00:02+02:00")
    (1, 3)
    """

    def __init__(self, step: Any, format: str | Any | None = None) -> None:
        self.step = step_of(step)
        self.format = format
        self.last: Moment | None = None

    def advance(self, time: Any) -> int:
        """The number of steps since the row before: above 1, so many rows less one were not observed.

        A time that is refused (DataError) changes nothing.
        """
        moment = moment_of(time, self.format)
        steps = steps_between(self.last, moment, self.step)
        self.last = moment
        return steps


def pooled_step(apart: list[np.ndarray]) -> float | None:
    """The step of recordings from the seconds between their rows; None without any.

    It is the mean of all distances that are close to the usual one, so that rounded times give the true step.
    """
    pooled = np.concatenate([*apart, np.empty(0)])
    if not len(pooled):
        return None
    usual = np.sort(pooled)[(len(pooled) - 1) // 2]
    return float(pooled[close_to(pooled, usual)].mean())


def close_to(apart: Float[np.ndarray, " pairs"], step: float) -> Bool[np.ndarray, " pairs"]:
    """Which distances between rows, in seconds, count as one step."""
    return np.abs(apart - step) <= JITTER * step
