"""Numbers as JSON can hold them."""

from typing import Any

import numpy as np

__all__ = ["jsonable"]

LARGEST = float(np.finfo(np.float64).max)


def jsonable(values: Any) -> Any:
    """Numbers as lists, null for NaN. The largest number replaces infinity, so that -inf still rings an alarm."""
    array = np.asarray(values, dtype=np.float64)
    if np.isfinite(array).all():
        return array.tolist()
    clipped = np.asarray(np.clip(array, -LARGEST, LARGEST)).astype(object)
    clipped[np.isnan(array)] = None
    return clipped.tolist()
