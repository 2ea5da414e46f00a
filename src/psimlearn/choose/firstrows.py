"""Whether the first rows of recordings may mislead, so that a search without their examples is worth its time.

Lags before the first row repeat it. If the system rested before, that is right. If recordings begin in its midst, such
examples are wrong, and a regression has to serve them too. But the first rows also show a belief that knows nothing:
beliefs that remember for long are learnt from them. So autoregressions, which have no belief, tell quickly whether lags
mislead, and the search without first rows has to win on held-out rows.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from psimlearn.choose.candidates import Candidate, Trial, best_of_each_kind
from psimlearn.choose.courses import Course, skipping, start
from psimlearn.choose.runs import Run, screened
from psimlearn.choose.space import Space
from psimlearn.choose.watch import Watch
from psimlearn.filter import Filter
from psimlearn.learners import Ridge
from psimlearn.recordings.windows import are_long
from psimlearn.train.openings import all_opened, begins_as_well, can_open, first_errors
from psimlearn.train.score import held_out, scored

__all__ = ["better", "without_first_rows"]

LESS = 0.998
"""The error on later rows, relative to that with all examples, below which first rows mislead: more is noise."""
AS_GOOD = 1.01
"""The error on all rows, first rows included, up to which it does no harm to leave them out."""


def without_first_rows(
    trials: Sequence[Trial], courses: Sequence[Course], space: Space, tell: Watch
) -> tuple[list[Course], Space] | None:
    """A search without the examples of first rows: each kind with its best ridge; None if they do not mislead.

    Args:
        trials: trials with all examples.
        courses: the splits of the recordings.
        space: the candidates of these trials.
        tell: receives progress.
    """
    if not space.skip or not all(are_long(course.ground.train.lengths, space.skip) for course in courses):
        return None
    later = skipping(courses, space.skip)
    if not _mislead(trials, courses, later, space.skip, tell):
        return None
    kinds = [t.candidate for t in best_of_each_kind(trials) if t.candidate.recipe.states is None]
    again = tuple(_without(candidate, space.skip) for candidate in kinds)
    return later, space._replace(recipes=(), others=again, systems=None, cross_weight=None, skip=0)


def _mislead(
    trials: Sequence[Trial], courses: Sequence[Course], later: Sequence[Course], skip: int, tell: Watch
) -> bool:
    """Whether autoregressions are better at later rows without the examples of first rows, and as good at all rows."""
    plain = [t for t in trials if t.candidate.recipe.belief_weight == 0 and isinstance(t.candidate.learner, Ridge)]
    by_lags: dict[int, Trial] = {}
    for trial in best_of_each_kind(plain):
        by_lags.setdefault(trial.candidate.recipe.lags, trial)
    if not by_lags or not np.isfinite(_error(best := min(by_lags.values(), key=_error))):
        return False
    rival = min(screened([_without(t.candidate, skip) for t in by_lags.values()], later, tell), key=_error)
    if not _error(rival) <= LESS * _error(best):
        return False
    return _does_no_harm(_first_filters(rival.candidate, later), _first_filters(best.candidate, courses), courses)


def better(run: Run, rival: Run) -> Run:
    """The rival, which learnt from later rows only, if held-out rows say so and first rows do not object."""
    if not rival.penalised_error < run.penalised_error:
        return run
    theirs, ours = ([round.filter for round in each.winners()] for each in (rival, run))
    return rival if _does_no_harm(theirs, ours, [lane.course for lane in run.lanes]) else run


def _without(candidate: Candidate, skip: int) -> Candidate:
    """The candidate, trained without the examples of so many first rows."""
    return candidate._replace(recipe=replace(candidate.recipe, skip=skip))


def _first_filters(candidate: Candidate, courses: Sequence[Course]) -> list[Filter]:
    """F_0 on each course."""
    return [start(candidate, course).begun.filter for course in courses]


def _does_no_harm(filters: Sequence[Filter], others: Sequence[Filter], courses: Sequence[Course]) -> bool:
    """Whether filters are as good as others at all held-out rows, the first included."""
    return _on_all_rows(filters, courses) <= AS_GOOD * _on_all_rows(others, courses)


def _on_all_rows(filters: Sequence[Filter], courses: Sequence[Course]) -> float:
    """The closed-loop error at all held-out rows, averaged over courses, if filters may learn how recordings begin."""
    rows = [held_out(f, c.validation, c.criterion, c.loss) for f, c in zip(filters, courses, strict=True)]
    rounds = [scored(0, filter, held) for filter, held in zip(filters, rows, strict=True)]
    opened = _opened([round.filter for round in rounds], courses)
    if opened is not None:
        rounds = [scored(0, filter, held) for filter, held in zip(opened, rows, strict=True)]
    return float(np.mean([round.error for round in rounds]))


def _opened(filters: Sequence[Filter], courses: Sequence[Course]) -> list[Filter] | None:
    """The filters with openings; None where they cannot open, or held-out first rows would be worse."""
    if not all(can_open(filter) for filter in filters):
        return None
    opened = all_opened(filters, [course.ground.train for course in courses], "any moment")
    if opened is None:
        return None
    ours, without = (
        np.concatenate([first_errors(f, c.validation).squares for f, c in zip(some, courses, strict=True)])
        for some in (opened, filters)
    )
    return opened if begins_as_well(ours, without) else None


def _error(trial: Trial) -> float:
    return trial.penalised_error
