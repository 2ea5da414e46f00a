"""A compiled roll over recordings with gaps; see `gaploop.py`. The letters are those of `doubt.py` and `spreads.py`."""

from typing import Any

import numpy as np
from numba import boolean, float64, int64

from psimlearn.filter.loops import CUBE, CUBES, EDGES, GIVEN, OUT, TABLE, TABLES, boxed, compiled, multiplied

__all__ = ["fill_in_doubt"]


@compiled()
def _narrowed(R: Any) -> int:
    """Turn rows into as many as there are columns, with the same R'R, by reflections; return how many."""
    k, s = R.shape
    for c in range(s):
        size = 0.0
        for i in range(c, k):
            size += R[i, c] * R[i, c]
        root = -np.sqrt(size) if R[c, c] > 0 else np.sqrt(size)
        pivot = R[c, c] - root
        half = -root * pivot  # half the square of the direction that is reflected
        for j in range(c + 1, s):
            along = pivot * R[c, j]
            for i in range(c + 1, k):
                along += R[i, c] * R[i, j]
            along = along / half if half > 0 else 0.0
            R[c, j] -= along * pivot
            for i in range(c + 1, k):
                R[i, j] -= along * R[i, c]
        R[c, c] = root
        for i in range(c + 1, k):
            R[i, c] = 0.0
    return int(s)


@compiled()
def _conditioned(R: Any, W: Any, first: int, L: Any, B: Any) -> bool:
    """Condition the rows of R on the entries of a row that were seen; return whether all numbers are finite.

    The letters are those of `spreads.py`: R+ = R (I + A' W A)^(-T/2). The rows of R are the columns of the root. L and
    B are work space, for the triangle of I + A' W A and for A' W.
    """
    (k, s), n = R.shape, len(W)
    for i in range(k):
        for a in range(n):
            B[i, a] = 0.0
            for b in range(n):
                B[i, a] += W[a, b] * R[i, first + b]
        for j in range(i + 1):
            total = 1.0 if i == j else 0.0
            for a in range(n):
                total += R[i, first + a] * B[j, a]
            for c in range(j):
                total -= L[i, c] * L[j, c]
            L[i, j] = np.sqrt(total) if i == j else total / L[j, j]
        if not L[i, i] < np.inf:
            return False
        for j in range(i):
            for c in range(s):
                R[i, c] -= L[i, j] * R[j, c]
        for c in range(s):
            R[i, c] /= L[i, i]
    return True


@compiled()
def _corrected(S: Any, x: Any, R: Any, W: Any, first: int, v: Any) -> None:
    """Move the mean S by the seen entries of x, given roots that are conditioned on them; v is work space."""
    n = len(x)
    for i in range(n):
        v[i] = 0.0 if np.isnan(x[i]) else x[i] - S[first + i]
    for c in range(len(R)):
        along = 0.0
        for i in range(n):
            weighed = 0.0
            for j in range(n):
                weighed += W[i, j] * v[j]
            along += R[c, first + i] * weighed
        for i in range(len(S)):
            S[i] += along * R[c, i]


@compiled()
def _filled(S: Any, x: Any, unit: float, fill: Any, first: int, out: Any) -> None:
    """Write x with missing entries as S and the seen entries expect them; `unit` is 1 for means and 0 for roots."""
    n = len(x)
    for i in range(n):
        out[i] = unit * x[i]
        if np.isnan(x[i]):
            out[i] = S[first + i]
            for j in range(n):
                if not np.isnan(x[j]):
                    out[i] += fill[i, j] * (unit * x[j] - S[first + j])


@compiled()
def _carried(S: Any, x: Any, z: Any, W: Any, y: Any, r: int, fed: int, top: int, starts: bool) -> None:
    """Write z of a memory S and a row x, and the next S; a mean and the rows of a root are carried alike."""
    n, older = len(x), fed + len(x)
    for i in range(r):
        z[i] = S[i]
    for i in range(n):
        z[fed + i] = x[i]
    for i in range(len(S) - top):
        z[older + i] = x[i % n] if starts else S[top + i]
    multiplied(z, W, y, top)
    for i in range(top):
        S[i] = y[i]
    for i in range(top, len(S)):
        S[i] = z[fed + i - top]


@compiled()
def _opened(S: Any, x: Any, gain: Any, first: int) -> None:
    """Move the mean S by a complete row at an age with a gain of its own."""
    innovation = x - S[first : first + len(x)]
    for i in range(len(S)):
        for j in range(len(x)):
            S[i] += gain[i, j] * innovation[j]


@compiled()
def _within(row: Any, bound: float) -> bool:
    """Tell whether all numbers are at most so large; NaN is not."""
    beyond = 0
    for v in row:
        beyond += not abs(v) <= bound
    return beyond == 0


@compiled()
def _taken(M: Any, X: Any, k: int, x: Any, noise: Any, box: Any, L: Any, B: Any) -> int:
    """Condition the mean and k roots of a memory on a row with its gaps; return how many roots there are then, or -1.

    M holds the mean and below it the roots; X, the same for the row, is written.
    """
    n, r = len(x), box.shape[1]
    if not _conditioned(M[1 : 1 + k], noise[0], r, L, B):
        return -1
    _corrected(M[0], x, M[1 : 1 + k], noise[0], r, X[0])
    boxed(M[0], box, M[0])
    for i in range(1 + k):
        _filled(M[i], x, 1.0 if i == 0 else 0.0, noise[1], r, X[i])
    for j in range(n):
        if np.isnan(x[j]):
            k += 1
            M[k], X[k] = 0.0, noise[2, :, j]
    return k


@compiled(boolean(OUT, OUT, OUT, EDGES, EDGES, TABLES, TABLE, TABLE, GIVEN, CUBES, CUBES, int64, float64, CUBE))
def fill_in_doubt(
    z: Any,
    x: Any,
    hints: Any,
    starts: Any,
    pattern: Any,
    noise: Any,
    W: Any,
    box: Any,
    begin: Any,
    gain: Any,
    roots: Any,
    fed: int,
    negligible: float,
    ends: Any,
) -> bool:
    """Fill scheduled z and x where entries are missing, by `innovations.py`; return whether all numbers are finite.

    The doubt about a memory is a square root with a column for each missing entry that still matters. The map of the
    step carries each column as it carries the mean.

    Args:
        z: the inputs of all steps, of which the columns of inputs are filled.
        x: observations, standardised, NaN where missing.
        hints: the part of the hints that is read from the belief.
        starts: where the block of each time begins.
        pattern: of missing entries, for each row; 0 for none.
        noise: for each pattern, and again for each pattern at the start: W and V W of `spreads.py`, and the root of the
            noise of missing entries.
        W: from [z; 1] to [fed; e; g] of the next memory.
        box: low and high; of width 0 if feedback has no weight.
        begin: the mean of the memory at the start.
        gain: of first rows, for each age; of no ages if first rows have none, and lags repeat the first row.
        roots: of the covariances of the memory at these ages, one row for each column.
        fed: the width of the feedback in z.
        negligible: a column of variances up to this is left out.
        ends: the covariance of the memory after each stream; zeros.
    """
    n, r, s, p = x.shape[1], box.shape[1], len(begin), W.shape[0] - 1
    top, most = r + n + hints.shape[1], 2 * s
    M, X, y, column = np.empty((1 + most + n, s)), np.empty((1 + most + n, n)), np.empty(W.shape[1]), np.zeros(p)
    L, B, slopes = np.empty((most, most)), np.empty((most, n)), W.copy()
    slopes[p] = 0.0
    z[:, :fed], bound = 0.0, np.sqrt(negligible)
    for stream in range(starts[1]):
        M[0], k = begin, 0
        for t in range(len(starts) - 1):
            row = starts[t] + stream
            if row >= starts[t + 1]:
                break
            starting = t == 0 and len(gain) == 0
            if k == 0 and pattern[row] == 0:
                X[0] = x[row]
                if t < len(gain):
                    _opened(M[0], x[row], gain[t], r)
                    boxed(M[0], box, M[0])
            else:
                if k == 0 and t < len(gain):
                    k = roots.shape[1]
                    M[1 : 1 + k] = roots[t]
                of = noise[pattern[row] + (len(noise) // 2 if starting else 0)]
                k = _taken(M, X, k, x[row], of, box, L, B)
                if k < 0:
                    return False
                x[row] = X[0]
            hints[row] = M[0, r + n : top]
            _carried(M[0], X[0], z[row], W, y, r, fed, top, starting)
            boxed(M[0], box, M[0])
            kept = 0
            for i in range(1, k + 1):
                _carried(M[i], X[i], column, slopes, y, r, fed, top, starting)
                if not _within(M[i], bound):
                    kept += 1
                    for j in range(s):
                        M[kept, j] = M[i, j]
            k = _narrowed(M[1 : 1 + kept]) if kept > most else kept
        for i in range(1, k + 1):
            for j in range(s):
                ends[stream, j] += M[i, j] * M[i]
    return True
