"""How recordings begin: first rows get gains of their own where that makes their held-out errors no larger.

The search does not score the first rows of long recordings, as the filter that is best later need not begin well. The
filter chosen then learns its opening (`train/openings.py`).
"""

from typing import NamedTuple

import numpy as np

from psimlearn.choose.report import Choice
from psimlearn.evaluate.calibrate import HORIZON
from psimlearn.filter import Filter
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.recordings.windows import SETTLED, blocks_of
from psimlearn.shapes import Float
from psimlearn.train.openings import Begins, all_opened, begins_as_well, can_open, first_errors, with_opening

__all__ = ["beginnings", "opened", "opened_alike"]

WAYS: tuple[Begins, ...] = ("any moment", "first rows")


CLEARLY = 2.0
"""Standard errors by which first rows have to be more likely if they begin in a way of their own."""


class _Tried(NamedTuple):
    """One way in which recordings may begin, on all splits; errors of all held-out recordings."""

    begins: Begins
    filters: list[Filter]
    squares: Float[np.ndarray, "m rows"]
    nats: Float[np.ndarray, " m"]


def opened(choice: Choice) -> Choice:
    """The choice, with the opening under which held-out first rows are likely; as it is if their errors would grow.

    Recordings begin at any moment, unless first rows are clearly more likely if they begin in a way of their own.
    """
    if not all(can_open(round.filter) for round in choice.winners):
        return choice
    plain = np.concatenate([first_errors(filter, held).squares for filter, held in choice.held_out])
    found = [each for begins in WAYS if (each := _tried(choice, begins)) is not None]
    tried = [each for each in found if begins_as_well(each.squares, plain)]
    if not tried:
        return choice
    best = tried[-1] if len(tried) > 1 and _clearly(tried[1].nats - tried[0].nats) else tried[0]
    winners = [round._replace(filter=each) for round, each in zip(choice.winners, best.filters, strict=True)]
    return choice._replace(winners=winners, begins=best.begins)


def opened_alike(filter: Filter, choice: Choice, train: Trajectories) -> Filter:
    """A filter trained with the settings chosen, with an opening if the choice has one."""
    if choice.begins is None or not can_open(filter):
        return filter
    return with_opening(filter, train, choice.begins) or filter


def beginnings(choice: Choice, data: Trajectories, window: int) -> Trajectories:
    """Recordings whose first rows show how errors begin: if they begin at any moment, each begins anew many times."""
    if choice.begins != "any moment":
        return data
    length = window + HORIZON + SETTLED
    return data.stretches(blocks_of(data.offsets, length, SETTLED - length))


def _tried(choice: Choice, begins: Begins) -> _Tried | None:
    """The winners with this opening; None if there are too few recordings for it."""
    filters = all_opened([w.filter for w in choice.winners], [split.train for split in choice.splits], begins)
    if filters is None:
        return None
    errors = [first_errors(filter, split.held) for filter, split in zip(filters, choice.splits, strict=True)]
    squares, nats = (np.concatenate(parts) for parts in zip(*errors, strict=True))
    return _Tried(begins, filters, squares, nats)


def _clearly(more: Float[np.ndarray, " m"]) -> bool:
    """Whether these differences are above zero beyond doubt."""
    return len(more) > 1 and bool(more.mean() > CLEARLY * more.std(ddof=1) / np.sqrt(len(more)))
