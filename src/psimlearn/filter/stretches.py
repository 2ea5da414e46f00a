"""Rows of many streams that came in together: some rows of each stream, taken one time after the other.

Streams enter and leave as values, so that a caller can take rows, and forget the result if the rows cannot be kept.
Where nothing is missing and nothing is in doubt, the folded machine computes the feedback only, and all beliefs in one
product; otherwise the textbook step runs.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from psimlearn.filter.doubt import one_after_another
from psimlearn.filter.folded import Folded, Map, fold, foldable, folded_map
from psimlearn.filter.innovations import opening_rows
from psimlearn.filter.learnt import Learnt, remembered, start
from psimlearn.filter.step import State, expected, inputs
from psimlearn.filter.stepping import step
from psimlearn.shapes import Bool, Float, Int

__all__ = ["Memory", "Stretch", "fresh", "joined", "take_stretch"]

NO_ROWS = np.empty(0, dtype=np.int64)


class Memory(NamedTuple):
    """The memory of b streams between two rows.

    With feed-through, the belief before a row needs the inputs of that row: the last row waits for them.
    """

    state: State
    x: Float[np.ndarray, "b n"]
    """The row that waits, and its inputs; of width 0 for filters without feed-through."""
    u: Float[np.ndarray, "b p"]
    waits: Bool[np.ndarray, " b"]
    """Whether a row waits."""

    def at(self, streams: Any) -> "Memory":
        """The memory of some of the streams, by any index."""
        return Memory(self.state.at(streams), self.x[streams], self.u[streams], self.waits[streams])


class Stretch(NamedTuple):
    """Rows with the states around them, stream after stream."""

    before: State
    after: State
    """With feed-through: as if the inputs stayed, because the next ones are not known."""
    end: Memory
    """The memory of each stream after its last row."""


class _Plan(NamedTuple):
    """The order in which rows are taken: time after time, and at each time the streams with most rows first."""

    streams: Int[np.ndarray, " b"]
    """The streams, those with most rows first."""
    active: Int[np.ndarray, " times"]
    """The number of streams that have a row at each time: the first ones."""
    first: Int[np.ndarray, " times"]
    """The place of the first row of each time."""
    rows: Int[np.ndarray, " rows"]
    """For each place in this order, the row as it was given."""
    given: Int[np.ndarray, " rows"]
    """For each row as it was given, its place in this order."""
    last: Int[np.ndarray, " b"]
    """The place of the last row of each stream, streams as given."""


def fresh(filter: Learnt, n_streams: int) -> Memory:
    """The memory of streams of which nothing was seen yet."""
    n = len(filter.scaling.mean) if filter.feedthrough else 0
    p = len(filter.input_scaling.mean) if filter.feedthrough and filter.input_scaling is not None else 0
    x, u = np.zeros((n_streams, n)), np.zeros((n_streams, p))
    return Memory(start(filter, n_streams), x, u, np.zeros(n_streams, dtype=bool))


def take_stretch(
    filter: Learnt,
    memory: Memory,
    x: Float[np.ndarray, "rows n"],
    u: Float[np.ndarray, "rows p"] | None,
    lengths: Int[np.ndarray, " b"],
) -> Stretch:
    """Take rows of b streams.

    Args:
        filter: a learnt filter.
        memory: of the b streams, before their rows.
        x: observations, stream after stream; NaN where a channel was not observed.
        u: finite inputs of the same rows, if the filter was learnt with inputs.
        lengths: the number of rows of each stream, at least one.
    """
    plan = _plan(lengths)
    x, u = x[plan.rows], None if u is None else u[plan.rows]
    memory = memory.at(plan.streams)
    with np.errstate(over="ignore", invalid="ignore"):  # a filter that diverges is a value, not a crash
        if filter.feedthrough and u is not None:
            before, after = _take_waiting(filter, memory, x, u, plan)
            end = Memory(before.at(plan.last), x[plan.last], u[plan.last], np.ones(len(lengths), dtype=bool))
            return Stretch(before.at(plan.given), after.at(plan.given), end)
        young = (memory.state.clock < opening_rows(filter)).any()
        folded = foldable(filter) and not young and memory.state.doubt is None and not np.isnan(x).any()
        before, after = (_take_folded if folded else _take_textbook)(filter, memory.state, x, u, plan)
    end = memory._replace(state=after.at(plan.last))
    return Stretch(before.at(plan.given), after.at(plan.given), end)


def _plan(lengths: Int[np.ndarray, " b"]) -> _Plan:
    streams = np.argsort(-lengths, kind="stable")
    sorted_lengths, starts = lengths[streams], (np.cumsum(lengths) - lengths)[streams]
    times = np.arange(sorted_lengths[0])
    active = np.searchsorted(-sorted_lengths, -times, side="left")
    first = np.cumsum(active) - active
    rows = np.concatenate([starts[:k] + t for t, k in zip(times, active, strict=True)])
    given, last = np.empty_like(rows), np.empty_like(streams)
    given[rows] = np.arange(len(rows))
    last[streams] = first[sorted_lengths - 1] + np.arange(len(streams))
    return _Plan(streams, active, first, rows, given, last)


def _take_textbook(
    filter: Learnt, state: State, x: Float[np.ndarray, "rows n"], u: Float[np.ndarray, "rows p"] | None, plan: _Plan
) -> tuple[State, State]:
    """The states before and after each row, one step a time."""
    before, after = [], []
    for i, k in zip(plan.first, plan.active, strict=True):
        before.append(state.at(slice(k)))
        state = step(filter, before[-1], x[i : i + k], None if u is None else u[i : i + k])
        after.append(state)
    return joined(before), joined(after)


def _take_waiting(
    filter: Learnt, memory: Memory, x: Float[np.ndarray, "rows n"], u: Float[np.ndarray, "rows p"], plan: _Plan
) -> tuple[State, State]:
    """With feed-through: each row is taken once its next inputs are known, and until then as if inputs stayed."""
    before, after = [], []
    for i, k in zip(plan.first, plan.active, strict=True):
        x_now, u_now = x[i : i + k], u[i : i + k]
        before.append(_caught_up(filter, memory.at(slice(k)), u_now))
        after.append(step(filter, before[-1], x_now, u_now))
        memory = Memory(before[-1], x_now, u_now, np.ones(k, dtype=bool))
    return joined(before), joined(after)


def _caught_up(filter: Learnt, memory: Memory, u: Float[np.ndarray, "b p"]) -> State:
    """The states once the waiting rows were taken with these next inputs."""
    waiting, others = np.flatnonzero(memory.waits), np.flatnonzero(~memory.waits)
    if not len(waiting):
        return memory.state
    some = memory.at(waiting)
    taken = step(filter, some.state, some.x, some.u, u[waiting])
    in_order = np.argsort(np.concatenate([waiting, others]))
    return joined([taken, memory.state.at(others)]).at(in_order) if len(others) else taken


def _take_folded(
    filter: Learnt, state: State, x: Float[np.ndarray, "rows n"], u: Float[np.ndarray, "rows p"] | None, plan: _Plan
) -> tuple[State, State]:
    """The states before and after each row, by one product a time for the feedback, and one for all beliefs."""
    machine, r = _machine(filter), len(filter.feedback.mean)
    recent = _recent(filter, state, filter.scaling(x), plan)
    controls = filter.controls(u, u, len(x))
    z = np.concatenate([np.empty((len(x), r)), recent.reshape(len(x), -1), controls], axis=1)
    fed, boxed = inputs(filter.recursion, state.belief), machine.boxes(len(state.belief))
    for i, k in zip(plan.first, plan.active, strict=True):
        z[i : i + k, :r] = fed[:k]
        fed = boxed(machine.feed(z[i : i + k]))
    belief, clock = _reader(filter)(z), _by_time(state.clock, plan) + np.repeat(np.arange(len(plan.first)), plan.active)
    k, late = len(state.clock), _by_time(np.broadcast_to(state.late, len(state.clock)), plan)
    unseen = np.zeros(len(x), dtype=np.int64)
    after = State(belief, recent, clock + 1, unseen, late)
    before = State(np.empty_like(belief), np.empty_like(recent), clock, unseen.copy(), late)
    before.belief[:k], before.recent[:k], before.unseen[:k] = state.belief, state.recent, state.unseen
    earlier = _earlier(plan)
    before.belief[k:], before.recent[k:] = belief[earlier], recent[earlier]
    return _with_unrest(filter, state, before, after, plan)


def _with_unrest(filter: Learnt, state: State, before: State, after: State, plan: _Plan) -> tuple[State, State]:
    """The states before and after each row with their unrest, if it is kept."""
    if state.unrest is None:
        return before, after
    x, mean = after.recent[:, 0], expected(filter.recursion, before.belief)
    was, becomes, now = np.empty_like(x), np.empty_like(x), state.unrest
    for i, k in zip(plan.first, plan.active, strict=True):
        was[i : i + k] = now[:k]
        becomes[i : i + k] = now = filter.unrest_after(now[:k], x[i : i + k], mean[i : i + k])
    return before._replace(unrest=was), after._replace(unrest=becomes)


def _recent(
    filter: Learnt, state: State, x: Float[np.ndarray, "rows n"], plan: _Plan
) -> Float[np.ndarray, "rows lags n"]:
    """The last observations at each row, newest first; the first row of a stream stands for all before it."""
    recent = np.empty((len(x), filter.lags, x.shape[1]))
    recent[:, 0] = x
    older = np.where((state.clock == 0)[:, None, None], x[: len(state.clock), None], state.recent)
    for i, k in zip(plan.first, plan.active, strict=True):
        recent[i : i + k, 1:] = older[:k, :-1]
        older = recent[i : i + k]
    return recent


def _by_time(of_streams: np.ndarray, plan: _Plan) -> np.ndarray:
    """A value of each stream, at each of its rows."""
    return np.concatenate([of_streams[:k] for k in plan.active])


def _earlier(plan: _Plan) -> Int[np.ndarray, " later"]:
    """The place of the row before each row, without the first rows of streams."""
    return np.concatenate(
        [i + np.arange(k) for i, k in zip(plan.first[:-1], plan.active[1:], strict=True)] or [NO_ROWS]
    )


def joined(states: Sequence[State]) -> State:
    """The states of all rows, one after the other."""
    if len(states) == 1:
        return states[0]
    sizes = [len(state.clock) for state in states]
    counts = [[np.broadcast_to(part, size) for part in state[3:5]] for state, size in zip(states, sizes, strict=True)]
    unseen, late = (np.concatenate(parts) for parts in zip(*counts, strict=True))
    belief, recent, clock = (np.concatenate(parts) for parts in zip(*(state[:3] for state in states), strict=True))
    unrest = None if states[0].unrest is None else np.concatenate([state.unrest for state in states])
    return State(belief, recent, clock, unseen, late, one_after_another([s.doubt for s in states], sizes), unrest)


@remembered
def _machine(filter: Learnt) -> Folded:
    return fold(filter)


@remembered
def _reader(filter: Learnt) -> Map:
    return folded_map(filter, lambda belief: belief)
