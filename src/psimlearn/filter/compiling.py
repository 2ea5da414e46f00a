"""Compiled kernels, where numba is installed and a filter is small enough to gain from them.

Whether a job runs compiled depends on its size alone, so that the same job gives the same bits in every process. The
first use in a process imports numba, which takes about a second; the first use on a machine also compiles.
"""

import logging
from functools import cache
from importlib.util import find_spec
from time import perf_counter
from typing import Any

import numpy as np

from psimlearn.shapes import Float

__all__ = ["kernels_for", "padded"]

LEAST_ROWS = 2**15
"""The rows from which a roll is worth compiled code."""
AT_ONCE, ALONE, TOGETHER, IN_DOUBT, STEPPED = 500, 3500, 2**17, 16384, 8192
"""The most multiplications of a row up to which compiled code beats the products of numpy: for many recordings whose
inputs are kept, for one recording, for many recordings straight to beliefs, for recordings with gaps, and for one row
of a stream."""
SEVERAL = 4
"""The recordings from which they are many."""
THREADED = 12288
"""As `TOGETHER`, where numpy would use all threads and compiled code one."""
SECONDS = 5.0
"""A wait of more seconds is explained."""
LOG = logging.getLogger("psimlearn")


def kernels_for(multiplications: int, most: int, rows: int = LEAST_ROWS) -> Any:
    """The module of kernels; None for a job that numpy does as fast, or without numba.

    Args:
        multiplications: of a row.
        most: `AT_ONCE`, `ALONE`, `TOGETHER`, `IN_DOUBT` or `STEPPED`.
        rows: how many rows there are.
    """
    return _kernels() if multiplications <= most and rows >= LEAST_ROWS else None


@cache
def _kernels() -> Any:
    if find_spec("numba") is None:
        return None
    began = perf_counter()
    try:
        from psimlearn.filter import kernels
    except Exception as error:  # numba refuses versions of numpy that it does not know; compilers fail in many ways
        LOG.warning("psimlearn: numba is installed and cannot be used, so numpy runs small filters: %s", error)
        return None
    took = perf_counter() - began
    if took > SECONDS:
        LOG.warning("psimlearn: compiled code for small filters took %.0f s to make; it is kept for next time.", took)
    return kernels


def padded(weights: Float[np.ndarray, "p q"], width: int) -> Float[np.ndarray, "p width"]:
    """The weights with columns of zeros up to a multiple of `width`."""
    p, q = weights.shape
    out = np.zeros((p, -(-q // width) * width))
    out[:, :q] = weights
    return out
