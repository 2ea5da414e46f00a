"""Compiled code: chosen by size, absent without harm, and never in a pickle."""

import logging
import pickle
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest

import psimlearn.filter
from psimlearn.filter import Feedback, Filter, Linear, Scaling, Stack, compiling
from psimlearn.filter.compiling import ALONE, AT_ONCE, LEAST_ROWS, STEPPED, kernels_for
from psimlearn.filter.live import Live
from psimlearn.recordings.trajectories import Trajectories
from random_filters import RNG, WINDOW, N, made, one_by_one


@pytest.fixture
def fresh() -> Iterator[None]:
    """The kernels are looked for again, before and after."""
    compiling._kernels.cache_clear()
    yield
    compiling._kernels.cache_clear()


def test_small_jobs_and_wide_filters_stay_with_numpy() -> None:
    with patch.object(compiling, "_kernels", lambda: "kernels"):
        assert kernels_for(AT_ONCE, AT_ONCE, LEAST_ROWS) == "kernels"
        assert kernels_for(AT_ONCE + 1, AT_ONCE, LEAST_ROWS) is None
        assert kernels_for(AT_ONCE, AT_ONCE, LEAST_ROWS - 1) is None
        assert kernels_for(AT_ONCE + 1, ALONE, LEAST_ROWS) == "kernels"
        assert kernels_for(STEPPED, STEPPED) == "kernels"


def test_numpy_runs_small_filters_without_numba_and_if_numba_fails(
    fresh: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(compiling, "find_spec", lambda _: None)
    assert kernels_for(1, STEPPED) is None
    assert not caplog.records
    compiling._kernels.cache_clear()
    monkeypatch.setattr(compiling, "find_spec", lambda _: True)
    monkeypatch.delattr(psimlearn.filter, "kernels", raising=False)
    monkeypatch.setitem(sys.modules, "psimlearn.filter.kernels", None)
    assert kernels_for(1, STEPPED) is None
    assert "numba is installed and cannot be used" in caplog.text


def test_a_long_wait_is_explained_once(fresh: None, caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("numba")
    with caplog.at_level(logging.WARNING, "psimlearn"), patch.object(compiling, "SECONDS", -1.0):
        kernels_for(1, STEPPED)
        kernels_for(1, STEPPED)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "compiled" in caplog.text


@pytest.mark.parametrize("lags", [1, 3])
def test_a_compiled_stream_takes_gaps_views_and_copies_as_numpy_does(lags: int) -> None:
    pytest.importorskip("numba")
    filter = made("linear", Stack(WINDOW), "none", lags, "mean", True, True, 3)
    rows = RNG(0).standard_normal((60, N))
    rows[20, 0] = rows[21] = np.nan
    live = Live(filter)
    assert live._streams._step is not None  # type: ignore[union-attr]
    with patch("psimlearn.filter.quick.kernels_for", lambda *_: None):
        plain = Live(filter)
        assert plain._streams._step is None  # type: ignore[union-attr]
    apart = np.asfortranarray(rows)  # rows are not contiguous
    apart.setflags(write=False)
    for t in range(len(rows)):
        live.update(apart[t])
        plain.update(rows[t])
        np.testing.assert_allclose(live.belief, plain.belief, rtol=0, atol=1e-12)
        assert live.unseen == plain.unseen
        if t % 7 == 0:
            live = [pickle.loads(pickle.dumps(live)), live.copy()][t % 2]
        if t == 40:
            live.reset()
            plain.reset()
    assert b"numba" not in pickle.dumps(live)
    with pytest.raises(ValueError, match="finite"):
        live.update(np.array([np.inf, 0.0]))


@pytest.mark.parametrize("lags", [1, 3])
@pytest.mark.parametrize("seed", range(3))
def test_rows_that_nobody_looked_at_are_settled_before_anything_is_read(lags: int, seed: int) -> None:
    """Any number of rows between two looks, with gaps, resets, copies and refused rows among them."""
    pytest.importorskip("numba")
    filter = made("linear", Stack(WINDOW), "none", lags, "mean", True, True, 3)
    rng, live = RNG(seed), Live(filter)
    with patch("psimlearn.filter.quick.kernels_for", lambda *_: None):
        plain = Live(filter)
    for _ in range(80):
        for x in rng.standard_normal((rng.integers(1, 9), N)):
            live.update(x)
            plain.update(x)
        event = rng.integers(6)
        if event == 0:
            live.update(None)
            plain.update(None)
        elif event == 1:
            live.reset()
            plain.reset()
        elif event == 2:
            live = live.copy()
        elif event == 3:
            with pytest.raises(ValueError, match="finite"):
                live.update(np.array([np.inf, 0.0]))
            with pytest.raises(ValueError, match="x"):
                live.update(np.zeros((N, 1)))
        elif event == 4:
            live = pickle.loads(pickle.dumps(live))
        assert (live.unseen, live.late, live.state.clock) == (plain.unseen, plain.late, plain.state.clock)
        np.testing.assert_allclose(live.state.recent, plain.state.recent, rtol=0, atol=1e-12)
        np.testing.assert_allclose(live.belief, plain.belief, rtol=0, atol=1e-12)
        np.testing.assert_allclose(live._streams.held, plain._streams.held, rtol=0, atol=1e-12)
        if event != 1:  # after a reset there is no last row
            np.testing.assert_allclose(live.log_likelihood, plain.log_likelihood, rtol=0, atol=1e-9)
        np.testing.assert_allclose(live.predict(2), plain.predict(2), rtol=0, atol=1e-12)


@pytest.mark.parametrize("width", [3, 8, 20, 65, 100])
def test_the_product_of_one_row_is_that_of_numpy(width: int) -> None:
    pytest.importorskip("numba")
    from psimlearn.filter.tiles import row_multiplied

    p, columns = 13, -(-width // 8) * 8
    store = RNG(0).standard_normal((2 + p + 1, max(columns, 16)))
    expected = store[0, :p] @ store[2 : 2 + p] + store[2 + p]
    row_multiplied(store, 0, 2, p, 1, width)
    np.testing.assert_allclose(store[1, :width], expected[:width], rtol=0, atol=1e-13)


@pytest.mark.parametrize("box", [False, True])
@pytest.mark.parametrize("rank", [False, True])
@pytest.mark.parametrize(("inputs", "lags"), [("none", 1), ("feedthrough", 3)])
@pytest.mark.parametrize("kind", ["linear", "opened"])
def test_many_recordings_at_once_take_the_steps_of_the_textbook(
    kind: str, inputs: str, lags: int, rank: bool, box: bool
) -> None:
    """Recordings of all lengths: some groups run at once to their end, some recordings go on alone."""
    pytest.importorskip("numba")
    filter = made(kind, Stack(WINDOW), inputs, lags, "last", rank, box, 5)
    lengths = [*[20] * 70, 1, 2, 19, 21, 60]
    data = Trajectories.of([RNG(length).standard_normal((length, N)) for length in lengths])
    if inputs != "none":
        data = replace(data, inputs=RNG(1).standard_normal((len(data.values), 1)))
    with patch.object(compiling, "LEAST_ROWS", 0):
        before, state = filter.run(data)
        for count in (1, 2, 3, 5):  # around the fewest that run at once, and the rows of a tile
            some = data[:count]
            np.testing.assert_allclose(filter.run(some)[0], before[: len(some.values)], rtol=0, atol=1e-12)
        one_step = filter.forecast(data, 1)
    with patch.object(compiling, "_kernels", lambda: None):
        plain, plain_state = filter.run(data)
        plain_step = filter.forecast(data, 1)
    np.testing.assert_allclose(before, plain, rtol=0, atol=1e-12)
    np.testing.assert_allclose(one_step, plain_step, rtol=0, atol=1e-11)  # in units of the recordings
    np.testing.assert_allclose(state.belief, plain_state.belief, rtol=0, atol=1e-12)
    np.testing.assert_allclose(before, one_by_one(filter, data), rtol=0, atol=1e-10)


@pytest.mark.parametrize("width", [8, 16, 24, 32, 72, 80])
def test_products_in_tiles_are_those_of_numpy(width: int) -> None:
    """Widths that leave every number of registers after the whole tiles."""
    pytest.importorskip("numba")
    from psimlearn.filter.tiles import multiplied_in_tiles

    z, W = RNG(0).standard_normal((12, 16)), RNG(1).standard_normal((12, width))
    z[2, 3], z[5, 0] = np.nan, np.inf
    for n_rows in (1, 4, 7, 12):
        y = np.full((12, width), 7.0)
        multiplied_in_tiles(z, W, y, n_rows)
        done = -(-n_rows // 4) * 4
        np.testing.assert_allclose(y[:done], z[:done, :11] @ W[:-1] + W[-1], rtol=0, atol=1e-13)
        assert (y[done:] == 7.0).all()


@pytest.mark.parametrize("n_recordings", [1, 40])
def test_a_part_of_a_wide_belief_is_read_from_all_of_it(n_recordings: int) -> None:
    pytest.importorskip("numba")
    window = 7
    d = window * N
    filter = Filter(
        features=Stack(window),
        regressors=(Linear(RNG(0).uniform(-0.2, 0.2, (d + N, d)), RNG(1).uniform(-0.3, 0.3, d)),),
        initial=RNG(2).standard_normal(d),
        scaling=Scaling(np.ones(N), np.full(N, 2.0)),
        feedback=Feedback(np.zeros(d), np.ones(d)),
        centre=np.zeros(d),
        covariance=np.eye(N),
    )
    data = Trajectories.of([RNG(i).standard_normal((30, N)) for i in range(n_recordings)])
    slow = filter.scaling.undo(one_by_one(filter, data).reshape(-1, window, N))
    with patch.object(compiling, "LEAST_ROWS", 0):
        for steps in range(1, window + 1):
            np.testing.assert_allclose(filter.forecast(data, steps), slow[:, :steps], rtol=0, atol=1e-10)


@pytest.mark.parametrize(("lags", "rank"), [(1, False), (3, True)])
def test_compiled_gaps_of_any_length_take_the_steps_of_the_textbook(lags: int, rank: bool) -> None:
    pytest.importorskip("numba")
    filter = made("linear", Stack(WINDOW), "none", lags, "mean", rank, False, 3)
    filter = replace(filter, feedback=filter.feedback.weighted(0.5))  # so that doubt does not grow without end
    values = RNG(0).standard_normal((600, N))
    values[RNG(1).random(values.shape) < 0.1] = np.nan
    values[100:200, 0] = values[300:340] = values[590:, 1] = np.nan  # more missing entries than a root has columns
    data = Trajectories.of([values, values[::-1]])
    from psimlearn.filter import kernels

    with (
        patch.object(compiling, "LEAST_ROWS", 0),
        patch.object(kernels, "fill_in_doubt", side_effect=kernels.fill_in_doubt) as looped,
    ):
        before, state = filter.run(data)
        assert looped.call_count == 1
    np.testing.assert_allclose(before, one_by_one(filter, data), rtol=0, atol=1e-10)
    with patch.object(compiling, "_kernels", lambda: None):
        plain = filter.run(data)[1]
    assert state.doubt is not None
    assert plain.doubt is not None
    spreads = [doubt.by_stream(doubt.spread) for doubt in (state.doubt, plain.doubt)]
    np.testing.assert_allclose(spreads[0], spreads[1], rtol=0, atol=1e-10)


def test_numba_is_imported_only_where_it_runs() -> None:
    code = (
        "import sys, numpy as np, psimlearn\n"
        "from psimlearn.filter import Filter, Stack\n"
        "sys.path.insert(0, 'tests')\n"
        "from random_filters import drawn, made\n"
        "filter = made('linear', Stack(2), 'none', 1, 'mean', False, True, 0)\n"
        "filter.run(drawn(False, 'none', 0))\n"
        "filter.step(filter.start(1), np.zeros((1, 2)))\n"
        "print('numba' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
