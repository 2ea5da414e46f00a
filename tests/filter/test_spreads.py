"""Square roots of covariances: maps that mostly pick coordinates, and streams that share a gain."""

import numpy as np

from psimlearn.filter.doubt import Given
from psimlearn.filter.spreads import Roots

RNG = np.random.default_rng


def test_rows_of_a_map_that_pick_coordinates_are_products_too() -> None:
    rng = RNG(0)
    T = np.concatenate([rng.standard_normal((3, 8)), np.eye(4, 8, 2), 2 * np.eye(1, 8), np.zeros((1, 8))])
    left = rng.standard_normal((2, 8, 5))
    R = Roots().moved(left, T, 0.0)
    np.testing.assert_allclose(R @ R.swapaxes(1, 2), T @ left @ left.swapaxes(1, 2) @ T.T, rtol=0, atol=1e-12)
    each = Roots().moved(left, np.stack([T, T]), 0.0)  # a map for each group
    np.testing.assert_allclose(each @ each.swapaxes(1, 2), R @ R.swapaxes(1, 2), rtol=0, atol=1e-12)


def test_streams_of_a_group_move_by_the_same_gain() -> None:
    rng = RNG(1)
    b, n, joint = 5, 2, 6
    group, gain = np.array([0, 1, -1, 1, 0]), rng.standard_normal((2, joint, n))
    mean, x = rng.standard_normal((b, joint)), rng.standard_normal((b, n))
    seen = rng.random((b, n)) < 0.5
    moved = Given(group, np.array([0, 1]), gain, np.empty((2, joint, 0))).updated(mean, x, seen)
    for i, g in enumerate(group):
        innovation = np.where(seen[i], x[i] - mean[i, -n:], 0.0)
        expected = mean[i] + (gain[g] @ innovation if g >= 0 else 0.0)
        expected[-n:] = np.where(seen[i], x[i], expected[-n:])
        np.testing.assert_allclose(moved[i], expected, rtol=0, atol=1e-12)
