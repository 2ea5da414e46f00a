"""The unit of each channel: filters and baselines see standardised observations."""

from typing import NamedTuple

import numpy as np

from psimlearn.errors import DataError
from psimlearn.shapes import Float, Int

__all__ = ["CONSTANT", "ChannelSums", "Scaling", "channel_sums", "constant_channels", "scaling_of", "standardisation"]

CONSTANT = 1e-12
"""A channel whose deviation is below this share of its largest value is constant but for rounding."""


WIDE = 512
"""About the entries of the rows that are taken as one."""


class Scaling(NamedTuple):
    """The mean and the unit of each channel, frozen at training."""

    mean: Float[np.ndarray, " n"]
    scale: Float[np.ndarray, " n"]

    def __call__(self, x: Float[np.ndarray, "*b n"]) -> Float[np.ndarray, "*b n"]:
        """Standardise observations."""
        standardised: np.ndarray = (x - self.mean) / self.scale
        return standardised

    def undo(self, x: Float[np.ndarray, "*b n"]) -> Float[np.ndarray, "*b n"]:
        """Convert standardised observations back into the units of the recordings."""
        original: np.ndarray = x * self.scale + self.mean
        return original

    def apply(self, x: Float[np.ndarray, "rows n"]) -> None:
        """Standardise in place."""
        for part, mean, scale in self._widened(x):
            part -= mean
            part /= scale

    def revert(self, x: Float[np.ndarray, "rows n"]) -> None:
        """Convert back in place."""
        for part, mean, scale in self._widened(x):
            part *= scale
            part += mean

    def _widened(self, x: Float[np.ndarray, "rows n"]) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Views of x that take many rows as one, since numpy is slow with short rows; and mean and unit."""
        n = len(self.mean)
        assert x.flags.c_contiguous  # a copy would be changed, and not x
        repeats = max(1, WIDE // n)
        whole = len(x) - len(x) % repeats
        parts = [(x[:whole].reshape(-1, repeats * n), repeats), (x[whole:], 1)]
        return [(part, np.tile(self.mean, times), np.tile(self.scale, times)) for part, times in parts]


def constant_channels(values: Float[np.ndarray, "rows n"]) -> list[int]:
    """The channels that only rounding moves."""
    columns = np.ascontiguousarray(values.T)
    found = []
    for c, column in enumerate(columns):
        seen = column[~np.isnan(column)]
        if len(seen) and np.ptp(seen) <= 2 * CONSTANT * np.abs(seen).max():
            found.append(c)
    return found


def standardisation(values: Float[np.ndarray, "rows n"], wanted: bool = True, one_unit: bool = False) -> Scaling:
    """Mean and standard deviation of each channel's observed values; a constant channel keeps its unit.

    A channel that only rounding moves is measured by its largest value where that exceeds 1, so that its standardised
    values hardly move either.

    Args:
        values: rows of recordings, NaN where not observed; every channel must have been observed once.
        wanted: if False, mean 0 and unit 1 for every channel.
        one_unit: if True, all channels that vary have the root mean square of their deviations as unit.
    """
    return scaling_of(channel_sums(values), wanted, one_unit)


class ChannelSums(NamedTuple):
    """The observed values of each channel in a few numbers; those of several parts of the data can be merged."""

    seen: Int[np.ndarray, " n"]
    """How many values were observed."""
    largest: Float[np.ndarray, " n"]
    """The largest absolute value, which is the unit of mean and deviation: squares of extreme scales stay finite."""
    mean: Float[np.ndarray, " n"]
    std: Float[np.ndarray, " n"]
    low: Float[np.ndarray, " n"]
    high: Float[np.ndarray, " n"]

    def plus(self, other: "ChannelSums") -> "ChannelSums":
        """Both parts together."""
        seen, largest = self.seen + other.seen, np.maximum(self.largest, other.largest)
        (n, m, s), (k, l, r) = (
            (part.seen / np.maximum(seen, 1), part.mean * unit, part.std * unit)
            for part, unit in ((self, self.largest / largest), (other, other.largest / largest))
        )
        std = np.sqrt(n * s**2 + k * r**2 + n * k * (m - l) ** 2)
        low, high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        return ChannelSums(seen, largest, n * m + k * l, std, low, high)


def channel_sums(values: Float[np.ndarray, "rows n"]) -> ChannelSums:
    """Sums over rows of recordings, NaN where not observed; a channel may have no values here."""
    columns = np.ascontiguousarray(values.T)  # numpy reduces few long rows much faster than many short ones
    seen = np.count_nonzero(~np.isnan(columns), axis=1)
    nothing = seen == 0
    columns = np.where(nothing[:, None], 0.0, columns) if nothing.any() else columns
    largest = np.maximum(np.nanmax(np.abs(columns), axis=1), np.finfo(float).tiny)
    unit = columns / largest[:, None]
    low, high = np.nanmin(columns, axis=1), np.nanmax(columns, axis=1)
    low, high = np.where(nothing, np.inf, low), np.where(nothing, -np.inf, high)
    return ChannelSums(seen, largest, np.nanmean(unit, axis=1), np.nanstd(unit, axis=1), low, high)


def scaling_of(sums: ChannelSums, wanted: bool = True, one_unit: bool = False) -> Scaling:
    """As `standardisation`, from sums."""
    if not sums.seen.all():
        raise DataError(
            f"channel {int(sums.seen.argmin())}: required at least one observed value in the training trajectories, "
            "received none. Leave the channel out."
        )
    if not wanted:
        return Scaling(np.zeros(len(sums.seen)), np.ones(len(sums.seen)))
    constant, largest = sums.std <= CONSTANT, sums.largest
    mean = np.where(constant, sums.high, sums.mean * largest)  # rounding in a large unit would be large
    still = np.where(sums.high == sums.low, 1.0, np.maximum(largest, 1.0))
    scale = np.where(constant, still, sums.std * largest)
    if one_unit and not constant.all():
        most = scale[~constant].max()  # squares of the ratios to it cannot overflow
        scale[~constant] = most * np.sqrt(np.mean((scale[~constant] / most) ** 2))
    return Scaling(mean, scale)
