"""Choosing ridge, prior, lags, belief weight, bandwidth and rank by closed-loop error on held-out trajectories.

Cheap first: F_0 of every candidate is scored, from the sums of one summary wherever arithmetic allows. The best few
then race for some rounds of DAgger, and the winner runs to the end.
"""

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, NamedTuple, cast

import numpy as np

from psimlearn.choose.settings import Trainer
from psimlearn.choose.watch import Watch
from psimlearn.errors import DivergedError
from psimlearn.filter.features import Features, Stack
from psimlearn.filter.filter import Filter
from psimlearn.learners.ridge import Learner, Ridge
from psimlearn.learners.symbolic import SymbolRidge
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.train.backprop import backprop, randomised
from psimlearn.train.dagger import aggregate
from psimlearn.train.derived import OnSums, revised, with_ridge, with_share
from psimlearn.train.forward import step_by_step
from psimlearn.train.losses import Loss, Squared
from psimlearn.train.recipe import Init, Recipe
from psimlearn.train.score import Criterion, HeldOut, Round, held_out, scored
from psimlearn.train.start import Beginning, Ground, begin, ground

__all__ = ["Candidate", "Course", "Run", "Space", "Trial", "screened", "search"]

N_RACING = 3
"""How many kinds of candidates race."""
FINER = 10.0
"""The factor by which a ridge is varied around the best of a coarse grid."""
HARMLESS = 1.005
"""The error, relative to that of the full belief, up to which a compressed one will do."""
OFFSETS = 1.6
"""The doubt about the level of a new recording, over the square of how many there are: see `Trial.judged`."""
DOUBT = 0.002
"""Of beliefs that are all contexts."""


class Candidate(NamedTuple):
    """One setting of everything that is chosen."""

    recipe: Recipe
    learner: Learner[Any]

    @property
    def alpha(self) -> float | None:
        """The ridge, where the learner has one."""
        return self.learner.alpha if isinstance(self.learner, OnSums) else None

    def with_alpha(self, alpha: float) -> "Candidate":
        """The same with another ridge."""
        assert isinstance(self.learner, OnSums)
        return self._replace(learner=replace(self.learner, alpha=alpha))

    @property
    def kind(self) -> "Candidate":
        """All of it but the ridge."""
        return self if self.alpha is None else self.with_alpha(1.0)


class Trial(NamedTuple):
    """A candidate and how it did."""

    candidate: Candidate
    n_rounds: int
    """How many rounds of DAgger it was given."""
    best_round: int
    error: float
    """By the criterion, averaged over splits; inf if it diverged on any."""
    n_recordings: int
    """On how many recordings all this rests."""

    @property
    def judged(self) -> float:
        """The error that decides: one that depends on levels counts for a little more where recordings are few.

        A new recording may have an offset of its own, and few recordings tell little about offsets: those held out
        are not quite new, since settings and units were made with them at hand. Of symbols, beliefs that are contexts
        for the most part have to gain a little: smaller differences in nats are chance.
        """
        recipe, learner = self.candidate
        if isinstance(learner, SymbolRidge):
            return self.error * (1 + DOUBT * learner.floor)
        dependence = 1.0 if recipe.level_weight is None else min(recipe.level_weight, 1.0)
        doubt = OFFSETS / self.n_recordings**2 if self.n_recordings > 1 else 0.0
        return self.error * (1 + doubt * dependence)

    def row(self) -> dict[str, Any]:
        """As a row of a table."""
        recipe, learner = self.candidate
        return {
            "learner": type(learner).__name__,
            "alpha": self.candidate.alpha,
            "bandwidth_factor": getattr(learner, "bandwidth_factor", None),
            "floor": getattr(learner, "floor", None),
            "strength": getattr(learner, "strength", None),
            "lags": recipe.lags,
            "prior": recipe.prior,
            "belief_weight": recipe.belief_weight,
            "level_weight": recipe.level_weight,
            "rank": recipe.rank,
            "n_rounds": self.n_rounds,
            "best_round": self.best_round,
            "error": self.error,
        }


class Space(NamedTuple):
    """What is tried; every combination of kinds, each with every ridge."""

    learners: tuple[Learner[Any], ...]
    recipes: tuple[Recipe, ...]
    alphas: tuple[float, ...] = ()
    """Ridges in rising order, for learners that have one; none takes the learner's own."""
    refine: bool = True
    """Whether to try ridges between and beyond those."""
    racing_weights: tuple[float, ...] = ()
    """Belief weights with which the best enter the race, where F_0 says nothing about them; none for their own."""

    between: tuple[tuple[str, float], ...] = ()
    """Weights of a recipe, by name, to be tried as well around the best."""
    ranks: tuple[int, ...] = ()
    """Numbers of directions to be fed back instead of all, if it does no harm; fewest first."""
    others: tuple[Candidate, ...] = ()
    """Candidates to be tried as they are, beside every combination."""
    close: float = 0.0
    """The error, relative to the best, up to which those with other lags go on after the race as well."""

    def candidates(self) -> list[Candidate]:
        """Those that can share sums stand together."""
        kinds = [Candidate(recipe, learner) for learner, recipe in product(self.learners, self.recipes)]
        own = [kind.with_alpha(a) if a else kind for kind in kinds for a in self.alphas or (None,)]
        return [*own, *self.others]


@dataclass(eq=False)
class Course:
    """One split of the recordings, over which candidates run. The last beginning is kept for those that share it."""

    train: Trajectories
    validation: Trajectories
    features: Features
    init: Init
    criterion: Criterion
    trainer: Trainer
    seed: int
    n_recordings: int
    """Of the whole data, all splits together."""
    standard: Recipe
    """What all candidates have in common."""
    loss: Loss = field(default_factory=Squared)
    _ground: Ground | None = field(default=None, init=False)
    _kept: dict[Any, tuple[Beginning, HeldOut]] = field(default_factory=dict, init=False)

    def rounds(self, candidate: Candidate, n_rounds: int) -> Generator[Round, None, Any]:
        """Train a candidate, round by round; the generator returns the learner's summary of all that was met."""
        begun, held = self.start(candidate)
        if self.trainer != "forward":
            return (yield from aggregate(begun, held, n_rounds))
        yield scored(0, step_by_step(begun, tail=True), held)
        return None

    def descent(self, learnt: Filter, n_epochs: int, patience: int) -> Iterator[Round]:
        """Epochs of back-propagation: on from what DAgger has learnt, or from random weights in its stead."""
        common: dict[str, Any] = {"n_epochs": n_epochs, "patience": patience, "criterion": self.criterion}
        if self.trainer == "dagger+backprop":
            return backprop(self.train, self.validation, learnt, optimiser="lbfgs", **common)
        start = randomised(learnt, np.random.default_rng(self.seed))
        return backprop(self.train, self.validation, start, optimiser="rmsprop", seed=self.seed, **common)

    def start(self, candidate: Candidate) -> tuple[Beginning, HeldOut]:
        """Where a candidate begins: from scratch, or from a beginning that differs by what sums can account for."""
        if candidate.alpha is None or self.init == "zero":
            return self._begin(candidate)
        begun, held = self._of_kind(candidate.kind)
        return with_ridge(begun, candidate.alpha), held

    def _of_kind(self, kind: Candidate) -> tuple[Beginning, HeldOut]:
        """A beginning without its F_0; the last one, and the last that others could be derived from, are kept."""
        recipe = kind.recipe
        if kind in self._kept:
            return self._kept[kind]
        if isinstance(kind.learner, SymbolRidge):
            learner = kind.learner
            base = kind._replace(learner=replace(learner, floor=0.0, strength=1.0))
            begun, held = self._kept[base] if base in self._kept else self._begin(base)
            self._kept = {base: (begun, held), kind: (with_share(begun, learner.floor, learner.strength), held)}
            return self._kept[kind]
        if not (isinstance(kind.learner, Ridge) and isinstance(self.features, Stack) and recipe.prior != "zero"):
            self._kept = {kind: self._begin(kind)}
            return self._kept[kind]
        base = kind._replace(recipe=replace(recipe, prior="mean", belief_weight=1.0, level_weight=None))
        begun, held = self._kept[base] if base in self._kept else self._begin(base)
        derived = revised(begun, recipe.prior, recipe.belief_weight, recipe.level_weight)
        self._kept = {
            base: (begun, held),
            kind: (derived, held),
        }
        return self._kept[kind]

    def _begin(self, candidate: Candidate) -> tuple[Beginning, HeldOut]:
        if self._ground is None:
            self._ground = ground(self.train, self.features, self.init, self.standard)
        rng = np.random.default_rng(self.seed)
        begun = begin(self._ground, candidate.learner, self.init, candidate.recipe, rng)
        return begun, held_out(begun.filter, self.validation, self.criterion, self.loss)


@dataclass(eq=False)
class Run:
    """A candidate on its way over all courses."""

    candidate: Candidate
    rounds: list[list[Round]]
    """Course by course."""
    n_recordings: int
    _to_come: Sequence[Iterator[Round]]

    @classmethod
    def of(cls, candidate: Candidate, courses: Sequence[Course], n_rounds: int) -> "Run":
        """At the start."""
        to_come = [course.rounds(candidate, n_rounds) for course in courses]
        return cls(candidate, [[] for _ in courses], courses[0].n_recordings, to_come)

    def advance(self, upto: int, watch: Watch = Watch()) -> "Run":
        """Run until F_upto has been scored; a run that diverges beyond repair stays where it is, as one cut short."""
        for number in range(upto + 1):
            for rounds, to_come in zip(self.rounds, self._to_come, strict=True):
                if len(rounds) == number:
                    with suppress(DivergedError, StopIteration):
                        rounds.append(next(to_come))
            if not watch.goes_on("racing", number + 1, upto + 1):
                break
        return self

    @property
    def errors(self) -> list[float]:
        """Of each round, averaged over courses."""
        return [float(np.mean([r.error for r in same])) for same in zip(*self.rounds, strict=False)]

    def trial(self) -> Trial:
        """How it did so far."""
        errors = [*self.errors, np.inf]
        at = int(np.argmin(errors))
        at_best = at if np.isfinite(errors[at]) else 0
        return Trial(self.candidate, len(errors) - 2, at_best, errors[at], self.n_recordings)

    def winners(self) -> list[Round]:
        """The best round, one filter for each course."""
        return [rounds[self.trial().best_round] for rounds in self.rounds]


def search(courses: Sequence[Course], space: Space, n_rounds: int, tell: Watch) -> tuple[Run, list[Trial]]:
    """The winning run, and all that was tried."""
    trials = screened(space.candidates(), courses, tell)
    tell(f"tried {len(trials)} settings before the first round; {_diverged(trials)} diverged")
    kinds = _best_of_each_kind(trials)
    if space.refine and space.alphas:
        trials += screened(_nearby(kinds[:N_RACING], space), courses, tell)
        kinds = _best_of_each_kind(trials)
    # without a belief nothing changes from round to round: what was screened is final
    final = [t for t in kinds if t.candidate.recipe.belief_weight == 0][:1]
    runs = [Run.of(t.candidate, courses, 0).advance(0) for t in final]
    some = max(1, n_rounds // 4)
    raced = [Run.of(candidate, courses, n_rounds).advance(some, tell) for candidate in _racing(kinds, space)]
    if raced and space.refine and space.alphas:
        leader = min(raced, key=_judged).candidate
        raced += [Run.of(leader.with_alpha(a), courses, n_rounds).advance(some, tell) for a in _around(leader.alpha)]
    if raced:
        tell(f"{len(raced)} of them raced for {some} rounds; the best goes on to {n_rounds}")
        leading = min(raced, key=_judged)
        compressed = _compressed(leading, space.ranks, courses, some, n_rounds)
        runs += [run for run in raced if run is not leading]
        runs.append(compressed.advance(n_rounds, tell))
        for run in raced:
            other = run.candidate.recipe.lags != leading.candidate.recipe.lags
            if other and _judged(run) <= space.close * _judged(leading):
                run.advance(n_rounds, tell)
    trials += [run.trial() for run in runs]
    winner = min(runs, key=_judged)
    if not np.isfinite(_judged(winner)):
        raise DivergedError(
            f"required one of {len(trials)} settings with a finite closed-loop error, received none: every filter "
            "diverged. Check the recordings for wild values, or give more of them."
        )
    return winner, trials


def _compressed(run: Run, ranks: Sequence[int], courses: Sequence[Course], some: int, n_rounds: int) -> Run:
    """The run with the fewest directions fed back that does no harm so far."""
    for rank in ranks:
        recipe = replace(run.candidate.recipe, rank=rank)
        fewer = Run.of(run.candidate._replace(recipe=recipe), courses, n_rounds).advance(some)
        if _judged(fewer) <= HARMLESS * _judged(run):
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


def _racing(kinds: Sequence[Trial], space: Space) -> list[Candidate]:
    """The best kind with a belief for each number of lags, or the best of all kinds given one.

    More lags flatter F_0, and rounds of DAgger make up for fewer: so each number of lags has its runner.
    """
    if not space.racing_weights:
        by_lags: dict[int, Candidate] = {}
        for trial in kinds:
            if trial.candidate.recipe.belief_weight > 0:
                by_lags.setdefault(trial.candidate.recipe.lags, trial.candidate)
        return list(by_lags.values())[:N_RACING]
    entrants = product(kinds[: N_RACING - 1], (w for w in space.racing_weights if w > 0))
    return [t.candidate._replace(recipe=replace(t.candidate.recipe, belief_weight=w)) for t, w in entrants]


def screened(candidates: Sequence[Candidate], courses: Sequence[Course], watch: Watch = Watch()) -> list[Trial]:
    """F_0 of each candidate, scored; fewer of them if cut short, but one at least."""
    trials: list[Trial] = []
    for c in candidates:
        error = float(np.mean([_first_error(c, course) for course in courses]))
        trials.append(Trial(c, 0, 0, error, courses[0].n_recordings))
        if not watch.goes_on("trying settings", len(trials), len(candidates)):
            break
    return trials


def _first_error(candidate: Candidate, course: Course) -> float:
    try:
        return next(course.rounds(candidate, 0)).error
    except DivergedError:
        return np.inf


def _best_of_each_kind(trials: Iterable[Trial]) -> list[Trial]:
    """The best ridge of every kind, best kind first."""
    best: dict[Candidate, Trial] = {}
    for trial in sorted(trials, key=lambda t: t.judged):
        best.setdefault(trial.candidate.kind, trial)
    return list(best.values())


def _around(alpha: float | None) -> list[float]:
    return [] if alpha is None else [alpha / FINER, alpha * FINER]


def _judged(run: Run) -> float:
    return run.trial().judged


def _diverged(trials: Iterable[Trial]) -> int:
    return sum(not np.isfinite(t.error) for t in trials)
