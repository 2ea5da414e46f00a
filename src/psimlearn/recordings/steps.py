"""The step of a recording: the time from one row to the next. A filter counts rows, so it must be the same for all."""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from psimlearn.errors import DataError
from psimlearn.recordings.times import UNITS, Moment, Times, moment_of, seconds_between, spoken, step_of
from psimlearn.shapes import Bool, Float, Int

__all__ = [
    "Beat",
    "Clock",
    "UnfitTimeError",
    "check_step",
    "close_to",
    "pooled_step",
    "same_step",
    "steps_between",
    "usual_step",
]

JITTER = 0.25
"""A row may follow the row before by this share of a step too early or too late, and counts as one step."""
SAME = 0.01
"""Steps that differ by at most this share are the same."""
MOST_MISSED = 1000
"""Live rows that may be missed at a time; after more, a time is wrong, or the recording begins anew."""
KEPT = 0.9
"""The share of a row's delay that is kept to the next row: jitter and slow drift are forgiven, another rate adds up."""
WHAT_TO_DO = "Drop the row, or begin a new recording: reset()."


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


class UnfitTimeError(DataError):
    """A time that does not fit the times before it: this time is wrong, the last one was, or a recording begins."""

    def __init__(self, required: str, received: str = "", advice: str = "") -> None:
        super().__init__(f"required {required}, received {received}. {advice}")
        self.required = required


class Beat(NamedTuple):
    """The time of a live row."""

    moment: Moment
    late: float = 0.0
    """How many steps the row came after the time at which it was due."""

    def after(self, step: float) -> "Beat":
        """The beat of a row that came one step later, to the tick."""
        ticks = step / UNITS[self.moment.kind]  # whole if they are nanoseconds: their sum is too large for a float
        return self._replace(
            moment=self.moment._replace(
                ticks=self.moment.ticks + (ticks if self.moment.kind == "number" else round(ticks))
            )
        )


def steps_between(last: Beat | None, moment: Moment, step: float) -> tuple[int, Beat]:
    """How many steps lie between two live rows, 1 for the next row and more after a hole; and the beat of the later.

    Args:
        last: the row before; None before the first row, which counts as one step.
        moment: the time of the row.
        step: the step in seconds.

    Raises:
        DataError: times that do not rise, that are of two kinds, half a step apart or less, or too far apart.
    """
    if last is None:
        return 1, Beat(moment)
    seconds = seconds_between(last.moment, moment)
    if seconds <= 0:
        raise UnfitTimeError("times that rise", f"a row {spoken(-seconds)} before the last one", WHAT_TO_DO)
    passed = seconds / step + last.late
    if passed > MOST_MISSED + 1:
        required = f"at most {MOST_MISSED} missed rows of {spoken(step)}"
        raise UnfitTimeError(required, f"a row {spoken(seconds)} after the last one", WHAT_TO_DO)
    n_steps = round(passed)
    if n_steps < 1:
        raise DataError(
            f"required a row every {spoken(step)}, received one {spoken(seconds)} after the last. Drop the row, or "
            "resample."
        )
    return n_steps, Beat(moment, KEPT * (passed - n_steps))


class Clock:
    """Counts steps by the times of live rows. `Live.update` has a clock of its own: give it the time of each row.

    >>> clock = Clock(step="1s")
    >>> clock.advance("2024-03-31T01:59:59+01:00"), clock.advance("2024-03-31T03:00:02+02:00")
    (1, 3)
    """

    def __init__(self, step: Any, format: str | Any | None = None) -> None:
        self.step = step_of(step)
        self.format = format
        self.last: Beat | None = None

    def advance(self, time: Any) -> int:
        """The number of steps since the row before: above 1, so many rows less one were not observed.

        A time that is refused (DataError) changes nothing.
        """
        steps, self.last = steps_between(self.last, moment_of(time, self.format), self.step)
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
