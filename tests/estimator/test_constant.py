"""Channels that never change in training: told at fit, and without part in likelihoods and calibration."""

from functools import cache

import numpy as np
import pytest

from psimlearn import PSIM
from psimlearn.evaluate.residuals import coverage
from psimlearn.recordings.trajectories import Trajectories
from small import ONE, several


def beside(label: float, seed: int = 0) -> list[np.ndarray]:
    return [np.concatenate([part, np.full((len(part), 1), label)], axis=1) for part in several(seed)]


@cache
def fitted(label: float = 0.0) -> PSIM:
    names = ("a", "b", "label")
    return PSIM(**ONE).fit(Trajectories.of(beside(label), names=names))


@pytest.mark.parametrize("label", [0.0, 3.7, -1e9])
def test_a_constant_channel_has_no_part_in_likelihoods(label: float) -> None:
    """Scores are about those of the other channels alone; the channel would add 25 nats, or -5e23 where it moves."""
    expected = np.concatenate(PSIM(**ONE).fit(several()).score_samples(several(1)))
    for later in (label, label + 1.0):
        found = np.concatenate(fitted(label).score_samples(beside(later, 1)))
        assert np.isfinite(found).all()
        assert np.median(np.abs(found - expected)) < 0.5


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
