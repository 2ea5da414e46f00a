"""DAgger (Alg. 2 of the paper): one filter for all times, refitted to all the beliefs it and its forebears met."""

from collections.abc import Generator, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from psimlearn.filter.features import Features
from psimlearn.learners.ridge import Learner, Stats
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.train.examples import examples
from psimlearn.train.losses import Loss, Squared
from psimlearn.train.recipe import Init, Recipe
from psimlearn.train.score import Criterion, HeldOut, Round, held_out, scored
from psimlearn.train.start import Beginning, begin, ground

__all__ = ["aggregate", "dagger"]


def dagger(
    train: Trajectories,
    validation: Trajectories,
    features: Features,
    learner: Learner[Stats],
    *,
    rng: np.random.Generator,
    n_rounds: int = 20,
    init: Init = "history",
    recipe: Recipe = Recipe(),
    criterion: Criterion = "one-step",
    loss: Loss = Squared(),
) -> Iterator[Round]:
    """Yield F_0, F_1, .., F_n: each fitted to all the beliefs met by those before it; `best` picks one.

    Args:
        train: recordings to learn from.
        validation: recordings that score each round in closed loop.
        features: what a belief is.
        learner: what fits examples.
        rng: for learners that draw random features or rows.
        n_rounds: how many times to roll out, aggregate and refit.
        init: beliefs of the first fit: regressed on "history", the true futures ("teacher"), or F_0 = 0 ("zero").
        recipe: the choices around the algorithm.
        criterion: the closed-loop error that tells rounds apart: of the next observation, or of the whole window.
        loss: what that error is measured in.
    """
    begun = begin(ground(train, features, init, recipe), learner, init, recipe, rng)
    yield from aggregate(begun, held_out(begun.filter, validation, criterion, loss), n_rounds)


def aggregate(begun: Beginning, validation: HeldOut, n_rounds: int) -> Generator[Round, None, Any]:
    """The rounds of DAgger from where training begins; the generator returns the summary of all that was met."""
    current, learner, stats, lessons = begun
    dropped = 0
    for number in range(n_rounds):
        round = scored(number, current, validation, dropped)
        yield round
        z, y, same, dropped = examples(round.filter, lessons)
        new = learner.summarise(z, y, same)
        stats = new if stats is None else learner.merge(stats, new)
        current = replace(round.filter, regressors=(learner.solve(stats),))
    yield scored(n_rounds, current, validation, dropped)  # the last refit is a candidate too
    return stats
