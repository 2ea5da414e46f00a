"""Inputs of rows to come, from a table that a caller brings: matched to recordings by id, and to their ends by time."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from psimlearn.errors import DataError
from psimlearn.recordings.names import listed
from psimlearn.recordings.steps import close_to, same_step
from psimlearn.recordings.times import Times, spoken
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.shapes import Float, Int

__all__ = ["Plan", "inputs_after"]


class Plan(NamedTuple):
    """The rows of a table of inputs to come, sorted by time within each recording."""

    inputs: Float[np.ndarray, "rows p"]
    offsets: Int[np.ndarray, " edges"]
    ids: Sequence[Any] | None = None
    """None: its recordings come in the order of those that are continued."""
    times: Times | None = None
    """None: the order of rows counts."""


def inputs_after(plan: Plan, data: Trajectories, steps: int, step: float | None) -> Float[np.ndarray, "m steps p"]:
    """The inputs of the next `steps` rows of each recording. Rows that are past already are left out.

    A row may come a quarter of a step early or late, as in recordings; other times are refused, since nobody may guess
    an input.

    Args:
        plan: the inputs to come.
        data: the recordings.
        steps: how many rows.
        step: the seconds from row to row; None if nobody knows, so that no time is checked.
    """
    parts = list(range(len(plan.offsets) - 1))
    if plan.ids is not None and data.ids is not None:
        found = {id: i for i, id in enumerate(plan.ids)}
        if absent := [id for id in data.ids if id not in found]:
            raise DataError(f"required rows for the ids {listed(absent)}, received none. Add them.")
        parts = [found[id] for id in data.ids]
    if len(parts) != len(data):
        raise DataError(
            f"required rows for each of {len(data)} recordings, received those of {len(parts)}. Give the rows of each "
            "recording its id."
        )
    return np.stack([_next(plan, part, data, i, steps, step) for i, part in enumerate(parts)])


def _next(
    plan: Plan, part: int, data: Trajectories, i: int, steps: int, step: float | None
) -> Float[np.ndarray, "steps p"]:
    """The inputs of the rows after one recording."""
    start, end = plan.offsets[part : part + 2]
    where = f"trajectory {i if data.ids is None else data.ids[i]!r}: "
    if step is not None and plan.times is not None:
        last = None if data.times is None else data.times._replace(ticks=data.times.ticks[[data.offsets[i + 1] - 1]])
        times = plan.times._replace(ticks=plan.times.ticks[start:end])
        start += _first_after(times, last, step, steps, where)
    if end - start < steps:
        raise DataError(f"{where}required {steps} rows for each recording, received {end - start}. Add rows.")
    return plan.inputs[start : start + steps]


def _first_after(times: Times, last: Times | None, step: float, steps: int, where: str) -> int:
    """The number of past rows, once it is sure that those after them follow one step apart.

    Args:
        times: the times of the plan for one recording, which rise.
        last: the time of the recording's last row, if it is known.
        step: the seconds from row to row.
        steps: how many rows are needed.
        where: words before an error message.
    """
    if last is None:
        n_past, ahead = 0, times.ticks[:steps]
    else:
        if times.kind != last.kind:
            raise DataError(f"{where}required times of one kind with those of the recording, received another kind.")
        n_past = int(np.searchsorted(times.ticks, last.ticks[0], side="right"))
        ahead = np.concatenate([last.ticks, times.ticks[n_past : n_past + steps]])
        if len(ahead) == 1:
            raise DataError(
                f"{where}required rows after the recording's last row, {last.shown(0)}, received rows up to "
                f"{times.shown(-1)}. Give the inputs of the rows to come."
            )
    shown = times._replace(ticks=ahead).shown
    for row, (before, after) in enumerate(pairwise(ahead)):
        if not close_to(np.array([(after - before) * times.unit]), step)[0]:
            raise DataError(
                f"{where}required a row every {spoken(step)}, so one {spoken(step)} after {shown(row)}, received "
                f"{shown(row + 1)} next. Give one row of inputs for each row to come."
            )
    apart = np.diff(times.ticks) * times.unit
    ones = apart[close_to(apart, step)]
    if len(ones) and not same_step(float(ones.mean()), step, len(ones)):
        raise DataError(
            f"{where}required a row every {spoken(step)}, received a row every {spoken(float(ones.mean()))}. Give one "
            "row of inputs for each row to come."
        )
    return n_past
