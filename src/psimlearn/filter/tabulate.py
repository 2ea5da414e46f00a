"""A table of answers: for every row the expected observation, the log-likelihood of the row, and predictions."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from psimlearn.filter.filter import Filter
from psimlearn.filter.likelihood import log_likelihood
from psimlearn.filter.predict import after_unforeseen, inputs_to_come
from psimlearn.filter.rollout import rolled
from psimlearn.filter.step import State
from psimlearn.recordings.trajectories import Trajectories

__all__ = ["answer_names", "answers", "answers_to"]


def answer_names(channels: Sequence[str], steps: int) -> list[str]:
    """The names of the columns of `answers`.

    >>> answer_names(["x"], 1)
    ['log_likelihood', 'x.expected', 'x.std', 'x.ahead1', 'x.ahead1.std']
    """
    names = ["log_likelihood", *(f"{c}.expected" for c in channels), *(f"{c}.std" for c in channels)]
    for j in range(1, steps + 1):
        names += [*(f"{c}.ahead{j}" for c in channels), *(f"{c}.ahead{j}.std" for c in channels)]
    return names


def answers(
    filter: Filter, before: State, x: Float[np.ndarray, "b n"], after: State, steps: int
) -> Float[np.ndarray, "b columns"]:
    """The answers to one row of each stream, given the state before it, and the state after it without later inputs.

    Standard deviations are NaN if the filter is not calibrated.
    """
    expected, std = _mean_and_std(filter, before, 1, knows_next=True)
    ahead, ahead_std = _mean_and_std(filter, after, steps)
    unseen = np.broadcast_to(before.unseen, len(x))
    nats = log_likelihood(filter, before.belief, filter.scaling(x), unseen) + 0.0  # no -0
    to_come = np.stack([ahead, ahead_std], axis=2).reshape(len(x), -1)
    return np.concatenate([nats[:, None], expected[:, 0], std[:, 0], to_come], axis=1)


def _mean_and_std(
    filter: Filter, state: State, steps: int, knows_next: bool = False
) -> tuple[Float[np.ndarray, "b steps n"], Float[np.ndarray, "b steps n"]]:
    """The predictions and their standard deviations; deviations are NaN if the filter is not calibrated.

    A filter of an older version is not calibrated for unknown inputs, which may begin to act at the second step.
    """
    measured = (h for h in (steps, 1) if filter.measured(inputs_to_come(filter, h, False, knows_next)) is not None)
    reach = next(measured, 0)
    if reach == steps:
        prediction = filter.predict(state, steps, knows_next=knows_next)
        return prediction.mean, prediction.std
    mean = filter.ahead(state, steps)
    std = np.full_like(mean, np.nan)
    if reach:
        std[:, :reach] = filter.predict(state, reach, knows_next=knows_next).std
    return mean, std


def answers_to(filter: Filter, data: Trajectories, steps: int) -> Float[np.ndarray, "rows columns"]:
    """The answers to every row of whole recordings."""
    rollout = rolled(filter, data)
    plan, after = rollout.layout.plan, after_unforeseen(rollout, data)
    return plan.packed(answers(filter, rollout.before, data.values[plan.order], after, steps))
