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
MOST_ROWS = 50_000
"""Rows that are run at most, once for each channel: of many recordings some are tried, spread over all."""
AT_ONCE = 10_000
"""The number of rows that run side by side: bounds memory."""


def untrusted(unseen: Sequence[Unseen]) -> dict[int, float]:
    """The channels without which the errors of the others grow, and by how much.

    Args:
        unseen: filters, each with recordings that it was not fitted to. A channel is missing from their middle on.
    """
    n = unseen[0][1].n_channels
    if n == 1:
        return {}
    most = MOST_ROWS // (min(n, MOST_CHANNELS) * len(unseen))
    pairs = [_errors(filter, _some(held, most), min(n, MOST_CHANNELS)) for filter, held in unseen]
    found = {}
    for channel in range(min(n, MOST_CHANNELS)):
        with_it, without = (
            float(np.mean(np.concatenate([part[channel] for part in parts]))) for parts in zip(*pairs, strict=True)
        )
        factor = without / with_it if with_it > 0 else 1.0
        if not factor <= TOO_MUCH:  # NaN as well
            found[channel] = factor
    return found


Entries = list[Float[np.ndarray, " entries"]]


def _errors(filter: Filter, held: Trajectories, n: int) -> tuple[Entries, Entries]:
    """Squared one-step errors of the other channels in the second halves of recordings, with and without a channel.

    Returns:
        Errors for each of the first n channels, with that channel observed and with it missing.
    """
    later = _later(held)

    def told(predictions: Float[np.ndarray, "rows n"], channel: int) -> Float[np.ndarray, " entries"]:
        others = np.delete(np.arange(held.n_channels), channel)
        truth = held.values[np.ix_(later, others)]
        with np.errstate(over="ignore", invalid="ignore"):
            errors = ((truth - predictions[np.ix_(later, others)]) / filter.scaling.scale[others]) ** 2
        return np.asarray(errors[~np.isnan(truth)])

    complete = _predicted(filter, held)
    many = max(1, AT_ONCE // max(1, len(held.values)))  # steps of many recordings side by side are cheaper
    without: Entries = []
    for i in range(0, n, many):
        channels = range(i, min(i + many, n))
        parts = np.split(_predicted(filter, _without(held, later, channels)), len(channels))
        without += [told(part, channel) for part, channel in zip(parts, channels, strict=True)]
    return [told(complete, channel) for channel in range(n)], without


def _predicted(filter: Filter, data: Trajectories) -> Float[np.ndarray, "rows n"]:
    with np.errstate(over="ignore", invalid="ignore"):  # a filter that runs away is a finding, not a crash
        return np.asarray(filter.forecast(data, 1)[:, 0])


def _without(held: Trajectories, later: Bool[np.ndarray, " rows"], channels: Sequence[int]) -> Trajectories:
    """A copy of the recordings for each of these channels, with that channel missing from the middle on."""
    copies = held[np.tile(np.arange(len(held)), len(channels))]
    values = copies.values.copy().reshape(len(channels), -1, held.n_channels)
    for copy, channel in zip(values, channels, strict=True):
        copy[later, channel] = np.nan
    return replace(copies, values=values.reshape(-1, held.n_channels))


def _some(held: Trajectories, most: int) -> Trajectories:
    """Recordings of about so many rows, spread evenly over all, but one at least: a filter may run away late."""
    some = max(1, min(len(held), len(held) * most // max(1, len(held.values))))
    return held[np.linspace(0, len(held) - 1, some).astype(int)]


def _later(held: Trajectories) -> Bool[np.ndarray, " rows"]:
    """Mark the second half of each recording."""
    return np.asarray(row_times(held.offsets) >= np.repeat(held.lengths // 2, held.lengths))
