"""The methods compared: each chooses its settings on the same held-out recordings, then learns from all of them."""

from collections.abc import Callable
from typing import Any

from psimlearn.baselines import LastObservation, TrainingMean
from psimlearn.baselines.tuned import Tuned, tuned_autoregression, tuned_em, tuned_ivr, tuned_n4sid, tuned_network
from psimlearn.errors import SettingsError
from psimlearn.reproduce.given import Given
from psimlearn.reproduce.machines import tuned_backprop, tuned_dagger, tuned_forward, tuned_psim

__all__ = ["METHODS", "learnt"]


def learnt(data: Given, method: str, **options: Any) -> Tuned:
    """Apply a method by its name, with the options of its table in the experiment's file."""
    if method not in METHODS:
        raise SettingsError(f"required a method of {list(METHODS)}, received {method!r}.")
    return METHODS[method](data, **options)


def _autoregression(data: Given, lags: list[int], priors: list[Any]) -> Tuned:
    return tuned_autoregression(data.split, lags, data.window, priors=priors, skip=data.skip)


def _em(data: Given, n_iter: int, **grid: list[Any]) -> Tuned:
    return tuned_em(data.split, grid, n_iter, skip=data.skip)


def _rnn(data: Given, cells: list[Any], rates: list[float], **options: Any) -> Tuned:
    return tuned_network(data.split, data.window, cells, rates, skip=data.skip, seed=data.seed, **options)


METHODS: dict[str, Callable[..., Tuned]] = {
    "mean": lambda data: Tuned(TrainingMean.fit(data.everything), {}),
    "last": lambda data: Tuned(LastObservation.fit(data.everything), {}),
    "autoregression": _autoregression,
    "n4sid": lambda data, **grid: tuned_n4sid(data.split, grid, skip=data.skip),
    "ivr": lambda data, **grid: tuned_ivr(data.split, grid, data.window, skip=data.skip),
    "em": _em,
    "rnn": _rnn,
    "dagger": tuned_dagger,
    "backprop": tuned_backprop,
    "forward": tuned_forward,
    "psim": tuned_psim,
}
