"""Predictive state inference machines, each with settings chosen on held-out recordings."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import starmap
from typing import Any

import numpy as np

from psimlearn.baselines.tuned import WORSE, Tuned
from psimlearn.choose.edges import Point, around, point_of
from psimlearn.estimator.psim import PSIM
from psimlearn.filter import Features, Filter, Scaling, Stack, StackSquares
from psimlearn.learners import Learner, RandomFourierRidge, Ridge
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.reproduce.given import Given
from psimlearn.reproduce.race import Entrant, finished, raced
from psimlearn.train.backprop import backprop, random_start
from psimlearn.train.dagger import dagger
from psimlearn.train.forward import forward
from psimlearn.train.recipe import Init, Recipe
from psimlearn.train.score import Round

__all__ = ["tuned_backprop", "tuned_dagger", "tuned_forward", "tuned_psim"]

RECIPES = {"standard": Recipe(), "as published": Recipe.as_published()}


def tuned_psim(data: Given, **settings: Any) -> Tuned:
    """`PSIM`, with every setting that the experiment does not fix chosen by its `fit`."""
    model = PSIM(data.window, random_state=data.seed, **settings).fit(data.everything)
    return Tuned(model.filter_, dict(model.report_["choices"]))


def tuned_dagger(
    data: Given,
    alphas: list[float],
    init: Init = "history",
    recipe: str = "standard",
    standardise: bool = True,
    window: int | None = None,
    squares: bool = False,
    n_rounds: int = 20,
    n_racing: int = 5,
    n_features: int = 0,
    bandwidths: Sequence[float] = (1.0,),
    refining: dict[str, Any] | None = None,
) -> Tuned:
    """Algorithm 2: ridge and bandwidth chosen after some rounds, the round after all, by closed-loop one-step error.

    Args:
        data: recordings.
        alphas: ridges to choose from. With random features the grid grows beyond a ridge or bandwidth on its edge.
        init: how the initial beliefs are made.
        recipe: "standard", or the literal algorithm "as published".
        standardise: measure each channel in its standard deviation. Otherwise all channels have one unit, to which
            ridges are relative too.
        window: k, if it differs from the window of the set.
        squares: whether the features are phi_2, with squares, instead of phi_1.
        n_rounds: N.
        n_racing: after how many rounds the ridge is chosen.
        n_features: random Fourier features; none for linear regression.
        bandwidths: factors of the median distance to choose from.
        refining: settings of `_descended`, which then continues by back-propagation.
    """
    features: Features = (StackSquares if squares else Stack)(window or data.window)
    literal = recipe == "as published"
    settings = RECIPES[recipe] if standardise else replace(RECIPES[recipe], standardise=False)
    # squared errors have the unit of the observations, squared weights between observations have none: ridges scale
    unit = 1.0 if standardise else float(data.everything.values.var(axis=0).mean())

    def rounds(train: Trajectories, learner: Learner[Any], n: int) -> Iterator[Round]:
        return dagger(train, data.held, features, learner, rng=data.rng, n_rounds=n, init=init, recipe=settings)

    def entrants(learners: Iterable[Learner[Any]]) -> list[Entrant]:
        return [(rounds(data.train, each, n_rounds), each) for each in learners]

    if n_features:
        map_of = partial(_random_features, n_features, intercept=not literal)
        grid = [map_of(a, b) for a in alphas for b in bandwidths]
        race = raced(entrants(grid), n_racing, lambda best, tried: entrants(starmap(map_of, _beyond(best, tried))))
    else:
        race = raced(entrants(Ridge(a * unit, intercept=not literal) for a in alphas), n_racing)
    winner, learner = race.winner, race.entrant
    again = finished(rounds(data.everything, learner, winner.number))
    refitted = again is not None and again.error <= WORSE * winner.error
    chosen = {
        "alpha": learner.alpha,
        "bandwidth_factor": getattr(learner, "bandwidth_factor", None),
        "round": winner.number,
        "tried": race.tried,
        "diverged": race.diverged,
        "refitted": refitted,
    }
    start = again.filter if again is not None and refitted else winner.filter
    if refining is None:
        return Tuned(start, chosen)
    refined = _descended(data, winner.filter, start, **refining)
    return refined._replace(chosen=chosen | refined.chosen)


def _random_features(n_features: int, alpha: float, factor: float, *, intercept: bool = True) -> RandomFourierRidge:
    """Random features with cosines and sines of independent directions only, as in the paper."""
    return RandomFourierRidge(n_features, alpha, False, factor, intercept, orthogonal=False)


def _beyond(best: RandomFourierRidge, tried: list[RandomFourierRidge]) -> list[Point]:
    """The points beside the best one that have not raced."""
    return around(point_of(best), [point_of(each) for each in tried])


def tuned_backprop(
    data: Given,
    standardise: bool = True,
    n_features: int = 0,
    bandwidth: float = 1.0,
    **descending: Any,
) -> Tuned:
    """Descent through time from small random weights.

    Args:
        data: recordings.
        standardise: as for DAgger; the one unit of all channels is their root mean square deviation.
        n_features: random Fourier features; none for linear regression.
        bandwidth: factor of the median distance.
        descending: settings of `_descended`.
    """
    unit = 1.0 if standardise else float(np.sqrt(data.everything.values.var(axis=0).mean()))
    scaled = data.in_units_of(unit)
    learner = _random_features(n_features, 0.0, bandwidth) if n_features else Ridge(0.0)
    recipe = replace(Recipe(), standardise=standardise)

    def start(train: Trajectories) -> Filter:
        return random_start(train, Stack(data.window), learner, rng=data.rng, recipe=recipe)

    filter, chosen = _descended(scaled, start(scaled.train), start(scaled.everything), **descending)
    assert isinstance(filter, Filter)
    mean, scale = filter.scaling
    return Tuned(replace(filter, scaling=Scaling(unit * mean, unit * scale)), chosen)


def _descended(
    data: Given,
    start: Filter,
    start_of_all: Filter,
    optimisers: list[dict[str, Any]],
    n_racing: int,
    n_epochs: int,
    batch: int = 1,
    patience: int = 20,
) -> Tuned:
    """Back-propagation by the optimiser that leads after some epochs, for the number of epochs with the least error.

    Args:
        data: recordings.
        start: the filter that the choice of settings begins with, learnt from a part of the recordings.
        start_of_all: the filter that the final training begins with, learnt from all recordings.
        optimisers: tables with an optimiser and optionally a rate, to choose from.
        n_racing: after how many epochs one of them is chosen.
        n_epochs: the most epochs.
        batch: recordings per step.
        patience: epochs without a lower error after which the descent ends.
    """

    def rounds(train: Trajectories, filter: Filter, by: dict[str, Any], n: int, patience: int) -> Iterator[Round]:
        return backprop(train, data.held, filter, n_epochs=n, batch=batch, patience=patience, seed=data.seed, **by)

    entrants = [(rounds(data.train, start, by, n_epochs, patience), by) for by in optimisers]
    race = raced(entrants, n_racing)
    n = race.winner.number
    again = finished(rounds(data.everything, start_of_all, race.entrant, n, n + 1))
    refitted = again is not None and again.error <= WORSE * race.winner.error
    chosen = {**race.entrant, "epochs": n, "descent_refitted": refitted}
    return Tuned(again.filter if again is not None and refitted else race.winner.filter, chosen)


def tuned_forward(data: Given, alphas: list[float], disjoint: bool = False) -> Tuned:
    """Algorithm 1, with its ridge chosen."""

    def trained(train: Trajectories, alpha: float) -> Round:
        return next(
            iter(
                forward(
                    train, data.held, Stack(data.window), Ridge(alpha), rng=data.rng, disjoint=disjoint,
                    recipe=replace(Recipe(), box=None),
                )
            )
        )  # fmt: skip

    errors = [trained(data.train, alpha).error for alpha in alphas]
    alpha = alphas[int(np.argmin(errors))]
    return Tuned(trained(data.everything, alpha).filter, {"alpha": alpha})
