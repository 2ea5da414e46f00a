"""Losses: what a belief is charged for what came. Each is a Bregman divergence: the conditional mean minimises it.

A trainer asks a loss for its closed-loop errors by horizon and how much each counts, and knows nothing else about it.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from psimlearn.evaluate.horizons import mean_square
from psimlearn.filter.features import Features, Variances

__all__ = ["GaussianNLL", "LogLoss", "Loss", "Squared"]


@runtime_checkable
class Loss(Protocol):
    """d(m, phi(f)), and the error in closed loop that goes with it."""

    def divergence(self, m: Float[np.ndarray, "b d"], phi: Float[np.ndarray, "b d"]) -> Float[np.ndarray, " b"]:
        """What each belief is charged for the features that came."""

    def errors(
        self, features: Features, m: Float[np.ndarray, "b d"], truth: Float[np.ndarray, "b horizon n"]
    ) -> Float[np.ndarray, " horizon"]:
        """What beliefs are charged, on average, for the next observations, NaN where there was none."""

    def weights(
        self, truth: Float[np.ndarray, "b horizon n"], stays: Float[np.ndarray, "b n"]
    ) -> Float[np.ndarray, " horizon"]:
        """How much each horizon counts, where all do, given what it would be to hold the last observation."""


@dataclass(frozen=True)
class Squared:
    """||m - phi||^2. Horizons count relative to the error of the last observation."""

    def divergence(self, m: Float[np.ndarray, "b d"], phi: Float[np.ndarray, "b d"]) -> Float[np.ndarray, " b"]:
        """The squared distance."""
        return np.asarray(np.sum((m - phi) ** 2, axis=1))

    def errors(
        self, features: Features, m: Float[np.ndarray, "b d"], truth: Float[np.ndarray, "b horizon n"]
    ) -> Float[np.ndarray, " horizon"]:
        """Squared, summed over channels, averaged over rows."""
        return mean_square(features.observations(m)[:, : truth.shape[1]] - truth)

    def weights(
        self, truth: Float[np.ndarray, "b horizon n"], stays: Float[np.ndarray, "b n"]
    ) -> Float[np.ndarray, " horizon"]:
        """One over the last observation's error, averaged over horizons."""
        last = mean_square(truth - stays[:, None])
        return np.asarray(1 / (truth.shape[1] * np.where(last > 0, last, 1.0)))


@dataclass(frozen=True)
class LogLoss:
    """-log m of what came, for beliefs about symbols, in nats: the Kullback-Leibler divergence of m from certainty."""

    def divergence(self, m: Float[np.ndarray, "b d"], phi: Float[np.ndarray, "b d"]) -> Float[np.ndarray, " b"]:
        """sum phi log(phi / m), which for one-hot phi is -log of one probability."""
        with np.errstate(divide="ignore"):
            each = np.where(phi > 0, phi * (np.log(np.where(phi > 0, phi, 1.0)) - np.log(m)), 0.0)
        total: np.ndarray = each.sum(axis=1)
        return total

    def errors(
        self, features: Features, m: Float[np.ndarray, "b d"], truth: Float[np.ndarray, "b horizon n"]
    ) -> Float[np.ndarray, " horizon"]:
        """Nats per symbol."""
        return self.nats(features.observations(m)[:, : truth.shape[1]], truth)

    def nats(
        self, probabilities: Float[np.ndarray, "b horizon v"], truth: Float[np.ndarray, "b horizon v"]
    ) -> Float[np.ndarray, " horizon"]:
        """The mean over symbols observed of -log of the probability that each was given; 0 where there was none."""
        seen = ~np.isnan(truth).any(axis=2)
        with np.errstate(divide="ignore", invalid="ignore"):
            nats = np.where(seen, -np.log(np.sum(np.where(truth > 0, probabilities, 0.0), axis=2)), 0.0)
        return np.asarray(nats.sum(axis=0) / np.maximum(seen.sum(axis=0), 1))

    def weights(
        self, truth: Float[np.ndarray, "b horizon n"], stays: Float[np.ndarray, "b n"]
    ) -> Float[np.ndarray, " horizon"]:
        """All alike: a nat is a nat."""
        return np.full(truth.shape[1], 1 / truth.shape[1])


@dataclass(frozen=True)
class GaussianNLL:
    """-log N(f; mean, variance) of beliefs that hold means and second moments of each channel, [f; f^2].

    It is the divergence that -1/2 sum log(variance) generates, but for a term that no belief can change and that is
    infinite where phi has no variance of its own.
    """

    def divergence(self, m: Float[np.ndarray, "b d"], phi: Float[np.ndarray, "b d"]) -> Float[np.ndarray, " b"]:
        """For [f; f^2]."""
        mean, second = np.split(m, 2, axis=1)
        return np.asarray(np.sum(_nats(phi[:, : mean.shape[1]], mean, second - mean**2), axis=1))

    def errors(
        self, features: Features, m: Float[np.ndarray, "b d"], truth: Float[np.ndarray, "b horizon n"]
    ) -> Float[np.ndarray, " horizon"]:
        """Nats of each step ahead, in standardised units, summed over channels, averaged over rows."""
        assert isinstance(features, Variances)  # settings see to it
        h = truth.shape[1]
        nats = _nats(truth, features.observations(m)[:, :h], features.variance(m)[:, :h])
        seen = ~np.isnan(truth)
        means = np.sum(np.where(seen, nats, 0.0), axis=0) / np.maximum(seen.sum(axis=0), 1)
        return np.asarray(means.sum(axis=-1))

    def weights(
        self, truth: Float[np.ndarray, "b horizon n"], stays: Float[np.ndarray, "b n"]
    ) -> Float[np.ndarray, " horizon"]:
        """All alike."""
        return np.full(truth.shape[1], 1 / truth.shape[1])


def _nats(
    x: Float[np.ndarray, "*b"], mean: Float[np.ndarray, "*b"], variance: Float[np.ndarray, "*b"]
) -> Float[np.ndarray, "*b"]:
    """-log N(x; mean, variance), each by itself."""
    nats: np.ndarray = 0.5 * (np.log(2 * np.pi * variance) + (x - mean) ** 2 / variance)
    return nats
