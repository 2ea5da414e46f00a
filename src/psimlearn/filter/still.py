"""Channels that were constant in training: where they stay, and how far from there they have moved.

No errors tell how likely it is that such a channel moves, so it has no part in the Gaussian of a row. While it stays,
it takes nothing from the likelihood of a row. Once it moves, it takes half the squared distance, in units of a floor.
"""

from typing import NamedTuple

import numpy as np

from psimlearn.filter.scaling import CONSTANT, Scaling
from psimlearn.filter.uncertainty import Calibration
from psimlearn.shapes import Float

__all__ = ["Still", "still_of"]

SHARE = 0.01
"""The floor, as a share of the channel's constant, or of 1 where that is less. A flag that goes from 0 to 1 loses 5000
nats, far below every threshold at the least rate, 1e-6; a move by a hundredth loses half a nat and rings nowhere."""
ROUNDING = 1e-6
"""The least floor, as a share of the constant: sixteen times the rounding of a float of 32 bits, 6e-8."""


class Still(NamedTuple):
    """The place of each channel that was constant in training, standardised."""

    place: Float[np.ndarray, " n"]
    floor: Float[np.ndarray, " n"]
    """The distance that counts as one deviation; infinite for channels that moved in training."""

    def away(self, x: Float[np.ndarray, "b n"]) -> Float[np.ndarray, "b n"]:
        """How many floors channels lie off their place; NaN for those that moved in training or are not observed."""
        with np.errstate(over="ignore"):
            return np.where(np.isfinite(self.floor), (x - self.place) / self.floor, np.nan)

    def lost(self, x: Float[np.ndarray, "b n"]) -> Float[np.ndarray, " b"]:
        """The nats that each standardised row loses because channels moved; 0 while all stay."""
        with np.errstate(over="ignore"):  # a channel that moved out of all numbers
            return np.asarray(0.5 * np.nansum(self.away(x) ** 2, axis=1))


def still_of(calibration: Calibration | None, span: Float[np.ndarray, "2 n"] | None, scaling: Scaling) -> Still | None:
    """The channels that neither moved in training nor were predicted with any error; None if there are none.

    Args:
        calibration: tells the channels without errors.
        span: the least and the largest value of each channel in training, standardised.
        scaling: to the units of the recordings.
    """
    if calibration is None or not calibration.still.any():
        return None
    least, most = np.zeros((2, len(scaling.mean))) if span is None else span
    constant = np.abs(scaling.undo(most[None])[0])
    still = calibration.still & (most - least <= 4 * CONSTANT * np.maximum(np.abs(most), 1.0))  # but for rounding
    share = np.where(constant > 0, np.minimum(constant, 1.0), 1.0)
    floor = np.maximum(SHARE * share, ROUNDING * constant) / scaling.scale
    return Still(most, np.where(still, floor, np.inf)) if still.any() else None
