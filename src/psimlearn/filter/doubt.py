"""Doubt: the covariance that a gap opens, and that later observations close.

Let S be the memory of a stream between two rows, with mean s and covariance P, and let the next row be x = H S + noise,
noise ~ N(0, V), where H picks the expected observation from S. With o the entries of x that are seen:

    D = (H P H' + V)_oo           K = cov([S; x], x_o) D^-1
    mean([S; x]) += K (x_o - H_o s)                    J = cov([S; x]) - K D K'
    next memory: P' = T J T', where T is the derivative of the next S by [S; x]

P = 0 with all entries seen gives P' = 0. So streams without gaps have no doubt, and cost nothing. In a linear filter P
depends on the pattern of gaps only, so streams with the same pattern form a group and share it.

Narrow memories keep covariances. Wide ones keep square roots R, P = R R': one column for each direction still in doubt,
which are few where few channels are missing. With W the inverse of V_oo and A = H R:

    R+ = R (I + A' W A)^(-T/2)    gain of S: R+ (H R+)' W      [S; x] has the root [[R+, 0], [(I - V W) H R+, N]]

where N N' = V - V W V is the noise of the missing entries, given the seen ones.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

__all__ = ["Doubt", "Given", "Kind", "conditioned", "kind_of", "moved", "together"]

NOTHING = 1e-12
"""A variance below this share of the noise is zero."""
WIDE = 100
"""The width of a memory from which square roots are kept."""


class Doubt(NamedTuple):
    """The doubt of b streams about their memory S."""

    group: Int[np.ndarray, " b"]
    """The group of each stream; -1 for a stream without doubt."""
    spread: Float[np.ndarray, "groups s k"]
    """For each group the covariance of S, or a square root of it."""

    def at(self, streams: Any) -> "Doubt":
        """The doubt of some of the streams, by any index."""
        return self._replace(group=np.atleast_1d(self.group[streams]))

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
        out[some] += np.matmul(self.gain[self.group[some]], innovation[:, :, None])[:, :, 0]
        out[:, -n:] = np.where(seen, x, out[:, -n:])
        return out


class Covariances:
    """Doubt as covariances. `Roots` has the same methods."""

    def nothing(self, s: int) -> Float[np.ndarray, "1 s s"]:
        """A covariance of zeros."""
        return np.zeros((1, s, s))

    def given(
        self,
        spread: Float[np.ndarray, "g s s"],
        V: Float[np.ndarray, "*g n n"],
        seen: Bool[np.ndarray, "g n"],
        first: int,
    ) -> tuple[Float[np.ndarray, "g joint n"], Float[np.ndarray, "g joint joint"]]:
        """K and J of each group; the expected observation begins at coordinate `first` of S."""
        g, s, n = len(spread), spread.shape[1], V.shape[-1]
        e = slice(first, first + n)
        J = np.empty((g, s + n, s + n))
        J[:, :s, :s], J[:, :s, s:], J[:, s:, :s] = spread, spread[:, :, e], spread[:, e]
        J[:, s:, s:] = spread[:, e, e] + V
        both = seen[:, :, None] & seen[:, None, :]
        D = np.where(both, J[:, s:, s:], np.eye(n))  # the identity stands for missing entries
        across = J[:, s:] * seen[:, :, None]
        gain = np.linalg.solve(D, across).swapaxes(1, 2)
        J -= gain @ across
        J[:, s:] *= ~seen[:, :, None]
        J[:, :, s:] *= ~seen[:, None, :]  # seen entries are known without rounding
        return gain, J

    def moved(
        self, left: Float[np.ndarray, "g joint joint"], T: Float[np.ndarray, "*g s joint"], negligible: float
    ) -> Float[np.ndarray, "g s s"]:
        """P' = T J T' of each group; variances below `negligible` may be left out."""
        if T.ndim == 2:  # one product for all groups
            g, joint, _ = left.shape
            half = (left.reshape(-1, joint) @ T.T).reshape(g, joint, -1).swapaxes(1, 2)
            P = (np.ascontiguousarray(half).reshape(-1, joint) @ T.T).reshape(g, len(T), len(T))
        else:
            P = T @ left @ T.swapaxes(1, 2)
        return np.asarray(0.5 * (P + P.swapaxes(1, 2)))

    def whole(self, left: Float[np.ndarray, "joint joint"]) -> Float[np.ndarray, "joint joint"]:
        """J."""
        return left

    def variances(self, spread: Float[np.ndarray, "g s s"]) -> Float[np.ndarray, "g s"]:
        """The diagonal."""
        return np.asarray(np.maximum(np.diagonal(spread, axis1=1, axis2=2), 0.0))

    def between(self, spread: Float[np.ndarray, "g s s"], M: Float[np.ndarray, "q s"]) -> Float[np.ndarray, "g q q"]:
        """M P M'."""
        return np.asarray(M @ spread @ M.T)

    def along(self, spread: Float[np.ndarray, "g s s"], M: Float[np.ndarray, "*g q s"]) -> Float[np.ndarray, "g q"]:
        """The diagonal of M P M'."""
        return np.asarray(np.maximum(np.sum((M @ spread) * M, axis=2), 0.0))


class Roots:
    """Doubt as square roots with few columns."""

    def nothing(self, s: int) -> Float[np.ndarray, "1 s 0"]:
        """A root without columns."""
        return np.zeros((1, s, 0))

    def given(
        self,
        spread: Float[np.ndarray, "g s k"],
        V: Float[np.ndarray, "*g n n"],
        seen: Bool[np.ndarray, "g n"],
        first: int,
    ) -> tuple[Float[np.ndarray, "g joint n"], Float[np.ndarray, "g joint l"]]:
        """K and a root of J. The inverse of a positive definite matrix of k columns gives R+."""
        g, s, k = spread.shape
        n = V.shape[-1]
        e = slice(first, first + n)
        both = seen[:, :, None] & seen[:, None, :]
        W = np.linalg.inv(np.where(both, V, np.eye(n))) * both
        A = spread[:, e]
        root = np.linalg.cholesky(np.eye(k) + A.swapaxes(1, 2) @ W @ A)
        R = np.linalg.solve(root, spread.swapaxes(1, 2)).swapaxes(1, 2)
        of_memory = R @ (R[:, e].swapaxes(1, 2) @ W)
        fill = V @ W
        gain = np.concatenate([of_memory, of_memory[:, e] + fill @ (np.eye(n) - of_memory[:, e])], axis=1)
        gain[:, s:] = np.where(seen[:, :, None], np.eye(n), gain[:, s:]) * seen[:, None, :]
        noise = _noise_roots(V - fill @ V, seen)
        left = np.zeros((g, s + n, k + noise.shape[2]))
        left[:, :s, :k], left[:, s:, :k], left[:, s:, k:] = R, (np.eye(n) - fill) @ R[:, e], noise
        left[:, s:] *= ~seen[:, :, None]
        return gain, left

    def moved(
        self, left: Float[np.ndarray, "g joint l"], T: Float[np.ndarray, "*g s joint"], negligible: float
    ) -> Float[np.ndarray, "g s k"]:
        """T times the root, turned to its principal axes, without the columns that are negligible in every group."""
        R = T @ left
        values, vectors = np.linalg.eigh(R.swapaxes(1, 2) @ R)
        n_alive = int((values > negligible).sum(axis=1).max(initial=0))
        return np.asarray(R @ vectors[:, :, vectors.shape[2] - n_alive :])

    def whole(self, left: Float[np.ndarray, "joint l"]) -> Float[np.ndarray, "joint joint"]:
        """J, the root times its transpose."""
        return np.asarray(left @ left.T)

    def variances(self, spread: Float[np.ndarray, "g s k"]) -> Float[np.ndarray, "g s"]:
        """The sums of squares of the rows."""
        return np.asarray(np.sum(spread**2, axis=2))

    def between(self, spread: Float[np.ndarray, "g s k"], M: Float[np.ndarray, "q s"]) -> Float[np.ndarray, "g q q"]:
        """M R (M R)'."""
        R = M @ spread
        return np.asarray(R @ R.swapaxes(1, 2))

    def along(self, spread: Float[np.ndarray, "g s k"], M: Float[np.ndarray, "*g q s"]) -> Float[np.ndarray, "g q"]:
        """The sums of squares of the rows of M R."""
        return np.asarray(np.sum((M @ spread) ** 2, axis=2))


Kind = Covariances | Roots
"""The way in which a doubt is kept."""


def _noise_roots(V: Float[np.ndarray, "g n n"], seen: Bool[np.ndarray, "g n"]) -> Float[np.ndarray, "g n most"]:
    """Square roots of covariances that are zero for seen entries; as many columns as the most entries missing."""
    n, most = V.shape[1], int((~seen).sum(axis=1).max(initial=0))
    missing = ~seen[:, :, None] & ~seen[:, None, :]
    roots = np.linalg.cholesky(np.where(missing, V, np.eye(n))) * missing
    columns = np.argsort(seen, axis=1, kind="stable")[:, :most]  # those of missing entries first
    return np.take_along_axis(roots, columns[:, None, :], axis=2)


def kind_of(s: int) -> Kind:
    """The better way to keep doubts about memories of this width."""
    return Roots() if s >= WIDE else Covariances()


def conditioned(
    kind: Kind,
    doubt: Doubt | None,
    V: Float[np.ndarray, "*b n n"],
    seen: Bool[np.ndarray, "b n"],
    first: int,
    s: int,
    labels: Int[np.ndarray, " b"],
) -> Given:
    """Condition [S; x] of all streams on the seen entries of a row.

    Args:
        kind: the way in which the doubt is kept.
        doubt: about S before the row; None for no doubt at all.
        V: the covariance of the noise, of all streams or of each.
        seen: marks the seen entries.
        first: the coordinate of S at which the expected observation begins.
        s: the width of S.
        labels: streams with different labels are never in one group.
    """
    before = np.full(len(seen), -1) if doubt is None else doubt.group
    group, members = _groups(before, seen, labels)
    nothing = kind.nothing(s)
    spread = nothing if doubt is None else _stacked(doubt.spread, nothing)
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
    before: Int[np.ndarray, " b"], seen: Bool[np.ndarray, "b n"], labels: Int[np.ndarray, " b"]
) -> tuple[Int[np.ndarray, " b"], Int[np.ndarray, " groups"]]:
    """Put streams with one doubt before the row, one pattern of seen entries and one label in one group."""
    some = np.flatnonzero((before >= 0) | ~seen.all(axis=1))
    group = np.full(len(before), -1)
    if not len(some):
        return group, some
    if len(some) == 1:
        group[some] = 0
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


def _stacked(a: Float[np.ndarray, "g s k"], b: Float[np.ndarray, "h s l"]) -> Float[np.ndarray, "both s most"]:
    """Both stacks of matrices in one, with columns of zeros where roots have fewer columns."""
    k = max(a.shape[2], b.shape[2])
    out = np.zeros((len(a) + len(b), a.shape[1], k))
    out[: len(a), :, : a.shape[2]], out[len(a) :, :, : b.shape[2]] = a, b
    return out
