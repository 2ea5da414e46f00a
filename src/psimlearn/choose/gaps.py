"""How a filter treats gaps: chosen by the closed-loop error on held-out recordings with gaps.

The search trains filters with their gaps filled in, which is quick. The filter chosen is then tried with exact gaps, as
it is and trained on for some rounds (`train/refined.py`). Exact gaps are kept unless they are clearly worse: they state
their uncertainty, and a filter that takes its guesses for observations can diverge.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from psimlearn.choose.candidates import worsened
from psimlearn.choose.courses import Start
from psimlearn.choose.journal import Journal, Path, followed
from psimlearn.choose.watch import Watch
from psimlearn.factors import FAILURES
from psimlearn.filter import Filter
from psimlearn.filter.innovations import has_innovations, is_quadratic, treats_exactly
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.train.dagger import Aggregation
from psimlearn.train.examples import Begun
from psimlearn.train.refined import can_be_refined, first_refined, next_refined
from psimlearn.train.score import HeldOut, Round, forgets

__all__ = ["Treatment", "gaps_told", "path_with_gaps", "treatment"]

MOST_ROUNDS, PATIENCE = 10, 4
"""The most rounds with exact gaps, and how many may pass without a better one."""
WORSE = 1.01
"""The error of exact gaps, relative to that of filled ones, above which gaps stay filled."""


class Treatment(NamedTuple):
    """The treatment of gaps that was chosen."""

    winners: list[Round]
    """One for each split."""
    n_rounds: int | None
    """How many rounds of training with exact gaps follow; None if gaps stay filled."""
    error: float


def treatment(
    winners: Sequence[Round], starts: Sequence[Start], watch: Watch, journal: Journal = Journal()
) -> Treatment:
    """Choose between filled gaps, exact gaps, and rounds of training with exact gaps.

    Args:
        winners: the filters chosen, one for each split, with their gaps filled in.
        starts: the starts of their training.
        watch: receives progress, and may end the rounds early.
        journal: knows rounds that were done already, and keeps others.
    """
    filled = Treatment(list(winners), None, float(np.mean([round.error for round in winners])))
    if not all(has_innovations(round.filter) for round in winners):
        return filled
    each = list(zip(winners, starts, strict=True))
    trainable = all(can_be_refined(round.filter, start.begun) for round, start in each)
    n_rounds = MOST_ROUNDS if trainable else 0
    lanes = [
        followed(journal, journal.lane(f"gaps {i}", "", round.filter), path_with_gaps(round.filter, *start), n_rounds)
        for i, (round, start) in enumerate(each)
    ]
    best = Treatment([], 0, np.inf)
    with suppress(*FAILURES):  # the rounds before count
        for number, together in enumerate(zip(*lanes, strict=True)):
            best = _better(best, number, together)
            tired = number - (best.n_rounds or 0) >= PATIENCE
            if tired or not watch.goes_on("training with gaps", number + 1, MOST_ROUNDS + 1):
                break
    return best if best.winners and best.error <= worsened(filled.error, WORSE) else filled


def path_with_gaps(filter: Filter, begun: Begun, held: HeldOut) -> Path:
    """The filter with exact gaps, and rounds that go on from it: those of `refined`, one by one."""
    return Path(lambda: first_refined(filter, begun, held), lambda current: next_refined(current, begun, held))


def gaps_told(filter: Filter, data: Trajectories) -> tuple[Filter, list[str]]:
    """The filter, which says how it treats gaps, and a note if recordings, or settings alone, have it fill them in."""
    if filter.alphabet is not None or treats_exactly(filter):
        return filter, []
    avoidable = is_quadratic(filter)
    note = "gaps are filled in: while a channel is missing alone, its intervals stay as narrow as if it were seen"
    note += ". prior='mean' treats gaps exactly" if avoidable else ""
    matters = data.n_channels > 1 and (avoidable or bool(np.isnan(data.values).any()))
    return replace(filter, gaps="filled"), [note] if matters else []


def _better(best: Treatment, number: int, together: Sequence[Aggregation]) -> Treatment:
    """The better of the best so far and one more round on every split."""
    error = float(np.mean([current.error for current in together]))
    if error >= best.error or not all(forgets(current.filter) for current in together):
        return best
    return Treatment([current.round for current in together], number, error)
