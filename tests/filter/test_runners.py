"""Runners of filters of symbols, blocks of answers, and the textbook step written out; the contract has all others."""

from dataclasses import replace
from itertools import product
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from oracles import ragged
from psimlearn.filter import Feedback, Filter, Linear, OneHotMarginals, Scaling, Stack
from psimlearn.filter.conditioning import Conditional, Projected
from psimlearn.filter.contexts import Contexts
from psimlearn.filter.folded import fold, folded_map
from psimlearn.filter.live import Live
from psimlearn.filter.rollout import rolled
from psimlearn.filter.stretches import fresh, take_stretch
from psimlearn.recordings.trajectories import Trajectories
from random_filters import RNG, WINDOW, N, drawn, made

CLOSE = 1e-10


def textbook(filter: Filter, data: Trajectories) -> list[np.ndarray]:
    """The beliefs m_1 .. m_{T+1} of every recording, one row at a time."""
    out = []
    for part in data:
        state, u = filter.start(1), part.inputs
        beliefs = [state.belief[0]]
        for t in range(len(part)):
            now, following = (None, None) if u is None else (u[[t]], u[[min(t + 1, len(u) - 1)]])
            state = filter.step(state, part.values[[t]], now, following)
            beliefs.append(state.belief[0])
        out.append(np.array(beliefs))
    return out


def close(a: Any, b: Any) -> None:
    np.testing.assert_allclose(a, b, rtol=0, atol=CLOSE)


def hold_symbols(filter: Filter, data: Trajectories) -> None:
    """Hold whole recordings, one stream, a bank that starts again and two stretches to the textbook."""
    slow = textbook(filter, data)
    before, end = filter.run(data)
    close(before, np.concatenate([beliefs[:-1] for beliefs in slow]))
    close(end.belief, np.stack([beliefs[-1] for beliefs in slow]))
    live, met = Live(filter), []
    for part in data:
        live.reset()
        for x in part.values:
            live.update(x)
            met.append(live.belief)
    close(met, np.concatenate([beliefs[1:] for beliefs in slow]))
    halves = (
        [part.values[: (len(part) + 1) // 2] for part in data],
        [part.values[(len(part) + 1) // 2 :] for part in data],
    )
    memory, some = fresh(filter, len(data)), np.arange(len(data))
    for parts in halves:
        some = np.array([i for i in some if len(parts[i])])
        rows = [parts[i] for i in some]
        stretch = take_stretch(filter, memory.at(some), np.concatenate(rows), None, np.array(list(map(len, rows))))
        memory = stretch.end
    close(memory.state.belief, [slow[i][-1] for i in some])
    hold_bank(filter, data, slow)


def hold_bank(filter: Filter, data: Trajectories, slow: list[np.ndarray]) -> None:
    """Hold a bank of streams, each of which starts again when its recording ends, to the textbook."""
    bank = Live(filter, len(data))
    clock, met, expected = np.zeros(len(data), dtype=int), [], []
    last = data.lengths - 1
    for _ in range(int(data.lengths.max()) + 3):
        now, following = data.offsets[:-1] + clock, data.offsets[:-1] + np.minimum(clock + 1, last)
        bank.update(data.values[now], *(() if data.inputs is None else (data.inputs[now], data.inputs[following])))
        met.append(bank.belief)
        expected.append([beliefs[t + 1] for beliefs, t in zip(slow, clock, strict=True)])
        ended = clock == last
        clock = np.where(ended, 0, clock + 1)
        if ended.any():
            bank.reset(ended)
    close(met, expected)


@pytest.mark.parametrize("cached", [1, 40, 2**17])
@pytest.mark.parametrize("lengths", [[9, 9, 9], [9, 4, 11, 11, 1]])
def test_answers_are_written_some_times_at_once(lengths: list[int], cached: int) -> None:
    for seed, (inputs, lags, rank, box) in enumerate(
        product(["none", "feedthrough"], [1, 3], [False, True], [False, True])
    ):
        filter = made("linear", Stack(WINDOW), inputs, lags, "mean", rank, box, seed)
        data = ragged(lengths, N, RNG(seed), 0.0)
        if inputs != "none":
            data = replace(data, inputs=RNG(seed + 1).standard_normal((len(data.values), 1)))
        slow = textbook(filter, data)
        with patch("psimlearn.filter.straight.CACHED", cached):
            before, after = filter.run(data)
            blocks = filter.forecast(data, 1)
        close(before, np.concatenate([beliefs[:-1] for beliefs in slow]))
        close(after.belief, np.stack([beliefs[-1] for beliefs in slow]))
        if inputs == "none":
            close(blocks[:, 0], filter.scaling.undo(before[:, :N]))


@pytest.mark.parametrize("lags", [1, 3])
@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("kind", ["joint", "linear"])
def test_symbols_run_alike(kind: str, gaps: bool, lags: int) -> None:
    rng, features, v = RNG(lags), OneHotMarginals(WINDOW), 3
    d = features.width(v)
    symbols = [[int(s) for s in rng.integers(0, v, length)] for length in (7, 1, 12)]
    data = Trajectories.of_symbols([[None if gaps and rng.random() < 0.2 else s for s in row] for row in symbols])
    recent = rng.integers(-1, v, (200, lags))
    contexts = Contexts.of(recent, np.eye(v)[rng.integers(0, v, (200, WINDOW))].reshape(200, d), v, WINDOW)
    if kind == "joint":
        linear = Linear(rng.uniform(0, 1, (d, v * d)), rng.uniform(0, 1, v * d))
        update: Any = Conditional(linear, contexts.numbers, contexts.shares, 0.3, features, "simplex")
    else:
        linear = Linear(rng.uniform(0, 1, (d + lags * v, d)), np.zeros(d))
        update = Projected(linear, contexts.shares[:1], 0.1, features)
    filter = Filter(
        features=features,
        regressors=(update,),
        initial=np.full(d, 1 / v),
        scaling=Scaling(np.zeros(v), np.ones(v)),
        feedback=Feedback(np.zeros(d), np.ones(d)),
        centre=np.zeros(d),
        covariance=np.eye(v),
        lags=lags,
        alphabet=data.alphabet,
    )
    hold_symbols(filter, data)


def test_the_textbook_step_equals_its_equation_written_out() -> None:
    """The equation has feedback, box, lags, input and next input, and prior, by explicit matrices."""
    filter = made("linear", Stack(WINDOW), "feedthrough", 3, "last", True, True, 5)
    x, u = RNG(0).standard_normal((4, N)), RNG(1).standard_normal((5, 1))
    state = filter.start(1)
    m, feedback, linear = filter.initial, filter.feedback, filter.regressors[0]
    assert isinstance(linear, Linear)
    assert feedback.directions is not None
    units = [(row - filter.scaling.mean) / filter.scaling.scale for row in x]
    controls = (u - 0.3) / 2.0
    for t in range(4):
        fed = 0.7 * (feedback.directions.T @ m - feedback.mean) / feedback.scale
        z = [*np.clip(fed, feedback.low, feedback.high), *units[t], *units[max(t - 1, 0)], *units[max(t - 2, 0)]]
        m = linear.weights.T @ np.array([*z, *controls[t], *controls[t + 1]]) + linear.intercept
        m = m + np.concatenate([units[t]] * WINDOW)
        state = filter.step(state, x[[t]], u[[t]], u[[t + 1]])
        close(state.belief[0], m)


def test_a_folded_machine_holds_the_step_in_one_map() -> None:
    filter = made("waves", Stack(WINDOW), "inputs", 3, "last", True, True, 1)
    rollout, machine = rolled(filter, drawn(False, "inputs", 3)), fold(filter)
    fed = filter.feedback.linear(rollout.beliefs) + filter.feedback.shift
    close(machine.feed(rollout.z), fed)
    close(folded_map(filter, lambda m: m[:, :1], np.array([2.0]))(rollout.z), rollout.beliefs[:, :1] + 2.0)
