"""The compiled step of one stream, which Python need not look at: it keeps its own count of rows.

A row then costs one call. Who reads the stream settles first what was taken since: see `pending.py`.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from psimlearn.filter.compiling import STEPPED, kernels_for
from psimlearn.shapes import Float

__all__ = ["Quick", "quick_step"]


class Quick:
    """All numbers of one stream in one array, and the compiled step that takes its rows."""

    def __init__(
        self,
        kernels: Any,
        W: Float[np.ndarray, "r p"],
        box: Float[np.ndarray, "two r"],
        mean: Float[np.ndarray, " n"],
        rows: Float[np.ndarray, "three p"],
    ) -> None:
        (r, p), first, bounds = W.shape, kernels.W_FIRST, kernels.BOX
        store = np.zeros((first + p, -(-max(r, p) // kernels.EIGHT) * kernels.EIGHT))
        store[:3, :p], store[bounds : bounds + 2, :r] = rows, box
        store[kernels.MEAN, : len(mean)], store[first:, :r] = mean, W.T
        self._state = store[kernels.STATE]
        self._state[:4] = 2, 0, r, p - 1
        self.rows = store[:3, :p]
        """The rows of z that take turns."""
        self.take: Callable[[np.ndarray], bool] = partial(kernels.take_row, store)
        """Take a row, (n,) of float64; return whether it is finite, without which nothing but its z has changed."""

    def follow(self, place: int) -> None:
        """Go on with this row of z, after a row that was taken otherwise."""
        self._state[0] = place

    def taken(self) -> int:
        """The number of rows since it was asked for."""
        taken = self._state.item(1)
        if taken:
            self._state[1] = 0.0
        return int(taken)


def quick_step(
    W: Float[np.ndarray, "r p"] | None,
    box: Float[np.ndarray, "two r"],
    mean: Float[np.ndarray, " n"],
    rows: Float[np.ndarray, "three p"],
) -> Quick | None:
    """The compiled step of one stream; None for filters that are not linear or too wide, and without numba."""
    kernels = None if W is None else kernels_for(W.size, STEPPED)
    return None if kernels is None or W is None else Quick(kernels, W, box, mean, rows)
