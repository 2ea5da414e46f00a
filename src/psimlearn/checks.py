"""Checks of settings: each returns the value in one type, or says what was required and what was received."""

import math
from collections.abc import Callable, Iterable
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from psimlearn.errors import SettingsError

__all__ = [
    "ROOM",
    "counts",
    "generator",
    "listing",
    "number",
    "one_of",
    "optional",
    "path_of",
    "room_for",
    "seed",
    "share",
    "shown",
    "switch",
    "whole",
]

Value = TypeVar("Value")

MOST = 2**31 - 1
"""The largest count where nothing smaller is said."""
ROOM = 2**29
"""The most numbers that one call may ask for, 4 GiB: a larger count is a slip of the keyboard."""


def shown(value: Any) -> str:
    """A value for a message, in few characters; of arrays, lists and other containers only the type."""
    if isinstance(value, int) and abs(value) > 10**30:
        return "a whole number of more than 30 digits"
    if value is None or isinstance(value, str | bool | int | float | np.generic):
        return f"{value!r:.80}"
    return f"a {type(value).__name__}" if not isinstance(value, type) else f"the class {value.__name__}"


def whole(value: Any, name: str, least: int = 1, most: int = MOST, otherwise: str = "") -> int:
    """A count; `otherwise` names other values that the caller would have taken."""
    if isinstance(value, bool | np.bool) or not isinstance(value, int | np.integer) or not least <= value <= most:
        huge = isinstance(value, int | np.integer) and value > most
        limits = f"from {least} to {most}" if huge or most != MOST else f"of at least {least}"
        raise SettingsError(f"{name}: required {otherwise}a whole number {limits}, received {shown(value)}.")
    return int(value)


def counts(value: Any, name: str, least: int = 1) -> list[int]:
    """One count or several, as a list."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        return [whole(value, name, least, otherwise="one or several of ")]
    several = [whole(each, name, least) for each in value]
    if not several:
        raise SettingsError(f"{name}: required at least one whole number of at least {least}, received none.")
    return several


def number(
    value: Any, name: str, least: float = 0.0, most: float = math.inf, *, above: bool = False, otherwise: str = ""
) -> float:
    """A finite number of at least `least`, or above it; `otherwise` names other values that the caller takes."""
    try:
        given = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
        found = float(value) if given else math.nan
    except OverflowError:
        found = math.nan
    if not (math.isfinite(found) and found <= most and (found > least if above else found >= least)):
        limits = f"{'above' if above else 'of at least'} {least:g}"
        limits = limits if most == math.inf else f"{'above' if above else 'from'} {least:g} to {most:g}"
        raise SettingsError(f"{name}: required {otherwise}a finite number {limits}, received {shown(value)}.")
    return found


def optional(check: Callable[..., Value], value: Any, name: str, **limits: Any) -> Value | None:
    """None, or the value that this check takes."""
    return None if value is None else check(value, name, otherwise="None or ", **limits)


def share(value: Any, name: str) -> float:
    """A share of at least 0 and below 1."""
    if number(value, name, 0.0, 1.0) == 1:
        raise SettingsError(f"{name}: required a share of at least 0 and below 1, received {shown(value)}.")
    return float(value)


def switch(value: Any, name: str) -> bool:
    """True or False."""
    if not isinstance(value, bool | np.bool):
        raise SettingsError(f"{name}: required True or False, received {shown(value)}.")
    return bool(value)


def one_of(value: Any, words: tuple[str, ...], name: str) -> Any:
    """One of some words."""
    if not (isinstance(value, str) and value in words):
        raise SettingsError(f"{name}: required one of {words}, received {shown(value)}.")
    return value


def listing(value: Any, name: str, entries: str = "names") -> Any:
    """A list, or anything else with entries; no text, whose letters would be taken as entries."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise SettingsError(f"{name}: required a list of {entries}, received {shown(value)}.")
    return value


def path_of(value: Any, name: str = "path") -> Path:
    """A path, from a path or a text."""
    if not isinstance(value, str | PathLike):
        raise SettingsError(f"{name}: required a text or a Path, received {shown(value)}.")
    return Path(value)


def seed(value: Any, name: str = "seed") -> int | None:
    """A seed of numpy's generators, or None."""
    return optional(whole, value, name, least=0, most=2**63 - 1)


def generator(value: Any, name: str = "rng") -> np.random.Generator:
    """A source of random numbers."""
    if not isinstance(value, np.random.Generator):
        raise SettingsError(
            f"{name}: required a generator, such as numpy.random.default_rng(0), received {shown(value)}."
        )
    return value


def room_for(name: str, *shape: int) -> None:
    """Refuse an answer of this shape if it has more than `ROOM` numbers; `name` is the setting that makes it large."""
    if math.prod(shape) > ROOM:
        raise SettingsError(
            f"{name}: required an answer of at most {ROOM} numbers (4 GiB), received a setting that makes it "
            f"{' x '.join(map(str, shape))}. Use a smaller {name}, or fewer recordings or streams at a time."
        )
