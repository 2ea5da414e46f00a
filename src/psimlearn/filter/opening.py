"""The opening of a stream: the first rows correct a memory of which nothing is known yet.

Before its first row a stream has no past, but its memory S has a distribution, learnt from recordings: mean s_1 and
covariance P_1. The rows before the first are a part of it. So the start is a gap, and `doubt.py` says how rows close
it. While nothing is missing, covariances depend on the number of rows only. So they are computed once for a filter:

    S_t becomes S_t + G_t (x_t - H S_t)                 t = 0, 1, .., ages - 1, with G_t the gain of `doubt.py` for P_t

After `ages` rows little doubt is left, and it is dropped. A stream that loses an entry before that keeps P_t, and goes
on as after any other gap.
"""

from typing import NamedTuple

import numpy as np

from psimlearn.filter.doubt import Doubt, stacked
from psimlearn.filter.spreads import Kind
from psimlearn.shapes import Bool, Float, Int

__all__ = ["LONG_AGO", "Opened", "Opening", "first_gains", "young"]

LITTLE = 1e-3
"""Doubt that adds at most this share to the variance of every channel is dropped."""
ROUNDING = 1e-14
"""Doubt along a direction that is a smaller share of the noise of every channel is rounding."""
QUIET = 5
"""Rows one after the other with as little doubt, after which none is expected any more."""
MOST_AGES = 20
"""Rows after which the doubt of the start is dropped in any case: a filter that forgets slowly loses little by it."""


LONG_AGO = np.iinfo(np.int64).max
"""The age of a stream whose start lies behind it, whatever its rows are."""


class Opening(NamedTuple):
    """The distribution of the memory before the first row, standardised. The mean of m_1 is the filter's `initial`."""

    older: Float[np.ndarray, "earlier n"]
    """The mean of the rows before the first, newest first: one less than the filter has lags."""
    root: Float[np.ndarray, "both k"]
    """A square root of the covariance of [m_1; older rows]: R, where R R' is the covariance."""


class Opened(NamedTuple):
    """The gains and covariances of first rows, while nothing is missing."""

    gain: Float[np.ndarray, "ages s n"]
    """G_t."""
    spread: Float[np.ndarray, "ages s k"]
    """P_t, or a square root of it, as doubt is kept."""

    @property
    def ages(self) -> int:
        """The number of rows that have a gain of their own."""
        return len(self.gain)

    def fresh(self, group: Int[np.ndarray, " b"], age: Int[np.ndarray, " b"]) -> Int[np.ndarray, " some"]:
        """The streams that nothing but their start has put in doubt: they are in no group, and young."""
        return np.flatnonzero((group < 0) & (age < self.ages))

    def corrected(
        self, S: Float[np.ndarray, "b s"], innovation: Float[np.ndarray, "b n"], age: Int[np.ndarray, " b"]
    ) -> Float[np.ndarray, "b s"]:
        """S_t once complete rows were seen, by streams of these ages."""
        out = S.copy()
        for a in np.unique(age):
            now = age == a
            out[now] += innovation[now] @ self.gain[a].T
        return out

    def begun(self, doubt: Doubt | None, age: Int[np.ndarray, " b"], gappy: Bool[np.ndarray, " b"]) -> Doubt | None:
        """The doubt of streams, with that of their start for young streams that lose an entry for the first time."""
        group = np.full(len(age), -1) if doubt is None else doubt.group
        some = np.flatnonzero((group < 0) & gappy & (age < self.ages))
        if not len(some):
            return doubt
        known = 0 if doubt is None else len(doubt.spread)
        group = group.copy()
        group[some] = known + age[some]
        return Doubt(group, self.spread if doubt is None else stacked(doubt.spread, self.spread)).compact()

    def less(
        self,
        of_doubt: Float[np.ndarray, "b *rest"],
        of_start: Float[np.ndarray, "ages *rest"],
        age: Int[np.ndarray, " b"],
    ) -> Float[np.ndarray, "b *rest"]:
        """A reading of doubt, without the part that streams of the same ages have while nothing is missing.

        Doubt after a gap is never less than that part.
        """
        out, young = of_doubt.copy(), (age < self.ages) & of_doubt.any(axis=tuple(range(1, of_doubt.ndim)))
        out[young] -= of_start[age[young]]
        return out


def young(clock: Int[np.ndarray, " b"], late: Int[np.ndarray, " b"]) -> Int[np.ndarray, " b"]:
    """The ages of streams as their doubt knows them: one that was first observed late has more doubt than its start.

    Args:
        clock: the number of rows that each stream has had.
        late: the number of rows before the first in which anything was observed.
    """
    return np.where(late > 0, LONG_AGO, clock)


def first_gains(
    kind: Kind,
    root: Float[np.ndarray, "s k"],
    V: Float[np.ndarray, "n n"],
    T: Float[np.ndarray, "s joint"],
    first: int,
    fewest: int,
) -> Opened:
    """The gains of first rows.

    Args:
        kind: the way in which doubt is kept.
        root: a square root of P_1.
        V: the covariance of the noise.
        T: the derivative of the next S by [S; x].
        first: the coordinate of S at which the expected observation begins.
        fewest: the least number of rows: as long as a lag may lie before the first row.
    """
    s, n = len(root), len(V)
    spread, all_seen = kind.from_root(root), np.ones((1, n), dtype=bool)
    H, gains, spreads, least = np.eye(n, s, first), [], [], max(fewest, 1)
    nothing = ROUNDING * float(np.diag(V).min())  # rows that were seen leave no doubt: their columns are rounding
    for t in range(max(MOST_AGES, fewest)):
        if (kind.along(spread, H)[0] > LITTLE * np.diag(V)).any():
            least = max(least, t + 1)
        elif t + 1 >= least + QUIET:  # doubt that shows only later is dropped, as it is beyond the most ages
            break
        gain, left = kind.given(spread, V, all_seen, first)
        gains.append(gain[0, :s])
        spreads.append(spread[0])
        spread = kind.moved(left, T, nothing)
    widest = max(spread.shape[1] for spread in spreads[:least])
    padded = np.zeros((least, s, widest))
    for out, each in zip(padded, spreads, strict=False):
        out[:, : each.shape[1]] = each
    return Opened(np.array(gains[:least]), padded)
