"""The core installation: no library of any extra. All that the demo prints runs as printed; CSV goes in and out."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXTRAS = ("pyarrow", "pooch", "matplotlib", "jax", "optax", "av", "pandas", "polars")
"""Libraries that a core installation lacks."""


@pytest.fixture
def shell(tmp_path: Path) -> dict[str, str]:
    """An environment whose command `psimlearn` finds no library of the extras."""
    command = tmp_path / "bin" / "psimlearn"
    command.parent.mkdir()
    command.write_text(
        f"#!{sys.executable}\nimport sys\nsys.modules.update(dict.fromkeys({EXTRAS!r}))\n"
        "from psimlearn.cli.main import cli\ncli(prog_name='psimlearn')\n"
    )
    command.chmod(0o755)
    return os.environ | {"PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}"}


@pytest.mark.slow
def test_what_the_demo_prints_runs_in_a_core_installation(tmp_path: Path, shell: dict[str, str]) -> None:
    def run(line: str) -> str:
        words = ["bash", "-o", "pipefail", "-c", line]
        done = subprocess.run(words, cwd=tmp_path, env=shell, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{line}\n{done.stderr}"
        return done.stdout

    shown = run("psimlearn demo --recordings 12 --length 30")
    # the demo names the program beside its Python, which is not the core installation of this test
    printed = re.findall(r"^  \S*(?:psimlearn|python\S* -m psimlearn) (.*)$", shown, flags=re.MULTILINE)
    lines = [f"psimlearn {words}" for words in printed]
    assert [line.split()[1] for line in lines] == ["info", "fit", "evaluate", "forecast", "filter"]
    answers = {line.split()[1]: run(line) for line in lines}
    assert "--report" not in lines[1]
    assert list(tmp_path.glob("*/mine.psim"))
    assert answers["forecast"].startswith("recording,t,step,x,")
    assert answers["filter"].count("\n") == 10
