"""Factorisations where LAPACK's quick routines give up: the slower way has the same properties, by numpy's products."""

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import psimlearn
from psimlearn import factors
from psimlearn.errors import DivergedError

RNG = np.random.default_rng


def gives_up(*_: Any, **__: Any) -> None:
    """As gesdd on some finite matrices."""
    raise np.linalg.LinAlgError("SVD did not converge")


@pytest.fixture(params=["quick", "slow"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "slow":
        for name in ("svd", "eigh", "cholesky", "solve", "inv", "pinv", "lstsq"):
            monkeypatch.setattr(np.linalg, name, gives_up)
        quick, calls = np.linalg.eigvals, list[int]()

        def first_gives_up(matrix: np.ndarray) -> Any:
            calls.append(1)
            return gives_up() if len(calls) == 1 else quick(matrix)

        monkeypatch.setattr(np.linalg, "eigvals", first_gives_up)
    return str(request.param)


def covariance(s: int = 6, seed: int = 0) -> np.ndarray:
    root = RNG(seed).standard_normal((s, 3 * s))
    return np.asarray(root @ root.T)


@pytest.mark.parametrize("shape", [(5, 5), (7, 4), (4, 7)])
def test_singular_values_multiply_back(shape: tuple[int, int], way: str) -> None:
    M = RNG(1).standard_normal(shape)
    U, values, V = factors.svd(M)
    np.testing.assert_allclose((U * values) @ V, M, atol=1e-13)
    np.testing.assert_allclose(U.T @ U, np.eye(min(shape)), atol=1e-13)
    assert np.all(np.diff(values) <= 0)


@pytest.mark.parametrize("stack", [(), (3,), (2, 2)])
def test_eigenvectors_of_stacks_multiply_back(stack: tuple[int, ...], way: str) -> None:
    A = RNG(2).standard_normal((*stack, 5, 5))
    A = A + A.swapaxes(-1, -2)
    values, vectors = factors.eigh(A)
    assert values.shape == (*stack, 5)
    np.testing.assert_allclose((vectors * values[..., None, :]) @ vectors.swapaxes(-1, -2), A, atol=1e-13)
    assert np.all(np.diff(values, axis=-1) >= 0)


def test_the_largest_eigenvalues_are_those_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    A = covariance()
    every = np.linalg.eigvalsh(A)
    for _ in range(2):
        values, vectors = factors.eigh(A, 4)
        np.testing.assert_allclose(values, every[4:], rtol=1e-12)
        np.testing.assert_allclose(A @ vectors, vectors * values, atol=1e-11)
        monkeypatch.setattr("scipy.linalg.eigh", quietly_refusing_parts(__import__("scipy.linalg").linalg.eigh))


def quietly_refusing_parts(quick: Callable[..., Any]) -> Callable[..., Any]:
    def eigh(*given: Any, **how: Any) -> Any:
        return gives_up() if "subset_by_index" in how else quick(*given, **how)

    return eigh


def test_systems_are_solved(way: str) -> None:
    A, b = covariance(), RNG(3).standard_normal((6, 2))
    np.testing.assert_allclose(A @ factors.solve(A, b), b, atol=1e-11)
    np.testing.assert_allclose(A @ factors.solve(A, b[:, 0]), b[:, 0], atol=1e-11)
    np.testing.assert_allclose(A @ factors.inv(A), np.eye(6), atol=1e-11)
    tall, right = RNG(4).standard_normal((9, 3)), RNG(5).standard_normal((9, 2))
    normal = tall.T @ (tall @ factors.lstsq(tall, right, 1e-12) - right)  # of least squares, zero
    np.testing.assert_allclose(normal, 0, atol=1e-12)
    np.testing.assert_allclose(factors.pinv(tall) @ tall, np.eye(3), atol=1e-13)


def test_a_singular_system_has_the_solution_of_least_norm() -> None:
    A, b = np.diag([2.0, 0.0, 4.0]), np.array([1.0, 0.0, 1.0])
    np.testing.assert_allclose(factors.solve(A, b), [0.5, 0, 0.25], atol=1e-15)
    np.testing.assert_allclose(factors.inv(A), np.diag([0.5, 0, 0.25]), atol=1e-15)


def test_roots_multiply_back(way: str) -> None:
    A = covariance()
    root = factors.cholesky(A)
    np.testing.assert_allclose(root @ root.T, A, atol=1e-12)
    assert not np.triu(root, 1).any()
    assert np.all(np.diag(root) > 0)


def test_a_covariance_that_rounding_made_negative_has_a_root() -> None:
    """One direction has no variance, and rounding says -1e-16: the root is that of the covariance without it."""
    A = np.array([[1.0, 1.0], [1.0, 1.0 - 1e-15]])
    with pytest.raises(np.linalg.LinAlgError):
        np.linalg.cholesky(A)
    root = factors.cholesky(A)
    np.testing.assert_allclose(root @ root.T, A, atol=1e-14)
    assert np.isfinite(np.linalg.solve(root, np.eye(2))).all()


def test_eigenvalues_of_any_matrix(way: str) -> None:
    A = RNG(6).standard_normal((5, 5))
    found = np.sort_complex(factors.eigvals(A))
    np.testing.assert_allclose(np.prod(found), np.linalg.det(A), rtol=1e-12)
    np.testing.assert_allclose(np.sum(found), np.trace(A), rtol=1e-12)


def test_schur_forms_multiply_back(monkeypatch: pytest.MonkeyPatch) -> None:
    import scipy.linalg

    A, quick, calls = RNG(7).standard_normal((6, 6)), scipy.linalg.schur, list[int]()

    def first_gives_up(*given: Any, **how: Any) -> Any:
        calls.append(1)
        return gives_up() if len(calls) == 1 else quick(*given, **how)

    monkeypatch.setattr(scipy.linalg, "schur", first_gives_up)
    for _ in range(2):
        T, Z = factors.schur(A)
        np.testing.assert_allclose(Z @ T @ Z.T, A, atol=1e-13)
        np.testing.assert_allclose(Z.T @ Z, np.eye(6), atol=1e-13)
        assert not np.tril(T, -2).any()
        pairs = np.diag(T, -1) != 0
        assert not (pairs[1:] & pairs[:-1]).any()  # blocks of one or two


@pytest.mark.parametrize("name", ["svd", "eigh", "eigvals", "schur"])
def test_what_is_not_finite_diverged(name: str) -> None:
    with pytest.raises(DivergedError, match="not finite"):
        getattr(factors, name)(np.full((3, 3), np.nan))


GUARDED = {
    ("learners/ridge.py", "cholesky"),  # its failure is the answer: sums that are not positive definite
    ("learners/ridge.py", "solve"),  # in the same guard
    ("learners/ridge.py", "inv"),  # in the same guard
    ("learners/channels.py", "solve"),  # guarded by ridge.py, which goes on by eigenvectors
    ("train/systems.py", "cholesky"),  # its failure is the answer: a doubtful Riccati solution
    ("train/systems.py", "solve"),  # in the same guard
}
"""Factorisations that say something by failing."""


def test_every_factorisation_of_a_fit_has_a_second_way() -> None:
    """In the rooms that train and choose, numpy's and scipy's own routines stand in `factors.py` only."""
    source = Path(psimlearn.__file__).parent
    found = set[tuple[str, str]]()
    for room in ("choose", "estimator", "evaluate", "learners", "train"):
        for path in (source / room).glob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                words = ast.unparse(node.func).rsplit(".", 1) if isinstance(node, ast.Call) else [""]
                if words[0] in ("np.linalg", "numpy.linalg", "scipy.linalg") and words[-1] in factors.__all__:
                    found.add((f"{room}/{path.name}", words[-1]))
    assert found - GUARDED == set()
