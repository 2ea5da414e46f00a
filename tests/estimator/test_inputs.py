"""Intervals of a model with inputs hold their share whether or not the inputs to come are known."""

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from psimlearn import PSIM, Trajectories
from psimlearn.errors import DataError, SettingsError
from psimlearn.filter.live import Live

WINDOW, LENGTH, N_TEST = 5, 100, 4000
KINDS = ["through the state", "at once"]
SETTINGS: dict[str, Any] = {
    "window": WINDOW,
    "lags": 1,
    "prior": "mean",
    "belief_weight": 1.0,
    "n_rounds": 3,
    "random_state": 0,
}


def simulated(kind: str, m: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Observations and inputs of s' = .8 s + u + noise; inputs also act on the observation of their row if at once."""
    rng = np.random.default_rng(seed)
    u, s, x = rng.standard_normal((m, LENGTH, 1)), rng.standard_normal((m, 1)), []
    for t in range(LENGTH):
        at_once = 0.7 * u[:, t] + 0.1 * rng.standard_normal((m, 1)) if kind == "at once" else 0.0
        x.append(s + at_once)
        s = 0.8 * s + u[:, t] + 0.1 * rng.standard_normal((m, 1))
    return np.stack(x, axis=1), u


@cache
def fitted(kind: str) -> PSIM:
    x, u = simulated(kind, 600, 0)
    return PSIM(**SETTINGS, feedthrough=kind == "at once").fit(Trajectories.of(x, inputs=u))


@cache
def unseen(kind: str) -> tuple[Trajectories, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """New recordings up to their last rows, as trajectories and as arrays, then those rows and their inputs."""
    x, u = simulated(kind, N_TEST, 1)
    past, now = x[:, :-WINDOW], u[:, :-WINDOW]
    return Trajectories.of(past, inputs=now), past, now, x[:, -WINDOW:], u[:, -WINDOW:]


def shares(bounds: Sequence[np.ndarray], truth: np.ndarray) -> np.ndarray:
    """The share of observations within lower and upper bounds, by steps ahead."""
    low, high = bounds
    return np.asarray(((low <= truth) & (truth <= high)).mean(axis=(0, 2)))


def played(live: Live, past: np.ndarray, inputs: np.ndarray, next_u: np.ndarray | None = None) -> Live:
    """A bank of streams that has taken all rows; without `next_u` no update is told the inputs of the next row."""
    following = [None] * past.shape[1] if next_u is None else [*inputs.swapaxes(0, 1)[1:], next_u]
    for t in range(past.shape[1]):
        live.update(past[:, t], inputs[:, t], following[t])
    return live


def within_two_points(found: np.ndarray, coverage: float = 0.9) -> None:
    assert (np.abs(found - coverage) <= 0.02).all(), found


@pytest.mark.parametrize("kind", KINDS)
def test_intervals_hold_with_inputs_known_and_unknown(kind: str) -> None:
    """4000 forecasts: one standard deviation of a share is .5 points."""
    model, (recordings, _, _, truth, inputs) = fitted(kind), unseen(kind)
    _, *unknown = model.forecast(recordings, WINDOW, coverage=0.9)
    _, *known = model.forecast(recordings, WINDOW, future_inputs=inputs, coverage=0.9)
    within_two_points(shares(unknown, truth))
    within_two_points(shares(known, truth))
    assert np.median((unknown[1] - unknown[0])[:, -1] / (known[1] - known[0])[:, -1]) > 3


@pytest.mark.parametrize("kind", KINDS)
def test_live_intervals_are_those_of_the_batch(kind: str) -> None:
    model, (recordings, past, now, _, inputs) = fitted(kind), unseen(kind)
    live = played(model.start(N_TEST), past, now)
    for future in (None, inputs):
        ours = live.forecast(WINDOW, coverage=0.9, future_inputs=future)
        theirs = model.forecast(recordings, WINDOW, future_inputs=future, coverage=0.9)
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_an_update_that_was_told_the_next_inputs_knows_these_and_no_more(kind: str) -> None:
    model, (_, past, now, truth, inputs) = fitted(kind), unseen(kind)
    live = played(model.start(N_TEST), past, now, inputs[:, 0])
    _, *bounds = live.forecast(WINDOW, coverage=0.9)
    within_two_points(shares(bounds, truth))
    mean, low, high = live.predict(1, coverage=0.9)
    within_two_points(shares((low[:, None], high[:, None]), truth[:, :1]))
    known = model.filter_.calibration
    assert known is not None
    np.testing.assert_allclose((high - mean).std(), 0, atol=1e-9)
    np.testing.assert_allclose(
        live.predict(1, return_std=True)[1][0], np.sqrt(known.base[0]) * model.filter_.scaling.scale, rtol=1e-9
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_gap_widens_intervals_by_as_much_as_if_inputs_were_known(kind: str) -> None:
    """Three rows are not observed, but their inputs are known; up to 92.1 % were held."""
    model, (_, past, now, truth, inputs) = fitted(kind), unseen(kind)
    gap = past.copy()
    gap[:, -3:] = np.nan
    recordings = Trajectories.of(gap, inputs=now)
    for future in (None, inputs):
        _, *bounds = model.forecast(recordings, WINDOW, future_inputs=future, coverage=0.9)
        held = shares(bounds, truth)
        assert (held >= 0.88).all(), held
        assert (held <= 0.93).all(), held


@pytest.mark.parametrize("kind", KINDS)
def test_a_prediction_says_which_inputs_it_knew(kind: str) -> None:
    model, (recordings, _, _, _, inputs) = fitted(kind), unseen(kind)
    filter, at_once = model.filter_, kind == "at once"
    state = filter.run(recordings[:2], inputs[:2, 0])[1]
    assert filter.predict(state, 2, inputs[:2, :2]).inputs == "known"
    assert filter.predict(state, 2).inputs == "unknown"
    assert filter.predict(state, 1).inputs == ("unknown" if at_once else "known")
    assert filter.predict(state, 1, knows_next=True).inputs == "known"
    assert filter.predict(state, 2, knows_next=True).inputs == ("next known" if at_once else "unknown")


@pytest.mark.parametrize("kind", KINDS)
def test_the_report_names_both_errors(kind: str, tmp_path: Path) -> None:
    model, (recordings, _, _, truth, _) = fitted(kind), unseen(kind)
    known = model.report_["errors"]["PSIM"]
    unknown = model.report_["inputs_unknown"]["errors"]["PSIM"]
    scale = model.filter_.scaling.scale
    measured = (((model.forecast(recordings, WINDOW) - truth) / scale) ** 2).mean(axis=(0, 2))
    np.testing.assert_allclose(unknown, measured, rtol=0.15)
    assert unknown[-1] > 10 * known[-1]
    title, same = (line for line in model.summary().splitlines() if line.endswith("known:"))
    assert title.startswith("held-out error by steps ahead")
    assert title.endswith(", inputs to come known:")
    assert same == "the same, inputs to come unknown:"
    model.save(tmp_path / "model")
    loaded = PSIM.load(tmp_path / "model")
    assert loaded.report_ == model.report_
    for ours, theirs in zip(
        loaded.forecast(recordings[:9], WINDOW, coverage=0.9),
        model.forecast(recordings[:9], WINDOW, coverage=0.9),
        strict=True,
    ):
        np.testing.assert_array_equal(ours, theirs)


def test_beyond_the_belief_inputs_are_asked_for() -> None:
    model, (recordings, *_) = fitted("at once"), unseen("at once")
    with pytest.raises(DataError, match=rf"of the next {WINDOW + 1} rows, received none.*at most {WINDOW} steps"):
        model.forecast(recordings[:3], WINDOW + 1)


def test_without_inputs_nothing_is_said_of_them() -> None:
    x, _ = simulated("at once", 30, 0)
    model = PSIM(**SETTINGS).fit(x)
    assert model.filter_.calibration_blind is None
    assert model.filter_.calibration_next is None
    assert "inputs_unknown" not in model.report_
    assert "inputs" not in model.summary()
    assert model.filter_.predict(model.filter_.start(), 3).inputs == "known"


def test_a_filter_of_an_older_file_says_what_to_do() -> None:
    """Its intervals would be too narrow."""
    for kind in KINDS:
        model, (recordings, past, now, _, inputs) = fitted(kind), unseen(kind)
        old = copy(model)
        old.filter_ = replace(model.filter_, calibration_blind=None, calibration_next=None)
        with pytest.raises(SettingsError, match="fit the model again, or give future_inputs"):
            old.forecast(recordings[:3], 2, coverage=0.9)
        assert np.isfinite(old.forecast(recordings[:3], 2)).all()
        assert np.isfinite(old.forecast(recordings[:3], 2, return_std=True, future_inputs=inputs[:3, :2])[1]).all()
        live = played(old.start(3), past[:3], now[:3], inputs[:3, 0])
        assert np.isfinite(live.predict(1, return_std=True)[1]).all()  # depends on no input that is unknown
        with pytest.raises(SettingsError, match="fit the model again"):
            live.forecast(2, return_std=True)
