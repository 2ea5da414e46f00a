"""The checker of the site's links finds what leads nowhere, and only that."""

import subprocess
import sys
from pathlib import Path

CHECKER = Path(__file__).parent.parent.parent / "docs" / "site" / "links.py"
PAGES = {
    "index.html": '<a href="sub/a.html#there">1</a> <a href="#here">2</a> <p id="here"></p> <img src="x.svg">'
    '<a href="https://example.org/none">3</a> <a href="sub/">4</a> <a href="/sub/a.html">5</a>',
    "sub/index.html": '<a href="..">up</a> <a href="../index.html">up</a>',
    "sub/a.html": '<h2 id="there"></h2>',
    "x.svg": "<svg></svg>",
}


def said(folder: Path, pages: dict[str, str]) -> tuple[int, str]:
    for name, text in pages.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    done = subprocess.run([sys.executable, CHECKER, folder], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_links_that_lead_somewhere_pass(tmp_path: Path) -> None:
    assert said(tmp_path, PAGES) == (0, "3 pages: every link leads somewhere\n")


def test_links_that_lead_nowhere_are_named(tmp_path: Path) -> None:
    bad = '<a href="none.html"></a><a href="a.html#gone"></a><img src="../y.svg"><a href="#lost"></a>'
    code, text = said(tmp_path, PAGES | {"sub/b.html": bad})
    assert code == 1
    assert text.splitlines()[1:] == [
        *("sub/b.html: #lost", "sub/b.html: ../y.svg", "sub/b.html: a.html#gone", "sub/b.html: none.html")
    ]


def test_an_empty_folder_is_no_site(tmp_path: Path) -> None:
    assert said(tmp_path, {})[0] == 1
