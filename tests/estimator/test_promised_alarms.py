"""Alarms of a fitted model: thresholds in the model and its file, rates as promised, words for what cannot be done."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from psimlearn import PSIM
from psimlearn.datasets import long_memory_system
from psimlearn.errors import DataError, SettingsError
from small import ONE, driven, several, with_inputs

SYSTEM = long_memory_system()


@cache
def new(m: int = 1000) -> np.ndarray:
    return SYSTEM.simulate(m, 60, np.random.default_rng(1)).values.reshape(m, 60, 2)


def fitted() -> PSIM:
    """A model of its own for each test, as thresholds may be set."""
    model = PSIM()
    model.__dict__.update(_fitted().__dict__)
    return model


@cache
def _fitted() -> PSIM:
    data = SYSTEM.simulate(200, 60, np.random.default_rng(0))
    return PSIM(window=3, lags=2, random_state=0).fit(data)


def test_false_alarms_are_as_rare_as_promised() -> None:
    """Measured on five sets of 60 000 rows: .89 to .96 times the rate .01 (600 alarms), .73 to 1.07 times .001 (60)."""
    model = fitted()
    for rate, least, most in ((1e-2, 0.8, 1.1), (1e-3, 0.6, 1.3)):
        low = model.alarms(new()).score < model.alarm_threshold(rate=rate)
        assert least * rate < low.mean() < most * rate


def test_false_alarms_in_first_rows_are_as_rare_as_promised() -> None:
    """Measured on four sets of 20 000 recordings of one row: 1.1 to 1.3 times the rate .01, 1.1 to 1.3 times .001."""
    model, rows = fitted(), SYSTEM.simulate(20_000, 1, np.random.default_rng(1)).values.reshape(-1, 1, 2)
    score = model.alarms(rows).score
    for rate in (1e-2, 1e-3):
        assert 0.7 * rate < (score < model.alarm_threshold(rate=rate)).mean() < 1.5 * rate


def test_false_alarms_stay_rare_in_gaps() -> None:
    """At the rate .01, measured on four sets: .96 to 1.32 in rows seen in part (250 alarms), 1.09 to 1.23 in others."""
    model, rng = fitted(), np.random.default_rng(2)
    x = np.where(rng.random(new().shape) < 0.3, np.nan, new())
    low, missing = model.alarms(x).score < model.alarm_threshold(rate=1e-2), np.isnan(x)
    for rows in (missing.any(axis=2) & ~missing.all(axis=2), ~missing.any(axis=2)):
        assert 0.8e-2 < low[rows].mean() < 1.4e-2


def test_the_file_keeps_thresholds_and_the_rate(tmp_path: Path) -> None:
    model = fitted()
    threshold = model.alarm_threshold(rate=2e-2)
    model.save(tmp_path / "a.psim")
    again = PSIM.load(tmp_path / "a.psim")
    assert again.alarm_threshold(rate=2e-2) == threshold
    for before, after in zip(model.alarms(new(20)), PSIM.load(tmp_path / "a.psim").alarms(new(20)), strict=True):
        np.testing.assert_array_equal(before, after)
    assert model.alarms(new(20)).alarm.sum() > model.alarms(new(20), rate=1e-3).alarm.sum()


def test_thresholds_can_be_measured_anew() -> None:
    model = fitted()
    wild = np.random.default_rng(3).permuted(new(100), axis=1)
    threshold = model.alarm_threshold(wild, rate=1e-2)
    assert threshold < fitted().alarm_threshold(rate=1e-2)
    assert np.mean(model.alarms(wild).score < threshold) == pytest.approx(1e-2, abs=2e-4)


def test_models_without_thresholds_say_what_to_do() -> None:
    model = fitted()
    model.filter_ = replace(model.filter_, thresholds=None)
    for ask in (lambda: model.alarms(new(2)), lambda: model.start(alarm=1e-3), model.alarm_threshold):
        with pytest.raises(SettingsError, match="Call alarm_threshold with normal recordings, or fit again"):
            ask()
    model.alarm_threshold(new(100))
    assert not model.start(alarm=1e-2).alarm


@pytest.mark.parametrize("rate", [0.0, -1.0, 0.2, np.nan, 1e-9])
def test_rates_that_cannot_be_kept_are_refused(rate: float) -> None:
    model = fitted()
    for ask in (model.alarm_threshold, lambda rate: model.alarms(new(2), rate), lambda rate: model.start(alarm=rate)):
        with pytest.raises(SettingsError, match="rate: required"):
            ask(rate=rate)


def test_a_model_that_is_not_fitted_and_recordings_of_nothing() -> None:
    with pytest.raises(NotFittedError):
        PSIM().alarm_threshold()
    with pytest.raises(DataError, match="required recordings with observed rows"):
        fitted().alarm_threshold([np.full((5, 2), np.nan)])


def test_frames_are_answered_in_their_order_and_channels_by_name() -> None:
    frames = [pd.DataFrame(part, columns=["u", "v"]) for part in several()]
    model = PSIM(**ONE).fit(frames)
    frames[1].loc[5, "v"] = 1e3
    alarm, channel, score = model.alarms(frames, rate=0.05)
    assert alarm[1]["alarm"][5]
    assert channel[1]["channel"][5] == "v"
    assert [len(part) for part in score] == [len(frame) for frame in frames]


def test_alarms_with_inputs_live_and_whole() -> None:
    data = with_inputs(3, seed=5)
    x, u = (np.array(part).reshape(3, 15, 1) for part in (data.values, data.inputs))
    x[0, 7] += 3.0
    alarm = driven().alarms(replace(data, values=x.reshape(-1, 1)), rate=0.05).alarm
    assert alarm[0][7]
    live = driven().start(3, alarm=0.05)
    for t in range(15):
        live.update(x[:, t], u[:, t])
        assert live.alarm.tolist() == [part[t] for part in alarm]


def test_symbols_ring_too() -> None:
    rng = np.random.default_rng(0)
    rows = [["ab"[(t + i) % 2] if rng.random() > 0.02 else "c" for t in range(30)] for i in range(40)]
    model = PSIM(window=1, features="onehot", n_rounds=1, lags=2, random_state=0).fit(rows)
    alarm = model.alarms([list("abababababccccccabab")], rate=1e-2)
    assert not alarm.alarm[0][:10].any()
    assert alarm.alarm[0][11:16].all()
    live = model.start(alarm=1e-2)
    for symbol, rings in zip("abababababccccccabab", alarm.alarm[0], strict=True):
        live.update(symbol)
        assert live.alarm == rings
