"""Units of channels by hand: constant, extreme, unobserved."""

import numpy as np
import pytest

from psimlearn.errors import DataError
from psimlearn.filter.scaling import standardisation

NAN = np.nan


def test_means_and_deviations_of_what_was_observed() -> None:
    mean, scale = standardisation(np.array([[1.0, 10.0], [3.0, NAN], [5.0, 30.0]]))
    np.testing.assert_allclose(mean, [3, 20])
    np.testing.assert_allclose(scale, [np.sqrt(8 / 3), 10])
    np.testing.assert_array_equal(standardisation(np.array([[1.0, 10.0]]), wanted=False), [[0, 0], [1, 1]])


def test_a_constant_channel_keeps_its_unit() -> None:
    scaling = standardisation(np.full((4, 1), 7.3))
    assert (scaling.mean[0], scaling.scale[0]) == (7.3, 1.0)
    rounded = standardisation(1e9 + np.array([[0.0], [1e-7], [0.0]]))  # moved by rounding only: measured by its size
    assert rounded.scale[0] == pytest.approx(1e9)


@pytest.mark.parametrize("unit", [1e-300, 1e-150, 1.0, 1e150])
def test_extreme_units_neither_overflow_nor_vanish(unit: float) -> None:
    x = np.random.default_rng(0).standard_normal((50, 2))
    scaling = standardisation(unit * x)
    np.testing.assert_allclose(scaling(unit * x), (x - x.mean(axis=0)) / x.std(axis=0), rtol=1e-9)
    np.testing.assert_allclose(scaling.undo(scaling(unit * x)), unit * x, rtol=1e-9, atol=1e-9 * unit)


def test_a_channel_that_was_never_observed_is_refused() -> None:
    with pytest.raises(DataError, match="channel 1: required at least one observed value"):
        standardisation(np.array([[1.0, NAN], [2.0, NAN]]))


def test_one_unit_for_all_channels_is_their_root_mean_square() -> None:
    x = np.random.default_rng(0).standard_normal((50, 3)) * [3.0, 4.0, 0.0] + [1.0, 2.0, 7.0]
    common = standardisation(x, one_unit=True)
    np.testing.assert_allclose(common.mean, x.mean(axis=0))
    expected = np.sqrt(x[:, :2].var(axis=0).mean())
    np.testing.assert_allclose(common.scale, [expected, expected, 1.0])  # a constant channel keeps its unit
    assert np.isfinite(standardisation(1e200 * x, one_unit=True).scale).all()
    np.testing.assert_array_equal(standardisation(x[:, 2:], one_unit=True).scale, [1.0])
