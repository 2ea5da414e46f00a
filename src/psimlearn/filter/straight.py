"""Whole recordings straight to their beliefs: the inputs z of the steps are not kept, and no product is computed twice.

One product a step gives the next feedback and the part of the belief that was asked for. Feedback that is not
compressed is the belief itself, shifted and scaled: then shift and scale are folded into the next step, and the product
gives the belief alone. Besides the answers there is room for one time of all recordings only.
"""

from typing import Any, NamedTuple

import numpy as np

from psimlearn.filter.beliefs import left_by
from psimlearn.filter.chunked import cut
from psimlearn.filter.compiling import ALONE, AT_ONCE, SEVERAL, THREADED, TOGETHER, kernels_for, padded
from psimlearn.filter.folded import fold, foldable, folded_map
from psimlearn.filter.innovations import opening_rows, opens
from psimlearn.filter.layout import gappy, packed_controls
from psimlearn.filter.learnt import Learnt, check_alike, laid_out
from psimlearn.filter.openloop import open_rows
from psimlearn.filter.regressors import Linear
from psimlearn.filter.threads import WIDE, for_products
from psimlearn.recordings.schedule import Schedule
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.recordings.windows import first_rows
from psimlearn.shapes import Float, Int

__all__ = ["Passed", "passes", "straight"]


CACHED = 2**17
"""The numbers of some times of all recordings, so that they stay in cache until they are written."""


class Passed(NamedTuple):
    """The first coordinates of beliefs, in the order of the recordings."""

    before: Float[np.ndarray, "rows d"]
    """Before each row."""
    ends: Float[np.ndarray, "m d"]
    """After each recording."""


class _Pass(NamedTuple):
    """The map of a step, y = [z; 1]' W, of which the first columns are fed back."""

    W: Float[np.ndarray, "p y"]
    box: Float[np.ndarray, "3 r"]
    """Low and high, infinite without a box, and the first feedback."""
    place: int
    """Where the belief begins in y."""
    first: Float[np.ndarray, " d"]
    """The belief before the first row."""


def passes(filter: Learnt) -> bool:
    """Tell whether a filter is linear, so that one product gives its next feedback and its belief."""
    return foldable(filter) and isinstance(filter.regressors[0], Linear)


def straight(filter: Learnt, trajectories: Trajectories, d: int) -> Passed | None:
    """The first d coordinates of all beliefs; None for filters and recordings that another runner has to take.

    These are filters that are not linear, gaps, and long recordings, which are better cut into chunks.
    """
    rows, longest = len(trajectories.values), int(trajectories.lengths.max())
    if not passes(filter) or gappy(trajectories.values):
        return None
    one, long = _pass(filter, d), cut(longest, rows) is not None
    kernels = kernels_for(one.W.size, _most(trajectories, long), rows)
    if kernels is None and long:
        return None
    out = Passed(np.empty((rows, d)), np.empty((len(trajectories), d)))
    if opens(filter):
        with np.errstate(over="ignore", invalid="ignore"), for_products(len(trajectories) * one.W.size):
            _pass_opened(filter, one, trajectories, out, kernels)
    elif kernels is not None:
        check_alike(filter, trajectories)
        _pass_compiled(kernels, filter, one, trajectories, np.tile(one.box[2], (len(trajectories), 1)), 0, out)
    else:
        layout = laid_out(filter, trajectories)
        first = np.tile(one.box[2], (len(trajectories), 1))
        with np.errstate(over="ignore", invalid="ignore"), for_products(len(trajectories) * one.W.size):
            _pass_in_turn(one, layout.plan, layout.observed, first, out, layout.plan.trajectories())
    out.before[trajectories.offsets[:-1]] = one.first
    return out


def _most(trajectories: Trajectories, long: bool) -> int:
    """The most multiplications of a row up to which compiled code is faster."""
    if len(trajectories) >= SEVERAL and np.median(trajectories.lengths) >= trajectories.lengths.max() // 2:
        return max(THREADED, min(TOGETHER, WIDE // len(trajectories)))
    return ALONE if long else AT_ONCE


def _pass(filter: Learnt, d: int) -> _Pass:
    """The map of a step that also gives the first d coordinates of the belief."""
    feedback, r = filter.feedback, len(filter.feedback.mean)
    first = filter.initial[:d]
    if feedback.directions is not None:
        shift = np.concatenate([feedback.shift, np.zeros(d)])
        map = folded_map(filter, lambda m: np.concatenate([feedback.linear(m), m[:, :d]], axis=1), shift)
        assert isinstance(map, Linear)  # see passes
        machine = fold(filter)
        return _Pass(_joined(map), np.stack([*machine.bounds, machine.first]), r, first)
    map, unit = folded_map(filter, lambda m: m), feedback.weight / feedback.scale
    assert isinstance(map, Linear)
    W = _joined(map)
    W[-1] += feedback.shift @ W[:r]
    W[:r] *= unit[:, None]
    low, high = np.full((2, r), np.array([[-np.inf], [np.inf]]))
    if feedback.weight:  # in units of the belief
        low, high = (bound / unit + feedback.mean for bound in fold(filter).bounds)
    return _Pass(W, np.stack([low, high, np.clip(filter.initial, low, high)]), 0, first)


def _joined(map: Linear) -> Float[np.ndarray, "p y"]:
    """Weights and intercept in one array."""
    return np.vstack([map.weights, map.intercept])


def _pass_compiled(
    kernels: Any,
    filter: Learnt,
    one: _Pass,
    trajectories: Trajectories,
    fed: Float[np.ndarray, "m r"],
    first: int,
    out: Passed,
) -> None:
    """Fill the answers from a row on, whose feedback is given, with compiled code."""
    values, offsets, lengths = trajectories.values, trajectories.offsets, trajectories.lengths
    u = packed_controls(trajectories, filter.input_scaling, filter.feedthrough)
    W, scaling = padded(one.W, kernels.EIGHT), np.stack(filter.scaling)
    order = np.argsort(-lengths, kind="stable")[: int((lengths > first).sum())]
    kernels.pass_rows(values, u, offsets, order, scaling, W, one.box, fed, first, one.place, *out)


def _pass_opened(filter: Learnt, one: _Pass, trajectories: Trajectories, out: Passed, kernels: Any) -> None:
    """Fill the answers of a filter whose first rows have gains of their own; the rows after them are compiled."""
    ages, d = opening_rows(filter), out.before.shape[1]
    some, packed = trajectories, np.arange(len(trajectories.values))
    if kernels is not None:
        heads = first_rows(trajectories.offsets, ages + 1)
        some, packed = trajectories.stretches(heads), np.concatenate(heads)
    layout = laid_out(filter, some)
    plan = layout.plan
    z = np.empty((int(plan.starts[min(len(plan.starts) - 1, ages + 1)]), len(one.W) - 1))
    met = open_rows(filter, layout, z)
    later, rows = plan.from_time(met.rows), int(plan.starts[met.rows])
    belief, number = left_by(filter, z[:rows], d), plan.trajectories()
    goes_on = plan.reaches(1)[:rows]
    out.before[packed[plan.order[plan.place(1)[:rows][goes_on]]]] = belief[goes_on]
    out.ends[number[plan.stream[:rows][~goes_on]]] = belief[~goes_on]
    if not len(later.order):
        return
    fed = _fed(filter, one, met.S)
    if kernels is None:
        _pass_in_turn(one, later, layout.observed[rows:], fed, out, number)
    else:
        of_all = np.zeros((len(trajectories), fed.shape[1]))
        of_all[number[: len(fed)]] = fed
        _pass_compiled(kernels, filter, one, trajectories, of_all, met.rows, out)


def _fed(filter: Learnt, one: _Pass, S: Float[np.ndarray, "b s"]) -> Float[np.ndarray, "b r"]:
    """The feedback in memories, in the units of the map of a step."""
    feedback, r = filter.feedback, one.box.shape[1]
    if not feedback.weight:
        return np.tile(one.box[2], (len(S), 1))
    return (
        S[:, :r] if feedback.directions is not None else S[:, :r] * (feedback.scale / feedback.weight) + feedback.mean
    )


def _pass_in_turn(
    one: _Pass,
    plan: Schedule,
    known: Float[np.ndarray, "rows q"],
    first: Float[np.ndarray, "b r"],
    out: Passed,
    number: Int[np.ndarray, " m"],
) -> None:
    """Fill the answers, one time index of all recordings after the other.

    The contribution of known columns is computed, and answers are written, for a few times at once.

    Args:
        one: the map of a step.
        plan: the schedule of the rows.
        known: the columns of z that are not fed back.
        first: the feedback of first rows.
        out: the answers.
        number: of each recording of the schedule, among all recordings.
    """
    r = one.box.shape[1]
    of_feedback, of_known = one.W[:r], one.W[r:-1]
    blocks = plan.blocks()
    b, width = blocks[0].stop, one.W.shape[1]
    at_once = min(max(1, CACHED // (b * width)), len(blocks))
    low, high = (np.tile(bound, (b, 1)) for bound in one.box[:2])  # numpy clips to full bounds much faster
    fed = first.copy()
    y, response = np.empty((at_once * b, width)), np.empty((b, width))
    belief, intercepts = y[:, one.place : one.place + out.before.shape[1]], np.tile(one.W[-1], b)
    running, ending, grid = b, np.flatnonzero(~plan.reaches(1)), _grid(plan, out.before)
    after = None if grid is not None else np.where(plan.reaches(1), plan.order[plan.place(1)], -1)
    for begin in range(0, len(blocks), at_once):
        some = slice(blocks[begin].start, blocks[min(begin + at_once, len(blocks)) - 1].stop)
        np.matmul(known[some], of_known, out=y[: some.stop - some.start])
        y.reshape(at_once, -1)[...] += intercepts
        for block in blocks[begin : begin + at_once]:
            k, place = block.stop - block.start, slice(block.start - some.start, block.stop - some.start)
            if k < running:
                low, high, fed, response = low[:k], high[:k], fed[:k], response[:k]
                running = k
            np.matmul(fed, of_feedback, out=response)
            now = y[place]
            now += response
            np.maximum(now[:, :r], low, out=fed)
            np.minimum(fed, high, out=fed)
        _write(plan, some, belief, out.before if grid is None else grid, after)
        last = ending[slice(*np.searchsorted(ending, [some.start, some.stop]))]
        out.ends[number[plan.stream[last]]] = belief[last - some.start]


def _grid(plan: Schedule, before: Float[np.ndarray, "rows d"]) -> Float[np.ndarray, "b times d"] | None:
    """The packed rows of a schedule by recording and time; None if recordings differ in length."""
    b, n_times = plan.block(0).stop, len(plan.starts) - 1
    length = len(before) // b
    if len(plan.order) < b * n_times or len(before) != b * length:
        return None
    evenly = np.array_equal(plan.order[:b], np.arange(b) * length + length - n_times)
    return before.reshape(b, length, -1)[:, length - n_times :] if evenly else None


def _write(
    plan: Schedule,
    rows: slice,
    belief: Float[np.ndarray, "_ d"],
    before: Float[np.ndarray, "*rows d"],
    after: Int[np.ndarray, " rows"] | None,
) -> None:
    """Write the beliefs after some scheduled rows to the packed rows that come after them.

    These are given, -1 for the last row of a recording; `before` is a grid if they are not.
    """
    if after is None:
        b = plan.block(0).stop
        first, end = (int(plan.time[row]) for row in (rows.start, rows.stop - 1))
        grid = before[:, 1:][:, first : end + 1]
        grid[...] = belief.reshape(-1, b, belief.shape[1])[: grid.shape[1]].swapaxes(0, 1)
        return
    goes_on = np.flatnonzero(after[rows] >= 0)
    before[after[rows][goes_on]] = belief[goes_on]
