"""Every Python block in the documentation runs."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BLOCKS = [
    pytest.param(block, id=f"{page.name}:{i}")
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
    for i, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL))
]


@pytest.mark.parametrize("block", BLOCKS)
def test_block_runs(
    block: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where blocks leave their files
    exec(compile(block, "documentation", "exec"), {})
    assert "nan" not in capsys.readouterr().out


def test_the_demo_shows_its_table(capsys: pytest.CaptureFixture[str]) -> None:
    from psimlearn.demo import main

    main(n_recordings=50, length=40)
    out = capsys.readouterr().out
    for line in ("training mean", "last observation", "psimlearn", "optimal Kalman filter"):
        assert re.search(rf"{line} +\d+\.\d+ +\d+\.\d+ +-?\d+\.\d %", out)
