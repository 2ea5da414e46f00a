"""Runs: candidates on their way over all courses, as values that can be taken further round by round."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from psimlearn.choose.candidates import Candidate, Trial
from psimlearn.choose.courses import Course, Start, attempted, starts, with_alpha
from psimlearn.choose.watch import Watch
from psimlearn.errors import DivergedError
from psimlearn.train.dagger import Aggregation, first_round, next_round
from psimlearn.train.forward import step_by_step
from psimlearn.train.score import Round, forgets, scored

__all__ = ["Lane", "Run", "advanced", "best_of", "race", "runs", "with_ridge"]


PATIENCE = 6
"""The rounds without a better one after which a run ends."""
BEHIND = 1.05
"""The error, relative to that of a rival in the same round, beyond which a run that does not catch up ends."""


class Lane(NamedTuple):
    """A run on one of its courses."""

    course: Course
    start: Start | None
    """None if it diverged before the first round."""
    rounds: tuple[Round, ...] = ()
    stands: Aggregation | None = None
    """The value from which the next round goes on; None before the first."""
    over: bool = False
    """Whether there is no next round: it diverged, or Forward Training has made its only one."""


class Run(NamedTuple):
    """A candidate, and how far it has come on each course."""

    candidate: Candidate
    lanes: tuple[Lane, ...]

    def trial(self) -> Trial:
        """How the candidate did so far."""
        n_done = min(len(lane.rounds) for lane in self.lanes)
        at, error, stable = best_of([lane.rounds for lane in self.lanes])
        return Trial(self.candidate, n_done - 1, at, error, self.lanes[0].course.n_recordings, stable)

    def winners(self) -> list[Round]:
        """The best round, one filter for each course; DivergedError if there is none."""
        if not all(lane.rounds for lane in self.lanes):
            raise DivergedError(
                "required finite numbers in the first round, received a filter that diverged, and there are no other "
                "settings to try. Check the recordings for wild values, give more of them, or use a larger ridge."
            )
        return [lane.rounds[self.trial().best_round] for lane in self.lanes]


def runs(candidates: Sequence[Candidate], courses: Sequence[Course]) -> Iterator[Run]:
    """A run of each candidate, before its first round; candidates that share a base stand together."""
    for candidate, own in starts(candidates, courses):
        yield Run(candidate, tuple(Lane(course, start) for course, start in zip(courses, own, strict=True)))


def with_ridge(run: Run, alpha: float) -> Run:
    """A new run of the same candidate with another ridge, from the same starts."""
    lanes = tuple(Lane(lane.course, lane.start and attempted(with_alpha, lane.start, alpha)) for lane in run.lanes)
    return Run(run.candidate.with_alpha(alpha), lanes)


def race(entrants: Sequence[Run], upto: int, watch: Watch = Watch(), ahead: Sequence[Run] = ()) -> list[Run]:
    """Take runs to F_upto, one after the other; each ends early once it cannot win against one before it.

    Args:
        entrants: the runs.
        upto: the number of the last round.
        watch: receives progress.
        ahead: runs that have been taken so far already.
    """
    done = list(ahead)
    for run in entrants:
        done.append(advanced(run, upto, watch, done))
    return done[len(ahead) :]


def advanced(run: Run, upto: int, watch: Watch = Watch(), rivals: Sequence[Run] = ()) -> Run:
    """The run once F_upto has been scored, or its best round lies `PATIENCE` rounds back, or it trails a rival.

    Errors fall for some rounds, and then rise slowly or stay. A lane that diverges stays where it was, and so do all
    when cut short.
    """
    for number in range(upto + 1):
        if number > PATIENCE and run.trial().best_round < number - PATIENCE:
            break
        if any(_trails(run, rival) for rival in rivals):
            break
        lanes = (_further(lane) if len(lane.rounds) == number else lane for lane in run.lanes)
        run = run._replace(lanes=tuple(lanes))
        if not watch.goes_on("racing", number + 1, upto + 1):
            break
    return run


def _trails(run: Run, rival: Run) -> bool:
    """Whether a run was well behind another one in its last two rounds, and did not catch up between them."""
    errors, others = (_errors([lane.rounds for lane in each.lanes]) for each in (run, rival))
    n = len(errors)
    if n < 3 or len(others) < n or not np.isfinite([*errors[-2:], *others[n - 2 : n]]).all():
        return False
    before, now = (errors[i] / max(others[i], 1e-300) for i in (n - 2, n - 1))
    return now > BEHIND and now >= before


def _further(lane: Lane) -> Lane:
    """One round more."""
    if lane.over or lane.start is None:
        return lane
    begun, held = lane.start
    try:
        if lane.course.trainer == "forward":
            return lane._replace(rounds=(scored(0, step_by_step(begun, tail=True), held),), over=True)
        stands = first_round(begun, held) if lane.stands is None else next_round(lane.stands, begun, held)
    except DivergedError:
        return lane._replace(over=True)
    return lane._replace(rounds=(*lane.rounds, stands.round), stands=stands)


def best_of(rounds: Sequence[Sequence[Round]]) -> tuple[int, float, bool]:
    """The round with the least error averaged over courses, that error, and whether its filters forget their start.

    A filter that does not forget may have the least error on recordings that end before it diverges: such rounds count
    only if there are no others. (0, inf, True) if no error is finite.
    """
    errors = _errors(rounds)
    finite = [int(at) for at in np.argsort(errors, kind="stable") if np.isfinite(errors[at])]
    forgetting = (at for at in finite if all(forgets(lane[at].filter) for lane in rounds))
    at = next(forgetting, None)
    if at is None:
        return (finite[0], errors[finite[0]], False) if finite else (0, np.inf, True)
    return at, errors[at], True


def _errors(rounds: Sequence[Sequence[Round]]) -> list[float]:
    """The error of each round that all courses have had, averaged over courses."""
    return [float(np.mean([r.error for r in same])) for same in zip(*rounds, strict=False)]
