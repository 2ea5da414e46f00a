"""The paper's bound for DAgger, term by term.

DAgger plays follow-the-leader: L_n is the loss on the beliefs that F_n meets, and F_{n+1} the leader on all losses so
far. The theorem says that the best of N filters loses at most gamma_N + eps_N on the recordings it has learnt from,
where gamma_N is the average regret and eps_N the least average loss of one filter in hindsight. On new recordings, with
probability 1 - delta, it loses at most a finite-sample term more.
"""

from collections.abc import Mapping
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from psimlearn.filter import Features, Filter, Linear, Stack
from psimlearn.filter.rollout import rolled
from psimlearn.learners import GramSums, Ridge
from psimlearn.recordings.schedule import schedule
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.recordings.windows import futures
from psimlearn.reproduce.sets import fold_of
from psimlearn.shapes import Float
from psimlearn.train.dagger import dagger
from psimlearn.train.examples import examples
from psimlearn.train.ground import ground
from psimlearn.train.recipe import Recipe
from psimlearn.train.score import Round
from psimlearn.train.start import begin

__all__ = ["Bound", "bounds", "checked"]

RECIPE = Recipe(prior="zero", box=None, standardise=False, guard=None)
"""The examples of the initial beliefs are kept, as the first play."""


class Bound(NamedTuple):
    """The terms of the theorem after some number of rounds."""

    n_rounds: int
    gamma: float
    """The average regret."""
    eps: float
    """The least average loss of one filter in hindsight."""
    follow_the_leader: float
    """The bound of the regret: the average of L_n(F_n) - L_n(F_{n+1}), plus the cost of the start."""
    least: float
    """min L_n(F_n), which gamma + eps bounds."""
    finite_sample: float
    """L_max sqrt(2 ln(1/delta) / (M N))."""
    measured: float
    """The loss of the best filter on new recordings, which gamma + eps + finite_sample bounds."""


def checked(settings: Mapping[str, Any], alpha: float, n_rounds: int, delta: float) -> dict[str, Any]:
    """The bound after each round, on a simulated system."""
    fold = fold_of(settings)
    rng = np.random.default_rng([settings["seed"], settings["fold"]])
    rows = bounds(fold.train, fold.test, Stack(settings["set"]["window"]), alpha, n_rounds, delta, rng)
    return {"bounds": [row._asdict() for row in rows]}


def bounds(
    train: Trajectories,
    test: Trajectories,
    features: Features,
    alpha: float,
    n_rounds: int,
    delta: float,
    rng: np.random.Generator,
) -> list[Bound]:
    """Every term after 1, .., n_rounds rounds. The loss is the one that ridge regression minimises, penalty included.

    Args:
        train: recordings to learn from.
        test: new recordings.
        features: what a belief is.
        alpha: the penalty per example.
        n_rounds: N.
        delta: the probability with which the finite-sample bound may fail.
        rng: makes random features, if there are any.
    """
    learner = Ridge(alpha, intercept=False)
    rounds = list(dagger(train, train, features, learner, rng=rng, n_rounds=n_rounds, recipe=RECIPE))
    first, lessons = begin(ground(train, features, "history", RECIPE), learner, "history", RECIPE, rng)[2:4]
    played: list[GramSums] = [learner.summarise(*examples(round.filter, lessons)[:2]) for round in rounds[:-1]]
    weights = [_weights(round) for round in rounds]
    losses = np.array([_loss(sums, W, alpha) for sums, W in zip(played, weights[:-1], strict=True)])
    after = np.array([_loss(sums, W, alpha) for sums, W in zip(played, weights[1:], strict=True)])
    found = []
    for n in range(1, n_rounds + 1):
        hindsight = learner.solve(reduce(learner.merge, played[:n])).weights
        eps = float(np.mean([_loss(sums, hindsight, alpha) for sums in played[:n]]))
        # the initial examples are a play that does not count, but every leader minimises over them too
        start = _loss(first, hindsight, alpha) - _loss(first, weights[0], alpha)
        fresh = _rollout_losses(rounds[int(losses[:n].argmin())].filter, test)
        found.append(
            Bound(
                n,
                float(losses[:n].mean()) - eps,
                eps,
                float(np.mean(losses[:n] - after[:n])) + start / n,
                float(losses[:n].min()),
                float(fresh.max()) * np.sqrt(2 * np.log(1 / delta) / (len(train) * n)),
                float(fresh.mean()),
            )
        )
    return found


def _weights(round: Round) -> Float[np.ndarray, "p q"]:
    """The weights of the one linear regressor of a round's filter."""
    regressor = round.filter.regressors[0]
    assert isinstance(regressor, Linear)
    weights: np.ndarray = regressor.weights
    return weights


def _loss(sums: GramSums, W: Float[np.ndarray, "p q"], alpha: float) -> float:
    """The loss of a linear map on the examples of a rollout."""
    squared = (sums.yy - 2 * np.vdot(W, sums.zy) + np.vdot(W, sums.zz @ W)) / sums.n
    return float(squared + alpha * np.vdot(W, W))


def _rollout_losses(filter: Filter, recordings: Trajectories) -> Float[np.ndarray, " m"]:
    """The loss of each recording, over all beliefs but the first, which no filter has made."""
    plan, window = schedule(recordings.offsets), filter.features.window
    rollout = rolled(filter, recordings)
    f = filter.features(futures(recordings.values[plan.order], plan, window))
    apart = np.sum((rollout.held - f) ** 2, axis=1)
    rows = plan.reaches(window - 1) & (plan.time >= 1)
    by_row, used, edges = plan.packed(apart), plan.packed(rows), recordings.offsets[:-1]
    return np.asarray(np.add.reduceat(np.where(used, by_row, 0.0), edges) / np.add.reduceat(used, edges))
