"""Two ways to keep the covariance of a memory: covariances where it is narrow, square roots where it is wide.

A square root R, P = R R', has one column for each direction still in doubt, which are few where few channels are
missing. With W the inverse of V_oo and A = H R (letters as in `doubt.py`):

    R+ = R (I + A' W A)^(-T/2)    gain of S: R+ (H R+)' W      [S; x] has the root [[R+, 0], [(I - V W) H R+, N]]

where N N' = V - V W V is the noise of the missing entries, given the seen ones.
"""

import numpy as np

from psimlearn.errors import DivergedError
from psimlearn.factors import eigh
from psimlearn.shapes import Bool, Float

__all__ = ["Covariances", "Kind", "Roots", "kind_of", "noise_given"]

WIDE = 100
"""The width of a memory from which square roots are kept."""


class Covariances:
    """Doubt as covariances. `Roots` has the same methods."""

    def nothing(self, s: int) -> Float[np.ndarray, "1 s s"]:
        """A covariance of zeros."""
        return np.zeros((1, s, s))

    def from_root(self, root: Float[np.ndarray, "s k"]) -> Float[np.ndarray, "1 s s"]:
        """The covariance with this root."""
        return np.asarray((root @ root.T)[None])

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
        gain = _solved(D, across).swapaxes(1, 2)
        J -= gain @ across
        J[:, s:] *= ~seen[:, :, None]
        J[:, :, s:] *= ~seen[:, None, :]  # seen entries are known without rounding
        return gain, J

    def given_all(
        self, spread: Float[np.ndarray, "g s s"], V: Float[np.ndarray, "*g n n"], first: int
    ) -> tuple[Float[np.ndarray, "g s n"], Float[np.ndarray, "g s s"]]:
        """The part of K and J for S alone, if no entry of a row is missing: nothing is left of x that is not known."""
        e = slice(first, first + V.shape[-1])
        across = spread[:, e]
        gain = _solved(across[:, :, e] + V, across).swapaxes(1, 2)
        return gain, spread - gain @ across

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

    def from_root(self, root: Float[np.ndarray, "s k"]) -> Float[np.ndarray, "1 s k"]:
        """The root itself."""
        return root[None]

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
        W, fill, roots = noise_given(V, seen)
        A = spread[:, e]
        root = np.linalg.cholesky(np.eye(k) + A.swapaxes(1, 2) @ W @ A)
        R = np.linalg.solve(root, spread.swapaxes(1, 2)).swapaxes(1, 2)
        of_memory = R @ (R[:, e].swapaxes(1, 2) @ W)
        gain = np.concatenate([of_memory, of_memory[:, e] + fill @ (np.eye(n) - of_memory[:, e])], axis=1)
        gain[:, s:] = np.where(seen[:, :, None], np.eye(n), gain[:, s:]) * seen[:, None, :]
        noise = _narrowed(roots, seen)
        left = np.zeros((g, s + n, k + noise.shape[2]))
        left[:, :s, :k], left[:, s:, :k], left[:, s:, k:] = R, (np.eye(n) - fill) @ R[:, e], noise
        left[:, s:] *= ~seen[:, :, None]
        return gain, left

    def moved(
        self, left: Float[np.ndarray, "g joint l"], T: Float[np.ndarray, "*g s joint"], negligible: float
    ) -> Float[np.ndarray, "g s k"]:
        """T times the root, turned to its principal axes, without the columns that are negligible in every group."""
        R = _carried(T, left)
        values, vectors = eigh(R.swapaxes(1, 2) @ R)
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


def _carried(T: Float[np.ndarray, "*g s joint"], left: Float[np.ndarray, "g joint l"]) -> Float[np.ndarray, "g s l"]:
    """T times the root of each group.

    Most rows of a wide T have one entry only, as each lag becomes the next: such rows of `left` are picked.
    """
    if T.ndim > 2:
        return np.asarray(T @ left)
    picks = np.count_nonzero(T, axis=1) == 1
    column = (T[picks] != 0).argmax(axis=1)
    out = np.empty((len(left), len(T), left.shape[2]))
    out[:, ~picks] = T[~picks] @ left
    out[:, picks] = T[picks, column][:, None] * left[:, column]
    return out


def noise_given(
    V: Float[np.ndarray, "*g n n"], seen: Bool[np.ndarray, "g n"]
) -> tuple[Float[np.ndarray, "g n n"], Float[np.ndarray, "g n n"], Float[np.ndarray, "g n n"]]:
    """W and V W of each group, and N, which has a column for each entry: zeros for entries that are seen."""
    eye, both = np.eye(V.shape[-1]), seen[:, :, None] & seen[:, None, :]
    W = np.linalg.inv(np.where(both, V, eye)) * both
    fill, missing = V @ W, ~seen[:, :, None] & ~seen[:, None, :]
    return W, fill, np.linalg.cholesky(np.where(missing, V - fill @ V, eye)) * missing


def _narrowed(roots: Float[np.ndarray, "g n n"], seen: Bool[np.ndarray, "g n"]) -> Float[np.ndarray, "g n most"]:
    """Roots without columns of seen entries; as many columns as the most entries missing."""
    most = int((~seen).sum(axis=1).max(initial=0))
    columns = np.argsort(seen, axis=1, kind="stable")[:, :most]  # those of missing entries first
    return np.take_along_axis(roots, columns[:, None, :], axis=2)


def kind_of(s: int) -> Kind:
    """The better way to keep doubts about memories of this width."""
    return Roots() if s >= WIDE else Covariances()


def _solved(D: Float[np.ndarray, "g n n"], across: Float[np.ndarray, "g n joint"]) -> Float[np.ndarray, "g n joint"]:
    """D^-1 across; a filter whose doubt has outgrown the precision of numbers is refused."""
    try:
        return np.linalg.solve(D, across)
    except np.linalg.LinAlgError:
        raise DivergedError(
            "required a covariance of observations that can be inverted, received one that is singular: the filter "
            "diverges in gaps. Fit again with a larger ridge, or fill the gaps."
        ) from None
