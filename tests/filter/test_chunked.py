"""Long recordings, rolled in chunks at once, against rows one after the other and against scipy's recursive filter."""

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from scipy.signal import lfilter

from oracles import ragged
from psimlearn.filter import Feedback, Filter, Linear, Scaling, Stack
from psimlearn.filter.chunked import chunk_length, roll_in_chunks
from psimlearn.filter.folded import fold
from psimlearn.filter.gapped import LEAST_CHUNK
from psimlearn.filter.likelihood import about_row
from psimlearn.filter.patterns import Patterns
from psimlearn.filter.rollout import rolled, table
from psimlearn.recordings.trajectories import Trajectories
from random_filters import RNG, WINDOW, N, made, one_by_one

SETTINGS = [
    ("linear", "none", 1, "mean", False, False),
    ("linear", "feedthrough", 3, "last", True, True),
    ("linear", "inputs", 1, "last", False, True),
    ("waves", "none", 3, "mean", True, True),
    ("waves and raw", "feedthrough", 1, "last", False, False),
]
"""Kind, inputs, lags, prior, rank and box: each value twice or more."""


def drawn(lengths: list[int], inputs: str, seed: int) -> Trajectories:
    data = ragged(lengths, N, RNG(seed), 0.0)
    return data if inputs == "none" else replace(data, inputs=RNG(seed + 1).standard_normal((len(data.values), 1)))


@pytest.mark.parametrize("lengths", [[700], [600, 3, 550]])
@pytest.mark.parametrize("setting", range(len(SETTINGS)))
def test_long_recordings_take_the_steps_of_the_textbook(setting: int, lengths: list[int]) -> None:
    kind, inputs, lags, prior, rank, box = SETTINGS[setting]
    filter = made(kind, Stack(WINDOW), inputs, lags, prior, rank, box, setting)
    low, high = filter.feedback.low, filter.feedback.high
    if low is not None and high is not None:
        filter = replace(filter, feedback=filter.feedback._replace(low=4 * low, high=4 * high))
    data = drawn(lengths, inputs, setting)
    plan = table(filter, data).layout.plan
    assert chunk_length(plan) is not None  # so that `run` cuts them
    np.testing.assert_allclose(filter.run(data)[0], one_by_one(filter, data), rtol=0, atol=1e-10)
    if low is not None and high is not None:
        fed = rolled(filter, data).z[:, : len(low)]
        assert 0.02 < ((fed <= 4 * low) | (fed >= 4 * high)).mean() < 0.98  # the box clips some of it, not all


def gappy(data: Trajectories, seed: int) -> Trajectories:
    """Entries missing here and there, a sensor out for a while, and rows that did not come.

    The sensor is out for 12 rows: in a longer gap some of these random filters enlarge rounding in any runner.
    """
    values = data.values.copy()
    values[RNG(seed).random(values.shape) < 0.01] = np.nan
    values[300:312, 0] = np.nan
    values[[0, 511, 512, 513]] = np.nan
    return replace(data, values=values)


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


@pytest.mark.parametrize("setting", range(len(SETTINGS)))
def test_long_recordings_with_gaps_take_the_steps_of_the_textbook(setting: int) -> None:
    lengths = [[1100], [1100, 3, 900]][setting % 2]
    kind, inputs, lags, prior, rank, box = SETTINGS[setting]
    filter = made(kind, Stack(WINDOW), inputs, lags, prior, rank, box, setting)
    data = gappy(drawn(lengths, inputs, setting), setting)
    assert chunk_length(table(filter, data).layout.plan, LEAST_CHUNK) is not None
    before, after = filter.run(data)
    np.testing.assert_allclose(before, one_by_one(filter, data), rtol=0, atol=1e-10)
    with pytest.MonkeyPatch.context() as patch:
        whole = rolled(filter, data, about_row)
        patch.setattr("psimlearn.filter.gapped.chunk_length", lambda plan, least: None)
        in_turn, state = rolled(filter, data, about_row), filter.run(data)[1]
    for parts in ((whole.z, in_turn.z), (whole.x, in_turn.x), (whole.read, in_turn.read), (after.belief, state.belief)):
        a, b = (np.asarray(part) for part in parts)
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-10)
    doubts = [np.zeros(1) if held.doubt is None else held.doubt.by_stream(held.doubt.spread) for held in (after, state)]
    np.testing.assert_allclose(doubts[0], doubts[1], rtol=0, atol=1e-10)


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


@pytest.mark.parametrize("box", [False, True])
@pytest.mark.parametrize("rank", [False, True])
def test_filters_without_feedback_take_the_steps_of_the_textbook(rank: bool, box: bool) -> None:
    filter = made("linear", Stack(WINDOW), "inputs", 3, "last", rank, box, 7)
    filter, data = replace(filter, feedback=filter.feedback.weighted(0.0)), drawn([700, 30, 1], "inputs", 7)
    np.testing.assert_allclose(filter.run(data)[0], one_by_one(filter, data), rtol=0, atol=1e-10)


def test_many_or_short_recordings_are_not_cut() -> None:
    filter = scalar(0.5)
    for lengths in ([500], [300] * 40, [1000] * 300):
        data = Trajectories.of([np.zeros((length, 1)) for length in lengths])
        assert chunk_length(table(filter, data).layout.plan) is None
