"""Runs: candidates on their way over all courses, as values that can be taken further round by round."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from psimlearn.choose.candidates import Candidate, Trial
from psimlearn.choose.courses import Course, Start, Starts, attempted, starts, with_alpha
from psimlearn.choose.journal import Path, taken_further
from psimlearn.choose.watch import Watch
from psimlearn.errors import DivergedError
from psimlearn.factors import FAILURES
from psimlearn.learners import GramSums
from psimlearn.train.dagger import Aggregation, aggregation, first_round, next_round
from psimlearn.train.examples import Begun
from psimlearn.train.forward import step_by_step
from psimlearn.train.score import HeldOut, Round, forgets, scored

__all__ = [
    "WIDE",
    "Lane",
    "Run",
    "advanced",
    "best_of",
    "first_trials",
    "path_from",
    "race",
    "runs",
    "screened",
    "with_first_round_of",
    "with_ridge",
]


PATIENCE = 6
"""The rounds without a better one after which a run ends."""
WIDE = 400
"""The inputs of a regression from which fewer ridges are tried."""
BEHIND, BEHIND_WIDE = 1.05, 1.001
"""The error, relative to that of a rival in the same round, beyond which a run ends that would not catch up.

Rounds of wide regressions take long, so that runs which are a little behind and gain next to nothing end too.
"""
FEW = 2
"""The courses on which every candidate is scored before its first round; on the others only if it is not far behind."""
FAR_BEHIND = 1.1
"""The error on these courses, relative to that of the best like candidate, beyond which a candidate is far behind."""


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

    @property
    def penalised_error(self) -> float:
        """The error that ranks runs: see `Trial`."""
        return self.trial().penalised_error

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
    for ridges, of_kind in starts(candidates, courses):
        for candidate in ridges:
            yield _begun(candidate, courses, of_kind)


def screened(candidates: Sequence[Candidate], courses: Sequence[Course], watch: Watch = Watch()) -> list[Trial]:
    """A trial of F_0 of each candidate; if the watch ends it early, of fewer, but of one at least."""
    trials: dict[Candidate, Trial] = {}
    for done, trial in enumerate(first_trials(candidates, courses), start=1):
        trials[trial.candidate] = trial
        if not watch.goes_on("trying settings", done, len(candidates)):
            break
    return [trials[candidate] for candidate in candidates if candidate in trials]


def first_trials(candidates: Sequence[Candidate], courses: Sequence[Course]) -> Iterator[Trial]:
    """A trial of F_0 of each candidate; in wide regressions, not with ridges that lie beyond worse ones.

    Of several courses, candidates that are far behind a like one on the first few are not scored on the others: their
    error is estimated.
    """
    best: dict[tuple[str, bool], Trial] = {}
    ahead: dict[tuple[int, bool, bool], _First] = {}
    for ridges, of_kind in starts(candidates, courses):
        recipe = ridges[0].recipe
        if _wide(of_kind[0]()):
            alike = (recipe.prior, recipe.belief_weight > 0)
            found = list(_downhill(ridges, courses, of_kind, best.get(alike)))
            best[alike] = min(found, key=lambda trial: trial.penalised_error)
            yield from found
        else:
            like = (recipe.lags, recipe.belief_weight > 0, recipe.states is not None)
            for candidate in ridges:
                first = _first_trial(candidate, courses, of_kind, ahead.get(like))
                ahead[like] = min(ahead.get(like, first), first, key=lambda each: each.trial.penalised_error)
                yield first.trial


def _begun(candidate: Candidate, courses: Sequence[Course], of_kind: Starts) -> Run:
    """A run from the starts of its kind."""
    begun = ((start := found()) and attempted(with_alpha, start, candidate.alpha) for found in of_kind)
    return Run(candidate, tuple(Lane(course, start) for course, start in zip(courses, begun, strict=True)))


def _wide(start: Start | None) -> bool:
    """Whether a trial of this start takes long."""
    sums = start.begun.training.same[1] if start and start.begun.training.same else None
    return isinstance(sums, GramSums) and len(sums.z) >= WIDE


def _downhill(
    ridges: Sequence[Candidate], courses: Sequence[Course], of_kind: Starts, like: Trial | None
) -> Iterator[Trial]:
    """Trials of F_0 of some candidates that differ in the ridge: from one on, towards less error.

    The first has the ridge that was best for a candidate `like` these, or lies in the middle. Of ridges with which all
    is lost, the largest is the best.
    """
    rising = sorted(ridges, key=lambda candidate: candidate.alpha or 0.0)
    middle = len(rising) // 2
    added = [next((i for i, each in enumerate(rising) if like and each.alpha == like.candidate.alpha), middle)]
    found: dict[int, Trial] = {}
    while added:
        at = added[0]
        found[at] = _first_trial(rising[at], courses, of_kind).trial
        yield found[at]
        best = min(found, key=lambda at: (found[at].penalised_error, -at))
        added = [at for at in (best + 1, best - 1) if 0 <= at < len(rising) and at not in found]


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
        if any(_trails(run, rival, upto) for rival in rivals):
            break
        lanes = (_further(lane, run.candidate) if len(lane.rounds) == number else lane for lane in run.lanes)
        run = run._replace(lanes=tuple(lanes))
        if not watch.goes_on("racing", number + 1, upto + 1):
            break
    return run


def _trails(run: Run, rival: Run, upto: int) -> bool:
    """Whether a run is well behind another one, and would not catch up by F_upto at its present pace.

    Its pace is that of the last round; later rounds gain less. The first round alone tells a pace only where rounds
    take long, and its errors have risen.
    """
    errors, others = (_errors([lane.rounds for lane in each.lanes]) for each in (run, rival))
    n, wide = len(errors), any(_wide(lane.start) for lane in run.lanes)
    if rival.candidate.recipe.belief_weight == 0:  # nothing changes from round to round
        others = others[:1] * n
    if n < 2 or len(others) < n or not np.isfinite([*errors[-2:], *others[n - 2 : n]]).all():
        return False
    before, now = (errors[i] / max(others[i], 1e-300) for i in (n - 2, n - 1))
    if n == 2 and not (wide and errors[1] > errors[0] and now > BEHIND):
        return False
    if now <= (BEHIND_WIDE if wide else BEHIND) or before <= 0:
        return False
    return bool(np.log(now) + (upto + 1 - n) * (np.log(now) - np.log(before)) > 0)


def _further(lane: Lane, candidate: Candidate) -> Lane:
    """One round more."""
    if lane.over or lane.start is None:
        return lane
    begun, held = lane.start
    try:
        if lane.course.trainer == "forward":
            return lane._replace(rounds=(scored(0, step_by_step(begun, tail=True), held),), over=True)
        stands = _next_round(lane.course, candidate, lane.start, lane.stands)
    except FAILURES:
        return lane._replace(over=True)
    return lane._replace(rounds=(*lane.rounds, stands.round), stands=stands)


def path_from(begun: Begun, held: HeldOut) -> Path:
    """The rounds of DAgger from this beginning."""
    return Path(lambda: first_round(begun, held), lambda current: next_round(current, begun, held))


def _next_round(course: Course, candidate: Candidate, start: Start, current: Aggregation | None) -> Aggregation:
    """The next round of DAgger: from the journal of the course, or computed."""
    lane = None if current is None else course.journal.lane(course.name, candidate, start.begun.filter)
    return taken_further(course.journal, lane, path_from(*start), current)


def with_first_round_of(other: Run, run: Run) -> Run:
    """The run with F_0 scored as that of another one, which makes the same predictions."""
    return run._replace(lanes=tuple(map(_with_first_round_of, other.lanes, run.lanes)))


def _with_first_round_of(other: Lane, lane: Lane) -> Lane:
    if not other.rounds or lane.start is None or lane.rounds:
        return lane
    begun, first = lane.start.begun, other.rounds[0]
    round = first._replace(filter=replace(begun.filter, covariance=first.filter.covariance))
    return lane._replace(rounds=(round,), stands=aggregation(round, begun.sums))


class _First(NamedTuple):
    """A trial of F_0, and its error on the first few courses."""

    trial: Trial
    early: float


def _first_trial(
    candidate: Candidate, courses: Sequence[Course], of_kind: Starts, ahead: _First | None = None
) -> _First:
    """The trial of F_0: from the journal of the courses, or by scoring it; on all of them unless it is far behind."""
    course, some = courses[0], _begun(candidate, courses[:FEW], of_kind[:FEW])
    lane = course.journal.lane(
        f"{course.name} trial", candidate, *(lane.start and lane.start.begun.filter for lane in some.lanes)
    )
    known = None if lane is None else course.journal.recall_numbers(lane)
    if known is not None:
        early, error, at, stable, estimated = known
        trial = Trial(candidate, 0, int(at), error, course.n_recordings, bool(stable), bool(estimated))
        return _First(trial, early)
    run = advanced(some, 0)
    trial = run.trial()
    early = trial.error
    if len(courses) > FEW and ahead is not None and early > FAR_BEHIND * ahead.early > 0:
        trial = trial._replace(error=early * ahead.trial.error / ahead.early, estimated=True)
    elif len(courses) > FEW:
        others = advanced(_begun(candidate, courses[FEW:], of_kind[FEW:]), 0)
        trial = run._replace(lanes=run.lanes + others.lanes).trial()
    trial = trial._replace(n_rounds=0)
    if lane is not None:
        numbers = (early, trial.error, float(trial.best_round), float(trial.forgets), float(trial.estimated))
        course.journal.keep_numbers(lane, numbers)
    return _First(trial, early)


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
