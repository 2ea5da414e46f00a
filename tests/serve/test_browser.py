"""The page in a real browser: Debian's Chromium, driven by playwright."""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from serving import Process, recordings, saved, serving, until

CHROMIUM = Path("/usr/bin/chromium")
playwright = pytest.importorskip("playwright.sync_api", reason="needs a browser driver: pip install playwright")
pytestmark = [
    pytest.mark.usefixtures("unchecked"),
    pytest.mark.skipif(not CHROMIUM.exists(), reason="needs a browser: apt-get install chromium"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        words = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        browser = driver.chromium.launch(executable_path=str(CHROMIUM), args=words)
        yield browser
        browser.close()


class Page:
    """A page that remembers what its console said."""

    def __init__(self, browser: Any, url: str, width: int = 1200, scheme: str = "light") -> None:
        self.context = browser.new_context(viewport={"width": width, "height": 850}, color_scheme=scheme)
        self.page = self.context.new_page()
        self.wrong: list[str] = []
        self.page.on("console", lambda m: self.wrong.append(m.text) if m.type in ("error", "warning") else None)
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.goto(url)

    def close(self) -> None:
        self.context.close()
        assert self.wrong == []

    def rows(self) -> int:
        """The rows of the stream that is shown large."""
        found = re.match(r"([\d,. ]+) rows", self.page.text_content("#facts"))
        return int(re.sub(r"\D", "", found[1])) if found else 0

    def range(self) -> list[float]:
        """The ends of the horizontal axis."""
        found: list[float] = self.page.evaluate("[plots[0].u.scales.x.min, plots[0].u.scales.x.max]")
        return found


def test_the_page_follows_the_demo(browser: Any, tmp_path: Path) -> None:
    server = Process("--demo", "--demo-streams", "6", "--demo-rate", "30", "--store", tmp_path / "demo.store")
    page = Page(browser, f"http://127.0.0.1:{server.port}/")
    try:
        view = page.page
        view.wait_for_selector(".row:not([hidden])")
        view.click(".row:not([hidden])")
        view.wait_for_selector("#plots canvas")
        until(lambda: view.evaluate("!!(detail && detail.rows && detail.rows.next > 20 && detail.fan)"), 30)
        first = page.rows()
        until(lambda: page.rows() > first)
        until(lambda: int(view.text_content("#n-alarms")) > 0 or view.query_selector("#alarms li:not(.none)"), 60)
        _zooms(page)
        _pauses(page)
        view.click("#channels button >> nth=0")
        until(lambda: len(view.query_selector_all(".plot")) == 2)
    finally:
        page.close()
        server.stop()


def _zooms(page: Page) -> None:
    box = page.page.query_selector(".u-over").bounding_box()
    wide = page.range()
    page.page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + 50)
    page.page.mouse.down()
    page.page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 50, steps=4)
    page.page.mouse.up()
    until(lambda: page.page.is_visible("#unzoom"))
    until(lambda: page.range()[1] - page.range()[0] < 0.5 * (wide[1] - wide[0]))
    zoomed = page.page.evaluate("zoomed")
    until(lambda: page.range() == pytest.approx(zoomed))
    time.sleep(0.5)
    assert page.range() == pytest.approx(zoomed), "rows that come in must not move a part that was chosen"
    page.page.click("#unzoom")
    until(lambda: page.range()[1] > zoomed[1])


def _pauses(page: Page) -> None:
    page.page.click("#pause")
    time.sleep(0.3)
    still = page.page.evaluate("plots[0].u.data[0].length + plots[0].u.data[0][0]")
    before = page.rows()
    until(lambda: page.rows() > before)
    assert page.page.evaluate("plots[0].u.data[0].length + plots[0].u.data[0][0]") == still
    page.page.click("#pause")
    until(lambda: page.page.evaluate("plots[0].u.data[0].length + plots[0].u.data[0][0]") != still)


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (390, "light"), (1200, "dark"), (1200, "light")])
def test_phones_and_desktops_in_light_and_dark(browser: Any, tmp_path: Path, width: int, scheme: str) -> None:
    with serving(saved(tmp_path)) as server:
        server.post(
            "s", [[a, None if 20 < i < 30 else b] for i, (a, b) in enumerate(recordings(1, 1, 60).values.tolist())]
        )
        page = Page(browser, f"http://localhost:{server.port}/", width, scheme)
        view = page.page
        view.wait_for_selector(".row:not([hidden])")
        view.click(".row:not([hidden])")
        until(lambda: view.evaluate("!!(view && view.row.length === 60)"), 30)
        assert view.is_visible("nav") == (width > 1000)
        assert view.evaluate("document.documentElement.scrollWidth <= innerWidth")
        paper = view.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, re.findall(r"\d+", paper))) < 200) == (scheme == "dark")
        holes = view.evaluate("plots[1].u.data[1].slice(0, 60).filter(v => v === null).length")
        assert holes == 9
        if width < 1000:
            view.click("#back")
            assert view.is_visible("nav")
        page.close()


def test_names_that_look_like_html_stay_text(browser: Any, tmp_path: Path) -> None:
    from psimlearn import PSIM, Trajectories

    evil = "<img src=x onerror=alert(1)>"
    data = recordings(0)
    named = Trajectories.of(list(data.values.reshape(8, 60, 2)), names=(evil, "</script>"))
    path = tmp_path / "model.psim"
    PSIM(window=2, lags=1, prior="mean", belief_weight=1.0, n_rounds=1, random_state=0).fit(named).save(path)
    with serving(path) as server:
        server.post("s", recordings(1, 1, 30).values.tolist())
        page = Page(browser, f"http://localhost:{server.port}/#s")
        page.page.wait_for_selector("#channels button")
        assert page.page.text_content("#channels button") == evil
        assert page.page.query_selector("main img") is None
        page.close()


def test_a_page_with_a_token(browser: Any, tmp_path: Path) -> None:
    from psimlearn.serve.tokens import Tokens

    with serving(saved(tmp_path), tokens=Tokens("r" * 20, "w" * 20)) as server:
        server.post("s", recordings(1, 1, 30).values.tolist())
        page = Page(browser, f"http://localhost:{server.port}/")
        page.page.wait_for_selector("#login:not([hidden])")
        page.page.fill("#token", "r" * 20)
        page.page.click("#login button")
        page.page.wait_for_selector(".row:not([hidden])")
        page.wrong = [text for text in page.wrong if "401" not in text]  # the browser notes the first refusal
        page.close()


def test_an_address_that_cannot_be_read_names_no_stream(browser: Any, tmp_path: Path) -> None:
    with serving(saved(tmp_path)) as server:
        server.post("s", recordings(1, 1, 30).values.tolist())
        page = Page(browser, f"http://localhost:{server.port}/#%E0%A4%A")
        page.page.wait_for_selector(".row:not([hidden])")
        until(lambda: page.page.text_content("#connection") == "live")
        page.close()
