"""The methods compared: each chooses its settings on the same held-out recordings, then learns from all of them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from psimlearn import baselines
from psimlearn.baselines.rnn import Cell
from psimlearn.errors import DataError, DivergedError, SettingsError
from psimlearn.estimator.psim import PSIM
from psimlearn.evaluate.horizons import Forecaster, errors_by_horizon, folds
from psimlearn.filter.features import Features, Stack, StackSquares
from psimlearn.filter.filter import Filter
from psimlearn.filter.layout import Scaling
from psimlearn.learners.ridge import Learner, RandomFourierRidge, Ridge
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.train.backprop import backprop, random_start
from psimlearn.train.dagger import dagger
from psimlearn.train.forward import forward
from psimlearn.train.recipe import Init, Recipe
from psimlearn.train.score import Round, best

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

    def in_units_of(self, unit: float) -> "Given":
        """The same recordings, measured otherwise."""
        everything, train, held = (replace(part, values=part.values / unit) for part in self[:3])
        return self._replace(everything=everything, train=train, held=held)


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


def _rnn(data: Given, hidden: int, cells: list[Cell], rates: list[float], **options: Any) -> Learnt:
    """A recurrent network; its cell and step size by the error of its best epoch."""

    def trained(train: Trajectories, cell: Cell, rate: float, **more: Any) -> baselines.RecurrentNetwork:
        own = options | more
        return baselines.RecurrentNetwork.fit(
            train, data.held, data.window, hidden=hidden, cell=cell, rate=rate, seed=data.seed, **own
        )

    models = {(cell, rate): trained(data.train, cell, rate) for cell in cells for rate in rates}
    (cell, rate), model = min(models.items(), key=lambda item: _error(item[1], data))
    again = trained(data.everything, cell, rate, n_epochs=model.epoch, patience=model.epoch + 1)
    return Learnt(again, {"cell": cell, "rate": rate, "epochs": model.epoch})


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
    refining: dict[str, Any] | None = None,
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
        refining: back-propagate from there on, as `_descended` is told.
    """
    features: Features = (StackSquares if squares else Stack)(window or data.window)
    literal = recipe == "as published"
    own = RECIPES[recipe] if standardise else replace(RECIPES[recipe], standardise=False)
    # weights between observations have no unit, but the error has: a ridge is relative to it. Those of cosines share it
    unit = 1.0 if standardise else float(data.everything.values.var(axis=0).mean())
    learners = [
        _random_features(n_features, a, b, intercept=not literal)
        if n_features
        else Ridge(a * unit, intercept=not literal)
        for a in alphas
        for b in (bandwidths if n_features else (1.0,))
    ]

    def rounds(train: Trajectories, learner: Learner[Any], n: int) -> Iterator[Round]:
        return dagger(train, data.held, features, learner, rng=data.rng, n_rounds=n, init=init, recipe=own)

    race = _raced([(rounds(data.train, each, n_rounds), each) for each in learners], n_racing)
    winner, learner = race.winner, race.entrant
    again = _finished(rounds(data.everything, learner, winner.number))
    refitted = again is not None and again.error <= WORSE * winner.error
    chosen = {
        "alpha": learner.alpha,
        "bandwidth_factor": getattr(learner, "bandwidth_factor", None),
        "round": winner.number,
        "diverged": race.diverged,
        "refitted": refitted,
    }
    start = again.filter if again is not None and refitted else winner.filter
    if refining is None:
        return Learnt(start, chosen)
    refined = _descended(data, winner.filter, start, **refining)
    return refined._replace(chosen=chosen | refined.chosen)


def _random_features(n_features: int, alpha: float, factor: float, *, intercept: bool = True) -> RandomFourierRidge:
    """Cosines and sines only, as in the paper."""
    return RandomFourierRidge(n_features, alpha, raw_inputs=False, bandwidth_factor=factor, intercept=intercept)


def _backprop(
    data: Given,
    standardise: bool = True,
    n_features: int = 0,
    bandwidth: float = 1.0,
    **descending: Any,
) -> Learnt:
    """Descent through time from small random weights.

    Args:
        data: recordings.
        standardise: as for DAgger. One unit for all channels is their common deviation.
        n_features: random Fourier features; none for linear regression.
        bandwidth: factor of the median distance.
        descending: as `_descended` is told.
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
    return Learnt(replace(filter, scaling=Scaling(unit * mean, unit * scale)), chosen)


def _descended(
    data: Given,
    start: Filter,
    start_of_all: Filter,
    optimisers: list[dict[str, Any]],
    n_racing: int,
    n_epochs: int,
    batch: int = 1,
    patience: int = 20,
) -> Learnt:
    """Back-propagation by the optimiser that leads after some epochs, as many epochs as were best.

    Args:
        data: recordings.
        start: where the part of them begins that settings are chosen on,
        start_of_all: and where all begin.
        optimisers: tables of an optimiser and perhaps a rate.
        n_racing: after how many epochs one of them is chosen.
        n_epochs: the most epochs.
        batch: recordings to a step.
        patience: epochs without a lower error after which the descent ends.
    """

    def rounds(train: Trajectories, filter: Filter, own: dict[str, Any], n: int, patience: int) -> Iterator[Round]:
        return backprop(train, data.held, filter, n_epochs=n, batch=batch, patience=patience, seed=data.seed, **own)

    entrants = [(rounds(data.train, start, own, n_epochs, patience), own) for own in optimisers]
    race = _raced(entrants, n_racing)
    n = race.winner.number
    again = _finished(rounds(data.everything, start_of_all, race.entrant, n, n + 1))
    refitted = again is not None and again.error <= WORSE * race.winner.error
    chosen = {**race.entrant, "epochs": n, "descent_refitted": refitted}
    return Learnt(again.filter if again is not None and refitted else race.winner.filter, chosen)


class _Race(NamedTuple):
    """Its best round, whose that is, and how many had diverged when it was decided."""

    winner: Round
    entrant: Any
    diverged: int


def _raced(entrants: list[tuple[Iterator[Round], Any]], n_racing: int) -> _Race:
    """Whoever leads after some rounds goes on alone."""
    raced = [(_run(islice(rounds, n_racing + 1)), rounds, entrant) for rounds, entrant in entrants]
    errors = [min((r.error for r in begun), default=np.inf) for begun, _, _ in raced]
    begun, rounds, entrant = raced[int(np.argmin(errors))]
    return _Race(best(begun + _run(rounds)), entrant, int(np.isinf(errors).sum()))


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
    "rnn": _rnn,
    "dagger": _dagger,
    "backprop": _backprop,
    "forward": _forward,
    "psim": _psim,
}
