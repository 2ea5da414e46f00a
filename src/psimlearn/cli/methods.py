"""The methods that a filter is compared with, each tuned as people who use it would tune it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from psimlearn.baselines import LastObservation, RecurrentNetwork, TrainingMean
from psimlearn.baselines.tuned import Split, tuned_autoregression, tuned_em, tuned_ivr, tuned_n4sid
from psimlearn.estimator.psim import PSIM
from psimlearn.evaluate import Forecaster
from psimlearn.evaluate.compare import Fit
from psimlearn.evaluate.folds import cut
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.shapes import Float, Int

__all__ = ["METHODS", "Patchwork", "Setup", "autoregression", "cross_fitted", "subspace"]

LAGS = (1, 2, 5, 10, 20)
N_PARTS = 5
"""The number of parts into which recordings are divided where each part is predicted from the others."""


class Setup(NamedTuple):
    """What the methods of a comparison have in common."""

    horizon: int
    """The largest number of steps ahead."""
    window: int
    seed: int
    group_of: Mapping[Any, int] | None = None
    """The number of the group of each recording, by id; None without groups."""

    def groups(self, data: Trajectories) -> Int[np.ndarray, " m"] | None:
        """The number of the group of each of these recordings; None without groups."""
        return None if self.group_of is None else np.array([self.group_of[id] for id in data.ids or ()])

    def split(self, train: Trajectories) -> Split:
        """Recordings to fit to, and recordings to choose settings by; groups stay together."""
        return Split.of(train, self.groups(train))


def autoregression(train: Trajectories | Split, horizon: int, skip: int = 1) -> Forecaster:
    """An autoregression with lags, ridge and prior chosen by validation.

    Args:
        train: recordings, or a split of them.
        horizon: the largest number of steps ahead.
        skip: rows at the beginning of a recording that do not count in the choice.
    """
    split = train if isinstance(train, Split) else Split.of(train)
    longest = int(split.train.lengths.max()) - horizon - 1
    lags = [q for q in LAGS if q <= max(1, longest)]
    return tuned_autoregression(split, lags, horizon, criterion="window", skip=skip).forecaster


def subspace(train: Trajectories | Split) -> Forecaster:
    """N4SID with its order chosen by validation."""
    return tuned_n4sid(train if isinstance(train, Split) else Split.of(train), {}, worse=None).forecaster


def _predictive(split: Split) -> Forecaster:
    return tuned_ivr(split, {}, worse=None).forecaster


def _expectation_maximisation(split: Split) -> Forecaster:
    return tuned_em(split, {}, worse=None).forecaster


def _recurrent(setup: Setup) -> Fit:
    """A gated network, stopped when the error on held-out recordings no longer falls; too slow to train twice."""

    def fit(train: Trajectories) -> Forecaster:
        _, fitted, held = setup.split(train)
        return RecurrentNetwork.fit(fitted, held, setup.horizon, seed=setup.seed)

    return fit


def _psim(learner: str) -> Callable[[Setup], Fit]:
    def of(setup: Setup) -> Fit:
        model = PSIM(setup.window, learner=learner, random_state=setup.seed)
        return lambda train: clone(model).fit(train, groups=setup.groups(train)).filter_

    return of


def _tuned(fit: Callable[[Split], Forecaster]) -> Callable[[Setup], Fit]:
    return lambda setup: lambda train: fit(setup.split(train))


METHODS: dict[str, Callable[[Setup], Fit]] = {
    "mean": lambda _: TrainingMean.fit,
    "last": lambda _: LastObservation.fit,
    "ar": lambda setup: lambda train: autoregression(setup.split(train), setup.horizon),
    "n4sid": _tuned(subspace),
    "ivr": _tuned(_predictive),
    "em": _tuned(_expectation_maximisation),
    "rnn": _recurrent,
    "psim": _psim("ridge"),
    "psim-rff": _psim("rff"),
}
"""From the simplest method to ours."""


@dataclass(frozen=True, eq=False)
class Patchwork:
    """Predictions made earlier, for the recordings that they were made for."""

    predictions: Float[np.ndarray, "rows most n"]

    def forecast(self, trajectories: Trajectories, horizon: int) -> Float[np.ndarray, "rows horizon n"]:
        """The first `horizon` steps of the predictions."""
        return self.predictions[:, :horizon]


def cross_fitted(data: Trajectories, setup: Setup) -> Patchwork:
    """Predictions by autoregressions, each of recordings or of a half recording that it was not fitted to."""
    predictions = np.empty((len(data.values), setup.horizon, data.n_channels))
    for rows, others in _parts(data, setup):
        predictions[rows] = autoregression(setup.split(others), setup.horizon).forecast(data, setup.horizon)[rows]
    return Patchwork(predictions)


def _parts(data: Trajectories, setup: Setup) -> Iterator[tuple[Int[np.ndarray, " some"], Trajectories]]:
    """Rows of some recordings, and the other recordings; two halves of a single recording."""
    rows = np.arange(len(data.values))
    if len(data) == 1:
        middle = (len(rows) + 1) // 2
        first, second = cut(data, middle)
        yield from ((rows[:middle], second), (rows[middle:], first))
        return
    groups = setup.groups(data)
    of_recording = np.arange(len(data)) if groups is None else groups
    order = np.random.default_rng(setup.seed).permutation(np.unique(of_recording))
    for part in np.array_split(order, min(N_PARTS, len(order))):
        here = np.isin(of_recording, part)
        yield rows[np.repeat(here, data.lengths)], data[~here]
