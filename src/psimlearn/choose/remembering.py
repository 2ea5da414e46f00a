"""Random features of the belief and the last row alone, as in the paper: filters for noise, in which rows forget.

Random features of several rows see the noise of all of them. With one row, the belief has to remember, and it averages
noise away. F_0 says nothing of that: its beliefs come from a regression, and its errors are often wild. So points of
the grid race for a few rounds of DAgger, and the best goes on.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

from psimlearn.choose.candidates import Candidate, Trial
from psimlearn.choose.courses import Course
from psimlearn.choose.edges import Point, around, point_of
from psimlearn.choose.runs import Run, advanced, race, runs
from psimlearn.choose.settings import Settings
from psimlearn.choose.watch import Watch
from psimlearn.learners import RandomFourierRidge

__all__ = ["remembering_search", "tries_remembering"]

FEATURES = 600
"""The most random features."""
FIRST, *GRID = (Point(alpha, width) for alpha, width in product((1e-5, 1e-7, 1e-3), (1.0, 2.0)))
"""The first points; the grid grows beyond the best."""
FEW = 3
"""The rounds after which the best point is known."""
FAR = 1.15
"""The error of the first point after these rounds, relative to the best rival, beyond which no other point is tried."""


def tries_remembering(settings: Settings) -> bool:
    """Whether users leave lags, prior and weights to us."""
    given = (settings.lags, settings.prior, settings.belief_weight, settings.rank)
    return not settings.literal and settings.level_weight == "auto" and all(value is None for value in given)


def remembering_search(
    courses: Sequence[Course], settings: Settings, n_features: int, tell: Watch, rivals: Sequence[Run]
) -> tuple[Run, list[Trial]]:
    """Race points of the grid unless the first is far behind, and take the best to the end unless it trails a rival.

    Args:
        courses: the splits of the recordings.
        settings: the number of rounds, and the parts of the recipe that are not chosen.
        n_features: how many random features the rows can teach.
        tell: receives progress.
        rivals: runs to beat.

    Returns:
        The leading run, and a trial of everything that was tried.
    """
    recipe = replace(settings.standard, lags=1, prior="mean", belief_weight=1.0, level_weight=None)
    learner = RandomFourierRidge(min(FEATURES, n_features), raw_inputs=False)
    raced: list[Run] = []

    def leading(points: Sequence[Point]) -> Run:
        entrants = [Candidate(recipe, replace(learner, **point._asdict())) for point in points]
        raced.extend(race(list(runs(entrants, courses)), FEW, tell))
        return min(raced, key=lambda run: run.penalised_error)

    leader = leading([FIRST])
    if not leader.penalised_error <= FAR * min(run.penalised_error for run in rivals):
        return leader, [leader.trial()]
    leader = leading(GRID)
    while points := around(_point(leader), [_point(run) for run in raced]):
        leader = leading(points)
    finished = advanced(leader, settings.n_rounds, tell, rivals)
    return finished, [run.trial() for run in raced if run is not leader] + [finished.trial()]


def _point(run: Run) -> Point:
    assert isinstance(run.candidate.learner, RandomFourierRidge)
    return point_of(run.candidate.learner)
