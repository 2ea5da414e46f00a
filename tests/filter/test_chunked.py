"""Long recordings, rolled in chunks at once, against rows one after the other and against scipy's recursive filter."""

from unittest.mock import patch

import numpy as np
import pytest
from scipy.signal import lfilter

from psimlearn.filter import Feedback, Filter, Linear, Scaling, Stack
from psimlearn.filter.chunked import chunk_length, roll_in_chunks
from psimlearn.filter.folded import fold
from psimlearn.filter.patterns import Patterns
from psimlearn.filter.rollout import rolled, table
from psimlearn.recordings.trajectories import Trajectories
from random_filters import RNG, WINDOW, N, made, one_by_one


def test_covariances_are_computed_once_for_each_pattern_and_may_be_forgotten() -> None:
    filter = made("linear", Stack(WINDOW), "none", 1, "mean", False, True, 0)
    values = RNG(0).standard_normal((2000, N))
    values[100::100, 0] = np.nan  # nineteen gaps alike
    values[1950, 1] = np.nan
    data, sizes = Trajectories.of(values), []
    with patch.object(Patterns, "_make", autospec=True, side_effect=Patterns._make) as made_new:
        expected = filter.run(data)[0]
        for call in made_new.call_args_list:
            sizes.append(len(call.args[1]))
    np.testing.assert_allclose(expected, one_by_one(filter, data), rtol=0, atol=1e-10)
    of_a_gap = sum(sizes) / 2  # two patterns
    assert 3 < of_a_gap < 60
    with patch("psimlearn.filter.patterns.MOST_NUMBERS", 1):
        np.testing.assert_allclose(filter.run(data)[0], expected, rtol=0, atol=1e-12)


def scalar(keep: float, box: float | None = None) -> Filter:
    """m_{t+1} = keep m_t + x_t, of one channel."""
    bounds = (None, None) if box is None else (np.array([-box]), np.array([box]))
    return Filter(
        features=Stack(1),
        regressors=(Linear(np.array([[keep], [1.0]]), np.zeros(1)),),
        initial=np.array([3.0]),
        scaling=Scaling(np.zeros(1), np.ones(1)),
        feedback=Feedback(np.zeros(1), np.ones(1), 1.0, None, *bounds),
        centre=np.zeros(1),
        covariance=np.eye(1),
    )


@pytest.mark.parametrize("keep", [0.5, 0.99, 0.9999, 1.0])
def test_a_scalar_filter_equals_scipys_however_slowly_it_forgets(keep: float) -> None:
    x = RNG(0).standard_normal((5000, 1))
    filter, data = scalar(keep), Trajectories.of(x)
    expected, _ = lfilter([1.0], [1.0, -keep], x[:, 0], zi=[keep * 3.0])
    laid_out = table(filter, data)
    assert roll_in_chunks(fold(filter), laid_out.z, laid_out.layout.plan, 100)
    np.testing.assert_allclose(rolled(filter, data).beliefs[:, 0], expected, rtol=1e-11, atol=1e-10)


@pytest.mark.parametrize("box", [None, 2.0])
def test_filters_that_diverge_fall_back_to_one_row_after_the_other(box: float | None) -> None:
    x = RNG(0).standard_normal((2000, 1))
    filter, data = scalar(-2.0, box), Trajectories.of(x)
    laid_out = table(filter, data)
    with np.errstate(over="ignore", invalid="ignore"):
        agrees = roll_in_chunks(fold(filter), laid_out.z, laid_out.layout.plan, 100)
        assert agrees is (box is not None)  # a box forgets: what is clipped is the same from any state
        np.testing.assert_allclose(filter.run(data)[0], one_by_one(filter, data), rtol=1e-10, atol=1e-10)


def test_many_or_short_recordings_are_not_cut() -> None:
    filter = scalar(0.5)
    for lengths in ([500], [300] * 40, [1000] * 300):
        data = Trajectories.of([np.zeros((length, 1)) for length in lengths])
        assert chunk_length(table(filter, data).layout.plan) is None
