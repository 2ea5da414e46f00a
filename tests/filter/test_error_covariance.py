"""The covariance of one-step errors, told apart from the covariance that gaps add."""

import numpy as np
import pytest

from psimlearn.filter.gaps import error_covariance

RNG = np.random.default_rng
V = np.array([[1.0, -0.6], [-0.6, 0.8]])


def drawn(rows: int, missing: float) -> tuple[np.ndarray, np.ndarray]:
    """Errors with the covariance V and, in two of three rows, that of a gap beside it; entries are missing."""
    rng = RNG(0)
    roots = rng.standard_normal((rows, 2, 1)) * (np.arange(rows) % 3)[:, None, None]
    doubt = roots @ roots.swapaxes(1, 2)
    e = rng.standard_normal((rows, 2)) @ np.linalg.cholesky(V).T + roots[:, :, 0] * rng.standard_normal((rows, 1))
    e[rng.random(e.shape) < missing] = np.nan
    return e, doubt


def test_without_doubt_it_is_the_second_moment() -> None:
    e, _ = drawn(500, 0.0)
    moments = e.T @ e / len(e)
    shrunk = moments * len(e) ** 2 / (len(e) ** 2 + 4)
    np.fill_diagonal(shrunk, np.diag(moments))
    np.testing.assert_allclose(error_covariance(e), shrunk, rtol=1e-12)
    nothing = np.zeros((500, 2, 2))
    np.testing.assert_allclose(error_covariance(e, nothing, 3 * V), shrunk, rtol=1e-9)


@pytest.mark.parametrize("missing", [0.0, 0.5])
@pytest.mark.parametrize("wrong", [0.2, 1.0, 5.0])
def test_a_claim_that_is_wrong_by_a_factor_is_put_right_at_once(wrong: float, missing: float) -> None:
    """Doubt that was computed from the claim is wrong by the same factor. Taken off, it would leave next to nothing."""
    e, doubt = drawn(40_000, missing)
    found = error_covariance(e, wrong * doubt, wrong * V)
    np.testing.assert_allclose(found, V, rtol=0, atol=0.05)
    assert error_covariance(e)[0, 0] > 2 * V[0, 0]  # what gaps add is no part of it


def test_a_claim_of_another_shape_is_put_right_in_turn() -> None:
    e, doubt = drawn(40_000, 0.3)
    claimed = np.diag([3.0, 0.1])
    for _ in range(10):
        claimed = error_covariance(e, doubt, claimed)
        assert np.linalg.eigvalsh(claimed).min() > 0.05
    np.testing.assert_allclose(claimed, V, rtol=0, atol=0.08)


def test_a_channel_that_was_never_seen_does_no_harm() -> None:
    e, doubt = drawn(300, 0.0)
    e[:, 1] = np.nan
    found = error_covariance(e, doubt, V)
    np.linalg.cholesky(found)
    assert found[0, 0] == pytest.approx(V[0, 0], rel=0.2)
