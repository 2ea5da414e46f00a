"""The pendulums of the demonstration: their motion and the failures of their sensors, by hand."""

from typing import Any

import numpy as np
import pytest
from scipy.stats import kstest

from psimlearn.serve.demo import Pendulums


class Quiet:
    """Chances of which nothing comes, but for those that a test asks for: the draws of `random`, in their order."""

    def __init__(self, *happens: int) -> None:
        self.happens, self.draws = happens, 0

    def random(self, n: int) -> Any:
        self.draws += 1
        return np.where((np.arange(n) == 0) & (self.draws - 1 in self.happens), 0.0, 1.0)

    def standard_normal(self, shape: Any) -> Any:
        return np.zeros(shape)

    def choice(self, values: list[float], n: int) -> Any:
        return np.full(n, values[1])

    def integers(self, low: int, high: int) -> int:
        return low


def quiet(angle: list[float], speed: list[float], *happens: int) -> Pendulums:
    pendulums = Pendulums(len(angle), np.random.default_rng(0))
    pendulums.rng = Quiet(*happens)  # type: ignore[assignment]
    pendulums.angle, pendulums.speed = np.array(angle), np.array(speed)
    return pendulums


def test_pendulums_begin_anywhere_and_are_seen_with_noise() -> None:
    pendulums = Pendulums(5000, np.random.default_rng(0))
    assert kstest(pendulums.angle, "uniform", (-np.pi, 2 * np.pi)).pvalue > 0.01
    assert kstest(pendulums.speed, "norm").pvalue > 0.01
    x = pendulums.next()
    off = (x - np.column_stack([np.sin(pendulums.angle), np.cos(pendulums.angle)]))[pendulums.stuck == 0]
    assert np.nanstd(off) == pytest.approx(0.3, rel=0.03)


def test_a_pendulum_swings_by_its_equation() -> None:
    """Gravity, a brake beyond a speed of 4, and in the second row, of five draws each, a push of 8."""
    pendulums = quiet([0.5, -1.0], [1.0, -6.0], 5)
    angle, speed = [0.5, -1.0], [1.0, -6.0]
    for t in range(3):
        for i in (0, 1):
            brake = 0.02 * speed[i] if abs(speed[i]) > 4 else 0.0
            pull = -0.6 * np.sin(angle[i])
            speed[i] += pull - brake + (8.0 if (t, i) == (1, 0) else 0.0)
            speed[i] = min(max(speed[i], -9.0), 9.0)
            angle[i] += 0.15 * speed[i]
        x = pendulums.next()
        np.testing.assert_allclose(x, np.column_stack([np.sin(angle), np.cos(angle)]), rtol=0, atol=1e-12)


@pytest.mark.parametrize(("draw", "rows", "sensors"), [(1, 10, [0]), (2, 10, [1]), (3, 8, [0, 1])])
def test_a_sensor_that_fails_is_silent_for_some_rows(draw: int, rows: int, sensors: list[int]) -> None:
    pendulums = quiet([0.5, 0.5], [0.0, 0.0], draw)
    found = np.isnan([pendulums.next() for _ in range(20)])
    expected = np.zeros((20, 2, 2), dtype=bool)
    expected[:rows, 0, sensors] = True
    np.testing.assert_array_equal(found, expected)


def test_a_sine_that_is_stuck_stays_out_of_range_for_forty_rows() -> None:
    pendulums = quiet([-0.5, 0.5], [0.0, 0.0], 4)
    found = np.array([pendulums.next() for _ in range(45)])
    np.testing.assert_array_equal(found[:40, 0, 0], -2.5)
    assert (np.abs(found[40:, 0, 0]) <= 1).all()
    assert (np.abs(found[:, 1]) <= 1).all()
