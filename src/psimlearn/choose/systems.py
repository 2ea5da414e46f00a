"""Runs that begin with the filter of a linear system: which size, improved or not, and how rounds go on from it."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from psimlearn.choose.candidates import Candidate, Trial
from psimlearn.choose.courses import Course, identifying_systems, relating_pasts
from psimlearn.choose.runs import Run, advanced, runs, screened
from psimlearn.choose.space import Space
from psimlearn.choose.watch import Watch
from psimlearn.train.improved import products
from psimlearn.train.recipe import Size

__all__ = ["from_systems"]

N_FROM_SYSTEMS = 2
"""How many runs that began with a system race, besides the one with the simplest recipe."""
FEW = 2
"""The rounds after which the best runs that began with a system are known."""
AFFORDABLE = 4.0
"""The cost of an iteration of expectation maximisation, relative to that of a round, up to which it is tried."""


def from_systems(courses: Sequence[Course], space: Space, tell: Watch) -> tuple[list[Run], list[Trial]]:
    """The best few runs from the system whose filter does best, after few rounds; and trials of all others.

    The leading run is taken once more from the same system, improved by expectation maximisation.
    """
    if space.systems is None:
        return [], []
    sizes, recipes, alphas, em_iterations = space.systems
    courses = relating_pasts(courses, sorted({size.past for size in sizes}))
    known = [size for size in sizes if all(size.past in course.ground.related for course in courses)]
    plain = Candidate(recipes[0], space.learners[0])
    trials = screened([_begun_with(plain, size) for size in known], courses, tell)
    if not trials or not np.isfinite(min(t.error for t in trials)):
        return [], trials
    trials += screened([_begun_with(plain, size) for size in _between(_best(trials), known)], courses, tell)
    size = _best(trials)
    improved = [size._replace(em_iterations=n) for n in em_iterations if _affordable(courses, size)]
    courses = identifying_systems(courses, [size, *improved])

    def taken(tried: Iterable[Candidate]) -> list[Run]:
        return [advanced(run, FEW, tell) for run in runs(list(tried), courses)]

    tried = taken(_begun_with(plain._replace(recipe=recipe), size).with_alpha(alphas[0]) for recipe in recipes)
    best = min(tried, key=_latest_error).candidate
    first, *others = tried + taken(best.with_alpha(a) for a in alphas[1:])
    best = min([first, *others], key=_latest_error).candidate
    others += taken(_begun_with(best, better) for better in improved)  # round 0 is the same with every recipe
    others.sort(key=_latest_error)
    # the first has the simplest recipe, and wins wherever no round is better than the filter of the system
    return [first, *others[:N_FROM_SYSTEMS]], trials + [run.trial() for run in others[N_FROM_SYSTEMS:]]


def _affordable(courses: Sequence[Course], size: Size) -> bool:
    """Whether an iteration of expectation maximisation costs about as much as some rounds, at most.

    It costs far more where there are many states, and recordings of many lengths, which share no covariances.
    """
    train, window = courses[0].ground.train, courses[0].ground.features.window
    n = train.n_channels
    of_a_round = len(train.values) * (size.states + 3 * window * n) ** 2  # up to twice the window of lags, one ahead
    return products(train.offsets, n, size.states) <= AFFORDABLE * of_a_round


def _best(trials: Sequence[Trial]) -> Size:
    """The size of the system with the least error."""
    size = min(trials, key=lambda t: t.penalised_error).candidate.recipe.size
    assert size is not None
    return size


def _between(size: Size, known: Sequence[Size]) -> list[Size]:
    """Numbers of states halfway to the next ones on a logarithmic scale, within the range of those known."""
    of_past = [each.states for each in known if each.past == size.past]
    halfway = {round(size.states / np.sqrt(2)), round(size.states * np.sqrt(2))}
    tried = [s for s in sorted(halfway) if min(of_past) < s < max(of_past) and s not in of_past]
    return [size._replace(states=s) for s in tried]


def _begun_with(candidate: Candidate, size: Size) -> Candidate:
    return candidate._replace(recipe=replace(candidate.recipe, **size._asdict()))


def _latest_error(run: Run) -> float:
    """The error of the last round: runs from one system have F_0 in common."""
    return float(np.mean([lane.rounds[-1].error if lane.rounds else np.inf for lane in run.lanes]))
