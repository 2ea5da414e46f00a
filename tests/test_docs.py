"""The documentation is true: its links lead somewhere, its API page agrees with the code, its figures with results.

Its blocks are run by `promises/test_pages.py`.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import psimlearn
import quoted
import real
from pages import AS_USERS, PAGES, ROOT, RUN, SHOWN, blocks, of_pages, parsed

LOOKS_LIKE_CODE = re.compile(
    r"^\s*(>>>|import |from \w[\w.]* import|psimlearn |.*\| *psimlearn |.*PSIM\()", re.MULTILINE
)


# -- blocks ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", of_pages(PAGES))
def test_no_block_escapes_being_run(page: Path) -> None:
    for block in blocks(page):
        where = f"{page.name}, line {block.line}"
        assert block.language in (*RUN, *SHOWN, ""), f"{where}: a block of {block.language!r} is neither run nor shown"
        if block.language not in RUN:
            found = LOOKS_LIKE_CODE.search(block.text)
            assert not found, f"{where}: looks like code that should run: {found and found.group()}"


def test_what_looks_like_code_is_found() -> None:
    lines = ("import numpy", "from a import b", "m = PSIM(5)", "psimlearn fit a.csv", "cat a | psimlearn filter m -")
    for text in lines:
        assert LOOKS_LIKE_CODE.search(text)
    assert not LOOKS_LIKE_CODE.search("    m_{t+1} = B(z_t) + (x~_t repeated)\nPSIM   2.008")


@pytest.mark.parametrize("page", of_pages([page for page in PAGES if any(b.language == "math" for b in blocks(page))]))
def test_inline_formulas_hold_nothing_that_markdown_takes_for_its_own(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    formulas = re.findall(r"\$([^$]+)\$", text)
    assert len(formulas) > 10
    assert text.count("$") == 2 * len(formulas)
    for formula in formulas:
        assert not re.search(r"\\[^A-Za-z]|[*`|\n]", formula), f"{page.name}: {formula}"


# -- names of the code -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", of_pages(PAGES))
def test_pages_import_from_doors_only(page: Path) -> None:
    """A page needs `psimlearn` and its packages, never a module inside a package."""
    for block in blocks(page):
        assert not re.search(r"(from|import) psimlearn\.\w+\.\w", block.text), f"{page.name}, line {block.line}"


def test_the_map_names_every_room_and_only_files_that_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    source = ROOT / "src" / "psimlearn"
    rooms = {file.parent.name for file in source.glob("*/__init__.py")}
    assert rooms | {"checks", "extras", "factors", "markup", "shapes", "threads", "errors"} == set(
        re.findall(r"`(\w+)`", "".join(re.findall(r"^\| \d+ \|([^|]*)\|", text, re.M)))
    )
    named = re.findall(r"`((?:\w+/)+(?:\w+\.\w+)?)`", text)
    assert len(named) > 20
    for path in named:
        assert (source / path).exists() or (ROOT / path).exists(), path


# -- links -----------------------------------------------------------------------------------------------------------


def anchors(page: Path) -> set[str]:
    """The anchors of the headings of a page, as forges make them."""
    found: list[str] = []
    tokens = parsed(page)
    for opening, inline in pairwise(tokens):
        if opening.type == "heading_open":
            words = "".join(part.content for part in inline.children or [] if part.type in ("text", "code_inline"))
            slug = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
            found.append(slug if slug not in found else f"{slug}-{found.count(slug)}")
    return set(found)


def links(page: Path) -> Iterator[str]:
    for token in parsed(page):
        for part in token.children or []:
            target = part.attrs.get("href" if part.type == "link_open" else "src")
            if isinstance(target, str):
                yield target


@pytest.mark.parametrize("page", of_pages([*PAGES, ROOT / "CHANGELOG.md"]))
def test_links_lead_somewhere(page: Path) -> None:
    for link in links(page):
        if re.match(r"https?://|mailto:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page.name}: {link}"
        if anchor:
            assert anchor in anchors(target), f"{page.name}: {link}"


def test_every_page_is_listed() -> None:
    index = ROOT / "docs" / "index.md"
    listed = {(index.parent / link.partition("#")[0]).resolve() for link in links(index)}
    assert {page for page in (ROOT / "docs").glob("*.md") if page != index} <= listed
    assert index in {(ROOT / link.partition("#")[0]).resolve() for link in links(ROOT / "README.md")}


# -- made by scripts -------------------------------------------------------------------------------------------------


def run(*words: str | Path) -> None:
    """Run Python as users do. In this process the checks of annotations wrap every function of the package."""
    command = [sys.executable, *map(str, words)]
    done = subprocess.run(command, env={**os.environ, **AS_USERS}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_api_page_is_what_the_code_is() -> None:
    run(ROOT / "docs" / "make_api.py", "--check")


def test_the_api_page_has_every_public_name() -> None:
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    for name in psimlearn.__all__:
        assert re.search(rf"^- \*\*`{name}\b", text, flags=re.M), name
    for module in ("baselines", "datasets", "filter", "train"):
        source = (ROOT / "src" / "psimlearn" / module / "__init__.py").read_text(encoding="utf-8")
        for name in re.findall(r'"(\w+)"', source[source.index("__all__") :]):
            assert re.search(rf"^- (\*\*)?`{name}\b", text, flags=re.M), name


REAL = ROOT / "results" / "real.json"
COMPARED = {
    "last observation": "last observation",
    "autoregression": "AR, tuned",
    "N4SID": "N4SID",
    "predictive states (IVR)": "IVR",
    "linear system by EM": "EM",
    "trees on 5 lags": "ExtraTrees, 5 lags",
    "perceptron on 5 lags": "MLP, 5 lags",
    "recurrent network (GRU)": "GRU",
    '`PSIM(learner="auto")`': 'PSIM(learner="auto")',
}
SETS = ("HIRO assembly", "walking", "flag", "ocean", "HIRO, noise", "walking 30 Hz, legs, noise", "ocean, noise")


def compared(name: str, title: str, step: int = 0) -> str:
    """The multiple of the error of `PSIM()` on the folds that both have."""
    kept = json.loads(REAL.read_text(encoding="utf-8"))[name]
    ours, theirs = (kept.get(method, {"errors": []})["errors"] for method in ("PSIM()", COMPARED[title]))
    both = np.array([(a[step], b[step]) for a, b in zip(ours, theirs, strict=False)])
    return f"{both[:, 1].mean() / both[:, 0].mean():.2f}" if len(both) else ""


@pytest.mark.parametrize("title", COMPARED)
def test_the_readme_compares_as_the_results_do(title: str) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    cells = [compared(name, title) for name in SETS]
    assert f"| {title} | {' | '.join(cells)} |" in readme.replace("**", "")


def test_the_readme_says_who_wins_five_steps_ahead_on_the_robot() -> None:
    methods = ("trees on 5 lags", "recurrent network (GRU)", '`PSIM(learner="auto")`')
    trees, network, ours = (compared("HIRO assembly", title, step=2) for title in methods)
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert f"trees on lags have {trees} times the error of `PSIM()` and recurrent networks {network}: use" in readme
    assert f'use `PSIM(learner="auto")` there, which has {ours}.' in readme


def test_the_tables_of_real_recordings_are_the_results() -> None:
    page = (ROOT / "docs" / "real-data.md").read_text(encoding="utf-8")
    assert real.with_tables(page, json.loads(REAL.read_text(encoding="utf-8"))) == page


# -- speeds, which are measured by hand and kept ----------------------------------------------------------------------

SPEED = quoted.kept()


@pytest.mark.parametrize("page", of_pages(PAGES))
def test_speeds_are_those_that_were_measured(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert quoted.quoted(text, SPEED)[0] == text  # else: python benchmarks/quoted.py
    assert not quoted.unmarked(text, SPEED)
    assert not re.search(
        r"^\s*<!-- speed", text, re.M
    )  # such a line would be HTML, and the paragraph would end before it


@pytest.mark.parametrize(
    ("table", "page"),
    [
        ("update", "performance"),
        ("bank", "performance"),
        ("run", "performance"),
        ("export", "export"),
        ("gaps", "missing-data"),
    ],
)
def test_speeds_name_their_machine(table: str, page: str) -> None:
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    assert f"<!-- speed of {table}: " in text
    assert SPEED[table]["machine"] in re.sub(r"\s+", " ", text)


def test_a_speed_that_differs_or_has_no_marker_is_found() -> None:
    found = {"t": {"rows": {"ours": {"2": 2.36, "13": 1234.5}, "theirs": {"2": 4.72, "13": 12_345.0}}}}
    page = "It takes <!-- speed of t: ours -->9.9 and 9 999 us, <!-- speed of t: theirs / ours at 13 -->5 times that."
    assert quoted.quoted(page, found)[0] == page.replace("9.9 and 9 999", "2.4 and 1 234").replace(">5 ", ">10 ")
    assert not quoted.unmarked(page, found)
    assert quoted.unmarked(f"{page} It took 3.5 us.", found) == ["3.5 us"]
    assert not quoted.unmarked(f"{page} It took 3.5 us.<!-- speed: once -->", found)
    table = "| microseconds | 2 | 13 |\n|---|---|---|\n| ours <!-- speed of t: ours --> | 9.9 | 1 |\n"
    assert quoted.quoted(table, found)[0] == table.replace("| 9.9 | 1 |", "| 2.4 | 1 234 |")
    assert not quoted.unmarked(table, found)
    assert quoted.unmarked(f"{table}| theirs | 4.7 | 12 |\n", found) == ["| theirs | 4.7 | 12 |"]
    with pytest.raises(SystemExit, match="required 2 figures after it"):
        quoted.quoted("<!-- speed of t: ours -->2.4 us", found)


@pytest.mark.parametrize("page", of_pages(PAGES))
def test_nothing_is_installed_by_a_name_that_anyone_may_take(page: Path) -> None:
    """Until the package is on an index, pages install it from a checkout or a wheel."""
    text = page.read_text(encoding="utf-8")
    assert not re.search(r"pip install(?!.*\.whl)[^`&\n]*\bpsimlearn\b", text)


# -- pictures ---------------------------------------------------------------------------------------------------------


def test_the_pictures_can_be_drawn_again(tmp_path: Path) -> None:
    run(ROOT / "docs" / "figures.py", tmp_path, "--quick")
    for svg in (
        folder / f"{name}.svg" for folder in (tmp_path, ROOT / "docs" / "figures") for name in ("pendulum", "gap")
    ):
        text = svg.read_text(encoding="utf-8")
        assert text.rstrip().endswith("</svg>")
        assert text.count("line2d") > 10  # axes and lines, not an empty canvas
        assert len(text) < 100_000
