"""What compiled loops share: how they are compiled, the types of their arrays, products and the box.

Modules with compiled loops import numba, so `compiling.py` imports them only where they are used. Every map has the
form y = [z; 1]' W. Its columns are added up eight at a time, in registers; W has a multiple of eight columns, of which
the last are zero.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numba
import numpy as np
from numba import float64, int64, types

__all__ = ["CUBE", "CUBES", "EDGES", "EIGHT", "GIVEN", "ONE", "OUT", "TABLE", "TABLES", "boxed", "compiled", "entry"]
__all__ += ["multiplied"]

Function = TypeVar("Function", bound=Callable[..., Any])
EIGHT = 8
"""The columns that are added up at a time."""
ONE, AT_A_TIME = np.uint64(1), np.uint64(EIGHT)  # numba checks for negative places, which unsigned ones cannot be
GIVEN, TABLE = types.Array(float64, 1, "C", readonly=True), types.Array(float64, 2, "C", readonly=True)
CUBES, TABLES = types.Array(float64, 3, "C", readonly=True), types.Array(float64, 4, "C", readonly=True)
EDGES = types.Array(int64, 1, "C", readonly=True)
OUT, CUBE = float64[:, ::1], float64[:, :, ::1]
"""Arrays that are written; the others are read."""


def compiled(*signatures: Any, brief: bool = False) -> Callable[[Function], Function]:
    """Compile a function for these types, or for those of its first call; or read it from the cache.

    Other threads of Python go on meanwhile, unless it is brief: to let them go on takes as long as a small step.
    """
    njit: Any = numba.njit  # versions of numba differ in whether they state their types
    given = list(signatures) or None

    def decorator(function: Function) -> Function:
        with _sums_side_by_side():
            options = {"cache": True, "nogil": not brief, "error_model": "numpy", "fastmath": {"contract"}}
            made: Function = njit(given, **options)(function)
            return made

    return decorator


def entry(function: Any, *types: Any) -> Callable[..., Any]:
    """The code of a compiled function for these types alone, which the caller answers for.

    Numba would look up the types of all arguments in every call, which takes longer than the step of a small filter.
    """
    made: Callable[..., Any] = function.overloads[types].entry_point
    return made


@contextmanager
def _sums_side_by_side() -> Iterator[None]:
    """Let numba put sums that stand side by side into one register, which halves the time; by default it does not."""
    config: Any = numba.config
    before = getattr(config, "SLP_VECTORIZE", 0)
    config.SLP_VECTORIZE = 1
    try:
        yield
    finally:
        config.SLP_VECTORIZE = before


@compiled()
def multiplied(z: Any, W: Any, y: Any, width: int) -> None:
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
def boxed(y: Any, box: Any, fed: Any) -> None:
    """Write the feedback inside its box; comparisons leave NaN as it is."""
    for i in range(box.shape[1]):
        v = y[i]
        v = box[0, i] if v < box[0, i] else v
        fed[i] = box[1, i] if v > box[1, i] else v
