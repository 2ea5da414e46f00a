"""Baselines with settings chosen on held-out recordings, then fitted again to all recordings."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from psimlearn.baselines.ar import Autoregression
from psimlearn.baselines.em import em
from psimlearn.baselines.gaussian import LinearGaussian
from psimlearn.baselines.innovations import InnovationsModel
from psimlearn.baselines.ivr import ivr
from psimlearn.baselines.n4sid import n4sid
from psimlearn.baselines.rnn import Cell, RecurrentNetwork
from psimlearn.errors import DataError, DivergedError
from psimlearn.evaluate import Forecaster, errors_by_horizon
from psimlearn.evaluate.folds import cut, group_folds
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.shapes import Int

__all__ = [
    "WORSE",
    "Split",
    "Tuned",
    "tuned_autoregression",
    "tuned_em",
    "tuned_ivr",
    "tuned_n4sid",
    "tuned_network",
]

Grid = Mapping[str, Sequence[Any]]
"""For each keyword, the values to choose from."""
Identify = Callable[..., InnovationsModel]
WORSE = 2.0
"""A model fitted again to all recordings may err at most this many times as much as the chosen one."""


class Split(NamedTuple):
    """Training recordings, divided to choose settings."""

    everything: Trajectories
    train: Trajectories
    """The part that every setting is fitted to."""
    held: Trajectories
    """The rest, on which settings are compared."""

    @classmethod
    def of(cls, everything: Trajectories, groups: Int[np.ndarray, " m"] | None = None) -> "Split":
        """Four fifths to fit, a fifth to choose by; a single recording is cut in time, and groups stay together."""
        if groups is not None:
            return cls(everything, *next(group_folds(everything, groups, 5, np.random.default_rng(0))))
        if len(everything) > 1:
            return cls(everything, *everything.split(0.2, np.random.default_rng(0)))
        rows = len(everything.values)
        return cls(everything, *cut(everything, rows - max(1, rows // 5)))


class Tuned(NamedTuple):
    """A fitted method, and the settings chosen for it."""

    forecaster: Forecaster
    chosen: dict[str, Any]


def tuned_autoregression(split: Split, lags: int | Sequence[int], horizon: int, **options: Any) -> Tuned:
    """An autoregression with lags, penalty and prior chosen as `Autoregression.tuned` does, whose options it takes."""
    best = Autoregression.tuned(split.train, split.held, lags, horizon, **options)
    chosen: dict[str, Any] = {"lags": best.lags, "alpha": best.alpha, "prior": best.prior}
    return Tuned(Autoregression.fit(split.everything, horizon=horizon, **chosen), chosen)


def tuned_n4sid(split: Split, grid: Grid, **options: Any) -> Tuned:
    """`n4sid` with its order and a grid of its keywords chosen; options as for `tuned_em`."""
    return Tuned(*_identified(split, n4sid, grid, **options))


def tuned_ivr(split: Split, grid: Grid, window: int = 5, **options: Any) -> Tuned:
    """`ivr` with its rank, its gain and a grid of its other keywords chosen; options as for `tuned_em`."""
    return Tuned(*_identified(split, partial(ivr, window=window), {**grid, "riccati": [False, True]}, **options))


def tuned_em(split: Split, grid: Grid, n_iter: int = 100, *, skip: int = 0, worse: float | None = WORSE) -> Tuned:
    """`em`, started from a tuned `n4sid`.

    Args:
        split: recordings.
        grid: keywords of `n4sid`, each with the values to choose from.
        n_iter: the most iterations.
        skip: rows at the beginning of a held-out recording that are not scored.
        worse: keep the chosen system if the one identified from all recordings is unstable or errs this many times as
            much on the held-out recordings; None always takes the one from all recordings.
    """
    start, chosen = _identified(split, n4sid, grid, skip=skip, worse=worse)
    model: LinearGaussian = em(split.everything, start=start, n_iter=n_iter)
    return Tuned(model, {**chosen, "iterations": len(model.log_likelihoods) - 1})


def tuned_network(
    split: Split, horizon: int, cells: Sequence[Cell], rates: Sequence[float], *, skip: int = 0, **options: Any
) -> Tuned:
    """A recurrent network with its cell, step size and number of epochs chosen.

    Args:
        split: recordings.
        horizon: how many rows ahead to predict directly.
        cells: cells to choose from.
        rates: step sizes to choose from.
        skip: rows at the beginning of a held-out recording that are not scored.
        options: other keywords of `RecurrentNetwork.fit`.
    """

    def trained(train: Trajectories, cell: Cell, rate: float, **more: Any) -> RecurrentNetwork:
        return RecurrentNetwork.fit(train, split.held, horizon, cell=cell, rate=rate, **(options | more))

    models = {(cell, rate): trained(split.train, cell, rate) for cell in cells for rate in rates}
    (cell, rate), best = min(models.items(), key=lambda item: _error(item[1], split, skip))
    again = trained(split.everything, cell, rate, n_epochs=best.epoch, patience=best.epoch + 1)
    return Tuned(again, {"cell": cell, "rate": rate, "epochs": best.epoch})


def _identified(
    split: Split, identify: Identify, grid: Grid, *, skip: int = 0, worse: float | None = WORSE
) -> tuple[InnovationsModel, dict[str, Any]]:
    """The best order for each setting, and the best settings, one keyword after the other, from the first values on."""
    setting = {name: values[0] for name, values in grid.items()}
    found = _attempted(split, identify, setting, skip)
    for name, values in grid.items():
        for value in values[1:]:
            other = setting | {name: value}
            challenger = _attempted(split, identify, other, skip)
            if challenger.error < found.error:
                setting, found = other, challenger
    if isinstance(found.outcome, Exception):
        raise found.outcome
    again = identify(split.everything, found.outcome.order, **setting)
    refitted = worse is None or (again.filter_radius < 1 and _error(again, split, skip) <= worse * found.error)
    return again if refitted else found.outcome, {"order": found.outcome.order, **setting, "refitted": refitted}


class _Attempt(NamedTuple):
    """An identified system and its error, or the reason why there is none: some settings need more data."""

    error: float
    outcome: InnovationsModel | DataError | DivergedError


def _attempted(split: Split, identify: Identify, setting: Mapping[str, Any], skip: int) -> _Attempt:
    try:
        model = identify(split.train, validation=split.held, **setting)
    except (DataError, DivergedError) as refusal:
        return _Attempt(np.inf, refusal)
    return _Attempt(_error(model, split, skip), model)


def _error(model: Forecaster, split: Split, skip: int) -> float:
    """The one-step error on the held-out recordings."""
    with np.errstate(over="ignore", invalid="ignore"):
        return float(errors_by_horizon(model, split.held, skip=skip)[0])
