"""All beliefs of whole recordings, by the quickest runner that can give them."""

import numpy as np

from psimlearn.filter.innovations import opens
from psimlearn.filter.learnt import Learnt
from psimlearn.filter.rollout import rolled
from psimlearn.filter.step import State, expected
from psimlearn.filter.straight import straight
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.recordings.windows import last_rows, late_at_end, unseen_at_end
from psimlearn.shapes import Float

__all__ = ["blocks_before", "run"]


def blocks_before(filter: Learnt, trajectories: Trajectories, horizon: int) -> Float[np.ndarray, "rows horizon n"]:
    """The first blocks of stacked beliefs before each row, in the order and units of the recordings."""
    n = len(filter.scaling.mean)
    passed = straight(filter, trajectories, horizon * n)
    if passed is None:
        return rolled(filter, trajectories).blocks(horizon)
    filter.scaling.revert(passed.before.reshape(-1, n))
    return passed.before.reshape(-1, horizon, n)


def run(
    filter: Learnt, trajectories: Trajectories, next_inputs: Float[np.ndarray, "m p"] | None = None
) -> tuple[Float[np.ndarray, "rows d"], State]:
    """The belief before every row, in the order of the recordings, and the state after each trajectory.

    Args:
        filter: a learnt filter.
        trajectories: recordings.
        next_inputs: the input that follows each trajectory, which a filter with feed-through needs to know; the last
            input is held if it is not given.
    """
    acts_next = filter.feedthrough and next_inputs is not None and trajectories.inputs is not None
    guessed = opens(filter) and trajectories.lengths.min() < filter.lags  # lags before the first row are in the state
    passed = None if acts_next or guessed else straight(filter, trajectories, len(filter.initial))
    values, offsets = trajectories.values, trajectories.offsets
    if passed is not None:
        recent, never = filter.scaling(values[last_rows(offsets, filter.lags)]), np.zeros(len(offsets) - 1, np.int64)
        unrest = _unrest_at_ends(filter, trajectories, passed.before)
        return passed.before, State(passed.ends, recent, trajectories.lengths, never, never, None, unrest)
    rollout = rolled(filter, trajectories)
    plan = rollout.layout.plan
    ends = plan.last()
    unseen, late = unseen_at_end(values, offsets), late_at_end(values, offsets)
    belief, recent, unrest = rollout.left_by(ends), rollout.observed(ends), rollout.unrest_left_by(ends)
    state = State(belief, recent, plan.length[ends], unseen, late, rollout.ends, unrest)
    if acts_next and next_inputs is not None and trajectories.inputs is not None:
        last = trajectories.inputs[trajectories.offsets[1:] - 1]
        state = state._replace(belief=rollout.given_inputs(ends, last, next_inputs))
    return rollout.packed_held(), state


def _unrest_at_ends(
    filter: Learnt, trajectories: Trajectories, before: Float[np.ndarray, "rows d"]
) -> Float[np.ndarray, "m n"] | None:
    """The unrest after each recording, given the beliefs before all rows; None if none is kept."""
    if filter.local is None:
        return None
    x, mean, offsets = filter.scaling(trajectories.values), expected(filter.recursion, before), trajectories.offsets
    with np.errstate(over="ignore", invalid="ignore"):  # a filter that diverged
        unrest, last = filter.local.unrest_before(x - mean, offsets), offsets[1:] - 1
    return filter.unrest_after(unrest[last], x[last], mean[last])
