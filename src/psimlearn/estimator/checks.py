"""Checks of single parameters: each returns the value in one type, or says what was required and what was received."""

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from psimlearn.choose.watch import Printed, Watch
from psimlearn.errors import SettingsError

__all__ = [
    "at_least_one",
    "is_auto",
    "level_weight_of",
    "not_negative",
    "one_of",
    "rank_of",
    "seed_of",
    "switch",
    "watch_of",
]


def at_least_one(value: Any, name: str, otherwise: str = "") -> int:
    """A count; `otherwise` names other values that the caller would have taken."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise SettingsError(f"{name}: required {otherwise}a whole number of at least 1, received {value!r}.")
    return int(value)


def not_negative(value: Any, name: str) -> float:
    """A weight."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0 <= value < np.inf:
        raise SettingsError(f"{name}: required 'auto' or a number of at least 0, received {value!r}.")
    return float(value)


def level_weight_of(value: Any) -> Any:
    """A weight, None or "auto"."""
    return value if value is None or is_auto(value) else not_negative(value, "level_weight")


def rank_of(value: Any) -> Any:
    """A count, None or "auto"."""
    return value if value is None or is_auto(value) else at_least_one(value, "rank", "None, 'auto' or ")


def switch(value: Any, name: str) -> bool:
    """True or False."""
    if not isinstance(value, bool | np.bool):
        raise SettingsError(f"{name}: required True or False, received {value!r}.")
    return bool(value)


def is_auto(value: Any) -> bool:
    """Whether the value is to be chosen."""
    return isinstance(value, str) and value == "auto"


def one_of(value: Any, words: tuple[str, ...], name: str) -> Any:
    """One of some words."""
    if not (isinstance(value, str) and value in words):
        raise SettingsError(f"{name}: required one of {words}, received {value!r}.")
    return value


def seed_of(random_state: Any) -> int:
    """One number that decides everything random."""
    try:
        return int(check_random_state(random_state).randint(2**31))
    except ValueError as error:
        raise SettingsError(
            f"random_state: required None, a whole number or a RandomState, received {random_state!r}."
        ) from error


def watch_of(verbose: Any) -> Watch:
    """The watch that receives progress."""
    if isinstance(verbose, Watch):
        return verbose
    return Printed() if verbose else Watch()
