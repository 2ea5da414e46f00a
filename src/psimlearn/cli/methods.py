"""The methods that a filter is set beside, each tuned as its own field would tune it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from psimlearn.baselines import Autoregression, LastObservation, RecurrentNetwork, TrainingMean, em, ivr, n4sid
from psimlearn.errors import PsimlearnError
from psimlearn.estimator.psim import PSIM
from psimlearn.evaluate.horizons import Forecaster
from psimlearn.recordings.trajectories import Trajectories

__all__ = ["METHODS", "Attempt", "autoregression", "cross_fitted", "subspace"]

Fit = Callable[[Trajectories], Forecaster]
LAGS = (1, 2, 5, 10, 20)
N_PARTS = 5
"""Into how many parts recordings are cut where each is predicted from the others."""


def autoregression(train: Trajectories, horizon: int, skip: int = 1) -> Autoregression:
    """Lags, ridge and prior by validation, from so many rows into a recording on; then fitted to everything."""
    first, second = _halves(train)
    longest = int(first.lengths.max()) - horizon - 1
    lags = [q for q in LAGS if q <= max(1, longest)]
    best = Autoregression.tuned(first, second, lags, horizon, criterion="window", skip=skip)
    return Autoregression.fit(train, best.lags, horizon, alpha=best.alpha, prior=best.prior)


def subspace(train: Trajectories) -> Forecaster:
    """N4SID, its order by validation, then identified from everything."""
    first, second = _halves(train)
    return n4sid(train, n4sid(first, validation=second).order)


def _predictive(train: Trajectories) -> Forecaster:
    first, second = _halves(train)
    return ivr(train, ivr(first, validation=second).order)


def _expectation_maximisation(train: Trajectories) -> Forecaster:
    first, second = _halves(train)
    return em(train, n4sid(first, validation=second).order)


def _recurrent(train: Trajectories, horizon: int, seed: int) -> Forecaster:
    """A gated network, trained until the recordings held out tell it to stop."""
    first, second = _halves(train)
    return RecurrentNetwork.fit(first, second, horizon, seed=seed)


def _psim(learner: str) -> Callable[[int, int, int], Fit]:
    def of(horizon: int, window: int, seed: int) -> Fit:
        return lambda train: PSIM(window, learner=learner, random_state=seed).fit(train).filter_

    return of


METHODS: dict[str, Callable[[int, int, int], Fit]] = {
    "mean": lambda *_: TrainingMean.fit,
    "last": lambda *_: LastObservation.fit,
    "ar": lambda horizon, *_: lambda train: autoregression(train, horizon),
    "n4sid": lambda *_: subspace,
    "ivr": lambda *_: _predictive,
    "em": lambda *_: _expectation_maximisation,
    "rnn": lambda horizon, _, seed: lambda train: _recurrent(train, horizon, seed),
    "psim": _psim("ridge"),
    "psim-rff": _psim("rff"),
}
"""Functions of the largest horizon, the window and a seed, from the simplest to ours."""


@dataclass
class Attempt:
    """A method that may fail on some recordings: it then predicts nothing, and its reason is kept."""

    fit: Fit
    reasons: list[str] = field(default_factory=list)

    def __call__(self, train: Trajectories) -> Forecaster:
        """Fit it, or note why not."""
        try:
            return self.fit(train)
        except (PsimlearnError, np.linalg.LinAlgError) as error:
            self.reasons.append(str(error))
            return Patchwork(np.full((1, 1, 1), np.nan))


@dataclass(frozen=True, eq=False)
class Patchwork:
    """Predictions made before, for the recordings that they were made for."""

    predictions: Float[np.ndarray, "_ horizon _"]

    def forecast(self, trajectories: Trajectories, horizon: int) -> Float[np.ndarray, "rows horizon n"]:
        """As many steps ahead as are asked for."""
        shape = (len(trajectories.values), horizon, trajectories.n_channels)
        return np.broadcast_to(self.predictions[:, :horizon], shape)


def cross_fitted(data: Trajectories, horizon: int, seed: int) -> Patchwork:
    """Autoregressions, each of which predicts recordings, or a stretch of a single one, that it was not fitted to."""
    predictions = np.empty((len(data.values), horizon, data.n_channels))
    for rows, others in _parts(data, horizon, seed):
        predictions[rows] = autoregression(others, horizon).forecast(data, horizon)[rows]
    return Patchwork(predictions)


def _parts(data: Trajectories, horizon: int, seed: int) -> list[tuple[Int[np.ndarray, " some"], Trajectories]]:
    rows = np.arange(len(data.values))
    if len(data) == 1:
        first, second = np.array_split(rows, 2)
        return [(first, data.stretches([second])), (second, data.stretches([first]))]
    order = np.random.default_rng(seed).permutation(len(data))
    parts = np.array_split(order, min(N_PARTS, len(data)))
    own = np.split(rows, data.offsets[1:-1])
    return [(np.concatenate([own[i] for i in part]), data[np.setdiff1d(order, part)]) for part in parts]


def _halves(train: Trajectories) -> tuple[Trajectories, Trajectories]:
    """Four fifths to fit, a fifth to choose by; a single recording is cut in time."""
    if len(train) > 1:
        return train.split(0.2, np.random.default_rng(0))
    cut = len(train.values) - max(1, len(train.values) // 5)
    rows: Any = np.arange(len(train.values))
    return train.stretches([rows[:cut]]), train.stretches([rows[cut:]])
