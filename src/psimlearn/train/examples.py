"""Lessons: training rows laid out once, and the examples that a rollout over them yields."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from psimlearn.filter.features import Features, Stack
from psimlearn.filter.filter import Filter
from psimlearn.filter.layout import Layout
from psimlearn.filter.rollout import Rollout, Table, roll
from psimlearn.filter.step import prior
from psimlearn.recordings.schedule import RowIndex
from psimlearn.recordings.windows import futures

__all__ = ["Examples", "Lessons", "examples", "filled_features"]


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
    same: tuple[int, Any] | None
    """A summary of these rows with other beliefs in the first columns, from which a learner may go on."""


class Examples(NamedTuple):
    """What one rollout teaches."""

    z: Float[np.ndarray, "examples p"]
    y: Float[np.ndarray, "examples d"]
    same: tuple[int, Any] | None
    """What `Learner.summarise` may use: `Lessons.same`, unless rows or targets have changed."""
    dropped: int
    """Rows left out because their belief was non-finite or beyond the guard."""


def examples(filter: Filter, lessons: Lessons) -> Examples:
    """Roll a filter over the training rows: the inputs it meets, the targets it should have given.

    The arrays are views of the table's work space wherever possible: use them before the next rollout.
    """
    rollout = roll(filter, lessons.table)
    z = rollout.z[lessons.rows]
    y, same = (_targets(filter, rollout, lessons), None) if rollout.layout.gappy else (lessons.y, lessons.same)
    if filter.feedback.within(lessons.low, lessons.high):
        return Examples(z, y, same, 0)
    fed = z[:, : len(lessons.low)]
    kept = ((fed >= lessons.low) & (fed <= lessons.high)).all(axis=1)  # NaN is neither
    if kept.all():
        return Examples(z, y, same, 0)
    return Examples(z[kept], y[kept], None, len(z) - int(kept.sum()))


def _targets(filter: Filter, rollout: Rollout, lessons: Lessons) -> Float[np.ndarray, "examples d"]:
    """phi(f_{t+1}) less the prior, with missing observations filled in by the filter itself."""
    phi = filled_features(filter.features, rollout.layout, rollout.x, rollout.held)
    y: np.ndarray = phi[lessons.target_rows] - prior(filter.recursion, rollout.x[lessons.rows])
    return y


def filled_features(
    features: Features, layout: Layout, x: Float[np.ndarray, "rows n"], beliefs: Float[np.ndarray, "rows d"]
) -> Float[np.ndarray, "rows d"]:
    """phi(f_t) at every row, from observations x in which what was missing has been filled in.

    Filled-in observations are expectations, and so are linear features of them. Other features, such as squares,
    would come out too small: where they depend on a missing observation, the belief itself stands in.
    """
    phi = features(futures(x, layout.plan, features.window))
    if not layout.gappy or isinstance(features, Stack):
        return phi
    missing = np.isnan(features(futures(layout.x, layout.plan, features.window)))
    return np.where(missing, beliefs, phi)
