"""Recordings far outside the range of training are told: in Python, live, and on the command line."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from commands import run
from models import gappy, model_of_gappy
from psimlearn import PSIM, Live, PsimlearnWarning, Trajectories
from psimlearn.filter.outside import Outside
from small import driven, model, several, with_inputs


def scaled(factor: float) -> Trajectories:
    data = gappy(2)
    return Trajectories.of(data.unpacked(data.values * [factor, 1.0]), names=data.names)


ASKED: list[Callable[[PSIM, Any], Any]] = [
    PSIM.predict,
    PSIM.transform,
    PSIM.score,
    PSIM.score_samples,
    PSIM.predict_interval,
    PSIM.smooth,
    lambda fitted, data: fitted.forecast(data, 3),
]


@pytest.mark.parametrize("ask", ASKED)
def test_other_units_are_told_with_the_channel_and_the_factor(ask: Callable[[PSIM, Any], Any]) -> None:
    with pytest.warns(PsimlearnWarning, match=r"far outside .*: channel 'force <N>' 1.8e\+03\. Check units") as told:
        ask(model_of_gappy(), scaled(1000.0))
    assert len(told) == 1
    ask(model_of_gappy(), scaled(1.0))  # a warning would be an error here


def test_the_factor_is_the_distance_that_a_tenth_of_the_values_exceeds() -> None:
    data, scaling = scaled(1000.0), model_of_gappy().filter_.scaling
    distance = np.abs(data.values[:, 0] - scaling.mean[0]) / scaling.scale[0]
    with pytest.warns(PsimlearnWarning, match=re.escape(f"channel 'force <N>' {np.nanquantile(distance, 0.9):.3g}.")):
        model_of_gappy().predict(data)


def test_one_glitch_is_no_other_unit() -> None:
    rows = several()[3].copy()
    rows[5] = 1e6
    model().score_samples(rows)  # a warning would be an error here


def test_inputs_in_other_units_are_told() -> None:
    data = with_inputs(seed=3)
    wrong = Trajectories.of(data.values.reshape(20, 15, 1), 1000.0 * np.asarray(data.inputs).reshape(20, 15, 1))
    with pytest.warns(PsimlearnWarning, match=r"input 0 \d"):
        driven().predict(wrong)


def test_a_live_filter_tells_the_channel_and_the_factor_of_the_last_row() -> None:
    filter = model_of_gappy().filter_
    mean, scale = filter.scaling
    live = Live(filter)
    assert live.outside == []
    live.update(mean)
    assert live.outside == []
    live.update(mean + [0.0, -12.0] * scale)
    (found,) = live.outside
    assert (found.stream, found.channel) == (0, "b")
    assert found.factor == pytest.approx(12.0)
    live.update([np.nan, mean[1]])
    assert live.outside == []
    bank = Live(model().filter_, 2)
    mean, scale = model().filter_.scaling
    bank.update(np.array([mean, mean + [20.0, 1.0] * scale]))
    assert [each._replace(factor=round(each.factor, 9)) for each in bank.outside] == [Outside(1, 0, 20.0)]
    bank.reset()
    assert bank.outside == []


def test_without_standardisation_the_range_is_not_known() -> None:
    fitted = PSIM.as_published(2, n_rounds=1, random_state=0).fit(several())
    fitted.predict([100.0 * part for part in several()])  # a warning would be an error here
    live = fitted.start()
    live.update([1e6, 0.0])
    assert live.outside == []


def test_the_command_line_says_it_in_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model_of_gappy().save(tmp_path / "model.psim")
    for factor, said in ((1.0, False), (1000.0, True)):
        rows = "\n".join(
            ",".join("" if np.isnan(x) else repr(float(x)) for x in row) for row in scaled(factor)[0].values
        )
        (tmp_path / "new.csv").write_text(f"force <N>,b\n{rows}\n")
        assert run("forecast", tmp_path / "model.psim", tmp_path / "new.csv", "--steps", "2") == 0
        assert ("note: " in capsys.readouterr().err) == said
