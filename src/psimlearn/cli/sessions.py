"""Live recordings: a filter at work on each of them, and the answers to their rows, many at a time."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from psimlearn.cli.options import say
from psimlearn.cli.rows import Complain, ParsedRow
from psimlearn.errors import DataError
from psimlearn.filter import Filter, State
from psimlearn.filter.live import Live
from psimlearn.filter.tabulate import answers

__all__ = ["Session", "Sessions", "Step"]

MOST_SESSIONS = 10_000
"""Recordings that are remembered; beyond, the recording that was silent longest is forgotten."""
TRUSTED = 3
"""Rows, one after the other, whose times rise: if the time before them is later, that time was wrong, not theirs."""

NOTHING = np.empty((0, 0))


class Position(NamedTuple):
    """The fields of a `State` for a single stream, copied from a `Live` in the cheapest way: once for every row."""

    belief: np.ndarray
    recent: np.ndarray
    clock: int
    unseen: int


Step = tuple[Position, np.ndarray, Position]
"""The position before a row, the row, and the position after it."""


class Session:
    """A filter at work on one live recording."""

    def __init__(self, live: Live, ahead: int) -> None:
        self.live = live
        self.beyond = ahead > live.filter.features.window
        self.clock = 0
        self.moment: Any = None
        self.moment_before: Any = None
        self.doubted: list[Any] = []
        """The times of the last rows that were refused, as long as they rise."""
        self.here = self._position(live)
        self.pending: tuple[np.ndarray, np.ndarray] | None = None

    def take(self, row: ParsedRow, n: int, complain: Complain) -> Step:
        """Take a row of n channels and perhaps inputs; the state stays as it is if a row is refused."""
        if row.moment is not None:
            self._check_time(row, complain)
        x = np.array(row.numbers[:n])
        if len(row.numbers) == n:
            before = self.here
            self.live.update(x)
            self.clock += 1
            self.here = self._position(self.live)
            step = before, x, self.here
        else:
            step = self._take_with_inputs(x, np.array(row.numbers[n:]))
        if row.moment is not None:
            self.moment_before, self.moment, self.doubted = self.moment, row.moment, []
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
        return Position(live.belief, recent, self.clock, unseen if isinstance(unseen, int) else int(unseen[0]))

    def _check_time(self, row: ParsedRow, complain: Complain) -> None:
        """Refuse a time that does not rise, until so many rows rise that the time before them must have been wrong."""
        if self.moment is None or _rises(self.moment, row.moment):
            return
        rising = bool(self.doubted) and _rises(self.doubted[-1], row.moment)
        self.doubted = [*(self.doubted if rising else []), row.moment]
        if len(self.doubted) < TRUSTED:
            kind = "of one kind" if type(self.moment) is not type(row.moment) else "that rise"
            raise DataError(
                f"required times {kind}, received {row.time!s:.80} after {self.moment!s:.80}: a new recording needs an "
                "id."
            )
        if self.moment_before is not None and _rises(self.moment_before, self.doubted[0]):
            complain(f"the time {self.moment!s:.80} was wrong: the recording goes on at {row.time!s:.80}.")
            self.moment = self.doubted[-2]
        else:
            complain(f"times begin again at {row.time!s:.80}: a new recording begins here. Give recordings an id.")
            self._begin_again()

    def _begin_again(self) -> None:
        self.live.reset()
        self.pending, self.clock, self.moment = None, 0, None
        self.here = self._position(self.live)


def _rises(before: Any, moment: Any) -> bool:
    try:
        return bool(moment > before)
    except TypeError:  # a number and an instant, or instants with and without an offset
        return False


class Sessions:
    """The live recordings by id, and the answers to their rows."""

    def __init__(self, filter: Filter, ahead: int) -> None:
        self.filter = filter
        self.ahead = ahead
        self.fresh = Live(filter)
        self.by_id: OrderedDict[str, Session] = OrderedDict()
        self.n_forgotten = 0

    def take(self, row: ParsedRow, n: int, complain: Complain) -> Step:
        """Take a row of n channels and perhaps inputs into the recording of its id."""
        if row.id in self.by_id:
            self.by_id.move_to_end(row.id)
        else:
            self.by_id[row.id] = Session(self.fresh.copy(), self.ahead)
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
        before, x, after = zip(*steps, strict=True)
        return answers(self.filter, _together(before), np.array(x), _together(after), self.ahead)


def _together(positions: Sequence[Position]) -> State:
    """The state of many streams from the positions of single streams."""
    return State(*(np.array(part) for part in zip(*positions, strict=True)))
