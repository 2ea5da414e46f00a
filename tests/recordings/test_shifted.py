"""Gram sums that share products: equal to sums over vectors that are written out."""

import numpy as np
import pytest

from psimlearn.recordings.schedule import schedule
from psimlearn.recordings.shifted import Shifts, apart, reaching, shifted_sums

RNG = np.random.default_rng


def written_out(parts: list[np.ndarray], shifts: Shifts) -> np.ndarray:
    """Every vector, row by row."""
    out = []
    for x in parts:
        for t in range(shifts.begin, len(x) - shifts.ending + 1):
            times = range(t + shifts.first, t + shifts.last + 1)
            out.append(np.concatenate([x[max(s, 0)] * (s >= 0 or shifts.repeated) for s in times]))
    return np.array(out)


def test_a_counting_sequence_by_hand() -> None:
    x = np.array([[1.0], [2.0], [3.0]])
    known = apart(x, schedule(np.array([0, 3])), 2)
    assert [product.item() for product in known.products] == [14.0, 8.0, 3.0]
    many, total, gram = shifted_sums(known, Shifts(-1, 0, 0, 1))  # (0, 1), (1, 2), (2, 3)
    assert many == 3
    np.testing.assert_array_equal(total, [3.0, 6.0])
    np.testing.assert_array_equal(gram, [[5.0, 8.0], [8.0, 14.0]])
    _, total, gram = shifted_sums(known, Shifts(-1, 0, 0, 1, repeated=True))  # (1, 1), (1, 2), (2, 3)
    np.testing.assert_array_equal(total, [4.0, 6.0])
    np.testing.assert_array_equal(gram, [[6.0, 9.0], [9.0, 14.0]])


@pytest.mark.parametrize("lengths", [[20, 20, 20], [9, 12, 7, 30], [6, 6, 40], [6]])
@pytest.mark.parametrize(
    "shifts",
    [
        Shifts(-10, 4, 1, 5),  # a history before a window
        Shifts(-9, 5, 0, 6, repeated=True),  # lags, and the next window
        Shifts(-3, 2, 3, 3),  # past and future within a recording
        Shifts(1, 2, 0, 3),
        Shifts(0, 0, 0, 1),
        Shifts(-2, -1, 2, 1, repeated=True),
    ],
)
def test_sums_equal_those_of_vectors_written_out(lengths: list[int], shifts: Shifts) -> None:
    parts = [RNG(0).standard_normal((length, 3)) + i for i, length in enumerate(lengths)]
    plan = schedule(np.concatenate([[0], np.cumsum(lengths)]))
    known = reaching(apart(np.concatenate(parts)[plan.order], plan, 3), 14)
    vectors = written_out(parts, shifts)
    many, total, gram = shifted_sums(known, shifts)
    assert many == len(vectors)
    scale = np.abs(vectors.T @ vectors).max()
    np.testing.assert_allclose(total, vectors.sum(axis=0), rtol=0, atol=1e-12 * scale)
    np.testing.assert_allclose(gram, vectors.T @ vectors, rtol=0, atol=1e-12 * scale)
    np.testing.assert_array_equal(gram, gram.T)
