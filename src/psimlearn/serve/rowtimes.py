"""The times of live rows: they rise, rows that were missed are counted, and one wrong time silences no stream."""

from typing import Any, NamedTuple

from psimlearn.errors import DataError
from psimlearn.recordings.steps import Beat, UnfitTimeError, steps_between
from psimlearn.recordings.times import Moment, seconds_between
from psimlearn.serve.rows import ParsedRow

__all__ = ["Arrival", "RowTimes"]

TRUSTED = 3
"""Rows, one after the other, whose times rise: if the time before does not fit, that time was wrong, not theirs."""


class Arrival(NamedTuple):
    """What the time of a row says of it."""

    n_missed: int = 0
    """Rows that were missed just before."""
    begins: bool = False
    """Whether a new recording begins."""
    said: str = ""
    """A message for the user."""


ON_TIME = Arrival()


class RowTimes:
    """The times of the last rows of one live recording."""

    __slots__ = ("before", "doubted", "last", "next", "restarts", "step", "written")

    def __init__(self, step: float | None, restarts: bool = True) -> None:
        self.step = step
        self.restarts = restarts
        """Whether times that begin again are a new recording; if not, rows that come twice are never taken twice."""
        self.last: Beat | None = None
        self.next: Beat | None = None
        """The row that arrives."""
        self.written: Any = None
        """The last time as it was written."""
        self.before: Moment | None = None
        """The time before the last."""
        self.doubted: list[Moment] = []
        """The times of the last rows that were refused, as long as they rise."""

    def arrival(self, row: ParsedRow) -> Arrival:
        """What the time of a row says; DataError for a time that does not fit, until as many as `TRUSTED` agree."""
        self.next = None if row.moment is None else Beat(row.moment)
        if row.moment is None or self.last is None:
            return ON_TIME
        try:
            n_steps, self.next = self._steps(self.last, row.moment)
            if n_steps == 1:
                return ON_TIME
            n_missed = n_steps - 1
            missed = "a row was missed; it counts" if n_missed == 1 else f"{n_missed} rows were missed; they count"
            return Arrival(n_missed, said=f"{missed} as not observed.")
        except UnfitTimeError as error:
            back = not _rises(self.last.moment, row.moment)
            if self.restarts or not back:
                rising = bool(self.doubted) and _rises(self.doubted[-1], row.moment)
                self.doubted = [*(self.doubted if rising else []), row.moment]
            if len(self.doubted) < TRUSTED or (back and not self.restarts):
                raise DataError(
                    f"required {error.required}, received {row.time!s:.80} after {self.written!s:.80}."
                ) from None
        if back and self.before is not None and _rises(self.before, self.doubted[0]):
            return Arrival(said=f"the time {self.written!s:.80} was wrong: the recording goes on at {row.time!s:.80}.")
        where = (
            f"times begin again at {row.time!s:.80}" if back else f"{row.time!s:.80} is far from {self.written!s:.80}"
        )
        return Arrival(begins=True, said=f"{where}: a new recording begins here. Give recordings an id.")

    def may_have_had(self, moment: Moment, after: Moment | None) -> bool:
        """Whether a row of this time can be one that was taken, after one of another time: times of these rise."""
        late = self.last is not None and _rises(self.last.moment, moment)
        return not late and (after is None or _rises(after, moment))

    def took(self, row: ParsedRow) -> None:
        """Remember the time of a row that was taken."""
        if self.next is not None:
            self.before = None if self.last is None else self.last.moment
            self.last, self.written, self.doubted = self.next, row.time, []

    def _steps(self, last: Beat, moment: Moment) -> tuple[int, Beat]:
        """The number of steps since the last row, and the beat of this row."""
        if not _rises(last.moment, moment):
            kinds = last.moment.kind != moment.kind
            raise UnfitTimeError("times of one kind" if kinds else "times that rise, or an id for a new recording")
        return (1, Beat(moment)) if self.step is None else steps_between(last, moment, self.step)


def _rises(before: Moment, moment: Moment) -> bool:
    try:
        return seconds_between(before, moment) > 0
    except DataError:  # of two kinds
        return False
