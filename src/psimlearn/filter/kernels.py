"""Compiled loops for small filters, in which the calls of numpy would take most of the time.

This module imports numba, so `compiling.py` imports it only where it is used. It gathers loops over whole recordings
(`passing.py`), over recordings with gaps (`doubting.py`) and over one row of a stream.
"""

from typing import Any

import numpy as np
from numba import boolean, float64, int64, types, void

from psimlearn.filter.doubting import fill_in_doubt
from psimlearn.filter.loops import EDGES, EIGHT, ONE, OUT, TABLE, boxed, compiled, entry, multiplied
from psimlearn.filter.passing import pass_rows
from psimlearn.filter.tiles import row_multiplied

__all__ = ["BOX", "EIGHT", "MEAN", "STATE", "W_FIRST", "fill_feedback", "fill_in_doubt", "pass_rows", "take_row"]

Y, BOX, MEAN, STATE, W_FIRST = 3, 4, 6, 7, 8
"""Where the parts of a stream's store begin; the three rows of z are first."""
ANY_ROW = types.Array(float64, 1, "A", readonly=True)
TWO, THREE = np.uint64(2), np.uint64(3)


@compiled(void(OUT, EDGES, TABLE, TABLE))
def fill_feedback(z: Any, starts: Any, W: Any, box: Any) -> None:
    """Fill the columns of scheduled z that are fed back.

    Args:
        z: the inputs of all steps, of which the other columns are filled, and the feedback of first rows.
        starts: where the block of each time begins.
        W: from [z; 1] to the next feedback, before its box.
        box: low and high.
    """
    y = np.empty(W.shape[1])
    for stream in range(starts[1]):
        for t in range(len(starts) - 2):
            if starts[t + 1] + stream >= starts[t + 2]:
                break
            multiplied(z[starts[t] + stream], W, y, W.shape[1])
            boxed(y, box, z[starts[t + 1] + stream])


@compiled(boolean(OUT, ANY_ROW), brief=True)
def step(store: Any, x: Any) -> bool:
    """Take one row of one stream; return whether it is finite, without which nothing but its z has changed.

    Args:
        store: all numbers of the stream, since each array costs as much as the arithmetic of a small filter. Its rows
            are three z, which end in 1; y; low and high; the mean of the channels; the state; and W, from z to y. The
            state is: which z is that of this row, whose feedback is filled; how many rows were taken; the width of the
            feedback; and the width of z, without its 1.
        x: the observations.
    """
    now, r, p = np.uint64(store[STATE, 0]), np.uint64(store[STATE, 2]), np.uint64(store[STATE, 3])
    last, free = (now + TWO) % THREE, (now + ONE) % THREE
    n, size = np.uint64(len(x)), 0.0
    for i in range(n):
        v = x[i] - store[MEAN, i]
        size += v * v
        store[now, r + i] = v
    for i in range(r + n, p):
        store[now, i] = store[last, i - n]
    if not size < np.inf:
        return False
    row_multiplied(store, int64(now), W_FIRST, int64(p), Y, int64(r))
    for i in range(r):
        v, low, high = store[Y, i], store[BOX, i], store[BOX + 1, i]
        v = low if v < low else v
        store[free, i] = high if v > high else v
    store[STATE, 0] = free
    store[STATE, 1] += 1.0
    return True


take_row = entry(step, OUT, ANY_ROW)
"""The step, for a store and a row of numbers in any memory; the types of its arguments are not checked."""
