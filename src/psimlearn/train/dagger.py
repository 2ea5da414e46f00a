"""DAgger (Alg. 2 of the paper): one filter for all times, refitted to all the beliefs that it and its forebears met."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from psimlearn.checks import generator, whole
from psimlearn.filter import Features, Filter
from psimlearn.learners import Learner, Stats
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.train.examples import Begun
from psimlearn.train.ground import ground
from psimlearn.train.losses import Loss, Squared
from psimlearn.train.recipe import Init, Recipe
from psimlearn.train.score import Criterion, HeldOut, Round, held_out, scored
from psimlearn.train.start import begin

__all__ = ["Aggregation", "aggregation", "as_trained", "dagger", "first_round", "next_round"]


class Aggregation(NamedTuple):
    """A run of DAgger after some rounds. `next_round` needs this value and the beginning, which can be made again."""

    number: int
    filter: Filter
    sums: Any
    """The learner's summary of all examples so far; None while there are none."""
    error: float
    clipped: float
    dropped: int
    """As in `Round`."""

    @property
    def round(self) -> Round:
        """The filter and its scores, without the sums."""
        return Round(self.number, self.filter, self.error, self.clipped, self.dropped)


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
    skip: int = 0,
) -> Iterator[Round]:
    """Yield F_0, F_1, .., F_n: each fitted to all the beliefs met by those before it; `best` picks one.

    Args:
        train: recordings to learn from.
        validation: recordings that score each round in closed loop.
        features: what a belief is.
        learner: fits a regressor to examples.
        rng: for learners that draw random features or rows.
        n_rounds: how many times to roll out, aggregate and refit.
        init: beliefs of the first fit: regressed on "history", the true futures ("teacher"), or F_0 = 0 ("zero").
        recipe: the choices around the algorithm.
        criterion: the closed-loop error that ranks rounds: of the next observation, of the whole window, or of so many
            rows ahead.
        loss: measures that error.
        skip: rows at the beginning of each validation trajectory that are not scored.
    """
    whole(n_rounds, "n_rounds", 0)
    whole(skip, "skip", 0)
    begun = begin(ground(train, features, init, recipe), learner, init, recipe, generator(rng))
    held = held_out(begun.filter, validation, criterion, loss, skip)
    current = first_round(begun, held)
    yield current.round
    for _ in range(n_rounds):
        current = next_round(current, begun, held)
        yield current.round


def first_round(begun: Begun, validation: HeldOut) -> Aggregation:
    """F_0, scored."""
    return aggregation(scored(0, begun.filter, validation, opens=begun.opens), begun.sums)


def next_round(current: Aggregation, begun: Begun, validation: HeldOut | None) -> Aggregation:
    """Roll the current filter out, add the examples that it met to all before, refit, and score the new filter.

    Without validation the scores are NaN, and the filter keeps its covariance of errors.
    """
    learner = begun.learner
    new, dropped = begun.training.met(as_trained(current.filter, begun), learner)
    sums = new if current.sums is None else learner.merge(current.sums, new)
    filter = replace(current.filter, regressors=(learner.solve(sums),))
    if validation is None:
        return Aggregation(current.number + 1, filter, sums, np.nan, np.nan, dropped)
    return aggregation(scored(current.number + 1, filter, validation, dropped, begun.opens), sums)


def as_trained(filter: Filter, begun: Begun) -> Filter:
    """The filter that meets examples: its guesses in gaps are by the covariance of errors on training recordings.

    Scoring sets the covariance of errors on held-out ones, and what trains must not know these.
    """
    return replace(filter, covariance=begun.filter.covariance)


def aggregation(round: Round, sums: Any) -> Aggregation:
    """A round with the sums of all examples up to it."""
    return Aggregation(round.number, round.filter, sums, round.error, round.clipped, round.dropped)
