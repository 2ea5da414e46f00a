"""Regression of a mean and a log-variance on the same inputs: the learner that minimises a Gaussian likelihood.

Beliefs are expectations of [f; f^2], the features of `StackSquares`. Least squares would fit each half by itself; this
learner fits the mean most closely where the variance is small, and its variance is positive for any input.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from psimlearn.checks import whole
from psimlearn.errors import DivergedError
from psimlearn.filter import Linear, MeanAndVariance
from psimlearn.filter.regressors import LEAST_LOG_VARIANCE, MOST_LOG_VARIANCE
from psimlearn.learners.blackbox import FromSample, Stacked
from psimlearn.learners.learner import Y, Z
from psimlearn.learners.ridge import Ridge
from psimlearn.shapes import Float

__all__ = ["GaussianLearner"]


@dataclass(frozen=True)
class GaussianLearner(FromSample):
    """Minimises the mean of -log N(f; Wz + b, exp(Vz + c)) over examples, plus alpha (||W||^2 + ||V||^2).

    Use it with `StackSquares` features, the prior "zero", and `losses.GaussianNLL` to choose among rounds.

    Args:
        alpha: the penalty per example.
        max_rows: learn from a random sample of at most this many examples.
        seed: the seed of that sample; drawn by `prepare` if not given.
    """

    alpha: float = 1e-4
    max_rows: int = 20_000
    seed: int | None = None

    def __post_init__(self) -> None:
        """Refuse settings that have no meaning; with a negative penalty, the loss would have no minimum."""
        Ridge(self.alpha)
        whole(self.max_rows, "max_rows")
        self.check_sample()

    def solve(self, stats: Stacked) -> MeanAndVariance:
        """Minimise by L-BFGS, from the ridge regression of the mean and the logarithm of its residual variance."""
        z, y, _ = stats
        z = np.concatenate([z, np.ones((len(z), 1))], axis=1)
        mean, square = np.split(y, 2, axis=1)
        linear = Ridge(self.alpha).solve(Ridge().summarise(stats.z, mean))
        first = np.concatenate([linear.weights, linear.intercept[None]])
        spread = np.maximum(np.mean((mean - z @ first) ** 2, axis=0), np.exp(LEAST_LOG_VARIANCE))
        second = np.zeros_like(first)
        second[-1] = np.log(spread)
        found = minimize(
            lambda w: nats_and_gradient(w.reshape(2, *first.shape), z, mean, square, self.alpha),
            np.stack([first, second]).ravel(),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": 300},
        )
        if not np.isfinite(found.x).all():
            raise DivergedError("required finite weights, received infinity or NaN. Use a larger alpha or standardise.")
        weights = np.concatenate(found.x.reshape(2, *first.shape), axis=1)
        return MeanAndVariance(Linear(weights[:-1].copy(), weights[-1].copy()))


def nats_and_gradient(
    weights: Float[np.ndarray, "two p q"], z: Z, mean: Y, square: Y, alpha: float
) -> tuple[float, Float[np.ndarray, " size"]]:
    """The penalised mean of -log N, up to a constant, and its gradient; intercepts, the last row, have no penalty."""
    mu, log_variance = z @ weights[0], np.clip(z @ weights[1], LEAST_LOG_VARIANCE, MOST_LOG_VARIANCE)
    precision = np.exp(-log_variance)
    residual = square - 2 * mu * mean + mu**2  # E[(f - mu)^2], also where f is an expectation and not observed
    value = 0.5 * np.sum(log_variance + residual * precision) / len(z)
    inside = (log_variance > LEAST_LOG_VARIANCE) & (log_variance < MOST_LOG_VARIANCE)
    slopes = np.stack([(mu - mean) * precision, 0.5 * inside * (1 - residual * precision)])
    gradient = np.einsum("bp,sbw->spw", z, slopes, optimize=True) / len(z)
    penalised = weights.copy()
    penalised[:, -1] = 0.0
    return float(value + alpha * np.vdot(penalised, penalised)), (gradient + 2 * alpha * penalised).ravel()
