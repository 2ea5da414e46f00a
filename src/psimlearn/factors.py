"""Factorisations that do not give up: LAPACK's quick way first, and where it fails a slower one.

The divide-and-conquer routines behind numpy (gesdd, syevd, gelsd) fail to converge on some finite matrices on which QR
iterations (gesvd, syev) succeed. A singular matrix has the solution of least norm. Where nothing helps, as nothing is
finite, a `DivergedError` says so: it ends a candidate, and no fit. scipy is loaded where it is needed only: those who
run a filter may not have it. Stacks of matrices are taken one by one on the slower way.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from psimlearn.errors import DivergedError
from psimlearn.shapes import Float

__all__ = ["FAILURES", "cholesky", "eigh", "eigvals", "inv", "lstsq", "pinv", "schur", "solve", "svd"]

EPS = float(np.finfo(float).eps)
FAILURES = (DivergedError, np.linalg.LinAlgError)
"""What a candidate that cannot be computed raises: it counts as infinitely bad, and never ends a fit."""


def svd(matrix: Float[np.ndarray, "m n"]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """U, the singular values and V', without the vectors of the longer side that belong to no singular value."""

    def slowly() -> Any:
        from scipy.linalg import svd as by_qr_iterations

        return by_qr_iterations(matrix, full_matrices=False, lapack_driver="gesvd")

    found = _first(lambda: np.linalg.svd(matrix, full_matrices=False), slowly, "singular value decomposition")
    return found[0], found[1], found[2]


def eigh(
    matrix: Float[np.ndarray, "*g s s"], first: int = 0
) -> tuple[Float[np.ndarray, "*g some"], Float[np.ndarray, "*g s some"]]:
    """The eigenvalues of symmetric matrices in rising order, and their eigenvectors; of one matrix from `first` on."""

    def quickly() -> Any:
        if not first:
            return np.linalg.eigh(matrix)
        from scipy.linalg import eigh as of_some

        return of_some(matrix, subset_by_index=(first, len(matrix) - 1))

    def slowly() -> Any:
        from scipy.linalg import eigh as by_qr_iterations

        found = [by_qr_iterations(each, driver="ev") for each in matrix.reshape(-1, *matrix.shape[-2:])]
        values, vectors = (np.array(part) for part in zip(*found, strict=True))
        return values.reshape(matrix.shape[:-1])[..., first:], vectors.reshape(matrix.shape)[..., first:]

    values, vectors = _first(quickly, slowly, "eigendecomposition")
    return values, vectors


def eigvals(matrix: Float[np.ndarray, "s s"]) -> np.ndarray:
    """The eigenvalues; those of the transpose, which are the same, take other steps."""
    found: np.ndarray = _first(lambda: np.linalg.eigvals(matrix), lambda: np.linalg.eigvals(matrix.T), "eigenvalues")
    return found


def schur(matrix: Float[np.ndarray, "s s"]) -> tuple[Float[np.ndarray, "s s"], Float[np.ndarray, "s s"]]:
    """T and Z of the real Schur form Z T Z'; from that of the transpose, with all coordinates in reverse."""
    from scipy.linalg import schur as by_hessenberg

    def turned() -> tuple[np.ndarray, np.ndarray]:
        T, Z = by_hessenberg(matrix.T, output="real")
        return T.T[::-1, ::-1].copy(), Z[:, ::-1].copy()

    def at_once() -> Any:
        if not np.isfinite(matrix).all():
            raise np.linalg.LinAlgError("not finite")
        return by_hessenberg(matrix, output="real")

    T, Z = _first(at_once, turned, "Schur form")
    return T, Z


def cholesky(matrix: Float[np.ndarray, "s s"]) -> Float[np.ndarray, "s s"]:
    """The lower triangle L with LL' = matrix; of the nearest covariance that rounding leaves positive."""

    def nearest() -> np.ndarray:
        values, vectors = eigh(matrix)
        sizes = np.sqrt(np.maximum(values, len(matrix) * EPS * max(values[-1], 0.0)))
        triangle: np.ndarray = np.linalg.qr((vectors * sizes).T, mode="r")  # type: ignore[assignment]
        return (triangle * np.where(np.diag(triangle) < 0, -1.0, 1.0)[:, None]).T

    found: np.ndarray = _first(lambda: np.linalg.cholesky(matrix), nearest, "Cholesky factor")
    return found


def solve(matrix: Float[np.ndarray, "s s"], right: Float[np.ndarray, "*r"]) -> Float[np.ndarray, "*r"]:
    """matrix^-1 right; the least-norm solution where that does not exist."""
    found: np.ndarray = _first(
        lambda: np.linalg.solve(matrix, right), lambda: pinv(matrix, len(matrix) * EPS) @ right, "solution"
    )
    return found


def inv(matrix: Float[np.ndarray, "s s"]) -> Float[np.ndarray, "s s"]:
    """The inverse; the pseudo-inverse where there is none."""
    found: np.ndarray = _first(lambda: np.linalg.inv(matrix), lambda: pinv(matrix, len(matrix) * EPS), "inverse")
    return found


def pinv(matrix: Float[np.ndarray, "m n"], rcond: float = 1e-15) -> Float[np.ndarray, "n m"]:
    """The pseudo-inverse, without the singular values below a share of the largest; that of numpy if none is given."""

    def slowly() -> np.ndarray:
        U, values, V = svd(matrix)
        kept = values > rcond * values.max(initial=0.0)
        return np.asarray((V[kept].T / values[kept]) @ U[:, kept].T)

    found: np.ndarray = _first(lambda: np.linalg.pinv(matrix, rcond=rcond), slowly, "pseudo-inverse")
    return found


def lstsq(
    matrix: Float[np.ndarray, "m n"], right: Float[np.ndarray, "m *r"], rcond: float
) -> Float[np.ndarray, "n *r"]:
    """The least-squares solution of least norm."""

    def quickly() -> np.ndarray:
        return np.asarray(np.linalg.lstsq(matrix, right, rcond=rcond)[0])

    found: np.ndarray = _first(quickly, lambda: pinv(matrix, rcond) @ right, "least-squares solution")
    return found


def _first(quickly: Callable[[], Any], slowly: Callable[[], Any], what: str) -> Any:
    """The result of the first way, or of the second one if the first one fails."""
    try:
        return quickly()
    except np.linalg.LinAlgError:
        pass
    try:
        return slowly()
    except (np.linalg.LinAlgError, ValueError) as error:  # scipy refuses what is not finite by a ValueError
        raise DivergedError(
            f"required a matrix that has a {what}, received one that has none: it is not finite, or too badly scaled. "
            "Use a larger ridge, standardised data, or other recordings."
        ) from error
