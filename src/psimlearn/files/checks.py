"""Refusals: every error about a model file says what was required and what was received."""

from typing import Any

import numpy as np

from psimlearn.errors import ModelFileError
from psimlearn.shapes import Bool

__all__ = ["Arrays", "counts", "require", "require_each", "require_finite", "require_float64", "shown"]

Arrays = dict[str, np.ndarray]
"""Arrays by name."""
LARGEST_COUNT = 2**31 - 1
"""The largest window or number of lags: products with it are still numbers that can be printed."""


def require(holds: bool | np.bool, message: str) -> None:
    """Raise ModelFileError with this message, and a full stop, unless `holds`."""
    if not holds:
        raise ModelFileError(message + ".")


def counts(value: Any) -> bool:
    """Whether this is a number of things: a whole number from 1 to `LARGEST_COUNT`, and not True."""
    return type(value) is int and 1 <= value <= LARGEST_COUNT


def shown(value: Any) -> str:
    """A received value, cut to a length that a message has room for."""
    try:
        return f"{value!r:.80}"
    except RecursionError:  # a forger can nest lists deeper than Python prints them
        return f"a nested {type(value).__name__}"


def require_float64(name: str, array: np.ndarray) -> None:
    """Refuse an array of any other type."""
    require(array.dtype == np.float64, f"array {name}: required float64, received {array.dtype}")


def require_finite(name: str, array: np.ndarray) -> None:
    """Refuse NaN and infinite numbers."""
    require_each(name, array, np.asarray(np.isfinite(array)), "finite numbers")  # of one number, isfinite is no array


def require_each(name: str, array: np.ndarray, holds: Bool[np.ndarray, "*shape"], required: str) -> None:
    """Refuse an array unless `holds` is True for each of its numbers; name the first one for which it is not."""
    if not holds.all():
        raise ModelFileError(f"array {name}: required {required}, received {array[~holds].flat[0]}.")
