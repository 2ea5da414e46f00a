"""Coordinates in which "nothing changes" is the origin: a ridge penalises these if the last observation is its prior.

    [m_t - persist(x_t)]    the belief, relative to the last observation
    [x_t]                   the level, times the level weight
    [x_t - x_{t-1}; ..]     changes
    [u]                     inputs

All but the inputs are brought to unit deviation. Lags of a smooth signal are nearly equal, and a ridge on the lags
themselves would have to pay for large weights of opposite sign to see a velocity; here it is one small weight. With a
small level weight predictions hardly depend on the level, so that a recording with an unusual offset is no surprise.
"""

from typing import Any

import numpy as np
import scipy.sparse

from psimlearn.filter import Filter, Stack
from psimlearn.learners import OF_NONE, Channels, Coordinates, GramSums
from psimlearn.shapes import Float

__all__ = ["channels_of", "deviation", "relative", "weighted"]

KERNEL_CHANGE = 0.2
"""How much a change counts beside a level in the distances of a kernel."""
NEGLIGIBLE = 1e-6
"""A difference that varies less than this, relative to its two terms, is rounding."""


def relative(filter: Filter, p: int) -> scipy.sparse.csr_array:
    """The map from z, of p columns, to these coordinates, before they are scaled."""
    assert isinstance(filter.features, Stack)  # recipes see to it
    r, n = len(filter.feedback.mean), len(filter.scaling.mean)
    persisted = -filter.feedback.linear(filter.features.persist(np.eye(n)))
    level, coordinate = np.nonzero(persisted)
    lagged = np.arange(r + n, r + filter.lags * n)  # z holds x_t, x_{t-1}, ..; column j becomes newer - older
    diagonal = np.ones(p)
    diagonal[lagged] = -1.0
    values = np.concatenate([diagonal, persisted[level, coordinate], np.ones(len(lagged))])
    rows = np.concatenate([np.arange(p), r + level, lagged - n])
    columns = np.concatenate([np.arange(p), coordinate, lagged])
    return scipy.sparse.csr_array((values, (rows, columns)), shape=(p, p))


def weighted(
    filter: Filter, change: Any, deviation: Float[np.ndarray, " p"], of_z: Float[np.ndarray, " p"], level_weight: float
) -> Coordinates:
    """Scale coordinates of these deviations for a ridge and for a kernel; `of_z` are the deviations of z."""
    varies = deviation > np.maximum(NEGLIGIBLE * (abs(change).T @ of_z), 1e-12)
    unit = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=varies)
    ridge, kernel = unit.copy(), unit.copy()
    r, n = len(filter.feedback.mean), len(filter.scaling.mean)
    belief, level, changes = slice(r), slice(r, r + n), slice(r + n, r + filter.lags * n)
    ridge[belief] *= filter.feedback.weight
    ridge[level] *= level_weight
    kernel[belief] *= KERNEL_CHANGE * filter.feedback.weight
    kernel[changes] *= KERNEL_CHANGE
    ridge[changes.stop :] = kernel[changes.stop :] = 1.0
    return Coordinates(change @ scipy.sparse.diags_array(ridge), change @ scipy.sparse.diags_array(kernel))


def channels_of(filter: Filter, weight: float) -> Channels:
    """The channels of the columns of z and of a belief; directions of a belief, and inputs, are of none."""
    assert isinstance(filter.features, Stack)  # recipes see to it
    n, window = len(filter.scaling.mean), filter.features.window
    of_belief = np.tile(np.arange(n), window)
    of_fed = of_belief if filter.feedback.directions is None else np.full(len(filter.feedback.mean), OF_NONE)
    controls = 0 if filter.input_scaling is None else len(filter.input_scaling.mean) * (1 + filter.feedthrough)
    of_z = [of_fed, np.tile(np.arange(n), filter.lags), np.full(controls, OF_NONE)]
    return Channels(np.concatenate(of_z), of_belief, weight)


def deviation(sums: GramSums, change: Any = None) -> Float[np.ndarray, " p"]:
    """The standard deviations of z @ change; of z itself without a change."""
    if change is None:
        mean, square = sums.z / sums.n, np.diagonal(sums.zz) / sums.n
    else:
        entries, half = change.tocoo(), change.T @ sums.zz  # of the second product, only the diagonal is needed
        squares = entries.data * half[entries.col, entries.row]
        mean, square = change.T @ sums.z / sums.n, np.bincount(entries.col, squares, change.shape[1]) / sums.n
    return np.asarray(np.sqrt(np.maximum(square - mean**2, 0.0)))
