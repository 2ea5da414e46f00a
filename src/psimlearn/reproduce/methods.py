"""The methods compared: each chooses its settings on the same held-out recordings, then learns from all of them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from psimlearn import baselines
from psimlearn.errors import DataError, DivergedError, SettingsError
from psimlearn.estimator import PSIM
from psimlearn.evaluate import Forecaster, errors_by_horizon, folds
from psimlearn.features import Features, Stack, StackSquares
from psimlearn.learners import Learner, RandomFourierRidge, Ridge
from psimlearn.train.dagger import dagger
from psimlearn.train.forward import forward
from psimlearn.train.recipe import Init, Recipe
from psimlearn.train.score import Round, best
from psimlearn.trajectories import Trajectories

__all__ = ["Given", "Learnt", "given", "learnt"]

RECIPES = {"standard": Recipe(), "as published": Recipe.as_published()}
WORSE = 2.0
"""A filter learnt again from everything may err no more than this times as much as the one chosen."""


class Given(NamedTuple):
    """What a method has to learn from."""

    everything: Trajectories
    train: Trajectories
    """A part of it,"""
    held: Trajectories
    """and the rest, by which settings are chosen."""
    window: int
    skip: int
    """Rows at the beginning of a recording that are not scored."""
    seed: int

    @property
    def rng(self) -> np.random.Generator:
        """The same for every method."""
        return np.random.default_rng(self.seed)


class Learnt(NamedTuple):
    """What came of it."""

    forecaster: Forecaster
    chosen: dict[str, Any]


Method = Callable[..., Learnt]


def given(everything: Trajectories, share: float, window: int, skip: int, seed: int) -> Given:
    """Hold a share of the recordings out, one at least."""
    n_folds = min(max(2, round(1 / share)), len(everything))
    train, held = next(folds(everything, n_folds, np.random.default_rng([seed, 1])))
    return Given(everything, train, held, window, skip, seed)


def learnt(data: Given, method: str, **options: Any) -> Learnt:
    """Apply a method by its name."""
    if method not in METHODS:
        raise SettingsError(f"required a method of {list(METHODS)}, received {method!r}.")
    return METHODS[method](data, **options)


# -- baselines -------------------------------------------------------------------------------------------------------


def _mean(data: Given) -> Learnt:
    return Learnt(baselines.TrainingMean.fit(data.everything), {})


def _last(data: Given) -> Learnt:
    return Learnt(baselines.LastObservation.fit(data.everything), {})


def _autoregression(data: Given, lags: list[int], priors: list[Any]) -> Learnt:
    """Direct multi-step ridge regression."""
    model = baselines.Autoregression.tuned(data.train, data.held, lags, data.window, priors=priors, skip=data.skip)
    again = baselines.Autoregression.fit(data.everything, model.lags, data.window, alpha=model.alpha, prior=model.prior)
    return Learnt(again, {"lags": model.lags, "alpha": model.alpha, "prior": model.prior})


def _n4sid(data: Given, **grid: list[Any]) -> Learnt:
    return _identified(data, baselines.n4sid, grid)


def _ivr(data: Given, **grid: list[Any]) -> Learnt:
    return _identified(data, partial(baselines.ivr, window=data.window), grid)


def _identified(data: Given, identify: Callable[..., baselines.InnovationsModel], grid: dict[str, list[Any]]) -> Learnt:
    """The best order for each setting, and the best settings, one after the other, from the first of each on."""
    setting = {name: values[0] for name, values in grid.items()}
    found = _attempted(data, identify, setting)
    for name, values in grid.items():
        for value in values[1:]:
            other = setting | {name: value}
            challenger = _attempted(data, identify, other)
            if challenger.error < found.error:
                setting, found = other, challenger
    if isinstance(found.outcome, Exception):
        raise found.outcome
    again = identify(data.everything, found.outcome.order, **setting)
    refitted = again.filter_radius < 1 and _error(again, data) <= WORSE * found.error
    chosen = {"order": found.outcome.order, **setting, "refitted": refitted}
    return Learnt(again if refitted else found.outcome, chosen)


class _Attempt(NamedTuple):
    """A system identified and its error; or why there is none, as where a setting asks for more data than there is."""

    error: float
    outcome: baselines.InnovationsModel | DataError | DivergedError


def _attempted(data: Given, identify: Callable[..., baselines.InnovationsModel], setting: dict[str, Any]) -> _Attempt:
    try:
        model = identify(data.train, validation=data.held, **setting)
    except (DataError, DivergedError) as refusal:
        return _Attempt(np.inf, refusal)
    return _Attempt(_error(model, data), model)


def _em(data: Given, n_iter: int, **grid: list[Any]) -> Learnt:
    """Expectation maximisation from where subspace identification leads."""
    start, chosen = _identified(data, baselines.n4sid, grid)
    assert isinstance(start, baselines.InnovationsModel)
    model = baselines.em(data.everything, start=start, n_iter=n_iter)
    return Learnt(model, {**chosen, "iterations": len(model.log_likelihoods) - 1})


def _error(model: Forecaster, data: Given) -> float:
    with np.errstate(over="ignore", invalid="ignore"):
        return float(errors_by_horizon(model, data.held, skip=data.skip)[0])


# -- predictive state inference machines -----------------------------------------------------------------------------


def _psim(data: Given, **settings: Any) -> Learnt:
    """The estimator, with everything it chooses by itself."""
    model = PSIM(data.window, random_state=data.seed, **settings).fit(data.everything)
    return Learnt(model.filter_, dict(model.report_["choices"]))


def _dagger(
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
) -> Learnt:
    """Algorithm 2, its ridge and bandwidth by the closed-loop one-step error after some rounds, its round by all.

    Args:
        data: recordings.
        alphas: ridges to choose from.
        init: where it begins.
        recipe: the standard one, or the literal algorithm "as published".
        standardise: measure every channel in its own standard deviation. Otherwise all have one unit, to which ridges
            are relative all the same.
        window: k, if not the set's own.
        squares: whether the features are phi_2, with squares, instead of phi_1.
        n_rounds: N.
        n_racing: after how many rounds the ridge is chosen.
        n_features: random Fourier features; none for linear regression.
        bandwidths: factors of the median distance to choose from.
    """
    features: Features = (StackSquares if squares else Stack)(window or data.window)
    literal = recipe == "as published"
    own = RECIPES[recipe] if standardise else replace(RECIPES[recipe], standardise=False)
    # weights between observations have no unit, but the error has: a ridge is relative to it. Those of cosines share it
    unit = 1.0 if standardise else float(data.everything.values.var(axis=0).mean())
    learners = [
        RandomFourierRidge(n_features, a, raw_inputs=False, bandwidth_factor=b, intercept=not literal)
        if n_features
        else Ridge(a * unit, intercept=not literal)
        for a in alphas
        for b in (bandwidths if n_features else (1.0,))
    ]

    def rounds(train: Trajectories, learner: Learner[Any], n: int) -> Iterator[Round]:
        return dagger(train, data.held, features, learner, rng=data.rng, n_rounds=n, init=init, recipe=own)

    winner, learner, diverged = _raced([(rounds(data.train, each, n_rounds), each) for each in learners], n_racing)
    again = _finished(rounds(data.everything, learner, winner.number))
    refitted = again is not None and again.error <= WORSE * winner.error
    chosen = {
        "alpha": learner.alpha,
        "bandwidth_factor": getattr(learner, "bandwidth_factor", None),
        "round": winner.number,
        "diverged": diverged,
        "refitted": refitted,
    }
    return Learnt(again.filter if again is not None and refitted else winner.filter, chosen)


def _raced(entrants: list[tuple[Iterator[Round], Any]], n_racing: int) -> tuple[Round, Any, int]:
    """The best round of the learner that leads after some rounds, and how many learners diverged by then."""
    raced = [(_run(islice(rounds, n_racing + 1)), rounds, learner) for rounds, learner in entrants]
    errors = [min((r.error for r in begun), default=np.inf) for begun, _, _ in raced]
    begun, rounds, learner = raced[int(np.argmin(errors))]
    return best(begun + _run(rounds)), learner, int(np.isinf(errors).sum())


def _run(rounds: Iterator[Round]) -> list[Round]:
    """As far as sums stay finite."""
    done: list[Round] = []
    try:
        for round in rounds:
            done.append(round)
    except DivergedError:
        pass
    return done


def _finished(rounds: Iterator[Round]) -> Round | None:
    """The last round, or nothing if it was not reached."""
    try:
        *_, last = rounds
    except DivergedError:
        return None
    return last


def _forward(data: Given, alphas: list[float], disjoint: bool = False) -> Learnt:
    """Algorithm 1."""

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
    return Learnt(trained(data.everything, alpha).filter, {"alpha": alpha})


METHODS: dict[str, Method] = {
    "mean": _mean,
    "last": _last,
    "autoregression": _autoregression,
    "n4sid": _n4sid,
    "ivr": _ivr,
    "em": _em,
    "dagger": _dagger,
    "forward": _forward,
    "psim": _psim,
}
