"""Training rows, laid out once, and the examples that a rollout over them yields."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from psimlearn.filter import Features, Filter, Stack
from psimlearn.filter.layout import Layout
from psimlearn.filter.rollout import Table, roll
from psimlearn.filter.step import prior
from psimlearn.recordings.schedule import RowIndex
from psimlearn.recordings.windows import futures

__all__ = ["Examples", "TrainingRows", "examples", "filled_features"]


class TrainingRows(NamedTuple):
    """Training recordings, the rows of them that make examples, and the belief that should follow each of these."""

    table: Table
    rows: RowIndex
    target_rows: RowIndex
    x: Float[np.ndarray, "rows n"]
    """Observations; missing ones were filled in before there was a filter."""
    y: Float[np.ndarray, "examples d"]
    """phi(f_{t+1}) less the prior, from those observations."""
    low: Float[np.ndarray, " r"]
    high: Float[np.ndarray, " r"]
    """The guard: beliefs that feed back values beyond these bounds are not learnt from."""
    same: tuple[int, Any] | None
    """A summary of these rows with other beliefs in the first columns, from which a learner may go on."""


class Examples(NamedTuple):
    """The examples of one rollout."""

    z: Float[np.ndarray, "examples p"]
    y: Float[np.ndarray, "examples d"]
    same: tuple[int, Any] | None
    """For `Learner.summarise`: `TrainingRows.same`, unless rows or targets have changed."""
    dropped: int
    """How many rows were left out because their belief was non-finite or beyond the guard."""


def examples(filter: Filter, training: TrainingRows, apart: bool = False) -> Examples:
    """Roll a filter over the training rows: the inputs that it meets, and the outputs that it should give.

    The arrays are views of the table's work space wherever possible: use them before the next rollout.

    Args:
        filter: the filter to roll out.
        training: the recordings.
        apart: leave outputs that were not observed NaN, for a learner that takes outputs apart; without it the filter
            fills them in.
    """
    rollout = roll(filter, training.table)
    z = rollout.z[training.rows]
    y, same = training.y, training.same
    if rollout.layout.gappy:
        layout, features = rollout.layout, filter.features
        observed = layout.x if apart else rollout.x
        phi = filled_features(features, layout, observed, rollout.held, apart)
        y, same = phi[training.target_rows] - prior(filter.recursion, rollout.x[training.rows]), None
    if filter.feedback.within(training.low, training.high):
        return Examples(z, y, same, 0)
    fed = z[:, : len(training.low)]
    kept = ((fed >= training.low) & (fed <= training.high)).all(axis=1)  # NaN is neither
    if kept.all():
        return Examples(z, y, same, 0)
    return Examples(z[kept], y[kept], None, len(z) - int(kept.sum()))


def filled_features(
    features: Features,
    layout: Layout,
    x: Float[np.ndarray, "rows n"],
    beliefs: Float[np.ndarray, "rows d"],
    apart: bool = False,
) -> Float[np.ndarray, "rows d"]:
    """phi(f_t) at every row, from observations x in which missing entries were filled in.

    A filled-in observation is an expectation, and so are linear features of it. Other features of it, such as squares,
    would come out too small: an entry of phi that depends on a missing observation is taken from the belief. With
    `apart` nothing was filled in, and such entries stay NaN.
    """
    phi = features(futures(x, layout.plan, features.window))
    if apart or not layout.gappy or isinstance(features, Stack):
        return phi
    missing = np.isnan(features(futures(layout.x, layout.plan, features.window)))
    return np.where(missing, beliefs, phi)
