"""Scores for scikit-learn: one number for a filter on recordings, of which more is better."""

import numpy as np

from psimlearn.filter import Filter
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.shapes import Float

__all__ = ["mean_log_likelihood", "r_squared"]


def r_squared(x: Float[np.ndarray, "rows n"], predicted: Float[np.ndarray, "rows n"]) -> float:
    """R^2, averaged over the channels that vary; NaN if none does. Entries of x that are NaN do not count."""
    seen = ~np.isnan(x)
    mean = np.sum(x, axis=0, where=seen) / np.maximum(seen.sum(axis=0), 1)
    errors, power = (np.sum((x - guess) ** 2, axis=0, where=seen) for guess in (predicted, mean))
    varies = np.max(x, axis=0, where=seen, initial=-np.inf) > np.min(x, axis=0, where=seen, initial=np.inf)
    return float(np.mean(1 - errors[varies] / power[varies])) if varies.any() else np.nan


def mean_log_likelihood(filter: Filter, symbols: Trajectories) -> float:
    """Nats per symbol that was observed; NaN if none was."""
    observed = ~np.isnan(symbols.values).any(axis=1)
    return float(np.mean(filter.log_likelihood(symbols)[observed])) if observed.any() else np.nan
