"""Refusals: every error about a model file says what was required and what was received."""

from typing import Any

import numpy as np

from psimlearn.errors import ModelFileError
from psimlearn.shapes import Bool

__all__ = [
    "Arrays",
    "counts",
    "require",
    "require_covariance",
    "require_distributions",
    "require_each",
    "require_finite",
    "require_shallow",
    "require_type",
    "shown",
]

Arrays = dict[str, np.ndarray]
"""Arrays by name."""
LARGEST_COUNT = 2**31 - 1
"""The largest window or number of lags: products with it are still numbers that can be printed."""
DEEPEST = 32
"""The deepest nesting of notes: Python's stack would overflow where notes are nested some hundred times."""
ROUNDING = 1e-8
"""The relative error of sums and products that a writer may have made."""


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


def require_type(name: str, array: np.ndarray, *types: type) -> None:
    """Refuse an array of any other type than these."""
    names = " or ".join(kind.__name__ for kind in types)
    require(array.dtype in types, f"array {name}: required {names}, received {array.dtype}")


def require_finite(name: str, array: np.ndarray) -> None:
    """Refuse NaN and infinite numbers."""
    require_each(name, array, np.asarray(np.isfinite(array)), "finite numbers")  # of one number, isfinite is no array


def require_each(name: str, array: np.ndarray, holds: Bool[np.ndarray, "*shape"], required: str) -> None:
    """Refuse an array unless `holds` is True for each of its numbers; name the first one for which it is not."""
    if not holds.all():
        raise ModelFileError(f"array {name}: required {required}, received {array[~holds].flat[0]}.")


def require_covariance(name: str, matrix: np.ndarray) -> None:
    """Refuse a matrix of finite numbers unless it is symmetric and positive definite."""
    size = np.sqrt(np.abs(np.diag(matrix)))
    symmetric = np.abs(matrix - matrix.T) <= ROUNDING * size * size[:, None]
    require_each(name, matrix, np.asarray(symmetric), "a symmetric matrix")
    require(
        _definite(matrix), f"array {name}: required a positive definite matrix, received one without Cholesky factor"
    )


def _definite(matrix: np.ndarray) -> bool:
    """Whether missing channels can be filled in with this covariance."""
    try:
        return bool(np.isfinite(np.linalg.cholesky(matrix)).all())
    except np.linalg.LinAlgError:
        return False


def require_distributions(name: str, array: np.ndarray, n: int) -> None:
    """Refuse an array unless each of n equal parts of each of its rows has no negative number and sums to 1."""
    parts = array.reshape(-1, n, array.shape[-1] // n)
    sums = parts.sum(axis=2)
    require_each(name, array, array >= 0, "probabilities of at least 0")
    require_each(f"{name}, sums", sums, np.abs(sums - 1) <= ROUNDING * parts.shape[2], "probabilities that sum to 1")


def require_shallow(name: str, value: Any) -> None:
    """Refuse JSON that is nested more than `DEEPEST` times."""
    level = [value]
    for _ in range(DEEPEST + 1):
        level = [part for whole in level for part in _parts(whole)]
    require(not level, f"{name}: required at most {DEEPEST} levels of lists and dictionaries, received more")


def _parts(value: Any) -> list[Any]:
    """The lists and dictionaries in a list or dictionary, which count as one level, and their contents."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [part for part in inside if isinstance(part, dict | list)]
