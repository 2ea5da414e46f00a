"""Plots show the numbers that they say."""

import sys

import matplotlib
import numpy as np
import pandas as pd
import pytest

from models import gappy, model_of_gappy
from psimlearn import PSIM, Trajectories, plot_errors, plot_forecast, plot_rounds, plot_surprise
from psimlearn.errors import MissingExtraError, SettingsError
from psimlearn.report.plots import check_installed
from psimlearn.train.score import Round

matplotlib.use("agg")


@pytest.fixture
def data() -> Trajectories:
    return gappy(1)


@pytest.fixture
def model() -> PSIM:
    return model_of_gappy()


def test_forecasts_are_drawn_as_predicted(model: PSIM, data: Trajectories) -> None:
    one = data[[2]]
    axes = plot_forecast(model, one, horizon=2, coverage=0.8)
    assert [ax.get_ylabel() for ax in axes] == ["force <N>", "b"]
    (low,), _ = model.predict_interval(one, 2, 0.8)
    (mean,) = model.predict(one, 2)
    for c, ax in enumerate(axes):
        predicted, observed = ax.get_lines()
        np.testing.assert_allclose(predicted.get_ydata(), mean[:, c], rtol=1e-12)
        np.testing.assert_array_equal(observed.get_ydata(), one.values[:, c])
        edge = ax.collections[0].get_paths()[0].vertices[:, 1].min()
        np.testing.assert_allclose(edge, low[:, c].min(), rtol=1e-12)
    (single,) = plot_forecast(model.filter_, one[0], channels=[1])
    assert single.get_ylabel() == "b"


def test_errors_are_drawn_by_method() -> None:
    ax = plot_errors({"last": [100.0, 200.0], "PSIM": [1.0, 2.0]}, units="std")
    assert ax.get_yscale() == "log"
    assert ax.get_ylabel() == "squared error (std)"
    assert {line.get_label(): list(line.get_ydata()) for line in ax.get_lines()} == {"last": [100, 200], "PSIM": [1, 2]}
    assert plot_errors({"PSIM": [1.0, 2.0]}).get_ylim()[0] == 0


def test_rows_that_are_drawn_rest_on_all_before_them(model: PSIM, data: Trajectories) -> None:
    whole, part = (plot_forecast(model, data[[0]], channels=[1], rows=rows)[0] for rows in (slice(None), slice(5, 9)))
    for all_rows, some in zip(whole.get_lines(), part.get_lines(), strict=True):
        np.testing.assert_array_equal(some.get_xdata(), np.arange(5, 9))
        np.testing.assert_array_equal(some.get_ydata(), all_rows.get_ydata()[5:9])


def test_rounds_are_drawn_with_their_best(model: PSIM) -> None:
    filter = model.filter_
    rounds = [Round(i, filter, error, 0.0, 0) for i, error in enumerate([3.0, np.inf, 1.0, 2.0])]
    lines = plot_rounds(rounds).get_lines()
    assert list(lines[0].get_xdata()) == [0, 2, 3]
    assert (list(lines[1].get_xdata()), lines[1].get_label()) == ([2], "best: round 2")
    with pytest.raises(SettingsError, match="received none among 1"):
        plot_rounds([rounds[1]])


def test_surprise_is_drawn_and_its_peaks_are_marked(model: PSIM, data: Trajectories) -> None:
    curve, marks = plot_surprise(model, data[0], n_marked=3).get_lines()
    nats = -model.score_samples(data[:1])[0]
    np.testing.assert_allclose(curve.get_ydata(), nats, rtol=1e-12)
    assert sorted(marks.get_xdata()) == sorted(np.argsort(nats)[-3:])


def test_plots_refuse_what_they_cannot_draw(model: PSIM, data: Trajectories, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingsError, match="required one recording, received 10"):
        plot_forecast(model, data)
    with pytest.raises(SettingsError, match="required a fitted PSIM or a Filter"):
        plot_surprise("model", data[0])
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"psimlearn\[plot\]"):
        check_installed()


def test_surprise_of_some_rows_keeps_their_numbers_and_their_past(model: PSIM, data: Trajectories) -> None:
    whole, _ = plot_surprise(model, data[0]).get_lines()
    part, marks = plot_surprise(model, data[0], rows=slice(7, 20), n_marked=2).get_lines()
    np.testing.assert_array_equal(part.get_xdata(), np.arange(7, 20))
    np.testing.assert_array_equal(part.get_ydata(), np.asarray(whole.get_ydata())[7:20])
    assert set(marks.get_xdata()) <= set(range(7, 20))


def test_rows_stand_at_their_times(model: PSIM, data: Trajectories) -> None:
    """Frames with dates, with seconds and without times; what is drawn is the same."""
    values = data[0].values[:20]
    dates = pd.date_range("2024-03-31T00:00Z", periods=20, freq="30s", name="when")
    frames = [
        pd.DataFrame(values, columns=list("ab"), index=dates),
        pd.DataFrame({"when": 5 + 0.5 * np.arange(20), "a": values[:, 0], "b": values[:, 1]}),
    ]
    by_date, by_second = (Trajectories.from_frame(frame, time="when") for frame in frames)
    plain, _ = plot_surprise(model, values).get_lines()
    for recording, expected in ((by_date, dates.tz_localize(None).to_numpy()), (by_second, 5 + 0.5 * np.arange(20))):
        for ax in (plot_surprise(model, recording), plot_forecast(model, recording[0])[-1]):
            assert ax.get_xlabel() == "time"
            np.testing.assert_array_equal(ax.get_lines()[0].get_xdata(), expected)
        curve = plot_surprise(model, recording, rows=slice(5, 9)).get_lines()[0]
        np.testing.assert_array_equal(curve.get_xdata(), expected[5:9])
        np.testing.assert_array_equal(curve.get_ydata(), np.asarray(plain.get_ydata())[5:9])
