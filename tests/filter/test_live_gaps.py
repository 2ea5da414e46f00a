"""Live streams with gaps say what whole recordings say, whenever they start again, are copied or pickled."""

import copy
import pickle
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from psimlearn.filter import Filter, Linear, RandomFourier, Stack
from psimlearn.filter.live import Live
from psimlearn.filter.predict import foretold
from psimlearn.filter.tabulate import answers_to
from psimlearn.filter.uncertainty import LEVELS, Calibration, Starting
from psimlearn.recordings.trajectories import Trajectories
from random_filters import RNG, WINDOW, N, drawn, made

CLOSE, HORIZON, AGES = 1e-10, 6, 3
SETTINGS = [
    ("linear", "none", 1, "mean", False, False),
    ("linear", "inputs", 3, "last", True, False),
    ("linear", "feedthrough", 3, "mean", False, True),
    ("linear", "feedthrough", 1, "last", True, False),
    ("waves", "none", 3, "last", False, False),
    ("waves and raw", "inputs", 1, "mean", True, False),
    ("waves and raw", "feedthrough", 3, "last", False, True),
]
"""Kind, inputs, lags, prior, rank and box."""


def calibrated(settings: tuple[Any, ...]) -> Filter:
    """A random filter with hints and random calibrations, for fewer steps than are asked for, and of first rows."""
    kind, inputs, lags, prior, rank, box = settings
    filter, rng = made(kind, Stack(WINDOW), inputs, lags, prior, rank, box, 11), RNG(5)
    beside = lags * N + {"none": 0, "inputs": 1, "feedthrough": 2}[inputs]

    def calibration(horizon: int) -> Calibration:
        shape = (horizon, N)
        quantiles = np.sort(rng.uniform(0, 3, (len(LEVELS), *shape)), axis=0)
        return Calibration(np.sort(rng.uniform(0.5, 2.0, shape), axis=0), np.zeros(shape), quantiles)

    ratio, quantiles = rng.uniform(0.5, 4.0, (AGES, 2, N)), np.sort(rng.uniform(0, 3, (len(LEVELS), AGES, N)), axis=0)
    return replace(
        filter,
        calibration=calibration(HORIZON - 2),
        calibration_blind=calibration(WINDOW) if inputs != "none" else None,
        calibration_next=calibration(WINDOW) if inputs == "feedthrough" else None,
        starting=Starting(ratio, quantiles, 3 * filter.covariance),
        hinting=Linear(rng.standard_normal((len(filter.initial) + beside, 3)), rng.standard_normal(3)),
    )


class Batch:
    """All that a filter says of whole recordings, by row."""

    def __init__(self, filter: Filter, data: Trajectories) -> None:
        ahead = foretold(filter, data, HORIZON)
        self.mean, self.std, self.interval = ahead.mean, ahead.std, ahead.interval(0.9)
        self.nats, self.hints = filter.log_likelihood(data), filter.hints(data)
        self.answers = answers_to(filter, data, WINDOW)
        self.before = filter.run(data)[0]


def close(a: Any, b: Any) -> None:
    np.testing.assert_allclose(a, b, rtol=0, atol=CLOSE)


def rows(data: Trajectories, rng: np.random.Generator) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """The packed rows of a bank, one recording a stream, the coming rows of each, and the streams that then restart.

    Streams restart when their recording is over, and now and then in the middle of it.
    """
    clock, last = np.zeros(len(data), dtype=int), data.lengths - 1
    for _ in range(2 * int(data.lengths.max())):
        steps = np.minimum(clock[:, None] + np.arange(HORIZON + 1), last[:, None])
        ended = (clock == last) | (rng.random(len(data)) < 0.1)
        yield data.offsets[:-1] + clock, data.offsets[:-1, None] + steps, ended
        clock = np.where(ended, 0, clock + 1)


def hold(bank: Live, data: Trajectories, batch: Batch, pause: Callable[[Live], Live] = lambda live: live) -> int:
    """Hold a bank to the batch at every row; returns at how many rows something was in doubt."""
    filter, in_doubt, u = bank.filter, 0, data.inputs
    for now, coming, ended in rows(data, RNG(2)):
        known = {} if u is None else {"future_inputs": u[coming[:, :HORIZON]]}
        mean, std = bank.forecast(HORIZON, return_std=True, **known)
        close(mean, batch.mean[now])
        close(std, batch.std[now])
        close(bank.forecast(HORIZON, coverage=0.9, **known)[1:], [bound[now] for bound in batch.interval])
        expected, first = bank.predict(1, return_std=True, **({} if u is None else {"future_inputs": u[now][:, None]}))
        close(np.concatenate([expected, first], axis=1), batch.answers[now, 1 : 1 + 2 * N])
        blind = bank.copy()
        inputs = () if u is None else (u[now], u[coming[:, 1]])
        blind.update(data.values[now], *inputs[:1])  # the next inputs are not known
        mean, std = blind.forecast(WINDOW, return_std=True)
        ahead = batch.answers[now, 1 + 2 * N :].reshape(len(data), WINDOW, 2, N)
        close(mean, ahead[:, :, 0])
        # the slope of random features, and so the doubt, depends on the next inputs, which whole recordings know
        loose = 0.1 if filter.feedthrough and isinstance(filter.regressors[0], RandomFourier) else 0.0
        np.testing.assert_allclose(std, ahead[:, :, 1], rtol=loose, atol=CLOSE)
        bank = pause(bank)
        bank.update(data.values[now], *inputs)
        in_doubt += bank.doubt is not None
        close(bank.log_likelihood, batch.nats[now])
        close(bank.log_likelihood, batch.answers[now, 0])
        close(bank.hints, batch.hints[now])
        inside = coming[:, 1] > now
        close(bank.belief[inside], batch.before[coming[:, 1]][inside])
        bank = pause(bank)
        bank.reset(ended)
    return in_doubt


@pytest.mark.parametrize("settings", SETTINGS[::3], ids=str)
@pytest.mark.parametrize("gaps", ["exact", "filled"])
def test_copies_and_pickles_in_the_middle_of_a_gap_go_on_alike(settings: tuple[Any, ...], gaps: Any) -> None:
    filter, data, turn = replace(calibrated(settings), gaps=gaps), drawn(True, settings[1], 4), [0]

    def pause(live: Live) -> Live:
        """Go on with a twin, or with the original while a twin takes other rows."""
        turn[0] += 1
        twins: list[Callable[[Live], Live]] = [copy.copy, copy.deepcopy, lambda live: pickle.loads(pickle.dumps(live))]
        twin = twins[turn[0] % 3](live)
        left, taken = (live, twin) if turn[0] % 2 else (twin, live)
        other = np.full((len(data), N), 7.0)
        other[0], other[1, 0] = np.nan, np.nan
        for _ in range(2):
            left.update(other, *(() if data.inputs is None else (np.ones((len(data), 1)),)))
        left.reset([1])
        return taken

    in_doubt = hold(Live(filter, len(data)), data, Batch(filter, data), pause)
    assert in_doubt > 5 if gaps == "exact" else in_doubt == 0


def test_a_stream_with_a_gap_changes_no_bit_of_a_stream_without() -> None:
    filter = calibrated(SETTINGS[1])
    x, u = RNG(0).standard_normal((12, 2, N)), RNG(1).standard_normal((12, 2, 1))
    gappy = x.copy()
    gappy[3:7, 1, 0], gappy[5, 1] = np.nan, np.nan
    with_gaps, without = Live(filter, 2), Live(filter, 2)
    for row, cut, inputs in zip(x, gappy, u, strict=True):
        with_gaps.update(cut, inputs)
        without.update(row, inputs)
        np.testing.assert_array_equal(with_gaps.belief[0], without.belief[0])
        np.testing.assert_array_equal(with_gaps.forecast(2)[0], without.forecast(2)[0])
