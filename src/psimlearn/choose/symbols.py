"""Choosing for symbols: the ridge, and the share of contexts in every belief.

Contexts, counts of the symbols that followed the last few in training, are a model by themselves: their length and
smoothing are chosen to do best alone. Beliefs with a large share of them then compete with beliefs with a tiny one.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from psimlearn.baselines import KGram
from psimlearn.choose.candidates import Candidate, Trial
from psimlearn.choose.courses import Course
from psimlearn.choose.runs import Run
from psimlearn.choose.search import screened, search
from psimlearn.choose.settings import Settings
from psimlearn.choose.space import Space
from psimlearn.choose.splits import Split
from psimlearn.choose.strategy import Methods, Strategy
from psimlearn.choose.summary import NATS, error_table
from psimlearn.choose.watch import Watch
from psimlearn.evaluate.calibrate import Unseen
from psimlearn.filter import Filter, OneHot
from psimlearn.filter.contexts import MOST_CONTEXTS
from psimlearn.learners.symbolic import SymbolRidge
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.train.losses import LogLoss
from psimlearn.train.recipe import Recipe

__all__ = ["SYMBOLS"]

RIDGES = (1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
TINY_SHARES = (1e-6, 1e-4, 1e-2)
"""Shares of contexts that hardly count, but keep every symbol possible."""
LARGE_SHARES, SHARED_RIDGES = (0.1, 0.5, 0.9), (1e-4, 1e-2)
"""Shares that count, and ridges, which then matter less."""
LENGTHS, STRENGTHS = (2, 3, 4, 6, 8), (4.0, 1.0, 16.0)
"""Lengths and smoothing of contexts; lengths are compared with the first strength."""
CLOSE = 1.005
"""The memory of a belief shows only after some rounds: a runner this close in the race goes on."""
ALONE = 0.999
"""A share that is as good as nothing but contexts."""
CAUTIOUS, CAUTIOUS_SHARE = 1.0, 1e-2
"""The ridge and the share of contexts where there is too little data to choose them."""
WORSE = 1.002
"""See `Strategy.tolerance`."""
FEW_WORDS = 1000
"""Continuations over which k-grams are summed for the report."""


def _search(courses: Sequence[Course], settings: Settings, data: Trajectories, tell: Watch) -> tuple[Run, list[Trial]]:
    features, standard = _one_hot(settings), settings.standard
    (recipe, strength), trials = _contexts(courses, features, standard, settings.lags, tell)
    large = tuple(
        Candidate(recipe, SymbolRidge(features, alpha, floor=share, strength=strength))
        for share in LARGE_SHARES
        for alpha in SHARED_RIDGES
    )
    tiny = tuple(SymbolRidge(features, floor=share) for share in TINY_SHARES)
    space = Space(tiny, (standard,), RIDGES, others=large, close=CLOSE)
    run, more = search(courses, space, settings.n_rounds, tell)
    return run, trials + more


def _contexts(
    courses: Sequence[Course], features: OneHot, standard: Recipe, lags: int | None, tell: Watch
) -> tuple[tuple[Recipe, float], list[Trial]]:
    """The contexts that do best alone, as lags of a recipe and a strength; lags are chosen if None."""
    base = courses[0].ground.train.n_channels + 1
    lengths = [q for q in LENGTHS if base**q < MOST_CONTEXTS] if lags is None else [lags]
    alone = {s: SymbolRidge(features, 1.0, floor=ALONE, strength=s) for s in STRENGTHS}
    trials = screened([Candidate(replace(standard, lags=q), alone[STRENGTHS[0]]) for q in lengths], courses, tell)
    recipe = _best(trials).recipe
    trials += screened([Candidate(recipe, alone[s]) for s in STRENGTHS[1:]], courses, tell)
    return (recipe, next(s for s in STRENGTHS if alone[s] == _best(trials).learner)), trials


def _best(trials: Sequence[Trial]) -> Candidate:
    return min(trials, key=lambda t: t.penalised_error).candidate


def _cautious(settings: Settings, data: Trajectories) -> SymbolRidge:
    return SymbolRidge(_one_hot(settings), CAUTIOUS, floor=CAUTIOUS_SHARE)


def _baselines(
    splits: Sequence[Split], courses: Sequence[Course], trials: Sequence[Trial], settings: Settings
) -> Methods:
    orders = {"frequencies": 1, "bigrams": 2, "trigrams": 3}
    return {name: [KGram.fit(split.train, order) for split in splits] for name, order in orders.items()}


def _errors(methods: Methods, splits: Sequence[Split], window: int) -> dict[str, list[float]]:
    """Nats by horizon, as far ahead as k-grams have few continuations."""
    longest = min(int(split.held.lengths.max()) - 1 for split in splits)
    v = splits[0].train.n_channels
    horizon = max(1, min(window, longest, 1 + int(np.log(FEW_WORDS) / np.log(max(v, 2)))))
    return error_table(methods, [(split.held, np.ones(v)) for split in splits], horizon, LogLoss().nats)


def _calibrated(filter: Filter, held_out: Sequence[Unseen], starts: Sequence[Unseen]) -> Filter:
    """The filter as it is: its beliefs are probabilities."""
    return filter


def _units(recipe: Recipe) -> str:
    return NATS


def _one_hot(settings: Settings) -> OneHot:
    assert isinstance(settings.features, OneHot)  # by which this strategy was picked
    return settings.features


SYMBOLS = Strategy(_search, _cautious, _baselines, _errors, _calibrated, WORSE, _units)
