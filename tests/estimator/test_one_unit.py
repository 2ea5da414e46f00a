"""One unit for all channels: those that vary most count most, in regressions and in the choice of settings."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge as SklearnRidge

import psimlearn
from commands import run
from psimlearn import PSIM, Trajectories
from psimlearn.errors import DataError, SettingsError
from psimlearn.filter import Stack
from psimlearn.learners import Ridge
from psimlearn.train import Recipe, dagger
from small import ONE

RNG = np.random.default_rng
SIZES = np.array([10.0, 1.0, 0.1])


def recordings(seed: int = 0, m: int = 12, rows: int = 60) -> list[np.ndarray]:
    """Three channels of one unit: the first is a hundred times as large as the last."""
    rng, found = RNG(seed), []
    for _ in range(m):
        x = np.zeros((rows, 3))
        for t in range(1, rows):
            x[t] = 0.8 * x[t - 1] + 0.3 * x[t - 1, [1, 2, 0]] + rng.standard_normal(3)
        found.append(5.0 + SIZES * x)
    return found


def test_an_autoregression_is_scikit_learns_in_one_unit() -> None:
    train, alpha, lags = recordings(), 1e-2, 2
    data = Trajectories.of(train)
    recipe = Recipe(lags=lags, belief_weight=0.0, one_unit=True, skip=lags - 1)
    (first,) = dagger(data, data, Stack(1), Ridge(alpha), rng=RNG(0), n_rounds=0, recipe=recipe)
    unit = np.sqrt(data.values.var(axis=0).mean())
    seen = [(x - data.values.mean(axis=0)) / unit for x in train]
    z = np.concatenate([np.hstack([x[1:-1], x[:-2]]) for x in seen])
    y = np.concatenate([x[2:] for x in seen])
    other = SklearnRidge(alpha * len(z)).fit(z, y)
    new = recordings(1, m=1)[0]
    standardised = (new - data.values.mean(axis=0)) / unit
    expected = other.predict(np.hstack([standardised[1:-1], standardised[:-2]])) * unit + data.values.mean(axis=0)
    np.testing.assert_allclose(first.filter.forecast(Trajectories.of([new]), 1)[2:, 0], expected, rtol=1e-9)


def test_errors_count_in_one_unit() -> None:
    train, held = recordings(), Trajectories.of(recordings(1, m=4))
    fitted = PSIM(**ONE | {"one_unit": True, "criterion": "one-step", "validation": held, "refit": False}).fit(train)
    gap = held.values - fitted.filter_.forecast(held, 1)[:, 0]
    unit = np.sqrt(np.concatenate(train).var(axis=0).mean())
    chosen = fitted.report_["choices"]["error"]
    later = np.tile(np.arange(60) >= 10, 4)  # first rows of long recordings are not scored
    expected = [np.mean(np.sum((gap[rows] / unit) ** 2, axis=1)) for rows in (slice(None), later)]
    assert any(chosen == pytest.approx(each, rel=1e-9) for each in expected)
    assert fitted.report_["units"] == "common units"
    assert "common units" in fitted.summary()


def test_large_channels_are_predicted_better_in_one_unit() -> None:
    """With a penalty that matters, and noise: the sum of errors in the units of the recordings is less."""
    noise = RNG(7)
    noisy = [x + noise.standard_normal(x.shape) for x in recordings()]  # the smallest channel is lost in noise
    test = recordings(1)
    errors = []
    for one_unit in (True, False):
        fitted = PSIM(**ONE | {"one_unit": one_unit, "learner": Ridge(0.1), "lags": 3}).fit(noisy)
        gap = np.concatenate(fitted.predict(test)) - np.concatenate(test)
        errors.append(np.mean(np.sum(gap**2, axis=1)))
    assert errors[0] < 0.97 * errors[1]


@pytest.mark.parametrize("unit", [1e-3, 1e3])
def test_the_unit_of_all_recordings_does_not_matter(unit: float) -> None:
    settings: dict[str, Any] = {"window": 2, "one_unit": True, "n_rounds": 2, "random_state": 0}
    ours = PSIM(**settings).fit(recordings())
    scaled = PSIM(**settings).fit([unit * x for x in recordings()])
    new = recordings(1, m=1)
    np.testing.assert_allclose(scaled.predict([unit * new[0]])[0], unit * ours.predict(new)[0], rtol=1e-7)


def test_new_recordings_are_compared_with_the_deviation_of_each_channel() -> None:
    """In one unit the smallest channel is never far from its mean, whatever its unit is."""
    fitted = PSIM(**ONE | {"one_unit": True}).fit(recordings())
    wrong = [x * [1.0, 1.0, 100.0] for x in recordings(1)]
    with pytest.raises(DataError, match=r"channel 2: .* times as far"):
        fitted.partial_fit(wrong)
    fitted.predict([1e3 * x for x in recordings(1)])  # one unit is no range: no channel is said to be far outside


def test_a_file_keeps_the_unit(tmp_path: Path) -> None:
    fitted = PSIM(**ONE | {"one_unit": True}).fit(recordings())
    fitted.save(tmp_path / "model.psim", with_sums=True)
    again, new = PSIM.load(tmp_path / "model.psim"), recordings(1, m=2)
    assert again.one_unit is True
    assert again.recipe_.one_unit is True
    np.testing.assert_array_equal(again.predict(new)[0], fitted.predict(new)[0])
    np.testing.assert_array_equal(
        psimlearn.load(tmp_path / "model.psim").forecast(Trajectories.of(new), 1)[:, 0],
        np.concatenate(fitted.predict(new)),
    )
    fitted.partial_fit(recordings(2, m=1))
    again.partial_fit(recordings(2, m=1))
    np.testing.assert_array_equal(again.predict(new)[0], fitted.predict(new)[0])


@pytest.mark.parametrize(("one_unit", "units"), [(True, "common units"), (False, "standard deviations")])
def test_the_command_line_names_the_units(
    one_unit: bool, units: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    PSIM(**ONE | {"one_unit": one_unit}).fit(recordings()).save(tmp_path / "model.psim")
    rows = ["a,b,c", *(",".join(map(repr, row)) for row in recordings(1, m=1)[0].tolist())]
    (tmp_path / "new.csv").write_text("\n".join(rows) + "\n")
    assert run("evaluate", tmp_path / "model.psim", tmp_path / "new.csv") == 0
    assert f"squared error by steps ahead, in {units}, channels summed" in " ".join(capsys.readouterr().out.split())


def test_one_unit_needs_units() -> None:
    with pytest.raises(SettingsError, match="one_unit: True required standardise=True, received False"):
        Recipe(one_unit=True, standardise=False)
    with pytest.raises(SettingsError, match="one_unit: required False for symbols, received True"):
        PSIM(features="onehot", one_unit=True).fit([list("abab"), list("babba")])
