"""Doubt: the covariance that a gap opens, and that later observations close.

Let S be the memory of a stream between two rows, with mean s and covariance P, and let the next row be x = H S + noise,
noise ~ N(0, V), where H picks the expected observation from S. With o the entries of x that are seen:

    D = (H P H' + V)_oo           K = cov([S; x], x_o) D^-1
    mean([S; x]) += K (x_o - H_o s)                    J = cov([S; x]) - K D K'
    next memory: P' = T J T', where T is the derivative of the next S by [S; x]

P = 0 with all entries seen gives P' = 0. So streams without gaps have no doubt, and cost nothing. In a linear filter P
depends on the pattern of gaps only, so streams with the same pattern form a group and share it.

Narrow memories keep covariances, wide ones square roots (`spreads.py`).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from psimlearn.filter.spreads import Kind
from psimlearn.shapes import Bool, Float, Int

__all__ = ["NOTHING", "Doubt", "Given", "conditioned", "moved", "one_after_another", "stacked", "together"]

NOTHING = 1e-12
"""A variance below this share of the noise is zero."""


class Doubt(NamedTuple):
    """The doubt of b streams about their memory S."""

    group: Int[np.ndarray, " b"]
    """The group of each stream; -1 for a stream without doubt."""
    spread: Float[np.ndarray, "groups s k"]
    """For each group the covariance of S, or a square root of it."""

    def at(self, streams: Any) -> "Doubt":
        """The doubt of some of the streams, by any index."""
        return self._replace(group=np.atleast_1d(self.group[streams]))

    def compact(self) -> "Doubt":
        """The same doubt without the groups that have no stream."""
        kept, number = np.unique(self.group, return_inverse=True)
        first = int(np.searchsorted(kept, 0))
        return Doubt(number - first, self.spread[kept[first:]])

    def members(self) -> Int[np.ndarray, " groups"]:
        """One stream of each group; any stream for a group that has none left."""
        members = np.zeros(len(self.spread), dtype=np.int64)
        some = np.flatnonzero(self.group >= 0)
        members[self.group[some]] = some
        return members

    def by_stream(self, of_groups: Float[np.ndarray, "groups *rest"]) -> Float[np.ndarray, "b *rest"]:
        """The value of each stream's group; zero for streams without doubt."""
        padded = np.concatenate([of_groups, np.zeros((1, *of_groups.shape[1:]))])
        out: np.ndarray = padded[self.group]
        return out

    def without(self, chosen: Bool[np.ndarray, " b"]) -> "Doubt | None":
        """The doubt after some streams were started again; None if none is left."""
        group = np.where(chosen, -1, self.group)
        return self._replace(group=group) if (group >= 0).any() else None


class Given(NamedTuple):
    """[S; x] of each group of streams, once the seen entries of x are known."""

    group: Int[np.ndarray, " b"]
    """The group of each stream; -1 for a stream without doubt."""
    first: Int[np.ndarray, " groups"]
    """One stream of each group."""
    gain: Float[np.ndarray, "groups joint n"]
    """K, with columns of zeros for missing entries."""
    left: Float[np.ndarray, "groups joint k"]
    """J, or a square root of it."""

    def updated(
        self, mean: Float[np.ndarray, "b joint"], x: Float[np.ndarray, "b n"], seen: Bool[np.ndarray, "b n"]
    ) -> Float[np.ndarray, "b joint"]:
        """The means of [S; x] of all streams, moved by the seen entries; these entries are kept without rounding."""
        n, some = x.shape[1], self.group >= 0
        out = mean.copy()
        expected = mean[:, -n:]
        innovation = np.where(seen, x - expected, 0.0)[some]
        out[some] += self._moves(self.group[some], innovation)
        out[:, -n:] = np.where(seen, x, out[:, -n:])
        return out

    def _moves(
        self, group: Int[np.ndarray, " b"], innovation: Float[np.ndarray, "b n"]
    ) -> Float[np.ndarray, "b joint"]:
        """The gain of each stream's group, times its innovation."""
        if len(self.gain) == len(group):  # each stream is a group
            return np.asarray(np.matmul(self.gain[group], innovation[:, :, None])[:, :, 0])
        out = np.empty((len(group), self.gain.shape[1]))
        for g, gain in enumerate(self.gain):  # a copy of the gain for every stream would be large
            members = group == g
            out[members] = innovation[members] @ gain.T
        return out


def conditioned(
    kind: Kind,
    doubt: Doubt | None,
    V: Float[np.ndarray, "*b n n"],
    seen: Bool[np.ndarray, "b n"],
    first: int,
    s: int,
    labels: Int[np.ndarray, " b"] | None,
) -> Given:
    """Condition [S; x] of all streams on the seen entries of a row.

    Args:
        kind: the way in which the doubt is kept.
        doubt: about S before the row; None for no doubt at all.
        V: the covariance of the noise, of all streams or of each.
        seen: marks the seen entries.
        first: the coordinate of S at which the expected observation begins.
        s: the width of S.
        labels: streams with different labels are never in one group; None if each stream is a group.
    """
    before = np.full(len(seen), -1) if doubt is None else doubt.group
    group, members = _groups(before, seen, labels)
    nothing = kind.nothing(s)
    spread = nothing if doubt is None else stacked(doubt.spread, nothing)
    gain, left = kind.given(spread[before[members]], V if V.ndim == 2 else V[members], seen[members], first)
    return Given(group, members, gain, left)


def moved(kind: Kind, given: Given, T: Float[np.ndarray, "*g s joint"], noise: float) -> Doubt | None:
    """The doubt about the next S; None once it has died away in all streams.

    Args:
        kind: the way in which the doubt is kept.
        given: [S; x] of each group.
        T: the derivative of the next S by [S; x], for all groups or for each.
        noise: the mean variance of the noise.
    """
    if not len(given.first):
        return None
    spread = kind.moved(given.left, T, NOTHING * noise)
    alive = kind.variances(spread).max(axis=1) > NOTHING * noise
    if alive.all():
        return Doubt(given.group, spread)
    if not alive.any():
        return None
    number = np.append(np.where(alive, np.cumsum(alive) - 1, -1), -1)
    return Doubt(number[given.group], spread[alive])


def _groups(
    before: Int[np.ndarray, " b"], seen: Bool[np.ndarray, "b n"], labels: Int[np.ndarray, " b"] | None
) -> tuple[Int[np.ndarray, " b"], Int[np.ndarray, " groups"]]:
    """Put streams with one doubt before the row, one pattern of seen entries and one label in one group."""
    some = np.flatnonzero((before >= 0) | ~seen.all(axis=1))
    group = np.full(len(before), -1)
    if len(some) < 2 or labels is None:
        group[some] = np.arange(len(some))
        return group, some
    keys = np.column_stack([before[some], labels[some], np.packbits(seen[some], axis=1)])
    _, members, number = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    group[some] = number.ravel()
    return group, some[members]


def together(doubts: Sequence[Doubt | None]) -> Doubt | None:
    """The doubt of many single streams in one value; None if none of them has any."""
    some = [doubt for doubt in doubts if doubt is not None and doubt.group[0] >= 0]
    if not some:
        return None
    spread = np.zeros((len(some), some[0].spread.shape[1], max(doubt.spread.shape[2] for doubt in some)))
    for i, doubt in enumerate(some):
        spread[i, :, : doubt.spread.shape[2]] = doubt.spread[doubt.group[0]]
    in_doubt = np.array([doubt is not None and doubt.group[0] >= 0 for doubt in doubts])
    return Doubt(np.where(in_doubt, np.cumsum(in_doubt) - 1, -1), spread)


def one_after_another(doubts: Sequence[Doubt | None], sizes: Sequence[int]) -> Doubt | None:
    """The doubt of several banks of streams, whose sizes are given, as that of one bank; None if none has any."""
    spread: np.ndarray | None = None
    groups = []
    for doubt, size in zip(doubts, sizes, strict=True):
        if doubt is None:
            groups.append(np.full(size, -1))
            continue
        groups.append(np.where(doubt.group < 0, -1, doubt.group + (0 if spread is None else len(spread))))
        spread = doubt.spread if spread is None else stacked(spread, doubt.spread)
    return None if spread is None else Doubt(np.concatenate(groups), spread)


def stacked(a: Float[np.ndarray, "g s k"], b: Float[np.ndarray, "h s l"]) -> Float[np.ndarray, "both s most"]:
    """Both stacks of matrices in one, with columns of zeros where roots have fewer columns."""
    k = max(a.shape[2], b.shape[2])
    out = np.zeros((len(a) + len(b), a.shape[1], k))
    out[: len(a), :, : a.shape[2]], out[len(a) :, :, : b.shape[2]] = a, b
    return out
