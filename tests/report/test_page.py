"""Plots and the report: that they show the numbers that they say, and that the page needs nothing else."""

import re
from html.parser import HTMLParser

import matplotlib
import numpy as np
import pytest
from statsmodels.tsa.stattools import acf

from psimlearn import PSIM, Trajectories, plot_errors, plot_forecast, plot_rounds, plot_surprise
from psimlearn.datasets import random_system
from psimlearn.errors import MissingExtraError, SettingsError
from psimlearn.evaluate import residuals as measures
from psimlearn.report import fit_page, model_page
from psimlearn.report.plots import check_installed
from psimlearn.report.quality import _liveliest
from psimlearn.train.score import Round

matplotlib.use("agg")


def recordings(seed: int, n: int = 10, length: int = 40) -> Trajectories:
    values = random_system(np.random.default_rng(0)).simulate(n, length, np.random.default_rng(seed)).values.copy()
    values[5::17, 0] = np.nan
    parts = np.split(values, n)
    return Trajectories.of(parts, names=("force <N>", "b"), ids=[f"r&{i}" for i in range(n)])


@pytest.fixture(scope="module")
def data() -> Trajectories:
    return recordings(1)


@pytest.fixture(scope="module")
def model(data: Trajectories) -> PSIM:
    return PSIM(3, lags=1, prior="mean", belief_weight=1.0, n_rounds=4, random_state=0).fit(data)


# -- plots -------------------------------------------------------------------------------------------------------------


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


def test_the_stretch_in_which_most_happens() -> None:
    x = np.zeros((50, 2))
    x[31, 1], x[33, 0], x[10, 0], x[12] = 3.0, 2.0, 1.0, np.nan
    start = _liveliest(x, 6)
    assert start <= 30  # from before the first change
    assert start + 6 > 34  # until after the last
    assert _liveliest(x, 50) == _liveliest(x, 80) == 0
    assert _liveliest(x[:1], 80) == 0


def test_rounds_are_drawn_with_their_best(model: PSIM) -> None:
    filter = model.filter_
    rounds = [Round(i, filter, error, 0.0, 0) for i, error in enumerate([3.0, np.inf, 1.0, 2.0])]
    lines = plot_rounds(rounds).get_lines()
    assert list(lines[0].get_xdata()) == [0, 2, 3]
    assert (list(lines[1].get_xdata()), lines[1].get_label()) == ([2], "best: round 2")
    with pytest.raises(SettingsError, match="received none"):
        plot_rounds([rounds[1]])


def test_surprise_is_drawn_and_its_peaks_are_marked(model: PSIM, data: Trajectories) -> None:
    curve, marks = plot_surprise(model, data[0], n_marked=3).get_lines()
    nats = -model.score_samples(data[:1])[0]
    np.testing.assert_allclose(curve.get_ydata(), nats, rtol=1e-12)
    assert sorted(marks.get_xdata()) == sorted(np.argsort(nats)[-3:])


def test_plots_refuse_what_they_cannot_draw(model: PSIM, data: Trajectories, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingsError, match="required one, received 10"):
        plot_forecast(model, data)
    with pytest.raises(SettingsError, match="required a fitted PSIM or a Filter"):
        plot_surprise("model", data[0])
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"psimlearn\[plot\]"):
        check_installed()


# -- measures ----------------------------------------------------------------------------------------------------------


def test_autocorrelation_is_that_of_statsmodels() -> None:
    x = np.random.default_rng(0).standard_normal((300, 2)).cumsum(axis=0)
    ours = measures.autocorrelation([x], 5)
    for c in range(2):
        theirs = acf(x[:, c], adjusted=True, nlags=5)[1:]
        np.testing.assert_allclose(ours[:, c], theirs, rtol=1e-10)


def test_autocorrelation_stays_within_recordings_and_skips_gaps() -> None:
    first, second = np.array([[1.0], [-1.0], [1.0]]), np.array([[-1.0], [np.nan], [-1.0], [1.0]])
    mean = 0.0
    assert mean == np.nanmean(np.concatenate([first, second]))
    np.testing.assert_allclose(measures.autocorrelation([first, second], 2)[:, 0], [-1.0, 2 / 2 - 0.0], atol=1e-12)
    still = np.zeros((4, 1))
    assert np.isnan(measures.autocorrelation([still], 1)).all()


def test_correlation_is_that_of_numpy() -> None:
    x = np.random.default_rng(0).standard_normal((50, 3)) @ np.array([[1, 0.5, 0], [0, 1, 0], [0.2, 0, 1]])
    np.testing.assert_allclose(measures.correlation([x[:20], x[20:]]), np.corrcoef(x.T), rtol=1e-10)
    x[3, 1] = np.nan
    np.testing.assert_allclose(measures.correlation([x]), np.corrcoef(np.delete(x, 3, 0).T), rtol=1e-10)
    assert measures.correlation([x[3:4]]).tolist() == np.eye(3).tolist()


def test_coverage_is_counted(model: PSIM, data: Trajectories) -> None:
    low, high = model.predict_interval(data, 2, 0.5)
    inside = [
        (part.values[2:] >= low[i][2:])[~np.isnan(part.values[2:])]
        & (part.values[2:] <= high[i][2:])[~np.isnan(part.values[2:])]
        for i, part in enumerate(data)
    ]
    np.testing.assert_allclose(measures.coverage(model.filter_, data, 2, [0.5]), [np.concatenate(inside).mean()])


def test_nothing_is_calibrated_where_it_is_judged(model: PSIM) -> None:
    crossed = measures.cross_calibrated(model.held_out_)
    assert len(crossed) == 2 * len(model.held_out_)
    for (first, here), (_, there) in zip(crossed[::2], crossed[1::2], strict=True):
        assert set(here.ids or ()).isdisjoint(there.ids or ())
        assert first.calibration is not None
        changed = measures.coverage(first, here, 1, [0.9])
        assert 0 < changed[0] <= 1


def test_the_row_that_was_pushed_is_the_most_surprising(model: PSIM, data: Trajectories) -> None:
    values = [part.values.copy() for part in data]
    values[4][20, 1] += 50
    values[7][30, 1] -= 20
    pushed = Trajectories.of(values, names=data.names)
    first, second = measures.surprises(model.filter_, pushed, 2, apart=3)
    assert (first.recording, first.row, first.channel) == (4, 20, 1)
    assert (second.recording, second.row, second.channel) == (7, 30, 1)
    assert first.deviations > 0 > second.deviations
    np.testing.assert_allclose(first.nats, model.score_samples(pushed)[4][20])


@pytest.mark.parametrize(("gaps", "longest"), [([1, 2], 0), ([1, None, None, 2, None], 2), ([None, None], 2)])
def test_longest_gap(gaps: list[float | None], longest: int) -> None:
    assert measures.longest_gap(np.array([np.nan if g is None else g for g in gaps], dtype=float)) == longest


# -- the page ----------------------------------------------------------------------------------------------------------


class Outline(HTMLParser):
    """What a browser would make of a page: that tags close, ids are used once, and nothing is fetched."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.addresses: list[str] = []
        self.headings: list[str] = []
        self.cells: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value or "" for name, value in attrs if name == "id"]
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href", "srcset")]
        if tag not in ("meta", "br", "link", "img"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "h2":
            self.headings.append(data)
        if self.open and self.open[-1] == "td":
            self.cells.append(data)


SECTIONS = [
    "What was learnt",
    "The recordings",
    "Error by steps ahead",
    "Rounds of training",
    "Predictions of a held-out recording",
    "Calibration",
    "The most surprising moments",
    "What is left in the errors",
]


def test_the_page_of_a_fit(model: PSIM, data: Trajectories) -> None:
    page = fit_page(model, data)
    outline = Outline(page)
    assert outline.open == []
    assert outline.headings == SECTIONS
    assert len(outline.ids) == len(set(outline.ids))
    assert all(address.startswith("#") and address[1:] in outline.ids for address in outline.addresses)
    assert set(re.findall(r"url\(#(.*?)\)", page)) <= set(outline.ids)
    assert "http" not in re.sub(r'xmlns(:xlink)?="[^"]*"', "", page)
    assert "<script" not in page
    assert page.count("<svg") == 7
    assert "force <N>" in outline.cells  # escaped, so that it is text again
    assert "force <N>" not in page
    assert "#0a0b0c" not in page
    assert "var(--ink)" in page
    assert f"{model.report_['errors']['PSIM'][0]:.4g}" in outline.cells


def test_the_page_of_a_model_on_new_recordings(model: PSIM) -> None:
    new = recordings(2, n=3)
    outline = Outline(model_page(model.filter_, model.report_, new, {"PSIM": [0.5, 0.7]}))
    assert outline.headings == [title for title in SECTIONS if title != "Rounds of training"]
    assert {"0.5", "0.7"} <= set(outline.cells)


@pytest.mark.parametrize("length", [12, 60])
def test_a_page_of_little(length: int) -> None:
    """One recording, one channel, too short to hold anything out or just long enough."""
    one = Trajectories.of(np.sin(np.arange(length))[:, None] + 0.1 * np.cos(7 * np.arange(length))[:, None])
    model = PSIM(2, lags=1, prior="mean", belief_weight=1.0, n_rounds=1, random_state=0).fit(one)
    outline = Outline(fit_page(model, one))
    assert outline.headings[:2] == SECTIONS[:2]
    assert outline.open == []


def test_a_filter_without_report_or_calibration_has_a_page(model: PSIM, data: Trajectories) -> None:
    from dataclasses import replace

    outline = Outline(model_page(replace(model.filter_, calibration=None), {}, data, {"PSIM": [0.5]}))
    assert "Calibration" not in outline.headings
    assert "What is left in the errors" in outline.headings


def test_recordings_stay_out_of_pickles(model: PSIM) -> None:
    import pickle

    assert model.held_out_
    assert pickle.loads(pickle.dumps(model)).held_out_ == []
