"""A compiled pass over whole recordings, straight to their beliefs; see `straight.py`.

Many recordings are passed over at once, one row each, so that one read of the weights serves several recordings, and no
sum waits for the one before it.
"""

from typing import Any

import numpy as np
from numba import int64, void

from psimlearn.filter.loops import EDGES, EIGHT, ONE, OUT, TABLE, boxed, compiled, multiplied
from psimlearn.filter.tiles import ROWS, multiplied_in_tiles

__all__ = ["pass_rows"]

AT_ONCE, FEWEST = 64, 2
"""How many recordings are passed over at once, so that their rows stay in cache, and the fewest for which that pays."""


@compiled()
def _pass_alone(
    values: Any, u: Any, begin: int, now: int, end: int, mean: Any, W: Any, box: Any, place: int, out: Any, z: Any
) -> Any:
    """Pass over the rows of one recording from `now`, whose feedback is in z; return y of the last row."""
    n, r, p, n_inputs = values.shape[1], box.shape[1], W.shape[0] - 1, u.shape[1]
    lags, y = (p - r - n_inputs) // n, np.empty(W.shape[1])
    for t in range(now, end):
        for j in range(lags):
            past = max(t - j, begin)
            for i in range(n):
                z[r + j * n + i] = values[past, i] - mean[i]
        for i in range(n_inputs):
            z[p - n_inputs + i] = u[t, i]
        multiplied(z, W, y, W.shape[1])
        if t + 1 < end:
            for c in range(out.shape[1]):
                out[t + 1, c] = y[place + c]
        boxed(y, box, z)
    return y


@compiled()
def _aligned(rows: int, columns: int) -> Any:
    """Zeros whose rows begin where a line of the cache begins, if columns are a multiple of eight."""
    store = np.zeros(rows * columns + EIGHT)
    first = (-store.ctypes.data // EIGHT) % EIGHT
    return store[first : first + rows * columns].reshape(rows, columns)


@compiled()
def _put_rows(
    values: Any, u: Any, begin: Any, now: Any, running: int, first: bool, mean: Any, r: int, z: Any, p: int
) -> None:
    """Write a row of each recording, and its inputs, to z; lags move on, and before its first row a recording rests."""
    n, n_inputs, start = np.uint64(values.shape[1]), np.uint64(u.shape[1]), np.uint64(r)
    end = np.uint64(p) - n_inputs
    for i in range(np.uint64(running)):
        t = np.uint64(now[i])
        if first:
            for k in range(start + n, end):
                past = np.uint64(max(now[i] - int64((k - start) // n), begin[i]))
                z[i, k] = values[past, (k - start) % n] - mean[(k - start) % n]
        else:
            for k in range(end - start - n):
                z[i, end - ONE - k] = z[i, end - ONE - k - n]
        for k in range(n):
            z[i, start + k] = values[t, k] - mean[k]
        for k in range(n_inputs):
            z[i, end + k] = u[t, k]


@compiled()
def _write_rows(y: Any, place: int, rows: Any, running: int, out: Any) -> None:
    """Write the part of y that begins at `place` to these rows of the answers."""
    begin = np.uint64(place)
    for i in range(np.uint64(running)):
        t = np.uint64(rows[i])
        for c in range(np.uint64(out.shape[1])):
            out[t, c] = y[i, begin + c]


@compiled()
def _boxed_rows(y: Any, low: Any, high: Any, running: int, z: Any) -> None:
    """Write the feedback of each recording inside its box; comparisons leave NaN as it is."""
    for i in range(np.uint64(running)):
        for k in range(np.uint64(len(low))):
            v = y[i, k]
            v = low[k] if v < low[k] else v
            z[i, k] = high[k] if v > high[k] else v


@compiled()
def _pass_at_once(
    values: Any, u: Any, begin: Any, first: Any, end: Any, mean: Any, W: Any, box: Any, place: int, out: Any, z: Any
) -> Any:
    """Pass over recordings from their first rows, longest first, while enough of them go on.

    Each recording has a row of z, which is left with its next feedback. Those that go on are the first. Return how many
    rows that was, and what was written after each recording that has ended.
    """
    r, p, running, now = box.shape[1], W.shape[0] - 1, len(begin), first.copy()
    ends = np.empty((running, out.shape[1]))
    y, low, high = _aligned(z.shape[0], W.shape[1]), box[0], box[1]
    for t in range(end[0] - first[0]):
        _put_rows(values, u, begin, now, running, t == 0, mean, r, z, p)
        multiplied_in_tiles(z, W, y, running)
        now += 1
        while running and now[running - 1] == end[running - 1]:
            running -= 1
            ends[running] = y[running, place : place + out.shape[1]]
        _write_rows(y, place, now, running, out)
        _boxed_rows(y, low, high, running, z)
        if running < FEWEST:
            return t + 1, ends
    return 0, ends


@compiled(void(TABLE, TABLE, EDGES, EDGES, TABLE, TABLE, TABLE, TABLE, int64, int64, OUT, OUT))
def pass_rows(
    values: Any,
    u: Any,
    offsets: Any,
    order: Any,
    scaling: Any,
    W: Any,
    box: Any,
    fed: Any,
    first: int,
    place: int,
    out: Any,
    ends: Any,
) -> None:
    """Pass over packed recordings from a row on; write a part of the belief after each row.

    Args:
        values: observations, not standardised.
        u: the input columns of z.
        offsets: of the recordings.
        order: the recordings that have such a row, longest first, so that those passed over at once end together.
        scaling: the mean and the unit of each channel.
        W: from [z; 1] to y, which begins with the next feedback, before its box.
        box: low and high.
        fed: for each recording the feedback of its first row to pass.
        first: the number of that row in its recording.
        place: where the part of the belief begins in y.
        out: for each row the part before it.
        ends: for each recording the part after it.
    """
    d, r, p, n = out.shape[1], box.shape[1], W.shape[0] - 1, values.shape[1]
    z, weights, mean = np.empty(p), _aligned(*W.shape), scaling[0]
    weights[:] = W
    for k in range(r, p - u.shape[1]):  # z is centred only, since divisions would take as long as some of the products
        weights[k] /= scaling[1, (k - r) % n]
    for at in range(0, len(order), AT_ONCE):
        group = order[at : at + AT_ONCE]
        begin, end, passed = offsets[group], offsets[group + 1], 0
        rows = _aligned((len(group) + ROWS - 1) // ROWS * ROWS, (p + EIGHT - 1) // EIGHT * EIGHT)
        for i in range(len(group)):
            rows[i, :r] = fed[group[i]]
        if len(group) >= FEWEST:
            passed, after = _pass_at_once(values, u, begin, begin + first, end, mean, weights, box, place, out, rows)
            for i in range(len(group)):
                ends[group[i]] = after[i]
        for i in range(len(group)):
            now = begin[i] + first + passed
            if now < end[i]:
                z[:r] = rows[i, :r]
                y = _pass_alone(values, u, begin[i], now, end[i], mean, weights, box, place, out, z)
                ends[group[i]] = y[place : place + d]
