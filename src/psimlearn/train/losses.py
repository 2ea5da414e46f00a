"""Losses: the charge of a belief for the observations that followed, which ranks rounds and settings.

Each is a Bregman divergence, which the conditional mean minimises, so that learners need not know it. A trainer asks a
loss for its closed-loop errors by horizon and for the weight of each horizon, and knows nothing else about it.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from psimlearn.evaluate import mean_square
from psimlearn.filter import Features
from psimlearn.filter.features import Variances
from psimlearn.shapes import Float

__all__ = ["GaussianNLL", "LogLoss", "Loss", "Squared"]

Ahead = Float[np.ndarray, "b horizon n"]
"""The next observations after each row."""
ByHorizon = Float[np.ndarray, " horizon"]


@runtime_checkable
class Loss(Protocol):
    """A closed-loop error by horizon, and how much each horizon counts."""

    def errors(self, features: Features, m: Float[np.ndarray, "b d"], truth: Ahead) -> ByHorizon:
        """The mean charge of beliefs m for the next observations; NaN in `truth` was not observed and costs nothing."""

    def weights(self, truth: Ahead, stays: Float[np.ndarray, "b n"]) -> ByHorizon:
        """How much each horizon counts where several do; `stays` is the last observation before each row."""


@dataclass(frozen=True)
class Squared:
    """||m - phi||^2. Horizons count relative to the error of the last observation."""

    def errors(self, features: Features, m: Float[np.ndarray, "b d"], truth: Ahead) -> ByHorizon:
        """Squared errors, summed over channels, averaged over rows."""
        return mean_square(features.observations(m)[:, : truth.shape[1]] - truth)

    def weights(self, truth: Ahead, stays: Float[np.ndarray, "b n"]) -> ByHorizon:
        """One over the error of the last observation, divided by the number of horizons."""
        last = mean_square(truth - stays[:, None])
        return np.asarray(1 / (truth.shape[1] * np.where(last > 0, last, 1.0)))


@dataclass(frozen=True)
class LogLoss:
    """-log m of the symbol that came, in nats: the Kullback-Leibler divergence of m from certainty."""

    def errors(self, features: Features, m: Float[np.ndarray, "b d"], truth: Ahead) -> ByHorizon:
        """Nats per symbol."""
        return self.nats(features.observations(m)[:, : truth.shape[1]], truth)

    def nats(self, probabilities: Ahead, truth: Ahead) -> ByHorizon:
        """The mean of -log probability over the symbols observed; 0 at horizons without any."""
        seen = ~np.isnan(truth).any(axis=2)
        with np.errstate(divide="ignore", invalid="ignore"):
            nats = np.where(seen, -np.log(np.sum(np.where(truth > 0, probabilities, 0.0), axis=2)), 0.0)
        return np.asarray(nats.sum(axis=0) / np.maximum(seen.sum(axis=0), 1))

    def weights(self, truth: Ahead, stays: Float[np.ndarray, "b n"]) -> ByHorizon:
        """Equal weights: a nat is a nat at every horizon."""
        return np.full(truth.shape[1], 1 / truth.shape[1])


@dataclass(frozen=True)
class GaussianNLL:
    """-log N(f; mean, variance) of beliefs that hold means and second moments of each channel, [f; f^2].

    It is the divergence that -1/2 sum log(variance) generates, except for a term that no belief can change and that is
    infinite because a single observation has no variance.
    """

    def errors(self, features: Features, m: Float[np.ndarray, "b d"], truth: Ahead) -> ByHorizon:
        """Nats of each step ahead, in standardised units, summed over channels, averaged over rows."""
        assert isinstance(features, Variances)  # settings see to it
        h = truth.shape[1]
        mean, variance = features.observations(m)[:, :h], features.variance(m)[:, :h]
        nats = 0.5 * (np.log(2 * np.pi * variance) + (truth - mean) ** 2 / variance)
        seen = ~np.isnan(truth)
        means = np.sum(np.where(seen, nats, 0.0), axis=0) / np.maximum(seen.sum(axis=0), 1)
        return np.asarray(means.sum(axis=-1))

    def weights(self, truth: Ahead, stays: Float[np.ndarray, "b n"]) -> ByHorizon:
        """Equal weights."""
        return np.full(truth.shape[1], 1 / truth.shape[1])
