"""Filters that fill gaps in, tried with one sensor out after the other.

A filter that takes its guesses of a channel for observations can run away once the channel is missing. Whether it does
depends on the filter, and no formula says so for regressors that can only be called.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from psimlearn.evaluate.calibrate import Unseen
from psimlearn.filter import Filter
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.recordings.windows import row_times
from psimlearn.shapes import Bool, Float

__all__ = ["untrusted"]

TOO_MUCH = 4.0
"""A filter is not to be trusted without a sensor if the errors of the other channels are this many times as large."""
MOST_CHANNELS = 50
"""Channels that are tried at most: bounds the time."""


def untrusted(unseen: Sequence[Unseen]) -> dict[int, float]:
    """The channels without which the errors of the others grow, and by how much.

    Args:
        unseen: filters, each with recordings that it was not fitted to. A channel is missing from their middle on.
    """
    n = unseen[0][1].n_channels
    if n == 1:
        return {}
    found = {}
    for channel in range(min(n, MOST_CHANNELS)):
        pairs = [_errors(filter, held, channel) for filter, held in unseen]
        with_it, without = (float(np.mean(np.concatenate(part))) for part in zip(*pairs, strict=True))
        factor = without / with_it if with_it > 0 else 1.0
        if not factor <= TOO_MUCH:  # NaN as well
            found[channel] = factor
    return found


def _errors(
    filter: Filter, held: Trajectories, channel: int
) -> tuple[Float[np.ndarray, " entries"], Float[np.ndarray, " entries"]]:
    """Squared one-step errors of the other channels in the second halves of recordings, with and without a channel."""
    later = _later(held)
    values = held.values.copy()
    values[later, channel] = np.nan
    cut = replace(held, values=values)
    others = np.delete(np.arange(held.n_channels), channel)
    errors = []
    for data in (held, cut):
        with np.errstate(over="ignore", invalid="ignore"):  # a filter that runs away is a finding, not a crash
            off = (held.values - filter.forecast(data, 1)[:, 0])[np.ix_(later, others)] / filter.scaling.scale[others]
        errors.append((off**2)[~np.isnan(held.values[np.ix_(later, others)])])
    return errors[0], errors[1]


def _later(held: Trajectories) -> Bool[np.ndarray, " rows"]:
    """Mark the second half of each recording."""
    return np.asarray(row_times(held.offsets) >= np.repeat(held.lengths // 2, held.lengths))
