"""The memory of all streams in a few arrays, so that a hundred thousand streams are small and many step together."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from psimlearn.filter.alarms import Bell
from psimlearn.filter.doubt import Doubt, together
from psimlearn.filter.step import State
from psimlearn.filter.stretches import Memory, fresh, joined
from psimlearn.serve.served import Served
from psimlearn.shapes import Bool, Float, Int

__all__ = ["TRAIL", "Bank", "Kept", "new_kept", "replaced"]

TRAIL = 48
"""Points of the small curve of each stream."""
LARGEST_DRAWN = 1e38
"""Small curves are kept in single precision."""
FIRST_ROOM = 64

Places = Int[np.ndarray, " b"]


class Kept(NamedTuple):
    """All that is kept of b streams between two rows."""

    memory: Memory
    rings: Bool[np.ndarray, " b"]
    calm: Int[np.ndarray, " b"]
    """The state of the alarms, as in `Bell`."""
    inputs: Float[np.ndarray, "b p"]
    """The inputs of the last row: they are held in rows that were missed."""

    def at(self, streams: Places) -> "Kept":
        """The part of some of the streams."""
        return Kept(self.memory.at(streams), self.rings[streams], self.calm[streams], self.inputs[streams])

    def bell(self, served: Served) -> Bell | None:
        """The state of the alarms with their thresholds; None without alarms."""
        thresholds = served.thresholds
        if thresholds is None:
            return None
        return Bell.of(thresholds, served.rate, len(self.rings))._replace(rings=self.rings, calm=self.calm)


def new_kept(served: Served, n_streams: int) -> Kept:
    """Streams of which nothing was seen yet."""
    calm = np.zeros(n_streams, dtype=np.int64)
    inputs = np.zeros((n_streams, served.n_inputs))
    return Kept(fresh(served.filter, n_streams), np.zeros(n_streams, dtype=bool), calm, inputs)


def replaced(kept: Kept, some: Places, part: Kept) -> Kept:
    """The value with the part of some streams replaced."""
    b = len(kept.rings)
    others = np.setdiff1d(np.arange(b), some)
    place = np.empty(b, dtype=np.int64)
    place[some], place[others] = np.arange(len(some)), len(some) + np.arange(len(others))
    rest = kept.at(others)
    state = joined([part.memory.state, rest.memory.state])
    arrays = [np.concatenate(pair) for pair in zip(part.memory[1:] + part[1:], rest.memory[1:] + rest[1:], strict=True)]
    x, u, waits, rings, calm, inputs = arrays
    memory = part.memory._replace(state=state, x=x, u=u, waits=waits)
    return Kept(memory, rings, calm, inputs).at(place)


class Bank:
    """The memory of all streams, by their places."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self.doubts: dict[int, Doubt] = {}
        self.parts = _parts(new_kept(served, FIRST_ROOM))
        self.trail = np.full((FIRST_ROOM, TRAIL), np.nan, dtype=np.float32)
        """The last observations of the first channel, newest last."""
        self.n_used = 0
        self.free: list[int] = []

    def add(self) -> int:
        """The place of a new stream."""
        if self.free:
            return self.free.pop()
        if self.n_used == len(self.trail):
            self.parts = [_doubled(part) for part in self.parts]
            self.trail = _doubled(self.trail)
        self.n_used += 1
        place = self.n_used - 1
        self._begin(place)
        return place

    def remove(self, place: int) -> None:
        """Forget a stream."""
        self._begin(place)
        self.free.append(place)

    def get(self, places: Places) -> Kept:
        """What is kept of some streams."""
        parts = (part[places] for part in self.parts)
        belief, recent, clock, unseen, late, unrest, x, u, waits, rings, calm, inputs = parts
        doubt = together([self.doubts.get(place) for place in places.tolist()]) if self.doubts else None
        state = State(belief, recent, clock, unseen, late, doubt, unrest if unrest.shape[1] else None)
        memory = Memory(state, x, u, waits)
        return Kept(memory, rings, calm, inputs)

    def put(self, places: Places, kept: Kept) -> None:
        """Replace what is kept of some streams."""
        for part, values in zip(self.parts, _parts(kept), strict=True):
            part[places] = values
        doubt = kept.memory.state.doubt
        if doubt is None and not self.doubts:
            return
        for i, place in enumerate(places.tolist()):
            if doubt is not None and doubt.group[i] >= 0:
                spread = doubt.spread[[doubt.group[i]]].copy()  # else all streams of a stretch would stay in memory
                self.doubts[place] = Doubt(np.zeros(1, dtype=np.int64), spread)
            else:
                self.doubts.pop(place, None)

    def quieten(self, place: int) -> None:
        """End the alarm of a stream."""
        *_, rings, calm, _ = self.parts
        rings[place], calm[place] = False, 0

    def draw(self, places: Sequence[int], values: Sequence[Float[np.ndarray, " k"]]) -> None:
        """Append observations to the small curves of streams; a stream may stand more than once among the places."""
        if not len(places):
            return
        lengths = [len(each) for each in values]
        points = np.clip(np.concatenate(values), -LARGEST_DRAWN, LARGEST_DRAWN)
        if max(lengths) == 1 and len(set(places)) == len(places):
            some = np.array(places)
            self.trail[some, :-1] = self.trail[some, 1:]
            self.trail[some, -1] = points
            return
        for place, end, length in zip(places, np.cumsum(lengths).tolist(), lengths, strict=True):
            k = min(length, TRAIL)
            self.trail[place, : TRAIL - k] = self.trail[place, k:].copy()
            self.trail[place, TRAIL - k :] = points[end - k : end]

    def _begin(self, place: int) -> None:
        self.put(np.array([place]), new_kept(self.served, 1))
        self.trail[place] = np.nan


def _parts(kept: Kept) -> list[np.ndarray]:
    """The arrays of a value, without its doubt."""
    state, x, u, waits = kept.memory
    b = len(kept.rings)
    counts = [np.broadcast_to(part, b).astype(np.int64) for part in (state.clock, state.unseen, state.late)]
    unrest = np.empty((b, 0)) if state.unrest is None else state.unrest
    return [state.belief, state.recent, *counts, unrest, x, u, waits, kept.rings, kept.calm, kept.inputs]


def _doubled(array: np.ndarray) -> np.ndarray:
    return np.concatenate([array, array])
