"""Live rows with times: rows that were missed are rows that were not observed, and another rate is told or refused."""

import copy
import pickle
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from psimlearn.errors import DataError, PsimlearnWarning, SettingsError
from psimlearn.estimator.psim import PSIM
from psimlearn.filter import Filter, Stack
from psimlearn.filter.live import Live
from psimlearn.recordings.trajectories import Trajectories
from random_filters import RNG, WINDOW, N, made

TIMES = [0.0, 0.06, 0.1, 0.31, 0.35]
"""In steps of 50 ms: rows 0, 1, 2, 6 and 7, with a little jitter."""
ROWS = np.array([0, 1, 2, 6, 7])


def filter_with(inputs: str, kind: str = "linear") -> Filter:
    return replace(made(kind, Stack(WINDOW), inputs, 2, "mean", False, False, 3), time_step=0.05)


@pytest.mark.parametrize("kind", ["linear", "waves", "black box"])
@pytest.mark.parametrize(
    ("inputs", "told"), [("none", False), ("inputs", False), ("feedthrough", False), ("feedthrough", True)]
)
def test_a_hole_in_time_is_as_rows_that_were_not_observed(inputs: str, told: bool, kind: str) -> None:
    """Against whole recordings, with NaN rows in which inputs stay as they were."""
    filter, x, u = filter_with(inputs, kind), RNG(0).standard_normal((5, N)), RNG(1).standard_normal((5, 1))
    values, held = np.full((8, N), np.nan), np.repeat(u, np.diff([*ROWS, 8]), axis=0)
    values[ROWS] = x
    live = Live(filter)
    for i, time in enumerate(TIMES):
        # without next_u, the filter is told at the next row, here a row that was missed: inputs stay
        following = None if inputs != "feedthrough" or not told else held[ROWS[i] + 1 : ROWS[i] + 2].reshape(-1)
        following = None if following is None or not len(following) else following
        live.update(x[i], None if inputs == "none" else u[i], following, time=time)
        assert live.missed == (3 if i == 3 else 0)
    data = Trajectories.of([values], None if inputs == "none" else [held])
    state = filter.run(data)[1]
    np.testing.assert_allclose(live.belief, state.belief[0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(live.log_likelihood, filter.log_likelihood(data)[-1], rtol=0, atol=1e-12)


def test_inputs_that_were_told_act_at_rows_that_were_missed() -> None:
    """With feed-through, next_u is known to act at the next row, whether that row arrives or not."""
    filter, x, u = filter_with("feedthrough"), RNG(0).standard_normal((2, N)), RNG(1).standard_normal((3, 1))
    live, by_hand = Live(filter), Live(filter)
    live.update(x[0], u[0], u[1], time=0.0)
    live.update(x[1], u[2], time=0.15)
    by_hand.update(x[0], u[0], u[1])
    by_hand.update(None, u[1], u[1])
    by_hand.update(None, u[1], u[2])
    by_hand.update(x[1], u[2])
    np.testing.assert_allclose(live.belief, by_hand.belief, rtol=0, atol=1e-13)


@pytest.mark.parametrize(
    ("time", "x", "message"),
    [
        (0.11, [1.0, 2.0], "required a row every 50 ms, received one 10 ms after the last"),
        (0.05, [1.0, 2.0], "required times that rise, received a row 50 ms before the last one"),
        (999999999, [1.0, 2.0], "required at most 1000 missed rows of 50 ms"),
        ("2024-01-01", [1.0, 2.0], "required numbers as before"),
        ("soon", [1.0, 2.0], "required a time as a number or in ISO 8601"),
        (0.3, [np.inf, 2.0], "x, stream 0"),  # after a hole
        (0.15, [np.inf, 2.0], "x, stream 0"),
    ],
)
def test_a_refused_row_changes_nothing(time: Any, x: Any, message: str) -> None:
    live, other = Live(filter_with("none")), Live(filter_with("none"))
    for each in (live, other):
        for i in range(3):
            each.update([i, -i], time=0.05 * i)
    with pytest.raises(DataError, match=message):
        live.update(x, time=time)
    for each in (live, other):
        each.update([0.5, 0.5], time=0.2)
    assert live.missed == other.missed == 1
    np.testing.assert_array_equal(live.belief, other.belief)


def test_rows_at_half_the_rate_are_told() -> None:
    live = Live(filter_with("none"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for i in range(10):
            live.update([0.0, 0.0], time=0.1 * i)
    with pytest.warns(PsimlearnWarning, match=r"at least one was missed: required a row every 50 ms.*resample"):
        live.update([0.0, 0.0], time=1.0)


def test_a_filter_that_does_not_know_its_step_takes_no_times() -> None:
    with pytest.raises(SettingsError, match=r"time: required a filter that knows the step.*step=\.\."):
        Live(replace(filter_with("none"), time_step=None)).update([0.0, 0.0], time=1.0)


def test_a_row_without_a_time_counts_as_the_next() -> None:
    live = Live(filter_with("none"))
    live.update([0.0, 0.0])
    live.update([0.0, 0.0], time="2024-01-01T00:00:00")
    live.update(None)
    live.update([0.0, 0.0], time="2024-01-01T00:00:00.100")
    assert (live.missed, live.state.clock[0]) == (0, 4)


@pytest.mark.parametrize("again", [Live.copy, copy.copy, lambda live: pickle.loads(pickle.dumps(live))])
def test_times_go_on_in_copies_and_begin_again_after_a_reset(again: Any) -> None:
    live = Live(filter_with("none"), n_streams=3)
    x = np.zeros((3, N))
    live.update(x, time=0)
    live.update(x, time=0.05)
    live.reset(1)  # the others go on
    twin = again(live)
    twin.update(x, time=0.2)
    np.testing.assert_array_equal(twin.state.clock, [5, 3, 5])
    live.update(x, time=0.1)
    np.testing.assert_array_equal(live.state.clock, [3, 1, 3])
    live.reset()
    live.update(x, time=0.0)
    np.testing.assert_array_equal(live.state.clock, [1, 1, 1])


def test_symbols_have_times_too() -> None:
    data = replace(Trajectories.of_symbols([list("abab"), list("abba")] * 6), step=1.0)
    model = PSIM(2, features="onehot", n_rounds=1, random_state=0).fit(data)
    timed, by_hand = model.start(), model.start()
    timed.update("a", time=0)
    timed.update("b", time=2)
    for symbol in ("a", None, "b"):
        by_hand.update(symbol)
    np.testing.assert_array_equal(timed.belief, by_hand.belief)
