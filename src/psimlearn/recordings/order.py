"""An order of recordings that their contents decide, so that a fit does not depend on the order given."""

from collections.abc import Sequence
from hashlib import blake2b
from itertools import pairwise

import numpy as np

from psimlearn.recordings.trajectories import Trajectories
from psimlearn.shapes import Int

__all__ = ["Key", "content_keys", "one_order"]

Key = tuple[bytes, bytes]
"""Two numbers that stand for a recording: which way its channels move, and its contents."""


def one_order(data: Trajectories) -> Int[np.ndarray, " m"]:
    """The recordings in the order of their keys.

    Which way each channel moves at each row comes first: it is the same in other units, and so is the fit.
    """
    if len(data) == 1:
        return np.zeros(1, dtype=np.int64)
    keys = content_keys(data)
    return np.array(sorted(range(len(data)), key=keys.__getitem__))


def content_keys(data: Trajectories) -> list[Key]:
    """The key of each recording."""
    contents = [array for array in (data.values, data.inputs, data.hints) if array is not None]
    moves = [np.diff(array, axis=0, prepend=array[:1]) > 0 for array in contents]
    for of_array in moves:
        of_array[data.offsets[:-1]] = False  # the row before is of another recording
    edges = pairwise(data.offsets.tolist())
    return [(_digest(moves, first, last), _digest(contents, first, last)) for first, last in edges]


def _digest(arrays: Sequence[np.ndarray], first: int, last: int) -> bytes:
    """A number that stands for some rows of arrays."""
    return blake2b(b"".join(array[first:last].tobytes() for array in arrays)).digest()
