"""Long recordings in parallel in time: chunks of a recording are rolled at once, each from a guess of its first state.

A filter forgets, so a wrong guess is corrected soon. Chunks are rolled again from the states at which the chunks before
them ended, until each begins where the one before it ends; a second sweep stops where it meets the states of the first.
In a linear filter inside its box, a chunk of L rows carries a correction e of its first state to its end as F^L e. So
the first states of all chunks are known after one sweep, however slowly the filter forgets.

The result is that of the sequential roll up to rounding. Where chunks do not agree after a few sweeps, as in a filter
that does not forget, the caller rolls one row after the other.
"""

from math import isqrt

import numpy as np

from psimlearn.filter.folded import Folded
from psimlearn.filter.regressors import Linear
from psimlearn.recordings.schedule import Chunks, Schedule, in_chunks
from psimlearn.shapes import Float

__all__ = ["MEETS", "at_once", "chunk_length", "cut", "roll_in_chunks", "same"]

SHORTEST, FEWEST = 128, 4
"""The least rows of a chunk, and the least chunks of the longest recording for which chunks are worth their sweeps."""
MOST_SWEEPS = 8
AGREES, MEETS = 1e-12, 1e-13
"""Up to these differences chunks begin where others end, and a sweep has met the states of the sweep before."""
EVERY = 8
"""After so many rows a sweep looks whether it has met the states of the sweep before."""


def chunk_length(plan: Schedule, shortest: int = SHORTEST) -> int | None:
    """The rows of a chunk, if recordings are few and long enough to be cut; about as many as run at once."""
    return cut(len(plan.starts) - 1, len(plan.order), shortest)


def cut(longest: int, rows: int, shortest: int = SHORTEST) -> int | None:
    """`chunk_length`, given the rows of the longest recording and of all."""
    length = max(shortest, isqrt(rows))
    return length if longest >= FEWEST * length else None


def at_once(plan: Schedule) -> int:
    """About how many rows run at once: recordings, or chunks of them."""
    length = chunk_length(plan)
    return int(plan.starts[1]) if length is None else len(plan.order) // length


def roll_in_chunks(machine: Folded, z: Float[np.ndarray, "rows p"], plan: Schedule, length: int) -> bool:
    """Fill the columns of z that are fed back; return whether chunks agree, without which z is of no use.

    Args:
        machine: a folded filter.
        z: the inputs of its steps, of which all other columns are filled, and the feedback of first rows.
        plan: the schedule of the rows.
        length: the rows of a chunk.
    """
    chunks = in_chunks(plan, length)
    begin, r = np.tile(machine.first, (len(chunks.time), 1)), len(machine.first)
    first_rows = plan.block(0)
    begin[chunks.time == 0] = z[first_rows, :r][chunks.stream[chunks.time == 0]]
    ends = _sweep(machine, z, chunks, begin)
    for _ in range(MOST_SWEEPS):
        first = _first_states(machine, chunks, begin, ends)
        if not np.isfinite(first).all():
            return False
        if same(first, begin, AGREES):
            return True
        begin, ends = first, _sweep(machine, z, chunks, first, ends)
    return False


def _sweep(
    machine: Folded,
    z: Float[np.ndarray, "rows p"],
    chunks: Chunks,
    begin: Float[np.ndarray, "chunks r"],
    ends: Float[np.ndarray, "whole r"] | None = None,
) -> Float[np.ndarray, "whole r"]:
    """Roll every chunk from its first state, and return the states after all chunks of full length.

    With the `ends` of a sweep before, it stops once it has met the states of that sweep.
    """
    r, fed, boxed = begin.shape[1], begin, machine.boxes(len(begin))
    for j, now in enumerate(chunks.rows):
        here = z[now]  # a view of the rows of one recording, and a copy of those of many
        fed = fed[: len(here)]
        if ends is not None and j % EVERY == 0 and same(fed, here[:, :r], MEETS):
            return ends
        z[now, :r] = here[:, :r] = fed
        fed = boxed(machine.feed(here))
    return fed


def _first_states(
    machine: Folded, chunks: Chunks, begin: Float[np.ndarray, "chunks r"], ends: Float[np.ndarray, "whole r"]
) -> Float[np.ndarray, "chunks r"]:
    """The states at which chunks should begin: where the chunk before ends, once its own first state is corrected."""
    first, r = begin.copy(), begin.shape[1]
    first[chunks.later] = ends[chunks.before]
    if not isinstance(machine.feed, Linear):
        return first
    carried = np.linalg.matrix_power(machine.feed.weights[:r], chunks.length)
    if np.abs(carried).max() < MEETS:
        return first
    for later, before in zip(chunks.later.tolist(), chunks.before.tolist(), strict=True):
        first[later] += (first[before] - begin[before]) @ carried
    return machine.boxes(len(first))(first)


def same(a: Float[np.ndarray, "b r"], b: Float[np.ndarray, "b r"], share: float) -> bool:
    """Whether states are the same up to a share of their size, or of one standard deviation if that is more."""
    apart = np.abs(a - b)
    return bool((apart <= share).all() or (apart <= share * np.maximum(np.abs(b), 1.0)).all())
