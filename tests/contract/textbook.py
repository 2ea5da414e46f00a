"""A filter as its equations say it, in plain numpy, one row of one stream at a time: what every engine is held to.

Everything is standardised. m is the belief before a row, x the row, B the regressor, c the belief weight:

    z  = [box(c (P m - mean) / scale); x; the rows before it, newest first; inputs]         m' = B(z) + prior(x)

Where entries are missing a filter is a Gaussian model: x = e + noise with e the first block of m, and before the row
S = [fed; e; hints read from m; older rows] has a covariance L L'. A root of the joint covariance of [S; x] is turned
until the entries seen need as many columns as they are: these columns are then known, the others are what is left. No
covariance is formed and nothing is inverted, so with long doubles about eleven digits remain where noise is 1e-14 of
the doubt. Columns go through the step by its derivative; the box acts on means alone.

Nothing here comes from the package but the regressors and the numbers of a filter.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from psimlearn.filter import Filter, Linear, RandomFourier, SecondMoment, Stack, StackSquares

__all__ = ["CALM", "MILDER", "Book", "Stream", "lower_root", "solved"]

LITTLE, QUIET, MOST_AGES = 1e-3, 5, 20
"""The doubt of a start that lost no entry ends once it adds this share to no variance, for so many rows, or so late."""
CALM, MILDER = 5, 10.0


@dataclass(frozen=True, eq=False)
class Stream:
    """One stream between two rows."""

    m: np.ndarray
    older: np.ndarray
    """The last rows, newest first, (lags, n); zeros before the first row."""
    L: np.ndarray | None
    """A root of the covariance of S; None while nothing is in doubt."""
    clock: int = 0
    unseen: int = 0
    late: int = 0
    fresh: bool = True
    """Whether no entry was ever missing."""
    unrest: np.ndarray = field(default_factory=lambda: np.ones(0))

    @property
    def age(self) -> int:
        """The rows since anything was first observed: first rows are told apart by it, see `Book.start_of`."""
        return self.clock - self.late


def turned(root: np.ndarray, rows: Any) -> np.ndarray:
    """The root, its columns turned so that the first of them make these rows: one reflection a row."""
    root = root.copy()
    for j, row in enumerate(rows):
        v = root[row, j:].copy()
        size = np.sqrt(v @ v)
        if size > 0:
            v[0] += np.copysign(size, v[0])
            root[:, j:] -= np.outer(root[:, j:] @ v, v * (2 / (v @ v)))
    return root


def solved(lower: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The solution of a lower triangular system, in the precision of its numbers."""
    out = np.zeros(len(b), dtype=lower.dtype)
    for i in range(len(b)):
        out[i] = (b[i] - lower[i, :i] @ out[:i]) / lower[i, i]
    return out


def lower_root(V: np.ndarray) -> np.ndarray:
    """The Cholesky factor, in the precision of its numbers."""
    out = np.zeros_like(V)
    for j in range(len(V)):
        out[j, j] = np.sqrt(V[j, j] - out[j, :j] @ out[j, :j])
        out[j + 1 :, j] = (V[j + 1 :, j] - out[j + 1 :, :j] @ out[j, :j]) / out[j, j]
    return out


class Book:
    """A filter, and the answers of the textbook."""

    def __init__(self, filter: Filter, real: Any = np.float64) -> None:
        self.filter, self.real = filter, real
        self.kept: Any = (None, 0, None, [])
        self.n, self.k, self.q = len(filter.scaling.mean), filter.features.window, filter.lags
        fb, d = filter.feedback, len(filter.initial)
        self.rf = len(fb.mean)
        self.r = self.rf if fb.weight else 0
        self.to_fed = (np.eye(d) if fb.directions is None else fb.directions) * (fb.weight / fb.scale)
        self.to_hints = np.zeros((d, 0)) if filter.hinting is None else filter.hinting.weights[:d]
        self.h = self.to_hints.shape[1]
        known = isinstance(filter.features, Stack | StackSquares | SecondMoment)
        plain = len(filter.regressors) == 1 and isinstance(filter.regressors[0], Linear | RandomFourier)
        affine = filter.centre is not None or isinstance(filter.features, Stack)
        self.model = known and plain and affine
        """Whether the filter is a Gaussian model."""
        self.exact = self.model and filter.gaps == "exact"
        self.noise = lower_root(filter.covariance.astype(real))
        linear = isinstance(filter.regressors[0], Linear)
        self.opening = filter.opening if self.exact and linear else None
        differs = self.opening is None and filter.starting is not None
        first = filter.starting.covariance if differs and filter.starting is not None else filter.covariance
        self.first_noise = lower_root(first.astype(real))
        self.roots = self._openings()
        """Roots before the rows of a stream that lost no entry, by age."""

    # -- the step ------------------------------------------------------------------------------------------------------

    def fed(self, m: np.ndarray) -> np.ndarray:
        """The feedback of a belief, in its box."""
        fb = self.filter.feedback
        return self.boxed(m @ self.to_fed - fb.mean * (fb.weight / fb.scale))

    def boxed(self, fed: np.ndarray) -> np.ndarray:
        """Feedback, kept in the box."""
        low, high = self.filter.feedback.low, self.filter.feedback.high
        return fed if low is None or high is None else np.clip(fed, low, high)

    def first_block(self, m: np.ndarray) -> np.ndarray:
        """The expected row: all features have the observations first."""
        return m[..., : self.n]

    def prior(self, x: np.ndarray) -> np.ndarray:
        """What is added to the regressor's output."""
        if self.filter.centre is not None:
            return self.filter.centre
        f = np.tile(x, self.k)
        if isinstance(self.filter.features, Stack):
            return f
        row, column = np.triu_indices(len(f))
        more = f**2 if isinstance(self.filter.features, StackSquares) else f[row] * f[column]
        return np.concatenate([f, more])

    def controls(self, u: np.ndarray | None, next_u: np.ndarray | None) -> np.ndarray:
        """The input columns of z."""
        scaling = self.filter.input_scaling
        if scaling is None or u is None or next_u is None:
            return np.zeros(0)
        both = [u, next_u] if self.filter.feedthrough else [u]
        return np.concatenate([(each - scaling.mean) / scaling.scale for each in both])

    def start(self) -> Stream:
        """A stream without rows."""
        older, L = np.zeros((self.q, self.n)), None
        if self.opening is not None:
            older[: self.q - 1], L = self.opening.older, self.roots[0]
        return Stream(self.filter.initial, older, L, unrest=np.ones(self.n))

    def start_of(self, s: Stream) -> tuple[np.ndarray, bool]:
        """The root of the noise of this row, and whether the lags repeat it: it is the first, without an opening."""
        first = s.clock == 0 and self.opening is None
        return (self.first_noise if first else self.noise), first

    def take(self, s: Stream, x: np.ndarray, u: np.ndarray, more: dict[str, Any] | None = None) -> Stream:
        """The stream after one more row, NaN where missing; `more` receives z and the hints read from the belief."""
        seen, given = ~np.isnan(x), x
        noise, first = self.start_of(s)
        S = np.concatenate([self.fed(s.m)[: self.r], self.first_block(s.m), s.m @ self.to_hints, s.older[:-1].ravel()])
        left = None
        if not self.exact:
            x = self.filled(x, self.first_block(s.m))
        elif s.L is not None or not seen.all():
            S, x, left = self.conditioned(S, s.L, x, noise)
        older = (
            np.tile(x, (self.q, 1))
            if first or self.clock_zero(s)
            else np.concatenate([x[None], S[len(S) - self.n * (self.q - 1) :].reshape(-1, self.n)])
        )
        fed = self.boxed(S[: self.r]) if self.r else self.fed(s.m)
        z = np.concatenate([fed, older.ravel(), u])
        m = self.filter.regressors[min(s.clock, len(self.filter.regressors) - 1)](z[None])[0] + self.prior(x)
        if more is not None:
            more.update(z=z, g=S[self.r + self.n : self.r + self.n + self.h])
        blind, late = not seen.any(), s.late + (not seen.any() and s.age == 0)
        fresh = s.fresh and bool(seen.all())
        L = None if left is None else self.moved(left, self.slope(z), first)
        if fresh and s.clock + 1 >= len(self.roots):
            L = None  # the start is forgotten
        unrest = self.unrest_after(s, given)
        return Stream(m, older, L, s.clock + 1, s.unseen + 1 if blind else 0, late, fresh, unrest)

    def clock_zero(self, s: Stream) -> bool:
        """Whether the rows before this one are not known: before the first row, without an opening."""
        return s.clock == 0 and self.opening is None

    def filled(self, x: np.ndarray, e: np.ndarray) -> np.ndarray:
        """A row with missing entries at their mean given the entries seen, inside the span."""
        seen, V = ~np.isnan(x), self.filter.covariance
        guess = e.copy()
        if seen.any():
            guess = e + V[:, seen] @ np.linalg.solve(V[np.ix_(seen, seen)], (x - e)[seen])
        guess = guess if self.filter.span is None else np.clip(guess, *self.filter.span)
        return np.where(seen, x, guess)

    def conditioned(
        self, S: np.ndarray, L: np.ndarray | None, x: np.ndarray, noise: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The means of S and x given the entries seen, and a root of their joint covariance."""
        s, e, o = len(S), slice(self.r, self.r + self.n), np.flatnonzero(~np.isnan(x))
        L = np.zeros((s, 0), dtype=self.real) if L is None else L
        joint = np.block([[L, np.zeros((s, self.n))], [L[e], noise]]).astype(self.real)
        joint = turned(joint, s + o)
        known, left = joint[:, : len(o)], joint[:, len(o) :]
        left[s + o] = 0.0
        mean = np.concatenate([S, S[e]]) + (known @ solved(known[s + o], x[o] - S[e][o])).astype(np.float64)
        mean[s + o] = x[o]
        return mean[:s], mean[s:], left

    def slope(self, z: np.ndarray) -> np.ndarray:
        """The derivative of the next [fed; e; hints] by z."""
        regressor, n = self.filter.regressors[0], self.n
        if isinstance(regressor, Linear):
            by_z = regressor.weights.copy()
        else:
            assert isinstance(regressor, RandomFourier)
            half, W, angle = regressor.directions.shape[1], regressor.linear.weights, z @ regressor.directions
            by_z = regressor.directions @ (
                np.cos(angle)[:, None] * W[half : 2 * half] - np.sin(angle)[:, None] * W[:half]
            )
            by_z = by_z + W[2 * half :] if regressor.raw_inputs else by_z
        if self.filter.centre is None:  # Stack: prior(x) is linear
            by_z[self.rf : self.rf + n] += np.tile(np.eye(n), self.k)
        read = np.concatenate([self.to_fed[:, : self.r], np.eye(len(by_z.T), n), self.to_hints], axis=1)
        return np.asarray((by_z @ read).T)

    def moved(self, left: np.ndarray, slope: np.ndarray, first: bool) -> np.ndarray | None:
        """The root of the next S, given that of [S; x]; None where nothing is left of doubt."""
        n, s = self.n, self.r + self.h + self.n * self.q
        x, older = left[s:], left[s - n * (self.q - 1) : s]
        older = np.tile(x, (self.q - 1, 1)) if first else older
        fed = left[: self.r] if self.r else np.zeros((self.rf, left.shape[1]))
        rows = np.concatenate([x, older])
        dz = np.concatenate([fed, rows])
        L = np.concatenate([slope[:, : len(dz)] @ dz, rows[: n * (self.q - 1)]])
        if L.shape[1] > s:
            L = turned(L, range(s))[:, :s]
        return L if (L**2).max() > 1e-18 * np.diag(self.filter.covariance).min() else None

    def _openings(self) -> list[np.ndarray]:
        """The roots of a stream that lost no entry, until its start is forgotten."""
        if self.opening is None:
            return []
        root, d = self.opening.root, len(self.filter.initial)
        m = root[:d]
        L: Any = np.concatenate([self.to_fed[:, : self.r].T @ m, m[: self.n], self.to_hints.T @ m, root[d:]])
        L, roots, ages = L.astype(self.real), [], max(self.q - 1, 1)
        V, e, slope = np.diag(self.filter.covariance), slice(self.r, self.r + self.n), self.slope(np.zeros(0))
        for t in range(max(MOST_AGES, self.q - 1)):
            if ((L[e] ** 2).sum(axis=1) > LITTLE * V).any():
                ages = max(ages, t + 1)
            elif t + 1 >= ages + QUIET:
                break
            roots.append(L)
            _, _, left = self.conditioned(np.zeros(len(L)), L, np.zeros(self.n), self.noise)
            moved = self.moved(left, slope, False)
            L = np.zeros((len(L), 1), dtype=self.real) if moved is None else moved
        return roots[:ages]

    def unrest_after(self, s: Stream, x: np.ndarray) -> np.ndarray:
        """The fading mean of squared errors, in usual ones."""
        local = self.filter.local
        if local is None:
            return s.unrest
        squares = np.minimum((x - self.first_block(s.m)) ** 2 / local.usual, 100.0)
        return np.where(np.isnan(x), s.unrest, (1 - local.fading[0]) * s.unrest + local.fading[0] * squares)

    # -- rows ahead ----------------------------------------------------------------------------------------------------

    def advanced(self, s: Stream, steps: int, u: np.ndarray | None) -> list[np.ndarray]:
        """The beliefs before the next rows, if each comes as expected; the last answer is kept, being asked twice."""
        if self.kept[:2] == (s, steps) and self.kept[2] is u:
            return list(self.kept[3])
        asked, s, out = (s, steps, u), replace(s, L=None, fresh=False), [s.m]
        for t in range(steps - 1):
            now = self.controls(None, None) if u is None else self.controls(u[t], u[t + 1])
            s = self.take(s, self.first_block(s.m), now)
            out.append(s.m)
        self.kept = (*asked, out)
        return out

    def blocks(self, s: Stream, steps: int, u: np.ndarray | None, of: Any) -> np.ndarray:
        """Blocks of the next rows: from the belief and then its last block, or with inputs to come always the first."""
        if u is not None:
            return np.array([of(m)[0] for m in self.advanced(s, steps, u)])
        inside = of(s.m)
        if steps <= self.k:
            return np.asarray(inside[:steps])
        return np.concatenate([inside, [of(m)[-1] for m in self.advanced(s, steps - self.k + 1, None)[1:]]])

    def observations(self, m: np.ndarray) -> np.ndarray:
        """The rows that a belief expects."""
        return m[: self.k * self.n].reshape(self.k, self.n)

    def claims(self, m: np.ndarray) -> np.ndarray:
        """The variances that a belief claims."""
        return np.asarray(self.filter.features.variance(m[None])[0])  # type: ignore[attr-defined]

    def outlook(self, s: Stream, L: np.ndarray, steps: int) -> np.ndarray:
        """The variances that columns of S bring to the next rows, by the slope at the present mean; (steps, n)."""
        e = self.first_block(s.m)
        older = np.tile(e, (self.q - 1, 1)) if self.clock_zero(s) else s.older[:-1]
        z = np.concatenate([self.fed(s.m), e, older.ravel()])
        slope = self.slope(np.concatenate([z, np.zeros(self.wide - len(z))]))
        out = np.zeros((steps, self.n))
        rows = slice(self.r, self.r + self.n)
        for t in range(steps):
            out[t] = (L[rows] ** 2).sum(axis=1)
            L = self.carried(np.concatenate([L, L[rows]]), slope)
        return out

    def carried(self, left: np.ndarray, slope: np.ndarray) -> np.ndarray:
        """`moved` without an end."""
        moved = self.moved(left, slope, False)
        return np.zeros((len(left) - self.n, 1)) if moved is None else moved

    @property
    def wide(self) -> int:
        """The width of z."""
        inputs = 0 if self.filter.input_scaling is None else len(self.filter.input_scaling.mean)
        return self.rf + self.n * self.q + inputs * (1 + self.filter.feedthrough)

    def grown(self, s: Stream, steps: int) -> np.ndarray:
        """The variances of the errors of the next rows, if nothing is in doubt now."""
        size = self.r + self.h + self.n * self.q
        e = self.first_block(s.m)
        older = np.tile(e, (self.q - 1, 1)) if self.clock_zero(s) else s.older[:-1]
        z = np.concatenate([self.fed(s.m), e, older.ravel()])
        slope = self.slope(np.concatenate([z, np.zeros(self.wide - len(z))]))
        noise = np.concatenate([np.zeros((size, self.n)), self.noise])
        brought = self.outlook(s, self.carried(noise, slope), steps)
        return np.cumsum(np.concatenate([[np.diag(self.filter.covariance)], brought[:-1]]), axis=0)
