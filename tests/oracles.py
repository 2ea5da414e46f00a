"""Slow, obvious versions of the library's fast computations: loops over rows, stacked data, textbook formulas."""

from typing import Any

import numpy as np
from sklearn.linear_model import Ridge as SklearnRidge

from psimlearn.filter import Features, Filter
from psimlearn.recordings.trajectories import Trajectories


def ragged(lengths: list[int], n: int, rng: np.random.Generator, missing: float = 0.0) -> Trajectories:
    """Smooth-ish random recordings of the given lengths, with a share of entries missing."""
    parts = []
    for length in lengths:
        x = np.cumsum(rng.standard_normal((length, n)), axis=0) * 0.3 + rng.standard_normal((length, n))
        x[rng.random(x.shape) < missing] = np.nan
        parts.append(x)
    return Trajectories.of(parts)


def loop_examples(x: np.ndarray, beliefs: np.ndarray, features: Features, lags: int) -> tuple[np.ndarray, np.ndarray]:
    """(z_t, phi(f_{t+1})) of one trajectory, row by row; beliefs[t] is m_t. t = 1 .. T-k in the paper's counting."""
    k, z, y = features.window, [], []
    for t in range(len(x) - k):
        recent = [x[max(t - j, 0)] for j in range(lags)]
        z.append(np.concatenate([beliefs[t], *recent]))
        y.append(features(x[None, t + 1 : t + 1 + k])[0])
    return np.array(z), np.array(y)


def loop_beliefs(filter: Filter, x: np.ndarray, u: np.ndarray | None = None) -> np.ndarray:
    """The beliefs m_1 .. m_{T+1} of one trajectory, by stepping."""
    state = filter.start(1)
    beliefs = [state.belief[0]]
    for t in range(len(x)):
        now = None if u is None else u[t : t + 1]
        following = None if u is None else u[min(t + 1, len(u) - 1)][None]
        state = filter.step(state, x[t : t + 1], now, following)
        beliefs.append(state.belief[0])
    return np.array(beliefs)


def loss_by_hand(filter: Filter, data: Trajectories) -> float:
    """Squared errors of the beliefs that a loop over rows leaves behind, averaged over what was observed."""
    k, errors = filter.features.window, []
    for part in data:
        x = filter.scaling(part.values)
        beliefs = loop_beliefs(filter, part.values, part.inputs)
        for t in range(len(x) - k):
            errors.append(beliefs[t + 1] - filter.features(x[None, t + 1 : t + 1 + k])[0])
    return float(np.nanmean(np.square(errors), axis=0).sum())


def stacked_ridge(z: np.ndarray, y: np.ndarray, alpha: float, intercept: bool = True) -> Any:
    """scikit-learn's ridge on stacked examples, with the penalty counted per example."""
    return SklearnRidge(alpha=alpha * len(z), fit_intercept=intercept, solver="cholesky").fit(z, y)


def literal_dagger(
    x: np.ndarray, window: int, alpha: float, n_rounds: int, rng: np.random.Generator
) -> tuple[list[np.ndarray], np.ndarray]:
    """Algorithm 2 as printed, with F_0 = 0, on (m, T, n): every example kept, no intercept. Weights of each round."""
    m, length, n = x.shape
    f = np.stack([x[:, t : t + window].reshape(m, -1) for t in range(length - window + 1)], axis=1)
    first = f[:, 0].mean(axis=0)
    weights = [np.zeros(((window + 1) * n, window * n))]
    z_all: list[np.ndarray] = []
    y_all: list[np.ndarray] = []
    for _ in range(n_rounds):
        belief = np.tile(first, (m, 1))
        for t in range(length - window):
            z = np.concatenate([belief, x[:, t]], axis=1)
            z_all.append(z)
            y_all.append(f[:, t + 1])
            belief = z @ weights[-1]
        z_stack, y_stack = np.concatenate(z_all), np.concatenate(y_all)
        weights.append(stacked_ridge(z_stack, y_stack, alpha, intercept=False).coef_.T)
    return weights, first
