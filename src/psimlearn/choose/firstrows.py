"""Whether the first rows of recordings teach.

Lags before the first row repeat it. If the system rested before, that is right. If recordings begin in its midst, such
examples are wrong, and a regression has to serve them too. Where rows are dear, they are better than none. So
autoregressions decide, with and without these examples: their errors do not change from round to round.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from psimlearn.choose.candidates import Candidate, Trial
from psimlearn.choose.courses import Course, start
from psimlearn.choose.runs import screened
from psimlearn.choose.watch import Watch
from psimlearn.filter import Filter
from psimlearn.learners import Ridge
from psimlearn.train.openings import can_open, with_opening
from psimlearn.train.score import held_out, scored

__all__ = ["first_rows_mislead", "without_first_rows"]

LESS = 0.998
"""The error on later rows, relative to that with all examples, below which first rows are left out: more is noise."""
AS_GOOD = 1.01
"""The error on all rows, first rows included, up to which that does no harm."""


def first_rows_mislead(
    trials: Sequence[Trial], courses: Sequence[Course], skipping: Sequence[Course], skip: int, tell: Watch
) -> bool:
    """Whether autoregressions are better at later rows without the examples of first rows, and as good at all rows.

    Args:
        trials: trials with all examples.
        courses: the splits of the recordings.
        skipping: the same, with sums without first rows.
        skip: the number of first rows.
        tell: receives progress.
    """
    plain = [t for t in trials if t.candidate.recipe.belief_weight == 0 and isinstance(t.candidate.learner, Ridge)]
    by_lags: dict[int, Trial] = {}
    for trial in sorted(plain, key=_error):
        by_lags.setdefault(trial.candidate.recipe.lags, trial)
    if not by_lags or not np.isfinite(_error(best := min(by_lags.values(), key=_error))):
        return False
    without = screened([without_first_rows(t.candidate, skip) for t in by_lags.values()], skipping, tell)
    rival = min(without, key=_error)
    if not _error(rival) <= LESS * _error(best):
        return False
    return _on_all_rows(rival.candidate, skipping) <= AS_GOOD * _on_all_rows(best.candidate, courses)


def without_first_rows(candidate: Candidate, skip: int) -> Candidate:
    """The candidate, trained without the examples of so many first rows."""
    return candidate._replace(recipe=replace(candidate.recipe, skip=skip))


def _on_all_rows(candidate: Candidate, courses: Sequence[Course]) -> float:
    """The closed-loop error of F_0 at all held-out rows, averaged over courses; F_0 may learn how recordings begin."""
    return float(np.mean([_on_all_rows_of(start(candidate, course).begun.filter, course) for course in courses]))


def _on_all_rows_of(filter: Filter, course: Course) -> float:
    held = held_out(filter, course.validation, course.criterion, course.loss)
    plain = scored(0, filter, held)
    opened = with_opening(plain.filter, course.ground.train, "any moment") if can_open(plain.filter) else None
    return plain.error if opened is None else min(plain.error, scored(0, opened, held).error)


def _error(trial: Trial) -> float:
    return trial.penalised_error
