"""The parts of fitting that differ between numbers and symbols, as one value that is picked once."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from psimlearn.choose.candidates import Trial
from psimlearn.choose.courses import Course
from psimlearn.choose.runs import Run
from psimlearn.choose.settings import Settings
from psimlearn.choose.splits import Split
from psimlearn.choose.watch import Watch
from psimlearn.evaluate import Forecaster
from psimlearn.evaluate.calibrate import Unseen
from psimlearn.filter import Filter
from psimlearn.learners import Learner
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.train.recipe import Recipe

__all__ = ["Methods", "Strategy"]

Methods = Mapping[str, Sequence[Forecaster]]
"""Forecasters by name, one for each split; none for a method that could not be fitted."""


class Strategy(NamedTuple):
    """How to choose, compare and calibrate filters of one sort of observations."""

    search: Callable[[Sequence[Course], Settings, Trajectories, Watch], tuple[Run, list[Trial]]]
    """The winning run and all trials, where the learner is named but not given."""
    cautious: Callable[[Settings, Trajectories], Learner[Any]]
    """The learner where there is too little data to choose one."""
    baselines: Callable[[Sequence[Split], Sequence[Course], Sequence[Trial], Settings], Methods]
    """Simple methods to compare with; without courses, only methods that need nothing to be chosen."""
    errors: Callable[[Methods, Sequence[Split], int], dict[str, list[float]]]
    """Held-out errors of baselines and of "PSIM" by horizon, up to the window at most."""
    calibrated: Callable[[Filter, Sequence[Unseen], Sequence[Unseen]], Filter]
    """The filter with its uncertainty, from filters like it and the recordings that they were not fitted to, and from
    recordings whose first rows show how errors begin."""
    tolerance: float
    """A filter of all recordings is dropped if its error, on rows that it has seen, exceeds this times the held-out."""
    units: Callable[[Recipe], str]
    """The unit of errors, in words."""
