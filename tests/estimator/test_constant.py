"""Channels that never change in training: told at fit, without part in calibration, and ringing once they move."""

from functools import cache

import numpy as np
import pytest

from psimlearn import PSIM, Recipe
from psimlearn.evaluate.residuals import coverage
from psimlearn.filter.alarms import Alarms, alarm_scores, channels_in_alarm
from psimlearn.filter.likelihood import log_likelihood
from psimlearn.filter.stretches import fresh, take_stretch
from psimlearn.recordings.trajectories import Trajectories
from small import ONE, beside, several
from small import model as other

RATE = 2e-3


@cache
def fitted(label: float = 0.0) -> PSIM:
    names = ("a", "b", "label")
    return PSIM(**ONE).fit(Trajectories.of(beside(label), names=names))


@pytest.mark.parametrize(
    ("label", "floor"), [(0.0, 0.01), (7.0, 0.01), (-3.7, 0.01), (0.2, 0.002), (1e-5, 1e-7), (-1e9, 1e3)]
)
def test_a_constant_channel_takes_from_likelihoods_what_its_move_takes_in_floors(label: float, floor: float) -> None:
    """The floor is a hundredth of 1 or of the constant, whichever is less, but never less than its last digits."""
    expected = np.concatenate(other().score_samples(several(1)))
    stays = np.concatenate(fitted(label).score_samples(beside(label, 1)))
    assert np.median(np.abs(stays - expected)) < 0.5
    for move in (1.0, -0.3):
        moved = np.concatenate(fitted(label).score_samples(beside(label + move, 1)))
        np.testing.assert_allclose(stays - moved, 0.5 * (move / floor) ** 2, rtol=1e-9, atol=1e-9)


def alarms(model: PSIM, rows: np.ndarray) -> Alarms:
    """The alarms of one recording, however far from those of training: its own warning tells of that."""
    return model.filter_.alarms(Trajectories.of([rows]), RATE)


@pytest.mark.parametrize(("label", "other"), [(0.0, 1.0), (7.0, 700.0), (1e-5, 2e-5), (20.5, 20.6)])
def test_an_alarm_rings_as_long_as_it_is_elsewhere(label: float, other: float) -> None:
    """Whole recordings, live streams, banks and stretches of rows; the normal rows of the others do not hide it."""
    model, rows = fitted(label), beside(label, 1)[3]
    rows[8:12, 2] = other
    alarm, channel, score = alarms(model, rows)
    assert alarm[8:12].all()
    assert channel[8:12].tolist() == ["label"] * 4
    calm = alarms(model, beside(label, 1)[3])
    np.testing.assert_array_equal(alarm[:8], calm.alarm[:8])
    np.testing.assert_array_equal(score[12:], calm.score[12:])
    live, bank, nats = (
        model.start(alarm=RATE),
        model.start(2, alarm=RATE),
        model.filter_.log_likelihood(Trajectories.of([rows])),
    )
    for t, row in enumerate(rows):
        live.update(row)
        bank.update(np.array([rows[t - 1], row]))
        assert live.alarm == bank.alarm[1] == alarm[t]
        assert live.alarm_channel == bank.alarm_channel[1] == channel[t]
        assert live.log_likelihood == pytest.approx(nats[t])
    stretch = take_stretch(model.filter_, fresh(model.filter_, 1), rows, None, np.array([len(rows)]))
    x = model.filter_.scaling(rows)
    np.testing.assert_allclose(log_likelihood(model.filter_, stretch.before, x), nats)
    np.testing.assert_allclose(alarm_scores(model.filter_, stretch.before, x).score, score)
    assert channels_in_alarm(model.filter_, alarm, stretch.before, x, None).tolist() == channel.tolist()


def test_it_rings_where_the_other_channels_are_missing_and_nowhere_while_it_stays() -> None:
    model, rows = fitted(), beside(0.0, 1)[3]
    rows[6:10, :2] = np.nan
    still = alarms(model, rows)
    np.testing.assert_array_equal(still.score[6:10], 0.0)
    assert not still.alarm[6:10].any()
    rows[8, 2] = 1.0
    found = alarms(model, rows)
    assert found.score[8] == -5000.0
    assert found.alarm[8]
    assert found.channel[8] == "label"
    live = model.start(alarm=RATE)
    for row, alarm in zip(rows, found.alarm, strict=True):
        live.update(row)
        assert live.alarm == alarm
    rows[8, 2] = 1e300  # out of all squares
    assert alarms(model, rows).score[8] == -np.inf
    assert alarms(model, rows).channel[8] == "label"


def test_other_channels_are_predicted_as_if_it_had_not_moved() -> None:
    for part, moved in zip(beside(7.0, 1), beside(9.0, 1), strict=True):
        part[3:6, 0] = moved[3:6, 0] = np.nan
        stayed, other = (fitted(7.0).predict([rows])[0] for rows in (part, moved))
        np.testing.assert_allclose(other[:, :2], stayed[:, :2], rtol=0, atol=1e-9)


def test_without_standardising_it_is_known_by_where_it_stayed() -> None:
    recipe = Recipe(lags=1, prior="mean", belief_weight=1.0, standardise=False)
    settings = {name: value for name, value in ONE.items() if name not in ("lags", "prior", "belief_weight")}
    model = PSIM(**settings, recipe=recipe).fit(beside(7.0))
    stays, moved = (np.concatenate(model.score_samples(beside(label, 1))) for label in (7.0, 8.0))
    np.testing.assert_allclose(stays - moved, 5000.0, rtol=1e-6)


@pytest.mark.parametrize("label", [0.0, 7.0, -1e9])
def test_predictions_and_intervals_are_the_constant(label: float) -> None:
    """Held to the constant itself, at every horizon and coverage, on the way and ahead."""
    model, data = fitted(label), beside(label, 1)
    for horizon in (1, 4, 30):
        for share in (0.5, 0.99):
            for bound in model.predict_interval(data, horizon, share):
                third = np.concatenate(bound)[:, 2]
                np.testing.assert_allclose(third, label, rtol=1e-12, atol=1e-11)
    mean, low, high = model.forecast(data, 4, coverage=0.9)
    for answer in (mean, low, high):
        np.testing.assert_allclose(answer[..., 2], label, rtol=1e-12, atol=1e-11)
    live = model.start()
    for row in data[0]:
        live.update(row)
        np.testing.assert_allclose([part[2] for part in live.predict(3, coverage=0.9)], label, rtol=1e-12, atol=1e-11)


def test_a_live_filter_agrees() -> None:
    live, rows = fitted().start(), beside(1.0, 1)[0]
    nats = fitted().score_samples([rows])[0]
    for row, expected in zip(rows, nats, strict=True):
        live.update(row)
        assert live.log_likelihood == pytest.approx(expected)


def test_constant_channels_are_told_at_fit(capsys: pytest.CaptureFixture[str]) -> None:
    said = "1 channel never changed in these recordings ('label')"
    assert f"note: {said}" in fitted().summary()
    PSIM(**ONE | {"verbose": True}).fit(beside(0.0))
    assert "1 channel never changed in these recordings (2)" in capsys.readouterr().err
    assert "never changed" not in PSIM(**ONE).fit(several()).summary()


def test_constant_channels_do_not_count_in_coverage() -> None:
    """They lie within every interval, so they would hide intervals that are too narrow."""
    data = Trajectories.of(beside(0.0, 1))
    (share,) = coverage(fitted().filter_, data, 1, [0.5])
    low, high = fitted().predict_interval(data, coverage=0.5)
    others = [(lo <= x.values) & (x.values <= hi) for lo, hi, x in zip(low, high, data, strict=True)]
    assert share == pytest.approx(np.concatenate([part[1:, :2] for part in others]).mean())
