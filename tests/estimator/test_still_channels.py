"""A channel that never moves, or only counts, beside every kind of gap: each answer is a number, and the right one.

What the third channel is at every row, seen or not, is known without a model, and answers are held to it.
"""

import json
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import psimlearn
from psimlearn import PSIM, DivergedError, Filter, Trajectories
from psimlearn.choose.finite import check_filter
from psimlearn.filter.uncertainty import Calibration
from small import ONE, model, several

ROWS, SETTLED = 40, 12
CHANNELS = {"constant": np.full(ROWS, 7.0), "label": np.zeros(ROWS), "counter": np.arange(float(ROWS))}
GAPS = ("empty rows", "one channel out", "single cells", "late start")
CLOSE = {"constant": 1e-9, "label": 1e-9, "counter": 1.0}
"""In the channel's own units, for each row that is predicted ahead: a counter that is held would be so far off."""
cases = pytest.mark.parametrize(("kind", "gaps"), list(product(CHANNELS, GAPS)))


def gappy(kind: str, gaps: str, seed: int) -> list[np.ndarray]:
    """Recordings of two noisy channels and one that never moves or only counts, with gaps in all but the first."""
    rng, parts = np.random.default_rng(seed), []
    for _ in range(8):
        state, rows = np.zeros(2), []
        for t in range(ROWS):
            state = np.array([[0.9, 0.2], [-0.2, 0.9]]) @ state + 0.3 * rng.standard_normal(2)
            rows.append([*(state + 0.1 * rng.standard_normal(2)), CHANNELS[kind][t]])
        parts.append(np.array(rows))
    for part in parts[1:]:
        if gaps == "empty rows":
            part[20:26] = np.nan
        elif gaps == "one channel out":
            part[20:26, 2] = np.nan
        elif gaps == "single cells":
            part[rng.random(part.shape) < 0.1] = np.nan
        else:
            part[:6] = np.nan
    return parts


@cache
def fitted(kind: str, gaps: str) -> PSIM:
    return PSIM(**ONE | {"lags": 2, "prior": "last"}).fit(gappy(kind, gaps, 0))


def third(answers: list[np.ndarray]) -> np.ndarray:
    """Answers about the third channel, once a recording has begun in earnest."""
    assert all(np.isfinite(part).all() for part in answers)
    return np.array([part[SETTLED:, 2] for part in answers])


@cases
def test_predictions_and_intervals_hold_the_channel(kind: str, gaps: str) -> None:
    fit, data, truth = fitted(kind, gaps), gappy(kind, gaps, 5), CHANNELS[kind][SETTLED:]
    for horizon in (1, 3):
        predicted = third(fit.predict(data, horizon))
        low, high = map(third, fit.predict_interval(data, horizon, coverage=0.9))
        assert np.abs(predicted - truth).max() < horizon * CLOSE[kind]
        held = np.mean((low - 1e-9 <= truth) & (truth <= high + 1e-9))
        assert held == 1.0 if kind != "counter" else held > 0.8
        assert (high - low).max() < 0.01 if kind != "counter" else 1.0
    mean, low, high = fit.forecast(data, 4, coverage=0.9)
    assert np.isfinite([mean, low, high]).all()


@cases
def test_alarms_do_not_ring_for_it_and_scores_are_numbers(kind: str, gaps: str) -> None:
    fit, data = fitted(kind, gaps), gappy(kind, gaps, 5)
    alarm, channel, score = fit.alarms(data, rate=0.01)
    assert np.isfinite(np.concatenate([*score, *fit.score_samples(data)])).all()
    assert np.concatenate(alarm).mean() < 0.15
    if kind != "counter":
        assert 2 not in np.concatenate(channel)[np.concatenate(alarm)]


@cases
def test_smoothing_fills_it_in(kind: str, gaps: str) -> None:
    data = gappy(kind, gaps, 5)
    mean, std = fitted(kind, gaps).smooth(data, return_std=True)
    for part, smoothed, deviation in zip(data, mean, std, strict=True):
        seen = ~np.isnan(part)
        np.testing.assert_array_equal(smoothed[seen], part[seen])
        assert not deviation[seen].any()
        assert np.isfinite(deviation).all()
        off = np.abs(smoothed[:, 2] - CHANNELS[kind])
        assert (off < np.maximum(CLOSE[kind], 3 * deviation[:, 2] * (gaps == "late start"))).all()


@cases
def test_it_is_saved_loaded_and_exported(kind: str, gaps: str, tmp_path: Path) -> None:
    fit, data = fitted(kind, gaps), gappy(kind, gaps, 5)
    fit.save(tmp_path / "model.psim")
    loaded = psimlearn.PSIM.load(tmp_path / "model.psim")
    for mine, its in zip(fit.predict_interval(data), loaded.predict_interval(data), strict=True):
        np.testing.assert_array_equal(np.concatenate(mine), np.concatenate(its))
    np.testing.assert_array_equal(
        np.concatenate(fit.alarms(data, 0.01).score), np.concatenate(loaded.alarms(data, 0.01).score)
    )
    for name in ("model.h", "model.json"):
        fit.export(tmp_path / name)
    numbers = json.loads((tmp_path / "model.json").read_text(), parse_constant=pytest.fail)  # NaN, Infinity
    assert np.isfinite(numbers["V"]).all()
    header = (tmp_path / "model.h").read_text()
    values = header[header.index("_mean[") : header.index("/* Keep feedback")]
    assert "nan" not in values
    assert "inf" not in values


def test_a_filter_with_anything_that_is_no_number_is_refused_and_the_channel_is_named() -> None:
    filter, data = model().filter_, Trajectories.of(several())
    unseen, held = [(filter, data)], filter.calibration
    check_filter(filter, unseen)

    def spoilt(part: np.ndarray, *place: int, value: float = np.nan) -> np.ndarray:
        copy = part.copy()
        copy[place] = value
        return copy

    assert held is not None
    assert filter.starting is not None
    broken: list[tuple[Filter, str]] = [
        (replace(filter, calibration=held._replace(base=spoilt(held.base, 0, 1))), "calibration.base of channel 1"),
        (replace(filter, calibration=held._replace(gain=spoilt(held.gain, 2, 0, value=np.inf))), "gain of channel 0"),
        (replace(filter, names=("a", "b"), covariance=spoilt(filter.covariance, 1, 0)), "covariance of channel 'a'"),
        (replace(filter, initial=spoilt(filter.initial, 2)), "others in initial[.]"),
    ]
    for other, words in broken:
        with pytest.raises(DivergedError, match=words):
            check_filter(other, unseen)
    far = held._replace(base=spoilt(held.base, -1, 1))  # no recording was so long
    check_filter(replace(filter, calibration=far), unseen)
    hidden = replace(data, values=np.where([False, True], np.nan, data.values))
    nothing = Calibration(spoilt(held.base, 0, 1), held.gain, held.quantiles)
    check_filter(replace(filter, calibration=nothing), [(filter, hidden)])  # channel 1 was seen in training only
