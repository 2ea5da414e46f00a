"""Sums of regressions between lags and futures of wide observations, from products of rows that all of them share."""

import numpy as np
import scipy.sparse

from psimlearn.filter import Features, Stack
from psimlearn.filter.layout import Layout
from psimlearn.learners import GramSums
from psimlearn.recordings.shifted import Apart, Shifts, apart, reaching, shifted_sums
from psimlearn.shapes import Float, Int

__all__ = ["history_stats", "lag_stats", "less_last", "shared", "stretch_moments"]

WIDE = 400
"""The columns of a regression on lags from which products are shared: narrower sums are quick."""
LONG = 4
"""Rows for each row at the ends of recordings, where products have to be mended, from which sharing pays."""


def shared(layout: Layout, features: Features, past: int) -> Apart | None:
    """The products of the rows up to the distance of so many rows of past and a window; None if it does not pay."""
    reach, n = past + features.window - 1, layout.x.shape[1]
    ends = layout.plan.block(0).stop * (reach + 1)
    plain = isinstance(features, Stack) and not layout.gappy and not layout.u.shape[1]
    if not plain or past * n < WIDE or len(layout.x) < LONG * ends:
        return None
    return apart(layout.x, layout.plan, reach)


def history_stats(known: Apart, past: int, window: int) -> GramSums:
    """The sums of the regression of a window on the rows of past before it, newest first, zero before the beginning."""
    many, total, gram = shifted_sums(known, Shifts(-past, window - 1, 1, window))
    return _stats(many, total, gram, _newest_first(past, known.x.shape[1]))


def lag_stats(
    known: Apart, lags: int, window: int, n_fed: int, centre: Float[np.ndarray, " d"] | None, skip: int = 0
) -> GramSums:
    """The sums of the regression of the next window, less a prior, on the last rows, newest first.

    The prior is a centre, or the last row if None. The first row is repeated before the beginning. The first `n_fed`
    columns of z, which come from a belief, are zero. The first `skip` rows of each trajectory make no examples; every
    trajectory must have one.
    """
    shifts = Shifts(1 - lags, window, skip, window + 1, True)
    many, total, gram = shifted_sums(reaching(known, lags + window - 1), shifts)
    n, before = known.x.shape[1], (n_fed, 0)
    sums = _stats(many, total, gram, _newest_first(lags, n))
    zz, zy = np.pad(sums.zz, (before, before)), np.pad(sums.zy, (before, (0, 0)))
    sums = sums._replace(z=np.pad(sums.z, before), zz=zz, zy=zy)
    if centre is None:
        return less_last(sums, n_fed, n, np.zeros(window * n))
    return sums.less(scipy.sparse.csr_array(zy.shape), centre)


def less_last(sums: GramSums, first: int, n: int, centre: Float[np.ndarray, " d"]) -> GramSums:
    """The sums with the last observation as prior instead of a centre; it stands in n columns of z, from `first` on."""
    channel = np.tile(np.arange(n), len(centre) // n)
    # the map from z to its x_t, as often as the window has rows: nearly all of it is zero
    entries = np.ones(len(channel)), (first + channel, np.arange(len(channel)))
    return sums.less(scipy.sparse.csr_array(entries, shape=sums.zy.shape), -centre)


def stretch_moments(known: Apart, rows: int) -> tuple[Float[np.ndarray, "w w"], int] | None:
    """The covariance of (x_t, .., x_{t+i-1}, x_{t-1}, .., x_{t-i}) for i rows, and how many; None if one is short."""
    if known.plan.length.min() < 2 * rows:
        return None
    many, total, gram = shifted_sums(reaching(known, 2 * rows - 1), Shifts(-rows, rows - 1, rows, rows))
    past = _newest_first(rows, known.x.shape[1])
    order = np.concatenate([np.arange(len(past), 2 * len(past)), past])
    mean = total[order] / many
    return gram[np.ix_(order, order)] / many - np.outer(mean, mean), many


def _newest_first(rows: int, n: int) -> Int[np.ndarray, " columns"]:
    """The columns of so many rows of n channels, which begin with the oldest row."""
    return np.arange(rows * n).reshape(rows, n)[::-1].ravel()


def _stats(
    many: int, total: Float[np.ndarray, " v"], gram: Float[np.ndarray, "v v"], past: Int[np.ndarray, " p"]
) -> GramSums:
    """The sums of vectors as those of a regression of their last columns on the columns of their past."""
    p = len(past)
    return GramSums(
        float(many),
        total[past],
        total[p:],
        gram[np.ix_(past, past)],
        gram[past][:, p:],
        float(np.trace(gram[p:, p:])),
    )
