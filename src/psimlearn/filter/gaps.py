"""Missing channels are filled in from the channels that were seen."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from psimlearn.factors import eigh
from psimlearn.filter.features import Array
from psimlearn.shapes import Bool, Float, Int

__all__ = ["ErrorSums", "among_seen", "conditional_fill", "error_covariance", "error_sums", "gain_fill"]
__all__ += ["pattern_gains"]

CHUNK = 4_000_000
"""The number of matrix entries solved at a time: bounds the memory."""


def conditional_fill(
    x: Float[np.ndarray, "b n"],
    expected: Float[np.ndarray, "b n"],
    covariance: Float[np.ndarray, "n n"],
    span: Float[np.ndarray, "2 n"] | None = None,
) -> Float[np.ndarray, "b n"]:
    """x with its missing entries filled in: m_miss + S_mo S_oo^-1 (x_seen - m_seen), or m_miss if no entry was seen.

    Guesses stay within the span, least and largest value of each channel, if there is one: a filter that is driven by
    its guesses may run away.
    """
    missing = np.isnan(x)
    rows = np.flatnonzero(missing.any(axis=1))
    if not len(rows):
        return x
    out = x.copy()
    for part, among in among_seen(~missing, rows, covariance):
        seen = ~missing[part]
        innovation = np.where(seen, x[part] - expected[part], 0.0)
        weights = np.linalg.solve(among, innovation[:, :, None])[:, :, 0]
        out[part] = np.where(seen, x[part], within(span, expected[part] + weights @ covariance))
    return out


def within(span: Float[Array, "2 n"] | None, x: Float[Array, "b n"]) -> Float[Array, "b n"]:
    """x, kept within a span if there is one."""
    if span is None:
        return x
    xp = x.__array_namespace__()
    return xp.minimum(xp.maximum(x, span[0]), span[1])


def gain_fill(
    x: Float[Array, "b n"],
    expected: Float[Array, "b n"],
    gain: Float[Array, "b n n"],
    span: Float[Array, "2 n"] | None = None,
) -> Float[Array, "b n"]:
    """`conditional_fill` by the matrices S_oo^-1 S of each row, for arrays of numpy or of JAX."""
    xp = x.__array_namespace__()
    seen = ~xp.isnan(x)
    innovation = xp.where(seen, x - expected, 0.0)
    return xp.where(seen, x, within(span, expected + xp.einsum("bi,bij->bj", innovation, gain)))


def pattern_gains(
    seen: Bool[np.ndarray, "rows n"], covariance: Float[np.ndarray, "n n"]
) -> tuple[Int[np.ndarray, " rows"], Float[np.ndarray, "patterns n n"]]:
    """The number of each row's pattern of seen channels, and for each pattern the matrix that `gain_fill` needs."""
    patterns, pattern = np.unique(seen, axis=0, return_inverse=True)
    gains = np.empty((len(patterns), *covariance.shape))
    for some, among in among_seen(patterns, np.arange(len(patterns)), covariance):
        gains[some] = np.linalg.solve(among, np.broadcast_to(covariance, among.shape))
    return pattern.ravel(), gains


def among_seen(
    seen: Bool[np.ndarray, "b n"], rows: Int[np.ndarray, " some"], covariance: Float[np.ndarray, "n n"]
) -> Iterator[tuple[Int[np.ndarray, " part"], Float[np.ndarray, "part n n"]]]:
    """The covariance of the seen channels at each of some rows, a part of the rows at a time.

    The identity replaces the rows and columns of missing channels, so that every pattern has the same shape.
    """
    n = len(covariance)
    for part in np.array_split(rows, 1 + len(rows) * n**2 // CHUNK):
        yield part, np.where(seen[part][:, :, None] & seen[part][:, None, :], covariance, np.eye(n))


def error_covariance(
    residuals: Float[np.ndarray, "rows n"],
    doubt: Float[np.ndarray, "rows n n"] | None = None,
    claimed: Float[np.ndarray, "n n"] | None = None,
) -> Float[np.ndarray, "n n"]:
    """The second moments of one-step errors over the rows where both channels were seen, made positive definite.

    They are shrunk to the diagonal by the share n^2 / (n^2 + rows^2), so that few rows do no harm. The share falls
    fast: accurate sensors have errors that correlate to .9999, and a missing one is known from the others only by that.

    Args:
        residuals: one-step errors, NaN where nothing was seen.
        doubt: the covariance that gaps add to the errors of each row; None for none.
        claimed: the covariance of the errors without gaps from which `doubt` was computed.
    """
    if doubt is None or claimed is None or not np.isfinite(doubt).all():
        return error_sums(residuals).covariance()
    seen = ~np.isnan(residuals)
    e, pairs = np.where(seen, residuals, 0.0), error_sums(residuals).pairs
    return _shrunk(_without_doubt(e, seen, pairs, doubt, claimed), pairs)


class ErrorSums(NamedTuple):
    """Sums of products of one-step errors; those of several parts of the data are added."""

    products: Float[np.ndarray, "n n"]
    pairs: Float[np.ndarray, "n n"]
    """In how many rows both channels were seen."""

    def plus(self, other: "ErrorSums") -> "ErrorSums":
        """The sums over both parts."""
        return ErrorSums(self.products + other.products, self.pairs + other.pairs)

    def covariance(self) -> Float[np.ndarray, "n n"]:
        """The second moments, made positive definite, as `error_covariance` says."""
        pairs = self.pairs
        return _shrunk(np.divide(self.products, pairs, out=np.zeros_like(pairs), where=pairs > 0), pairs)


def error_sums(residuals: Float[np.ndarray, "rows n"]) -> ErrorSums:
    """Sums over one-step errors, NaN where nothing was seen."""
    seen = ~np.isnan(residuals)
    e = residuals if seen.all() else np.where(seen, residuals, 0.0)
    pairs = np.full((e.shape[1], e.shape[1]), float(len(e))) if e is residuals else seen.astype(float).T @ seen
    return ErrorSums(e.T @ e, pairs)


def _shrunk(moments: Float[np.ndarray, "n n"], pairs: Float[np.ndarray, "n n"]) -> Float[np.ndarray, "n n"]:
    """Second moments, shrunk to the diagonal and made positive definite."""
    variances = np.maximum(np.diag(moments), 1e-12)
    shrunk = moments * (pairs**2 / (pairs**2 + len(moments) ** 2))
    np.fill_diagonal(shrunk, variances)
    values, vectors = eigh(shrunk)
    return np.asarray((vectors * np.maximum(values, 1e-6 * variances.mean())) @ vectors.T)


def _without_doubt(
    e: Float[np.ndarray, "rows n"],
    seen: Bool[np.ndarray, "rows n"],
    pairs: Float[np.ndarray, "n n"],
    doubt: Float[np.ndarray, "rows n n"],
    claimed: Float[np.ndarray, "n n"],
) -> Float[np.ndarray, "n n"]:
    """The second moments that errors would have without gaps.

    Doubt was computed from the claim, and is too large or too small with it. To take it off would overshoot: the next
    claim would be too small, the one after it too large. So errors are compared with all that was claimed for them,
    claim and doubt: first its variances are changed in proportion, then its correlations.
    """
    together = claimed + np.where(np.diagonal(doubt, axis1=1, axis2=2)[:, :, None] >= 0, doubt, 0.0)
    share = np.sqrt(np.diag(claimed) / np.diagonal(together, axis1=1, axis2=2)) * seen
    scaled, counted = e * share, np.maximum(pairs, 1.0)
    found, expected = scaled.T @ scaled / counted, np.einsum("ti,tij,tj->ij", share, together, share) / counted
    factor = np.sqrt(np.diag(found) / np.diag(claimed))
    moments = found + np.outer(factor, factor) * (claimed - expected)
    return _positive(np.where(pairs > 0, moments, 0.0), np.maximum(np.diag(found), 1e-12))


def _positive(matrix: Float[np.ndarray, "n n"], variances: Float[np.ndarray, " n"]) -> Float[np.ndarray, "n n"]:
    """The covariance with these variances and the correlations of a matrix that may have negative eigenvalues."""
    deviation = np.sqrt(np.maximum(np.diag(matrix), variances))
    values, vectors = eigh(matrix / np.outer(deviation, deviation))
    correlation = (vectors * np.maximum(values, 1e-6)) @ vectors.T
    unit = np.sqrt(variances / np.diag(correlation))
    return np.asarray(correlation * np.outer(unit, unit))
