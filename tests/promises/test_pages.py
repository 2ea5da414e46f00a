"""The pages of the documentation run, and what they show is what they print.

The blocks of a page run from top to bottom, Python blocks in one namespace, shell blocks in a shell, all in one folder:
a page reads like a session, and a block may use names and files that blocks above it made.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pages import AS_USERS, PAGES, ROOT, RUN, blocks, not_printed, of_pages


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
            line = not_printed(block.text, printed)
            assert not line, f"{page.name}, line {block.line}: shown but not printed: {line}\n{printed}"


def test_the_readme_says_how_near_the_optimum_the_demo_comes(environment: dict[str, str], tmp_path: Path) -> None:
    done = subprocess.run(
        ["psimlearn", "demo"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    above = dict(re.findall(r"^(\S+) .* (-?\d+\.\d)%$", done.stdout, re.M))
    sentence = (
        f"Its error on 1000 new recordings is {above['PSIM']} % above the Kalman filter that knows the system; "
        f"a tuned autoregression is {above['autoregression']} % above, N4SID {above['N4SID']} %."
    )
    assert sentence in " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())


def test_what_is_shown_and_not_printed_is_found() -> None:
    printed = "round 12 of 20\nPSIM  0.5505*  -15 %\n{'a': 1.25}\n1e-03\n"
    for shown in ("PSIM 0.5505* -15 %", "PSIM 0.5600* -15 %", "round 12\n{'a':\n1.26}", "1e-03", ""):
        assert not not_printed(shown, printed)
    for shown in (
        "PSIM 0.5700* -15 %",
        "PSIM 0.5505 -15 %",
        "PSIM 0.5505* -16 %",
        "round 13 of 20",
        "1.25\nround",
        "2e-03",
    ):
        assert not_printed(shown, printed)
    assert not not_printed('{"began":17.5,"row":3}', '{"began":99.5,"row":3}')
    assert not_printed("swing 7", "swing-7")
