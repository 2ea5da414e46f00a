"""The unit of each channel: filters and baselines see standardised observations."""

from typing import NamedTuple

import numpy as np

from psimlearn.errors import DataError
from psimlearn.shapes import Float

__all__ = ["CONSTANT", "Scaling", "constant_channels", "standardisation"]

CONSTANT = 1e-12
"""A channel whose deviation is below this share of its largest value is constant but for rounding."""


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

    def in_one_unit(self) -> "Scaling":
        """The same means with one unit for all channels: the root mean square of their units."""
        largest = self.scale.max()  # squares of the ratios to it cannot overflow
        return self._replace(scale=np.full_like(self.scale, largest * np.sqrt(np.mean((self.scale / largest) ** 2))))


def constant_channels(values: Float[np.ndarray, "rows n"]) -> list[int]:
    """The channels that only rounding moves."""
    columns = np.ascontiguousarray(values.T)
    found = []
    for c, column in enumerate(columns):
        seen = column[~np.isnan(column)]
        if len(seen) and np.ptp(seen) <= 2 * CONSTANT * np.abs(seen).max():
            found.append(c)
    return found


def standardisation(values: Float[np.ndarray, "rows n"], wanted: bool = True) -> Scaling:
    """Mean and standard deviation of each channel's observed values; a constant channel keeps its unit.

    A channel that only rounding moves is measured by its largest value where that exceeds 1, so that its standardised
    values hardly move either.

    Args:
        values: rows of recordings, NaN where not observed; every channel must have been observed once.
        wanted: if False, mean 0 and unit 1 for every channel.
    """
    columns = np.ascontiguousarray(values.T)  # numpy reduces few long rows much faster than many short ones
    unseen = np.isnan(columns).all(axis=1)
    if unseen.any():
        raise DataError(
            f"channel {int(unseen.argmax())}: required at least one observed value in the training trajectories, "
            "received none. Leave the channel out."
        )
    if not wanted:
        return Scaling(np.zeros(len(columns)), np.ones(len(columns)))
    largest = np.maximum(np.nanmax(np.abs(columns), axis=1), np.finfo(float).tiny)
    unit = columns / largest[:, None]  # keeps the squares of extreme scales finite
    std = np.nanstd(unit, axis=1)
    constant, top = std <= CONSTANT, np.nanmax(columns, axis=1)
    mean = np.where(constant, top, np.nanmean(unit, axis=1) * largest)  # rounding in a large unit would be large
    still = np.where(top == np.nanmin(columns, axis=1), 1.0, np.maximum(largest, 1.0))
    return Scaling(mean, np.where(constant, still, std * largest))
