"""Notebooks: cards of all values, progress in a cell, and plots and reports as methods."""

import re
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context

from psimlearn.choose.watch import Printed
from psimlearn.errors import DataError, SettingsError
from psimlearn.estimator.checks import watch_of
from psimlearn.estimator.progress import Bar
from psimlearn.estimator.psim import PSIM
from psimlearn.markup import card, chart, table
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.report import fit_page
from small import ONE, RNG, driven, model, several

HOSTILE = "<script>alert(1)</script>&\x1b[31m"
VOID = {"br", "img", "path"}


class Seen(HTMLParser):
    """The tags and the text of HTML; an error if tags do not match."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += f"{data} "


def named() -> Trajectories:
    return Trajectories.of(several(), names=[HOSTILE, "b"], ids=[HOSTILE, *"bcdefgh"], step="1h")


@cache
def hostile() -> PSIM:
    return PSIM(**ONE).fit(named())


def cards() -> dict[str, Any]:
    live, bank = hostile().start(alarm=0.01), hostile().start(12)
    live.update(np.array([0.5, np.nan]))
    symbols = Trajectories.of_symbols([["a", "<b>", "a"], ["a"]])
    return {
        "model": hostile(),
        "filter": hostile().filter_,
        "recordings": named(),
        "one row": Trajectories.of(np.full((1, 1), np.nan)),
        "symbols": symbols,
        "inputs and hints": Trajectories.of(np.zeros((9, 2)), np.zeros((9, 1)), hints=np.zeros((9, 1))),
        "driven": driven(),
        "driven filter": driven().filter_,
        "driven stream": driven().start(),
        "stream": live,
        "bank": bank,
    }


def shown(value: Any) -> str:
    return str(value._repr_mimebundle_()["text/html"] if isinstance(value, PSIM) else value._repr_html_())


@pytest.mark.parametrize("what", cards())
def test_a_card_is_small_sound_and_escaped(what: str) -> None:
    html = shown(cards()[what])
    seen = Seen(html)
    assert len(html) < 15_000
    assert "script" not in seen.tags
    assert "\x1b" not in html
    assert not re.search(r"(?<!border-)color: (#000|black|white|#fff)|background: (?!none)", html)  # of the notebook


def test_the_card_of_a_model_tells_the_summary() -> None:
    text = Seen(shown(hostile())).text
    report = hostile().report_
    assert "PSIM, fitted" in text
    assert "8 recordings" in text
    assert "1 h" in text
    for method, errors in report["errors"].items():
        assert method in text
        assert f"{errors[0]:.4g}" in text
        assert f"{errors[-1]:.4g}" in text


def test_the_least_error_of_each_column_is_bold() -> None:
    html = table(["", "1", "2"], [["a", 0.5, 3.0], ["b", 0.7, 2.0]], [None, 0, 1])
    assert re.findall(r"font-weight: bold[^>]*>([^<]*)<", html) == ["0.5", "2"]


def test_the_card_of_a_stream_tells_what_comes_next() -> None:
    live = hostile().start()
    live.update(several()[0][0])
    mean, std = live.predict(return_std=True)
    text = Seen(live._repr_html_()).text
    for m, s in zip(mean, std, strict=True):
        assert f"{m:.4g} ± {s:.2g}" in text
    assert f"{live.log_likelihood:.4g}" in text
    assert "12 streams" in repr(hostile().start(12))
    assert live.predict().tolist() == mean.tolist()  # a look changes nothing


def test_before_fit_scikit_learn_draws() -> None:
    unfitted = PSIM(window=3)
    assert "sk-" in unfitted._repr_mimebundle_()["text/html"]
    assert "PSIM, fitted" in model()._repr_html_()
    with config_context(display="text"):
        assert list(model()._repr_mimebundle_()) == ["text/plain"]
        assert not hasattr(model(), "_repr_html_")


def test_a_file_shows_what_it_holds(tmp_path: Path) -> None:
    hostile().save(tmp_path / "model.psim")
    assert shown(PSIM.load(tmp_path / "model.psim")) == shown(hostile())


def test_charts_have_gaps_and_are_nothing_without_numbers() -> None:
    drawn = chart({"x": [0.0, 1.0, np.nan, 3.0, np.inf, 2.0]}, "a line")
    path = re.findall(r' d="([^"]*)" fill', drawn)[0]
    assert path.count("M") == 3
    assert path.count("L") == 1
    assert chart({"x": [1.0]}, "") == chart({}, "") == chart({"x": [np.nan, np.nan]}, "") == ""
    assert "&lt;b&gt;" in card("<b>", {"<b>": "<b>"})


# -- progress ----------------------------------------------------------------------------------------------------------


class Kernel:
    kernel = True


class Terminal:
    pass


@pytest.fixture
def cells(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The output of a cell of a notebook, as `IPython.display` writes it."""
    written: list[str] = []

    class Handle:
        def update(self, html: str) -> None:
            written.append(html)

    def display(html: str, display_id: bool) -> Handle:
        assert display_id
        return Handle()

    ipython, shown_by = ModuleType("IPython"), ModuleType("IPython.display")
    ipython.get_ipython = Kernel  # type: ignore[attr-defined]
    shown_by.display, shown_by.HTML = display, str  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", shown_by)
    return written


def test_fit_shows_a_bar_in_a_notebook(cells: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    PSIM(**ONE | {"verbose": True}).fit(several())
    bars = [re.findall(r'value="(\d+)" max="(\d+)"', html)[0] for html in cells if "<progress" in html]
    assert bars
    assert all(int(done) <= int(total) for done, total in bars)
    for html in cells:
        Seen(html)
    assert capsys.readouterr() == ("", "")


def test_a_shell_in_a_terminal_gets_lines(cells: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(watch_of(True), Bar)
    assert not isinstance(watch_of(False), Bar)
    monkeypatch.setattr(sys.modules["IPython"], "get_ipython", Terminal)
    assert isinstance(watch_of(True), Printed)
    monkeypatch.setattr(sys.modules["IPython"], "get_ipython", lambda: None)
    assert isinstance(watch_of(2), Printed)


# -- plots and reports -------------------------------------------------------------------------------------------------


def test_plots_are_methods() -> None:
    frame = pd.DataFrame(several()[3], columns=[HOSTILE, "b"], index=pd.date_range("2024-01-01", periods=20, freq="h"))
    axes = hostile().plot_forecast(frame, horizon=2)
    assert len(axes) == 2
    drawn = next(line for line in axes[1].lines if line.get_label() == "predicted 2 rows ahead")
    np.testing.assert_allclose(drawn.get_ydata(), hostile().predict(frame, 2)["b"], rtol=1e-12)
    surprise = hostile().plot_surprise(frame).lines[0].get_ydata()
    np.testing.assert_array_equal(surprise, -hostile().score_samples(frame)["log_likelihood"])
    ours = next(line for line in hostile().plot_errors().lines if line.get_label() == "PSIM")
    assert ours.get_ydata().tolist() == hostile().report_["errors"]["PSIM"]
    assert len(hostile().plot_rounds().lines[0].get_ydata()) == len(hostile().rounds_)
    with pytest.raises(SettingsError, match="required one recording, received 8"):
        hostile().plot_forecast(named())


def test_a_report_is_the_page_of_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "out.html"
    model().report(path, several())
    assert path.read_text(encoding="utf-8") == fit_page(model(), Trajectories.of(several()))
    model().report(path)  # the recordings that were held out
    assert "the recordings that fit held out" in path.read_text(encoding="utf-8")


def test_a_model_from_a_file_reports_on_new_recordings(tmp_path: Path) -> None:
    model().save(tmp_path / "model.psim")
    loaded = PSIM.load(tmp_path / "model.psim")
    with pytest.raises(DataError, match=r"required recordings, received none.*report\(path, X\)"):
        loaded.report(tmp_path / "out.html")
    assert not (tmp_path / "out.html").exists()
    loaded.report(tmp_path / "out.html", [RNG(5).standard_normal((30, 2)) for _ in range(4)])
    assert "A filter on new recordings" in (tmp_path / "out.html").read_text(encoding="utf-8")
