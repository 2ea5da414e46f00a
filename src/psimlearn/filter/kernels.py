"""Compiled loops for small filters, in which the calls of numpy would take most of the time.

This module imports numba, so `compiling.py` imports it only where it is used. Every map has the form y = [z; 1]' W. Its
columns are added up eight at a time, in registers; W has a multiple of eight columns, of which the last are zero.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
from numba import boolean, float64, int64, types, void

__all__ = ["BOX", "EIGHT", "MEAN", "W_FIRST", "fill_feedback", "pass_rows", "step"]

Function = TypeVar("Function", bound=Callable[..., Any])
EIGHT = 8
"""The columns that are added up at a time."""
ONE, AT_A_TIME = np.uint64(1), np.uint64(EIGHT)  # numba checks for negative places, which unsigned ones cannot be
GIVEN, TABLE = types.Array(float64, 1, "C", readonly=True), types.Array(float64, 2, "C", readonly=True)
Y, BOX, MEAN, W_FIRST = 3, 4, 6, 7
"""Where the parts of a stream's store begin; the three rows of z are first."""
EDGES, OUT = types.Array(int64, 1, "C", readonly=True), float64[:, ::1]


def compiled(*signatures: Any) -> Callable[[Function], Function]:
    """Compile a function for these types, or for those of its first call; or read it from the cache."""
    njit: Any = numba.njit  # versions of numba differ in whether they state their types
    given = list(signatures) or None
    decorator: Callable[[Function], Function] = njit(
        given, cache=True, nogil=True, error_model="numpy", fastmath={"contract"}
    )
    return decorator


@compiled()
def _multiplied(z: Any, W: Any, y: Any, width: int) -> None:
    """Write the first columns of y = [z; 1]' W, at least `width` of them."""
    p, c = np.uint64(W.shape[0] - 1), np.uint64(0)
    while c < np.uint64(width):
        d, e, f = c + ONE, c + ONE + ONE, c + ONE + ONE + ONE
        g, h, i, j = f + ONE, f + ONE + ONE, f + ONE + ONE + ONE, f + ONE + ONE + ONE + ONE
        a0, a1, a2, a3, a4, a5, a6, a7 = W[p, c], W[p, d], W[p, e], W[p, f], W[p, g], W[p, h], W[p, i], W[p, j]
        for k in range(p):
            v = z[k]
            a0 += v * W[k, c]
            a1 += v * W[k, d]
            a2 += v * W[k, e]
            a3 += v * W[k, f]
            a4 += v * W[k, g]
            a5 += v * W[k, h]
            a6 += v * W[k, i]
            a7 += v * W[k, j]
        y[c], y[d], y[e], y[f], y[g], y[h], y[i], y[j] = a0, a1, a2, a3, a4, a5, a6, a7
        c += AT_A_TIME


@compiled()
def _boxed(y: Any, box: Any, fed: Any) -> None:
    """Write the feedback inside its box; comparisons leave NaN as it is."""
    for i in range(box.shape[1]):
        v = y[i]
        v = box[0, i] if v < box[0, i] else v
        fed[i] = box[1, i] if v > box[1, i] else v


@compiled(void(TABLE, TABLE, EDGES, TABLE, TABLE, TABLE, int64, OUT, OUT))
def pass_rows(
    values: Any, u: Any, offsets: Any, scaling: Any, W: Any, box: Any, place: int, out: Any, ends: Any
) -> None:
    """Pass over packed recordings; write a part of the belief before each row but the first, and after the last.

    Args:
        values: observations, not standardised.
        u: the input columns of z.
        offsets: of the recordings.
        scaling: the mean and the unit of each channel.
        W: from [z; 1] to y, which begins with the next feedback, before its box.
        box: low, high, and the first feedback.
        place: where the part of the belief begins in y.
        out: for each row the part before it.
        ends: for each recording the part after it.
    """
    n, r, d, p, n_inputs = values.shape[1], box.shape[1], out.shape[1], W.shape[0] - 1, u.shape[1]
    lags, z, y = (p - r - n_inputs) // n, np.empty(p), np.empty(W.shape[1])
    for m in range(len(offsets) - 1):
        begin, end = offsets[m], offsets[m + 1]
        z[:r] = box[2]
        for t in range(begin, end):
            for j in range(lags):
                past = max(t - j, begin)
                for i in range(n):
                    z[r + j * n + i] = (values[past, i] - scaling[0, i]) / scaling[1, i]
            for i in range(n_inputs):
                z[p - n_inputs + i] = u[t, i]
            _multiplied(z, W, y, W.shape[1])
            for c in range(d):
                if t + 1 < end:
                    out[t + 1, c] = y[place + c]
                else:
                    ends[m, c] = y[place + c]
            _boxed(y, box, z)


@compiled(void(OUT, EDGES, TABLE, TABLE))
def fill_feedback(z: Any, starts: Any, W: Any, box: Any) -> None:
    """Fill the columns of scheduled z that are fed back.

    Args:
        z: the inputs of all steps, of which the other columns are filled.
        starts: where the block of each time begins.
        W: from [z; 1] to the next feedback, before its box.
        box: low, high, and the first feedback.
    """
    r, y = box.shape[1], np.empty(W.shape[1])
    for stream in range(starts[1]):
        z[stream, :r] = box[2]
        for t in range(len(starts) - 2):
            if starts[t + 1] + stream >= starts[t + 2]:
                break
            _multiplied(z[starts[t] + stream], W, y, W.shape[1])
            _boxed(y, box, z[starts[t + 1] + stream])


STEP = (OUT, int64, int64, int64, int64, int64)


@compiled(boolean(float64[::1], *STEP), boolean(types.Array(float64, 1, "A", readonly=True), *STEP))
def step(x: Any, store: Any, last: int, now: int, free: int, r: int, p: int) -> bool:
    """Take one row of one stream; return whether it is finite, without which nothing but its z has changed.

    Args:
        x: the observations.
        store: all numbers of the stream, since each array costs as much as the arithmetic of a small filter. Its rows
            are three z, which end in 1; y; low and high; the mean of the channels; and W, from z to y.
        last: the row of z before this one.
        now: this row of z, whose feedback is filled.
        free: the row of z whose feedback is next.
        r: the width of the feedback.
        p: the width of z, without its 1.
    """
    n, z, y, size = len(x), store[now], store[Y], 0.0
    for i in range(n):
        v = x[i] - store[MEAN, i]
        size += v * v
        z[r + i] = v
    for i in range(r + n, p):
        z[i] = store[last, i - n]
    if not size < np.inf:
        return False
    _multiplied(z, store[W_FIRST : W_FIRST + p + 1], y, r)
    _boxed(y, store[BOX : BOX + 2, :r], store[free])
    return True
