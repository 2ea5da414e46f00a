"""Whether a nonlinear learner would pay: a few trees on the errors of a linear filter, on held-out recordings."""

from typing import Any

import numpy as np

from psimlearn.choose.splits import Split
from psimlearn.filter import Filter, Linear, Stack
from psimlearn.filter.regressors import Regressor
from psimlearn.learners.trees import RidgeAndTrees, stacked_trees
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.recordings.windows import lag_places
from psimlearn.shapes import Float
from psimlearn.train.examples import examples
from psimlearn.train.partial import training_rows

__all__ = ["advice", "nonlinear_gains"]

FEWEST_ROWS = 1000
"""Rows to learn from below which nothing is said: trees learn little from few rows, and fits are quick."""
SAMPLE, HELD = 2000, 1000
"""The most examples that the trees learn from, and by which they are scored."""
FEW = RidgeAndTrees(n_trees=10, min_leaf=5, max_inputs=20, seed=0)
PAYS = 0.05
"""The share of the held-out error that the trees must take off, at some horizon, to be worth a word."""


def nonlinear_gains(filter: Filter, split: Split) -> list[float] | None:
    """The share of held-out error by horizon that a few trees take off; None if it cannot be told.

    The trees correct predictions only, and are not fed back. A longer search of `learner="auto"` may gain more, or less
    where a filter has to run in closed loop.

    Args:
        filter: a linear filter, learnt from the training recordings of the split.
        split: recordings that the trees learn from, and recordings that score them.
    """
    (regressor, *others), n = filter.regressors, len(filter.scaling.mean)
    if others or not isinstance(regressor, Linear) or not isinstance(filter.features, Stack):
        return None
    if len(split.train.values) < FEWEST_ROWS:
        return None
    known, errors = _errors(filter, regressor, split.train, SAMPLE)
    held, left = _errors(filter, regressor, split.held, HELD)
    size = np.sqrt(np.mean(errors**2, axis=0))
    size = np.where(size > 0, size, 1.0)
    corrected = left - stacked_trees(FEW.grown(known, errors / size).estimators_)(held) * size
    before, after = (np.mean(e**2, axis=0).reshape(-1, n).sum(axis=1) for e in (left, corrected))
    return [float(gain) for gain in 1 - after / np.maximum(before, 1e-300)]


def advice(gains: list[float] | None) -> list[str]:
    """A note if the trees gain at some horizon; none otherwise."""
    if gains is None or not max(gains) >= PAYS:
        return []
    changes = ", ".join(f"{-100 * gain:+.0f}" for gain in gains)
    steps = "1 step" if len(gains) == 1 else f"1 to {len(gains)} steps"
    note = (
        "a nonlinear learner would pay: a few trees, learnt from a sample of the rows, change the held-out error "
        f'{steps} ahead by {changes} %; try learner="auto"'
    )
    return [note]


def _errors(
    filter: Filter, regressor: Regressor, data: Trajectories, most: int
) -> tuple[Float[np.ndarray, "b k"], Float[np.ndarray, "b d"]]:
    """All that is known before some rows, which is z and the rows of two windows, and the errors in closed loop."""
    training = training_rows(filter, data)
    z, y, *_ = examples(filter, training)
    some: Any = slice(None) if len(z) <= most else np.linspace(0, len(z) - 1, most).astype(int)
    places = lag_places(training.table.layout.plan, 2 * filter.features.window)[training.rows][some]
    z, y = z[some], y[some]
    return np.concatenate([z, training.x[places].reshape(len(z), -1)], axis=1), y - regressor(z)
