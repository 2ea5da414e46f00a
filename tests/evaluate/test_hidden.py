"""Intervals inside gaps hold their share where errors are heavy-tailed, since entries were hidden on purpose."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import psimlearn.evaluate.hidden
from psimlearn import PSIM, load
from psimlearn.evaluate.hidden import with_gaps_measured
from psimlearn.filter import Filter
from psimlearn.filter.live import Live
from psimlearn.recordings.trajectories import Trajectories

RNG = np.random.default_rng
GAP = slice(25, 45)


def jumps(m: int, rows: int, seed: int) -> np.ndarray:
    """Three channels that rest nearly always, and jump: most errors are small, but they add up over a gap."""
    rng = RNG(seed)
    noise = 0.05 * rng.standard_normal((rows, m, 3)) + (rng.random((rows, m, 3)) < 0.1) * rng.standard_normal(
        (rows, m, 3)
    )
    x = np.zeros((rows, m, 3))
    for t in range(1, rows):
        x[t] = 0.97 * x[t - 1] + noise[t]
    return x.swapaxes(0, 1).copy()


@cache
def fitted() -> PSIM:
    settings = {"lags": 1, "prior": "mean", "belief_weight": 1.0, "n_rounds": 2, "random_state": 0}
    return PSIM(2, **settings).fit(jumps(60, 100, 0))


@cache
def gappy() -> tuple[np.ndarray, np.ndarray]:
    whole = jumps(150, 60, 1)
    cut = whole.copy()
    for i, x in enumerate(cut):
        x[GAP, i % 3] = np.nan
    return whole, cut


def share_held(low: np.ndarray, high: np.ndarray) -> float:
    whole, cut = gappy()
    return float(np.mean(((low <= whole) & (whole <= high))[np.isnan(cut)]))


def test_intervals_in_gaps_hold_their_share() -> None:
    """It holds 90 %; by calibration without gaps alone, 58 %."""
    assert 0.85 < share_held(*fitted().predict_interval(gappy()[1], 1, 0.9)) < 0.95


def test_bands_of_smoothing_hold_their_share() -> None:
    """It holds 91 %; by calibration without gaps alone, 53 %."""
    assert 0.85 < share_held(*fitted().smooth(gappy()[1], coverage=0.9)[1:]) < 0.95


def test_nothing_changes_without_gaps() -> None:
    model, whole = fitted(), gappy()[0]
    older = replace(model.filter_, in_gaps=None)
    data = Trajectories.of(whole)
    np.testing.assert_array_equal(older.log_likelihood(data), model.filter_.log_likelihood(data))
    for one, other in zip(intervals(older, whole[:3]), intervals(model.filter_, whole[:3]), strict=True):
        np.testing.assert_array_equal(one, other)


def intervals(filter: Filter, x: np.ndarray) -> list[np.ndarray]:
    """One row ahead and three rows ahead of every row, live."""
    live, found = Live(filter, len(x)), []
    for row in x.swapaxes(0, 1):
        live.update(row)
        found += [np.stack(live.forecast(3, coverage=0.9)[1:])]
    return found


def test_live_streams_and_files_say_the_same(tmp_path: Path) -> None:
    model, cut = fitted(), gappy()[1][:6]
    low, high = model.predict_interval(cut, 1, 0.9)
    model.save(tmp_path / "model")
    read = load(tmp_path / "model")
    for filter in (model.filter_, read):
        live = np.stack([ahead[:, :, 0] for ahead in intervals(filter, cut)], axis=2)[:, :, :-1]
        np.testing.assert_allclose(live, np.stack([low, high])[:, :, 1:], rtol=0, atol=1e-10)


def test_a_filter_that_fills_gaps_in_is_left_alone() -> None:
    filled = replace(fitted().filter_, gaps="filled", in_gaps=None)
    assert with_gaps_measured(filled, [(filled, Trajectories.of(jumps(4, 50, 2)))]) is filled


def test_short_recordings_have_short_gaps() -> None:
    """A gap has two rows at least: its first row is predicted as if there were no gap."""
    filter = replace(fitted().filter_, in_gaps=None)
    found = [with_gaps_measured(filter, [(filter, Trajectories.of(jumps(20, rows, 3)))]).in_gaps for rows in (3, 4)]
    assert found[0] is None
    assert found[1] is not None
    assert np.isfinite(found[1].quantiles).all()


def test_the_first_gaps_of_recordings_tell_as_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wide filters are tried on the first rows of recordings only."""
    filter, held = replace(fitted().filter_, in_gaps=None), Trajectories.of(jumps(60, 400, 5))
    whole = with_gaps_measured(filter, [(filter, held)]).in_gaps
    monkeypatch.setattr(psimlearn.evaluate.hidden, "WIDE", 1)
    first = with_gaps_measured(filter, [(filter, held)]).in_gaps
    assert whole is not None
    assert first is not None
    assert first.factor != whole.factor
    np.testing.assert_allclose(first.factor, whole.factor, rtol=0.15)
    upper = slice(len(whole.quantiles) // 2, -1)  # of which intervals are made
    np.testing.assert_allclose(first.quantiles[upper], whole.quantiles[upper], rtol=0.2)
