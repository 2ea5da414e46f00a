"""A prediction: means, standard deviations and intervals. All arithmetic of intervals is here."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from psimlearn.filter.ingaps import InGaps
from psimlearn.filter.localscale import LocalScale
from psimlearn.filter.uncertainty import Calibration, InputsToCome, Starting
from psimlearn.shapes import Bool, Float, Int

__all__ = ["Prediction", "Spread"]


class Spread(NamedTuple):
    """The spread of prediction errors, as one calibration measured it."""

    std: Float[np.ndarray, "*b n"]
    horizon: Int[np.ndarray, "*b"]
    """The number of rows from the last row in which anything was observed to the predicted row."""
    calibration: Calibration
    age: Int[np.ndarray, "*b"] | None = None
    """The age of the stream, if first rows were calibrated apart."""
    starting: Starting | None = None
    share: Float[np.ndarray, "*b n"] | None = None
    """The share of the variance that is doubt; None if there is no doubt."""
    in_gaps: InGaps | None = None
    follows: Bool[np.ndarray, "*b"] | None = None
    """Whether the spread follows the situation; None if it never does."""
    local: LocalScale | None = None

    def reach(self, coverage: float) -> Float[np.ndarray, "*b n"]:
        """Half the width of intervals of this coverage."""
        multiple = self.calibration.reach(self.horizon, coverage)
        if self.local is not None and self.follows is not None:
            multiple = np.where(self.follows[..., None], self.local.reach(self.horizon, coverage), multiple)
        if self.starting is not None and self.age is not None:
            multiple = self.starting.reach(self.age, coverage, multiple)
        if self.share is not None and self.in_gaps is not None:
            multiple = self.in_gaps.reach(coverage, self.share, multiple)
        reach: np.ndarray = self.std * multiple
        return reach

    def at(self, place: Any) -> "Spread":
        """Pick some, by an index into all axes but the last, the channels."""
        age = None if self.age is None else self.age[place]
        share = None if self.share is None else self.share[place]
        follows = None if self.follows is None else self.follows[place]
        picked = self._replace(std=self.std[place], horizon=self.horizon[place])
        return picked._replace(age=age, share=share, follows=follows)


@dataclass(frozen=True, eq=False)
class Prediction:
    """Predicted observations with standard deviations, both in the units of the recordings."""

    mean: Float[np.ndarray, "*b n"]
    inputs: InputsToCome
    """The inputs of the rows ahead that the prediction knows, and with which its errors were measured."""
    spread: Spread
    gap: tuple[Spread, Spread] | None = None
    """The spread of predictions that know all inputs, with and without the rows just before in which nothing was
    observed, if `spread` is without these rows. A gap adds the difference of the squares."""

    @property
    def std(self) -> Float[np.ndarray, "*b n"]:
        """The standard deviations; NaN beyond the horizons that calibration reached, if the filter has no model."""
        return self._with_gap(lambda spread: spread.std)

    def interval(self, coverage: float) -> tuple[Float[np.ndarray, "*b n"], Float[np.ndarray, "*b n"]]:
        """Return lower and upper bounds that hold this share of observations, such as 0.9."""
        reach = self._with_gap(lambda spread: spread.reach(coverage))
        return self.mean - reach, self.mean + reach

    def parts(self, return_std: bool, coverage: float | None) -> list[Float[np.ndarray, "*b n"]]:
        """The mean, and as asked for the standard deviation, or bounds of this coverage."""
        if coverage is not None:
            return [self.mean, *self.interval(coverage)]
        return [self.mean, self.std] if return_std else [self.mean]

    def at(self, place: Any) -> "Prediction":
        """Pick some of the predictions, by an index into all axes but the last, the channels."""
        gap = None if self.gap is None else (self.gap[0].at(place), self.gap[1].at(place))
        return replace(self, mean=self.mean[place], spread=self.spread.at(place), gap=gap)

    def _with_gap(self, size: Callable[[Spread], Float[np.ndarray, "*b n"]]) -> Float[np.ndarray, "*b n"]:
        """The size of the spread, the gap included."""
        if self.gap is None:
            return size(self.spread)
        longer, shorter = map(size, self.gap)
        together: np.ndarray = np.sqrt(size(self.spread) ** 2 + np.maximum(longer**2 - shorter**2, 0.0))
        return together
