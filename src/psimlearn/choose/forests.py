"""The search for trees: ridges and leaves are tried with few trees, and the best grows many.

The trees do not see the belief, and are tried without one: a filter that feeds back what trees remember of the training
recordings would learn to trust its beliefs too much.
"""

from collections.abc import Sequence
from dataclasses import replace
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
FEW, MANY = 3, 12
"""The number of trees on the errors of each ridge while settings are tried, and of the filter chosen."""
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
    recipes = _recipes(courses[0], settings, guide)
    kinds = [Candidate(recipe, RidgeAndTrees(alpha, n_trees=FEW)) for recipe in recipes for alpha in RIDGES]
    trials = screened(kinds, courses, tell)
    trials += screened([_with(_best(trials), min_leaf=leaf) for leaf in LEAVES[1:]], courses, tell)
    (run,) = runs([_with(_best(trials), n_trees=MANY)], courses)
    run = advanced(run, settings.n_rounds if run.candidate.recipe.belief_weight else 0, tell)
    if not np.isfinite(run.trial().error):
        raise DivergedError(
            "required trees with a finite closed-loop error, received none: every filter diverged. Use belief_weight=0 "
            "or learner='ridge', and check the recordings for wild values."
        )
    return run, [*trials, run.trial()]


def _recipes(course: Course, settings: Settings, guide: Recipe) -> list[Recipe]:
    """The guide, with the settings given; else with lags over two windows and no belief, on levels and on changes.

    A ridge on changes leaves less one step ahead, and a ridge on levels often more for trees several steps ahead.
    """
    if settings.literal:
        return [settings.standard]
    window = settings.features.window
    fits = 2 * window * course.ground.train.n_channels <= WIDEST
    lags = settings.lags or (2 * window if fits else guide.lags)
    recipe = replace(guide, lags=lags, belief_weight=settings.belief_weight or 0.0)
    levels = {recipe.level_weight, None} if settings.level_weight == "auto" else {recipe.level_weight}
    return [replace(recipe, level_weight=level) for level in sorted(levels, key=str)]


def _best(trials: Sequence[Trial]) -> Candidate:
    return min(trials, key=lambda trial: trial.penalised_error).candidate


def _with(candidate: Candidate, **changes: Any) -> Candidate:
    """The candidate with another setting of its trees."""
    assert isinstance(candidate.learner, RidgeAndTrees)
    return candidate._replace(learner=replace(candidate.learner, **changes))
