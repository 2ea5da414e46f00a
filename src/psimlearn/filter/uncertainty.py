"""How far off predictions are, measured on recordings that the filter was not fitted to."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from psimlearn.errors import SettingsError
from psimlearn.filter.gaps import among_seen

__all__ = ["LEVELS", "Calibration", "Correlation", "calibrated", "gaussian_log_likelihood"]

LEVELS = np.concatenate([np.arange(1, 100) / 100, [0.995, 0.999]])
"""The coverages at which quantiles are kept; what lies between is interpolated."""
BLENDS = (0.0, 0.25, 0.5, 0.75, 0.9)
"""Shares of a belief's own variance that calibration tries."""


class Calibration(NamedTuple):
    """Errors by horizon and channel, in standardised units; NaN at horizons that no recording was long enough for."""

    base: Float[np.ndarray, "horizon n"]
    """The variance of an error, as far as it does not depend on the belief."""
    gain: Float[np.ndarray, "horizon n"]
    """What the belief's own variance is multiplied by before it is added; zero where beliefs have none."""
    quantiles: Float[np.ndarray, "levels horizon n"]
    """Of |error| / standard deviation, at `LEVELS`."""

    @property
    def furthest(self) -> int:
        """The last horizon with an error in every channel, at least 1."""
        return max(1, int(np.isfinite(self.base).all(axis=1).sum()))

    def variance(
        self, horizon: Int[np.ndarray, "*b"], own: Float[np.ndarray, "*b n"] | None
    ) -> Float[np.ndarray, "*b n"]:
        """Of errors so many steps ahead, given the beliefs' own variances; NaN beyond the last calibrated horizon."""
        known = horizon <= len(self.base)
        place = np.minimum(horizon, len(self.base)) - 1
        variance = self.base[place] if own is None else self.base[place] + self.gain[place] * own
        return np.where(known[..., None], variance, np.nan)

    def reach(self, horizon: Int[np.ndarray, "*b"], coverage: float) -> Float[np.ndarray, "*b n"]:
        """How many standard deviations either side of a prediction cover this share of observations."""
        if not LEVELS[0] <= coverage <= LEVELS[-1]:
            raise SettingsError(f"coverage: required {LEVELS[0]} to {LEVELS[-1]}, received {coverage}.")
        above = max(int(np.searchsorted(LEVELS, coverage)), 1)
        share = (coverage - LEVELS[above - 1]) / (LEVELS[above] - LEVELS[above - 1])
        multiple = (1 - share) * self.quantiles[above - 1] + share * self.quantiles[above]
        known = horizon <= len(self.base)
        return np.where(known[..., None], multiple[np.minimum(horizon, len(self.base)) - 1], np.nan)


def calibrated(
    errors: Float[np.ndarray, "rows horizon n"], own: Float[np.ndarray, "rows horizon n"] | None
) -> Calibration:
    """Split-conformal calibration from held-out errors, NaN where there was nothing to compare with.

    Where beliefs claim variances of their own, these are scaled to be right on average and blended with the mean
    squared error in the proportion that makes the errors most likely; claims that do not help get no weight.
    """
    _, horizon, n = errors.shape
    base, gain = np.full((horizon, n), np.nan), np.zeros((horizon, n))
    quantiles = np.full((len(LEVELS), horizon, n), np.nan)
    for j, c in np.ndindex(horizon, n):
        seen = ~np.isnan(errors[:, j, c])
        e = errors[seen, j, c]
        if not len(e):
            continue
        base[j, c], gain[j, c] = _blend(e**2, None if own is None else own[seen, j, c])
        scale = np.sqrt(base[j, c] if own is None else base[j, c] + gain[j, c] * own[seen, j, c])
        quantiles[:, j, c] = _conformal(np.abs(e) / scale)
    return Calibration(base, gain, quantiles)


def _blend(squares: Float[np.ndarray, " rows"], own: Float[np.ndarray, " rows"] | None) -> tuple[float, float]:
    """Base and gain of the variance."""
    mean = max(float(squares.mean()), 1e-24)
    if own is None or not own.mean() > 0:
        return mean, 0.0
    ratio = mean / float(own.mean())
    best, least = 0.0, np.inf
    for share in BLENDS:
        variance = (1 - share) * mean + share * ratio * own
        surprise = float(np.mean(np.log(variance) + squares / variance))
        if surprise < least:
            best, least = share, surprise
    return (1 - best) * mean, best * ratio


def _conformal(scores: Float[np.ndarray, " rows"]) -> Float[np.ndarray, " levels"]:
    """The smallest scores that as many of rows + 1 exchangeable ones stay below; the largest where rows are too few."""
    ordered = np.sort(scores)
    place = np.ceil(LEVELS * (len(scores) + 1)).astype(int) - 1
    quantiles: np.ndarray = ordered[np.clip(place, 0, len(scores) - 1)]
    return quantiles


class Correlation(NamedTuple):
    """How the errors of channels go together, made ready once for all the rows whose likelihood is asked for."""

    matrix: Float[np.ndarray, "n n"]
    white: Float[np.ndarray, "n n"]
    """Takes errors in standard deviations, as rows, to independent ones."""
    log_det: float

    @classmethod
    def of(cls, covariance: Float[np.ndarray, "n n"]) -> "Correlation":
        """Of errors with this covariance."""
        deviation = np.sqrt(np.diag(covariance))
        matrix = covariance / np.outer(deviation, deviation)
        root = np.linalg.cholesky(matrix)
        return cls(matrix, np.linalg.inv(root).T, 2 * float(np.log(np.diag(root)).sum()))


def gaussian_log_likelihood(
    errors: Float[np.ndarray, "b n"], correlation: Correlation, variance: Float[np.ndarray, "b n"]
) -> Float[np.ndarray, " b"]:
    """Of errors under a Gaussian with these correlations and variances, as far as observed."""
    missing = np.isnan(errors)
    with np.errstate(over="ignore"):  # beyond all measure is -inf
        if missing.any():
            return _in_part(errors, ~missing, correlation, variance)
        white = errors / np.sqrt(variance) @ correlation.white
        scale = np.log(2 * np.pi * variance).sum(axis=1) + correlation.log_det
        nats: np.ndarray = -0.5 * ((white * white).sum(axis=1) + scale)
        return nats


def _in_part(
    errors: Float[np.ndarray, "b n"],
    seen: Bool[np.ndarray, "b n"],
    correlation: Correlation,
    variance: Float[np.ndarray, "b n"],
) -> Float[np.ndarray, " b"]:
    """`gaussian_log_likelihood` where some rows are not whole."""
    whole = seen.all(axis=1)
    nats = np.empty(len(errors))
    nats[whole] = gaussian_log_likelihood(errors[whole], correlation, variance[whole])
    for part, among in among_seen(seen, np.flatnonzero(~whole), correlation.matrix):
        e = np.where(seen[part], errors[part] / np.sqrt(variance[part]), 0.0)
        distance = np.sum(e * np.linalg.solve(among, e[:, :, None])[:, :, 0], axis=1)
        scale = np.sum(np.where(seen[part], np.log(2 * np.pi * variance[part]), 0.0), axis=1)
        nats[part] = -0.5 * (distance + np.linalg.slogdet(among)[1] + scale)
    return nats
