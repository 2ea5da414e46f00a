"""The contract of all runners: each takes the steps of the textbook, for every kind of filter, with and without gaps.

Filters are made of random numbers and not trained: the tests are about runners, and every combination is cheap.
"""

import os
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from itertools import combinations, product
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from oracles import ragged
from psimlearn.filter import (
    Features,
    Feedback,
    Filter,
    Linear,
    OneHotMarginals,
    Scaling,
    SecondMoment,
    Stack,
    StackSquares,
)
from psimlearn.filter.chunked import roll_in_chunks
from psimlearn.filter.conditioning import Conditional, Projected
from psimlearn.filter.contexts import Contexts
from psimlearn.filter.folded import fold, foldable, folded_map
from psimlearn.filter.layout import gappy
from psimlearn.filter.live import Live
from psimlearn.filter.rollout import Rollout, rolled, table
from psimlearn.filter.straight import passes
from psimlearn.filter.stretches import fresh, take_stretch
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.recordings.windows import next_rows
from psimlearn.train.unrolled import closed_loop, fixed_of, form_of, parts_of, weights_of
from random_filters import RNG, WINDOW, N, drawn, made

CLOSE = 1e-10
KINDS = [
    "linear",
    "opened",
    "waves",
    "waves and raw",
    "variances",
    "black box",
    "two in turn",
    "trees",
    "trees and waves",
]
FEATURES: dict[str, Features] = {
    "stack": Stack(WINDOW),
    "squares": StackSquares(WINDOW),
    "moments": SecondMoment(WINDOW),
}


PAIRS = [pair for pair in product(KINDS, FEATURES) if pair[0] != "variances" or pair[1] == "squares"]
NO_YES = [False, True]
SETTINGS = list(product(["none", "inputs", "feedthrough"], [1, 3], ["mean", "last"], NO_YES, NO_YES, NO_YES))
"""Inputs, lags, prior, rank, box and gaps, in every combination."""


def settings_of(kind: str, name: str) -> dict[int, tuple[str, int, str, bool, bool, bool]]:
    """Every combination for each kind of filter, dealt out in turn to its features; all of them in a campaign."""
    names = [other for each, other in PAIRS if each == kind]
    turns = 1 if "PSIMLEARN_CAMPAIGN" in os.environ else len(names)
    first = names.index(name) + KINDS.index(kind)
    return {i: settings for i, settings in enumerate(SETTINGS) if (i + first) % turns == 0}


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


def whole(filter: Filter, data: Trajectories) -> np.ndarray:
    """All recordings at once."""
    rollout = rolled(filter, data)
    if not rollout.layout.gappy and filter.opening is None:  # rows correct feedback that was in doubt
        close(rollout.z[:, : len(filter.feedback.mean)], filter.feedback(rollout.held))
    return rollout.layout.plan.packed(rollout.beliefs)


def alone(filter: Filter, data: Trajectories) -> np.ndarray:
    """One live stream, reset before every recording."""
    live, met = Live(filter), []
    for part in data:
        live.reset()
        for t, x in enumerate(part.values):
            u = () if part.inputs is None else (part.inputs[t], part.inputs[min(t + 1, len(part) - 1)])
            live.update(x, *u)
            met.append(live.belief)
    return np.array(met)


def in_chunks(filter: Filter, data: Trajectories) -> np.ndarray | None:
    """Chunks of two rows at once, until each begins where the one before it ends."""
    laid_out = table(filter, data)
    if laid_out.layout.gappy or not foldable(filter) or filter.opening is not None:
        return None
    laid_out.z[laid_out.layout.plan.block(0), : len(filter.feedback.mean)] = fold(filter).first
    assert roll_in_chunks(fold(filter), laid_out.z, laid_out.layout.plan, 2)
    rollout = Rollout(filter, laid_out.layout, laid_out.layout.x, laid_out.z, None)
    return rollout.layout.plan.packed(rollout.beliefs)


def in_stretches(filter: Filter, data: Trajectories) -> np.ndarray:
    """All recordings together, in two stretches: half of each recording, then the rest of the recordings that go on."""
    u = data.inputs
    memory, first = fresh(filter, len(data)), (data.lengths + 1) // 2
    rest = data.lengths - first
    some = np.flatnonzero(rest)
    halves = [_rows(data.offsets[:-1], first), _rows(data.offsets[:-1][some] + first[some], rest[some])]
    one = take_stretch(filter, memory, data.values[halves[0]], None if u is None else u[halves[0]], first)
    end = one.end.at(some)
    two = take_stretch(filter, end, data.values[halves[1]], None if u is None else u[halves[1]], rest[some])
    before, after = np.empty((2, len(data.values), len(filter.initial)))
    for rows, stretch in zip(halves, (one, two), strict=True):
        before[rows], after[rows] = stretch.before.belief, stretch.after.belief
    goes_on = np.setdiff1d(np.arange(len(before)), data.offsets[1:] - 1)
    after[goes_on] = before[goes_on + 1]  # with feed-through, the next inputs are known by then
    return after


def _rows(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    return np.concatenate([start + np.arange(length) for start, length in zip(starts, lengths, strict=True)])


def compiled(filter: Filter, data: Trajectories) -> np.ndarray | None:
    """All recordings by compiled code, which numpy leaves to larger jobs."""
    if find_spec("numba") is None or not passes(filter):
        return None
    with patch("psimlearn.filter.compiling.LEAST_ROWS", 0):
        before, state = filter.run(data)
        rollout = rolled(filter, data)
    if gappy(data.values):
        same_as_numpy(filter, data, rollout)
    elif filter.opening is None:
        close(rollout.z[:, : len(filter.feedback.mean)], filter.feedback(rollout.held))
    close(rollout.packed_held(), before)
    after: np.ndarray = before[next_rows(data.offsets)]
    after[data.offsets[1:] - 1] = state.belief
    return after


def same_as_numpy(filter: Filter, data: Trajectories, rollout: Rollout) -> None:
    """Hold filled rows, hints and the doubt at the ends of recordings with gaps to those of numpy."""
    with patch("psimlearn.filter.compiling._kernels", lambda: None):
        plain = rolled(filter, data)
    for a, b in ((rollout.x, plain.x), (rollout.z, plain.z), (rollout.hints, plain.hints)):
        assert (a is None) == (b is None)
        close(0.0 if a is None else a, 0.0 if b is None else b)
    spreads = [0.0 if each is None else each.by_stream(each.spread) for each in (rollout.ends, plain.ends)]
    close(spreads[0], spreads[1])


def alone_in_numpy(filter: Filter, data: Trajectories) -> np.ndarray:
    """One live stream, as where numba is not installed."""
    with patch("psimlearn.filter.quick.kernels_for", lambda *_: None):
        return alone(filter, data)


RUNNERS: list[Callable[[Filter, Trajectories], np.ndarray | None]] = [
    whole,
    compiled,
    in_chunks,
    alone,
    alone_in_numpy,
    in_stretches,
]
"""Each returns the belief after every row, in the order of the recordings; None for filters or data that it refuses."""


def hold(filter: Filter, data: Trajectories) -> None:
    """Hold every runner to the textbook."""
    slow = textbook(filter, data)
    for runner in RUNNERS:
        met = runner(filter, data)
        if met is not None:
            close(met, np.concatenate([beliefs[1:] for beliefs in slow]))
    before, after = filter.run(data)
    close(before, np.concatenate([beliefs[:-1] for beliefs in slow]))
    close(after.belief, np.stack([beliefs[-1] for beliefs in slow]))
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


@pytest.mark.parametrize(("kind", "name"), PAIRS)
def test_every_runner_takes_the_steps_of_the_textbook(kind: str, name: str) -> None:
    chosen = settings_of(kind, name)
    assert len(chosen) >= len(SETTINGS) // len(FEATURES)
    for seed, (inputs, lags, prior, rank, box, gaps) in chosen.items():
        filter = made(kind, FEATURES[name], inputs, lags, prior, rank, box, seed)
        affine = name == "stack" or prior == "mean"  # "last" is affine for stacks only
        assert foldable(filter) == (affine and kind in ("linear", "opened", "waves", "waves and raw"))
        hold(filter, drawn(gaps, inputs, seed))


def test_every_kind_and_every_features_meet_every_setting() -> None:
    """Each pair of a kind and features meets every combination of the values of any four settings."""
    for kind in KINDS:
        assert {s for each, name in PAIRS if each == kind for s in settings_of(each, name).values()} == set(SETTINGS)
    for name in FEATURES:
        assert {s for kind, each in PAIRS if each == name for s in settings_of(kind, each).values()} == set(SETTINGS)
    for kind, name in PAIRS:
        for four in combinations(range(6), 4):
            met = [tuple(settings[i] for i in four) for settings in settings_of(kind, name).values()]
            assert set(met) == {tuple(settings[i] for i in four) for settings in SETTINGS}


@pytest.mark.parametrize("cached", [1, 40, 2**17])
@pytest.mark.parametrize("lengths", [[9, 9, 9], [9, 4, 11, 11, 1]])
def test_answers_are_written_some_times_at_once(lengths: list[int], cached: int) -> None:
    for seed, (inputs, lags, rank, box) in enumerate(product(["none", "feedthrough"], [1, 3], NO_YES, NO_YES)):
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


@pytest.mark.parametrize("name", FEATURES)
@pytest.mark.parametrize("kind", ["linear", "waves", "waves and raw"])
def test_back_propagation_takes_the_steps_of_the_textbook(kind: str, name: str) -> None:
    """JAX compiles each form for a second, so a part of the combinations: for each pair one without gaps, one with."""
    jax = pytest.importorskip("jax")
    settings = [
        ("none", 1, "mean", False, True, False),
        ("inputs", 3, "last", True, False, False),
        ("feedthrough", 1, "last", False, True, True),
        ("inputs", 3, "mean", True, True, True),
    ]
    turn = (KINDS.index(kind) + list(FEATURES).index(name)) % 2
    for seed, (inputs, lags, prior, rank, box, gaps) in enumerate(settings[turn::2]):
        filter = replace(made(kind, FEATURES[name], inputs, lags, prior, rank, box, seed), gaps="filled")
        data = drawn(gaps, inputs, seed)[[0, 2]]
        layout = rolled(filter, data).layout
        expected = rolled(filter, data).beliefs
        with jax.enable_x64(True):
            for part in parts_of(filter, data):
                loop = jax.jit(closed_loop(form_of(filter, True)).rolled)
                beliefs = np.asarray(loop(weights_of(filter), fixed_of(filter), part, np.zeros_like(part.y))[0])
                met = part.weight.any(axis=2)
                seen = np.isin(layout.plan.time, np.flatnonzero(met.any(axis=1)))
                assert seen.any()
                found = np.abs(beliefs[met][:, None] - expected[None]).max(axis=2).min(axis=1)
                assert found.max() < CLOSE


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
    hold(filter, data)


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
