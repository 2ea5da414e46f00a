"""Lessons: training rows laid out once, and the examples that a rollout over them yields."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from psimlearn.filter import Filter, Table
from psimlearn.windows import RowIndex, futures

__all__ = ["Examples", "Lessons", "examples"]


class Lessons(NamedTuple):
    """Training trajectories, which of their rows make examples, and what a filter should say there."""

    table: Table
    rows: RowIndex
    target_rows: RowIndex
    x: Float[np.ndarray, "rows n"]
    """Observations, with missing ones filled in before there is a filter."""
    y: Float[np.ndarray, "examples d"]
    """phi(f_{t+1}) less the prior, from those observations."""
    low: Float[np.ndarray, " r"]
    high: Float[np.ndarray, " r"]
    """The guard: beliefs that feed back more than this are not learnt from."""


class Examples(NamedTuple):
    """What one rollout teaches."""

    z: Float[np.ndarray, "examples p"]
    y: Float[np.ndarray, "examples d"]
    dropped: int
    """Rows left out because their belief was non-finite or beyond the guard."""


def examples(filter: Filter, lessons: Lessons) -> Examples:
    """Roll a filter over the training rows: the inputs it meets, the targets it should have given.

    The arrays are views of the table's work space wherever possible: use them before the next rollout.
    """
    rollout = filter.roll(lessons.table)
    z = rollout.z[lessons.rows]
    y = _targets(filter, rollout.x, lessons) if lessons.table.layout.gappy else lessons.y
    if filter.feedback.within(lessons.low, lessons.high):
        return Examples(z, y, 0)
    fed = z[:, : len(lessons.low)]
    kept = ((fed >= lessons.low) & (fed <= lessons.high)).all(axis=1)  # NaN is neither
    return Examples(z[kept], y[kept], len(z) - int(kept.sum()))


def _targets(filter: Filter, x: Float[np.ndarray, "rows n"], lessons: Lessons) -> Float[np.ndarray, "examples d"]:
    """phi(f_{t+1}) less the prior, with missing observations filled in by the filter itself."""
    phi = filter.features(futures(x, lessons.table.layout.plan, filter.features.window)[lessons.target_rows])
    y: np.ndarray = phi - filter.prior(x[lessons.rows])
    return y
