"""Choosing for numbers: linear regression, random features, trees, or the best of these."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from psimlearn.baselines import LastObservation, TrainingMean
from psimlearn.choose.candidates import Trial
from psimlearn.choose.courses import Course, attempted, laid_out, start
from psimlearn.choose.firstrows import better, without_first_rows
from psimlearn.choose.forests import enough_for_trees, tree_search
from psimlearn.choose.remembering import remembering_search, tries_remembering
from psimlearn.choose.runs import Run
from psimlearn.choose.search import screened, search
from psimlearn.choose.settings import Settings
from psimlearn.choose.space import Space
from psimlearn.choose.spaces import RIDGES, fourier_space, linear_space, n_fourier
from psimlearn.choose.splits import Split
from psimlearn.choose.strategy import Methods, Strategy
from psimlearn.choose.summary import error_table
from psimlearn.choose.watch import Watch
from psimlearn.evaluate.calibrate import with_calibration
from psimlearn.filter import Filter, Stack
from psimlearn.learners import Learner, RandomFourierRidge, Ridge
from psimlearn.learners.trees import RidgeAndTrees
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.train.recipe import Recipe

__all__ = ["NUMBERS", "hopeless"]

CAUTIOUS = 1.0
"""The ridge where there is too little data to choose one."""
MARGIN = 1.02
"""See `hopeless`."""
WORSE = 1.005
"""See `Strategy.tolerance`."""


def _search(courses: Sequence[Course], settings: Settings, data: Trajectories, tell: Watch) -> tuple[Run, list[Trial]]:
    linear = linear_space(settings, data)
    if settings.learner == "ridge":
        return _linear_search(courses, linear, settings.n_rounds, tell)
    finished: list[Run] = []
    if settings.learner == "auto":
        first, trials = _linear_search(courses, linear, settings.n_rounds, tell)
        finished, guide = [first], first.candidate.recipe
    else:
        trials = screened(linear.candidates(), courses, tell)
        guide = min(trials, key=lambda t: t.penalised_error).candidate.recipe
    guide = replace(guide, states=None, cross_weight=1.0)  # which others do not know
    # trees before random features, whose rounds cost most: those that trail the trees end early
    if settings.learner == "trees" or (settings.learner == "auto" and enough_for_trees(courses, settings)):
        tell("trees")
        finished, trials = _together(finished, trials, tree_search, courses, settings, guide, tell)
    if settings.learner in ("auto", "rff"):
        tell("random features")
        n_features = n_fourier(courses[0].ground.train)
        fourier = fourier_space(settings, data, guide, n_features)
        fourier = fourier._replace(hopeless=hopeless(trials, finished) if settings.belief_weight is None else np.inf)
        finished, trials = _together(finished, trials, search, courses, fourier, settings.n_rounds, tell, finished)
        if settings.learner == "auto" and tries_remembering(settings):
            tell("random features of the belief and the last row")
            given = (courses, settings, n_features, tell, finished)
            finished, trials = _together(finished, trials, remembering_search, *given)
    return min(finished, key=lambda run: run.penalised_error), trials  # the first of equals


def _together(finished: list[Run], trials: list[Trial], step: Callable[..., Any], *given: Any) -> Any:
    """The runs and trials so far with those of one more search; without, if it diverges and others have finished."""
    found = attempted(step, *given) if finished else step(*given)
    return (finished, trials) if found is None else ([*finished, found[0]], trials + found[1])


def _linear_search(courses: Sequence[Course], space: Space, n_rounds: int, tell: Watch) -> tuple[Run, list[Trial]]:
    """The best of linear regressions; of later rows only, where examples of first rows mislead."""
    run, trials = search(courses, space, n_rounds, tell)
    later = without_first_rows(trials, courses, space, tell)
    if later is None:
        return run, trials
    tell("first rows may mislead: filters that learn from later rows")
    found = attempted(search, *later, n_rounds, tell, [run])
    return (run, trials) if found is None else (better(run, found[0]), trials + found[1])


def hopeless(trials: Sequence[Trial], rivals: Sequence[Run]) -> float:
    """The error of random features without a belief beyond which a belief would not make them win against the rivals.

    It would have to take off clearly more than a belief takes off the error of linear regression.
    """
    linear = [trial for trial in trials if isinstance(trial.candidate.learner, Ridge)]
    without, with_belief = (
        min((trial.error for trial in linear if bool(trial.candidate.recipe.belief_weight) is fed), default=np.inf)
        for fed in (False, True)
    )
    if not (0 < with_belief < np.inf and 0 < without < np.inf):
        return np.inf
    left = min(1.0, with_belief / without)
    least = min((run.penalised_error for run in rivals), default=np.inf)
    return MARGIN * least / left


def _cautious(settings: Settings, data: Trajectories) -> Learner[Any]:
    if settings.learner == "trees":
        return RidgeAndTrees(CAUTIOUS)
    return RandomFourierRidge(n_fourier(data), CAUTIOUS) if settings.learner == "rff" else Ridge(CAUTIOUS)


def _baselines(
    splits: Sequence[Split], courses: Sequence[Course], trials: Sequence[Trial], settings: Settings
) -> Methods:
    return {
        "training mean": [TrainingMean.fit(split.train) for split in splits],
        "last observation": [LastObservation.fit(split.train) for split in splits],
        "autoregression": _autoregressions(courses, trials, settings) if courses else [],
    }


def _autoregressions(courses: Sequence[Course], trials: Sequence[Trial], settings: Settings) -> list[Filter]:
    """The best direct autoregression by ridge, one for each course: among the trials, or tried now."""
    direct = [t for t in trials if t.candidate.recipe.belief_weight == 0 and isinstance(t.candidate.learner, Ridge)]
    tried = [t for t in direct if not t.candidate.recipe.skip]  # errors of first rows count in the table
    if settings.trainer == "forward" or not tried:
        plain = Recipe(lags=settings.features.window, belief_weight=0.0)
        courses = [
            laid_out(
                course.ground.train,
                course.validation,
                Stack(settings.features.window),
                plain,
                criterion=course.criterion,
                seed=course.seed,
                n_recordings=course.n_recordings,
                opens=course.opens,
            )
            for course in courses
        ]
        tried = screened(Space((Ridge(),), (plain, replace(plain, prior="last")), RIDGES).candidates(), courses)
    best = min(tried, key=lambda t: t.error)
    return [start(best.candidate, course).begun.filter for course in courses] if np.isfinite(best.error) else []


def _errors(methods: Methods, splits: Sequence[Split], window: int) -> dict[str, list[float]]:
    """Squared errors by horizon, each channel in the unit of the filter of its split."""
    filters = [filter for filter in methods["PSIM"] if isinstance(filter, Filter)]
    horizon = max(1, min(window, *(int(split.held.lengths.max()) - 1 for split in splits)))
    held = [(split.held, filter.scaling.scale) for split, filter in zip(splits, filters, strict=True)]
    return error_table(methods, held, horizon)


def _units(recipe: Recipe) -> str:
    return "standard deviations" if recipe.standardise else "units of the recordings"


NUMBERS = Strategy(_search, _cautious, _baselines, _errors, with_calibration, WORSE, _units)
