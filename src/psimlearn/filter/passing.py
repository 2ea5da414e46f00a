"""A compiled pass over whole recordings, straight to their beliefs; see `straight.py`.

Many recordings are passed over at once, one column each: registers then hold the same number of several recordings, and
no sum waits for the one before it.
"""

from typing import Any

import numpy as np
from numba import int64, void

from psimlearn.filter.loops import EDGES, EIGHT, OUT, TABLE, boxed, compiled, multiplied

__all__ = ["pass_rows"]

MOST, FEWEST = 128, 8
"""About how many recordings are passed over at once, and the fewest for which that pays."""


@compiled()
def _pass_alone(
    values: Any, u: Any, begin: int, now: int, end: int, scaling: Any, W: Any, box: Any, place: int, out: Any, z: Any
) -> Any:
    """Pass over the rows of one recording from `now`, whose feedback is in z; return y of the last row."""
    n, r, p, n_inputs = values.shape[1], box.shape[1], W.shape[0] - 1, u.shape[1]
    lags, y = (p - r - n_inputs) // n, np.empty(W.shape[1])
    for t in range(now, end):
        for j in range(lags):
            past = max(t - j, begin)
            for i in range(n):
                z[r + j * n + i] = (values[past, i] - scaling[0, i]) / scaling[1, i]
        for i in range(n_inputs):
            z[p - n_inputs + i] = u[t, i]
        multiplied(z, W, y, W.shape[1])
        if t + 1 < end:
            for c in range(out.shape[1]):
                out[t + 1, c] = y[place + c]
        boxed(y, box, z)
    return y


@compiled()
def _multiplied_at_once(z: Any, W: Any, y: Any, b: int) -> None:
    """Write y = W z for the first b columns of z; W has one row for each of y, a multiple of four of them.

    Four rows of z serve four rows of y at a time: to read and write them takes longer than to multiply.
    """
    width, p = W.shape
    fours = p // 4 * 4
    for c in range(0, width, 4):
        y[c : c + 4, :b] = 0.0
        for k in range(0, fours, 4):
            e0, e1, e2, e3 = W[c, k], W[c, k + 1], W[c, k + 2], W[c, k + 3]
            f0, f1, f2, f3 = W[c + 1, k], W[c + 1, k + 1], W[c + 1, k + 2], W[c + 1, k + 3]
            g0, g1, g2, g3 = W[c + 2, k], W[c + 2, k + 1], W[c + 2, k + 2], W[c + 2, k + 3]
            h0, h1, h2, h3 = W[c + 3, k], W[c + 3, k + 1], W[c + 3, k + 2], W[c + 3, k + 3]
            for i in range(b):
                v0, v1, v2, v3 = z[k, i], z[k + 1, i], z[k + 2, i], z[k + 3, i]
                y[c, i] += e0 * v0 + e1 * v1 + e2 * v2 + e3 * v3
                y[c + 1, i] += f0 * v0 + f1 * v1 + f2 * v2 + f3 * v3
                y[c + 2, i] += g0 * v0 + g1 * v1 + g2 * v2 + g3 * v3
                y[c + 3, i] += h0 * v0 + h1 * v1 + h2 * v2 + h3 * v3
        for k in range(fours, p):
            for j in range(c, c + 4):
                v = W[j, k]
                for i in range(b):
                    y[j, i] += v * z[k, i]


@compiled()
def _aligned(rows: int, columns: int) -> Any:
    """An empty array whose rows begin where a line of the cache begins; other places would cost a third more."""
    store = np.empty(rows * columns + EIGHT)
    first = (-store.ctypes.data // EIGHT) % EIGHT
    return store[first : first + rows * columns].reshape(rows, columns)


@compiled()
def _put_rows(values: Any, u: Any, rows: Any, first: bool, scaling: Any, r: int, z: Any) -> None:
    """Write these rows and their inputs to z; lags move on, and at first repeat the first row."""
    n, last, b = values.shape[1], z.shape[0] - 1 - u.shape[1], len(rows)
    for k in range(last - 1, r + n - 1, -1):
        z[k] = z[k - n]
    for i in range(b):
        for k in range(n):
            z[r + k, i] = values[rows[i], k] - scaling[0, k]
        for k in range(u.shape[1]):
            z[last + k, i] = u[rows[i], k]
    for k in range(n):
        for i in range(b):
            z[r + k, i] /= scaling[1, k]
    if first:
        for k in range(r + n, last):
            z[k] = z[k - n]


@compiled()
def _write_at_once(y: Any, place: int, rows: Any, out: Any) -> None:
    """Write a part of each column of y to its row of the answers.

    Eight numbers of a row are written at a time: in a loop over a whole row, the processor would collect its numbers
    from distant places, which takes three times as long.
    """
    d = out.shape[1]
    eights = d // EIGHT * EIGHT
    for c in range(0, eights, EIGHT):
        f = place + c
        for i in range(len(rows)):
            t = rows[i]
            out[t, c], out[t, c + 1], out[t, c + 2], out[t, c + 3] = y[f, i], y[f + 1, i], y[f + 2, i], y[f + 3, i]
            f += 4
            out[t, c + 4], out[t, c + 5], out[t, c + 6], out[t, c + 7] = y[f, i], y[f + 1, i], y[f + 2, i], y[f + 3, i]
            f -= 4
    for c in range(eights, d):
        for i in range(len(rows)):
            out[rows[i], c] = y[place + c, i]


@compiled()
def _pass_at_once(
    values: Any, u: Any, begin: Any, end: Any, scaling: Any, W: Any, box: Any, place: int, out: Any, y: Any, z: Any
) -> int:
    """Pass over recordings, longest first, while enough of them go on; return how many rows that was.

    Each recording has a column, so that registers hold several of them. Those that go on are the first columns. The
    column of z of each recording is left with its next feedback, that of y with what its last row gave.
    """
    now, running = begin.copy(), len(begin)
    for k in range(box.shape[1]):
        z[k] = box[2, k]
    z[-1] = 1.0
    for t in range(end[0] - begin[0]):
        _put_rows(values, u, now[:running], t == 0, scaling, box.shape[1], z)
        _multiplied_at_once(z, W, y, min((running + EIGHT - 1) // EIGHT * EIGHT, len(begin)))
        now += 1
        while running and now[running - 1] == end[running - 1]:
            running -= 1
        _write_at_once(y, place, now[:running], out)
        for k in range(box.shape[1]):
            low, high = box[0, k], box[1, k]
            for i in range(running):
                v = y[k, i]
                v = low if v < low else v
                z[k, i] = high if v > high else v
        if running < FEWEST:
            return t + 1
    return end[0] - begin[0]


@compiled(void(TABLE, TABLE, EDGES, EDGES, TABLE, TABLE, TABLE, int64, OUT, OUT))
def pass_rows(
    values: Any, u: Any, offsets: Any, order: Any, scaling: Any, W: Any, box: Any, place: int, out: Any, ends: Any
) -> None:
    """Pass over packed recordings; write a part of the belief before each row but the first, and after the last.

    Args:
        values: observations, not standardised.
        u: the input columns of z.
        offsets: of the recordings.
        order: the recordings, longest first, so that those passed over at once are of similar length.
        scaling: the mean and the unit of each channel.
        W: from [z; 1] to y, which begins with the next feedback, before its box.
        box: low, high, and the first feedback.
        place: where the part of the belief begins in y.
        out: for each row the part before it.
        ends: for each recording the part after it.
    """
    d, r, p = out.shape[1], box.shape[1], W.shape[0] - 1
    width = (max(r, place + d) + 3) // 4 * 4
    z, by_row = np.empty(p), np.ascontiguousarray(W[:, :width].T)
    n_groups = (len(order) + MOST - 1) // MOST
    size = (len(order) // n_groups + EIGHT) // EIGHT * EIGHT  # groups of one size, for whole registers
    for first in range(0, len(order), size):
        group = order[first : first + size]
        begin, end = offsets[group], offsets[group + 1]
        passed, columns, y = 0, _aligned(p + 1, len(group)), _aligned(width, len(group))
        if len(group) >= FEWEST:
            passed = _pass_at_once(values, u, begin, end, scaling, by_row, box, place, out, y, columns)
        for i in range(len(group)):
            now = begin[i] + passed
            if now < end[i]:
                z[:r] = columns[:r, i] if passed else box[2]
                after = _pass_alone(values, u, begin[i], now, end[i], scaling, W, box, place, out, z)
                ends[group[i]] = after[place : place + d]
            else:
                ends[group[i]] = y[place : place + d, i]
