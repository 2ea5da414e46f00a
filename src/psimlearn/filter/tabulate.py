"""A table of answers: for every row the expected observation, the log-likelihood of the row, and predictions."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from psimlearn.filter.filter import Filter
from psimlearn.filter.likelihood import doubt_of_row, log_likelihood
from psimlearn.filter.predict import after_unforeseen, doubt_of, doubt_of_row_and_ahead, inputs_to_come, row_and_ahead
from psimlearn.filter.rollout import rolled
from psimlearn.filter.step import State
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.shapes import Float

__all__ = ["answer_names", "answers", "answers_to", "mean_and_std"]


def answer_names(channels: Sequence[str], steps: int) -> list[str]:
    """The names of the columns of `answers`.

    >>> answer_names(["x"], 1)
    ['log_likelihood', 'x.expected', 'x.std', 'x.ahead1', 'x.ahead1.std']
    """
    names = ["log_likelihood", *(f"{c}.expected" for c in channels), *(f"{c}.std" for c in channels)]
    for j in range(1, steps + 1):
        names += [*(f"{c}.ahead{j}" for c in channels), *(f"{c}.ahead{j}.std" for c in channels)]
    return names


class Readings(NamedTuple):
    """What doubt adds to the errors of rows, read while it was at hand; None where there is no doubt."""

    of_row: Float[np.ndarray, "b n n"] | None
    """The covariance that it adds to the errors of the row."""
    ahead: Float[np.ndarray, "b steps n"] | None
    """The variances that it adds to the errors of the next rows."""


def answers(
    filter: Filter,
    before: State,
    x: Float[np.ndarray, "b n"],
    after: State,
    steps: int,
    doubt: Readings | None = None,
) -> Float[np.ndarray, "b columns"]:
    """The answers to one row of each stream, given the state before it, and the state after it without later inputs.

    Standard deviations are NaN if the filter is not calibrated. Readings are made from the states if not given.
    """
    if doubt is None:
        doubt = Readings(doubt_of_row(filter, before), doubt_of(filter, after, steps))
    of_row = None if doubt.of_row is None else np.diagonal(doubt.of_row, axis1=1, axis2=2)[:, None]
    expected, std = mean_and_std(filter, before, 1, of_row, knows_next=True)
    ahead, ahead_std = mean_and_std(filter, after, steps, doubt.ahead)
    nats = log_likelihood(filter, before, filter.scaling(x), doubt.of_row) + 0.0  # no -0
    to_come = np.stack([ahead, ahead_std], axis=2).reshape(len(x), -1)
    return np.concatenate([nats[:, None], expected[:, 0], std[:, 0], to_come], axis=1)


def mean_and_std(
    filter: Filter,
    state: State,
    steps: int,
    doubt: Float[np.ndarray, "b steps n"] | None,
    knows_next: bool = False,
) -> tuple[Float[np.ndarray, "b steps n"], Float[np.ndarray, "b steps n"]]:
    """The predictions and their standard deviations; deviations are NaN if the filter is not calibrated.

    A filter of an older version is not calibrated for unknown inputs, which may begin to act at the second step.
    """
    measured = (h for h in (steps, 1) if filter.measured(inputs_to_come(filter, h, False, knows_next)) is not None)
    reach = next(measured, 0)
    if reach == steps:
        prediction = filter.predict(state, steps, knows_next=knows_next, doubt=doubt)
        return prediction.mean, prediction.std
    mean = filter.ahead(state, steps)
    std = np.full_like(mean, np.nan)
    if reach:
        known = None if doubt is None else doubt[:, :reach]
        std[:, :reach] = filter.predict(state, reach, knows_next=knows_next, doubt=known).std
    return mean, std


def answers_to(filter: Filter, data: Trajectories, steps: int) -> Float[np.ndarray, "rows columns"]:
    """The answers to every row of whole recordings."""
    rollout = rolled(filter, data, doubt_of_row_and_ahead(steps))
    plan, after = rollout.layout.plan, after_unforeseen(rollout, data)
    doubt = Readings(None, None)
    if rollout.read is not None and rollout.read_before is not None:
        (of_row, _), (_, ahead) = (row_and_ahead(read, data.n_channels) for read in (rollout.read_before, rollout.read))
        doubt = Readings(of_row, ahead)
    return plan.packed(answers(filter, rollout.before, data.values[plan.order], after, steps, doubt))
