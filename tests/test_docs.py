"""Every Python block in the documentation runs."""

import re
from pathlib import Path

import pytest

from psimlearn.cli.main import cli

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


def test_the_demo_shows_its_table_and_leaves_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "demo"
    words = ["demo", "--recordings", "30", "--length", "40", "--folder", str(folder)]
    with pytest.raises(SystemExit) as left:
        cli.main(words, prog_name="psimlearn")
    assert left.value.code == 0
    out = capsys.readouterr().out
    for line in ("training mean", "last observation", "autoregression", "N4SID", "PSIM", "optimal Kalman filter"):
        assert re.search(rf"{line} +\d+\.\d+ +\d+\.\d+ +-?\d+\.\d%", out)
    assert sorted(path.name for path in folder.iterdir()) == ["model.psim", "new.csv", "recordings.csv", "report.html"]
    assert f"psimlearn fit {folder}/recordings.csv" in out
    with pytest.raises(SystemExit) as left:
        cli.main(words, prog_name="psimlearn")
    assert left.value.code == 2
    assert "--force" in capsys.readouterr().err
