"""The size of prediction errors, measured on recordings that the filter was not fitted to."""

import warnings
from typing import Literal, NamedTuple

import numpy as np

from psimlearn.checks import number
from psimlearn.filter.gaps import among_seen, error_covariance
from psimlearn.shapes import Bool, Float, Int

__all__ = ["LEAST_VARIANCE", "LEVELS", "Calibration", "Correlation", "InputsToCome", "calibrated", "conformal"]
__all__ += ["Misfit", "Starting", "between", "joint_misfit", "misfit", "started"]

InputsToCome = Literal["known", "next known", "unknown"]
"""Which inputs of the rows ahead a prediction knows; always "known" for a filter without inputs."""

LEVELS = np.concatenate([np.arange(1, 100) / 100, [0.995, 0.999]])
"""The coverages at which quantiles are kept; quantiles between them are interpolated."""
MOST_ROUNDS = 50
"""Rounds in which the variance of errors is told apart from the variance that gaps add."""
LEAST_RATIO = 1e-3
"""The variance of the errors of first rows is at least this share of the variance of later errors."""
LEAST_VARIANCE = 1e-24
"""The least variance of errors, in squared units of the channel: that of a constant channel."""
BLENDS = (0.0, 0.25, 0.5, 0.75, 0.9)
"""The shares that calibration tries for the variance that a belief claims."""


class Calibration(NamedTuple):
    """Errors by horizon and channel, in standardised units; NaN at horizons that no recording was long enough for."""

    base: Float[np.ndarray, "horizon n"]
    """The part of an error's variance that does not depend on the belief."""
    gain: Float[np.ndarray, "horizon n"]
    """The factor of the variance that a belief claims, which is added to the base; zero if beliefs claim none."""
    quantiles: Float[np.ndarray, "levels horizon n"]
    """The quantiles of |error| / standard deviation, at `LEVELS`."""

    @property
    def still(self) -> Bool[np.ndarray, " n"]:
        """The channels without any error one step ahead: they are constant, so nothing is known of their errors."""
        return np.asarray(self.base[0] <= LEAST_VARIANCE)

    @property
    def furthest(self) -> int:
        """The last horizon with an error in every channel, at least 1."""
        return max(1, int(np.isfinite(self.base).all(axis=1).sum()))

    def variance(
        self, horizon: Int[np.ndarray, "*b"], own: Float[np.ndarray, "*b n"] | None
    ) -> Float[np.ndarray, "*b n"]:
        """The variance of errors, given the variances `own` that beliefs claim; NaN beyond the last horizon."""
        known = horizon <= len(self.base)
        place = np.minimum(horizon, len(self.base)) - 1
        variance = self.base[place] if own is None else self.base[place] + self.gain[place] * own
        return np.where(known[..., None], variance, np.nan)

    def reach(self, horizon: Int[np.ndarray, "*b"], coverage: float) -> Float[np.ndarray, "*b n"]:
        """The number of standard deviations either side of a prediction that covers this share of observations.

        Beyond the last horizon it stays as it is there.
        """
        return np.asarray(between(self.quantiles, coverage)[np.minimum(horizon, self.furthest) - 1])


class Starting(NamedTuple):
    """The errors of the first rows of a stream, beside the errors of later rows.

    The age of a stream is the number of rows since it was first observed: at age 0 nothing was seen.
    """

    ratio: Float[np.ndarray, "ages horizon n"]
    """The variance of errors at each age, over the variance that is claimed for later rows."""
    quantiles: Float[np.ndarray, "levels ages n"]
    """The quantiles of |error| / standard deviation at each age, over all horizons, at `LEVELS`."""
    covariance: Float[np.ndarray, "n n"]
    """The covariance of the errors of first rows, standardised."""

    def factor(self, age: Int[np.ndarray, "*b"], horizon: Int[np.ndarray, "*b"]) -> Float[np.ndarray, "*b n"]:
        """The factor of the variance of errors; 1 for streams that are older."""
        ages, horizons, _ = self.ratio.shape
        young = self.ratio[np.minimum(age, ages - 1), np.minimum(horizon, horizons) - 1]
        return np.where((age < ages)[..., None], young, 1.0)

    def reach(
        self, age: Int[np.ndarray, "*b"], coverage: float, later: Float[np.ndarray, "*b n"]
    ) -> Float[np.ndarray, "*b n"]:
        """Standard deviations that cover this share of observations; `later` for streams that are older."""
        ages = self.ratio.shape[0]
        young = between(self.quantiles, coverage)[np.minimum(age, ages - 1)]
        return np.where((age < ages)[..., None], young, later)


def between(quantiles: Float[np.ndarray, "levels *rest"], coverage: float) -> Float[np.ndarray, "*rest"]:
    """The quantiles at a coverage, interpolated between levels."""
    coverage = number(coverage, "coverage", LEVELS[0], LEVELS[-1])
    above = max(int(np.searchsorted(LEVELS, coverage)), 1)
    share = (coverage - LEVELS[above - 1]) / (LEVELS[above] - LEVELS[above - 1])
    return np.asarray((1 - share) * quantiles[above - 1] + share * quantiles[above])


def started(
    errors: Float[np.ndarray, "rows horizon n"],
    variance: Float[np.ndarray, "rows horizon n"],
    age: Int[np.ndarray, " rows"],
    ages: int,
) -> Starting:
    """How errors at the first `ages` ages differ from errors at later ages, each beside the variance claimed for it.

    Args:
        errors: standardised, NaN where nothing was observed.
        variance: the variance that is claimed for each error, as if every row were a later one.
        age: of the stream before each row.
        ages: how many ages differ from the rest.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # horizons that no recording was long enough for; huge errors
        squares = errors**2 / variance
        later = np.nanmean(squares[age >= ages], axis=0) if (age >= ages).any() else np.ones(errors.shape[1:])
        ratio = np.stack([np.nanmean(squares[age == a], axis=0) for a in range(ages)]) / later
    ratio = np.maximum(_carried(ratio), LEAST_RATIO)
    later = np.where(np.isfinite(later), later, 1.0)
    quantiles = np.empty((len(LEVELS), ages, errors.shape[2]))
    for a, c in np.ndindex(ages, errors.shape[2]):
        scores = np.sqrt(squares[age == a, :, c] / (ratio[a, :, c] * np.where(later[:, c] > 0, later[:, c], 1.0)))
        scores = scores[np.isfinite(scores)]
        quantiles[:, a, c] = conformal(scores if len(scores) else np.ones(1))
    return Starting(ratio, quantiles, _first_covariance(errors[age == 0, 0]))


def _first_covariance(first: Float[np.ndarray, "m n"]) -> Float[np.ndarray, "n n"]:
    """The covariance of the errors of first rows; the usual spread for a channel that was hardly observed there."""
    covariance = error_covariance(first)
    unknown = (~np.isnan(first)).sum(axis=0) < 2
    return np.where(unknown[:, None] | unknown, np.diag(unknown.astype(float)), covariance)


def _carried(ratio: Float[np.ndarray, "ages horizon n"]) -> Float[np.ndarray, "ages horizon n"]:
    """Ratios without NaN: at horizons that were not reached, the ratio of the horizon before; 1 if there is none."""
    out = np.where(np.isfinite(ratio), ratio, np.nan)
    out[:, 0] = np.where(np.isnan(out[:, 0]), 1.0, out[:, 0])
    for j in range(1, out.shape[1]):
        out[:, j] = np.where(np.isnan(out[:, j]), out[:, j - 1], out[:, j])
    return out


def calibrated(
    errors: Float[np.ndarray, "rows horizon n"],
    own: Float[np.ndarray, "rows horizon n"] | None,
    doubt: Float[np.ndarray, "rows horizon n"] | None = None,
) -> Calibration:
    """The split-conformal calibration from held-out errors, NaN where nothing was observed.

    If beliefs claim variances, `own`, these are scaled to be right on average and blended with the mean squared error
    in the proportion that makes the errors most likely; claims that do not help get no weight. Variances that gaps add,
    `doubt`, are no part of the calibration: predictions add them again.
    """
    _, horizon, n = errors.shape
    base, gain = np.full((horizon, n), np.nan), np.zeros((horizon, n))
    quantiles = np.full((len(LEVELS), horizon, n), np.nan)
    for j, c in np.ndindex(horizon, n):
        seen = ~np.isnan(errors[:, j, c])
        e = errors[seen, j, c]
        if not len(e):
            continue
        added = np.zeros(len(e)) if doubt is None else doubt[seen, j, c]
        share = _without(e**2, added)
        base[j, c], gain[j, c] = _blend(share * e**2, None if own is None else own[seen, j, c])
        variance = base[j, c] if own is None else base[j, c] + gain[j, c] * own[seen, j, c]
        quantiles[:, j, c] = conformal(np.abs(e) / np.sqrt(variance + added))
    return Calibration(base, gain, quantiles)


def _without(squares: Float[np.ndarray, " rows"], added: Float[np.ndarray, " rows"]) -> Float[np.ndarray, " rows"]:
    """The share of each squared error that is not due to an added variance.

    It is base / (base + added), with the base for which squares are on average as large as base + added.
    """
    if not added.any():
        return np.ones(len(squares))
    least = max(1e-3 * float(squares.mean()), LEAST_VARIANCE)  # a constant channel has no errors: 0 / 0 where no gap is
    base = max(float(squares.mean()), least)
    for _ in range(MOST_ROUNDS):
        base = max(base * float(np.mean(squares / (base + added))), least)
    return np.asarray(base / (base + added))


def _blend(squares: Float[np.ndarray, " rows"], claimed: Float[np.ndarray, " rows"] | None) -> tuple[float, float]:
    """The base and the gain of the variance of errors, given their squares."""
    mean = max(float(squares.mean()), LEAST_VARIANCE)
    if claimed is None or not claimed.mean() > 0:
        return mean, 0.0
    ratio = mean / float(claimed.mean())
    best, least = 0.0, np.inf
    for share in BLENDS:
        variance = (1 - share) * mean + share * ratio * claimed
        nats = float(np.mean(np.log(variance) + squares / variance))  # twice the mean of -log N, up to a constant
        if nats < least:
            best, least = share, nats
    return (1 - best) * mean, best * ratio


def conformal(scores: Float[np.ndarray, " rows"]) -> Float[np.ndarray, " levels"]:
    """The conformal quantiles: at level c the ceil(c (rows + 1))th smallest score, or the largest if rows are few."""
    ordered = np.sort(scores)
    place = np.ceil(LEVELS * (len(scores) + 1)).astype(int) - 1
    quantiles: np.ndarray = ordered[np.clip(place, 0, len(scores) - 1)]
    return quantiles


class Correlation(NamedTuple):
    """The correlation of errors between channels, with the factors that likelihoods need, computed once."""

    matrix: Float[np.ndarray, "n n"]
    white: Float[np.ndarray, "n n"]
    """Takes rows of errors, in standard deviations, to independent errors."""
    log_det: float

    @classmethod
    def of(cls, covariance: Float[np.ndarray, "n n"]) -> "Correlation":
        """The correlation of errors with this covariance."""
        deviation = np.sqrt(np.diag(covariance))
        matrix = covariance / np.outer(deviation, deviation)
        root = np.linalg.cholesky(matrix)
        return cls(matrix, np.linalg.inv(root).T, 2 * float(np.log(np.diag(root)).sum()))

    def scaled(self, variance: Float[np.ndarray, "b n"]) -> Float[np.ndarray, "b n n"]:
        """Covariances with these correlations and variances."""
        deviation = np.sqrt(variance)
        return np.asarray(deviation[:, :, None] * self.matrix * deviation[:, None, :])


class Misfit(NamedTuple):
    """Errors beside the Gaussian that was predicted for them."""

    distance: Float[np.ndarray, " b"]
    """The squared distance from the mean, in standard deviations: on average as large as the number of entries."""
    scale: Float[np.ndarray, " b"]
    """log det(2 pi covariance)."""

    @property
    def nats(self) -> Float[np.ndarray, " b"]:
        """The log-likelihood of the errors."""
        return np.asarray(-0.5 * (self.distance + self.scale))


def joint_misfit(errors: Float[np.ndarray, "b n"], covariance: Float[np.ndarray, "b n n"]) -> Misfit:
    """Observed errors, NaN where not observed, beside Gaussians with these covariances."""
    seen = ~np.isnan(errors)
    among = np.where(seen[:, :, None] & seen[:, None, :], covariance, np.eye(errors.shape[1]))
    e = np.where(seen, errors, 0.0)
    with np.errstate(over="ignore", invalid="ignore"):  # the distance of a huge error is infinite, or NaN
        distance = np.sum(e * np.linalg.solve(among, e[:, :, None])[:, :, 0], axis=1)
    return Misfit(distance, np.linalg.slogdet(among)[1] + seen.sum(axis=1) * np.log(2 * np.pi))


def misfit(errors: Float[np.ndarray, "b n"], correlation: Correlation, variance: Float[np.ndarray, "b n"]) -> Misfit:
    """Observed errors beside Gaussians with these correlations and variances."""
    missing = np.isnan(errors)
    with np.errstate(over="ignore", invalid="ignore"):  # the distance of a huge error is infinite, or NaN
        if missing.any():
            return _in_part(errors, ~missing, correlation, variance)
        white = errors / np.sqrt(variance) @ correlation.white
        scale: np.ndarray = np.log(2 * np.pi * variance).sum(axis=1) + correlation.log_det
        return Misfit((white * white).sum(axis=1), scale)


def _in_part(
    errors: Float[np.ndarray, "b n"],
    seen: Bool[np.ndarray, "b n"],
    correlation: Correlation,
    variance: Float[np.ndarray, "b n"],
) -> Misfit:
    """The same as `misfit`, for rows with missing entries."""
    whole = seen.all(axis=1)
    found = Misfit(np.empty(len(errors)), np.empty(len(errors)))
    found.distance[whole], found.scale[whole] = misfit(errors[whole], correlation, variance[whole])
    for part, among in among_seen(seen, np.flatnonzero(~whole), correlation.matrix):
        e = np.where(seen[part], errors[part] / np.sqrt(variance[part]), 0.0)
        found.distance[part] = np.sum(e * np.linalg.solve(among, e[:, :, None])[:, :, 0], axis=1)
        scale = np.sum(np.where(seen[part], np.log(2 * np.pi * variance[part]), 0.0), axis=1)
        found.scale[part] = np.linalg.slogdet(among)[1] + scale
    return found
