"""Live recordings: a filter at work on each of them, and the answers to their rows, many at a time."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from psimlearn.cli.options import say
from psimlearn.errors import DataError
from psimlearn.filter import Filter, RandomFourier, State
from psimlearn.filter.alarms import Bell, Scored, alarm_scores, channels_in_alarm, known_thresholds
from psimlearn.filter.doubt import Doubt, together
from psimlearn.filter.likelihood import doubt_of_row
from psimlearn.filter.live import Live
from psimlearn.filter.tabulate import answers
from psimlearn.serve.rows import Complain, ParsedRow
from psimlearn.serve.rowtimes import RowTimes
from psimlearn.shapes import Bool, Float

__all__ = ["Session", "Sessions", "Step"]

MOST_SESSIONS = 10_000
"""Recordings that are remembered; beyond, the recording that was silent longest is forgotten."""

NOTHING = np.empty((0, 0))
NO_UNREST = np.empty(0)


class Position(NamedTuple):
    """The fields of a `State` for a single stream, copied from a `Live` in the cheapest way: once for every row."""

    belief: np.ndarray
    recent: np.ndarray
    clock: int
    unseen: int
    late: int
    unrest: np.ndarray
    """Of width 0 if intervals do not follow the situation."""
    doubt: Doubt | None


class Session:
    """A filter at work on one live recording.

    Rows that were missed, by the times of the rows around them, count as rows in which nothing was observed.
    """

    def __init__(self, live: Live, ahead: int, step: float | None, bell: Bell | None) -> None:
        self.live = live
        self.bell = bell
        # predictions beyond the window need recent observations, and so does the derivative of random features
        filter = live.filter
        self.beyond = ahead > filter.features.window or isinstance(filter.regressors[0], RandomFourier)
        self.clock = 0
        self.times = RowTimes(step)
        self.here = self._position(live)
        self.pending: tuple[np.ndarray, np.ndarray] | None = None
        self.inputs = np.empty(0)

    def take(self, row: ParsedRow, n: int, complain: Complain) -> "Step":
        """Take a row of n channels and perhaps inputs; the state stays as it is if a row is refused."""
        x, u = np.array(row.numbers[:n]), self.inputs
        if len(row.numbers) > n:
            u = np.array(row.numbers[n:])
            if not np.isfinite(u).all():
                raise DataError("required finite inputs, received a row without: inputs must be known at every row.")
        arrival = self.times.arrival(row)
        if arrival.said:
            complain(arrival.said)
        if arrival.begins:
            self._begin_again()
        for _ in range(arrival.n_missed):
            self._take(np.full(n, np.nan), self.inputs)
        step = self._take(x, u)
        self.times.took(row)
        self.inputs = u
        return step

    def _take(self, x: np.ndarray, u: np.ndarray) -> "Step":
        if len(u):
            return self._take_with_inputs(x, u)
        before = self.here
        self.live.update(x)
        self.clock += 1
        self.here = self._position(self.live)
        return Step(self, before, x, self.here)

    def _take_with_inputs(self, x: np.ndarray, u: np.ndarray) -> "Step":
        """With feed-through the belief before a row needs the inputs of that row, so the update waits for them."""
        ahead = self.live.copy()
        if self.pending is not None:
            ahead.update(*self.pending, next_u=u)
        before = self._position(ahead)
        after = ahead.copy()
        after.update(x, u)
        if self.live.filter.feedthrough:
            self.live, self.pending = ahead, (x, u)
        else:
            self.live = after
        self.clock += 1
        return Step(self, before, x, self._position(after))

    def _position(self, live: Live) -> Position:
        """Recent observations are kept only if predictions beyond the window need them."""
        recent, unrest = NOTHING, NO_UNREST
        if self.beyond or live.filter.local is not None:
            state = live.state
            recent = state.recent[0] if self.beyond else NOTHING
            unrest = NO_UNREST if state.unrest is None else state.unrest[0]
        return Position(live.belief, recent, self.clock, live.unseen, live.late, unrest, live.doubt)

    def _begin_again(self) -> None:
        self.live.reset()
        self.pending, self.clock = None, 0
        self.here = self._position(self.live)


class Step(NamedTuple):
    """One row of a session, with the positions before and after it."""

    session: Session
    before: Position
    x: np.ndarray
    after: Position


class Sessions:
    """The live recordings by id, and the answers to their rows; with a rate of alarms, their alarms too."""

    def __init__(self, filter: Filter, ahead: int, step: float | None = None, alarm: float | None = None) -> None:
        self.filter = filter
        self.ahead = ahead
        self.step = step
        self.fresh = Live(filter)
        self.bell = None if alarm is None else Bell.of(known_thresholds(filter), alarm, 1)
        self.by_id: OrderedDict[str, Session] = OrderedDict()
        self.n_forgotten = 0

    def take(self, row: ParsedRow, n: int, complain: Complain) -> "Step":
        """Take a row of n channels and perhaps inputs into the recording of its id."""
        if row.id in self.by_id:
            self.by_id.move_to_end(row.id)
        else:
            self.by_id[row.id] = Session(self.fresh.copy(), self.ahead, self.step, self.bell)
            if len(self.by_id) > MOST_SESSIONS:
                self._forget()
        return self.by_id[row.id].take(row, n, complain)

    def _forget(self) -> None:
        """Forget the recording that was silent longest, and say so the first time."""
        self.by_id.popitem(last=False)
        self.n_forgotten += 1
        if self.n_forgotten == 1:
            say(
                f"psimlearn: required at most {MOST_SESSIONS} recordings at a time, received more. From here on, the "
                "recording that was silent longest is forgotten, and begins anew if it comes back. Split the stream."
            )

    def answers(self, steps: Sequence[Step]) -> Float[np.ndarray, "rows columns"]:
        """One row of answers for each step, all computed together."""
        _, before, x, after = zip(*steps, strict=True)
        return answers(self.filter, _together(before), np.array(x), _together(after), self.ahead)

    def alarms(self, steps: Sequence[Step]) -> tuple[Bool[np.ndarray, " rows"], np.ndarray]:
        """Whether each row is part of an alarm, and the channel: scores of all rows together, then one by one.

        For sessions with a rate of alarms; steps must be asked for once each, in their order.
        """
        before, x = _together([step.before for step in steps]), np.array([step.x for step in steps])
        x = self.filter.scaling(x)
        doubt = doubt_of_row(self.filter, before)
        scored = alarm_scores(self.filter, before, x, doubt)
        rings = np.zeros(len(x), dtype=bool)
        for i, step in enumerate(steps):
            bell = step.session.bell if step.before.clock else self.bell  # a recording that begins, or begins again
            assert bell is not None
            step.session.bell = bell.after(Scored(scored.score[i : i + 1], scored.seen[i : i + 1]))
            rings[i] = step.session.bell.rings[0]
        return rings, channels_in_alarm(self.filter, rings, before, x, doubt)


def _together(positions: Sequence[Position]) -> State:
    """The state of many streams from the positions of single streams."""
    *parts, doubts = zip(*positions, strict=True)
    belief, recent, clock, unseen, late, unrest = map(np.array, parts)
    return State(belief, recent, clock, unseen, late, together(doubts), unrest if unrest.shape[1] else None)
