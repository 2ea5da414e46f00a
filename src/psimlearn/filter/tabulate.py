"""What a filter says at every row: what it expected there, how likely the row was, and what it expects next."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from psimlearn.filter.filter import Filter, State
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.recordings.windows import unseen_before

__all__ = ["Moment", "answer_names", "answers", "answers_to"]


class Moment(NamedTuple):
    """Where b streams stand between two rows."""

    state: State
    unseen: Int[np.ndarray, " b"]
    """How many of the last rows had nothing observed."""


def answer_names(channels: Sequence[str], steps: int) -> list[str]:
    """The columns of `answers`.

    >>> answer_names(["x"], 1)
    ['log_likelihood', 'x.expected', 'x.std', 'x.ahead1', 'x.ahead1.std']
    """
    names = ["log_likelihood", *(f"{c}.expected" for c in channels), *(f"{c}.std" for c in channels)]
    for j in range(1, steps + 1):
        names += [*(f"{c}.ahead{j}" for c in channels), *(f"{c}.ahead{j}.std" for c in channels)]
    return names


def answers(
    filter: Filter, before: Moment, x: Float[np.ndarray, "b n"], after: Moment, steps: int
) -> Float[np.ndarray, "b columns"]:
    """For one row of each stream, given where the stream stood before and stands after it.

    NaN stands for deviations where the filter was not calibrated.
    """
    expected, std = _foretold(filter, before, 1)
    ahead, ahead_std = _foretold(filter, after, steps)
    nats = filter.surprise(before.state.belief, filter.scaling(x), before.unseen) + 0.0  # no -0
    to_come = np.stack([ahead, ahead_std], axis=2).reshape(len(x), -1)
    return np.concatenate([nats[:, None], expected[:, 0], std[:, 0], to_come], axis=1)


def _foretold(
    filter: Filter, moment: Moment, steps: int
) -> tuple[Float[np.ndarray, "b steps n"], Float[np.ndarray, "b steps n"]]:
    mean = filter.ahead(moment.state, steps)
    if filter.calibration is None:
        return mean, np.full_like(mean, np.nan)
    return mean, filter.deviation(moment.state, steps, unseen=moment.unseen)


def answers_to(filter: Filter, data: Trajectories, steps: int) -> Float[np.ndarray, "rows columns"]:
    """For every row of whole recordings."""
    rollout = filter.roll(filter.table(data))
    (plan, x, *_), places = rollout.layout, rollout.layout.places
    unseen = unseen_before(x, plan)
    before = Moment(State(filter.held(rollout), rollout.x[places[plan.before()]], plan.time), unseen)
    still = np.where(np.isnan(x).all(axis=1), unseen + 1, 0)
    after = Moment(State(filter.beliefs(rollout), rollout.x[places], plan.time + 1), still)
    return plan.packed(answers(filter, before, data.values[plan.order], after, steps))
