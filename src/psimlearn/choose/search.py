"""Choosing ridge, prior, lags, belief weight, bandwidth and rank by closed-loop error on held-out trajectories.

Cheap first: F_0 of every candidate is scored, from the sums of one summary wherever arithmetic allows. The best few
then race for some rounds of DAgger, and the winner runs to the end. Filters of linear systems, identified from past and
future, begin courses of their own in the same race.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, cast

import numpy as np

from psimlearn.choose.candidates import Candidate, Trial, best_of_each_kind, worsened
from psimlearn.choose.courses import Course
from psimlearn.choose.edges import RIDGES, Point, around, point_of
from psimlearn.choose.runs import Run, advanced, race, runs, screened, with_ridge
from psimlearn.choose.space import Space
from psimlearn.choose.systems import FromSystems, from_systems, wide_beliefs
from psimlearn.choose.watch import Watch
from psimlearn.errors import DivergedError
from psimlearn.learners import RandomFourierRidge

__all__ = ["screened", "search"]

N_RACING = 3
"""How many kinds of candidates race."""
FINER = 10.0
"""The factor by which a ridge is varied around the best of a coarse grid."""
HARMLESS = 1.005
"""The error, relative to that of the full belief, up to which a compressed one will do."""


def search(
    courses: Sequence[Course], space: Space, n_rounds: int, tell: Watch, rivals: Sequence[Run] = ()
) -> tuple[Run, list[Trial]]:
    """Screen, race, and run the leader to the end.

    Args:
        courses: the splits of the recordings.
        space: the candidates.
        n_rounds: the number of rounds.
        tell: receives progress.
        rivals: runs of another space over the same courses: runs that cannot win against them end early.

    Returns:
        The winning run, and a trial of everything that was tried.
    """
    trials = screened(space.candidates(), courses, tell)
    tell(f"tried {len(trials)} settings before the first round; {_diverged(trials)} diverged")
    if space.refine and space.alphas:
        trials += _beyond_the_edges(trials, courses, tell)
        nearby = _nearby(best_of_each_kind(trials)[:N_RACING], space)
        trials += screened(_untried(nearby, trials), courses, tell)
        trials += _with_less_of_others(trials, space, courses, tell)
    kinds = best_of_each_kind(trials)
    begun = from_systems(courses, space, tell)
    trials += begun.trials
    finished = _raced(kinds, begun, courses, space, n_rounds, tell, rivals)
    trials += [run.trial() for run in finished]
    winner = min(finished, key=lambda run: run.penalised_error)
    if not np.isfinite(winner.penalised_error):
        raise DivergedError(
            f"required one of {len(trials)} settings with a finite closed-loop error, received none: every filter "
            "diverged. Check the recordings for wild values, or give more of them."
        )
    return winner, trials


def _with_less_of_others(trials: Sequence[Trial], space: Space, courses: Sequence[Course], tell: Watch) -> list[Trial]:
    """Trials in which other channels count less, around the best of each number of lags, and the best with a belief.

    Less of others is a larger penalty, so a smaller ridge may go with it.
    """
    if space.cross_weight is None:
        return []
    kinds, less = best_of_each_kind(trials), list[Candidate]()
    with_belief = [trial for trial in kinds if trial.candidate.recipe.belief_weight > 0]
    firsts = [*_first_of_each_lags(kinds), *_first_of_each_lags(with_belief)]
    for candidate in dict.fromkeys(trial.candidate for trial in firsts):
        recipe = replace(candidate.recipe, cross_weight=space.cross_weight)
        ridges = (candidate.alpha, candidate.alpha / FINER) if candidate.alpha else ()
        less += [candidate._replace(recipe=recipe).with_alpha(alpha) for alpha in ridges]
    tried = screened(less, courses, tell)
    best = best_of_each_kind(tried)[:1]
    if best and best[0].penalised_error < kinds[0].penalised_error:
        tried += screened(_untried(_nearby(best, space), tried), courses, tell)
    return tried


def _beyond_the_edges(trials: Sequence[Trial], courses: Sequence[Course], watch: Watch) -> list[Trial]:
    """Trials of random features beside the best, until the best lies inside the points tried, or at the ends."""
    more: list[Trial] = []
    while added := _beside(min([*trials, *more], key=lambda t: t.penalised_error), [*trials, *more]):
        fresh = screened(added, courses, watch)
        more += fresh
        if len(fresh) < len(added):  # the watch ended it
            break
    return more


def _beside(best: Trial, trials: Sequence[Trial]) -> list[Candidate]:
    """The points beside the best that were not tried; a bandwidth that is new is tried with every ridge."""
    learner = best.candidate.learner
    if not isinstance(learner, RandomFourierRidge) or not np.isfinite(best.error):
        return []
    alike = [t.candidate.learner for t in trials if t.candidate.recipe == best.candidate.recipe]
    tried = [point_of(each) for each in alike if isinstance(each, RandomFourierRidge)]
    points = around(point_of(learner), tried)
    widths = {p.bandwidth_factor for p in points} - {p.bandwidth_factor for p in tried}
    ridges = {p.alpha for p in (*tried, *points)}
    points += [Point(a, b) for a, b in product(sorted(ridges), sorted(widths)) if Point(a, b) not in points]
    return [best.candidate._replace(learner=replace(learner, **point._asdict())) for point in points]


def _raced(
    kinds: Sequence[Trial],
    others: FromSystems,
    courses: Sequence[Course],
    space: Space,
    n_rounds: int,
    tell: Watch,
    rivals: Sequence[Run],
) -> list[Run]:
    """The runs that may win, as far as each was taken; the leader of the race is the last.

    Besides the best kinds, runs from a system race, which have begun already.
    """
    # without a belief nothing changes from round to round: what was screened is final
    final = [t.candidate for t in kinds if t.candidate.recipe.belief_weight == 0][:1]
    entrants = _racing(kinds, space) if kinds[0].penalised_error <= space.hopeless else []
    begun = {run.candidate: run for run in runs([*final, *entrants], courses)}
    finished = [advanced(begun[candidate], 0) for candidate in final]
    rivals = [*rivals, *finished]
    some = max(1, n_rounds // 4)
    racing = [*(begun[candidate] for candidate in entrants), *others.racing]
    raced = race(
        racing[::-1] if wide_beliefs(courses) else racing, some, tell, rivals
    )  # the quick ones end the slow ones
    if not raced:
        return finished
    if space.refine and space.alphas:
        leader = min(raced, key=lambda run: run.penalised_error)
        raced += _other_ridges(leader, raced, others.waiting, rivals, some, tell)
    tell(f"{len(raced)} of them raced for {some} rounds; the best goes on to {n_rounds}")
    going = [run for run in raced if not _settled(run)] or raced
    leading = min(going, key=lambda run: run.penalised_error)
    leader = advanced(_compressed(leading, space.ranks, courses, some), n_rounds, tell, rivals)
    limit = worsened(leader.penalised_error, space.close)
    for run in raced:
        if run is not leading:
            close = run.candidate.recipe.lags != leading.candidate.recipe.lags and run.penalised_error <= limit
            finished.append(advanced(run, n_rounds, tell) if close else run)
    return [*finished, leader]


def _other_ridges(
    leader: Run, before: Sequence[Run], waiting: Sequence[Run], rivals: Sequence[Run], some: int, tell: Watch
) -> list[Run]:
    """Runs with ridges around that of the leader; random features go on beyond the edge, up to the end.

    Ridges with which the same candidate has raced before are not raced again, and runs that are waiting go on.
    """
    alpha = leader.candidate.alpha
    grows = isinstance(leader.candidate.learner, RandomFourierRidge)
    tried, begun = ({_rounded(run.candidate): run for run in some_runs} for some_runs in (before, waiting))
    found = {} if alpha is None else {alpha: leader}
    added = _around(alpha)
    while added:
        known = {a: tried.get(_rounded(leader.candidate.with_alpha(a))) for a in added}
        new = [a for a in added if known[a] is None]
        entrants = [begun.get(_rounded(leader.candidate.with_alpha(a))) or with_ridge(leader, a) for a in new]
        raced = race(entrants, some, tell, [*rivals, *found.values()])
        found |= {a: run for a, run in known.items() if run is not None} | dict(zip(new, raced, strict=True))
        best = min(found, key=lambda a: found[a].penalised_error)
        added = [a for a in RIDGES.beside(best, found) if a not in found] if grows else []
    return [run for run in found.values() if all(run is not other for other in before)]


def _settled(run: Run) -> bool:
    """Whether rounds led away from the filter of a system: that filter may win, but its run is not taken further."""
    return run.candidate.recipe.states is not None and run.trial().best_round == 0


def _compressed(run: Run, ranks: Sequence[int], courses: Sequence[Course], some: int) -> Run:
    """The run with the fewest directions fed back that does no harm so far; the states of a system are few already."""
    for rank in ranks if run.candidate.recipe.states is None else ():
        recipe = replace(run.candidate.recipe, rank=rank)
        (fewer,) = runs([run.candidate._replace(recipe=recipe)], courses)
        fewer = advanced(fewer, some)
        if fewer.penalised_error <= worsened(run.penalised_error, HARMLESS):
            return fewer
    return run


def _nearby(kinds: Sequence[Trial], space: Space) -> list[Candidate]:
    """Other ridges around the best kinds, and other weights around the very best."""
    best = kinds[0].candidate
    others: list[Candidate] = [
        best._replace(recipe=replace(best.recipe, **cast(dict[str, Any], {name: weight})))
        for name, weight in space.between
        if getattr(best.recipe, name) is not None
    ]
    return [t.candidate.with_alpha(a) for t in kinds for a in _around(t.candidate.alpha)] + others


def _untried(candidates: Sequence[Candidate], trials: Sequence[Trial]) -> list[Candidate]:
    """The candidates that no trial equals; a ridge that was divided and multiplied differs by rounding."""
    tried = {_rounded(trial.candidate) for trial in trials}
    return [candidate for candidate in candidates if _rounded(candidate) not in tried]


def _rounded(candidate: Candidate) -> tuple[Candidate, str]:
    return candidate.kind, f"{candidate.alpha or 0.0:.6e}"


def _racing(kinds: Sequence[Trial], space: Space) -> list[Candidate]:
    """The best kind with a belief for each number of lags, or the best of all kinds given one.

    More lags flatter F_0, and rounds of DAgger make up for fewer: so each number of lags has its runner.
    """
    if not space.racing_weights:
        with_belief = [trial for trial in kinds if trial.candidate.recipe.belief_weight > 0]
        return [trial.candidate for trial in _first_of_each_lags(with_belief)][:N_RACING]
    firsts = _first_of_each_lags(kinds)
    runners = [*firsts, *(trial for trial in kinds if trial not in firsts)][: N_RACING - 1]
    entrants = product(runners, (w for w in space.racing_weights if w > 0))
    return [t.candidate._replace(recipe=replace(t.candidate.recipe, belief_weight=w)) for t, w in entrants]


def _first_of_each_lags(kinds: Sequence[Trial]) -> list[Trial]:
    by_lags: dict[int, Trial] = {}
    for trial in kinds:
        by_lags.setdefault(trial.candidate.recipe.lags, trial)
    return list(by_lags.values())


def _around(alpha: float | None) -> list[float]:
    return [] if alpha is None else [alpha / FINER, alpha * FINER]


def _diverged(trials: Iterable[Trial]) -> int:
    return sum(not np.isfinite(t.error) for t in trials)
