"""The search for trees: settings are changed one after the other with few trees, and the best grows many.

The trees do not see the belief, and are tried without one: a filter that feeds back what trees remember of the training
recordings would learn to trust its beliefs too much.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from psimlearn.choose.candidates import Candidate, Trial
from psimlearn.choose.courses import Course
from psimlearn.choose.runs import Run, advanced, runs
from psimlearn.choose.search import screened
from psimlearn.choose.settings import Settings
from psimlearn.choose.watch import Watch
from psimlearn.errors import DivergedError
from psimlearn.learners.trees import RidgeAndTrees
from psimlearn.train.recipe import Recipe

__all__ = ["enough_for_trees", "tree_search"]

RIDGES = (1e-8, 1e-5)
"""The weakest ridge of several: see `RidgeAndTrees`."""
LEAVES = (2, 6)
"""The fewest examples in a leaf: few where the data have little noise."""
FEATURES = 1000
"""Random features beside the ridges: trees are good at later rows, and random features at the next one."""
FEW, MANY = 3, 12
"""The number of trees on the errors of each ridge while settings are tried, and of the filter chosen."""
SAMPLE = 6000
"""The most examples that trees learn from while settings are tried."""
TRIED = RidgeAndTrees(RIDGES[0], n_trees=FEW, max_rows=SAMPLE)
"""The learner whose settings are changed."""
WIDEST = 3000
"""The most columns of lags."""
ENOUGH_ROWS = 1000
"""Rows to learn from below which `learner="auto"` does not try trees."""


def enough_for_trees(courses: Sequence[Course], settings: Settings) -> bool:
    """Whether `learner="auto"` tries trees: other trainers than DAgger need gradients, or learn little at a time."""
    rows = min(len(course.ground.train.values) for course in courses)
    return settings.trainer == "dagger" and rows >= ENOUGH_ROWS


def tree_search(courses: Sequence[Course], settings: Settings, guide: Recipe, tell: Watch) -> tuple[Run, list[Trial]]:
    """The best trees, with the prior of `guide`, with which linear regression did best, and perhaps its level weight.

    Returns:
        The winning run, and a trial of everything that was tried.
    """
    first = Candidate(_first_recipe(courses[0], settings, guide), TRIED)
    trials = screened([first], courses, tell)
    for axis in _axes(settings):
        for change in axis:
            best = _best(trials)
            added = change(best)
            trials += screened([added], courses, tell) if added != best else []
            if _best(trials) == best:  # values beyond a worse one are left out
                break
    (run,) = runs([_with(_best(trials), n_trees=MANY, max_rows=RidgeAndTrees.max_rows)], courses)
    run = advanced(run, settings.n_rounds if run.candidate.recipe.belief_weight else 0, tell)
    if not np.isfinite(run.trial().error):
        raise DivergedError(
            "required trees with a finite closed-loop error, received none: every filter diverged. Use belief_weight=0 "
            "or learner='ridge', and check the recordings for wild values."
        )
    return run, [*trials, run.trial()]


Change = Callable[[Candidate], Candidate]


def _first_recipe(course: Course, settings: Settings, guide: Recipe) -> Recipe:
    """The guide, with the settings given; else with lags over two windows and no belief."""
    if settings.literal:
        return settings.standard
    window = settings.features.window
    fits = 2 * window * course.ground.train.n_channels <= WIDEST
    lags = settings.lags or (2 * window if fits else guide.lags)
    return replace(guide, lags=lags, belief_weight=settings.belief_weight or 0.0)


def _axes(settings: Settings) -> Iterator[list[Change]]:
    """The settings that are tried in turn: the values of each, as changes of the best candidate so far.

    A ridge on changes leaves less one step ahead, and a ridge on levels often more for trees several steps ahead.
    """
    yield [partial(_with, alpha=alpha) for alpha in RIDGES[1:]]
    if not settings.literal and settings.lags is None:
        yield [_recipe(lags=settings.features.window)]
    if not settings.literal and settings.level_weight == "auto":
        yield [_recipe(level_weight=None)]
    yield [partial(_with, min_leaf=leaf) for leaf in LEAVES[1:]]
    yield [partial(_with, n_features=FEATURES)]


def _recipe(**changes: Any) -> Change:
    """A change of the recipe."""
    return lambda candidate: candidate._replace(recipe=replace(candidate.recipe, **changes))


def _best(trials: Sequence[Trial]) -> Candidate:
    return min(trials, key=lambda trial: trial.penalised_error).candidate


def _with(candidate: Candidate, **changes: Any) -> Candidate:
    """The candidate with another setting of its trees."""
    assert isinstance(candidate.learner, RidgeAndTrees)
    return candidate._replace(learner=replace(candidate.learner, **changes))
