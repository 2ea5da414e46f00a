"""First rows with gains of their own, held to a joint Gaussian by brute force, to statsmodels and to filterpy."""

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gap_measures import ratio
from gap_systems import FAMILIES, kalman
from psimlearn.datasets import random_system
from psimlearn.files.model import load, save
from psimlearn.filter import Filter, Stack
from psimlearn.filter.innovations import innovations, memory, of_memory, opening_rows
from psimlearn.filter.likelihood import doubt_of_row
from psimlearn.filter.live import Live
from psimlearn.filter.opening import Opening
from psimlearn.filter.smooth import Reads, backward, forward
from psimlearn.filter.statespace import StateSpace
from psimlearn.filter.stretches import fresh, take_stretch
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.train.openings import first_errors, with_opening
from random_filters import RNG, WINDOW, N, made, one_by_one

CLOSE = 1e-8
CASES = list(product(["none", "inputs"], [1, 3], ["mean", "last"], [False, True]))
"""Inputs, lags, prior and rank; brute force knows no box."""


def opened(place: int, seed: int = 0) -> Filter:
    inputs, lags, prior, rank = CASES[place]
    return made("opened", Stack(WINDOW), inputs, lags, prior, rank, False, seed)


def controls(filter: Filter, rows: int) -> np.ndarray:
    return RNG(5).standard_normal((rows, 0 if filter.input_scaling is None else 1))


class Joint:
    """The joint Gaussian of all rows: the start and each unit of noise are pushed through the steps of the filter."""

    def __init__(self, filter: Filter, u: np.ndarray) -> None:
        assert filter.opening is not None
        self.model, self.u, (rows, n) = innovations(filter), u, (len(u), N)
        start, root = memory(filter, self.model, filter.start())[0], of_memory(filter, filter.opening.root)
        noise = np.linalg.cholesky(filter.covariance)
        self.mean = self._rows(start, np.zeros((rows, n)))
        moves = [self._rows(start + column, np.zeros((rows, n))) for column in root.T]
        for t, column in product(range(rows), noise.T):
            e = np.zeros((rows, n))
            e[t] = column
            moves.append(self._rows(start, e))
        response = np.array([(move - self.mean).ravel() for move in moves])
        self.covariance = response.T @ response

    def _rows(self, S: np.ndarray, noise: np.ndarray) -> np.ndarray:
        out, S = [], S[None]
        for u, e in zip(self.u, noise, strict=True):
            out.append(self.model.expected(S)[0] + e)
            w = np.concatenate([S, out[-1][None]], axis=1)
            S = self.model.following(self.model.z(w, u[None], np.zeros(1, dtype=bool)))
        return np.array(out)

    def given(self, x: np.ndarray, known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances of all entries, given the entries that are known."""
        seen = known.ravel()
        K = np.linalg.solve(self.covariance[np.ix_(seen, seen)], self.covariance[seen]).T
        mean = self.mean.ravel() + K @ (x.ravel() - self.mean.ravel())[seen]
        left = np.diag(self.covariance - K @ self.covariance[seen])
        return mean.reshape(x.shape), left.reshape(x.shape)


def stepped(filter: Filter, x: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means, and covariances without calibration, of every row before it is seen; in standardised units."""
    model, state, out, spread = innovations(filter), filter.start(1), [], []
    assert model.opened is not None
    for t, row in enumerate(x):
        out.append(filter.features.observations(state.belief)[0, 0])
        added = doubt_of_row(filter, state)
        of_start = model.kind.between(model.opened.spread, model.H)
        spread.append(model.noise + (0.0 if added is None else added[0]) + (of_start[t] if t < len(of_start) else 0.0))
        inputs = () if filter.input_scaling is None else (filter.input_scaling.undo(u[t : t + 1]),)
        state = filter.step(state, filter.scaling.undo(row[None]), *inputs)
    return np.array(out), np.array(spread)


@pytest.mark.parametrize("place", range(len(CASES)))
def test_first_rows_equal_brute_force(place: int) -> None:
    filter = opened(place)
    rows = opening_rows(filter)
    x, u = RNG(1).standard_normal((rows + 1, N)), controls(filter, rows + 1)
    mean, spread = stepped(filter, x, u)
    joint = Joint(filter, u)
    for t in range(rows + 1):  # the last row still follows from exact gains
        known = np.zeros_like(x, dtype=bool)
        known[:t] = True
        expected, variance = joint.given(x, known)
        np.testing.assert_allclose(mean[t], expected[t], rtol=0, atol=CLOSE)
        if t < rows:
            np.testing.assert_allclose(np.diag(spread[t]), variance[t], rtol=0, atol=CLOSE)


@settings(max_examples=40, deadline=None)
@given(
    place=st.integers(0, len(CASES) - 1),
    missing=st.lists(st.booleans(), min_size=20, max_size=20),
    seed=st.integers(0, 99),
)
def test_a_start_with_a_gap_equals_brute_force_at_every_row(place: int, missing: list[bool], seed: int) -> None:
    """After a gap in the first row the covariance of the start is kept to its end: no row is approximate."""
    filter = opened(place, seed)
    x, gaps = RNG(seed).standard_normal((10, N)), np.array(missing).reshape(10, N)
    gaps[0, 0] = True
    x, u = np.where(gaps, np.nan, x), controls(filter, 10)
    joint, (mean, _) = Joint(filter, u), stepped(filter, x, u)
    for t in range(10):
        known = ~gaps & (np.arange(10) < t)[:, None]
        np.testing.assert_allclose(mean[t], joint.given(np.nan_to_num(x), known)[0][t], rtol=0, atol=CLOSE)
    model = innovations(filter)
    steps, read = forward(model, memory(filter, model, filter.start()), x, u), np.eye(N, model.s + N, model.s)
    move, variance = backward(model, steps, Reads(read, read))
    smoothed = np.array([step.taken.x[0] for step in steps]) + move
    expected, left = joint.given(np.nan_to_num(x), ~gaps)
    np.testing.assert_allclose(smoothed[gaps], expected[gaps], rtol=0, atol=CLOSE)
    np.testing.assert_allclose(variance[gaps], left[gaps], rtol=0, atol=CLOSE)


def test_statsmodels_and_filterpy_begin_as_the_filter_does() -> None:
    """They keep the covariance of the start: first rows are the same, and all rows are after a gap in the first."""
    pytest.importorskip("filterpy")
    for place in range(len(CASES)):
        filter = opened(place)
        rows, model = opening_rows(filter), StateSpace.of_filter(filter)
        for gap in (False, True):
            x, u = RNG(2).standard_normal((30, N)), controls(filter, 30)
            x[0, 0] = np.nan if gap else x[0, 0]
            given: tuple[Any, ...] = (x, u) if u.shape[1] else (x,)
            data = Trajectories.of([x], [u] if u.shape[1] else None)
            ours = filter.forecast(data, 1)[:, 0]
            exact = slice(None) if gap else slice(rows + 1)
            theirs = model.to_statsmodels(*given).filter([]).forecasts.T
            np.testing.assert_allclose(theirs[exact], ours[exact], rtol=0, atol=CLOSE)
            apart = np.abs(theirs - ours) / filter.scaling.scale / np.sqrt(np.diag(filter.covariance))
            assert apart.max() < 0.1  # what is dropped adds at most a thousandth to any variance
            if not gap:
                np.testing.assert_allclose(model.predict(*given), ours, rtol=0, atol=CLOSE)
            kf = model.to_filterpy()
            for t in range(30 if gap else rows + 1):
                np.testing.assert_allclose(kf.H @ kf.x, ours[t], rtol=0, atol=CLOSE)
                row = x[t] if not np.isnan(x[t]).any() else None
                if row is None:  # filterpy takes whole rows: the seen channel alone
                    kf.update(x[t, 1:], R=np.zeros((1, 1)), H=kf.H[1:])
                else:
                    kf.update(row)
                kf.predict(np.append(u[t], u[min(t + 1, 29)]) if u.shape[1] else None)


def test_the_way_back_from_a_model_keeps_the_start() -> None:
    for place in range(len(CASES)):
        filter = opened(place)
        back = StateSpace.of_filter(filter).to_filter()
        assert back.opening is not None
        x, u = RNG(3).standard_normal((opening_rows(filter) + 1, N)), controls(filter, opening_rows(filter) + 1)
        data = Trajectories.of([x], [u] if u.shape[1] else None)
        np.testing.assert_allclose(back.forecast(data, 1), filter.forecast(data, 1), rtol=0, atol=1e-6)


@pytest.mark.parametrize("seed", [3, 7])
def test_a_known_system_predicts_first_rows_as_the_kalman_filter_that_knows_the_start(seed: int) -> None:
    """Recordings begin at any moment of a system that has run for long; its steady filter alone is well behind."""
    system = FAMILIES["noisy"].system(seed)
    filter = StateSpace.of_kalman(system.A, system.C, system.Q, system.noise * np.eye(system.n)).to_filter()
    train, test = (system.simulate(m, 60, RNG(m)) for m in (300, 1000))
    best, scale = kalman(system, test).mean, train.std(axis=(0, 1))
    plain = filter.forecast(Trajectories.of(test), 1)[:, 0].reshape(test.shape)
    for begins in ("any moment", "first rows"):
        found = with_opening(filter, Trajectories.of(train), begins)
        assert found is not None
        opened = found.forecast(Trajectories.of(test), 1)[:, 0].reshape(test.shape)
        assert ratio(opened, best, test, scale) < 1.004
        assert ratio(opened[:, :10], best[:, :10], test[:, :10], scale) < 1.02
    assert ratio(plain[:, :10], best[:, :10], test[:, :10], scale) > 1.02


def test_recordings_that_begin_as_the_steady_filter_says_leave_nothing_to_open() -> None:
    """The paper's systems begin at N(1, Sigma_s), for which steady gains are the best: first rows say so."""
    system = random_system(RNG(4))
    filter, train = system.predictive_filter(2), system.simulate(2000, 60, RNG(5))
    test = system.simulate(2000, 12, RNG(6))
    plain = first_errors(filter, test).squares.sum()
    any_moment, own = (with_opening(filter, train, begins) for begins in ("any moment", "first rows"))
    assert any_moment is not None
    assert own is not None
    assert first_errors(any_moment, test).squares.sum() > 1.03 * plain
    assert first_errors(own, test).squares.sum() < 1.01 * plain


def test_gaps_later_do_not_reach_back() -> None:
    """Rows before a gap are predicted as if it did not come: whole recordings, and live."""
    filter = opened(5)
    x = RNG(7).standard_normal((25, N))
    u = controls(filter, 25)
    whole, gappy = x.copy(), x.copy()
    gappy[20, 0] = np.nan
    before = [filter.run(Trajectories.of([v], [u] if u.shape[1] else None))[0] for v in (whole, gappy)]
    np.testing.assert_allclose(before[0][:21], before[1][:21], rtol=0, atol=1e-12)
    assert np.abs(before[0][21] - before[1][21]).max() > 1e-3


def test_streams_that_start_again_open_again(tmp_path: Any) -> None:
    filter = opened(2)
    save(filter, tmp_path / "model")
    filter = load(tmp_path / "model")
    x = RNG(8).standard_normal((3, 30, N))
    bank, before = Live(filter, 3), filter.run(Trajectories.of(list(x)))[0].reshape(3, 30, -1)
    clock = np.zeros(3, dtype=int)
    for t in range(40):
        np.testing.assert_allclose(bank.belief, before[np.arange(3), clock], rtol=0, atol=1e-10)
        bank.update(x[np.arange(3), clock])
        clock += 1
        if t in (2, 9, 21):
            again = np.arange(3) == t % 3
            bank.reset(again)
            clock[again] = 0
        clock %= 30
        bank.reset(clock == 0)


def test_stretches_open_as_whole_recordings_do() -> None:
    filter = opened(6)
    x = RNG(9).standard_normal((24, N))
    whole = one_by_one(filter, Trajectories.of([x]))
    memory_before, met = fresh(filter, 1), []
    for first, last in ((0, 1), (1, 4), (4, 24)):
        stretch = take_stretch(filter, memory_before, x[first:last], None, np.array([last - first]))
        met.append(stretch.before.belief)
        memory_before = stretch.end
    np.testing.assert_allclose(np.concatenate(met), whole, rtol=0, atol=1e-10)


def test_forecasts_from_the_first_rows_on_are_steps_that_come_as_expected() -> None:
    """Beyond the window too, and before anything was seen, when the rows before the first are those of the opening."""
    for place, (inputs, *_) in enumerate(CASES):
        filter = opened(place)
        if inputs != "none":
            continue
        state = filter.start(2)
        for row in [None, *RNG(3).standard_normal((4, 2, N))]:
            state = state if row is None else filter.step(state, row)
            ahead, on, belief = filter.ahead(state, 8), state, [state.belief]
            for _ in range(8 - WINDOW):
                on = filter.step(on, filter.scaling.undo(filter.features.observations(on.belief)[:, 0]))
                belief.append(on.belief)
            last = np.stack([filter.features.observations(m)[:, -1] for m in belief[1:]], axis=1)
            expected = np.concatenate([filter.features.observations(belief[0]), last], axis=1)
            np.testing.assert_allclose(ahead, filter.scaling.undo(expected), rtol=0, atol=1e-10)


def test_a_filter_that_fills_gaps_in_has_no_use_for_an_opening() -> None:
    filter = opened(2)
    data = Trajectories.of([RNG(1).standard_normal((9, N))])
    filled = replace(filter, gaps="filled")
    assert opening_rows(filled) == 0
    np.testing.assert_array_equal(filled.run(data)[0], replace(filled, opening=None).run(data)[0])


def test_the_opening_of_any_moment_is_the_spread_of_memories() -> None:
    """By hand: a belief that repeats the last row. So the memory is the row before, and its spread is that of rows."""
    from psimlearn.filter import Feedback, Linear, Scaling

    filter = Filter(
        features=Stack(1),
        regressors=(Linear(np.array([[0.0], [1.0]]), np.zeros(1)),),
        initial=np.zeros(1),
        scaling=Scaling(np.zeros(1), np.ones(1)),
        feedback=Feedback(np.zeros(1), np.ones(1)),
        centre=np.zeros(1),
        covariance=np.eye(1),
    )
    rows = np.arange(40.0)
    found = with_opening(filter, Trajectories.of([rows[:, None]]), "any moment")
    assert found is not None
    assert found.opening is not None
    later = rows[9:39]  # the beliefs before rows 10 .. 39 are the rows before them
    np.testing.assert_allclose(found.initial, later.mean(), rtol=1e-12)
    np.testing.assert_allclose(found.opening.root @ found.opening.root.T, [[later.var()]], rtol=1e-12)
    assert isinstance(found.opening, Opening)


def test_doubt_in_a_gap_is_never_less_than_that_of_a_start() -> None:
    """So likelihoods have covariances: with a first row in part, with rows before anything is seen, and much later."""
    for place in range(len(CASES)):
        filter = opened(place)
        x, u = RNG(4).standard_normal((12, N)), controls(filter, 12)
        for gaps in ([(0, 0)], [(0, 0), (0, 1)], [(0, 0), (0, 1), (1, 0), (1, 1), (3, 1)], [(2, 1)]):
            gappy, state = x.copy(), filter.start(1)
            for gap in gaps:
                gappy[gap] = np.nan
            for t, row in enumerate(gappy):
                added = doubt_of_row(filter, state)
                if added is not None:
                    assert np.linalg.eigvalsh(added[0]).min() > -1e-9
                inputs = () if filter.input_scaling is None else (filter.input_scaling.undo(u[t : t + 1]),)
                state = filter.step(state, filter.scaling.undo(row[None]), *inputs)
