"""Choosing for symbols: the ridge, and how much of a belief is what followed the last symbols in training.

Contexts are a model by themselves: how many symbols they have and how strongly they are smoothed is what does best
alone. Beliefs with much of them then compete with beliefs that have next to nothing of any.
"""

from collections.abc import Sequence
from dataclasses import replace

from psimlearn.choose.search import Candidate, Course, Run, Space, Trial, screened, search
from psimlearn.choose.watch import Watch
from psimlearn.filter.contexts import MOST_CONTEXTS
from psimlearn.filter.onehot import OneHot
from psimlearn.learners.symbolic import SymbolRidge
from psimlearn.train.recipe import Recipe

__all__ = ["search_symbols"]

RIDGES = (1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
FLOORS = (1e-6, 1e-4, 1e-2)
"""Next to nothing of contexts, but enough that nothing is impossible."""
SHARES, SHARED_RIDGES = (0.1, 0.5, 0.9), (1e-4, 1e-2)
"""Much of them; the ridge then matters less."""
LENGTHS, STRENGTHS = (2, 3, 4, 6, 8), (4.0, 1.0, 16.0)
"""Of contexts; lengths are told apart with the first strength."""
CLOSE = 1.005
"""What a belief remembers shows only after some rounds: who is this close in the race goes on."""
ALONE = 0.999
"""As good as nothing but contexts."""


def search_symbols(
    courses: Sequence[Course], features: OneHot, standard: Recipe, lags: int | None, n_rounds: int, tell: Watch
) -> tuple[Run, list[Trial]]:
    """The winning run, and all that was tried; lags are how long contexts are, None if that is to be chosen."""
    (recipe, strength), trials = _contexts(courses, features, standard, lags, tell)
    much = tuple(
        Candidate(recipe, SymbolRidge(features, alpha, floor=share, strength=strength))
        for share in SHARES
        for alpha in SHARED_RIDGES
    )
    little = tuple(SymbolRidge(features, floor=floor) for floor in FLOORS)
    space = Space(little, (standard,), RIDGES, others=much, close=CLOSE)
    run, more = search(courses, space, n_rounds, tell)
    return run, trials + more


def _contexts(
    courses: Sequence[Course], features: OneHot, standard: Recipe, lags: int | None, tell: Watch
) -> tuple[tuple[Recipe, float], list[Trial]]:
    """The contexts that do best alone, as lags of a recipe and a strength."""
    base = courses[0].train.n_channels + 1
    lengths = [q for q in LENGTHS if base**q < MOST_CONTEXTS] if lags is None else [lags]
    alone = {s: SymbolRidge(features, 1.0, floor=ALONE, strength=s) for s in STRENGTHS}
    trials = screened([Candidate(replace(standard, lags=q), alone[STRENGTHS[0]]) for q in lengths], courses, tell)
    recipe = _best(trials).recipe
    trials += screened([Candidate(recipe, alone[s]) for s in STRENGTHS[1:]], courses, tell)
    return (recipe, next(s for s in STRENGTHS if alone[s] == _best(trials).learner)), trials


def _best(trials: Sequence[Trial]) -> Candidate:
    return min(trials, key=lambda t: t.judged).candidate
