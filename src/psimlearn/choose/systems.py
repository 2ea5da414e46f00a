"""Courses that begin with a linear system: systems of several sizes are screened, and the best begins a few runs."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from psimlearn.choose.candidates import Candidate, Trial
from psimlearn.choose.courses import Course, identifying_systems, relating_pasts
from psimlearn.choose.runs import WIDE, Run, advanced, race, runs, screened, with_first_round_of, with_ridge
from psimlearn.choose.space import Space
from psimlearn.choose.watch import Watch
from psimlearn.train.recipe import Past

__all__ = ["FromSystems", "from_systems", "wide_beliefs"]

N_FROM_SYSTEMS = 2
"""How many runs that began with a system race, besides the one with the simplest recipe."""
LOST = 1.2
"""The error after a round, relative to the least, beyond which a recipe is lost."""
FEW = 2
"""The rounds after which the best runs that began with a system are known."""


class FromSystems(NamedTuple):
    """Runs from the system whose filter does best, after few rounds."""

    racing: Sequence[Run] = ()
    """The best few."""
    waiting: Sequence[Run] = ()
    """Others that differ from the best in the ridge, if that is asked for again."""
    trials: Sequence[Trial] = ()
    """Of all that do not race."""


def from_systems(courses: Sequence[Course], space: Space, tell: Watch) -> FromSystems:
    """Screen systems, and take runs from the best of them through a few rounds."""
    if space.systems is None:
        return FromSystems()
    sizes, ridges, recipes, alphas = space.systems
    courses = relating_pasts(courses, sorted({past for past, _ in sizes}))
    known = [size for size in sizes if all(size[0] in course.ground.related for course in courses)]
    plain = Candidate(recipes[0], space.learners[0])
    trials = _screened_sizes(plain, known, courses, tell)
    if not trials or not np.isfinite(min(t.error for t in trials)):
        return FromSystems(trials=trials)
    trials += screened([_begun_with(plain, size) for size in _between(_size(_best(trials)), known)], courses, tell)
    courses, more = _screened_ridges(plain, _best(trials), ridges, courses, tell)
    size = _size(_best(trials := trials + more))
    courses = identifying_systems(courses, [size])
    begun = list(runs([_begun_with(plain._replace(recipe=r).with_alpha(alphas[0]), size) for r in recipes], courses))
    simplest = advanced(begun[0], 0, tell)  # F_0 is the filter of the system, whatever the recipe and the ridge
    begun = [simplest, *(with_first_round_of(simplest, run) for run in begun[1:])]
    tried = race(begun[::-1], 1, tell)[::-1]  # the last recipe has the most lags, and is seldom far behind
    close = LOST * min(map(_latest_error, tried))
    tried = [advanced(run, FEW, tell, tried) if _latest_error(run) <= close else run for run in tried]
    best = min(tried, key=_latest_error)
    again = [with_first_round_of(simplest, with_ridge(best, a)) for a in alphas[1:]]
    first, *others = tried + race(again, FEW, tell)
    others.sort(key=_latest_error)
    racing, rest = others[:N_FROM_SYSTEMS], others[N_FROM_SYSTEMS:]
    waiting = [run for run in rest if run.candidate.kind == best.candidate.kind]
    # the first has the simplest recipe, and wins wherever no round is better than the filter of the system
    return FromSystems([first, *racing], waiting, trials + [run.trial() for run in rest])


def _screened_ridges(
    plain: Candidate, best: Trial, ridges: Sequence[float], courses: Sequence[Course], tell: Watch
) -> tuple[Sequence[Course], list[Trial]]:
    """Trials of the best size with larger ridges of its relation, until errors rise; and the courses that know these.

    A relation of many rows has many coefficients: noise in few recordings makes them too large.
    """
    past, states = _size(best)
    trials: list[Trial] = []
    for ridge in ridges:
        size = (past._replace(ridge=ridge), states)
        courses = relating_pasts(courses, [size[0]])
        (trial,) = screened([_begun_with(plain, size)], courses, tell)
        trials.append(trial)
        if not trial.penalised_error < best.penalised_error:
            break
        best = trial
    return courses, trials


def _screened_sizes(
    plain: Candidate, sizes: Sequence[tuple[Past, int]], courses: Sequence[Course], tell: Watch
) -> list[Trial]:
    """A trial of each size; where observations are wide, not of sizes below two that are worse than a larger one."""
    if not wide_beliefs(courses):
        return screened([_begun_with(plain, size) for size in sizes], courses, tell)
    trials: list[Trial] = []
    for past in sorted({past for past, _ in sizes}):
        errors: list[float] = []
        for size in sorted((size for size in sizes if size[0] == past), reverse=True):
            if len(errors) - int(np.argmin(errors or [0.0])) <= 2:
                trials += screened([_begun_with(plain, size)], courses, tell)
                errors.append(trials[-1].penalised_error)
    return trials


def wide_beliefs(courses: Sequence[Course]) -> bool:
    """Whether beliefs are so wide that rounds which feed all of them back take long."""
    return bool(courses[0].ground.beliefs.shape[1] >= WIDE)


def _best(trials: Sequence[Trial]) -> Trial:
    return min(trials, key=lambda t: t.penalised_error)


def _size(trial: Trial) -> tuple[Past, int]:
    recipe = trial.candidate.recipe
    assert recipe.states is not None
    return recipe.relation, recipe.states


def _between(size: tuple[Past, int], known: Sequence[tuple[Past, int]]) -> list[tuple[Past, int]]:
    """Numbers of states halfway to the next ones on a logarithmic scale, within the range of those known."""
    past, states = size
    of_past = [s for p, s in known if p == past]
    halfway = {round(states / np.sqrt(2)), round(states * np.sqrt(2))}
    return [(past, s) for s in sorted(halfway) if min(of_past) < s < max(of_past) and s not in of_past]


def _begun_with(candidate: Candidate, size: tuple[Past, int]) -> Candidate:
    past, states = size
    return candidate._replace(recipe=replace(candidate.recipe, past=past.rows, past_ridge=past.ridge, states=states))


def _latest_error(run: Run) -> float:
    """The error of the last round: runs from one system have F_0 in common."""
    return float(np.mean([lane.rounds[-1].error if lane.rounds else np.inf for lane in run.lanes]))
