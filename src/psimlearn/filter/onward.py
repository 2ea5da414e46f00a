"""Rows beyond the window: a foldable filter advanced by its own predictions, of which no whole belief is computed."""

import numpy as np

from psimlearn.filter.features import Stack
from psimlearn.filter.folded import fold, foldable, folded_map
from psimlearn.filter.learnt import Learnt
from psimlearn.filter.step import State
from psimlearn.shapes import Float

__all__ = ["onward", "runs_onward"]


def runs_onward(filter: Learnt, state: State) -> bool:
    """Tell whether `onward` serves this filter in this state; a state that diverged is left to the textbook."""
    plain = isinstance(filter.features, Stack) and filter.input_scaling is None and foldable(filter)
    return plain and bool(np.isfinite(state.belief).all())


def onward(filter: Learnt, state: State, steps: int) -> Float[np.ndarray, "b steps n"]:
    """The last block of the belief after one, two, .. steps, each of which takes the expected row as observed.

    A step computes the feedback, the next expected row and the last block; other blocks of the belief are not needed.
    """
    feedback, n, lags, b = filter.feedback, len(filter.scaling.mean), filter.lags, len(state.belief)
    r = len(feedback.mean)

    def parts(m: np.ndarray) -> np.ndarray:
        return np.concatenate([feedback.linear(m), m[:, :n], m[:, -n:]], axis=1)

    map = folded_map(filter, parts, np.concatenate([feedback.shift, np.zeros(2 * n)]))
    boxed = fold(filter).boxes(b)
    rows, known = np.empty((b, steps, n)), np.empty((b, (steps + lags - 1) * n))  # the newest row stands first
    first = (steps - 1) * n
    x = known[:, first : first + n]
    x[...] = state.belief[:, :n]
    older = np.where((state.clock == 0)[:, None, None], x[:, None], state.recent[:, :-1])  # as in the textbook
    known[:, first + n :] = older.reshape(b, -1)
    fed = feedback(state.belief)
    for j in range(steps):
        out = map.respond(fed, map.drive(known[:, first : first + lags * n]))
        rows[:, j] = out[:, r + n :]
        first -= n
        if j < steps - 1:
            known[:, first : first + n] = out[:, r : r + n]
            fed = boxed(np.ascontiguousarray(out[:, :r]))
    return rows
