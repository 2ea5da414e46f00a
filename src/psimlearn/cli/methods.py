"""The methods that a filter is compared with, each tuned as people who use it would tune it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from psimlearn.baselines import LastObservation, RecurrentNetwork, TrainingMean
from psimlearn.baselines.tuned import Split, tuned_autoregression, tuned_em, tuned_ivr, tuned_n4sid
from psimlearn.estimator.psim import PSIM
from psimlearn.evaluate import Forecaster
from psimlearn.evaluate.compare import Fit
from psimlearn.evaluate.folds import cut
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.shapes import Float, Int

__all__ = ["METHODS", "Patchwork", "autoregression", "cross_fitted", "subspace"]

LAGS = (1, 2, 5, 10, 20)
N_PARTS = 5
"""The number of parts into which recordings are divided where each part is predicted from the others."""


def autoregression(train: Trajectories, horizon: int, skip: int = 1) -> Forecaster:
    """An autoregression with lags, ridge and prior chosen by validation.

    Args:
        train: recordings.
        horizon: the largest number of steps ahead.
        skip: rows at the beginning of a recording that do not count in the choice.
    """
    split = Split.of(train)
    longest = int(split.train.lengths.max()) - horizon - 1
    lags = [q for q in LAGS if q <= max(1, longest)]
    return tuned_autoregression(split, lags, horizon, criterion="window", skip=skip).forecaster


def subspace(train: Trajectories) -> Forecaster:
    """N4SID with its order chosen by validation."""
    return tuned_n4sid(Split.of(train), {}, worse=None).forecaster


def _predictive(train: Trajectories) -> Forecaster:
    return tuned_ivr(Split.of(train), {}, worse=None).forecaster


def _expectation_maximisation(train: Trajectories) -> Forecaster:
    return tuned_em(Split.of(train), {}, worse=None).forecaster


def _recurrent(train: Trajectories, horizon: int, seed: int) -> Forecaster:
    """A gated network, stopped when the error on held-out recordings no longer falls; too slow to train twice."""
    _, fitted, held = Split.of(train)
    return RecurrentNetwork.fit(fitted, held, horizon, seed=seed)


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
"""Functions of the largest horizon, the window and a seed, from the simplest method to ours."""


@dataclass(frozen=True, eq=False)
class Patchwork:
    """Predictions made earlier, for the recordings that they were made for."""

    predictions: Float[np.ndarray, "rows most n"]

    def forecast(self, trajectories: Trajectories, horizon: int) -> Float[np.ndarray, "rows horizon n"]:
        """The first `horizon` steps of the predictions."""
        return self.predictions[:, :horizon]


def cross_fitted(data: Trajectories, horizon: int, seed: int) -> Patchwork:
    """Predictions by autoregressions, each of recordings or of a half recording that it was not fitted to."""
    predictions = np.empty((len(data.values), horizon, data.n_channels))
    for rows, others in _parts(data, seed):
        predictions[rows] = autoregression(others, horizon).forecast(data, horizon)[rows]
    return Patchwork(predictions)


def _parts(data: Trajectories, seed: int) -> Iterator[tuple[Int[np.ndarray, " some"], Trajectories]]:
    """Rows of some recordings, and the other recordings; two halves of a single recording."""
    rows = np.arange(len(data.values))
    if len(data) == 1:
        middle = (len(rows) + 1) // 2
        first, second = cut(data, middle)
        yield from ((rows[:middle], second), (rows[middle:], first))
        return
    order = np.random.default_rng(seed).permutation(len(data))
    by_recording = np.split(rows, data.offsets[1:-1])
    for part in np.array_split(order, min(N_PARTS, len(data))):
        yield np.concatenate([by_recording[i] for i in part]), data[np.setdiff1d(order, part)]
