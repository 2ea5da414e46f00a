"""Live recordings: a filter at work on each of them, and the answers to their rows, many at a time."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from psimlearn.cli.rows import ParsedRow
from psimlearn.errors import DataError
from psimlearn.filter import Filter, RandomFourier, State
from psimlearn.filter.doubt import Doubt, together
from psimlearn.filter.live import Live
from psimlearn.filter.tabulate import answers
from psimlearn.shapes import Float

__all__ = ["Session", "Sessions", "Step"]

MOST_SESSIONS = 10_000
"""Recordings that are remembered; beyond, the recording that was silent longest is forgotten."""

NOTHING = np.empty((0, 0))


class Position(NamedTuple):
    """The fields of a `State` for a single stream, copied from a `Live` in the cheapest way: once for every row."""

    belief: np.ndarray
    recent: np.ndarray
    clock: int
    unseen: int
    late: int
    doubt: Doubt | None


Step = tuple[Position, np.ndarray, Position]
"""The position before a row, the row, and the position after it."""


class Session:
    """A filter at work on one live recording."""

    def __init__(self, live: Live, ahead: int) -> None:
        self.live = live
        # predictions beyond the window need recent observations, and so does the derivative of random features
        self.beyond = ahead > live.filter.features.window or isinstance(live.filter.regressors[0], RandomFourier)
        self.clock = 0
        self.moment: Any = None
        self.here = self._position(live)
        self.pending: tuple[np.ndarray, np.ndarray] | None = None

    def take(self, row: ParsedRow, n: int) -> Step:
        """Take a row of n channels and perhaps inputs; a row that is refused changes nothing."""
        if row.moment is not None:
            self._check_time(row)
        x = np.array(row.numbers[:n])
        if len(row.numbers) == n:
            before = self.here
            self.live.update(x)
            self.clock += 1
            self.here = self._position(self.live)
            step = before, x, self.here
        else:
            step = self._take_with_inputs(x, np.array(row.numbers[n:]))
        self.moment = row.moment
        return step

    def _take_with_inputs(self, x: np.ndarray, u: np.ndarray) -> Step:
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
        return before, x, self._position(after)

    def _position(self, live: Live) -> Position:
        """Recent observations are kept only if predictions beyond the window need them."""
        recent = live.state.recent[0] if self.beyond else NOTHING
        unseen = live.unseen
        unseen = unseen if isinstance(unseen, int) else int(unseen[0])
        return Position(live.belief, recent, self.clock, unseen, live.late, live.doubt)

    def _check_time(self, row: ParsedRow) -> None:
        try:
            rises = self.moment is None or row.moment > self.moment
        except TypeError as error:
            raise DataError(f"required times of one kind, received {row.moment} after {self.moment}.") from error
        if not rises:
            raise DataError(
                f"required times that rise, received {row.time} after {self.moment}: a new recording needs an id."
            )


class Sessions:
    """The live recordings by id, and the answers to their rows."""

    def __init__(self, filter: Filter, ahead: int) -> None:
        self.filter = filter
        self.ahead = ahead
        self.fresh = Live(filter)
        self.by_id: OrderedDict[str, Session] = OrderedDict()

    def take(self, row: ParsedRow, n: int) -> Step:
        """Take a row of n channels and perhaps inputs into the recording of its id."""
        if row.id in self.by_id:
            self.by_id.move_to_end(row.id)
        else:
            self.by_id[row.id] = Session(self.fresh.copy(), self.ahead)
            if len(self.by_id) > MOST_SESSIONS:
                self.by_id.popitem(last=False)
        return self.by_id[row.id].take(row, n)

    def answers(self, steps: Sequence[Step]) -> Float[np.ndarray, "rows columns"]:
        """One row of answers for each step, all computed together."""
        before, x, after = zip(*steps, strict=True)
        return answers(self.filter, _together(before), np.array(x), _together(after), self.ahead)


def _together(positions: Sequence[Position]) -> State:
    """The state of many streams from the positions of single streams."""
    *parts, doubts = zip(*positions, strict=True)
    belief, recent, clock, unseen, late = map(np.array, parts)
    return State(belief, recent, clock, unseen, late, together(doubts))
