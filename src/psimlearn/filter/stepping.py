"""One row of every stream, taken by the textbook step; with a covariance where entries are or were missing."""

import numpy as np

from psimlearn.filter.innovations import innovations, memory, opening_rows, treats_exactly
from psimlearn.filter.learnt import Learnt
from psimlearn.filter.step import State, expected, following, take
from psimlearn.shapes import Float

__all__ = ["step"]


def step(
    filter: Learnt,
    state: State,
    x: Float[np.ndarray, "b n"],
    u: Float[np.ndarray, "b p"] | None = None,
    next_u: Float[np.ndarray, "b p"] | None = None,
) -> State:
    """Take one observation of every stream; NaN where a channel, or the whole row, did not arrive.

    Args:
        filter: a learnt filter.
        state: the state of b streams.
        x: observations, in the units of the recordings.
        u: inputs that acted at this row, if the filter was learnt with inputs.
        next_u: inputs that act at the next row, for a filter with feed-through; held at u if not given.
    """
    x, u = filter.scaling(x), filter.controls(u, next_u, len(x))
    after = _taken(filter, state, x, u)
    if filter.local is None or state.unrest is None:
        return after
    return after._replace(unrest=filter.unrest_after(state.unrest, x, expected(filter.recursion, state.belief)))


def _taken(filter: Learnt, state: State, x: Float[np.ndarray, "b n"], u: Float[np.ndarray, "b q"]) -> State:
    """The state after a standardised row, but for its unrest."""
    young = bool((state.clock < opening_rows(filter)).any())
    if treats_exactly(filter) and (young or state.doubt is not None or np.isnan(x).any()):
        return _step_in_doubt(filter, state, x, u)
    if len(filter.regressors) == 1:
        return take(filter.recursion, state, x, u, filter.fill)
    state = state._replace(unseen=np.broadcast_to(state.unseen, len(x)), late=np.broadcast_to(state.late, len(x)))
    after = [np.empty_like(part) for part in state[:5]]
    for t in np.unique(state.clock):  # streams differ in age, and each age has a regressor
        now = state.clock == t
        taken = take(filter.recursion, state.at(now), x[now], u[now], filter.fill, int(t))
        for part, values in zip(after, taken[:5], strict=True):
            part[now] = values
    return State(*after)


def _step_in_doubt(filter: Learnt, state: State, x: Float[np.ndarray, "b n"], u: Float[np.ndarray, "b q"]) -> State:
    """Take a row with its gaps: seen entries correct what was in doubt, missing ones leave doubt."""
    model = innovations(filter)
    taken = model.take(memory(filter, model, state), state.doubt, x, u, state.clock)
    first = len(filter.feedback.mean)
    recent = taken.z[:, first : first + x.shape[1] * filter.lags].reshape(len(x), filter.lags, -1)
    unseen, late = state.counted(x)
    belief = following(filter.recursion, taken.z, taken.x)
    return State(belief, recent, state.clock + 1, unseen, late, taken.doubt)
