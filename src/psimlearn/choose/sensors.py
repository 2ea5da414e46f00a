"""Recordings in which a sensor is absent throughout: whether to learn from all recordings, or from the others alone.

A gap of some rows is filled in from the rows around it before training begins. Where a sensor is absent throughout,
there is nothing but the other sensors to guess it from, and such guesses can spoil more than the recordings are worth.
"""

from collections.abc import Callable, Sequence

import numpy as np

from psimlearn.choose.courses import attempted
from psimlearn.choose.report import Choice
from psimlearn.choose.splits import FEWEST_ROWS, Split
from psimlearn.choose.summary import counted
from psimlearn.evaluate import errors_by_horizon
from psimlearn.filter import Filter
from psimlearn.recordings.completeness import complete
from psimlearn.recordings.trajectories import Trajectories

__all__ = ["all_or_complete", "left_out"]

CLEARLY = 0.995
"""The error of filters learnt from all recordings, relative to that from complete ones alone, below which they win."""

HeldOut = Sequence[tuple[Filter, Trajectories]]


def all_or_complete(
    choice: Choice, everything: Trajectories, choose: Callable[[list[Split]], Choice]
) -> tuple[Choice, Trajectories, list[str]]:
    """The better choice, the recordings to train on with it, and a note if some are left out.

    Both are compared on held-out recordings that are complete. All recordings have to be clearly better: with complete
    ones alone nothing is guessed.

    Args:
        choice: made from all recordings.
        everything: the recordings to train on.
        choose: makes a choice from other splits.
    """
    kept = complete(everything)
    if kept.all() or choice.epochs is not None or not all(_can_be_chosen_by(split) for split in choice.splits):
        return choice, everything, []
    fewer = [Split(*(part[complete(part)] for part in split)) for split in choice.splits]
    other = attempted(choose, fewer)
    if other is None:
        return choice, everything, []
    ours = [(round.filter, split.held) for round, split in zip(choice.winners, fewer, strict=True)]
    if _relative(ours, other.held_out) < CLEARLY:
        return choice, everything, []
    return other._replace(complete_only=True), everything[kept], [left_out(int((~kept).sum()))]


def left_out(n: int) -> str:
    """The note on recordings that are not learnt from."""
    some = counted(n, "recording")
    return f"left out {some} in which a channel is missing throughout: without them errors were no larger"


def _can_be_chosen_by(split: Split) -> bool:
    """Whether complete recordings are held out, and enough of them are left to train on."""
    rows = [int(part.lengths[complete(part)].sum()) for part in split]
    return split.train is not split.held and min(rows) >= FEWEST_ROWS


def _relative(ours: HeldOut, theirs: HeldOut) -> float:
    """Our errors divided by theirs, on the same recordings in the same units, averaged over horizons and splits."""
    shares = []
    for (filter, held), (other, _) in zip(ours, theirs, strict=True):
        horizon = max(1, min(filter.features.window, int(held.lengths.max()) - 1))
        mine, least = (errors_by_horizon(each, held, horizon, scale=filter.scaling.scale) for each in (filter, other))
        shares.append(float(np.mean(mine / least)))
    return float(np.mean(shares))
