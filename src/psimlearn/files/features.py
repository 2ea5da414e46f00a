"""The features that a file can name, and the width of a belief with each of them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from psimlearn.files.checks import require
from psimlearn.filter import OneHotMarginals, OneHotProduct, SecondMoment, Stack, StackSquares
from psimlearn.filter.onehot import LARGEST

__all__ = ["FEATURES", "features_name", "width"]

LONGEST_WORD = 32
"""A belief has one axis for each symbol of a word. With two symbols, words are shorter: see `LARGEST`."""


@dataclass(frozen=True)
class FeaturesKind:
    """One kind of features."""

    make: type[Any]
    """The class, called with a window."""
    width: Callable[[int, int], int]
    """d, of a window and a number of channels: by formula, as features of an array that a file merely claims to be
    possible could fill the memory."""
    of_symbols: bool = False


def _words(window: int, n: int) -> int:
    """How many words of symbols there are; refuses more than any filter has, and words longer than arrays have axes."""
    require(window <= LONGEST_WORD, f"window: required words of at most {LONGEST_WORD} symbols, received {window}")
    require(window * np.log(n) <= np.log(LARGEST) + 1e-9, f"window: required fewer words than {n}^{window}")
    return int(n**window)


FEATURES: dict[str, FeaturesKind] = {
    "OneHotMarginals": FeaturesKind(OneHotMarginals, lambda window, n: window * n, of_symbols=True),
    "OneHotProduct": FeaturesKind(OneHotProduct, _words, of_symbols=True),
    "SecondMoment": FeaturesKind(SecondMoment, lambda window, n: window * n + window * n * (window * n + 1) // 2),
    "Stack": FeaturesKind(Stack, lambda window, n: window * n),
    "StackSquares": FeaturesKind(StackSquares, lambda window, n: 2 * window * n),
}
"""Every kind of features that a file can hold, by name."""


def features_name(features: Any) -> str:
    """The name of features in a file. Their type must match exactly: a file could not hold the code of a subclass."""
    kind = type(features)
    known = kind.__name__ in FEATURES and FEATURES[kind.__name__].make is kind
    require(
        known,
        f"features: required one of {', '.join(FEATURES)}, received {kind.__name__}, which a file without code cannot "
        "hold. Keep the recordings and the script that learns the filter, and learn it again",
    )
    return kind.__name__


def width(features: Any, n: int) -> int:
    """d, the number of coordinates of a belief about n channels; features of this library are not computed for it."""
    kind = FEATURES.get(type(features).__name__)
    if kind is not None and kind.make is type(features):
        return kind.width(features.window, n)
    built: np.ndarray = features(np.zeros((1, features.window, n)))
    return int(built.shape[1])
