"""Compiled loops for small filters, in which the calls of numpy would take most of the time.

This module imports numba, so `compiling.py` imports it only where it is used. It gathers loops over whole recordings
(`passing.py`), over recordings with gaps (`doubting.py`) and over one row of a stream.
"""

from typing import Any

import numpy as np
from numba import boolean, float64, int64, types, void

from psimlearn.filter.doubting import fill_in_doubt
from psimlearn.filter.loops import EDGES, EIGHT, OUT, TABLE, boxed, compiled, multiplied
from psimlearn.filter.passing import pass_rows

__all__ = ["BOX", "EIGHT", "MEAN", "W_FIRST", "fill_feedback", "fill_in_doubt", "pass_rows", "step"]

Y, BOX, MEAN, W_FIRST = 3, 4, 6, 7
"""Where the parts of a stream's store begin; the three rows of z are first."""


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
    multiplied(z, store[W_FIRST : W_FIRST + p + 1], y, r)
    boxed(y, store[BOX : BOX + 2, :r], store[free])
    return True
