"""Gram sums of rows beside their neighbours in time, without the products that lags and futures have in common.

The vectors (x_{t+a}, .., x_{t+b}) of all rows t repeat every row b - a + 1 times. The block of their Gram sums that
belongs to the shifts i and j is, up to a few rows at both ends of each trajectory, the sum of x_t x_{t+j-i}': one
product for each distance j - i serves all blocks on a diagonal, and all vectors of other shifts as well.
"""

from typing import NamedTuple

import numpy as np

from psimlearn.recordings.schedule import Schedule
from psimlearn.shapes import Bool, Float, Int

__all__ = ["Apart", "Shifts", "apart", "reaching", "shifted_sums"]


class Apart(NamedTuple):
    """Scheduled rows without gaps, and the sums of their products by distance."""

    x: Float[np.ndarray, "rows n"]
    plan: Schedule
    products: tuple[Float[np.ndarray, "n n"], ...]
    """The sum of x_t x_{t+d}' over all t for which both lie in one trajectory, for the distances d = 0, 1, .."""

    def at(
        self, time: Int[np.ndarray, " some"], stream: Int[np.ndarray, " some"], repeated: bool
    ) -> Float[np.ndarray, "some n"]:
        """x at some times of trajectories; before the beginning the first row `repeated`, or zero."""
        rows: np.ndarray = self.x.take(self.plan.starts.take(np.maximum(time, 0)) + stream, axis=0)
        if not repeated:
            rows[time < 0] = 0.0
        return rows


class Shifts(NamedTuple):
    """Vectors (x_{t+first}, .., x_{t+last}) at the rows t = `begin`, .., T - `ending` of each trajectory of T rows."""

    first: int
    last: int
    begin: int
    ending: int
    repeated: bool = False
    """What stands before the beginning: the first row if true, otherwise zero."""


def apart(x: Float[np.ndarray, "rows n"], plan: Schedule, reach: int) -> Apart:
    """The products of scheduled rows up to a distance."""
    return reaching(Apart(x, plan, ()), reach)


def reaching(known: Apart, reach: int) -> Apart:
    """The products up to a distance that may be larger."""
    x, plan = known.x, known.plan
    new = [_product(x, plan, distance) for distance in range(len(known.products), reach + 1)]
    return known._replace(products=(*known.products, *new))


def _product(x: Float[np.ndarray, "rows n"], plan: Schedule, distance: int) -> Float[np.ndarray, "n n"]:
    if distance == 0:
        return np.asarray(x.T @ x)
    rows = np.flatnonzero(plan.reaches(distance))
    now = x[: len(rows)] if len(rows) and rows[-1] == len(rows) - 1 else x.take(rows, axis=0)
    return np.asarray(now.T @ x.take(plan.place(distance)[rows], axis=0))


def shifted_sums(known: Apart, shifts: Shifts) -> tuple[int, Float[np.ndarray, " v"], Float[np.ndarray, "v v"]]:
    """The number of vectors, their sum and their Gram sums.

    Every trajectory must have one vector at least, and no vector may reach beyond its end.

    >>> from psimlearn.recordings.schedule import schedule
    >>> x = np.arange(1.0, 5.0)[:, None]
    >>> shifted_sums(apart(x, schedule(np.array([0, 4])), 1), Shifts(0, 1, 0, 2))[2]  # of (1, 2), (2, 3), (3, 4)
    array([[14., 20.],
           [20., 29.]])
    """
    first, last, begin, ending, repeated = shifts
    length = known.plan.length[known.plan.block(0)]
    stream, count = np.arange(len(length)), last - first + 1
    n = known.x.shape[1]
    span = np.tile(np.arange(first, last), len(length))
    each = np.repeat(stream, count - 1)
    left, joined = (
        known.at(span + time[each], each, repeated).reshape(len(length), -1)
        for time in (np.full(len(length), begin), length - ending + 1)
    )
    changes = (joined.T @ joined - left.T @ left).reshape(count - 1, n, count - 1, n)
    gram = np.empty((count, n, count, n))
    total, gram[0] = _first_row(known, shifts, length)
    for i in range(count - 1):  # from one block to the next on its diagonal, one row leaves and one joins
        gram[i + 1, :, i + 1 :] = gram[i, :, i:-1] + changes[i, :, i:]
    for i in range(count):
        gram[i + 1 :, :, i] = gram[i, :, i + 1 :].transpose(1, 2, 0)
    steps = (joined.sum(axis=0) - left.sum(axis=0)).reshape(count - 1, n)
    sums = np.concatenate([total[None], total + np.cumsum(steps, axis=0)])
    many = int((length - ending - begin + 1).sum())
    return many, sums.ravel(), gram.reshape(count * n, count * n)


def _first_row(
    known: Apart, shifts: Shifts, length: Int[np.ndarray, " m"]
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, "n count n"]]:
    """The sum of x_{t+first}, and its products with x_{t+first}, .., x_{t+last}: all products, mended at both ends."""
    first, last, begin, ending, repeated = shifts
    early = begin + first  # the time of the first row that counts, before the beginning if it is negative
    late = length - ending + first
    time, stream = _ends(length, early, int(np.max(length - 1 - late)))
    inside = (time >= early) & (time <= late[stream])
    sign = inside.astype(float) - (time >= 0)  # zero where all products are right
    rows = known.at(time, stream, repeated) * sign[:, None]
    total = known.x.sum(axis=0) + rows.sum(axis=0)
    out = np.empty((known.x.shape[1], last - first + 1, known.x.shape[1]))
    for d in range(last - first + 1):
        there: Bool[np.ndarray, " some"] = (sign != 0) & (time + d < length[stream])
        out[:, d] = known.products[d] + rows[there].T @ known.at(time[there] + d, stream[there], repeated)
    return total, out


def _ends(
    length: Int[np.ndarray, " m"], early: int, most: int
) -> tuple[Int[np.ndarray, " some"], Int[np.ndarray, " some"]]:
    """Times before `early` or 0, and the last `most` of each trajectory, each once, with their trajectories."""
    heads = np.arange(min(early, 0), max(early, 0))
    tails = length[:, None] - 1 - np.arange(most)
    stream = np.arange(len(length))
    kept = tails >= max(early, 0)
    time = np.concatenate([np.tile(heads, len(length)), tails[kept]])
    of_tails = np.broadcast_to(stream[:, None], tails.shape)[kept]
    inside = time < np.concatenate([np.repeat(length, len(heads)), length[of_tails]])
    return time[inside], np.concatenate([np.repeat(stream, len(heads)), of_tails])[inside]
