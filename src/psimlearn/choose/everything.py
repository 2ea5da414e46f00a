"""Training with the settings chosen, on all recordings: in memory or in shards, round by round through a journal."""

from typing import Any, NamedTuple

import numpy as np

from psimlearn.choose.candidates import worsened
from psimlearn.choose.gaps import path_with_gaps
from psimlearn.choose.journal import Journal, followed, taken_further, with_sums
from psimlearn.choose.report import Choice
from psimlearn.choose.runs import path_from
from psimlearn.choose.watch import Watch
from psimlearn.learners import Learner
from psimlearn.train.dagger import Aggregation, next_round
from psimlearn.train.examples import Begun
from psimlearn.train.score import HeldOut, Round, forgets, scored

__all__ = ["Trained", "as_good", "trained", "trained_with_gaps"]


class Trained(NamedTuple):
    """The last round on all recordings, the learner that made it, and its sums."""

    round: Round
    """Its number counts all rounds, those with gaps too."""
    learner: Learner[Any]
    sums: Any


def trained(begun: Begun, held: HeldOut, choice: Choice, tell: Watch, journal: Journal, name: str) -> Trained:
    """As many rounds as were best. Cut short, the last round so far, and no sums to go on with.

    Only the last round is scored, unless entries are missing: then scores fill gaps by the covariance of errors so far.

    Args:
        begun: the beginning on all recordings.
        held: scores the last round.
        choice: the settings, and how many rounds were best.
        tell: receives progress.
        journal: knows rounds that were done before an interruption, and keeps others.
        name: of the course in the journal.
    """
    candidate, n_rounds = choice.trial.candidate, choice.trial.best_round
    gappy = begun.filter.gaps == "filled" or held.table.layout.gappy

    def following(current: Aggregation) -> Aggregation:
        return next_round(current, begun, held if gappy or current.number + 1 == n_rounds else None)

    path = path_from(begun, held)._replace(following=following)
    lane, current = journal.lane(name, candidate, begun.filter), path.first()
    while current.number < n_rounds and tell.goes_on("training", current.number, n_rounds):
        current = taken_further(journal, lane, path, current)
    sums = with_sums(path, current).sums if current.number == n_rounds else None
    if n_rounds == 0 and candidate.recipe.states is not None:  # the system itself: `partial_fit` goes on
        sums = path.following(current).sums
    last = current.round
    if np.isnan(last.error):  # cut short
        last = scored(last.number, last.filter, held, last.dropped, begun.opens)
    return Trained(last, begun.learner, sums)


def trained_with_gaps(
    before: Trained, begun: Begun, held: HeldOut, n_rounds: int, journal: Journal, name: str
) -> Trained:
    """The filter with exact gaps, trained on for some rounds."""
    path = path_with_gaps(before.round.filter, begun, held)
    *_, last = followed(journal, journal.lane(f"{name} exact", "", before.round.filter), path, n_rounds)
    if not n_rounds:  # the sums are of the rounds before
        return before._replace(round=last.round._replace(number=before.round.number))
    number = before.round.number + n_rounds
    return Trained(last.round._replace(number=number), begun.learner, with_sums(path, last).sums)


def as_good(last: Round, chosen: Round, tolerance: float) -> bool:
    """Whether a filter of all recordings is as good as the one chosen, in closed loop on the same recordings."""
    return last.error <= worsened(chosen.error, tolerance) and (forgets(last.filter) or not forgets(chosen.filter))
