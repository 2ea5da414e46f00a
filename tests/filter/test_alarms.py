"""Alarms: thresholds, hysteresis, the channel, and the same alarms from whole recordings, live streams and a pipe."""

from functools import cache
from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2, genpareto

from models import gappy
from psimlearn import PSIM
from psimlearn.errors import SettingsError
from psimlearn.filter.alarms import CALM, Bell, Scored, ringing
from psimlearn.filter.likelihood import contributions, log_likelihood
from psimlearn.filter.thresholds import RATES, Thresholds, thresholds_of
from small import ONE

RNG = np.random.default_rng
BELL = Bell(-3.0, -1.0, np.zeros(1, dtype=bool), np.zeros(1, dtype=np.int64))


def scored(*scores: float) -> Scored:
    """Rows with these scores; NaN for a row in which nothing was observed."""
    score = np.array(scores)
    return Scored(np.where(np.isnan(score), 0.0, score), ~np.isnan(score))


def one_by_one(bell: Bell, rows: Scored) -> list[bool]:
    rings = []
    for score, seen in zip(*rows, strict=True):
        bell = bell.after(Scored(np.array([score]), np.array([seen])))
        rings.append(bool(bell.rings[0]))
    return rings


def test_an_alarm_begins_at_the_threshold_and_ends_after_calm_rows() -> None:
    rows = scored(0, -2, -4, 0, -2, *[0] * CALM, 0, -2)
    assert one_by_one(BELL, rows) == [False, False, True, True, True, *[True] * (CALM - 1), False, False, False]


def test_rows_without_observation_neither_begin_nor_end_an_alarm() -> None:
    rows = scored(np.nan, -4, *[np.nan] * 20, *[0] * (CALM - 1), np.nan, 0)
    assert one_by_one(BELL, rows) == [False, *[True] * (20 + CALM + 1), False]


@given(st.lists(st.lists(st.sampled_from([-4.0, -2.0, 0.0, 0.0, 0.0, np.nan]), min_size=1, max_size=30), min_size=1))
def test_whole_recordings_ring_as_rows_do_one_by_one(recordings: list[list[float]]) -> None:
    offsets = np.cumsum([0, *map(len, recordings)])
    rings = ringing(BELL, scored(*chain(*recordings)), offsets)
    assert rings.tolist() == list(chain(*(one_by_one(BELL, scored(*part)) for part in recordings)))


def measured(scores: np.ndarray) -> Thresholds:
    found = thresholds_of(scores)
    assert found is not None
    return found


@pytest.mark.parametrize("n", [200, 999, 1000, 1001, 12_345])
def test_the_place_of_a_threshold_by_counting(n: int) -> None:
    """A new score lies below the kth smallest of n normal ones k times in n + 1: k is the largest within the rate."""
    scores = RNG(n).standard_normal(n)
    places = RATES * (n + 1)
    for place, threshold in zip(places[places >= 20], measured(scores).scores[places >= 20], strict=True):
        assert threshold in scores
        below = (scores <= threshold).sum()
        assert below <= place < below + 1
    assert (places >= 20).sum() >= 2


def test_the_tail_of_thresholds_is_scipys_generalised_pareto() -> None:
    """Its shape and scale by Hosking and Wallis (1987), from the 400 lowest of 8000 scores."""
    scores = np.sort(RNG(3).standard_t(4, 8000))
    excess = np.sort(scores[399] - scores[:399])
    mean, weighted = excess.mean(), np.mean(excess * (1 - (np.arange(1, 400) - 0.35) / 399))
    tail = genpareto(2 - mean / (mean - 2 * weighted), scale=2 * mean * weighted / (mean - 2 * weighted))
    rates = RATES[RATES * 8001 < 20]
    assert 0.05 < tail.args[0] < 0.5
    np.testing.assert_allclose(
        measured(scores).scores[: len(rates)], scores[399] - tail.isf(rates * 8001 / 400), rtol=1e-9
    )


def test_thresholds_go_on_beyond_the_rows() -> None:
    """Half a chi-square of two channels is exponential, so that every threshold is known: 1 + log(rate).

    Measured: .005 beyond the rows, and .036 where the place of a quantile is rounded down from 31.6 to 31.
    """
    found = measured(1 + np.log((np.arange(1, 10_001) - 0.5) / 10_000))
    beyond = RATES < 20 / 10_001
    np.testing.assert_allclose(found.scores[beyond], 1 + np.log(RATES[beyond]), atol=0.006, rtol=0)
    np.testing.assert_allclose(found.scores[~beyond], 1 + np.log(RATES[~beyond]), atol=0.04, rtol=0)
    assert (np.diff(found.scores) >= 0).all()


def test_small_rates_are_exceeded_as_promised_on_average() -> None:
    """From 2000 rows, one alarm in 1000: the shares of new rows below the threshold, over 200 sets of rows.

    Measured with eight seeds: .86 to .99 in 1000 on average, 5 % of the sets below .30 to .39, 5 % above 1.4 to 1.8.
    """
    rng = RNG(1)
    shares = [np.exp(measured(1 - rng.exponential(size=2000)).at(1e-3) - 1) for _ in range(200)]
    assert 0.8e-3 < np.mean(shares) < 1.1e-3
    assert np.quantile(shares, 0.05) > 0.25e-3
    assert np.quantile(shares, 0.95) < 2e-3


def test_a_rate_too_small_for_the_rows_measured_is_refused() -> None:
    found = measured(RNG(0).standard_normal(100))
    assert found.checked(1e-3) == 1e-3
    with pytest.raises(SettingsError, match=r"required at least 0\.001 for thresholds measured on 100 rows"):
        found.checked(1e-4)
    with pytest.raises(SettingsError, match=r"above 0 to 0\.1"):
        found.checked(0.5)


def test_scores_that_are_infinite_or_equal() -> None:
    found = measured(np.full(1000, -np.inf))
    assert np.isfinite(found.scores).all()
    found = measured(np.zeros(1000))
    assert (found.scores == 0).all()
    assert thresholds_of(np.empty(0)) is None


# -- a model of recordings with gaps -----------------------------------------------------------------------------------


@cache
def model_of_gappy() -> PSIM:
    return PSIM(**ONE).fit(gappy(1))


def struck() -> list[np.ndarray]:
    parts = [part.values.copy() for part in gappy(2, n=4)]
    parts[0][20, 1] += 30.0
    parts[1][10:12] = np.nan
    parts[1][12, 0] -= 30.0
    parts[2][0, 1] = 1e100
    parts[3][:3] = np.nan
    return parts


def test_the_same_alarms_live_in_a_bank_and_from_whole_recordings() -> None:
    model, parts = model_of_gappy(), struck()
    alarm, channel, _ = model.alarms(parts, rate=1e-2)
    assert channel[0][:21].tolist() == [None] * 20 + ["b"]
    assert channel[1][:13].tolist() == [None] * 12 + ["force <N>"]
    assert channel[2][0] == "b"
    assert not alarm[3][:3].any()
    bank = model.start(len(parts), alarm=1e-2)
    lives = [model.start(alarm=1e-2) for _ in parts]
    assert (lives[0].alarm, lives[0].alarm_channel) == (False, None)
    for t in range(len(parts[0])):
        bank.update(np.array([part[t] for part in parts]))
        assert bank.alarm.tolist() == [bool(part[t]) for part in alarm]
        assert bank.alarm_channel.tolist() == [part[t] for part in channel]
        for i, live in enumerate(lives):
            live.update(parts[i][t])
            assert live.alarm is bool(alarm[i][t])
            assert live.alarm_channel == channel[i][t]


def test_reset_ends_alarms_and_copies_are_apart() -> None:
    live = model_of_gappy().start(2, alarm=1e-2)
    live.update(np.full((2, 2), 100.0))
    twin = live.copy()
    live.reset(0)
    assert live.alarm.tolist() == [False, True]
    assert twin.alarm.tolist() == [True, True]


def test_alarms_must_be_asked_for_at_the_start() -> None:
    live = model_of_gappy().start()
    live.update([0.0, 0.0])
    with pytest.raises(SettingsError, match=r"start\(alarm=0\.001\)"):
        _ = live.alarm


def test_scores_of_whole_rows_are_relative_likelihoods() -> None:
    model, new = model_of_gappy(), gappy(3)
    whole = ~np.isnan(new.values).any(axis=1)
    relative, score = map(np.concatenate, (model.score_samples(new, relative=True), model.alarms(new).score))
    np.testing.assert_allclose(score[whole], relative[whole], rtol=1e-12)
    assert (score[~whole] != relative[~whole]).all()


def test_rows_seen_in_part_are_as_improbable_as_their_scores_say() -> None:
    """Against scipy: a row with 1 of 2 channels gets the score of a whole row with the same tail probability."""
    model, new = model_of_gappy(), gappy(3)
    part = np.isnan(new.values).any(axis=1)
    distance = 1 - 2 * np.concatenate(model.score_samples(new, relative=True))[part]
    as_whole = 2 - 2 * np.concatenate(model.alarms(new).score)[part]
    far = distance > 0.5
    np.testing.assert_allclose(chi2.logsf(as_whole[far], 2), chi2.logsf(distance[far], 1), atol=0.05)


def test_a_channel_contributes_the_drop_in_distance_without_it() -> None:
    filter, rng = model_of_gappy().filter_, RNG(0)
    before, x = filter.start(50), rng.standard_normal((50, 2))
    whole = log_likelihood(filter, before, x, relative=True)
    without = [np.where(np.arange(2) == c, np.nan, x) for c in range(2)]
    drops = [1 + 2 * (log_likelihood(filter, before, left, relative=True) - whole) for left in without]
    shares = contributions(filter, before, x)
    np.testing.assert_allclose(shares[:, 0] / shares[:, 1], drops[0] / drops[1], rtol=1e-6)
