"""Rows beyond the window: a filter advanced by its own predictions, by the textbook or, if it can be folded, faster."""

from collections.abc import Iterator

import numpy as np

from psimlearn.filter.features import Stack
from psimlearn.filter.folded import fold, foldable, folded_map
from psimlearn.filter.innovations import older_rows
from psimlearn.filter.learnt import Learnt
from psimlearn.filter.step import State, expected, inputs
from psimlearn.filter.stepping import step
from psimlearn.shapes import Float

__all__ = ["advanced", "onward", "runs_onward"]


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
    known[:, first + n :] = older_rows(filter, state, x).reshape(b, -1)
    fed = inputs(filter.recursion, state.belief)
    for j in range(steps):
        out = map.respond(fed, map.drive(known[:, first : first + lags * n]))
        rows[:, j] = out[:, r + n :]
        first -= n
        if j < steps - 1:
            known[:, first : first + n] = out[:, r : r + n]
            fed = boxed(np.ascontiguousarray(out[:, :r]))
    return rows


def advanced(
    filter: Learnt, state: State, steps: int, inputs: Float[np.ndarray, "b steps p"] | None
) -> Iterator[Float[np.ndarray, "b d"]]:
    """Yield the beliefs after one, two, .. steps, each of which takes the expected observation as observed."""
    for h in range(steps):
        u, next_u = (None, None) if inputs is None else inputs[:, h : h + 2].swapaxes(0, 1)
        state = step(filter, state, filter.scaling.undo(expected(filter.recursion, state.belief)), u, next_u)
        yield state.belief
