"""Stored rows as numbers again; what a disk has damaged counts as not observed, and is named."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from psimlearn.errors import DataError
from psimlearn.recordings.steps import MOST_MISSED
from psimlearn.serve.courses import BEGINS
from psimlearn.serve.numbers import loads
from psimlearn.serve.rowtimes import RowTimes
from psimlearn.serve.served import Served
from psimlearn.serve.snapshot import times_from
from psimlearn.serve.store import Chunk
from psimlearn.shapes import Float, Int

__all__ = ["Stored", "stored"]


class Stored(NamedTuple):
    """The rows of a chunk with the answers that they had."""

    numbers: Float[np.ndarray, "k columns"]
    """Channels, then inputs; all NaN for rows that were damaged."""
    arrivals: Int[np.ndarray, " k"]
    """How many rows were missed before each row, or `BEGINS`."""
    shown: Float[np.ndarray, "k shown"]
    """Log-likelihoods, expected observations and deviations."""
    alarm: Int[np.ndarray, " k"]
    written: Sequence[Any]
    """The times of the rows as they were written; None without a time."""
    times: RowTimes | None
    """The times of the last rows, after these rows."""
    damaged: Sequence[str]
    """The parts that cannot be read."""


def stored(chunk: Chunk, served: Served) -> Stored:
    """Read a chunk."""
    n, k, damaged = len(served.channels), chunk.n, list[str]()
    numbers = _array(chunk.numbers, np.float64, k * (n + served.n_inputs))
    if numbers is None or np.isinf(numbers).any() or np.isnan(numbers.reshape(k, -1)[:, n:]).any():
        numbers = np.full(k * (n + served.n_inputs), np.nan)
        damaged.append("numbers")
    arrivals = np.zeros(k, dtype=np.int64) if chunk.arrivals is None else _array(chunk.arrivals, np.int64, k)
    if arrivals is None or arrivals.min() < BEGINS or arrivals.max() > MOST_MISSED:
        arrivals = np.zeros(k, dtype=np.int64)
        damaged.append("arrivals")
    answers = chunk.answers if isinstance(chunk.answers, bytes) else b""
    shown, alarm = _array(answers[:-k], np.float64, k * (1 + 2 * n)), _array(answers[-k:], np.uint8, k)
    if shown is None or alarm is None:
        shown, alarm = np.full(k * (1 + 2 * n), np.nan), np.zeros(k, dtype=np.uint8)
        damaged.append("answers")
    written = [None] * k if chunk.written is None else _list(chunk.written, k)
    try:
        times = times_from(chunk.times, served.wanted.step)
    except DataError:
        times = None
        damaged.append("times")
    if written is None:
        damaged.append("written times")
    shapes = numbers.reshape(k, -1), arrivals, shown.reshape(k, -1), alarm.astype(np.int64)
    return Stored(*shapes, written or [None] * k, times, damaged)


def _array(data: Any, kind: Any, size: int) -> Any:
    """The numbers of some bytes; None for bytes that are not these numbers."""
    if not isinstance(data, bytes) or len(data) != size * np.dtype(kind).itemsize:
        return None
    return np.frombuffer(data, dtype=kind)


def _list(text: str, size: int) -> list[Any] | None:
    """The list that a text holds; None for other texts."""
    try:
        found = loads(text)
    except ValueError:
        return None
    return found if isinstance(found, list) and len(found) == size else None
