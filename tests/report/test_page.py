"""The page: it shows the numbers that it says, and needs nothing else."""

import pickle
import re
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pytest

from models import gappy, model_of_gappy
from psimlearn import PSIM, Trajectories
from psimlearn.evaluate.calibrate import with_calibration
from psimlearn.evaluate.residuals import coverage, cross_calibrated, surprises
from psimlearn.filter import Stack
from psimlearn.filter.live import Live
from psimlearn.learners import Ridge
from psimlearn.recordings.times import Times, moment_of, times_of
from psimlearn.report import fit_page, model_page
from psimlearn.train import best, dagger


@pytest.fixture
def data() -> Trajectories:
    return gappy(1)


@pytest.fixture
def model() -> PSIM:
    return model_of_gappy()


@cache
def page_of_the_fit() -> str:
    """Drawn once: it takes a second."""
    return fit_page(model_of_gappy(), gappy(1), made={"command": "psimlearn fit a<b>.csv", "seed": 3})


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


ALWAYS = ["Words", "How this page was made"]
SECTIONS = [
    "What was learnt",
    "The recordings",
    "Error by steps ahead",
    "Rounds of training",
    "Predictions of a held-out recording",
    "A forecast",
    "Calibration",
    "Where it errs",
    "The most surprising moments",
    "What is left in the errors",
    *ALWAYS,
]


def test_the_page_of_a_fit(model: PSIM) -> None:
    page = page_of_the_fit()
    outline = Outline(page)
    assert outline.open == []
    assert outline.headings == SECTIONS
    assert len(outline.ids) == len(set(outline.ids))
    assert all(address.startswith("#") and address[1:] in outline.ids for address in outline.addresses)
    assert set(re.findall(r"url\(#(.*?)\)", page)) <= set(outline.ids)
    assert "http" not in re.sub(r'xmlns(:xlink)?="[^"]*"', "", page)
    assert "<script" not in page
    assert page.count("<svg") == 8
    assert "force <N>" in outline.cells  # escaped, so that it is text again
    assert "force <N>" not in page
    assert "#0a0b0c" not in page
    assert "var(--ink)" in page
    assert f"{model.report_['errors']['PSIM'][0]:.4g}" in outline.cells


def test_the_page_of_a_model_on_new_recordings(model: PSIM) -> None:
    new = gappy(2, n=3)
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
    outline = Outline(model_page(replace(model.filter_, calibration=None), {}, data, {"PSIM": [0.5]}))
    assert "Calibration" not in outline.headings
    assert "What is left in the errors" in outline.headings


def test_of_a_long_recording_the_rows_are_drawn_in_which_most_happens(model: PSIM) -> None:
    x = np.zeros((200, 2))
    x[130, 1], x[132, 0], x[134] = 3.0, 2.0, np.nan  # changes from row 129 to row 133
    page = model_page(model.filter_, model.report_, Trajectories.of(x), {"PSIM": [0.5]})
    (shown,) = set(re.findall(r"rows (\d+) to (\d+), where most happens", page))
    first, last = map(int, shown)
    assert last - first == 99
    assert first <= 129 < 133 <= last


def test_a_page_of_many_channels_says_what_it_leaves_out() -> None:
    rng = np.random.default_rng(0)
    data = Trajectories.of(rng.standard_normal((6, 30, 27)), rng.standard_normal((6, 30, 1)))
    filter = best(dagger(data, data, Stack(1), Ridge(1.0), rng=rng, n_rounds=1)).filter
    page = model_page(with_calibration(filter, [(filter, data)]), {}, data, {"PSIM": [0.5]})
    assert "2 more channels are not shown." in page
    assert ", 3 of 27 channels, predicted one step ahead" in page
    assert "<b>1</b><span>inputs</span>" in page


def test_a_page_of_single_rows_leaves_out_what_takes_two(model: PSIM) -> None:
    rows = Trajectories.of([part.values[:1] for part in gappy(2, n=3)])
    assert Outline(model_page(model.filter_, model.report_, rows, {})).headings == [
        "What was learnt",
        "The recordings",
        "Predictions of a held-out recording",
        *ALWAYS,
    ]


def test_recordings_stay_out_of_pickles(model: PSIM) -> None:
    assert model.held_out_
    assert pickle.loads(pickle.dumps(model)).held_out_ == []


def test_the_page_says_where_the_filter_errs(model: PSIM) -> None:
    """By channel and by recording, against errors computed apart."""
    crossed = cross_calibrated(model.held_out_)
    cells = Outline(page_of_the_fit()).cells
    errors = {}
    for filter, held in crossed:
        for i, part in enumerate(held):
            off = (part.values - filter.forecast(held[[i]], 1)[:, 0])[1:] / filter.scaling.scale
            errors[held.ids[i] if held.ids else i] = off
    together = np.concatenate(list(errors.values()))
    for c in range(2):
        assert f"{np.nanmean(together[:, c] ** 2):.4g}" in cells
    worst = max(errors, key=lambda each: np.nanmean(errors[each] ** 2, axis=0).sum())
    assert (str(worst), f"{np.nanmean(errors[worst] ** 2, axis=0).sum():.4g}") in pairwise(cells)


def test_the_page_says_how_it_was_made() -> None:
    page = page_of_the_fit()
    assert "<dt>command</dt><dd>psimlearn fit a&lt;b&gt;.csv</dd><dt>seed</dt><dd>3</dd>" in page
    assert re.search(r"<dt>day</dt><dd>\d{4}-\d\d-\d\d</dd><dt>versions</dt><dd>psimlearn .*numpy", page)
    assert "<dt>belief</dt>" in page


def test_drawings_have_labels_for_those_who_cannot_see_them() -> None:
    page = page_of_the_fit()
    assert len(re.findall(r'<svg[^>]* role="img" aria-label="[^"]{20,}"', page)) == page.count("<svg")


@pytest.mark.parametrize(
    ("ours", "said"), [(0.5, "is 50.0% of that of training mean"), (1.5, "training mean does better")]
)
def test_the_headline_compares_with_the_best_simple_method(model: PSIM, ours: float, said: str) -> None:
    errors = {"training mean": [1.0], "last observation": [9.0], "PSIM": [ours]}
    page = model_page(model.filter_, model.report_, gappy(2, n=3), errors)
    (lead,) = re.findall(r'<p class="lead">(.*?)</p>', page)
    assert said in lead
    assert re.findall(r'<td class="best">(.*?)</td>', page) == [f"{min(1.0, ours):.4g}"]


START = "2024-03-31T00:59:30+01:00"


def timed(data: Trajectories, kind: str) -> Trajectories:
    """The same recordings with times: one hour from one to the next, and half a minute from row to row."""
    rows = [3600.0 * i + 30.0 * t for i, length in enumerate(data.lengths) for t in range(length)]
    if kind == "number":
        return replace(data, times=times_of(np.array(rows)), step=30.0)
    start = moment_of(START)
    return replace(data, times=Times(np.array([start.ticks + int(row * 1e9) for row in rows]), start.kind), step=30.0)


@pytest.mark.parametrize("kind", ["number", "instant"])
def test_where_there_are_times_the_page_has_times_instead_of_row_numbers(
    model: PSIM, data: Trajectories, kind: str
) -> None:
    text = model_page(model.filter_, model.report_, timed(data, kind), {"PSIM": [0.5]})
    page = Outline(text)
    (first, *_) = surprises(model.filter_, data, 8, apart=3)
    seconds = 3600 * first.recording + 30 * first.row
    when = f"{seconds:.10g}" if kind == "number" else (np.datetime64("2024-03-30T23:59:30") + seconds).astype(str) + "Z"
    at = page.cells.index(when)
    assert data.ids is not None
    assert page.cells[at - 1] == data.ids[first.recording]
    assert ">row</th>" not in text
    assert "<b>30 s</b><span>from row to row</span>" in text
    assert re.search(r"all rows from time [\dT:Z-]+ on are predicted", text)
    assert not re.search(r"\brows? \d", text)
    assert text.count(">time<") == 4  # the table, and the axes of three figures


def test_stretches_of_a_long_recording_are_named_by_their_times(model: PSIM) -> None:
    x = np.zeros((400, 2))
    x[130, 1], x[132, 0], x[134] = 3.0, 2.0, np.nan
    long = timed(Trajectories.of(x), "number")
    page = model_page(model.filter_, model.report_, long, {"PSIM": [0.5]})
    (shown,) = set(re.findall(r", (\d+) to (\d+), where most happens", page))
    assert int(shown[1]) - int(shown[0]) == 99 * 30
    (shown,) = set(re.findall(r"most surprising row, (\d+) to (\d+)\.", page))
    assert int(shown[1]) - int(shown[0]) == 299 * 30


def test_held_out_stretches_keep_their_times() -> None:
    """One recording, cut in time: the recordings held out have no ids, and their rows still have their times."""
    rng = np.random.default_rng(0)
    one = timed(Trajectories.of(rng.standard_normal((90, 1)).cumsum(axis=0)), "number")
    model = PSIM(2, lags=1, prior="mean", belief_weight=1.0, n_rounds=1, random_state=0).fit(one)
    for _, held in cross_calibrated(model.held_out_):
        assert held.times is not None
        np.testing.assert_array_equal(one.values[(held.times.ticks / 30).astype(int)], held.values)


def test_the_page_tells_intervals_of_known_and_of_unknown_inputs_apart() -> None:
    """Against the coverage of intervals by a live filter, which knows no inputs to come."""
    rng = np.random.default_rng(0)
    u, x = rng.standard_normal((20, 30, 1)), np.zeros((20, 30, 1))
    for t in range(29):
        x[:, t + 1] = 0.8 * x[:, t] + u[:, t] + 0.1 * rng.standard_normal((20, 1))
    data = Trajectories.of(x, u)
    filter = best(dagger(data, data, Stack(2), Ridge(1e-3), rng=rng, n_rounds=1)).filter
    filter = with_calibration(filter, [(filter, data)])
    page = model_page(filter, {}, data, {"PSIM": [0.5]})
    said = dict(re.findall(r"(\d steps? ahead, inputs \w+), 90 % intervals hold ([\d.]+)%", page))
    assert list(said) == ["1 step ahead, inputs known", "2 steps ahead, inputs known", "2 steps ahead, inputs unknown"]
    inside = []
    for one in data:
        assert one.inputs is not None
        live = Live(filter)
        for t in range(len(one) - 2):
            live.update(one.values[t], one.inputs[t])
            _, low, high = live.predict(horizon=2, coverage=0.9)
            inside.append(low <= one.values[t + 2] <= high)
    assert float(said["2 steps ahead, inputs unknown"]) == pytest.approx(100 * np.mean(inside), abs=0.06)
    assert "Inputs of the predicted rows are known." in page
    assert filter.calibration_blind is not None
    wide = filter.calibration_blind._replace(base=1e4 * filter.calibration_blind.base)
    shares = [
        coverage(replace(filter, calibration_blind=wide), data, 2, [0.9], inputs_known=known)[0]
        for known in (True, False)
    ]
    assert shares[1] == 1.0  # the wider calibration counts where inputs are unknown, and there alone
    assert 100 * shares[0] == pytest.approx(float(said["2 steps ahead, inputs known"]), abs=0.06)
