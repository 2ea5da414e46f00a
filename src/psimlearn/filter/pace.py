"""The times of live rows: rows that were missed are counted, and rows at another rate are refused or told."""

import warnings
from typing import Any, NamedTuple

from psimlearn.errors import PsimlearnWarning, SettingsError
from psimlearn.recordings.steps import Beat, steps_between
from psimlearn.recordings.times import moment_of, spoken

__all__ = ["NO_TIMES", "Pace"]

MANY = 10
"""Rows in succession, each after missed rows, that are told as another rate."""


class Pace(NamedTuple):
    """The time of the last row of a live recording; one for all streams of a bank."""

    last: Beat | None = None
    """None before the first row with a time."""
    missed: int = 0
    """Rows that were missed just before the last row."""
    n_late: int = 0
    """Rows in succession, up to the last, before each of which rows were missed."""

    def at(self, time: Any, step: float | None) -> "Pace":
        """The pace after one more row; without a time, the row counts as the next one."""
        if step is None:
            raise SettingsError(
                "time: required a filter that knows the step of its recordings, received one learnt from rows without "
                "times. Learn from Trajectories with times or with step=.., or call update without time."
            )
        if time is None:
            return self._replace(last=self.last and self.last.after(step), missed=0, n_late=0)
        n_steps, beat = steps_between(self.last, moment_of(time), step)
        n_late = self.n_late + 1 if n_steps > 1 else 0
        if n_late == MANY:
            warnings.warn(
                f"before each of the last {MANY} rows at least one was missed: required a row every {spoken(step)} as "
                "in training. If the data come at another rate, resample them.",
                PsimlearnWarning,
                stacklevel=4,
            )
        return Pace(beat, n_steps - 1, n_late)


NO_TIMES = Pace()
