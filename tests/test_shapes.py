"""The checks of annotations that all other tests rely on: that they are made, how often, and where."""

import numpy as np
import pytest
from jaxtyping import Float, TypeCheckError

from psimlearn.filter import Linear, Stack
from shapes import EVERY, FIRST, begin_test, checked


@checked
def doubled(x: Float[np.ndarray, "n 2"]) -> Float[np.ndarray, "n 2"]:
    return 2 * x


def refused(x: np.ndarray) -> bool:
    try:
        doubled(x)
    except TypeCheckError:
        return True
    return False


def test_functions_and_values_of_the_package_are_checked() -> None:
    with pytest.raises(TypeCheckError, match=r"psimlearn\.filter\.features"):
        Stack(2)(np.zeros((3, 2)))
    with pytest.raises(TypeCheckError, match="Linear"):
        Linear(np.zeros(3), np.zeros(3))


def test_the_first_calls_are_checked_and_then_some() -> None:
    wrong = np.zeros((1, 3))
    assert [number for number in range(1, 3 * EVERY + 1) if refused(wrong)] == [
        *range(1, FIRST + 1),
        EVERY,
        2 * EVERY,
        3 * EVERY,
    ]
    assert not refused(np.zeros((1, 2)))


@pytest.mark.parametrize("repeat", range(2))
def test_every_test_counts_from_zero(repeat: int) -> None:
    assert sum(refused(np.zeros(3)) for _ in range(FIRST + 1)) == FIRST


def test_results_are_checked() -> None:
    begin_test()

    @checked
    def shortened(x: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        return x[1:]

    with pytest.raises(TypeCheckError, match="return value"):
        shortened(np.zeros(3))
