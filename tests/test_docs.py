"""The documentation is true: its blocks run, its links lead somewhere, its API page agrees with the code.

The blocks of a page run from top to bottom, Python blocks in one namespace, shell blocks in a shell, all in one folder:
a page reads like a session, and a block may use names and files that blocks above it made.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

import psimlearn
import real

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
RUN, SHOWN = ("python", "sh"), ("text", "matlab", "math", "json")
"""Languages of blocks that run, and of blocks that are only shown."""
AS_USERS = {"PYTHONPATH": str(ROOT / "src"), "OPENBLAS_NUM_THREADS": "1", "MPLBACKEND": "agg"}
LOOKS_LIKE_CODE = re.compile(
    r"^\s*(>>>|import |from \w[\w.]* import|psimlearn |.*\| *psimlearn |.*PSIM\()", re.MULTILINE
)


class Block(NamedTuple):
    language: str
    text: str
    line: int
    """The line of the page at which the block begins."""


@cache
def parsed(page: Path) -> list[Token]:
    return MarkdownIt("commonmark").enable("table").parse(page.read_text(encoding="utf-8"))


def blocks(page: Path) -> list[Block]:
    """The fenced and the indented blocks of a page; an indented block has no language."""
    return [
        Block(token.info.strip(), token.content, token.map[0] + 1 if token.map else 0)
        for token in parsed(page)
        if token.type in ("fence", "code_block")
    ]


def of_pages(pages: list[Path]) -> list[object]:
    return [pytest.param(page, id=page.relative_to(ROOT).as_posix()) for page in pages]


# -- blocks ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Variables with which `psimlearn` runs this source, `make` only looks for its target, and `pip` does nothing."""
    commands = {
        "psimlearn": f'exec "{sys.executable}" -m psimlearn "$@"',
        "make": f'exec "{shutil.which("make")}" --dry-run --silent -C "{ROOT}" "$@" > /dev/null',
        "pip": "exit 0",
    }
    if shutil.which("cc") is None:  # a program that says nothing takes the place of the compiled one
        commands["cc"] = "printf '#!/bin/sh\\n' > main && chmod +x main"
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, line in commands.items():
        (folder / name).write_text(f"#!/bin/sh\n{line}\n")
        (folder / name).chmod(0o755)
    path = os.pathsep.join([str(folder), os.environ["PATH"]])
    return {**os.environ, **AS_USERS, "PATH": path}


@pytest.mark.parametrize("page", of_pages([page for page in PAGES if any(b.language in RUN for b in blocks(page))]))
def test_blocks_run_from_top_to_bottom(page: Path, environment: dict[str, str], tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    runnable = [block for block in blocks(page) if block.language in RUN]
    command = [sys.executable, "-W", "error", str(ROOT / "tests" / "session.py"), page.name]
    done = subprocess.run(
        command, input=json.dumps(runnable), cwd=work, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    said = dict(zip(runnable, json.loads(done.stdout), strict=True))
    printed = ""
    for block in blocks(page):
        printed = said.get(block, printed)
        assert not re.search(r"\bnan\b", printed), f"{page.name}, line {block.line}: printed nan"
        if block.language == "text":  # what the block above it prints
            missing = words(block.text) - words(printed)
            assert not missing, f"{page.name}, line {block.line}: shown but not printed: {missing}"


def words(text: str) -> set[str]:
    """The words of a text. Numbers are left out, because they differ a little from machine to machine."""
    return set(re.findall(r"[A-Za-z]{2,}", text))


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


@pytest.mark.parametrize("title", COMPARED)
def test_the_readme_compares_as_the_results_do(title: str) -> None:
    """Multiples of the one-step error of `PSIM()` on the folds that both have."""
    kept = json.loads(REAL.read_text(encoding="utf-8"))
    cells = []
    for name in SETS:
        ours, theirs = (kept[name].get(method, {"errors": []})["errors"] for method in ("PSIM()", COMPARED[title]))
        both = np.array([(a[0], b[0]) for a, b in zip(ours, theirs, strict=False)])
        cells.append(f"{both[:, 1].mean() / both[:, 0].mean():.2f}" if len(both) else "")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"| {title} | {' | '.join(cells)} |" in readme.replace("**", "")


def test_the_tables_of_real_recordings_are_the_results() -> None:
    page = (ROOT / "docs" / "real-data.md").read_text(encoding="utf-8")
    assert real.with_tables(page, json.loads(REAL.read_text(encoding="utf-8"))) == page


def test_the_pictures_can_be_drawn_again(tmp_path: Path) -> None:
    run(ROOT / "docs" / "figures.py", tmp_path, "--quick")
    for svg in (
        folder / f"{name}.svg" for folder in (tmp_path, ROOT / "docs" / "figures") for name in ("pendulum", "gap")
    ):
        text = svg.read_text(encoding="utf-8")
        assert text.rstrip().endswith("</svg>")
        assert text.count("line2d") > 10  # axes and lines, not an empty canvas
        assert len(text) < 100_000
